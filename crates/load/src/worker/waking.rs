//! How late a thread is woken by its timer, and how long before a moment it therefore has to be awake.
//!
//! Invariant: of the time between two such moments a thread spends at most [`AWAKE_SHARE_MAX`] looking at its clock,
//! or [`AWAKE_MIN`] where that is longer. A pure rule: it reads no clock.

use platform::Monotonic;
use std::time::Duration;

/// A thread is awake at least so long before a moment.
const AWAKE_MIN: Duration = Duration::from_micros(60);

/// It is never awake for longer. On virtual machines some hundred microseconds are common; what takes longer is a core
/// that others want, who would be in the way anyhow.
const AWAKE_MAX: Duration = Duration::from_micros(600);

/// The share of the time between two moments that it is awake at most: one in so many.
const AWAKE_SHARE_MAX: u32 = 20;

/// Of what waking took less than was expected, one part in so many is believed.
const FORGETTING: u32 = 64;

/// What one thread has learnt of being woken.
#[derive(Debug, Default)]
pub(super) struct Waking {
    /// How late it may be: nearly the latest of late.
    late: Duration,
    /// The moment before.
    last: Monotonic,
    next: Monotonic,
}

impl Waking {
    /// How long before `moment`, at which something is to start, to be woken.
    pub(super) fn before(&mut self, moment: Monotonic) -> Duration {
        if moment != self.next {
            (self.last, self.next) = (self.next, moment);
        }
        let most = (moment.since(self.last) / AWAKE_SHARE_MAX).clamp(AWAKE_MIN, AWAKE_MAX);
        self.late.clamp(AWAKE_MIN, most)
    }

    /// Takes note of how late a timer has woken the thread.
    pub(super) fn woken(&mut self, late: Duration) {
        self.late =
            if late > self.late { late.min(AWAKE_MAX) } else { self.late - (self.late - late) / FORGETTING };
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAKE_MAX, AWAKE_MIN, Waking};
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
        waking.woken(Duration::from_micros(80));
        assert_eq!(waking.before(at(300)), Duration::from_micros(395));
        (0..1_000).for_each(|_| waking.woken(Duration::ZERO));
        assert_eq!(waking.before(at(400)), AWAKE_MIN);
        waking.woken(Duration::from_millis(50));
        assert_eq!(waking.before(at(500)), AWAKE_MAX);
    }

    #[test]
    fn it_is_awake_for_a_twentieth_of_the_time_at_most() {
        let mut waking = Waking::default();
        waking.woken(Duration::from_micros(500));
        waking.before(at(100));
        // However often it asks.
        assert_eq!([waking.before(at(104)), waking.before(at(104))], [Duration::from_micros(200); 2]);
        assert_eq!(waking.before(at(105)), AWAKE_MIN);
    }
}
