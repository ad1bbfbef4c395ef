//! `cargo xtask long crash`: starts the proxy with a disk, kills it under load and starts it again,
//! as many times as `--lives` says. Each run of the proxy is one life. `cargo xtask test` has a few
//! lives of the same test.
//!
//! The command builds the binary that it kills. A failure names the seed. Runs with the same seed
//! send the same requests and purges, but the order between threads may differ.

use crate::test;
use anyhow::{Result, anyhow};
use std::io::Write;

/// Arguments of `cargo xtask long crash`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many times the proxy is started and killed
    #[arg(long, default_value_t = 1000)]
    lives: u32,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Number of lives between two progress lines.
const LIVES_PER_LINE: u32 = 20;

/// Runs the crash test and prints the tally.
///
/// # Errors
/// If a requirement did not hold, or the binary cannot be built.
pub(crate) fn run(args: &Args) -> Result<()> {
    test::build_binary()?;
    let Args { lives, seed } = *args;
    eprintln!("crash: {lives} lives from seed {seed}");
    let mut progress = |tally: &testkit::crash::CrashCounts| {
        if tally.lives.is_multiple_of(LIVES_PER_LINE) {
            // A closed standard error is no reason to stop.
            let _ = writeln!(std::io::stderr(), "crash: {tally}");
        }
    };
    let tally = testkit::crash::run(seed, lives, &mut progress).map_err(|problem| anyhow!("{problem}"))?;
    println!("{tally}");
    Ok(())
}
