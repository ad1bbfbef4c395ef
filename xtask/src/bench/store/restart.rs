//! The cost of a restart: the time from starting the program to the first hit, and to having all
//! stored objects again. Both are measured after an orderly end and after a kill. Varnish starts
//! empty.
//!
//! Invariant: the program is stopped only when the disk has every object. Afterwards a sample of
//! pages is requested, and the application counts the pages that were lost. The files are in the
//! system's page cache, which is the case after a restart of the program, but not of the machine.

use super::StoreBench;
use super::filled::{fill, page};
use super::server::{BenchProgram, BenchServer, ServerBase, asked};
use super::table::{FigureTable, FigureTarget};
use super::visitors::ConnectedVisitors;
use anyhow::{Context, Result, bail};
use clock::Clock as _;
use platform::SystemClock;
use stats::{Random, median};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::Duration;

const FIRST_HIT_MS_MOST: f64 = 2_000.0;
/// Maximum number of restarts of each kind.
const RESTARTS_MAX: u16 = 3;
const MEMORY: &str = "2G";
/// Interval between two checks of a condition.
const POLL: Duration = Duration::from_millis(2);
/// Number of checks for a hit between two checks whether the program still runs.
const LOOKS_MAX: u32 = 50;
/// Longest wait for the disk to write its queue, and for the program to load all objects.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Pages in the sample after a restart, and connections that request them.
const DRAWN: u64 = 20_000;
const VISITORS: usize = 32;

/// Figures of the restarts of one kind.
#[derive(Debug, Default)]
struct Restarts {
    first_hit_ms: Vec<f64>,
    all_ms: Vec<f64>,
    left_percent: Vec<f64>,
}

/// Measures both programs and adds their rows.
pub(super) fn measure(base: &ServerBase, bench: &StoreBench<'_>, table: &mut FigureTable) -> Result<()> {
    let pages = bench.args.objects;
    let mut random = bench.random();
    let server = base.server(BenchProgram::Petasos, "petasos-disk")?;
    let disk = format!(" --disk {} --disk-size 10GiB", base.disk_directory()?);
    base.start(server, MEMORY, &disk, BenchServer::answers)?;
    fill(base, bench, &server, pages)?;
    let written = wait(|| {
        let durable = server.metric("petasos_disk_durable_total")?;
        Ok(durable >= server.metric("petasos_disk_accepted_total")?)
    })?;
    let stored = server.metric("petasos_disk_objects")?;
    let restarts = bench.args.rounds.min(RESTARTS_MAX);
    let mut ended = Restarts::default();
    let mut killed = Restarts::default();
    for round in 1..=restarts {
        for (seen, is_kill) in [(&mut ended, false), (&mut killed, true)] {
            if is_kill {
                base.kill(&server)?
            } else {
                base.stop(&server)?
            }
            seen.restart(base, bench, &server, &disk, stored, &mut random)?;
            eprintln!(
                "restart {round} of {restarts}, {}: {seen:?}",
                if is_kill { "killed" } else { "ended" }
            );
        }
    }
    base.stop(&server)?;
    let varnish = varnish_first_answer_ms(base)?;
    table.add("objects that were on the disk", "", Some(stored as f64), None, FigureTarget::None);
    let what = "time until the disk had the last of them";
    table.add(what, "ms", Some(milliseconds(written)), None, FigureTarget::None);
    for (seen, after) in [(&ended, "an end in order"), (&killed, "a kill")] {
        let Restarts { first_hit_ms, all_ms, left_percent } = seen;
        let most = FigureTarget::Most(FIRST_HIT_MS_MOST);
        let what = format!("first hit after {after} (Varnish: first answer, from the application)");
        table.add(what, "ms", median(first_hit_ms), Some(varnish), most);
        table.add(format!("all taken over after {after}"), "ms", median(all_ms), None, FigureTarget::None);
        let what = format!("drawn pages that were left after {after}");
        table.add(what, "%", median(left_percent), Some(0.0), FigureTarget::None);
    }
    Ok(())
}

impl Restarts {
    /// Starts the program again and measures which of the `stored` objects are still there.
    fn restart(
        &mut self,
        base: &ServerBase,
        bench: &StoreBench<'_>,
        server: &BenchServer,
        disk: &str,
        stored: u64,
        random: &mut Random,
    ) -> Result<()> {
        let clock = SystemClock::new();
        let first_hit = Cell::new(None);
        let probe = RefCell::new(random.clone());
        let pages = bench.args.objects as usize;
        let begun = clock.monotonic();
        base.start(*server, MEMORY, disk, |server| {
            // Returning in between lets the caller notice a server that has ended.
            let mut random = probe.borrow_mut();
            for _ in 0..LOOKS_MAX {
                if is_hit(server, random.below(pages) as u64) {
                    first_hit.set(Some(clock.monotonic().since(begun)));
                    return true;
                }
                if bench.interrupted.load(Ordering::Relaxed) {
                    // Ends the wait. The missing figure then ends the measurement.
                    return true;
                }
                std::thread::sleep(POLL);
            }
            false
        })?;
        self.first_hit_ms.push(milliseconds(first_hit.get().context("interrupted")?));
        wait(|| Ok(server.metric("petasos_store_objects")? >= stored))?;
        self.all_ms.push(milliseconds(clock.monotonic().since(begun)));
        let before = base.origin.requests();
        let mut visitors = ConnectedVisitors::gather(server.address, VISITORS, &bench.interrupted)?;
        let mut left = DRAWN;
        visitors.ask(None, || {
            left = left.checked_sub(1)?;
            Some(page(random.below(pages) as u64))
        })?;
        let lost = base.origin.requests() - before;
        self.left_percent.push(100.0 * (1.0 - lost as f64 / DRAWN as f64));
        Ok(())
    }
}

/// Whether a request for the page is a hit.
fn is_hit(server: &BenchServer, number: u64) -> bool {
    let target = page(number).target();
    let request = format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n");
    let answer = asked(server.address, &request).unwrap_or_default();
    let mut lines = answer.lines().take_while(|line| !line.is_empty());
    lines.any(|line| line.starts_with("Cache-Status:") && line.contains("; hit"))
}

/// Time from starting Varnish to its first response, in milliseconds.
fn varnish_first_answer_ms(base: &ServerBase) -> Result<f64> {
    let server = base.server(BenchProgram::Varnish, "varnish-restart")?;
    let mut times = Vec::new();
    for _ in 0..RESTARTS_MAX {
        let clock = SystemClock::new();
        let answered = Cell::new(None);
        let begun = clock.monotonic();
        base.start(server, MEMORY, "", |server| {
            let is_there = server.answers();
            answered.set(is_there.then(|| clock.monotonic().since(begun)));
            is_there
        })?;
        times.extend(answered.get().map(milliseconds));
        base.stop(&server)?;
    }
    Ok(median(&times).unwrap_or(f64::NAN))
}

/// Waits until `is_done`, and returns how long that took.
fn wait(is_done: impl Fn() -> Result<bool>) -> Result<Duration> {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    while !is_done()? {
        if clock.monotonic().since(begun) > WAIT_MAX {
            bail!("the disk's work is not done after {WAIT_MAX:?}");
        }
        std::thread::sleep(POLL);
    }
    Ok(clock.monotonic().since(begun))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
