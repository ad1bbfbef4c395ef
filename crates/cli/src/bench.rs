//! `petasos bench`: loads one or several URLs and prints a report, with JSON and other files on
//! request.
//!
//! Exit codes:
//!
//! - 0: every request was answered as expected.
//! - 1: requests failed, a threshold was missed, nothing was measured, the run was interrupted, or
//!   the self-check called a run invalid. The report is printed all the same.
//! - 2: the run could not start, or a result could not be written.

pub(crate) mod elsewhere;
mod host;
mod idle_flags;
pub(crate) mod interrupt;
mod live;
pub(crate) mod load_args;
pub(crate) mod measure;
mod outputs;
pub(crate) mod page;
mod repeated;
mod request_args;
mod traffic_args;

use interrupt::Interrupt;
use load_args::LoadArgs;
use outputs::OutputArgs;
use page::PageArgs;
use record::Trust;
use repeated::{FinishedRun, RunSeries};
use report::bench_text;
use report::compare::{middle, over_runs};
use report::run::{FailCondition, Run};
use report::thresholds;
use std::process::ExitCode;

/// Largest value of `--runs`: the number of runs that a comparison accepts for each side.
const RUNS_MAX: u16 = report::compare::RUNS_MAX as u16;

/// Width, in columns, of the table over several runs below the report.
const WIDTH: usize = 100;

/// Load a URL and measure its responses.
///
/// TIME is a number with a unit, such as 500ms, 10s or 2m; a bare number means seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL to load: http[s]://HOST[:PORT]/PATH
    url: String,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Number of runs, one after the other. The report shows the best of each figure beside the
    /// median
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, conflicts_with_all = ["page", "jtl"], value_parser = clap::value_parser!(u16).range(1..=i64::from(RUNS_MAX)))]
    runs: u16,
    /// Exit with 0 even if the self-check calls the run invalid
    #[arg(long, conflicts_with = "page")]
    accept_invalid: bool,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// Generates the load and prints the report.
///
/// # Errors
/// If the run could not start, or a result could not be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.page.page {
        let mut plan = args.load.plan_of_pages(&args.url)?;
        args.load.agree(&mut plan)?;
        return page::run(&args.url, &args.page, &plan, &args.outputs);
    }
    let mut plan = args.load.plan(&args.url)?;
    args.load.refuse_idle(std::slice::from_ref(&plan))?;
    args.load.agree(&mut plan)?;
    args.outputs.prepare(&mut plan)?;
    let interrupt = Interrupt::on_signals()?;
    let RunSeries { mut made, failure } = repeated::make(&plan, args.runs, &interrupt);
    for FinishedRun { record, .. } in &mut made {
        record.thresholds = args.outputs.judge(record).iter().map(FailCondition::from).collect();
    }
    let records: Vec<Run> = made.iter().map(|one| one.record.clone()).collect();
    let Some(FinishedRun { outcome, record }) = middle(&records).and_then(|place| made.get(place)) else {
        let reason = ["no run was made".to_owned()];
        return failure.map_or_else(|| Ok(measure::explained(&reason)), Err);
    };
    let judged = args.outputs.judge(record);
    let mut report = format!("{}{}", bench_text::report(outcome), thresholds::text(&judged));
    if records.len() > 1 {
        report.push('\n');
        report.push_str(&over_runs(&records, WIDTH));
    }
    args.outputs.write(&report, outcome, record, &records)?;
    if let Some(failure) = failure {
        return Err(failure.context(format!("run {} of {}", made.len() + 1, args.runs)));
    }
    let mut reasons = reasons(args, &made);
    // The thresholds are judged on the median run, which the report shows.
    if judged.iter().any(|judged| judged.is_missed) {
        reasons.push("a condition of --fail-if holds".to_owned());
    }
    Ok(measure::explained(&reasons))
}

/// Why the command fails, apart from thresholds. Failed requests and the self-check's verdict count
/// in every run, of several runs the first one is named.
fn reasons(args: &Args, made: &[FinishedRun]) -> Vec<String> {
    let runs = args.runs;
    let allows_errors = args.outputs.allows_errors();
    let failed = made.iter().zip(1..).find_map(|(one, number)| {
        let reason = measure::why_failed(&one.outcome, allows_errors)?;
        Some(if runs == 1 { reason } else { format!("run {number} of {runs}: {reason}") })
    });
    let mut reasons: Vec<String> = failed.into_iter().collect();
    if made.len() < usize::from(runs) {
        reasons.push(format!("the series was interrupted: {} of {runs} runs were made", made.len()));
    }
    let is_invalid = |one: &FinishedRun| one.outcome.check.trust == Trust::Invalid && !args.accept_invalid;
    if let Some(place) = made.iter().position(is_invalid) {
        let run = if runs == 1 { "the run".to_owned() } else { format!("run {} of {runs}", place + 1) };
        reasons.push(format!("the self-check calls {run} invalid (--accept-invalid takes it all the same)"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::{Arg, Args as _, Command};

    /// Renders a flag as a row of the table in docs/bench.md.
    fn row(arg: &Arg) -> String {
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        let takes_value = arg.get_action().takes_values();
        let names = if takes_value { arg.get_value_names().unwrap_or_default() } else { &[] };
        let value: String = names.iter().map(|name| format!(" {name}")).collect();
        let shows_default = takes_value && !arg.is_hide_default_value_set();
        let default = if shows_default { arg.get_default_values().first() } else { None };
        let default =
            default.map(|value| format!(" [default: {}]", value.to_string_lossy())).unwrap_or_default();
        let flag = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        format!("| `{flag}{value}` | {help}{default} |")
    }

    #[test]
    fn flags_and_their_help_match_the_rows_of_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md");
        let document = std::fs::read_to_string(path).unwrap();
        let command = Args::augment_args(Command::new("bench"));
        let rows: Vec<String> = command.get_arguments().filter(|arg| !arg.is_positional()).map(row).collect();
        let missing: Vec<&String> =
            rows.iter().filter(|row| !document.lines().any(|line| line == *row)).collect();
        assert!(
            missing.is_empty(),
            "docs/bench.md lacks these rows, or has other rows in their place:\n{missing:#?}"
        );
        let is_flag = |line: &&str| line.starts_with("| `-");
        let gone: Vec<&str> =
            document.lines().filter(is_flag).filter(|line| !rows.iter().any(|row| row == line)).collect();
        assert!(gone.is_empty(), "docs/bench.md has rows without a flag:\n{gone:#?}");
    }
}
