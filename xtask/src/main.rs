//! Chores of the repository, as `cargo xtask ...`. It works at the top of the repository wherever it is called.

mod account;
mod attack;
mod bench;
mod conformance;
mod crash;
mod docs;
mod fuzz;
mod lab;
mod long;
mod packages;
mod place;
mod service;
mod soak;
mod test;
mod tidy;
mod tools;

use anyhow::{Context, Result};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Chores: tests, labs, benchmarks, docs checks
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Xtask {
    /// Everything that must hold before a change lands
    Test(test::Args),
    /// Render the documents that come from tables
    Docs,
    /// The public conformance suite against the real binary, compared with what is expected
    Conformance(conformance::Args),
    /// Hostile clients, failing disks and misleading origins against the real binary, each with its limit
    Attack(attack::Args),
    /// Tests that take too long for every landing
    #[command(subcommand)]
    Long(long::Long),
    /// Measurements side by side with other programs on loopback
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Real stacks on loopback, to measure against
    #[command(subcommand)]
    Lab(lab::Lab),
}

fn main() -> ExitCode {
    match run(&Xtask::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(xtask: &Xtask) -> Result<()> {
    let top = repository();
    std::env::set_current_dir(&top).with_context(|| format!("cannot enter {}", top.display()))?;
    match xtask {
        Xtask::Test(args) => test::run(args),
        Xtask::Docs => docs::write(),
        Xtask::Conformance(args) => conformance::run(args),
        Xtask::Attack(args) => attack::run(args),
        Xtask::Long(long) => long::run(long),
        Xtask::Bench(bench) => bench::run(bench),
        Xtask::Lab(lab) => lab::run(lab),
    }
}

/// The top of the repository.
fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
