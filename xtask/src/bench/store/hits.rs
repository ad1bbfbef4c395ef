//! The cost of a whole hit by number of objects: processor time of the server's processes for each
//! request. Visitors on many persistent connections request pages at random.
//!
//! Invariant: each server takes a turn in every round. The ratio between the most and the fewest
//! objects uses turns of the same round. A turn in which the application received a request is an
//! error.

use super::filled::{FilledServer, page};
use super::server::{BenchProgram, ServerBase};
use super::table::{FigureTable, FigureTarget};
use super::visitors::ConnectedVisitors;
use super::{StoreBench, spread};
use anyhow::{Result, ensure};
use clock::Clock as _;
use platform::SystemClock;
use stats::{Random, median};
use std::time::Duration;

const VISITORS: usize = 100;
/// Duration of a turn, and of the warm-up before it, which does not count.
const TURN: Duration = Duration::from_secs(2);
const WARMING: Duration = Duration::from_millis(300);
/// Maximum cost of a hit among all objects, in multiples of a hit among the fewest.
const RATIO_MOST: f64 = 1.3;

/// Measures both programs and adds their rows.
pub(super) fn measure(
    base: &ServerBase,
    bench: &StoreBench<'_>,
    filled: &[FilledServer],
    table: &mut FigureTable,
) -> Result<()> {
    let mut random = bench.random();
    // Microseconds of processor time for a hit: one list for each server, one figure for each
    // round.
    let mut micros: Vec<Vec<f64>> = vec![Vec::new(); filled.len()];
    for round in 1..=bench.args.rounds {
        let mut order: Vec<_> = filled.iter().zip(&mut micros).collect();
        random.shuffle(&mut order);
        for (filled, micros) in order {
            let cost = turn(base, bench, filled, &mut random)?;
            eprintln!("round {round} of {}: {}: {cost:.2} µs a hit", bench.args.rounds, filled.server.name);
            micros.push(cost);
        }
    }
    let of = |kind| {
        let turns = filled.iter().zip(&micros).filter(move |(filled, _)| filled.server.kind == kind);
        turns.map(|(filled, micros)| (filled.pages, &**micros)).collect::<Vec<_>>()
    };
    let petasos = of(BenchProgram::Petasos);
    let varnish = of(BenchProgram::Varnish);
    for ((pages, own), (_, other)) in petasos.iter().zip(&varnish) {
        let what = format!("whole program: processor time of a hit, {pages} objects");
        table.add(what, "µs", median(own), median(other), FigureTarget::None);
    }
    let petasos = ratios(&petasos);
    let varnish = ratios(&varnish);
    let what = format!("whole program: between the ends, median of rounds ({})", spread(&petasos));
    table.add(what, "", median(&petasos), median(&varnish), FigureTarget::Most(RATIO_MOST));
    Ok(())
}

/// Cost at the last server divided by the cost at the first, for each round.
fn ratios(turns: &[(u64, &[f64])]) -> Vec<f64> {
    match turns {
        [(_, few), .., (_, all)] => all.iter().zip(*few).map(|(all, few)| all / few).collect(),
        _ => Vec::new(),
    }
}

/// Runs one turn of a server. Returns microseconds of processor time for each request.
fn turn(
    base: &ServerBase,
    bench: &StoreBench<'_>,
    filled: &FilledServer,
    random: &mut Random,
) -> Result<f64> {
    let FilledServer { server, pages, .. } = filled;
    let clock = SystemClock::new();
    let mut visitors = ConnectedVisitors::gather(server.address, VISITORS, &bench.interrupted)?;
    let mut ask_for = |time: Duration| {
        let end = clock.monotonic().plus(time);
        let mut any = || page(random.below(*pages as usize) as u64);
        visitors.ask(None, || (clock.monotonic() < end).then(&mut any))
    };
    ask_for(WARMING)?;
    let fetched = base.origin.requests();
    let spent = base.processor_seconds(server);
    let asked = ask_for(TURN)?;
    let spent = base.processor_seconds(server) - spent;
    ensure!(asked.wrong == 0, "{} gave {} wrong answers", server.name, asked.wrong);
    let fetched = base.origin.requests() - fetched;
    ensure!(fetched == 0, "{} asked the application {fetched} times for pages that it has", server.name);
    Ok(spent * 1e6 / asked.right as f64)
}
