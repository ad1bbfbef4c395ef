//! Control of a running load: another thread can stop it and watch its progress.
//!
//! Invariant: the counters only grow. They are updated in batches, not for every response, and
//! serve only as a progress display. Relaxed ordering is enough, because they guard no other data.
//! The exact figures are in the [`record::RunOutcome`].

use crate::series::LoadSeries;
use clock::{Clock, Monotonic};
use record::Second;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Stops and watches a run. A reference is passed to [`crate::run`], and other threads may share
/// it. A control belongs to one run.
#[derive(Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    failed: AtomicU64,
    /// The run's clock when measuring began, in nanoseconds plus one; 0 until then.
    measuring_since: AtomicU64,
    pub(crate) series: LoadSeries,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Requests of the measured part that have ended, successfully or not.
    pub done: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Time since the measured part began; `None` until then.
    pub elapsed: Option<Duration>,
}

impl Control {
    /// A control for one run.
    pub fn new() -> Self {
        Self::default()
    }

    /// A control for one run, which `stop` ends as [`Control::stop`] does. A signal handler, which
    /// can only set a flag, may share it with several runs.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Ends the run within a tenth of a second. The outcome has the measurements until then.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The progress of the run. `clock` must be the clock that was given to the run.
    pub fn progress(&self, clock: &dyn Clock) -> RunProgress {
        let since = self.measuring_since.load(Ordering::Relaxed).checked_sub(1).map(Monotonic::from_nanos);
        let now = clock.monotonic();
        RunProgress {
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            elapsed: since.filter(|&since| since <= now).map(|since| now.since(since)),
        }
    }

    /// The complete seconds of the measured part, from number `from` on. The run moves them to
    /// [`record::RunOutcome::seconds`] at its end; from then on the list is empty.
    pub fn seconds_since(&self, from: usize) -> Vec<Second> {
        self.series.since(from)
    }

    /// Whether the run was asked to stop.
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
    use clock::{Clock as _, ManualClock, Timestamp};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn elapsed_time_starts_with_the_measured_part() {
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
    fn one_flag_stops_all_runs_that_share_it() {
        let flag = Arc::new(AtomicBool::new(false));
        let runs = [0, 1].map(|_| Control::stopped_by(Arc::clone(&flag)));
        assert!(!runs.iter().any(Control::is_stopped));
        flag.store(true, Ordering::SeqCst);
        assert!(runs.iter().all(Control::is_stopped));
    }
}
