//! `cargo xtask long traffic NAME`: the traffic of an ordinary site on a lab, through an edge that was told nothing.
//!
//! Invariant: what is measured, and what must hold, stands in `crates/cli/lab/systems/traffic.rs`, which the test
//! command runs in its short form; this only starts it.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the traffic on the lab of this name below `dir`, in real minutes if `paced`.
///
/// # Errors
/// If less was answered from the store than is promised, something leaked, or it could not be run.
pub(super) fn run(name: &str, dir: &Path, paced: bool) -> Result<()> {
    crate::test::build_binary()?;
    let test = format!("traffic::{name}");
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--locked", "--package", "petasos", "--features", "lab"]);
    command.args(["--test", "lab_systems", "--", "--exact", &test, "--nocapture"]).stdin(Stdio::null());
    command.env("PETASOS_LAB", dir).env("PETASOS_TRAFFIC", if paced { "paced" } else { "full" });
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "the traffic on the {name} lab ended with {status}");
    Ok(())
}
