//! Arrival and stop: whether a user that has time may send another request, and whether it counts.
//!
//! Invariant: exactly as many measured requests start as the plan asks for, over all threads; none starts
//! after the deadline. The closed loop has no schedule: a request is meant to start when it is asked for here.

use crate::plan::Stop;
use platform::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The closed loop of a run, shared by its threads.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    measuring_since: Monotonic,
    deadline: Option<Monotonic>,
    requests_left: Option<AtomicU64>,
}

/// What a user that has time does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Sends a request that counts.
    Measured,
    /// Sends a request that does not count.
    Warmup,
    /// Is done.
    Done,
}

impl ClosedLoop {
    pub(crate) fn new(start: Monotonic, warmup: Duration, stop: Stop) -> Self {
        let measuring_since = start.plus(warmup);
        Self {
            measuring_since,
            deadline: stop.time.map(|time| measuring_since.plus(time)),
            requests_left: stop.requests.map(AtomicU64::new),
        }
    }

    /// When the measured part begins.
    pub(crate) fn measuring_since(&self) -> Monotonic {
        self.measuring_since
    }

    /// When the time is up.
    pub(crate) fn deadline(&self) -> Option<Monotonic> {
        self.deadline
    }

    /// Whether the time is up at `now`.
    pub(crate) fn is_over(&self, now: Monotonic) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Asks for a request that starts `now`.
    pub(crate) fn next(&self, now: Monotonic) -> Next {
        if now < self.measuring_since {
            return Next::Warmup;
        }
        if self.is_over(now) {
            return Next::Done;
        }
        let Some(left) = &self.requests_left else { return Next::Measured };
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Next::Measured,
            Err(_) => Next::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClosedLoop, Next};
    use crate::plan::Stop;
    use platform::Monotonic;
    use std::time::Duration;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn warm_up_requests_are_not_counted_down() {
        let stop = Stop { requests: Some(2), ..Stop::default() };
        let closed_loop = ClosedLoop::new(at(0), Duration::from_secs(5), stop);
        assert_eq!(
            [0, 4, 5, 6, 7].map(|second| closed_loop.next(at(second))),
            [Next::Warmup, Next::Warmup, Next::Measured, Next::Measured, Next::Done]
        );
    }

    #[test]
    fn nothing_starts_at_or_after_the_deadline() {
        let stop = Stop { time: Some(Duration::from_secs(3)), ..Stop::default() };
        let closed_loop = ClosedLoop::new(at(10), Duration::from_secs(1), stop);
        assert_eq!((closed_loop.measuring_since(), closed_loop.deadline()), (at(11), Some(at(14))));
        assert_eq!((closed_loop.next(at(13)), closed_loop.next(at(14))), (Next::Measured, Next::Done));
        assert!(!closed_loop.is_over(at(13)) && closed_loop.is_over(at(14)));
    }
}
