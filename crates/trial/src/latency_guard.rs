//! Whether a site becomes slower under the load of the trial.
//!
//! Invariant: the first observation is the base; it includes the wait for the other users of the
//! load, whose number does not change. It is bounded by the site's slowest response before the
//! load, so a site overloaded from the start is noticed, too.

use std::time::Duration;

/// How many times as long as the base a median may be.
const RISE_MAX: u32 = 3;

/// Tolerance added to the limit. Smaller differences are noise of a busy machine.
const RISE_MARGIN: Duration = Duration::from_millis(50);

/// A rise of the response times beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatencyRise {
    /// The base.
    pub(crate) base: Duration,
    /// The median now.
    pub(crate) now: Duration,
}

/// Compares medians of response times with the first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatencyGuard {
    base: Option<Duration>,
    base_max: Duration,
}

impl LatencyGuard {
    /// A guard of a site whose slowest page took `slowest` without a load. At worst, it answers
    /// `users` users one after the other.
    pub(crate) fn new(slowest: Duration, users: u32) -> Self {
        Self { base: None, base_max: slowest * users + RISE_MARGIN }
    }

    /// Notes the median of some responses. Returns a rise beyond the limit.
    pub(crate) fn observe(&mut self, median: Duration) -> Option<LatencyRise> {
        let base = *self.base.get_or_insert_with(|| median.min(self.base_max));
        (median > base * RISE_MAX + RISE_MARGIN).then_some(LatencyRise { base, now: median })
    }
}

#[cfg(test)]
mod tests {
    use super::{LatencyGuard, LatencyRise};
    use std::time::Duration;

    #[test]
    fn only_a_clear_rise_over_the_first_median_counts() {
        let ms = Duration::from_millis;
        let mut guard = LatencyGuard::new(ms(20), 4);
        for calm in [40, 20, 100, 170] {
            assert_eq!(guard.observe(ms(calm)), None, "{calm}");
        }
        assert_eq!(guard.observe(ms(171)), Some(LatencyRise { base: ms(40), now: ms(171) }));
    }

    #[test]
    fn site_that_is_slow_from_the_start_is_noticed() {
        let ms = Duration::from_millis;
        let mut guard = LatencyGuard::new(ms(20), 4);
        // 3 times (4 users for 20 ms each, and 50 ms), and 50 ms.
        assert_eq!(guard.observe(ms(440)), None);
        assert_eq!(guard.observe(ms(441)), Some(LatencyRise { base: ms(130), now: ms(441) }));
        assert!(LatencyGuard::new(ms(20), 4).observe(ms(900)).is_some());
    }
}
