//! Reports failures, mostly of origins, on standard error without repeating the same line too
//! often.
//!
//! Invariants: however many requests fail, the warnings about one failure are at least [`PAUSE`]
//! apart, unless the table was full meanwhile and forgot all failures. The memory is bounded.

use clock::Monotonic;
use platform::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Minimum time between two warnings about the same failure.
const PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of remembered failures. When it is reached, all are forgotten. Most texts consist
/// of an origin and a kind of error, so few different ones occur.
const FAILURES_MAX: usize = 256;

/// When each failure was last reported as a warning.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashMap<String, Monotonic>>);

impl Complaints {
    /// Reports a failure as a warning, or at level debug if the last warning about it is less than
    /// [`PAUSE`] old.
    pub(crate) fn tell(&self, failure: &str, now: Monotonic) {
        if self.is_due(failure, now) {
            tracing::warn!("{failure}");
        } else {
            tracing::debug!("{failure}");
        }
    }

    fn is_due(&self, failure: &str, now: Monotonic) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(failure).is_some_and(|last| now.since(*last) < PAUSE) {
            return false;
        }
        if told.len() >= FAILURES_MAX {
            told.clear();
        }
        told.insert(failure.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Complaints, FAILURES_MAX};
    use clock::Monotonic;

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn each_failure_is_reported_at_most_once_a_minute() {
        let complaints = Complaints::default();
        assert!(complaints.is_due("a", at(0)) && complaints.is_due("b", at(1)));
        assert!(!complaints.is_due("a", at(59)) && complaints.is_due("a", at(60)));
        assert!(!complaints.is_due("a", at(61)));
    }

    #[test]
    fn number_of_remembered_failures_is_bounded() {
        let complaints = Complaints::default();
        for failure in 0..FAILURES_MAX * 3 {
            complaints.is_due(&failure.to_string(), at(0));
        }
        assert!(complaints.0.lock().unwrap().len() <= FAILURES_MAX);
    }
}
