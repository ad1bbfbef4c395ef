//! `petasos ab`: ApacheBench's command line and report.
//!
//! Exit codes differ from those of `ab`. `ab` exits with 0 after a run in which everything failed,
//! and with 22 for a bad command line. Here:
//!
//! - 0: every request was answered as expected.
//! - 1: requests failed, nothing was measured, or the run was interrupted. The report is printed
//!   all the same.
//! - 2: the run could not start.

mod options;
mod usage;

use crate::bench::interrupt::Interrupt;
use crate::bench::{elsewhere, measure};
use crate::output::note;
use anyhow::{Context as _, anyhow};
use load::{LoadError, RunProgress};
use options::{AbOptions, CommandLine};
use record::{Counting, Ended, RequestBody, RunOutcome, SourceNet};
use report::ab::{self, OptionalParts, html};
use std::io;
use std::net::ToSocketAddrs as _;
use std::process::ExitCode;
use usage::USAGE;

/// Exit code when nothing could be measured.
const EXIT_NOT_RUN: u8 = 2;

/// A run with at most this many requests prints no progress.
const REQUESTS_WITHOUT_PROGRESS: u64 = 150;

/// Smallest number of requests between two lines of progress.
const PROGRESS_STEP_MIN: u64 = 100;

/// Load a URL with ApacheBench's options, and report in its layout (petasos ab -h lists the
/// options).
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// ApacheBench's options, then the URL
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Generates the load and prints the report.
///
/// # Errors
/// If the run could not start, or a result could not be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (own, arguments) = OwnFlags::split(&args.arguments);
    let request = options::parse(arguments).map_err(|reason| anyhow!("ab: {reason} (petasos ab -h)"))?;
    match request {
        CommandLine::Help => measure::write_text(io::stdout(), USAGE)?,
        CommandLine::Version => measure::write_text(io::stdout(), &own.banner())?,
        CommandLine::Run(options) => return load(*options, own),
    }
    Ok(ExitCode::SUCCESS)
}

/// Petasos' own flags, which come before the options of `ab`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OwnFlags {
    /// `--yes`: load a target on another machine without asking.
    is_agreed: bool,
    /// `--plain`: print only what `ab` prints, with the counts of `ab`.
    is_plain: bool,
}

impl OwnFlags {
    /// Splits Petasos' own flags from the arguments that follow them.
    fn split(arguments: &[String]) -> (Self, &[String]) {
        let mut own = Self::default();
        let mut rest = arguments;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "--yes" => own.is_agreed = true,
                "--plain" => own.is_plain = true,
                _ => break,
            }
            rest = others;
        }
        (own, rest)
    }

    /// The lines with the program's name and version.
    fn banner(self) -> String {
        if self.is_plain { ab::plain_banner() } else { ab::banner() }
    }
}

fn load(mut options: AbOptions, own: OwnFlags) -> anyhow::Result<ExitCode> {
    if !own.is_plain {
        options.without_effect().iter().for_each(|text| note(format_args!("petasos: ab: {text}")));
    }
    if let Some(path) = &options.body_file {
        let content = std::fs::read(path).with_context(|| format!("ab: cannot read {}", path.display()))?;
        options.plan.body =
            Some(RequestBody { content: content.into(), content_type: options.content_type.clone() });
    }
    if let Some(name) = &options.source_name {
        options.plan.source = Some(source(name)?);
    }
    let hosts = elsewhere::hosts_elsewhere(&options.plan);
    if !hosts.is_empty() && !own.is_agreed {
        elsewhere::ask(&hosts)?;
    }
    options.plan.counting = if own.is_plain { Counting::AsAb } else { Counting::BesideAb };
    let requests = options.plan.stop.requests.unwrap_or_default();
    let shows_progress = requests > REQUESTS_WITHOUT_PROGRESS && !options.quiet;
    measure::write_text(io::stdout(), &before(&options, own, shows_progress)?)?;
    let step = (requests / 10).max(PROGRESS_STEP_MIN);
    let interrupt = Interrupt::on_signals()?;
    let measured =
        measure::measure(&options.plan, &interrupt, progress_lines(shows_progress.then_some(step)));
    let outcome = match measured {
        Err(error) if own.is_plain => {
            note(format_args!("{}", in_words_of_ab(&error)));
            return Ok(ExitCode::from(EXIT_NOT_RUN));
        }
        measured => measured?,
    };
    if own.is_plain
        && let Some(reason) = ab::why_ab_ends(&outcome)
    {
        let done = outcome.ab.as_ref().map_or(0, |account| account.complete - account.receive);
        if done > 0 {
            measure::write_text(io::stdout(), &format!("Total of {done} requests completed\n"))?;
        }
        note(format_args!("{reason}"));
        return Ok(measure::exit_code(&outcome));
    }
    if shows_progress {
        note(format_args!("Finished {} requests", outcome.requests()));
    }
    measure::write_text(io::stdout(), &after(&options, own, &outcome, shows_progress))?;
    if outcome.ended == Ended::ReceiveError && !own.is_plain {
        note(format_args!("petasos: ab: stopped at the first connection that broke; -r goes on"));
    }
    if let Some(path) = &options.csv_file {
        measure::write_file(path, &ab::percentile_csv(&outcome))?;
    }
    if let Some(path) = &options.gnuplot_file {
        measure::write_file(path, &ab::gnuplot_tsv(&outcome))?;
    }
    if !own.is_plain
        && let Some(reason) = measure::why_failed(&outcome, false)
    {
        return Ok(measure::explained(&[reason]));
    }
    Ok(measure::exit_code(&outcome))
}

