//! Purges through HTTP. Measures the response time of a purge that invalidates a hundredth of all
//! pages. Also measures the response time of hits during a hundred purges a second. Varnish
//! receives bans for the same tags, because Debian's Varnish has no purge by tag.
//!
//! Invariant: visitors request only pages that no purge invalidates, at a rate that leaves the
//! servers mostly idle. In each round, every server takes one turn with purges and one without, in
//! an order drawn from the seed. Each purge uses a new connection, and its time includes opening
//! the connection.

use super::filled::{FilledServer, page};
use super::origin::{PARTS, TAG_HEADER, TAGS, part, tag};
use super::server::{BenchProgram, ServerBase};
use super::table::{FigureTable, FigureTarget};
use super::visitors::ConnectedVisitors;
use super::{StoreBench, spread};
use anyhow::{Context, Result, ensure};
use clock::Clock as _;
use message::Status;
use platform::SystemClock;
use stats::{Random, median};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of purges of a whole part whose response time is measured.
const PURGES_TIMED: u64 = 5;
/// Time between two purges: 100 a second.
const PURGE_EVERY: Duration = Duration::from_millis(10);
const VISITORS: usize = 32;
/// Requests of visitors a second.
const RATE: u32 = 4_000;
const TURN: Duration = Duration::from_millis(2_500);
const PURGE_MS_MOST: f64 = 5.0;
const P99_RATIO_MOST: f64 = 1.2;

/// Figures of one server's turns. The 99th percentiles are in microseconds.
#[derive(Debug, Default)]
struct PurgeFigures {
    quiet_p99: Vec<f64>,
    busy_p99: Vec<f64>,
    purges_per_second: Vec<f64>,
    purge_ms: Vec<f64>,
}

/// Measures both programs, whose servers hold the same number of pages, and adds their rows.
pub(super) fn measure(
    base: &ServerBase,
    bench: &StoreBench<'_>,
    filled: &[FilledServer],
    table: &mut FigureTable,
) -> Result<()> {
    let mut random = bench.random();
    let mut turns: Vec<_> = filled.iter().map(|filled| (filled, PurgeFigures::default())).collect();
    for (filled, turns) in &mut turns {
        for place in 0..PURGES_TIMED {
            // Odd parts only, because visitors request even pages.
            turns.purge_ms.push(purge(filled, &part(PARTS - 1 - 2 * place))?.as_secs_f64() * 1e3);
        }
    }
    // Tags of the second half are on odd pages only.
    let next_tag = AtomicU64::new(TAGS / 2);
    for round in 1..=bench.args.rounds {
        let mut order: Vec<_> =
            (0..turns.len()).flat_map(|place| [false, true].map(|busy| (place, busy))).collect();
        random.shuffle(&mut order);
        for (place, is_busy) in order {
            let Some((filled, turns)) = turns.get_mut(place) else { continue };
            let (p99, purges) = turn(base, bench, filled, is_busy.then_some(&next_tag), &mut random)?;
            let name = filled.server.name;
            eprintln!("round {round} of {}: {name}: p99 {p99:.0} µs, {purges} purges", bench.args.rounds);
            if is_busy {
                turns.busy_p99.push(p99);
                turns.purges_per_second.push(purges as f64 / TURN.as_secs_f64());
            } else {
                turns.quiet_p99.push(p99);
            }
        }
    }
    let of = |kind| turns.iter().find(|(filled, _)| filled.server.kind == kind).map(|(_, turns)| turns);
    if let (Some(petasos), Some(varnish)) = (of(BenchProgram::Petasos), of(BenchProgram::Varnish)) {
        add_rows(petasos, varnish, filled.first().map_or(0, |filled| filled.pages), table);
    }
    Ok(())
}

