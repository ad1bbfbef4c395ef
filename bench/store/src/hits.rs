//! Duration of a look-up by number of objects, as processor time, because other programs disturb it
//! less than clock time.

use crate::figure::figure;
use crate::filled::filled;
use crate::pages;
use rustix::time::{ClockId, clock_gettime};
use stats::Random;
use store::Lookup;

/// Numbers of objects.
const PAGES: [u64; 3] = [1_000, 100_000, 1_000_000];
/// Look-ups in one round.
const LOOKUPS: usize = 1_000_000;
/// Number of rounds; the fastest counts.
const ROUNDS: usize = 7;

pub(crate) fn measure() {
    for pages in PAGES {
        let (store, _) = filled(pages);
        let fields = pages::request_fields();
        let mut random = Random::from_seed(1);
        // A thousand pages mostly stay in the processor's caches. Each look-up builds its key, as a
        // request does.
        let some: Vec<u64> = (0..1_000).map(|_| random.below(pages as usize) as u64).collect();
        let any: Vec<u64> = (0..LOOKUPS).map(|_| random.below(pages as usize) as u64).collect();
        let mut best = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            for (numbers, best) in [&some, &any].into_iter().zip(&mut best) {
                let begun = processor_nanos();
                let found = numbers.iter().cycle().take(LOOKUPS).filter(|number| {
                    matches!(store.lookup(&pages::key(**number), &fields), Lookup::Found { .. })
                });
                assert_eq!(found.count(), LOOKUPS, "all pages are there");
                let nanos = (processor_nanos() - begun) as f64 / LOOKUPS as f64;
                *best = best.min(nanos);
            }
        }
        let [few, any] = best;
        figure(&format!("look-up of one in a thousand pages, {pages} objects"), few, "ns");
        figure(&format!("look-up of any page, {pages} objects"), any, "ns");
    }
}

/// Processor time of this thread, in nanoseconds.
fn processor_nanos() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
