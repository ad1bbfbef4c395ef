//! `petasos ab`: ApacheBench's command line and report.
//!
//! Exit codes differ from `ab`, which says 0 after a run in which everything failed and 22 for a bad command
//! line: 0 every request was answered as expected; 1 requests failed, nothing was measured, or the run was
//! interrupted (the report is printed all the same); 2 it could not run.

mod options;

use crate::bench::measure;
use anyhow::{Context as _, anyhow};
use load::{Body, Ended, Outcome, Progress};
use options::{Options, Request, USAGE};
use report::ab::{self, Parts};
use std::io;
use std::process::ExitCode;

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
    let request =
        options::parse(&args.arguments).map_err(|reason| anyhow!("ab: {reason} (petasos ab -h)"))?;
    match request {
        Request::Help => measure::write_text(io::stdout(), USAGE)?,
        Request::Version => measure::write_text(io::stdout(), &ab::banner())?,
        Request::Run(options) => return load(*options),
    }
    Ok(ExitCode::SUCCESS)
}

fn load(mut options: Options) -> anyhow::Result<ExitCode> {
    if let Some(path) = &options.body_file {
        let content = std::fs::read(path).with_context(|| format!("ab: cannot read {}", path.display()))?;
        options.plan.body =
            Some(Body { content: content.into(), content_type: options.content_type.clone() });
    }
    let requests = options.plan.stop.requests.unwrap_or_default();
    let shows_progress = requests > REQUESTS_WITHOUT_PROGRESS && !options.quiet;
    measure::write_text(io::stdout(), &before(&options, shows_progress)?)?;
    let step = (requests / 10).max(PROGRESS_STEP_MIN);
    let outcome = measure::measure(&options.plan, progress_lines(shows_progress.then_some(step)))?;
    if shows_progress {
        eprintln!("Finished {} requests", outcome.requests());
    } else {
        measure::write_text(io::stdout(), "..done\n")?;
    }
    measure::write_text(io::stdout(), &after(&options, &outcome))?;
    if outcome.ended == Ended::ReceiveError {
        eprintln!("petasos: ab: stopped at the first connection that broke; -r goes on");
    }
    if let Some(path) = &options.csv_file {
        measure::write_file(path, &ab::percentile_csv(&outcome))?;
    }
    if let Some(path) = &options.gnuplot_file {
        measure::write_file(path, &ab::gnuplot_tsv(&outcome))?;
    }
    Ok(measure::exit_code(&outcome))
}

/// What stands above the report.
fn before(options: &Options, shows_progress: bool) -> anyhow::Result<String> {
    let mut text = ab::banner();
    if options.verbosity >= 2 {
        let image = load::image(&options.plan)?;
        text += &format!("INFO: request ==\n---\n{}\n---\n", String::from_utf8_lossy(&image));
    }
    let end = if shows_progress { "\n" } else { "..." };
    text += &format!("Benchmarking {} (be patient){end}", options.plan.target.host());
    Ok(text)
}

/// The report and what precedes it.
fn after(options: &Options, outcome: &Outcome) -> String {
    let mut text = String::new();
    if options.verbosity >= 2 {
        text +=
            &format!("LOG: head of the first answer ==\n{}", String::from_utf8_lossy(&outcome.first_head));
    }
    let parts = Parts { percentiles: !options.no_percentiles, spread: !options.no_spread };
    format!("{text}\n\n{}", ab::report(outcome, parts))
}

/// `ab`'s lines on standard error, one for each `step` requests.
fn progress_lines(step: Option<u64>) -> impl FnMut(Progress) + Send {
    let mut next = step;
    move |progress| {
        while let (Some(reached), Some(step)) = (next.filter(|&next| next <= progress.done), step) {
            eprintln!("Completed {reached} requests");
            next = Some(reached + step);
        }
    }
}
