//! `cargo xtask long soak`: ten minutes in the life of the edge with a disk, little memory, visitors of all kinds,
//! bans, purges, rotated logs, and an origin that fails now and then.
//!
//! It runs the optimised binary if one was ever built, brought up to date, and otherwise the one for tests. It prints
//! the figures beside their limits, and fails when one is above, or when an error has no cause that it made.

use crate::test;
use anyhow::{Result, ensure};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use testkit::soak::{self, Plan};

/// What `cargo xtask long soak` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long the load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(4..=86_400))]
    seconds: u64,
    /// A binary that is built already
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Loads the edge, and prints what was seen.
///
/// # Errors
/// If something that was promised did not hold, or the binary cannot be built.
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let Args { seconds, seed, .. } = *args;
    eprintln!("soak: {seconds} s of {}, seed {seed}", program.display());
    let plan = Plan { seed, length: Duration::from_secs(seconds), program: std::path::absolute(program)? };
    // A closed standard error is no reason to stop.
    let report = soak::run(&plan, &|line| drop(writeln!(std::io::stderr(), "soak: {line}")));
    print!("{report}");
    ensure!(report.problems.is_empty(), "{} problems with seed {seed}", report.problems.len());
    Ok(())
}

/// Brings a binary up to date; gives its path.
fn build() -> Result<PathBuf> {
    let [optimised, other] = ["target/release/petasos", "target/debug/petasos"].map(PathBuf::from);
    if optimised.exists() {
        test::build_optimised()?;
        return Ok(optimised);
    }
    test::build_binary()?;
    Ok(other)
}
