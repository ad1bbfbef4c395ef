//! Histograms of times that a worker adds to without a lock, and readings of them.
//!
//! Buckets are log-linear: four for each power of two of microseconds. A percentile is the middle
//! of its bucket, so it differs from the true value by at most 12.5%. Times below 4 µs are exact,
//! and the last bucket holds everything from 15 minutes on.
//!
//! Invariant: a count is added with one atomic operation, and no reading resets it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each power of two.
const PARTS: usize = 4;

/// The highest power of two that has buckets of its own.
const POWER_MAX: usize = 29;

/// Number of buckets.
const BUCKETS: usize = POWER_MAX * PARTS;

/// The upper bounds that the metric shows, as powers of two of microseconds: from 64 µs to 17 s,
/// each four times the one before.
pub(crate) const BOUNDS: [u32; 10] = [6, 8, 10, 12, 14, 16, 18, 20, 22, 24];

/// A histogram that grows.
#[derive(Debug)]
pub(crate) struct TimeCells {
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

/// A reading of a histogram, or the sum or difference of readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeFigures {
    counts: Box<[u64; BUCKETS]>,
    micros: u64,
}

/// The bucket of a time.
const fn bucket_of(micros: u64) -> usize {
    if micros < PARTS as u64 {
        return micros as usize;
    }
    let power = micros.ilog2() as usize;
    let part = (micros >> (power - 2)) as usize % PARTS;
    let bucket = (power - 1) * PARTS + part;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The least time of a bucket.
const fn least_of(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    ((PARTS + bucket % PARTS) as u64) << (bucket / PARTS - 1)
}

/// The number of the bound of [`BOUNDS`] that a time lies below; that of infinity after the last.
pub(crate) fn bound_of(micros: u64) -> usize {
    BOUNDS.iter().take_while(|bound| micros >> **bound > 0).count()
}

/// A duration in whole microseconds.
pub(crate) fn micros_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Default for TimeCells {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), micros: AtomicU64::new(0) }
    }
}

impl TimeCells {
    /// Counts a time.
    #[inline]
    pub(crate) fn add(&self, micros: u64) {
        // Relaxed is enough: no other memory depends on these numbers.
        if let Some(bucket) = self.buckets.get(bucket_of(micros)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Adds what was counted so far to `figures`.
    pub(crate) fn read(&self, figures: &mut TimeFigures) {
        for (sum, bucket) in figures.counts.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        figures.micros += self.micros.load(Ordering::Relaxed);
    }
}

impl Default for TimeFigures {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), micros: 0 }
    }
}

impl TimeFigures {
    /// Number of times.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the times in microseconds.
    pub(crate) const fn micros(&self) -> u64 {
        self.micros
    }

    /// Number of times below 2 to the power `power` microseconds.
    pub(crate) fn below(&self, power: u32) -> u64 {
        self.counts.iter().take(bucket_of(1 << power)).sum()
    }

    /// The time below or at which a share `quantile` of all times lies. `None` without a time.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|bucket| {
            seen += bucket;
            seen >= rank
        });
        let (least, next) = found.map(|bucket| (least_of(bucket), least_of(bucket + 1)))?;
        Some(least + (next - least) / 2)
    }

    /// Adds the times of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts.iter()) {
            *sum += count;
        }
        self.micros += other.micros;
    }

    /// The times since an earlier reading of the same histogram.
    #[must_use]
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        for (sum, count) in self.counts.iter_mut().zip(earlier.counts.iter()) {
            *sum = sum.saturating_sub(*count);
        }
        self.micros = self.micros.saturating_sub(earlier.micros);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, BUCKETS, TimeCells, TimeFigures, bound_of, bucket_of, least_of};
    use proptest::prelude::*;

    fn figures(times: &[u64]) -> TimeFigures {
        let (cells, mut figures) = (TimeCells::default(), TimeFigures::default());
        times.iter().for_each(|micros| cells.add(*micros));
        cells.read(&mut figures);
        figures
    }

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        for bucket in 0..BUCKETS {
            let (least, next) = (least_of(bucket), least_of(bucket + 1));
            assert_eq!(bucket_of(least), bucket);
            assert_eq!(bucket_of(next - 1), bucket);
            assert!((next - least) * 4 <= least.max(4), "{bucket}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!((figures(&[]).quantile(0.5), figures(&[]).count()), (None, 0));
    }

    proptest! {
        /// Compares with the sorted times.
        #[test]
        fn quantiles_differ_by_at_most_an_eighth(
            times in prop::collection::vec((0_u32..30).prop_flat_map(|power| 0_u64..1 << power), 1..200),
            quantile in 0.0..1.0_f64,
        ) {
            let figures = figures(&times);
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let rank = ((quantile * times.len() as f64).ceil() as usize).max(1);
            let (expected, found) = (sorted[rank - 1], figures.quantile(quantile).unwrap());
            prop_assert!(found.abs_diff(expected) * 8 <= expected, "{} for {}", found, expected);
            prop_assert_eq!(figures.count(), times.len() as u64);
            prop_assert_eq!(figures.micros(), times.iter().sum::<u64>());
            for (number, bound) in BOUNDS.into_iter().enumerate() {
                let below = times.iter().filter(|micros| **micros < 1 << bound);
                prop_assert_eq!(figures.below(bound), below.count() as u64);
                prop_assert!(times.iter().all(|micros| (bound_of(*micros) <= number) == (*micros < 1 << bound)));
            }
        }

        #[test]
        fn difference_of_sums_is_what_was_added(
            before in prop::collection::vec(0_u64..1 << 40, 0..50),
            after in prop::collection::vec(0_u64..1 << 40, 0..50),
        ) {
            let mut both = figures(&before);
            both.add(&figures(&after));
            prop_assert_eq!(&both, &figures(&[before.clone(), after.clone()].concat()));
            prop_assert_eq!(both.since(&figures(&before)), figures(&after));
        }
    }
}
