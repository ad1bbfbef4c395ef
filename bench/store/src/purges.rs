//! Duration of purges, and of look-ups during purges.

use crate::figure::{figure, milliseconds};
use crate::filled::filled;
use crate::pages::{self, SITE, TAGS};
use bytes::Bytes;
use clock::Clock;
use invalidation::Mode;
use platform::SystemClock;
use stats::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use store::{Invalidation, Key, Selector, Store};

const PAGES: u64 = 1_000_000;
/// Number of measured look-ups.
const LOOKUPS: usize = 400_000;
/// Pause after each purge during the look-ups.
const PURGE_EVERY: Duration = Duration::from_millis(10);
/// Slots in one slice of a sweep.
const SWEEP_SLOTS: usize = 1_024;

pub(crate) fn measure() {
    let clock = SystemClock::new();
    let (store, _) = filled(PAGES);
    let quiet = latencies(&store, &clock);
    let purging = AtomicBool::new(true);
    let busy = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if !purging.load(Ordering::Relaxed) {
                    return;
                }
                purge(&store, vec![pages::tag(number % TAGS)]);
                while store.sweep(SWEEP_SLOTS).more && purging.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                thread::sleep(PURGE_EVERY);
            }
        });
        let busy = latencies(&store, &clock);
        purging.store(false, Ordering::Relaxed);
        busy
    });
    for (name, (median, high)) in [("alone", quiet), ("beside 100 tag purges a second", busy)] {
        figure(&format!("median of look-ups {name}"), median as f64, "ns");
        figure(&format!("p99 of look-ups {name}"), high as f64, "ns");
    }
    // Each page has four of 50,000 tags, so 125 tags select a hundredth of all pages.
    let begun = clock.monotonic();
    let objects = purge(&store, (0..125).map(|number| pages::tag(TAGS - 1 - number)).collect());
    figure("purge by tags", milliseconds(clock.monotonic().since(begun)), "ms");
    figure("objects that it met", objects as f64, "");
    let begun = clock.monotonic();
    let mut slices = 0;
    let mut longest = Duration::ZERO;
    let mut removed = 0;
    loop {
        let slice = clock.monotonic();
        let swept = store.sweep(SWEEP_SLOTS);
        longest = longest.max(clock.monotonic().since(slice));
        slices += 1;
        removed += swept.removed;
        if !swept.more {
            break;
        }
    }
    let took = clock.monotonic().since(begun);
    figure("its sweep", milliseconds(took), "ms");
    figure("longest slice of the sweep", milliseconds(longest), "ms");
    figure("slices of the sweep", f64::from(slices), "");
    figure("objects that it removed", removed as f64, "");
}

fn purge(store: &Store, any_of: Vec<Bytes>) -> u64 {
    let selector = Selector::Tags { site: SITE, any_of, all_of: Vec::new() };
    store.invalidate(&Invalidation { selector, mode: Mode::Hard }).objects.unwrap_or(0)
}

/// Median and 99th percentile of single look-ups, in nanoseconds.
fn latencies(store: &Store, clock: &SystemClock) -> (u64, u64) {
    let fields = pages::request_fields();
    let mut random = Random::from_seed(3);
    let keys: Vec<Key> = (0..100_000).map(|_| pages::key(random.below(PAGES as usize) as u64)).collect();
    let mut nanos: Vec<u64> = keys
        .iter()
        .cycle()
        .take(LOOKUPS)
        .map(|key| {
            let begun = clock.monotonic();
            let _ = store.lookup(key, &fields);
            clock.monotonic().since(begun).as_nanos() as u64
        })
        .collect();
    nanos.sort_unstable();
    let at = |share: f64| nanos.get((nanos.len() as f64 * share) as usize).copied().unwrap_or(0);
    (at(0.5), at(0.99))
}
