//! `cargo xtask long crash`: as many lives and deaths of the edge with a disk as one likes. The test command has a
//! few of them.
//!
//! It builds the binary that it kills. A failure says what happened, and from which seed; lives with the same seed
//! ask and purge the same, though not in the same order of threads.

use crate::test;
use anyhow::{Result, anyhow};
use std::io::Write;

/// What `cargo xtask long crash` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often the edge lives and dies
    #[arg(long, default_value_t = 1000)]
    lives: u32,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Lives between two lines of progress.
const LIVES_PER_LINE: u32 = 20;

/// Lets the edge live and die.
///
/// # Errors
/// If something that was promised did not hold, or the binary cannot be built.
pub(crate) fn run(args: &Args) -> Result<()> {
    test::build_binary()?;
    let Args { lives, seed } = *args;
    eprintln!("crash: {lives} lives from seed {seed}");
    let mut progress = |tally: &testkit::crash::Tally| {
        if tally.lives.is_multiple_of(LIVES_PER_LINE) {
            // Whoever closed standard error does not want to know.
            let _ = writeln!(std::io::stderr(), "crash: {tally}");
        }
    };
    let tally = testkit::crash::run(seed, lives, &mut progress).map_err(|problem| anyhow!("{problem}"))?;
    println!("{tally}");
    Ok(())
}
