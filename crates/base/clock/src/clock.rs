//! Sources of the time: the trait, and a clock that tests move.
//!
//! Invariant: code that needs the time takes a [`Clock`] or a value of it as a parameter.

use crate::{Monotonic, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of the time.
pub trait Clock: Send + Sync {
    /// The wall time.
    fn now(&self) -> Timestamp;
    /// The monotonic time.
    fn monotonic(&self) -> Monotonic;
}

/// A clock for tests that moves only by calls. Its wall time may be set to any value, also back.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_micros: AtomicU64,
    monotonic_nanos: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `wall` and a monotonic reading of zero.
    pub fn at(wall: Timestamp) -> Self {
        Self { wall_micros: AtomicU64::new(wall.as_micros()), monotonic_nanos: AtomicU64::new(0) }
    }

    /// Advances both clocks by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.wall_micros.fetch_add(duration.as_micros() as u64, Ordering::SeqCst);
        self.monotonic_nanos.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Makes the wall clock jump. The monotonic clock does not change.
    pub fn set_wall(&self, wall: Timestamp) {
        self.wall_micros.store(wall.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.wall_micros.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_nanos(self.monotonic_nanos.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ManualClock};
    use crate::{Monotonic, Timestamp};
    use std::time::Duration;

    #[test]
    fn wall_clock_jump_does_not_change_monotonic_time() {
        let clock = ManualClock::at(Timestamp::from_secs(100));
        clock.advance(Duration::from_secs(5));
        clock.set_wall(Timestamp::from_secs(1));
        assert_eq!(clock.now(), Timestamp::from_secs(1));
        assert_eq!(clock.monotonic(), Monotonic::from_nanos(5_000_000_000));
    }
}
