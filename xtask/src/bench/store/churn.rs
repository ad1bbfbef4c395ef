//! Resident memory of whole programs under churn. Visitors on a thousand connections request pages
//! of all sizes at the same time, most of them only once. In the first phase, ten times the memory
//! budget flows through. In later phases the sizes change, which is the hardest case for an
//! allocator.
//!
//! Invariant: memory is sampled ten times a second, from before the first request until after the
//! last. A phase that takes too long ends early, and a row says how much content has flowed.
//! Refused and truncated responses are counted, because a cache may fail requests to stay within
//! its memory.

use super::origin::{BenchPage, NUMBER_BYTES, PAGE_BYTES_MAX};
use super::server::{BenchProgram, BenchServer, ServerBase};
use super::table::{FigureTable, FigureTarget};
use super::visitors::ConnectedVisitors;
use super::{StoreBench, VISITORS_MAX, mebibytes};
use anyhow::Result;
use clock::Clock as _;
use platform::SystemClock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const BUDGET_BYTES: u64 = 512 << 20;
/// Maximum resident memory: the budget, a tenth of it, and 64 MiB.
const RESIDENT_MOST: u64 = BUDGET_BYTES + BUDGET_BYTES / 10 + (64 << 20);
/// Interval between two samples of memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Longest duration of a phase.
const PHASE_MAX: Duration = Duration::from_secs(90);
/// Page numbers are drawn from 0 up to this.
const NUMBERS: usize = 4_000_000;

/// Phases: name, smallest and largest page in bytes, and content that flows, in budgets. The
/// logarithms of the sizes are distributed evenly.
const PHASES: [(&str, f64, f64, f64); 4] = [
    ("64 B to 1 MB", 64.0, PAGE_BYTES_MAX as f64, 10.0),
    ("64 B to 4 KiB", 64.0, 4_096.0, 1.0),
    ("256 KiB to 1 MiB", 262_144.0, PAGE_BYTES_MAX as f64, 2.0),
    ("64 B to 1 MB again", 64.0, PAGE_BYTES_MAX as f64, 2.0),
];

/// Result of a phase.
struct ChurnPhase {
    budgets: f64,
    highest_bytes: u64,
    wrong_percent: f64,
    objects: Option<u64>,
}

/// Measures both programs and adds their rows.
pub(super) fn measure(base: &ServerBase, bench: &StoreBench<'_>, table: &mut FigureTable) -> Result<()> {
    let mut seen = Vec::new();
    for (kind, name) in [(BenchProgram::Petasos, "petasos-churn"), (BenchProgram::Varnish, "varnish-churn")] {
        let server = base.server(kind, name)?;
        base.start(server, "512M", "", BenchServer::answers)?;
        seen.push(PHASES.iter().map(|phase| flow(base, bench, &server, phase)).collect::<Result<Vec<_>>>()?);
        base.stop(&server)?;
    }
    let [petasos, varnish] = &*seen else { return Ok(()) };
    for ((phase, petasos), varnish) in PHASES.iter().zip(petasos).zip(varnish) {
        let (name, ..) = phase;
        let [own, other] = [petasos, varnish].map(|phase| Some(mebibytes(phase.highest_bytes)));
        let most = FigureTarget::Most(mebibytes(RESIDENT_MOST));
        table.add(format!("whole program: highest resident, {name}"), "MiB", own, other, most);
        let own = Some(petasos.budgets);
        let other = Some(varnish.budgets);
        table.add(
            format!("whole program: content that flowed, {name}"),
            "budgets",
            own,
            other,
            FigureTarget::None,
        );
        let own = Some(petasos.wrong_percent);
        let other = Some(varnish.wrong_percent);
        table.add(format!("whole program: failed answers, {name}"), "%", own, other, FigureTarget::Most(0.0));
        let objects = petasos.objects.map(|objects| objects as f64);
        table.add(
            format!("whole program: objects at the end, {name}"),
            "",
            objects,
            None,
            FigureTarget::None,
        );
    }
    Ok(())
}

/// Runs one phase against a server.
fn flow(
    base: &ServerBase,
    bench: &StoreBench<'_>,
    server: &BenchServer,
    &(name, from, to, budgets): &(&str, f64, f64, f64),
) -> Result<ChurnPhase> {
    let clock = SystemClock::new();
    let over = AtomicBool::new(false);
    let highest = AtomicU64::new(0);
    let mut random = bench.random();
    let mut visitors = ConnectedVisitors::gather(server.address, VISITORS_MAX.into(), &bench.interrupted)?;
    let flowed_most = (budgets * BUDGET_BYTES as f64) as u64;
    let begun = clock.monotonic();
    let mut flowed = 0;
    let asked = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                highest.fetch_max(base.resident_bytes(server), Ordering::Relaxed);
                std::thread::sleep(SAMPLE_EVERY);
            }
        });
        let asked = visitors.ask(None, || {
            let share = random.below(1 << 30) as f64 / (1_u64 << 30) as f64;
            let bytes = (from.ln() + share * (to.ln() - from.ln())).exp() as u32;
            let number = random.below(NUMBERS) as u64;
            flowed += u64::from(bytes);
            let is_due = flowed < flowed_most && clock.monotonic().since(begun) < PHASE_MAX;
            is_due.then_some(BenchPage { bytes: bytes.max(NUMBER_BYTES as u32), number })
        });
        over.store(true, Ordering::Relaxed);
        asked
    })?;
    // Relaxed loads and stores are enough, because the end of the scope joined the sampling thread.
    let highest_bytes = highest.into_inner().max(base.resident_bytes(server));
    let budgets = asked.content_bytes as f64 / BUDGET_BYTES as f64;
    let took = clock.monotonic().since(begun);
    eprintln!(
        "{} {name}: {} right answers, {} wrong, {budgets:.1} budgets in {took:.1?}, highest {:.0} MiB",
        server.name,
        asked.right,
        asked.wrong,
        mebibytes(highest_bytes)
    );
    let wrong_percent = 100.0 * asked.wrong as f64 / (asked.right + asked.wrong).max(1) as f64;
    let objects = match server.kind {
        BenchProgram::Petasos => Some(server.metric("petasos_store_objects")?),
        BenchProgram::Varnish => None,
    };
    Ok(ChurnPhase { budgets, highest_bytes, wrong_percent, objects })
}
