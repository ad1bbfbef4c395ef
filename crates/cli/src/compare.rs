//! `petasos compare`: compares stored runs with each other, or loads URLs in turn and compares
//! those. Prints a table and a sentence.
//!
//! Exit codes:
//!
//! - 0: the comparison was made, whatever its verdict.
//! - 1: it was interrupted, or a side is slower and `--fail-if-slower` is given.
//! - 2: it could not run, or a run had no good response.
//!
//! An interrupted comparison shows its complete rounds.

mod rounds;
mod sides;

use crate::bench::load_args::LoadArgs;
use crate::bench::measure;
use crate::bench::page::PageArgs;
use anyhow::{bail, ensure};
use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, Id};
use report::compare::{
    CompareOptions, ComparedMetric, Comparison, ComparisonVerdict, SEED_DEFAULT, Side, compare,
};
use rounds::{CompleteRounds, CutShort, ROUNDS_DEFAULT, ROUNDS_MAX};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Width of the output, in columns, if standard output is not a terminal. A narrower terminal gets
/// this width too.
const WIDTH_DEFAULT: usize = 100;

/// Compare stored runs, or URLs.
///
/// A SIDE is a file with one or more runs, or a directory of such files. `petasos bench --json` and
/// `petasos import` write them. If a side has several files, put -- between the sides: compare
/// a1.json a2.json -- b1.json b2.json. If the sides are URLs, the command loads each URL once in
/// every round, in random order.
///
/// The command compares each other side with the first. Every run counts once, whatever its number
/// of requests. A verdict needs at least five runs of each side.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file or directory of stored runs, or a URL. Compare URLs only with URLs
    #[arg(value_name = "SIDE", required = true)]
    first: Vec<String>,
    /// Files of the other sides, with -- between two sides
    #[arg(value_name = "FILE", last = true)]
    others: Vec<String>,
    /// Figure that decides the verdict [default: throughput, or the mean time if the runs have a
    /// rate; p50 or p95 where they vary less]
    #[arg(long, value_name = "FIGURE", value_parser = PossibleValuesParser::new(ComparedMetric::ALL.map(ComparedMetric::name)))]
    on: Option<String>,
    /// Judge even runs that the load generator limited or may have limited
    #[arg(long)]
    accept_invalid: bool,
    /// Exit with 1 if a side is slower than the first
    #[arg(long)]
    fail_if_slower: bool,
    /// Seed for the order of the rounds and for the resamples of the intervals
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT)]
    order_seed: u64,
    /// Number of rounds, if the sides are URLs
    #[arg(long, value_name = "N", default_value_t = ROUNDS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(ROUNDS_MAX)))]
    rounds: u16,
    /// Directory for the runs, with one file for each side, if the sides are URLs
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show each side's best run beside the medians. The best runs do not decide the verdict
    #[arg(long)]
    best: bool,
    /// Write the comparison as JSON; with - to standard output, and the table to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    page: PageArgs,
}

/// Compares the sides and prints the result.
///
/// # Errors
/// If a side cannot be read or loaded, or a result cannot be written.
pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let args = &Args::from_arg_matches(matches)?;
    let named = sides::group(&args.first, &args.others)?;
    let is_url = |name: &String| name.contains("://");
    let urls = named.iter().flatten().filter(|name| is_url(name)).count();
    let loaded = if urls == 0 {
        if let Some(flag) = flag_of_a_load(matches) {
            bail!("{flag} says how to load URLs, but the sides are stored runs; leave {flag} out");
        }
        CompleteRounds { sides: sides::read(&named)?, cut_short: None }
    } else {
        ensure!(
            urls == named.iter().map(Vec::len).sum::<usize>() && named.iter().all(|side| side.len() == 1),
            "URLs and stored runs cannot be compared; load the URLs with --out DIR, then compare the \
             stored runs"
        );
        rounds::load(&named.concat(), args)?
    };
    let CompleteRounds { sides, cut_short } = loaded;
    let mut reasons = Vec::new();
    if cut_short.is_none() || sides.iter().all(|side| !side.runs.is_empty()) {
        reasons.extend(judge(&sides, args)?);
    }
    match cut_short {
        Some(CutShort::Failed(error)) => return Err(error),
        Some(CutShort::Interrupted(reason)) => reasons.push(reason),
        None => {}
    }
    Ok(measure::explained(&reasons))
}

/// Compares the sides and shows the result. Returns the reason if the command fails by it.
fn judge(sides: &[Side], args: &Args) -> anyhow::Result<Option<String>> {
    let on = ComparedMetric::ALL.into_iter().find(|metric| args.on.as_deref() == Some(metric.name()));
    let options = CompareOptions { on, seed: args.order_seed, accept_invalid: args.accept_invalid };
    let comparison = compare(sides, options)?;
    show(&comparison, args)?;
    let is_slower = comparison.against.iter().any(|against| against.verdict == ComparisonVerdict::Slower);
    let is_failure = args.fail_if_slower && is_slower;
    Ok(is_failure.then(|| "a side is slower than the first (--fail-if-slower)".to_owned()))
}

/// The first flag on the command line that only makes sense when URLs are loaded.
fn flag_of_a_load(matches: &ArgMatches) -> Option<String> {
    let command = Args::augment_args(Command::new("compare"));
    let of_load = PageArgs::augment_args(LoadArgs::augment_args(Command::new("load")));
    let is_of_load = |id: &Id| of_load.get_arguments().any(|of_load| of_load.get_id() == id);
    let given = command.get_arguments().find(|argument| {
        let id = argument.get_id();
        let is_of_urls = is_of_load(id) || id == "rounds" || id == "out";
        is_of_urls && matches.value_source(id.as_str()) == Some(ValueSource::CommandLine)
    })?;
    let long = given.get_long().map(|long| format!("--{long}"));
    long.or_else(|| given.get_short().map(|short| format!("-{short}")))
}

fn show(comparison: &Comparison, args: &Args) -> anyhow::Result<()> {
    let width = rustix::termios::tcgetwinsize(io::stdout())
        .map_or(WIDTH_DEFAULT, |size| usize::from(size.ws_col).max(WIDTH_DEFAULT));
    let text = comparison.text(width, args.best);
    match args.json.as_deref() {
        Some(path) if path == Path::new("-") => {
            measure::write_text(io::stderr(), &text)?;
            measure::write_text(io::stdout(), &comparison.to_json())?;
        }
        Some(path) => {
            measure::write_text(io::stdout(), &text)?;
            measure::write_file(path, &comparison.to_json())?;
        }
        None => measure::write_text(io::stdout(), &text)?,
    }
    Ok(())
}
