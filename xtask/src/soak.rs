//! `cargo xtask soak`, also as `cargo xtask long soak`: runs the proxy for ten minutes with a disk
//! and little memory. The load consists of visitors of all kinds over HTTP/1.1, TLS and HTTP/2,
//! bans, purges, reloads, log rotations and greedy clients. The origins fail from time to time.
//!
//! It runs the optimised binary if one exists, after bringing it up to date, and otherwise the
//! debug binary. It prints the figures beside their limits. It fails if a figure exceeds its limit,
//! or if an error was not caused by one of the planned failures.

use crate::test;
use anyhow::{Result, ensure};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use testkit::soak::{self, SoakPlan};

/// Default duration of the load.
const SECONDS: u64 = 600;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Duration of the load in minutes [default: 10]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: Option<u64>,
    /// Duration of the load in seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(4..=86_400))]
    seconds: Option<u64>,
    /// Test this binary instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the load and prints the report.
///
/// # Errors
/// If a requirement did not hold, or the binary cannot be built.
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let seed = args.seed;
    let seconds = args.seconds.or_else(|| args.minutes.map(|minutes| minutes * 60)).unwrap_or(SECONDS);
    eprintln!("soak: {seconds} s of {}, seed {seed}", program.display());
    let plan =
        SoakPlan { seed, length: Duration::from_secs(seconds), program: std::path::absolute(program)? };
    // Ignore write errors: the run goes on if standard error is closed.
    let report = soak::run(&plan, &|line| drop(writeln!(std::io::stderr(), "soak: {line}")));
    print!("{report}");
    ensure!(report.problems.is_empty(), "{} problems with seed {seed}", report.problems.len());
    Ok(())
}

/// Brings a binary up to date and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let [optimised, other] = ["target/release/petasos", "target/debug/petasos"].map(PathBuf::from);
    if optimised.exists() {
        test::build_optimised()?;
        return Ok(optimised);
    }
    test::build_binary()?;
    Ok(other)
}
