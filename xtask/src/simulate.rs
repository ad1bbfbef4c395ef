//! `cargo xtask simulate`: builds the simulation of the edge and runs it.
//!
//! Invariant: the exit code is that of the simulation: 0 if no run failed, 1 if one failed, and 2
//! if the command was wrong.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Arguments of `cargo xtask simulate`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the simulation, such as `--seeds 1000`; `--help` shows all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// How cargo finds the simulation.
const SIMULATION: [&str; 2] = ["--package", "petasos-lives"];

/// Runs the simulation in place of this process.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn run(args: &Args) -> Result<()> {
    execute(SIMULATION, &args.options)
}

/// Runs as many seeds as it takes for this number of lives.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_lives(lives: u64) -> Result<()> {
    // A run has 2.6 lives on average.
    let seeds = (lives * 10).div_ceil(25).to_string();
    execute(SIMULATION, &["--seeds", &seeds, "--keep-going", "--shrink", "0"].map(OsString::from))
}

/// Measures the share of source lines that run in the simulation. A separate package does this.
///
/// # Errors
/// As [`run`].
pub(crate) fn measure_lines(options: &[OsString]) -> Result<()> {
    execute(["--manifest-path", "crates/simulation/lines/Cargo.toml"], options)
}

/// Runs a package with these options.
fn execute(package: [&str; 2], options: &[OsString]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--release", "--locked"]).args(package).arg("--").args(options);
    // The process is replaced, so that signals and the exit code are those of the package.
    Err(command.exec()).context("cannot start cargo")
}
