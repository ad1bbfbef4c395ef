//! Values of the two kinds of time.
//!
//! Invariant: a difference is never negative. No value reads a clock by itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment of wall time: microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `micros` microseconds after 1970-01-01 UTC.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The moment `seconds` seconds after 1970-01-01 UTC.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since 1970-01-01 UTC.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970-01-01 UTC.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` later, at most the last one that can be represented.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturated(duration.as_micros())))
    }

    /// The same moment as a time of the standard library.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.0)
    }

    /// The moment of a time of the standard library. A time before 1970 becomes 1970.
    pub fn from_system_time(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since_epoch.as_micros() as u64)
    }
}

/// A reading of a clock that never goes back, in nanoseconds since an arbitrary moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(u64);

impl Monotonic {
    /// The reading `nanos` nanoseconds after the clock's arbitrary start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's arbitrary start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this reading; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The reading `duration` later, at most the last one that can be represented.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturated(duration.as_nanos())))
    }
}

/// A number of nanoseconds or microseconds in 64 bits, the largest one if it has more.
const fn saturated(number: u128) -> u64 {
    if number > u64::MAX as u128 { u64::MAX } else { number as u64 }
}

#[cfg(test)]
mod tests {
    use super::{Monotonic, Timestamp};
    use std::time::Duration;

    #[test]
    fn moments_beyond_the_last_one_are_the_last_one() {
        assert_eq!(Monotonic::from_nanos(1).plus(Duration::MAX), Monotonic::from_nanos(u64::MAX));
        assert_eq!(Timestamp::from_micros(1).plus(Duration::MAX), Timestamp::from_micros(u64::MAX));
    }

    #[test]
    fn differences_are_never_negative() {
        let early = Timestamp::from_secs(10);
        let late = Timestamp::from_secs(12);
        assert_eq!(late.since(early), Duration::from_secs(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(Monotonic::from_nanos(1).since(Monotonic::from_nanos(2)), Duration::ZERO);
    }
}
