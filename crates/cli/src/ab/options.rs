//! ApacheBench's command line: single letters, values attached or apart, flags in clusters, options before the
//! URL. What it means is turned into a plan; nothing is read from disk and nothing is sent.
//!
//! Invariant: an option is either understood or refused by name. Known faults of `ab` are not copied: several
//! `-C` add up, and a URL may leave out the path's parts that `ab` insists on only where that is harmless.

use load::{Expect, Length, Plan, Stop, Target};
use message::{Method, Version};
use std::path::PathBuf;
use std::time::Duration;

/// Requests that `-t` asks for if no `-n` follows.
const REQUESTS_WITH_TIME: u64 = 50_000;

/// Options without a value.
const FLAGS: &str = "klrqdSihV";

/// Options with a value.
const VALUED: &str = "nctsHCATpumveg";

/// Options that `ab` has and we have not, with what they are.
const NOT_BUILT: [(char, &str); 14] = [
    ('b', "size of the socket buffers"),
    ('B', "local address"),
    ('w', "HTML tables"),
    ('x', "attributes of the HTML table"),
    ('y', "attributes of the HTML rows"),
    ('z', "attributes of the HTML cells"),
    ('P', "credentials for a proxy"),
    ('X', "proxy"),
    ('I', "no server name in TLS"),
    ('Z', "TLS ciphers"),
    ('f', "TLS protocol"),
    ('E', "TLS client certificate"),
    ('W', "worker threads"),
    ('R', "ramp delay"),
];

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Run a load.
    Run(Box<Options>),
}

/// A load in `ab`'s terms. Files are still names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The plan, without the content of [`Options::body_file`].
    pub(crate) plan: Plan,
    /// `-p` or `-u`: the file with the content of every request.
    pub(crate) body_file: Option<PathBuf>,
    /// `-T`: its media type.
    pub(crate) content_type: String,
    /// `-v`: 2 and above print the request and the head of the first answer.
    pub(crate) verbosity: u32,
    /// `-q`: no progress.
    pub(crate) quiet: bool,
    /// `-d`: no percentile table.
    pub(crate) no_percentiles: bool,
    /// `-S`: no median and deviation.
    pub(crate) no_spread: bool,
    /// `-e`: file for the percentiles.
    pub(crate) csv_file: Option<PathBuf>,
    /// `-g`: file for single answers.
    pub(crate) gnuplot_file: Option<PathBuf>,
}

/// Letters and values in the order in which they were given.
type Given = Vec<(char, String)>;

/// Reads the arguments after the word `ab`.
///
/// # Errors
/// A sentence that names the option.
pub(crate) fn parse(arguments: &[String]) -> Result<Request, String> {
    let (given, rest) = split(arguments)?;
    if given.iter().any(|(letter, _)| *letter == 'h') {
        return Ok(Request::Help);
    }
    if given.iter().any(|(letter, _)| *letter == 'V') {
        return Ok(Request::Version);
    }
    let [url] = rest else {
        return Err("wrong number of arguments: exactly one URL comes after the options".into());
    };
    let mut options = Options::new(target(url)?);
    let mut requests = 1;
    for (letter, value) in &given {
        options.apply(*letter, value, &mut requests)?;
    }
    options.plan.stop.requests = Some(requests);
    if options.plan.users as u64 > requests {
        return Err("cannot use concurrency level greater than total number of requests".into());
    }
    if options.gnuplot_file.is_some() {
        options.plan.samples_max = requests.min(load::SAMPLES_MAX);
    }
    options.plan.check().map_err(|error| error.to_string())?;
    Ok(Request::Run(Box::new(options)))
}

/// Splits options from the rest. The first argument that is no option ends them.
fn split(arguments: &[String]) -> Result<(Given, &[String]), String> {
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
    match NOT_BUILT.iter().find(|(name, _)| *name == letter) {
        Some((_, what)) => format!("option -{letter} ({what}) is not available in petasos ab"),
        None => format!("unknown option -{letter}"),
    }
}

/// The target of a URL, which needs a path and may leave out `http://`.
fn target(url: &str) -> Result<Target, String> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let has_path = with_scheme.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if !has_path {
        return Err(format!("{url}: invalid URL: it needs a path, as in http://HOST/"));
    }
    Target::parse(&with_scheme).map_err(|error| error.to_string())
}

impl Options {
    fn new(target: Target) -> Self {
        let mut plan = Plan::new(target);
        plan.version = Version::Http10;
        plan.keep_alive = false;
        plan.stop = Stop { at_first_receive_error: true, ..Stop::default() };
        Self {
            plan,
            body_file: None,
            content_type: "text/plain".to_owned(),
            verbosity: 0,
            quiet: false,
            no_percentiles: false,
            no_spread: false,
            csv_file: None,
            gnuplot_file: None,
        }
    }

