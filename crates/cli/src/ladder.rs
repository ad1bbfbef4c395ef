//! `petasos ladder`, and the measuring part of `petasos demo`. Walks a ladder, shows the progress
//! and prints the table.
//!
//! Exit codes; for any code but 0, the last line on standard error gives the reason:
//!
//! - 0: every step was measured.
//! - 1: a step is void, or the walk was interrupted. Its measurements are kept and printed.
//! - 2: the ladder could not be walked.

use crate::bench::measure::explained;
use crate::keyboard;
use crate::output::{draw, note};
use anyhow::Context as _;
use document::Diagnostic;
use ladder::{
    Choice, Effort, Ladder, LadderError, Observer, Options, Phase, StopFlag, Walk, WalkStatus, World,
};
use platform::{SystemClock, SystemDisk};
use report::number;
use report::results::{CellRecord, Results};
use report::summary::{CellResult, cell_result};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

/// The demo's ladder, built in from `labs/demo/`.
const DEMO: &str = include_str!("../../../labs/demo/ladder.toml");
/// Name of the demo's ladder in messages.
const DEMO_NAME: &str = "labs/demo/ladder.toml";

/// The common part of `ladder` and `demo`.
#[derive(Debug, clap::Args)]
struct Common {
    /// Measure each step only once and for a short time
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Measure every step at every concurrency in at least five rounds; this takes much longer
    #[arg(long)]
    full: bool,
    /// Start anew, and move the files of an earlier walk in the output directory aside
    #[arg(long)]
    fresh: bool,
    /// Print all figures above the headline and the table
    #[arg(long, short)]
    verbose: bool,
    /// Keep the site running after the walk until Ctrl-C. Enter the number of a step to switch that
    /// step on
    #[arg(long)]
    stay: bool,
}

/// Walk a ladder of caching layers, prove and measure each step, and print the table
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ladder file; docs/ladder.md describes the format
    file: PathBuf,
    /// Directory for results.json, report.html and the journal
    #[arg(long, value_name = "DIR", default_value = "petasos-ladder")]
    out: PathBuf,
    /// Number of rounds [default: the ladder file's `rounds`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: Option<u64>,
    /// Seed for the order of visits in each round [default: the ladder file's `seed`]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measure only this load; repeatable. Every ladder has the load `anonymous` [default: all
    /// loads]
    #[arg(long, value_name = "ID")]
    load: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Walk the built-in ladder on the embedded site, in about three minutes
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Directory for results.json, report.html, the journal and the site's data
    #[arg(long, value_name = "DIR", default_value = "petasos-demo")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Walks the ladder in a file.
///
/// # Errors
/// If a name given with `--load` is not in the ladder, or the walk fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match ladder::read_ladder_file(&args.file) {
        Ok(ladder) => {
            check_loads(&args.load, &ladder)?;
            let effort = args.common.effort();
            let loads = args.load.clone();
            let choice = Choice { effort, rounds: args.rounds, seed: args.seed, loads };
            measure(&ladder, choice, args.out.clone(), &args.common)
        }
        Err(problems) => Ok(told(&problems)),
    }
}

/// Walks the built-in ladder.
///
/// # Errors
/// If the walk fails.
pub(crate) fn run_demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    match ladder::read_ladder(DEMO_NAME, DEMO, None) {
        Ok(ladder) => {
            let choice = Choice { effort: args.common.effort(), ..Choice::default() };
            measure(&ladder, choice, args.out.clone(), &args.common)
        }
        Err(problems) => Ok(told(&problems)),
    }
}

/// Refuses names of loads that the ladder does not have.
fn check_loads(wanted: &[String], ladder: &Ladder) -> anyhow::Result<()> {
    let known: Vec<&str> =
        std::iter::once(ladder::ANONYMOUS).chain(ladder.loads.iter().map(|load| load.id.as_str())).collect();
    match wanted.iter().find(|id| !known.contains(&id.as_str())) {
        Some(id) => anyhow::bail!(
            "--load {id}: the ladder has no load of this name; its loads are {}",
            known.join(", ")
        ),
        None => Ok(()),
    }
}