fn add_rows(petasos: &PurgeFigures, varnish: &PurgeFigures, pages: u64, table: &mut FigureTable) {
    let mut add =
        |what: String, unit: &str, figure: fn(&PurgeFigures) -> Option<f64>, target: FigureTarget| {
            table.add(format!("whole program: {what}"), unit, figure(petasos), figure(varnish), target);
        };
    let what =
        format!("answer to a purge by tag of {} among {pages} objects (Varnish: a ban)", pages / PARTS);
    add(what, "ms", |turns| median(&turns.purge_ms), FigureTarget::Most(PURGE_MS_MOST));
    add("p99 of hits alone".to_owned(), "µs", |turns| median(&turns.quiet_p99), FigureTarget::None);
    add("p99 of hits beside purges".to_owned(), "µs", |turns| median(&turns.busy_p99), FigureTarget::None);
    let what = format!("p99 beside purges in p99 alone, median of rounds ({})", spread(&ratios(petasos)));
    add(what, "", |turns| median(&ratios(turns)), FigureTarget::Most(P99_RATIO_MOST));
    add("purges a second".to_owned(), "", |turns| median(&turns.purges_per_second), FigureTarget::None);
}

fn ratios(turns: &PurgeFigures) -> Vec<f64> {
    turns.busy_p99.iter().zip(&turns.quiet_p99).map(|(busy, quiet)| busy / quiet).collect()
}

/// Runs one turn, with purges of the tags from `tags` on, or without purges. Returns the 99th
/// percentile of hits in microseconds, and the number of purges.
fn turn(
    base: &ServerBase,
    bench: &StoreBench<'_>,
    filled: &FilledServer,
    tags: Option<&AtomicU64>,
    random: &mut Random,
) -> Result<(f64, u64)> {
    let clock = SystemClock::new();
    // Relaxed is enough for the flag and the numbers of the tags: they guard no other data.
    let over = AtomicBool::new(false);
    let mut visitors = ConnectedVisitors::gather(filled.server.address, VISITORS, &bench.interrupted)?;
    let fetched = base.origin.requests();
    let (asked, purges) = std::thread::scope(|scope| {
        let purging = tags.map(|tags| scope.spawn(|| purge_until(filled, tags, &over)));
        let end = clock.monotonic().plus(TURN);
        let mut any = || page(2 * random.below((filled.pages / 2) as usize) as u64);
        let asked = visitors.ask(Some(RATE), || (clock.monotonic() < end).then(&mut any));
        over.store(true, Ordering::Relaxed);
        let purges = purging.map_or(Ok(Ok(0)), |purging| purging.join());
        (asked, purges)
    });
    let mut asked = asked?;
    let purges = purges.ok().context("the thread that purges panicked")??;
    let fetched = base.origin.requests() - fetched;
    let name = filled.server.name;
    ensure!(asked.wrong == 0 && fetched == 0, "{name}: {} wrong answers, {fetched} fetches", asked.wrong);
    asked.nanos.sort_unstable();
    let at = asked.nanos.len() * 99 / 100;
    Ok((asked.nanos.get(at).copied().unwrap_or(0) as f64 / 1e3, purges))
}

/// Purges one tag after the other until `over` is set. Returns the number of purges.
fn purge_until(filled: &FilledServer, tags: &AtomicU64, over: &AtomicBool) -> Result<u64> {
    let clock = SystemClock::new();
    let mut purges = 0;
    let begun = clock.monotonic();
    while !over.load(Ordering::Relaxed) {
        let number = tags.fetch_add(1, Ordering::Relaxed) - TAGS / 2;
        purge(filled, &tag(TAGS / 2 + number % (TAGS / 2)))?;
        purges += 1;
        let due = PURGE_EVERY.saturating_mul(purges as u32);
        std::thread::sleep(due.saturating_sub(clock.monotonic().since(begun)));
    }
    Ok(purges)
}

/// Invalidates all pages with a tag. Returns the time until the response.
fn purge(filled: &FilledServer, tag: &str) -> Result<Duration> {
    let method = match filled.server.kind {
        BenchProgram::Petasos => "PURGE",
        BenchProgram::Varnish => "BAN",
    };
    let request = format!(
        "{method} / HTTP/1.1\r\nHost: bench.test\r\n{TAG_HEADER}: {tag}\r\nConnection: close\r\n\r\n"
    );
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let answer = filled.server.ask(&request)?;
    let took = clock.monotonic().since(begun);
    let status = answer.head.status;
    ensure!(status == Status::OK, "{} answers a purge with status {status}", filled.server.name);
    Ok(took)
}
