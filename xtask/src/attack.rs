//! `cargo xtask attack`: hostile clients, failing disks and misleading origins against the real binary. Each attack
//! states its limit, prints its figure beside the limit, and fails above it.
//!
//! The attacks are the integration tests in `crates/cli/tests` whose names begin with `attack_`, or with
//! `real_attack_` where they need Debian packages or the rights of root.

use crate::packages;
use crate::test::{self, Form};
use anyhow::{Result, ensure};

/// What `cargo xtask attack` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The form that `cargo xtask test` runs: fewer rounds and smaller sizes
    #[arg(long)]
    short: bool,
}

/// Installs the packages that attacks need, and runs every attack.
///
/// # Errors
/// If an attack gets beyond its limit, or cannot be run.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&test::TEST_PACKAGES)?;
    let tally = test::attacks(if args.short { Form::Short } else { Form::Long })?;
    println!("{tally}");
    ensure!(tally.failed == 0, "{} attacks got through", tally.failed);
    Ok(())
}
