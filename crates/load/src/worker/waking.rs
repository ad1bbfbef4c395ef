//! How late a thread is woken by its timer, and how long before a moment it therefore has to be awake.
//!
//! Invariant: of all the time a thread spends at most one part in [`AWAKE_SHARE_MAX`] looking at its clock, and
//! [`SAVED_MAX`] that it has saved before; or [`AWAKE_MIN`] before each moment where that is more. A pure rule: it
//! reads no clock.

use platform::Monotonic;
use std::time::Duration;

/// A thread is awake at least so long before a moment.
const AWAKE_MIN: Duration = Duration::from_micros(60);

/// It is never awake for longer. On virtual machines some hundred microseconds are common; what takes longer is a core
/// that others want, who would be in the way anyhow.
const AWAKE_MAX: Duration = Duration::from_micros(600);

/// The share of the time that it is awake at most: one in so many.
const AWAKE_SHARE_MAX: u32 = 20;

/// So much of that is kept for later: moments that follow one another by chance come close together at times.
const SAVED_MAX: Duration = Duration::from_millis(12);

/// Of what waking took less than was expected, one part in so many is believed. Among so many times being woken, one or
/// two are later than was expected: more than one in a hundred would show in the 99th percentile.
const FORGETTING: u32 = 512;

/// What one thread has learnt of being woken.
#[derive(Debug, Default)]
pub(super) struct Waking {
    /// How late it may be: nearly the latest of late.
    late: Duration,
    /// How long it may still be awake.
    saved: Duration,
    /// The moment that was asked about last, and how long before it to be woken.
    next: Monotonic,
    before_next: Duration,
}

impl Waking {
    /// How long before `moment`, at which something is to start, to be woken.
    pub(super) fn before(&mut self, moment: Monotonic) -> Duration {
        if moment != self.next {
            self.saved = SAVED_MAX.min(self.saved + moment.since(self.next) / AWAKE_SHARE_MAX);
            self.before_next = self.late.min(self.saved).max(AWAKE_MIN);
            self.saved = self.saved.saturating_sub(self.before_next);
            self.next = moment;
        }
        self.before_next
    }

    /// Takes note of how late a timer has woken the thread.
    pub(super) fn woken(&mut self, late: Duration) {
        self.late =
            if late > self.late { late.min(AWAKE_MAX) } else { self.late - (self.late - late) / FORGETTING };
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAKE_MAX, AWAKE_MIN, AWAKE_SHARE_MAX, SAVED_MAX, Waking};
    use platform::Monotonic;
    use std::time::Duration;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_thread_that_is_woken_late_is_awake_earlier_and_forgets_that_slowly() {
        let mut waking = Waking::default();
        assert_eq!(waking.before(at(100)), AWAKE_MIN);
        waking.woken(Duration::from_micros(400));
        assert_eq!(waking.before(at(200)), Duration::from_micros(400));
        waking.woken(Duration::from_micros(144));
        assert_eq!(waking.before(at(300)), Duration::from_nanos(399_500));
        (0..5_000).for_each(|_| waking.woken(Duration::ZERO));
        assert_eq!(waking.before(at(400)), AWAKE_MIN);
        waking.woken(Duration::from_millis(50));
        assert_eq!(waking.before(at(500)), AWAKE_MAX);
    }

    #[test]
    fn it_is_awake_for_a_twentieth_of_the_time_at_most() {
        let mut waking = Waking::default();
        waking.woken(Duration::from_micros(500));
        let awake: Duration = (1..=1_000).map(|number| waking.before(at(4 * number))).sum();
        let share = Duration::from_millis(4 * 1_000) / AWAKE_SHARE_MAX;
        assert!(awake <= share + SAVED_MAX && awake > share.mul_f64(0.9), "{awake:?}");
        // However often it asks about a moment, and however far the next one is.
        assert_eq!([waking.before(at(4_001)), waking.before(at(4_001))], [AWAKE_MIN; 2]);
        assert_eq!(waking.before(at(5_000)), Duration::from_micros(500));
        assert_eq!(waking.before(at(5_001)), Duration::from_micros(500));
    }
}
