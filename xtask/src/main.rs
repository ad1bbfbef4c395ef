//! Repository tasks, run as `cargo xtask ...`. Every task first changes to the top of the
//! repository, so it can be called from any directory below it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for a terminal")]

mod account;
mod attack;
mod bench;
mod changes;
mod client;
mod conformance;
mod crash;
mod debian_root;
mod docs;
mod examples;
mod fuzz;
mod go_tools;
mod installation;
mod lab;
mod layers;
mod long;
mod mercury;
mod monitoring;
mod moves;
mod node;
mod packages;
mod place;
mod release;
mod service;
mod simulate;
mod soak;
mod test;
mod tidy;
mod tools;

use anyhow::{Context, Result};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Repository tasks: tests, labs, benchmarks, document checks
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Xtask {
    /// Run everything that must pass before a change lands
    Test(test::Args),
    /// Render the documents that are generated from tables
    Docs,
    /// Run the public conformance suite against the real binary and compare with the expected
    /// results
    Conformance(conformance::Args),
    /// Attack the real binary with hostile clients, failing disks and misleading origins; each
    /// attack has a limit
    Attack(attack::Args),
    /// Make packages for operators: a .deb, a static tarball, a list of components, checksums
    Package(release::Args),
    /// Simulate lives of the whole edge. Each run follows from its seed
    Simulate(simulate::Args),
    /// Run Petasos under every kind of load and failure for ten minutes, or as long as asked
    Soak(soak::Args),
    /// Run a test that takes too long to run before every landing
    #[command(subcommand)]
    Long(long::Long),
    /// Measure Petasos and other programs side by side on loopback
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Install, start and stop real application stacks on loopback
    #[command(subcommand)]
    Lab(lab::LabCommand),
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
        Xtask::Package(args) => release::run(args),
        Xtask::Simulate(args) => simulate::run(args),
        Xtask::Soak(args) => soak::run(args),
        Xtask::Long(long) => long::run(long),
        Xtask::Bench(bench) => bench::run(bench),
        Xtask::Lab(lab) => lab::run(lab),
    }
}

/// The top directory of the repository.
fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
