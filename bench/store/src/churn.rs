//! Resident memory while bodies of all sizes come and go. In each phase, ten times the budget flows
//! through the store on two threads. Bodies arrive as in the proxy, and slow visitors hold some of
//! them. Then the sizes change, which is the hardest case for an allocator: remaining objects of
//! one size keep their memory pages from being used for another.

use crate::figure::figure;
use crate::memory::{mebibytes, resident_bytes};
use crate::pages;
use bytes::Bytes;
use stats::Random;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use store::{Filling, Lookup, Object, Store, StoreLimits};

/// Memory that the operator allows, in bytes.
const BUDGET_BYTES: u64 = 512 << 20;
/// Limit on resident memory that the store is fitted to, and the interval. The proxy uses the same
/// formula, with a smaller constant.
const RESIDENT_BYTES_MAX: u64 = BUDGET_BYTES + BUDGET_BYTES / 20 + (24 << 20);
const FIT_EVERY: Duration = Duration::from_millis(50);
/// The proxy reserves one part in this many for bodies that are still arriving.
const FILLING_SHARE: u64 = 8;
/// Content that flows through in each phase, in budgets.
const ROUNDS: u64 = 10;
const THREADS: u64 = 2;
/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;
/// Objects that slow visitors hold, on each thread.
const HELD: usize = 16;

/// Phases: name, and smallest and largest body in bytes. The logarithms of the sizes are
/// distributed evenly.
const PHASES: [(&str, f64, f64); 4] = [
    ("64 B to 1 MB", 64.0, 1_048_576.0),
    ("64 B to 4 KiB", 64.0, 4_096.0),
    ("256 KiB to 1 MiB", 262_144.0, 1_048_576.0),
    ("64 B to 1 MB again", 64.0, 1_048_576.0),
];

pub(crate) fn measure() {
    let empty = resident_bytes();
    let limits = StoreLimits {
        memory_bytes_max: BUDGET_BYTES - BUDGET_BYTES / FILLING_SHARE,
        ..StoreLimits::default()
    };
    let store = Store::new(limits, 7);
    figure("resident at the start", mebibytes(empty), "MiB");
    for (name, from, to) in PHASES {
        let highest = flow(&store, from, to);
        let stats = store.stats();
        figure(&format!("highest resident, {name}"), mebibytes(highest), "MiB");
        figure(&format!("resident at the end, {name}"), mebibytes(resident_bytes()), "MiB");
        figure(&format!("weighed at the end, {name}"), mebibytes(stats.bytes), "MiB");
        figure(&format!("objects at the end, {name}"), stats.objects as f64, "");
    }
}

/// Runs one phase. Returns the highest resident memory, in bytes.
fn flow(store: &Store, from: f64, to: f64) -> u64 {
    let (left, highest, over) =
        (AtomicU64::new(ROUNDS * BUDGET_BYTES), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let flows: Vec<_> = (0..THREADS)
            .map(|seed| {
                scope.spawn({
                    let left = &left;
                    move || publish_until(store, left, seed, from, to)
                })
            })
            .collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let resident = resident_bytes();
                highest.fetch_max(resident, Ordering::Relaxed);
                store.fit(resident, RESIDENT_BYTES_MAX);
                thread::sleep(FIT_EVERY);
            }
        });
        for flow in flows {
            // The scope reports a panic of the thread.
            let _ = flow.join();
        }
        over.store(true, Ordering::Relaxed);
    });
    // Relaxed loads and stores are enough, because the end of the scope joined all threads.
    highest.into_inner()
}

fn publish_until(store: &Store, left: &AtomicU64, seed: u64, from: f64, to: f64) {
    let mut random = Random::from_seed(seed);
    let fields = pages::request_fields();
    let mut held: VecDeque<Arc<Object>> = VecDeque::new();
    loop {
        let share = random.below(1 << 30) as f64 / (1u64 << 30) as f64;
        let bytes = (from.ln() + share * (to.ln() - from.ln())).exp() as u64;
        let spent = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if spent.is_err() {
            return;
        }
        let number = random.below(4_000_000) as u64;
        fill(store, number, bytes);
        // Slow visitors read one in eight of the page numbers.
        if number.is_multiple_of(8)
            && let Lookup::Found { object, .. } = store.lookup(&pages::key(number), &fields)
        {
            held.push_back(object);
            if held.len() > HELD {
                held.pop_front();
            }
        }
    }
}

/// Stores a body in pieces, like the reads of a connection.
fn fill(store: &Store, number: u64, bytes: u64) {
    let (mut writer, _filling) = Filling::start(8 << 20);
    let mut left = bytes as usize;
    while left > 0 {
        let mut buffer = vec![b'x'; READ_BYTES];
        buffer.truncate(left);
        left -= buffer.len();
        writer.push(Bytes::from(buffer));
    }
    writer.finish_with(Bytes::new(), None, |body| {
        let _ = pages::publish(store, number, body);
    });
}
