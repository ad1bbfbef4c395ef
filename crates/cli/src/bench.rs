//! `petasos bench`: loads one URL with a fixed number of users and prints what was measured, in `ab`'s layout
//! with what that layout hides below it; as JSON on demand.
//!
//! Exit codes: 0 every request was answered as expected; 1 requests failed, nothing was measured, or the run
//! was interrupted (the report is printed all the same); 2 it could not run.

pub(crate) mod measure;

use anyhow::Context as _;
use config::quantity::parse_duration;
use load::{Body, Expect, Length, Plan, Progress, StatusSet, Stop, Target};
use message::Method;
use report::ab::{self, Parts};
use report::run::Run;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long a run takes if neither a number of requests nor a time is given.
const TIME_DEFAULT: Duration = Duration::from_secs(10);

/// Load a URL and measure how it answers.
///
/// TIME is a number with a unit, such as 500ms, 10s or 2m; a bare number means seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to load: http://HOST[:PORT]/PATH
    url: String,
    /// Number of requests; with -t too, whichever comes first ends the run
    #[arg(short = 'n', value_name = "N")]
    requests: Option<u64>,
    /// Number of users, each with one request in flight
    #[arg(short = 'c', value_name = "N", default_value_t = 1)]
    users: usize,
    /// Time to measure [default: 10s, unless -n is given]
    #[arg(short = 't', value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
    /// Load before the measured part, left out of all figures
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0")]
    warmup: Duration,
    /// Generator threads [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Make a new connection for every request
    #[arg(long)]
    no_keepalive: bool,
    /// Add a header field, such as 'Accept-Language: en'; repeatable
    #[arg(short = 'H', value_name = "LINE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Request method [default: GET, or POST with --body]
    #[arg(long, value_name = "M")]
    method: Option<String>,
    /// File to send as the content of every request
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Time limit of a request, from its start to the last byte of the answer
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    timeout: Duration,
    /// Status codes of good answers, such as 200 or 2xx,304
    #[arg(long, value_name = "S", default_value = "2xx")]
    expect_status: StatusSet,
    /// Accept answers of different lengths
    #[arg(long)]
    variable_length: bool,
    /// Write the run as JSON; with - to standard output, and the report to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the load and prints the report.
///
/// # Errors
/// When it could not run, or a result could not be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let outcome = measure::measure(&plan, progress_line(&plan))?;
    let report = ab::report(&outcome, Parts::default());
    let json = args.json.as_deref().map(|path| (path, Run::from(&outcome).to_json()));
    match json {
        Some((path, json)) if path == Path::new("-") => {
            measure::write_text(io::stderr(), &report)?;
            measure::write_text(io::stdout(), &json)?;
        }
        Some((path, json)) => {
            measure::write_text(io::stdout(), &report)?;
            measure::write_file(path, &json)?;
        }
        None => measure::write_text(io::stdout(), &report)?,
    }
    Ok(measure::exit_code(&outcome))
}

/// What the arguments ask for.
fn plan(args: &Args) -> anyhow::Result<Plan> {
    let mut plan = Plan::new(Target::parse(&args.url)?);
    let time = args.time.or_else(|| args.requests.is_none().then_some(TIME_DEFAULT));
    plan.stop = Stop { requests: args.requests, time, at_first_receive_error: false };
    plan.users = args.users;
    plan.threads = args.threads;
    plan.warmup = args.warmup;
    plan.keep_alive = !args.no_keepalive;
    plan.headers.clone_from(&args.header);
    plan.timeout = args.timeout;
    let length = if args.variable_length { Length::Variable } else { Length::Constant };
    plan.expect = Expect { status: args.expect_status.clone(), length };
    if let Some(path) = &args.body {
        let content = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        plan.body =
            Some(Body { content: content.into(), content_type: "application/octet-stream".to_owned() });
        plan.method = Method::Post;
    }
    if let Some(method) = &args.method {
        plan.method = Method::from_token(method.as_bytes());
    }
    plan.check()?;
    Ok(plan)
}

