//! Detects whether most requests of a run fail.
//!
//! Invariant: a few requests tell nothing. Relaxed ordering is enough for the counters, because
//! they guard no other data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval at which the failure rate is checked.
pub const FAILING_EVERY: Duration = Duration::from_secs(1);

/// At least this many requests must have ended before a run is judged as failing.
const FAILING_REQUESTS_MIN: u64 = 20;

/// The requests of a run that ended and failed, counted by all threads.
#[derive(Debug, Default)]
pub struct FailureTally {
    ended: AtomicU64,
    failed: AtomicU64,
}

/// How many requests had ended and failed at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trend {
    ended: u64,
    failed: u64,
}

impl FailureTally {
    /// Counts requests that ended, and those of them that failed.
    pub fn count(&self, ended: u64, failed: u64) {
        self.ended.fetch_add(ended, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// How many requests have failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How many requests have ended and failed so far.
    pub fn now(&self) -> Trend {
        // In this order there are never more failures than ends.
        let failed = self.failed.load(Ordering::Relaxed);
        Trend { ended: self.ended.load(Ordering::Relaxed), failed }
    }
}

impl Trend {
    /// Whether most requests since `then` failed; `None` if too few ended.
    pub fn fails_since(self, then: Self) -> Option<bool> {
        let (ended, failed) = (self.ended - then.ended, self.failed.saturating_sub(then.failed));
        (ended >= FAILING_REQUESTS_MIN).then_some(failed * 2 > ended)
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureTally, Trend};

    #[test]
    fn few_requests_tell_nothing() {
        let tally = FailureTally::default();
        tally.count(19, 19);
        assert_eq!(tally.now().fails_since(Trend::default()), None);
        tally.count(1, 0);
        let then = tally.now();
        assert_eq!(then.fails_since(Trend::default()), Some(true));
        tally.count(40, 20);
        assert_eq!(tally.now().fails_since(then), Some(false), "half is not most");
    }
}
