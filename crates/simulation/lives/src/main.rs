//! The command that simulates lives of the edge.
//!
//! Invariant: the exit code is 0 if no run failed, 1 if one failed, and 2 if the command was wrong.

mod progress;

use crate::progress::Progress;
use anyhow::{Context, anyhow};
use clap::Parser;
use defects::Defect;
use petasos_lives::{Report, RunOptions, RunOutcome, RunPlan, run, shrink};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::collections::VecDeque;
use std::io::Write;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

/// Counts the bytes that the process has allocated, for the bound of the edge's memory.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Lines of a trace that are shown before a failure.
const LINES_SHOWN: usize = 400;

/// The most seeds that one process runs.
const SEEDS_OF_A_PROCESS: u64 = 250;

/// Simulates lives of the edge. Each run follows from its seed.
#[derive(Debug, Parser)]
#[command(name = "simulate")]
struct Arguments {
    /// Number of runs
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Seed of the first run; the next ones follow it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show plan and events of the first run
    #[arg(long)]
    trace: bool,
    /// Plant this defect, to see whether it is found; `list` shows all
    #[arg(long)]
    defect: Option<String>,
    /// Most runs for shrinking the first failing plan; 0 does not shrink
    #[arg(long, default_value_t = 300)]
    shrink: usize,
    /// Processes at the same time [default: one for each core]
    #[arg(long)]
    jobs: Option<u64>,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
    /// Run in this process and write the report as JSON
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.trace {
        // Panics of the simulated edge are part of the outcome.
        std::panic::set_hook(Box::new(|_| {}));
    }
    match start(&arguments) {
        Ok(code) => code,
        Err(error) => {
            // A closed standard error changes nothing.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.defect.as_deref() == Some("list") {
        let names: Vec<_> = Defect::ALL.iter().map(|defect| format!("{defect:?}")).collect();
        print(&names.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = options(arguments)?;
    if arguments.worker {
        let progress = Progress::watched(arguments.seed);
        run_here(arguments, &options, &progress);
        progress.end();
    }
    if arguments.trace {
        return show(arguments.seed, &options);
    }
    let report = run_in_processes(arguments)?;
    print(&report.to_string())?;
    let Some((seed, _)) = report.failures.first_key_value() else { return Ok(ExitCode::SUCCESS) };
    if arguments.shrink > 0 {
        show_small(*seed, arguments.shrink, &options)?;
    }
    Ok(ExitCode::FAILURE)
}

fn options(arguments: &Arguments) -> anyhow::Result<RunOptions> {
    let defect = match &arguments.defect {
        Some(name) => Some(
            Defect::of_name(name)
                .ok_or_else(|| anyhow!("there is no defect {name}; `--defect list` shows all"))?,
        ),
        None => None,
    };
    Ok(RunOptions { trace: arguments.trace, defect, allocated_bytes })
}

/// The bytes that are allocated now.
fn allocated_bytes() -> u64 {
    let stats = ALLOCATOR.stats();
    // Reallocation counts what it adds or removes in the other figures.
    (stats.bytes_allocated as u64).saturating_sub(stats.bytes_deallocated as u64)
}

#[expect(clippy::disallowed_methods, reason = "the report states the real time that simulation takes")]
fn run_here(arguments: &Arguments, options: &RunOptions, progress: &Progress) {
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        let begun = Instant::now();
        progress.begin(seed);
        let outcome = run(&RunPlan::of_seed(seed), options);
        let mut own = outcome.report;
        own.real_s = begun.elapsed().as_secs_f64();
        if let Some(failure) = outcome.failures.first() {
            own.failures.insert(seed, failure.clone());
        }
        let is_failed = !own.failures.is_empty();
        progress.add(own);
        if is_failed && !arguments.keep_going {
            break;
        }
    }
}

/// Divides the seeds among processes, because each run needs a system thread and an allocator of
/// its own. A process has few seeds, because what a killed edge leaves behind stays in its memory.
fn run_in_processes(arguments: &Arguments) -> anyhow::Result<Report> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let jobs = arguments.jobs.unwrap_or(cores).clamp(1, arguments.seeds.max(1));
    let seeds_max = arguments.seeds.div_ceil(jobs).clamp(1, SEEDS_OF_A_PROCESS);
    let end = arguments.seed.saturating_add(arguments.seeds);
    let mut report = Report::default();
    let mut running = VecDeque::new();
    let mut next = arguments.seed;
    loop {
        let goes_on = arguments.keep_going || report.failures.is_empty();
        while goes_on && next < end && (running.len() as u64) < jobs {
            let count = seeds_max.min(end - next);
            running.push_back((next, count, start_process(arguments, next, count)?));
            next += count;
        }
        let Some((first, count, child)) = running.pop_front() else { return Ok(report) };
        let output = child.wait_with_output().context("cannot read a process's output")?;
        let seeds = format!("the seeds {first} to {}", first + count - 1);
        let part = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the process for {seeds} ended with {}", output.status))?;
        report.add(part);
    }
}

/// Starts a process for some of the seeds.
fn start_process(arguments: &Arguments, first: u64, count: u64) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(&program);
    command.args(["--worker", "--seed", &first.to_string(), "--seeds", &count.to_string()]);
    if let Some(defect) = &arguments.defect {
        command.args(["--defect", defect]);
    }
    if arguments.keep_going {
        command.arg("--keep-going");
    }
    command.stdout(Stdio::piped()).spawn().context("cannot start a process")
}

/// Runs one seed and shows its plan, its events and its failures.
fn show(seed: u64, options: &RunOptions) -> anyhow::Result<ExitCode> {
    let plan = RunPlan::of_seed(seed);
    // Before the run, which may end the process.
    print(&plan.to_string())?;
    let outcome = run(&plan, options);
    print(&format!("the worlds:\n{}", outcome.trace.join("\n")))?;
    print(&format!("\nthe actors:\n{}", outcome.log.join("\n")))?;
    tell(&outcome)
}

fn tell(outcome: &RunOutcome) -> anyhow::Result<ExitCode> {
    print(&format!("hash of all events: {:016x}", outcome.hash))?;
    if outcome.failures.is_empty() {
        print("no failure")?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&outcome.failures.join("\n"))?;
    Ok(ExitCode::FAILURE)
}

/// Shrinks the plan of a failing seed, and shows what is left with its last events.
fn show_small(seed: u64, runs_max: usize, options: &RunOptions) -> anyhow::Result<()> {
    let plan = RunPlan::of_seed(seed);
    let Some(rule) = rule_of(&run(&plan, options)) else {
        return print(&format!("seed {seed} does not fail when it is run alone"));
    };
    let (small, runs) = shrink(&plan, runs_max, |plan| rule_of(&run(plan, options)) == Some(rule.clone()));
    print(&format!("\nthe plan of seed {seed}, shrunk in {runs} runs:\n{small}"))?;
    let outcome = run(&small, &RunOptions { trace: true, ..*options });
    let from = outcome.log.len().saturating_sub(LINES_SHOWN);
    print(&outcome.log.get(from..).unwrap_or_default().join("\n"))?;
    tell(&outcome).map(drop)
}

/// The rule at the beginning of the first failure.
fn rule_of(outcome: &RunOutcome) -> Option<String> {
    let first = outcome.failures.first()?;
    Some(first.split(" at ").next().unwrap_or(first).chars().take(40).collect())
}

fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
