//! `cargo xtask long monitoring`: the alert rules in `contrib/prometheus`, checked and tested by
//! promtool.
//!
//! A test of the edge checks that rules and dashboard name existing metrics.

use crate::packages;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The directory of rules and their tests, relative to the repository.
const DIRECTORY: &str = "contrib/prometheus";

/// Installs Prometheus, and lets promtool check the rules and run their tests.
///
/// # Errors
/// If a rule is wrong, or a test of the rules fails.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&["prometheus"])?;
    let directory = Path::new(DIRECTORY);
    for arguments in [["check", "rules", "petasos.rules.yml"], ["test", "rules", "petasos.tests.yml"]] {
        let status = Command::new("promtool").args(arguments).current_dir(directory).status();
        let status = status.context("promtool does not run; it belongs to the package prometheus")?;
        ensure!(status.success(), "promtool {} found faults", arguments.join(" "));
    }
    Ok(())
}