impl Common {
    fn effort(&self) -> Effort {
        match (self.quick, self.full) {
            (true, _) => Effort::Quick,
            (_, true) => Effort::Full,
            _ => Effort::Normal,
        }
    }
}

/// Prints the problems of a ladder file and returns the exit code for them.
fn told(problems: &[Diagnostic]) -> ExitCode {
    for problem in problems {
        note(format_args!("{problem}\n"));
    }
    ExitCode::from(crate::EXIT_COULD_NOT_RUN)
}

fn measure(ladder: &Ladder, choice: Choice, out: PathBuf, common: &Common) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot listen for signals")?;
    let clock = SystemClock::new();
    let disk = SystemDisk;
    let petasos = std::env::current_exe().context("cannot find the running executable")?;
    let fresh = common.fresh;
    let stay = common.stay;
    let options = Options { choice, out, fresh, stay, petasos, version: version() };
    let mut line = ProgressLine::new();
    let walked = ladder::walk(ladder, &options, World { clock: &clock, disk: &disk, stop: &stop }, &mut line);
    line.clear();
    let mut walk = match walked {
        Ok(walk) => walk,
        Err(LadderError::Interrupted) => {
            return Ok(explained(&["the walk was interrupted before anything was measured".to_owned()]));
        }
        Err(error) => return Err(error.into()),
    };
    let is_interrupted = stop.is_requested();
    print(&walk, is_interrupted, common.verbose)?;
    if stay && !is_interrupted {
        hold(&mut walk, &stop)?;
    }
    let may_be_void =
        |cell: &CellRecord| ladder.steps.iter().any(|step| step.breaks_down && step.id == cell.step);
    Ok(explained(&why_failed(&walk.results, is_interrupted, may_be_void)))
}

/// The reasons for a walk that did not measure every cell; empty if it measured all. A void cell
/// for which `may_be_void` holds is no reason.
fn why_failed(
    results: &Results,
    is_interrupted: bool,
    may_be_void: impl Fn(&CellRecord) -> bool,
) -> Vec<String> {
    let unfinished = match (is_interrupted, results.complete) {
        (true, _) => Some("the walk was interrupted".to_owned()),
        (false, false) => Some("not every step was measured in every round".to_owned()),
        (false, true) => None,
    };
    let judged = results.all_cells().filter(|cell| !may_be_void(cell));
    let void = judged.filter_map(|cell| match cell_result(cell) {
        CellResult::Void(reason) => {
            Some(format!("step `{}` with {} users is void: {reason}", cell.step, cell.concurrency))
        }
        _ => None,
    });
    let mut void: Vec<String> = void.collect();
    let others = void.len().saturating_sub(1);
    void.truncate(1);
    let others = (others > 0).then(|| format!("{others} other cells are also void"));
    unfinished.into_iter().chain(void).chain(others).collect()
}

/// Program name, version and, if it is known, the commit of the build.
fn version() -> String {
    let commit = option_env!("PETASOS_COMMIT").map(|commit| format!(" ({commit})")).unwrap_or_default();
    format!("petasos {}{commit}", env!("CARGO_PKG_VERSION"))
}

/// Prints the table to standard output, followed by the paths of the report and the results.
fn print(walk: &Walk<'_>, interrupted: bool, is_verbose: bool) -> io::Result<()> {
    let mut text = report::table::text(&walk.results, columns(), is_verbose);
    if interrupted {
        text.push_str("\nInterrupted. The same command continues the walk where it stopped.\n");
    }
    // Writing to a `String` does not fail.
    let _ =
        write!(text, "\nReport:  {}\nResults: {}\n", walk.report_file.display(), walk.results_file.display());
    print_text(&text)
}

