//! ApacheBench's command line: single letters, values attached or separate, flags in clusters,
//! options before the URL. The options are turned into a plan. Nothing is read from disk and
//! nothing is sent.
//!
//! Invariant: every option is either applied or refused. [`AbOptions::without_effect`] names the
//! options that change nothing.
//!
//! Known faults of `ab` are not copied. Several `-C` add up, and numbers are parsed to their end.
//! An unsupported TLS version is an error instead of another version.

use super::usage::later_option;
use crate::values::header;
use address::HttpUrl;
use message::Method;
use record::{Expect, Length, Plan, Protocol, Stop};
use report::ab::html::Attributes;
use std::path::PathBuf;
use std::time::Duration;
use tls_terms::TlsVersion;

/// Number of requests that `-t` sets unless a `-n` follows.
const REQUESTS_WITH_TIME: u64 = 50_000;

/// Options without a value.
const FLAGS: &str = "klrqdSihVwI";

/// Options with a value.
const VALUED: &str = "nctsbBHCATpumvegPXxyzZfE";

/// A parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommandLine {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Run a load.
    Run(Box<AbOptions>),
}

/// A load as `ab`'s options describe it. Files are paths that have not been read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AbOptions {
    /// The plan. Its body is filled in later from [`AbOptions::body_file`].
    pub(crate) plan: Plan,
    /// `-p` or `-u`: the file with the content of every request.
    pub(crate) body_file: Option<PathBuf>,
    /// `-T`: the media type of that content.
    pub(crate) content_type: String,
    /// `-B`, if it is a host name: the local address to connect from.
    pub(crate) source_name: Option<String>,
    /// `-w`, `-x`, `-y` and `-z`: the report as an HTML table.
    pub(crate) is_html: bool,
    /// `-x`, `-y` and `-z`: attributes of the tags in that table.
    pub(crate) attributes: Attributes,
    /// `-v`: 2 and above print the request and the head of the first response, 3 and above its
    /// status.
    pub(crate) verbosity: u32,
    /// `-q`: no progress.
    pub(crate) quiet: bool,
    /// `-d`: no percentile table.
    pub(crate) no_percentiles: bool,
    /// `-S`: no median and deviation.
    pub(crate) no_spread: bool,
    /// `-e`: file for the percentiles.
    pub(crate) csv_file: Option<PathBuf>,
    /// `-g`: file with a row for each response.
    pub(crate) gnuplot_file: Option<PathBuf>,
    /// The letters of all options that were given.
    given: String,
}

/// Option letters and their values, in the order of the command line.
type GivenOptions = Vec<(char, String)>;

/// Parses the arguments after the word `ab`.
///
/// # Errors
/// A sentence that names the option and its problem.
pub(crate) fn parse(arguments: &[String]) -> Result<CommandLine, String> {
    let (given, rest) = split(arguments)?;
    if given.iter().any(|(letter, _)| *letter == 'h') {
        return Ok(CommandLine::Help);
    }
    if given.iter().any(|(letter, _)| *letter == 'V') {
        return Ok(CommandLine::Version);
    }
    let [url] = rest else {
        return Err("wrong number of arguments: exactly one URL comes after the options".into());
    };
    let mut options = AbOptions::new(target(url)?);
    let mut requests = 1;
    options.given = given.iter().map(|(letter, _)| *letter).collect();
    for (letter, value) in &given {
        options.apply(*letter, value, &mut requests)?;
    }
    options.plan.tls.name = named_by_host(&options.plan);
    options.plan.stop.requests = Some(requests);
    if options.plan.users as u64 > requests {
        return Err("cannot use concurrency level greater than total number of requests".into());
    }
    if options.gnuplot_file.is_some() {
        options.plan.samples_max = requests.min(record::SAMPLES_MAX);
    }
    options.plan.check().map_err(|error| error.to_string())?;
    Ok(CommandLine::Run(Box::new(options)))
}