/// The error of a run that could not start, in the words of `ab`.
fn in_words_of_ab(error: &anyhow::Error) -> String {
    // `ab` prints "Connection refused (111)", the system "Connection refused (os error 111)".
    let of_system = |reason: &str| reason.replace("(os error ", "(");
    match error.downcast_ref() {
        Some(LoadError::Unreachable { reason, .. }) => format!("apr_socket_recv: {}", of_system(reason)),
        Some(LoadError::Resolve { host, reason }) => {
            let reason = reason.rsplit(": ").next().unwrap_or(reason);
            format!("apr_sockaddr_info_get() for {host}: {reason}")
        }
        _ => format!("petasos: ab: {error:#}"),
    }
}

/// The first local address that a host name resolves to.
fn source(name: &str) -> anyhow::Result<SourceNet> {
    let found = (name, 0).to_socket_addrs().with_context(|| format!("ab: -B {name}"))?.next();
    let address = found.with_context(|| format!("ab: -B {name}: the name has no address"))?.ip();
    Ok(address.to_string().parse()?)
}

/// The text before the report.
fn before(options: &AbOptions, own: OwnFlags, shows_progress: bool) -> anyhow::Result<String> {
    let plan = &options.plan;
    let mut log = String::new();
    if options.verbosity >= 2 {
        let image = load::image(plan)?;
        let content_bytes = plan.body.as_ref().map_or(0, |body| body.content.len());
        let head = image.get(..image.len() - content_bytes).unwrap_or_default();
        log = format!("INFO: {} header == \n---\n{}\n---\n", plan.method, String::from_utf8_lossy(head));
    }
    let banner = own.banner();
    if options.is_html {
        let block = if log.is_empty() { String::new() } else { html::block(&log) };
        let banner = if own.is_plain { html::plain_banner(&banner) } else { html::banner(&banner) };
        return Ok(format!("{banner}{block}"));
    }
    let through = plan.proxy.as_ref().map(|proxy| format!("[through {}:{}] ", proxy.host(), proxy.port()));
    let end = if shows_progress { "\n" } else { "..." };
    Ok(format!(
        "{banner}Benchmarking {} {}(be patient){end}{log}",
        plan.target.host(),
        through.unwrap_or_default()
    ))
}

/// The report and the text directly before it.
fn after(options: &AbOptions, own: OwnFlags, outcome: &RunOutcome, shows_progress: bool) -> String {
    let mut log = String::new();
    if options.verbosity >= 2 && !outcome.first_head.is_empty() {
        log = first_answer(&outcome.first_head, options.verbosity);
    }
    let done = if shows_progress { "" } else { "..done\n" };
    if options.is_html {
        let block = if log.is_empty() { String::new() } else { html::block(&log) };
        return match own.is_plain {
            true => format!("{block}{done}{}", html::plain_report(outcome, &options.attributes)),
            false => format!("{block}{}", html::report(outcome, &options.attributes)),
        };
    }
    let parts = OptionalParts { percentiles: !options.no_percentiles, spread: !options.no_spread };
    let report = if own.is_plain { ab::plain_report } else { ab::report };
    format!("{log}{done}\n\n{}", report(outcome, parts))
}

/// The log text of `ab` about a response's head. Petasos logs it for the first response only.
fn first_answer(head: &[u8], verbosity: u32) -> String {
    let head = String::from_utf8_lossy(head);
    let code = head.split(' ').nth(1).and_then(|rest| rest.get(..3)).unwrap_or("500");
    let judgement = match code.starts_with('2') {
        false => format!("WARNING: Response code not 2xx ({code})\n"),
        true if verbosity >= 3 => format!("LOG: Response code = {code}\n"),
        true => String::new(),
    };
    format!("LOG: header received:\n{head}\n{judgement}")
}

/// Prints the progress lines of `ab` on standard error, one for every `step` requests.
fn progress_lines(step: Option<u64>) -> impl FnMut(RunProgress) + Send {
    let mut next = step;
    move |progress| {
        while let (Some(reached), Some(step)) = (next.filter(|&next| next <= progress.done), step) {
            note(format_args!("Completed {reached} requests"));
            next = Some(reached + step);
        }
    }
}