/// A line on standard error that follows the run; nothing unless that is a terminal.
fn progress_line(plan: &Plan) -> impl FnMut(Progress) + Send + use<> {
    let shown = io::stderr().is_terminal();
    let stop = plan.stop;
    let mut before: Option<(Duration, u64)> = None;
    move |progress| {
        let (true, Some(elapsed)) = (shown, progress.elapsed) else { return };
        let (since, done_then) = before.unwrap_or_default();
        if elapsed.saturating_sub(since) < Duration::from_millis(200) && stop.requests != Some(progress.done)
        {
            return;
        }
        let rate = (progress.done - done_then) as f64 / (elapsed - since).as_secs_f64().max(1e-3);
        before = Some((elapsed, progress.done));
        let of_requests = stop.requests.map(|requests| format!("/{requests}")).unwrap_or_default();
        let of_time = stop.time.map(|time| format!("/{}", time.as_secs_f64())).unwrap_or_default();
        // A terminal that cannot be written to is no reason to stop measuring.
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{:.1}{of_time} s  {}{of_requests} requests  {rate:.0} req/s  {} failed\r",
            elapsed.as_secs_f64(),
            progress.done,
            progress.failed
        );
    }
}

/// A duration on the command line, where a bare number means seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    parse_duration(&if bare { format!("{text}s") } else { text.to_owned() })
}

/// A header line as name and value.
pub(crate) fn header(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("{line:?} is not a header field: write 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Args, Plan, TIME_DEFAULT, header, plan, time};
    use clap::{Args as _, Command, FromArgMatches as _};
    use message::Method;
    use std::time::Duration;

    fn parse(line: &str) -> anyhow::Result<Plan> {
        let command = Args::augment_args(Command::new("bench").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace())?;
        plan(&Args::from_arg_matches(&matches)?)
    }

    #[test]
    fn the_defaults_keep_connections_for_ten_seconds() {
        let plan = parse("http://h/").unwrap();
        assert_eq!((plan.users, plan.keep_alive, plan.stop.time), (1, true, Some(TIME_DEFAULT)));
        assert_eq!(plan.stop.requests, None);
    }

    #[test]
    fn a_number_of_requests_replaces_the_default_time() {
        let plan = parse("http://h/ -n 5 -c 2 --no-keepalive").unwrap();
        assert_eq!((plan.stop.requests, plan.stop.time, plan.keep_alive), (Some(5), None, false));
        let both = parse("http://h/ -n 5 -t 1m").unwrap();
        assert_eq!((both.stop.requests, both.stop.time), (Some(5), Some(Duration::from_secs(60))));
    }

    #[test]
    fn methods_and_headers_are_taken_over() {
        let plan = parse("http://h/ --method PURGE -H X-A:1 -H X-B:2 --expect-status 200,404").unwrap();
        assert_eq!(plan.method, Method::from_token(b"PURGE"));
        assert_eq!(plan.headers, [("X-A".into(), "1".into()), ("X-B".into(), "2".into())]);
        assert!(plan.expect.status.contains(404) && !plan.expect.status.contains(201));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for line in [
            "",
            "https://h/",
            "http://h/ -c 0",
            "http://h/ -n 0",
            "http://h/ -t 0",
            "http://h/ -t soon",
            "http://h/ --expect-status ok",
            "http://h/ -H nonsense",
            "http://h/ --body /nonexistent/file",
            "http://h/ --method G/T",
            "http://h/ --pipeline 4",
        ] {
            assert!(parse(line).is_err(), "{line:?} was accepted");
        }
    }

    #[test]
    fn bare_numbers_are_seconds() {
        assert_eq!(time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert!(time("").is_err() && time("10 apples").is_err());
    }

    #[test]
    fn header_lines_are_cut_at_the_first_colon() {
        assert_eq!(header("Host: a:1"), Ok(("Host".into(), "a:1".into())));
        assert!(header("Host").is_err());
    }
}
