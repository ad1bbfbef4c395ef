//! A moment on both clocks at once.
//!
//! Invariant: the time between two moments is never shorter than the time that either clock
//! measured. A wall clock that jumps back therefore cannot make a response younger. Neither can a
//! monotonic clock that stops while the machine sleeps. Both remaining errors are on the safe side:
//! a response seems older than it is.

use clock::{Clock, Monotonic, Timestamp};
use std::time::Duration;

/// One moment, read from the wall clock and the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The wall time, which may have jumped.
    pub wall: Timestamp,
    /// The monotonic time. It never goes back, but may stop while the machine sleeps.
    pub monotonic: Monotonic,
}

impl Moment {
    /// The present moment on both clocks of `clock`.
    pub fn read(clock: &dyn Clock) -> Self {
        Self { wall: clock.now(), monotonic: clock.monotonic() }
    }

    /// The time from `earlier` to this moment: the longer of the two clocks' measurements.
    pub fn since(self, earlier: Self) -> Duration {
        self.wall.since(earlier.wall).max(self.monotonic.since(earlier.monotonic))
    }

    /// The moment `duration` later on both clocks.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self { wall: self.wall.plus(duration), monotonic: self.monotonic.plus(duration) }
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use clock::{ManualClock, Timestamp};
    use std::time::Duration;

    #[test]
    fn wall_clock_jump_never_shortens_time() {
        let clock = ManualClock::at(Timestamp::from_secs(10_000));
        let start = Moment::read(&clock);
        clock.advance(Duration::from_secs(30));
        clock.set_wall(Timestamp::from_secs(6_400));
        assert_eq!(Moment::read(&clock).since(start), Duration::from_secs(30));
        clock.set_wall(Timestamp::from_secs(20_000));
        assert_eq!(Moment::read(&clock).since(start), Duration::from_secs(10_000));
    }
}