/// Splits the options from the remaining arguments. The first argument of another kind ends the
/// options.
fn split(arguments: &[String]) -> Result<(GivenOptions, &[String]), String> {
    let mut given = Vec::new();
    let mut rest = arguments;
    while let [first, after @ ..] = rest {
        let Some(cluster) = first.strip_prefix('-').filter(|cluster| !cluster.is_empty()) else { break };
        rest = after;
        if cluster == "-" {
            break;
        }
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            if FLAGS.contains(letter) {
                given.push((letter, String::new()));
                continue;
            }
            if !VALUED.contains(letter) {
                return Err(refusal(letter));
            }
            let attached = letters.as_str();
            let value = match (attached, rest) {
                ("", [value, after @ ..]) => {
                    rest = after;
                    value
                }
                ("", []) => return Err(format!("option -{letter} needs a value")),
                (attached, _) => attached,
            };
            given.push((letter, value.to_owned()));
            break;
        }
    }
    Ok((given, rest))
}

fn refusal(letter: char) -> String {
    match later_option(letter) {
        Some((what, instead)) => {
            format!("-{letter} ({what}) is no option of ab 2.4 but of a version not released; {instead}")
        }
        None => format!("unknown option -{letter}"),
    }
}

/// The host name in the last `Host` header field of the plan, for the TLS handshake.
fn named_by_host(plan: &Plan) -> Option<String> {
    let (_, host) = plan.headers.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
    HttpUrl::parse(&format!("https://{host}/")).ok().map(|target| target.host())
}

/// Parses a proxy given as `HOST:PORT`.
fn proxy(text: &str) -> Result<HttpUrl, String> {
    let bad = || format!("invalid proxy {text:?} for -X: write HOST:PORT, as in 127.0.0.1:3128");
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#']);
    match port.parse() {
        Ok(1..=u16::MAX) if is_host => HttpUrl::parse(&format!("http://{text}/")).map_err(|_| bad()),
        _ => Err(bad()),
    }
}

/// Parses the name of a TLS version; `None` means all versions.
fn tls_version(text: &str) -> Result<Option<TlsVersion>, String> {
    match text.to_ascii_uppercase().as_str() {
        "ALL" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::Tls12)),
        "TLS1.3" => Ok(Some(TlsVersion::Tls13)),
        _ => Err(format!("protocol {text:?} for -f is not spoken: TLS1.2, TLS1.3 and ALL are")),
    }
}

/// Parses the URL, which needs a path and may omit `http://`.
fn target(url: &str) -> Result<HttpUrl, String> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let has_path = with_scheme.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if !has_path {
        return Err(format!("{url}: invalid URL: it needs a path, as in http://HOST/"));
    }
    HttpUrl::parse(&with_scheme).map_err(|error| error.to_string())
}

impl AbOptions {
    fn new(target: HttpUrl) -> Self {
        let mut plan = Plan::new(target);
        plan.http = Protocol::Http10;
        plan.keep_alive = false;
        // Like `ab`, which neither verifies certificates nor resumes TLS sessions and has no
        // options for them.
        plan.tls.is_verified = false;
        plan.tls.is_resumed = false;
        plan.stop = Stop { at_first_receive_error: true, ..Stop::default() };
        Self {
            plan,
            body_file: None,
            content_type: "text/plain".to_owned(),
            source_name: None,
            is_html: false,
            attributes: Attributes::default(),
            verbosity: 0,
            quiet: false,
            no_percentiles: false,
            no_spread: false,
            csv_file: None,
            gnuplot_file: None,
            given: String::new(),
        }
    }

    fn apply(&mut self, letter: char, value: &str, requests: &mut u64) -> Result<(), String> {
        let plan = &mut self.plan;
        match letter {
            'n' => *requests = number(letter, value, "number of requests")?,
            'c' => plan.users = number(letter, value, "number of concurrent requests")? as usize,
            't' => {
                plan.stop.time = time(letter, value)?;
                *requests = REQUESTS_WITH_TIME;
            }
            's' => plan.timeout = Duration::from_secs(number(letter, value, "number of seconds")?),
            'k' => plan.keep_alive = true,
            'l' => plan.expect = Expect { length: Length::Variable, ..Expect::default() },
            'r' => plan.stop.at_first_receive_error = false,
            'i' => self.method(Method::Head, None)?,
            'p' => self.method(Method::Post, Some(value))?,
            'u' => self.method(Method::Put, Some(value))?,
            'm' => plan.method = Method::from_token(value.as_bytes()),
            'T' => value.clone_into(&mut self.content_type),
            'H' => plan.headers.push(header(value)?),
            'C' => plan.cookies.push(value.to_owned()),
            'A' => plan.basic_auth = Some(value.trim_start().to_owned()),
            'P' => plan.proxy_auth = Some(value.trim_start().to_owned()),
            'b' | 'B' | 'X' | 'I' | 'Z' | 'f' | 'E' => self.apply_to_connections(letter, value)?,
            _ => self.apply_to_output(letter, value)?,
        }
        Ok(())
    }