    fn apply(&mut self, letter: char, value: &str, requests: &mut u64) -> Result<(), String> {
        let plan = &mut self.plan;
        match letter {
            'n' => *requests = number(letter, value, "number of requests")?,
            'c' => plan.users = number(letter, value, "number of concurrent requests")? as usize,
            't' => {
                plan.stop.time = Some(Duration::from_secs(number(letter, value, "number of seconds")?));
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
            'H' => plan.headers.push(crate::bench::header(value)?),
            'C' => plan.cookies.push(value.to_owned()),
            'A' => plan.basic_auth = Some(value.to_owned()),
            'v' => {
                self.verbosity = value.parse().map_err(|_| format!("invalid verbosity {value:?} for -v"))?
            }
            'q' => self.quiet = true,
            'd' => self.no_percentiles = true,
            'S' => self.no_spread = true,
            'e' => self.csv_file = Some(PathBuf::from(value)),
            'g' => self.gnuplot_file = Some(PathBuf::from(value)),
            other => return Err(refusal(other)),
        }
        Ok(())
    }

    /// `-i`, `-p` and `-u` exclude each other; a method by `-m` stays and takes the content.
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

/// The text of `-h`.
pub(crate) const USAGE: &str = "\
Usage: petasos ab [options] [http://]hostname[:port]/path
Options are:
    -n requests     Number of requests to perform (1)
    -c concurrency  Number of requests in flight at a time (1)
    -t seconds      Time to measure at most; sets -n to 50000 unless -n follows
    -s seconds      Time limit of each request (30)
    -k              Keep connections open
    -p file         POST this file; set -T too
    -u file         PUT this file; set -T too
    -T type         Media type of the file (text/plain)
    -i              HEAD instead of GET
    -m method       Any other method
    -C name=value   Add a cookie; repeatable
    -H line         Add a header field, such as 'Accept-Encoding: gzip'; repeatable
    -A user:pass    Credentials for basic authentication
    -l              Accept answers of different lengths
    -r              Go on after connections that break
    -v level        2 and above print the request and the head of the first answer
    -q              No progress
    -d              No table of percentiles
    -S              No median and standard deviation
    -e file         Write the percentiles as CSV
    -g file         Write every answer as TSV for gnuplot
    -V              Print the version
    -h              Print this text
Exit codes: 0 all answers as expected, 1 failures or interrupted, 2 could not run.
";

#[cfg(test)]
mod tests {
    use super::{FLAGS, NOT_BUILT, Options, Request, USAGE, VALUED, parse};
    use load::Length;
    use message::{Method, Version};
    use std::path::PathBuf;
    use std::time::Duration;

    fn request(line: &str) -> Result<Request, String> {
        parse(&line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    fn options(line: &str) -> Options {
        match request(line).unwrap() {
            Request::Run(options) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        request(line).unwrap_err()
    }

    #[test]
    fn the_defaults_are_those_of_ab() {
        let plan = options("http://h/").plan;
        assert_eq!((plan.stop.requests, plan.stop.time, plan.users), (Some(1), None, 1));
        assert_eq!(
            (plan.version, plan.keep_alive, plan.timeout),
            (Version::Http10, false, Duration::from_secs(30))
        );
        assert!(plan.stop.at_first_receive_error);
        assert_eq!(plan.expect.length, Length::Constant);
    }

    #[test]
    fn a_time_sets_the_number_of_requests_where_it_stands() {
        let requests = |line: &str| options(line).plan.stop.requests;
        assert_eq!(requests("-n 100000 -t 30 http://h/"), Some(50_000));
        assert_eq!(requests("-t 30 -n 100000 http://h/"), Some(100_000));
        assert_eq!(options("-t30 http://h/").plan.stop.time, Some(Duration::from_secs(30)));
    }

    #[test]
    fn values_may_be_attached_and_flags_clustered() {
        let options = options("-kqn1000 -c20 -H X:1 -HY:2 -- h:81/a");
        assert!(options.plan.keep_alive && options.quiet);
        assert_eq!((options.plan.stop.requests, options.plan.users), (Some(1000), 20));
        assert_eq!(options.plan.headers, [("X".into(), "1".into()), ("Y".into(), "2".into())]);
        assert_eq!((options.plan.target.port(), options.plan.target.path()), (81, "/a"));
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
    fn single_answers_are_kept_only_for_their_file() {
        assert_eq!(options("-n 7 http://h/").plan.samples_max, 0);
        assert_eq!(options("-n 7 -g f http://h/").plan.samples_max, 7);
    }

    #[test]
    fn what_ab_refuses_is_refused() {
        assert!(refused("-c 2 http://h/").contains("concurrency level greater"));
        assert!(refused("http://h").contains("invalid URL"));
        assert!(refused("").contains("wrong number of arguments"));
        assert!(refused("http://h/ -n 5").contains("wrong number of arguments"));
        assert!(refused("-n 0 http://h/").contains("-n"));
        assert!(refused("-n").contains("-n needs a value"));
        assert!(refused("-Q http://h/").contains("-Q"));
        assert!(refused("https://h/").contains("https"));
    }

    #[test]
    fn every_option_of_ab_is_either_built_or_refused_by_name() {
        for letter in "nctsbBTpuvlrkVhwiIxyzCHPAgXdeSqmZfE".chars() {
            let built = FLAGS.contains(letter) || VALUED.contains(letter);
            let named = NOT_BUILT.iter().any(|(name, _)| *name == letter);
            assert!(built != named, "-{letter}");
            assert_eq!(built, USAGE.contains(&format!("\n    -{letter} ")), "-{letter} in the usage");
            if named {
                assert!(refused(&format!("-{letter} x http://h/")).contains("is not available"));
            }
        }
    }

    #[test]
    fn help_and_version_need_no_url() {
        assert_eq!(request("-h"), Ok(Request::Help));
        assert_eq!(request("-V"), Ok(Request::Version));
    }
}
