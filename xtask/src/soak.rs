//! `cargo xtask long soak`: runs the proxy for ten minutes with a disk and little memory. The load
//! consists of visitors of all kinds, bans, purges and log rotations. The origin fails from time to
//! time.
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

/// Arguments of `cargo xtask long soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Duration of the load
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(4..=86_400))]
    seconds: u64,
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
    let Args { seconds, seed, .. } = *args;
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
