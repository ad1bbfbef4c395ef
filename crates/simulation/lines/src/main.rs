//! `cargo xtask long simulation-lines`: the share of source lines that run in the simulation. It
//! runs at the top of the repository.
//!
//! Invariant: only code that is compiled into petasos-simulate counts, so tests and the code of
//! other features do not. The profile is of the seeds of this call alone.

mod line_counts;

use crate::line_counts::{FileLines, Region};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use llvm_profparser::instrumentation_profile::types::InstrumentationProfile;
use llvm_profparser::{CoverageMapping, CoverageReport};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that are measured.
const CRATES: [(&str, &str); 3] = [
    ("petasos-edge", "crates/edge/edge/src"),
    ("petasos-store", "crates/cache/store/src"),
    ("petasos-disk", "crates/cache/disk/src"),
];

/// Files whose work is calls of the system or files outside the simulated disk, with what they do.
/// A second figure leaves them out.
const OUTSIDE: [(&str, &str); 8] = [
    ("crates/edge/edge/src/serve.rs", "listening sockets, threads, signals"),
    ("crates/edge/edge/src/control/access_log.rs", "a log file"),
    ("crates/edge/edge/src/control/log_output.rs", "a log file"),
    ("crates/edge/edge/src/control/operator.rs", "standard error"),
    ("crates/edge/edge/src/control/token.rs", "the token's file"),
    ("crates/edge/edge/src/upkeep/directories.rs", "checks of directories before the start"),
    ("crates/edge/edge/src/upkeep/footprint.rs", "the memory of the process in /proc"),
    ("crates/edge/edge/src/upkeep/signals.rs", "signals"),
];

/// Measures the share of source lines of edge, store and disk tier that run in the simulation
#[derive(Parser)]
#[command(name = "simulation-lines")]
struct Args {
    /// Number of simulated runs
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Files to show, those with the most lines that do not run first
    #[arg(long, default_value_t = 25)]
    files: usize,
    /// Show the ranges of lines that do not run in each of these files
    #[arg(long)]
    ranges: bool,
    /// Fail if less than this percentage of the lines runs
    #[arg(long, value_name = "PERCENT", default_value_t = 85.0)]
    at_least: f64,
}

fn main() -> Result<()> {
    run(&Args::parse())
}

/// Runs the simulation with counters in its code, and prints the table.
///
/// # Errors
/// If the build, a run or the reading fails, or if too few lines run.
fn run(args: &Args) -> Result<()> {
    let directory = std::env::current_dir()?.join("target/simulation-lines");
    let program = build(&directory)?;
    let profile = simulate(&directory, &program, args)?;
    show(&program, &profile, args)
}

/// Prints the tables of a profile.
fn show(program: &Path, profile: &Path, args: &Args) -> Result<()> {
    let files = read(program, profile)?;
    show_files(&files, args);
    let percent = show_crates(&files);
    ensure!(percent >= args.at_least, "{percent:.1}% of the lines run, less than {}%", args.at_least);
    Ok(())
}

/// Builds petasos-simulate with counters. A target is named, so that the build scripts and macros
/// have none.
fn build(directory: &Path) -> Result<PathBuf> {
    let host = host()?;
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            "petasos-lives",
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(directory)
        .env("RUSTFLAGS", "-C instrument-coverage")
        // Less optimisation builds faster, and the runs take a few minutes only.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .status()?;
    ensure!(status.success(), "the simulation cannot be built: {status}");
    Ok(directory.join(host).join("release/petasos-simulate"))
}

/// The target for which the compiler builds if none is named.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not tell its host")
}

/// Runs the seeds. The processes add their counters to one file when they end.
fn simulate(directory: &Path, program: &Path, args: &Args) -> Result<PathBuf> {
    let profiles = directory.join("profiles");
    if profiles.exists() {
        fs::remove_dir_all(&profiles)?;
    }
    fs::create_dir_all(&profiles)?;
    let status = Command::new(program)
        .args(["--keep-going", "--shrink", "0"])
        .args(["--seeds", &args.seeds.to_string(), "--seed", &args.seed.to_string()])
        .env("LLVM_PROFILE_FILE", profiles.join("%m.profraw"))
        .status()?;
    // A run that violates a rule has run its lines too.
    if !status.success() {
        eprintln!("the simulation ended with {status}; its lines are counted");
    }
    let entry = fs::read_dir(&profiles)?.next().context("the simulation has written no profile")?;
    Ok(entry?.path())
}

