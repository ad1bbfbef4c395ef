//! `petasos ab`: ApacheBench's command line and report.
//!
//! Exit codes differ from `ab`, which says 0 after a run in which everything failed and 22 for a bad command
//! line: 0 every request was answered as expected; 1 requests failed, nothing was measured, or the run was
//! interrupted (the report is printed all the same); 2 it could not run.

mod options;
mod usage;

use crate::bench::{elsewhere, measure};
use crate::output::note;
use anyhow::{Context as _, anyhow};
use load::{Body, Ended, Outcome, Progress, SourceNet};
use options::{Options, Request};
use report::ab::{self, Parts, html};
use std::io;
use std::net::ToSocketAddrs as _;
use std::process::ExitCode;
use usage::USAGE;

/// Requests up to which there is no progress.
const REQUESTS_WITHOUT_PROGRESS: u64 = 150;

/// The fewest requests between two lines of progress.
const PROGRESS_STEP_MIN: u64 = 100;

/// Load a URL with ApacheBench's options, and report in its layout (petasos ab -h lists the options).
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// ApacheBench's options, then the URL
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the load and prints the report.
///
/// # Errors
/// When it could not run, or a result could not be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // The one word that ab does not have, as it does not ask.
    let (is_agreed, arguments) = match &args.arguments[..] {
        [first, rest @ ..] if first == "--yes" => (true, rest),
        all => (false, all),
    };
    let request = options::parse(arguments).map_err(|reason| anyhow!("ab: {reason} (petasos ab -h)"))?;
    match request {
        Request::Help => measure::write_text(io::stdout(), USAGE)?,
        Request::Version => measure::write_text(io::stdout(), &ab::banner())?,
        Request::Run(options) => return load(*options, is_agreed),
    }
    Ok(ExitCode::SUCCESS)
}

fn load(mut options: Options, is_agreed: bool) -> anyhow::Result<ExitCode> {
    options.without_effect().iter().for_each(|text| note(format_args!("petasos: ab: {text}")));
    if let Some(path) = &options.body_file {
        let content = std::fs::read(path).with_context(|| format!("ab: cannot read {}", path.display()))?;
        options.plan.body =
            Some(Body { content: content.into(), content_type: options.content_type.clone() });
    }
    if let Some(name) = &options.source_name {
        options.plan.source = Some(source(name)?);
    }
    let hosts = elsewhere::hosts_elsewhere(&options.plan);
    if !hosts.is_empty() && !is_agreed {
        elsewhere::ask(&hosts)?;
    }
    let requests = options.plan.stop.requests.unwrap_or_default();
    let shows_progress = requests > REQUESTS_WITHOUT_PROGRESS && !options.quiet;
    measure::write_text(io::stdout(), &before(&options, shows_progress)?)?;
    let step = (requests / 10).max(PROGRESS_STEP_MIN);
    let outcome = measure::measure(&options.plan, progress_lines(shows_progress.then_some(step)))?;
    if shows_progress {
        note(format_args!("Finished {} requests", outcome.requests()));
    }
    measure::write_text(io::stdout(), &after(&options, &outcome, shows_progress))?;
    if outcome.ended == Ended::ReceiveError {
        note(format_args!("petasos: ab: stopped at the first connection that broke; -r goes on"));
    }
    if let Some(path) = &options.csv_file {
        measure::write_file(path, &ab::percentile_csv(&outcome))?;
    }
    if let Some(path) = &options.gnuplot_file {
        measure::write_file(path, &ab::gnuplot_tsv(&outcome))?;
    }
    Ok(measure::exit_code(&outcome))
}

/// The local address that a name stands for; of several the first.
fn source(name: &str) -> anyhow::Result<SourceNet> {
    let found = (name, 0).to_socket_addrs().with_context(|| format!("ab: -B {name}"))?.next();
    let address = found.with_context(|| format!("ab: -B {name}: the name has no address"))?.ip();
    Ok(address.to_string().parse()?)
}

/// What stands above the report.
fn before(options: &Options, shows_progress: bool) -> anyhow::Result<String> {
    let plan = &options.plan;
    let mut log = String::new();
    if options.verbosity >= 2 {
        let image = load::image(plan)?;
        let content_bytes = plan.body.as_ref().map_or(0, |body| body.content.len());
        let head = image.get(..image.len() - content_bytes).unwrap_or_default();
        log = format!("INFO: {} header == \n---\n{}\n---\n", plan.method, String::from_utf8_lossy(head));
    }
    if options.is_html {
        let block = if log.is_empty() { String::new() } else { html::block(&log) };
        return Ok(format!("{}{block}", html::banner()));
    }
    let through = plan.proxy.as_ref().map(|proxy| format!("[through {}:{}] ", proxy.host(), proxy.port()));
    let end = if shows_progress { "\n" } else { "..." };
    Ok(format!(
        "{}Benchmarking {} {}(be patient){end}{log}",
        ab::banner(),
        plan.target.host(),
        through.unwrap_or_default()
    ))
}

/// The report and what precedes it.
fn after(options: &Options, outcome: &Outcome, shows_progress: bool) -> String {
    let mut log = String::new();
    if options.verbosity >= 2 && !outcome.first_head.is_empty() {
        log = first_answer(&outcome.first_head, options.verbosity);
    }
    if options.is_html {
        let block = if log.is_empty() { String::new() } else { html::block(&log) };
        return format!("{block}{}", html::report(outcome, &options.attributes));
    }
    let done = if shows_progress { "" } else { "..done\n" };
    let parts = Parts { percentiles: !options.no_percentiles, spread: !options.no_spread };
    format!("{log}{done}\n\n{}", ab::report(outcome, parts))
}

/// What `ab` says of an answer's head; here it is that of the first answer only.
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

/// `ab`'s lines on standard error, one for each `step` requests.
fn progress_lines(step: Option<u64>) -> impl FnMut(Progress) + Send {
    let mut next = step;
    move |progress| {
        while let (Some(reached), Some(step)) = (next.filter(|&next| next <= progress.done), step) {
            note(format_args!("Completed {reached} requests"));
            next = Some(reached + step);
        }
    }
}