    fn apply_to_connections(&mut self, letter: char, value: &str) -> Result<(), String> {
        let plan = &mut self.plan;
        match letter {
            'b' => {
                let bytes = value.parse().map_err(|_| format!("invalid size {value:?} for -b"))?;
                plan.socket_buffer_bytes = Some(bytes).filter(|&bytes| bytes > 0);
            }
            'B' => {
                plan.source = value.parse().ok();
                self.source_name = plan.source.is_none().then(|| value.to_owned());
            }
            'X' => plan.proxy = Some(proxy(value)?),
            'I' => plan.tls.server_name = false,
            'Z' => {
                let suites = value.parse().map_err(|error| format!("-Z: {error}"))?;
                plan.tls.terms.suites = Some(suites);
            }
            'f' => plan.tls.terms.version = tls_version(value)?,
            _ => plan.tls.terms.identity_file = Some(PathBuf::from(value)),
        }
        Ok(())
    }

    fn apply_to_output(&mut self, letter: char, value: &str) -> Result<(), String> {
        // An attribute of the HTML table implies the HTML table.
        self.is_html |= matches!(letter, 'w' | 'x' | 'y' | 'z');
        match letter {
            'v' => {
                self.verbosity = value.parse().map_err(|_| format!("invalid verbosity {value:?} for -v"))?;
            }
            'q' => self.quiet = true,
            'd' => self.no_percentiles = true,
            'S' => self.no_spread = true,
            'e' => self.csv_file = Some(PathBuf::from(value)),
            'g' => self.gnuplot_file = Some(PathBuf::from(value)),
            'w' => {}
            'x' => value.clone_into(&mut self.attributes.table),
            'y' => value.clone_into(&mut self.attributes.row),
            'z' => value.clone_into(&mut self.attributes.cell),
            other => return Err(refusal(other)),
        }
        Ok(())
    }

    /// Options on the command line that change nothing, each with the condition that it lacks.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let is_plain = !self.plan.target.is_https();
        let needs = |letter: char| match letter {
            'I' | 'Z' | 'f' | 'E' if is_plain => Some("an https URL"),
            'T' if self.body_file.is_none() => Some("-p or -u"),
            'd' | 'S' if self.is_html => Some("the report as text, without -w, -x, -y and -z"),
            _ => None,
        };
        let notes = "IZfETdS".chars().filter(|&letter| self.given.contains(letter));
        notes
            .filter_map(|letter| Some(format!("-{letter} has no effect: it needs {}", needs(letter)?)))
            .collect()
    }

    /// Sets the method and the body. `-i`, `-p` and `-u` exclude each other. A method given with
    /// `-m` is kept and sent with the body.
    fn method(&mut self, method: Method, body_file: Option<&str>) -> Result<(), String> {
        let taken = matches!(self.plan.method, Method::Head | Method::Post | Method::Put);
        if taken {
            return Err(format!("cannot mix {method} with {}", self.plan.method));
        }
        if self.plan.method == Method::Get {
            self.plan.method = method;
        }
        self.body_file = body_file.map(PathBuf::from);
        Ok(())
    }
}

fn number(letter: char, value: &str, what: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|&number: &u64| number > 0);
    number.ok_or_else(|| format!("invalid {what} {value:?} for -{letter}"))
}