/// The lines of the files of all crates.
fn read(program: &Path, profile: &Path) -> Result<BTreeMap<String, FileLines>> {
    let read = llvm_profparser::parse(profile).context("cannot read the profile")?;
    // A generic function has counters for each unit of the compiler. A look-up finds the last ones;
    // merging adds them up.
    let mut counters = InstrumentationProfile::new(read.version(), false, false, false);
    counters.merge(&read);
    let programs = [program.to_owned()];
    let mapping = CoverageMapping::new(&programs, &counters, false)?;
    let top = std::env::current_dir()?;
    let is_measured = |path: &Path| {
        let path = path.strip_prefix(&top).unwrap_or(path);
        CRATES.iter().any(|(_, directory)| path.starts_with(directory))
    };
    let report = mapping.generate_subreport(|paths| paths.iter().any(|path| is_measured(path)))?;
    let files = lines_of(&report, &top, is_measured)?;
    ensure!(!files.is_empty(), "the program has no regions of the measured crates");
    Ok(files)
}

fn lines_of(
    report: &CoverageReport,
    top: &Path,
    is_measured: impl Fn(&Path) -> bool,
) -> Result<BTreeMap<String, FileLines>> {
    let mut files = BTreeMap::new();
    for (path, result) in report.files.iter().filter(|(path, _)| is_measured(path)) {
        let regions: Vec<Region> = result
            .hits
            .iter()
            .map(|(at, count)| Region {
                start: (at.line_start, at.column_start),
                end: (at.line_end, at.column_end),
                count: *count,
            })
            .collect();
        let source = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(top).unwrap_or(path).display().to_string();
        files.insert(name, FileLines::new(&source, &regions));
    }
    Ok(files)
}

fn show_files(files: &BTreeMap<String, FileLines>, args: &Args) {
    let mut order: Vec<_> = files.iter().filter(|(_, lines)| !lines.idle.is_empty()).collect();
    order.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.idle.len()));
    println!("{:>8} {:>9}  file", "not run", "with code");
    for (name, lines) in order.into_iter().take(args.files) {
        println!("{:>8} {:>9}  {name}", lines.idle.len(), lines.code);
        if args.ranges {
            let ranges = lines.idle_ranges().into_iter().map(|(first, last)| format!("{first}-{last}"));
            println!("{:>20}{}", "", ranges.collect::<Vec<_>>().join(" "));
        }
    }
}

/// Prints the lines of each crate. Returns the percentage of all.
fn show_crates(files: &BTreeMap<String, FileLines>) -> f64 {
    println!("\n{:<14} {:>9} {:>6} {:>7}", "crate", "with code", "run", "percent");
    let row = |name: &str, code: usize, idle: usize| {
        let percent = (code - idle) as f64 * 100.0 / code.max(1) as f64;
        println!("{name:<14} {code:>9} {:>6} {percent:>7.1}", code - idle);
        percent
    };
    let (mut all_code, mut all_idle) = (0, 0);
    for (name, directory) in CRATES {
        let own = || files.iter().filter(|(file, _)| file.starts_with(directory)).map(|(_, lines)| lines);
        let (code, idle) = (own().map(|lines| lines.code).sum(), own().map(|lines| lines.idle.len()).sum());
        row(name, code, idle);
        all_code += code;
        all_idle += idle;
    }
    let percent = row("all", all_code, all_idle);
    println!("\nwithout the files that only call the system:");
    for (file, work) in OUTSIDE {
        println!("  {file}: {work}");
        let Some(lines) = files.get(file) else { continue };
        all_code -= lines.code;
        all_idle -= lines.idle.len();
    }
    row("all others", all_code, all_idle);
    percent
}
