//! The usual wait for an origin's first byte: the 99th percentile of its recent fetches.
//!
//! Invariant: memory is constant, recording is one addition, and old fetches lose weight. The
//! result is rounded up by at most a quarter. Waits above about a minute (65.5 s) count as that.

use std::time::Duration;

/// Histogram buckets: four for each doubling, from 1 ms to 65.5 s.
const BUCKETS: usize = 64;

/// All counts are halved at this total, so that about the last thousand fetches decide.
const TOTAL_MAX: u32 = 1024;

/// A histogram of the recent waits for first bytes.
#[derive(Clone, Debug)]
pub(crate) struct UsualWait {
    counts: [u32; BUCKETS],
    total: u32,
}

impl UsualWait {
    pub(crate) const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }

    /// Records the wait of one fetch.
    pub(crate) fn record(&mut self, wait: Duration) {
        if let Some(count) = self.counts.get_mut(bucket(wait)) {
            *count += 1;
            self.total += 1;
        }
        if self.total >= TOTAL_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// The wait that one fetch in a hundred exceeds. With fewer than a hundred fetches it is the
    /// longest wait, and without any `None`.
    pub(crate) fn p99(&self) -> Option<Duration> {
        let mut longer = self.total / 100;
        for (index, count) in self.counts.iter().enumerate().rev() {
            if *count > longer {
                return Some(upper_end(index));
            }
            longer -= count;
        }
        None
    }
}

/// The bucket of a wait.
fn bucket(wait: Duration) -> usize {
    let millis = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).clamp(1, 0xffff);
    let doublings = millis.ilog2();
    // The two bits below the highest bit.
    let quarter = ((millis << 2) >> doublings) & 3;
    (doublings * 4 + quarter) as usize
}

/// The shortest wait above all waits of a bucket.
fn upper_end(bucket: usize) -> Duration {
    let (doublings, quarter) = (bucket / 4, bucket as u64 % 4);
    Duration::from_millis(((quarter + 5) << doublings).div_ceil(4))
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, UsualWait, bucket, upper_end};
    use std::time::Duration;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn bucket_ends_exceed_each_wait_by_at_most_a_quarter() {
        for millis in 1..0xffff {
            let end = upper_end(bucket(ms(millis)));
            assert!(end > ms(millis) && end <= ms(millis + millis.div_ceil(4) + 1), "{millis}: {end:?}");
        }
        assert_eq!((bucket(Duration::ZERO), bucket(Duration::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn one_slow_fetch_in_a_hundred_is_not_usual() {
        let mut usual = UsualWait::new();
        assert_eq!(usual.p99(), None);
        (0..99).for_each(|_| usual.record(ms(10)));
        assert_eq!(usual.p99(), Some(ms(12)));
        usual.record(ms(20_000));
        assert_eq!(usual.p99(), Some(ms(12)), "one of a hundred");
        usual.record(ms(20_000));
        assert!(usual.p99() > Some(ms(20_000)), "two of 101");
    }

    #[test]
    fn old_waits_lose_their_weight() {
        let mut usual = UsualWait::new();
        (0..1000).for_each(|_| usual.record(ms(5000)));
        (0..8000).for_each(|_| usual.record(ms(10)));
        assert_eq!(usual.p99(), Some(ms(12)));
        assert!(usual.total < super::TOTAL_MAX);
    }
}
