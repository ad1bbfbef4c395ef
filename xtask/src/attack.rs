//! `cargo xtask attack`: hostile clients, failing disks and misleading origins against the real
//! binary. Each attack prints its measured figure and its limit, and fails if the figure is above
//! the limit.
//!
//! The attacks are integration tests in `crates/cli/tests`. Their file names begin with `attack_`,
//! or with `real_attack_` if they need Debian packages or root.

use crate::packages;
use crate::test::{self, TestSize};
use anyhow::{Result, ensure};

/// Arguments of `cargo xtask attack`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the form that `cargo xtask test` runs: fewer rounds and smaller sizes
    #[arg(long)]
    short: bool,
}

/// Installs the packages that attacks need, and runs every attack.
///
/// # Errors
/// If an attack exceeds its limit, or cannot be run.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&test::TEST_PACKAGES)?;
    let tally = test::attacks(if args.short { TestSize::Short } else { TestSize::Long })?;
    println!("{tally}");
    ensure!(tally.failed == 0, "{} attacks got through", tally.failed);
    Ok(())
}
