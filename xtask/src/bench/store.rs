//! The store, by itself and through the released program: memory against what was allowed, what an object costs, what
//! hits and purges take, the share of requests it answers, and what a restart leaves of it; Varnish beside it where it
//! can do the same.
//!
//! Invariant: each part starts programs of its own and ends them, so that none finds what another has left; what is
//! compared is measured in turns of the same rounds, in an order drawn from the seed; and every answer was looked at.
//! Figures that miss their target are printed, and are no error.

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
use alone::Alone;
use anyhow::Result;
use filled::Wanted;
use server::Stand;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stats::Random;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use table::Table;

/// Parts, in order, with their titles.
const PARTS: [(&str, &str); 6] = [
    ("ratio", "Requests answered from a tenth of the content"),
    ("rss", "Resident memory under churn, 512 MiB allowed"),
    ("overhead", "What an object costs"),
    ("hits", "What a hit costs, by the number of objects"),
    ("purges", "Purges"),
    ("restart", "Restart"),
];

/// Connections of visitors at most, for the limit of descriptors.
const VISITORS_MAX: u16 = 1_000;

/// What `cargo xtask bench store` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One part, instead of all; may be given several times
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(PARTS.map(|(name, _)| name)))]
    only: Vec<String>,
    /// Rounds of the parts whose figures are compared: hits, purges and restart
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Objects behind the released program in the parts overhead, hits, purges and restart
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..=10_000_000))]
    objects: u64,
    /// The store by itself with the system's allocator too
    #[arg(long)]
    system: bool,
    /// Draws orders and pages
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What the parts share.
struct Bench<'a> {
    args: &'a Args,
    interrupted: Arc<AtomicBool>,
    alone: Alone,
}

/// Runs `cargo xtask bench store`.
///
/// # Errors
/// If a program cannot be built or run, answers wrongly, or on an interruption; all servers are stopped then.
pub(crate) fn run(args: &Args) -> Result<()> {
    build("petasos-bench-store")?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    ensure_descriptors(VISITORS_MAX)?;
    let bench = Bench { args, interrupted, alone: Alone { system: args.system } };
    if bench.is_wanted("ratio") {
        bench.print("ratio", &bench.alone.ratio()?);
    }
    if bench.is_wanted("rss") {
        let mut table = bench.alone.rss()?;
        churn::measure(&Stand::settle()?, &bench, &mut table)?;
        bench.print("rss", &table);
    }
    let wanted = Wanted {
        overhead: bench.is_wanted("overhead"),
        hits: bench.is_wanted("hits"),
        purges: bench.is_wanted("purges"),
    };
    if wanted.overhead || wanted.hits || wanted.purges {
        filled::measure(&Stand::settle()?, &bench, wanted)?;
    }
    if bench.is_wanted("restart") {
        let mut table = Table::default();
        restart::measure(&Stand::settle()?, &bench, &mut table)?;
        bench.print("restart", &table);
    }
    Ok(())
}

impl Bench<'_> {
    fn is_wanted(&self, part: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|wanted| wanted == part)
    }

    fn print(&self, part: &str, table: &Table) {
        let title = PARTS.iter().find(|(name, _)| *name == part).map_or(part, |(_, title)| title);
        table.print(title);
    }

    fn random(&self) -> Random {
        Random::from_seed(self.args.seed)
    }
}

/// In mebibytes.
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// The lowest and the highest of some figures, for people.
fn spread(figures: &[f64]) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2} to {most:.2}")
}