/// A time limit in seconds. 0 means no limit, as in `ab`.
fn time(letter: char, value: &str) -> Result<Option<Duration>, String> {
    let seconds = value.parse().map_err(|_| format!("invalid number of seconds {value:?} for -{letter}"))?;
    Ok(Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::super::usage::USAGE;
    use super::{AbOptions, CommandLine, FLAGS, VALUED, parse};
    use message::Method;
    use record::{Length, Protocol};
    use report::ab::html::Attributes;
    use std::path::PathBuf;
    use std::time::Duration;
    use tls_terms::TlsVersion;

    fn request(line: &str) -> Result<CommandLine, String> {
        parse(&line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    fn options(line: &str) -> AbOptions {
        match request(line).unwrap() {
            CommandLine::Run(options) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        request(line).unwrap_err()
    }

    #[test]
    fn defaults_are_those_of_ab() {
        let plan = options("http://h/").plan;
        assert_eq!((plan.stop.requests, plan.stop.time, plan.users), (Some(1), None, 1));
        assert_eq!(
            (plan.http, plan.keep_alive, plan.timeout),
            (Protocol::Http10, false, Duration::from_secs(30))
        );
        assert!(plan.stop.at_first_receive_error);
        assert_eq!(plan.expect.length, Length::Constant);
    }

    #[test]
    fn time_option_overrides_only_an_earlier_number_of_requests() {
        let requests = |line: &str| options(line).plan.stop.requests;
        assert_eq!(requests("-n 100000 -t 30 http://h/"), Some(50_000));
        assert_eq!(requests("-t 30 -n 100000 http://h/"), Some(100_000));
        assert_eq!(options("-t 0 http://h/").plan.stop.time, None);
        assert_eq!(options("-t30 http://h/").plan.stop.time, Some(Duration::from_secs(30)));
    }

    #[test]
    fn values_may_be_attached_and_flags_clustered() {
        let options = options("-kqn1000 -c20 -H X:1 -HY:2 -- h:81/a");
        assert!(options.plan.keep_alive && options.quiet);
        assert_eq!((options.plan.stop.requests, options.plan.users), (Some(1000), 20));
        assert_eq!(options.plan.headers, [("X".into(), "1".into()), ("Y".into(), "2".into())]);
        assert_eq!((options.plan.target.port(), options.plan.target.path_and_query()), (81, "/a"));
    }

    #[test]
    fn bodies_choose_the_method() {
        let posted = options("-p file -T a/b http://h/");
        assert_eq!((posted.plan.method, posted.body_file), (Method::Post, Some(PathBuf::from("file"))));
        assert_eq!(posted.content_type, "a/b");
        assert_eq!(options("-u file http://h/").plan.method, Method::Put);
        assert_eq!(options("-m PATCH -p file http://h/").plan.method, Method::Patch);
        assert_eq!(options("-i http://h/").plan.method, Method::Head);
        for line in ["-p a -u b http://h/", "-i -p a http://h/", "-u a -i http://h/"] {
            assert!(refused(line).starts_with("cannot mix"), "{line}");
        }
    }

    #[test]
    fn cookies_and_credentials_are_taken_over() {
        let plan = options("-C a=b -C c=d -A u:p -l -r -v 4 http://h/").plan;
        assert_eq!((plan.cookies, plan.basic_auth), (vec!["a=b".into(), "c=d".into()], Some("u:p".into())));
        assert!(!plan.stop.at_first_receive_error);
        assert_eq!(plan.expect.length, Length::Variable);
    }

    #[test]
    fn samples_are_kept_only_for_a_gnuplot_file() {
        assert_eq!(options("-n 7 http://h/").plan.samples_max, 0);
        assert_eq!(options("-n 7 -g f http://h/").plan.samples_max, 7);
    }

    #[test]
    fn command_lines_that_ab_refuses_are_refused() {
        assert!(refused("-c 2 http://h/").contains("concurrency level greater"));
        assert!(refused("http://h").contains("invalid URL"));
        assert!(refused("").contains("wrong number of arguments"));
        assert!(refused("http://h/ -n 5").contains("wrong number of arguments"));
        assert!(refused("-n 0 http://h/").contains("-n"));
        assert!(refused("-n").contains("-n needs a value"));
        assert!(refused("-Q http://h/").contains("-Q"));
    }

    #[test]
    fn certificates_are_not_verified_as_with_ab() {
        assert!(!options("https://h/").plan.tls.is_verified);
    }

    #[test]
    fn every_option_of_ab_is_built_and_in_the_usage() {
        for letter in "nctsbBTpuvlrkVhwiIxyzCHPAgXdeSqmZfE".chars() {
            let built = FLAGS.contains(letter) != VALUED.contains(letter);
            assert!(built && USAGE.contains(&format!("\n    -{letter} ")), "-{letter}");
        }
        assert_eq!(FLAGS.len() + VALUED.len(), 35);
        for letter in "WRQDo".chars() {
            let said = refused(&format!("-{letter} x http://h/"));
            assert!(
                said.starts_with(&format!("-{letter} (")) && said.contains("no option of ab 2.4"),
                "{said}"
            );
        }
    }

    #[test]
    fn connection_options_are_taken_over() {
        let plan = options("-b 4096 -B 127.0.0.9 -X 127.0.0.1:3128 -P u:p http://h/").plan;
        assert_eq!((plan.socket_buffer_bytes, plan.proxy_auth), (Some(4096), Some("u:p".into())));
        assert_eq!(plan.source.unwrap().address(5).to_string(), "127.0.0.9");
        let proxy = plan.proxy.unwrap();
        assert_eq!(
            (proxy.host().as_str(), proxy.port(), plan.target.host().as_str()),
            ("127.0.0.1", 3128, "h")
        );
        assert_eq!(options("-X [::1]:81 http://h/").plan.proxy.unwrap().host(), "::1");
        assert_eq!(options("-b 0 http://h/").plan.socket_buffer_bytes, None);
        assert_eq!(options("-B localhost http://h/").source_name.as_deref(), Some("localhost"));
        for bad in
            ["-X h", "-X h:0", "-X h:x", "-X :80", "-X http://h:80", "-X u@h:1", "-b -5", "-b 9999999999"]
        {
            let letter = bad.get(..2).unwrap();
            assert!(refused(&format!("{bad} http://h/")).contains(letter), "{bad}");
        }
    }

    #[test]
    fn tls_options_are_taken_over() {
        let tls = options("-I -Z AES128+aRSA -f tls1.2 -E me.pem https://h/").plan.tls;
        assert!(!tls.server_name && !tls.is_resumed);
        assert_eq!(tls.terms.suites.unwrap().to_string(), "ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(
            (tls.terms.version, tls.terms.identity_file),
            (Some(TlsVersion::Tls12), Some("me.pem".into()))
        );
        assert_eq!(options("-f all https://h/").plan.tls.terms.version, None);
        assert_eq!(options("-H Host:other.test:81 https://h/").plan.tls.name.as_deref(), Some("other.test"));
        for protocol in ["SSL2", "SSL3", "TLS1", "TLS1.1", "TLS1.22", "foo"] {
            let said = refused(&format!("-f {protocol} https://h/"));
            assert!(said.contains(protocol) && said.contains("TLS1.2, TLS1.3 and ALL are"), "{said}");
        }
        let said = refused("-Z RC4-SHA https://h/");
        assert!(said.contains("RC4-SHA") && said.contains("ECDHE-RSA-AES128-GCM-SHA256"), "{said}");
    }

    #[test]
    fn attributes_imply_the_html_table() {
        assert!(options("-w http://h/").is_html && !options("http://h/").is_html);
        let options = options("-x border=1 -y a -z b http://h/");
        assert!(options.is_html);
        let Attributes { table, row, cell } = options.attributes;
        assert_eq!([table, row, cell], ["border=1", "a", "b"]);
    }

    #[test]
    fn options_without_effect_are_reported() {
        let said = |line: &str| options(line).without_effect().join(";");
        assert_eq!(said("-I -T a/b -w -d https://h/").matches("has no effect").count(), 2);
        assert!(said("-f ALL http://h/").contains("-f has no effect: it needs an https URL"));
        assert_eq!(said("-E f -Z ALL -d -S https://h/"), "");
    }

    #[test]
    fn help_and_version_need_no_url() {
        assert_eq!(request("-h"), Ok(CommandLine::Help));
        assert_eq!(request("-V"), Ok(CommandLine::Version));
    }
}
