//! The store by itself: what an object costs, what look-ups and purges take, and resident memory under churn. The
//! product's allocator first, the system's beside it.
//!
//! Invariant: each measurement has a process of its own, so that none finds the memory that another has left.

use super::{build, optimised};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Programs of `bench/store`, by their allocator.
const PROGRAMS: [&str; 2] = ["store-mimalloc", "store-system"];

/// Measurements, in order.
const MEASUREMENTS: [&str; 4] = ["overhead", "hits", "purges", "rss"];

/// What `cargo xtask bench store` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One measurement, instead of all; may be given several times
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(MEASUREMENTS))]
    only: Vec<String>,
}

/// Runs `cargo xtask bench store`.
///
/// # Errors
/// If a program cannot be built or run.
pub(crate) fn run(args: &Args) -> Result<()> {
    build("petasos-bench-store")?;
    let is_wanted = |name: &&str| args.only.is_empty() || args.only.iter().any(|wanted| wanted == name);
    for name in MEASUREMENTS.iter().filter(|name| is_wanted(name)) {
        for program in PROGRAMS {
            let status = Command::new(optimised(program)?).arg(name).status();
            let status = status.with_context(|| format!("cannot run {program}"))?;
            ensure!(status.success(), "{program} {name} ended with {status}");
        }
    }
    Ok(())
}