/// Writes a text to standard output. A closed pipe counts as success.
///
/// # Errors
/// As the system reports them, except for a closed pipe.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Keeps the services up until a signal, and switches to the steps whose numbers are typed.
fn hold(walk: &mut Walk<'_>, stop: &StopFlag) -> anyhow::Result<()> {
    note(format_args!("\nThe site runs until Ctrl-C:"));
    for (name, address) in &walk.addresses {
        note(format_args!("  {name:<8} http://{address}/"));
    }
    let steps = walk.results.steps.iter();
    let numbers: Vec<&str> = steps.map(|step| step.number.as_str()).collect();
    note(format_args!(
        "The last step is switched on. Enter the number of a step to switch it on: {}",
        numbers.join(", ")
    ));
    if let Some(last) = numbers.last() {
        print_text(&url_line(&walk.url_of(last).unwrap_or_default()))?;
    }
    // The channel holds one line. The reading thread blocks until the previous line was carried
    // out.
    let (sender, asked) = mpsc::sync_channel(1);
    keyboard::lines(move |line| sender.send(line).is_ok()).context("cannot read standard input")?;
    let mut told = |answer: Result<String, String>| match answer {
        Ok(url) => {
            // The services stay up even if standard output fails.
            let _ = print_text(&url_line(&url));
        }
        Err(reason) => note(format_args!("petasos: {reason}")),
    };
    Ok(walk.hold(stop, &asked, &mut told)?)
}

/// The shell assignment that makes a printed `ab` command work when it is pasted.
fn url_line(url: &str) -> String {
    format!("URL='{}'\n", url.replace('\'', "%27"))
}

/// Width of the terminal on standard output. Without a terminal it is the smallest width of a
/// table.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map_or(report::table::WIDTH_MIN, |size| usize::from(size.ws_col))
}

/// One line on standard error, redrawn in place. Nothing is drawn if it is not a terminal.
struct ProgressLine {
    terminal: bool,
    shown: String,
}

impl ProgressLine {
    fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), shown: String::new() }
    }

    fn show(&mut self, text: String) {
        if self.terminal && text != self.shown {
            draw(&format!("\r\x1b[2K{text}"));
            self.shown = text;
        }
    }

    fn clear(&mut self) {
        self.show(String::new());
    }
}

impl Observer for ProgressLine {
    fn status(&mut self, status: &WalkStatus) {
        let width = rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        self.show(progress(status).chars().take(width.saturating_sub(1)).collect());
    }

    fn notice(&mut self, text: &str) {
        if self.terminal {
            self.clear();
            note(format_args!("{text}"));
        }
    }
}

/// The progress line: round, step, the phase of the walk (the rate while it measures) and the time
/// left.
fn progress(status: &WalkStatus) -> String {
    let doing = match (status.phase, status.rate_per_s) {
        (Phase::Preparing, _) => "switching the step on".to_owned(),
        (Phase::WarmingUp, _) => "warming up".to_owned(),
        (Phase::Measuring, None) => "measuring".to_owned(),
        (Phase::Measuring, Some(rate)) => format!("{} req/s", number::rate(rate)),
    };
    format!(
        "round {}/{}  step {} at {}: {doing}  ({} left)",
        status.round,
        status.rounds,
        status.step,
        status.concurrency,
        number::time(status.left)
    )
}

#[cfg(test)]
mod tests {
    use super::{DEMO, DEMO_NAME, progress};
    use ladder::{Phase, WalkStatus};
    use std::time::Duration;

    #[test]
    fn the_built_in_ladder_can_be_read() {
        if let Err(problems) = ladder::read_ladder(DEMO_NAME, DEMO, None) {
            panic!("{}", problems[0]);
        }
    }

    #[test]
    fn progress_line_has_step_round_rate_and_time_left() {
        let status = WalkStatus {
            step: "2 page cache".to_owned(),
            concurrency: 5,
            round: 1,
            rounds: 3,
            phase: Phase::Measuring,
            rate_per_s: Some(73.14),
            left: Duration::from_secs(159),
        };
        assert_eq!(progress(&status), "round 1/3  step 2 page cache at 5: 73.1 req/s  (2 min 39 s left)");
    }
}
