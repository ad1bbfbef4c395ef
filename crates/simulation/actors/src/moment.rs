//! Simulated time: moments as values, and the timeline that reads the paused clock.
//!
//! Invariant: a moment is the time since the beginning of the simulation. It does not depend on the
//! clock of the machine.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The time since the beginning of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The moment `since_begin` after the beginning.
    pub const fn new(since_begin: Duration) -> Self {
        Self(since_begin)
    }

    /// The moment `millis` milliseconds after the beginning.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The time since the beginning.
    pub const fn since_begin(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `duration` later.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}.{:03} s", self.0.as_secs(), self.0.subsec_millis())
    }
}

/// Reads the paused clock of the runtime, and tells the actors' time of day.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    begun: Instant,
    /// The moment at `begun`.
    from: Moment,
    unix_secs: u64,
}

impl Timeline {
    /// A simulation that begins now, at `unix_secs` seconds after 1970. The caller is inside the
    /// runtime.
    pub fn start(unix_secs: u64) -> Self {
        Self::resume(unix_secs, Moment::default())
    }

    /// A simulation that began `from` ago at `unix_secs`, and continues in another runtime.
    pub fn resume(unix_secs: u64, from: Moment) -> Self {
        Self { begun: Instant::now(), from, unix_secs }
    }

    /// The present moment.
    pub fn now(self) -> Moment {
        self.from.plus(Instant::now().saturating_duration_since(self.begun))
    }

    /// The second of the time of day at `moment`, in seconds since 1970.
    pub const fn unix_secs(self, moment: Moment) -> u64 {
        self.unix_secs.saturating_add(moment.0.as_secs())
    }

    /// The time of day at `moment` as HTTP writes it (RFC 9110 section 5.6.7).
    pub fn http_date(self, moment: Moment) -> String {
        http_date(self.unix_secs(moment))
    }
}

/// A number of seconds since 1970 as an HTTP date.
pub(crate) fn http_date(unix_secs: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_secs))
}

/// An HTTP date as a number of seconds since 1970; `None` if it is none.
pub(crate) fn parse_http_date(text: &str) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::{Moment, http_date, parse_http_date};
    use std::time::Duration;

    #[test]
    fn moments_are_written_in_milliseconds() {
        assert_eq!(Moment::new(Duration::from_micros(12_345_678)).to_string(), "12.345 s");
        assert_eq!(Moment::from_millis(5).since(Moment::from_millis(7)), Duration::ZERO);
    }

    #[test]
    fn dates_are_read_as_they_are_written() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http_date("soon"), None);
    }
}
