//! The two ends of a running load: another thread can stop it and can see how far it is.
//!
//! Invariant: the counters only grow, and are written in portions, not for every answer; they are for people
//! who watch. The figures that count are in the [`crate::Outcome`].

use crate::outcome::Second;
use crate::series::Series;
use platform::{Clock, Monotonic};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Handed to [`crate::run`] by reference and shared with whoever watches. One control belongs to one run.
#[derive(Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    failed: AtomicU64,
    /// The reading of the run's clock when measuring began, plus one; 0 until then.
    measuring_since: AtomicU64,
    pub(crate) series: Series,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests that have ended in the measured part, well or badly.
    pub done: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Time since the measured part began; `None` before that and during the warm-up.
    pub elapsed: Option<Duration>,
}

impl Control {
    /// A control for one run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run soon, within a tenth of a second. What was measured until then is its outcome.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The flag that [`Control::stop`] sets, for a signal handler that can only set a flag.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// How far the run is. `clock` must be the one the run was given.
    pub fn progress(&self, clock: &dyn Clock) -> Progress {
        let since = self.measuring_since.load(Ordering::Relaxed).checked_sub(1).map(Monotonic::from_nanos);
        let now = clock.monotonic();
        Progress {
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            elapsed: since.filter(|&since| since <= now).map(|since| now.since(since)),
        }
    }

    /// The seconds of the measured part that are complete, from number `from` on. They are handed out once more as
    /// [`crate::Outcome::seconds`]; from then on there are none here.
    pub fn seconds_since(&self, from: usize) -> Vec<Second> {
        self.series.since(from)
    }

    /// Whether somebody has asked for the end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn measuring_since(&self, moment: Monotonic) {
        self.measuring_since.store(moment.as_nanos().saturating_add(1), Ordering::Relaxed);
    }

    pub(crate) fn add(&self, done: u64, failed: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Control;
    use platform::{Clock as _, ManualClock, Timestamp};
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    #[test]
    fn time_counts_from_the_measured_part_on() {
        let (clock, control) = (ManualClock::at(Timestamp::from_secs(1)), Control::new());
        assert_eq!(control.progress(&clock).elapsed, None);
        control.measuring_since(clock.monotonic().plus(Duration::from_secs(2)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(control.progress(&clock).elapsed, None);
        clock.advance(Duration::from_secs(4));
        control.add(7, 2);
        let progress = control.progress(&clock);
        assert_eq!((progress.done, progress.failed, progress.elapsed), (7, 2, Some(Duration::from_secs(3))));
    }

    #[test]
    fn a_handler_can_stop_through_the_flag() {
        let control = Control::new();
        assert!(!control.is_stopped());
        control.stop_flag().store(true, Ordering::SeqCst);
        assert!(control.is_stopped());
    }
}
