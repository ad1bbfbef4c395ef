//! Measures the wake-up latency of a thread, and derives how long before a start the thread has to
//! be awake.
//!
//! Invariant: a thread busy-waits for at most one part in [`AWAKE_SHARE_MAX`] of its time, plus a
//! saved budget of at most [`SAVED_MAX`]. If [`AWAKE_MIN`] before each start is more, that limit
//! counts. The rule is a pure function: it reads no clock.

use clock::Monotonic;
use std::time::Duration;

/// A thread is awake at least this long before a start.
const AWAKE_MIN: Duration = Duration::from_micros(60);

/// A thread is awake at most this long before a start. Some hundred microseconds of latency are
/// common on virtual machines. A longer latency means that other programs want the core, and being
/// awake would not help.
const AWAKE_MAX: Duration = Duration::from_micros(600);

/// Inverse of the largest share of time spent busy-waiting: 20 means 5%.
const AWAKE_SHARE_MAX: u32 = 20;

/// Largest saved budget. Randomly spaced starts are close together at times and then need it.
const SAVED_MAX: Duration = Duration::from_millis(12);

/// Inverse of the rate at which the expected latency shrinks. Among this many wake-ups, one or two
/// are later than expected. More than one in a hundred would show in the 99th percentile.
const FORGETTING: u32 = 512;

/// The measured wake-up latency of one thread.
#[derive(Debug, Default)]
pub(super) struct WakeLatency {
    /// The expected latency: close to the largest of the recent ones.
    late: Duration,
    /// Budget for busy-waiting.
    saved: Duration,
    /// The last moment passed to [`WakeLatency::before`], and the result for it.
    next: Monotonic,
    before_next: Duration,
}

impl WakeLatency {
    /// How long before `moment`, when something starts, the thread should be woken.
    pub(super) fn before(&mut self, moment: Monotonic) -> Duration {
        if moment != self.next {
            self.saved = SAVED_MAX.min(self.saved + moment.since(self.next) / AWAKE_SHARE_MAX);
            self.before_next = self.late.min(self.saved).max(AWAKE_MIN);
            self.saved = self.saved.saturating_sub(self.before_next);
            self.next = moment;
        }
        self.before_next
    }

    /// Updates the latency by the delay of a timer.
    pub(super) fn woken(&mut self, late: Duration) {
        self.late =
            if late > self.late { late.min(AWAKE_MAX) } else { self.late - (self.late - late) / FORGETTING };
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAKE_MAX, AWAKE_MIN, AWAKE_SHARE_MAX, SAVED_MAX, WakeLatency};
    use clock::Monotonic;
    use std::time::Duration;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn late_wake_ups_raise_the_latency_and_early_ones_lower_it() {
        let mut wake_latency = WakeLatency::default();
        assert_eq!(wake_latency.before(at(100)), AWAKE_MIN);
        wake_latency.woken(Duration::from_micros(400));
        assert_eq!(wake_latency.before(at(200)), Duration::from_micros(400));
        wake_latency.woken(Duration::from_micros(144));
        assert_eq!(wake_latency.before(at(300)), Duration::from_nanos(399_500));
        (0..5_000).for_each(|_| wake_latency.woken(Duration::ZERO));
        assert_eq!(wake_latency.before(at(400)), AWAKE_MIN);
        wake_latency.woken(Duration::from_millis(50));
        assert_eq!(wake_latency.before(at(500)), AWAKE_MAX);
    }

    #[test]
    fn busy_waiting_takes_at_most_a_twentieth_of_the_time() {
        let mut wake_latency = WakeLatency::default();
        wake_latency.woken(Duration::from_micros(500));
        let awake: Duration = (1..=1_000).map(|number| wake_latency.before(at(4 * number))).sum();
        let share = Duration::from_millis(4 * 1_000) / AWAKE_SHARE_MAX;
        assert!(awake <= share + SAVED_MAX && awake > share.mul_f64(0.9), "{awake:?}");
        // The result does not depend on how often a moment is queried or how far away the next one
        // is.
        assert_eq!([wake_latency.before(at(4_001)), wake_latency.before(at(4_001))], [AWAKE_MIN; 2]);
        assert_eq!(wake_latency.before(at(5_000)), Duration::from_micros(500));
        assert_eq!(wake_latency.before(at(5_001)), Duration::from_micros(500));
    }
}
