//! Measures the store, both alone and in the release binary:
//!
//! - resident memory against the limit, and memory for each object
//! - the cost of hits and purges
//! - the hit ratio
//! - the objects that remain after a restart
//!
//! Varnish is measured too, in the parts that it supports.
//!
//! Invariant: each part starts its own programs and stops them, so that no part sees the state of
//! another. Compared programs take turns in the same rounds, in an order drawn from the seed. Every
//! response is checked. A figure that misses its target is printed and is no error.

mod alone;
mod churn;
mod filled;
mod hits;
mod origin;
mod purges;
mod restart;
mod server;
mod table;
mod visitors;

use super::build;
use super::stampede::ensure_descriptors;
use alone::StoreOnly;
use anyhow::Result;
use filled::SelectedParts;
use server::ServerBase;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stats::Random;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use table::FigureTable;

/// Names of the parts in their order, with their titles.
const PARTS: [(&str, &str); 6] = [
    ("ratio", "Requests answered from a tenth of the content"),
    ("rss", "Resident memory under churn, 512 MiB allowed"),
    ("overhead", "What an object costs"),
    ("hits", "What a hit costs, by the number of objects"),
    ("purges", "Purges"),
    ("restart", "Restart"),
];

/// Maximum number of visitors' connections, for the limit on file descriptors.
const VISITORS_MAX: u16 = 1_000;

/// Arguments of `cargo xtask bench store`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only this part; may be given several times
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(PARTS.map(|(name, _)| name)))]
    only: Vec<String>,
    /// Rounds of the parts that compare figures: hits, purges and restart (at most 3)
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Objects in the store for the parts overhead, hits, purges and restart of the release binary
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..=10_000_000))]
    objects: u64,
    /// Also measure the store with the system's allocator
    #[arg(long)]
    system: bool,
    /// Seed for orders and pages
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// State that all parts share.
struct StoreBench<'a> {
    args: &'a Args,
    interrupted: Arc<AtomicBool>,
    alone: StoreOnly,
}

/// Runs `cargo xtask bench store`.
///
/// # Errors
/// If a program cannot be built or run, if a response is wrong, or on an interruption. In each case
/// all servers are stopped.
pub(crate) fn run(args: &Args) -> Result<()> {
    build("petasos-bench-store")?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    ensure_descriptors(VISITORS_MAX)?;
    let bench = StoreBench { args, interrupted, alone: StoreOnly { system: args.system } };
    if bench.is_wanted("ratio") {
        bench.print("ratio", &bench.alone.ratio()?);
    }
    if bench.is_wanted("rss") {
        let mut table = bench.alone.rss()?;
        churn::measure(&ServerBase::settle()?, &bench, &mut table)?;
        bench.print("rss", &table);
    }
    let wanted = SelectedParts {
        overhead: bench.is_wanted("overhead"),
        hits: bench.is_wanted("hits"),
        purges: bench.is_wanted("purges"),
    };
    if wanted.overhead || wanted.hits || wanted.purges {
        filled::measure(&ServerBase::settle()?, &bench, wanted)?;
    }
    if bench.is_wanted("restart") {
        let mut table = FigureTable::default();
        restart::measure(&ServerBase::settle()?, &bench, &mut table)?;
        bench.print("restart", &table);
    }
    Ok(())
}

impl StoreBench<'_> {
    fn is_wanted(&self, part: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|wanted| wanted == part)
    }

    fn print(&self, part: &str, table: &FigureTable) {
        let title = PARTS.iter().find(|(name, _)| *name == part).map_or(part, |(_, title)| title);
        table.print(title);
    }

    fn random(&self) -> Random {
        Random::from_seed(self.args.seed)
    }
}

/// Converts bytes to mebibytes.
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// The lowest and the highest figure, as text.
fn spread(figures: &[f64]) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2} to {most:.2}")
}
