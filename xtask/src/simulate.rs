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

/// Runs the simulation in place of this process.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn run(args: &Args) -> Result<()> {
    execute(&args.options)
}

/// Runs so many seeds that they have `lives` lives, which no other process does meanwhile.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_lives(lives: u64) -> Result<()> {
    // A run has 1.8 lives on average.
    let seeds = (lives * 10).div_ceil(17).to_string();
    execute(&["--seeds", &seeds, "--keep-going", "--shrink", "0"].map(OsString::from))
}

fn execute(options: &[OsString]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--release", "--locked", "--package", "petasos-lives", "--"]);
    // The process is replaced, so that signals and the exit code are those of the simulation.
    Err(command.args(options).exec()).context("cannot start cargo")
}
