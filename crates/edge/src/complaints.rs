//! What the operator is told of failing origins, on standard error: a line for each failure, and not again for a while.
//!
//! Invariant: however many requests fail, the lines of one failure are at least [`PAUSE`] apart, and the memory is
//! bounded.

use crate::operator;
use platform::Monotonic;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two lines about the same failure.
const PAUSE: Duration = Duration::from_secs(60);

/// Failures that are remembered. The texts name origins and kinds of errors, of which there are few.
const FAILURES_MAX: usize = 256;

/// When each failure was last told.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashMap<String, Monotonic>>);

impl Complaints {
    /// Tells of a failure, unless that was done a moment ago.
    pub(crate) fn tell(&self, failure: &str, now: Monotonic) {
        if self.is_due(failure, now) {
            operator::say(format_args!("{failure}"));
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
    use platform::Monotonic;

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn failure_is_told_once_a_minute_and_beside_others() {
        let complaints = Complaints::default();
        assert!(complaints.is_due("a", at(0)) && complaints.is_due("b", at(1)));
        assert!(!complaints.is_due("a", at(59)) && complaints.is_due("a", at(60)));
        assert!(!complaints.is_due("a", at(61)));
    }

    #[test]
    fn memory_of_failures_is_bounded() {
        let complaints = Complaints::default();
        for failure in 0..FAILURES_MAX * 3 {
            complaints.is_due(&failure.to_string(), at(0));
        }
        assert!(complaints.0.lock().unwrap().len() <= FAILURES_MAX);
    }
}
