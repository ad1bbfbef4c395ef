//! The results of a worker so far, and the watch over the run under way.
//!
//! Invariant: exactly one report is written. A run that does not end in real time is a failure of
//! its seed, because nothing in the simulation can notice a loop that never waits.

use petasos_lives::Report;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest real time of a run. The longest known takes about a second.
const RUN_MAX: Duration = Duration::from_secs(120);

/// How often the watch looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The results so far. Clones are the same.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<State>>);

struct State {
    report: Report,
    /// The seed of the run under way, and its beginning.
    seed: u64,
    begun: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the watch is over real time")]
impl Progress {
    /// No results yet. A thread ends the process if a run does not end.
    pub(crate) fn watched(seed: u64) -> Self {
        let state = State { report: Report::default(), seed, begun: Instant::now() };
        let progress = Self(Arc::new(Mutex::new(state)));
        let watched = progress.clone();
        std::thread::spawn(move || watched.watch());
        progress
    }

    fn watch(&self) {
        loop {
            std::thread::sleep(LOOK_EVERY);
            let mut state = self.state();
            if state.begun.elapsed() > RUN_MAX {
                let seed = state.seed;
                let text = format!("the run has not ended after {RUN_MAX:?} of real time");
                state.report.failures.insert(seed, text);
                write_and_exit(&state.report);
            }
        }
    }

    /// A run begins.
    pub(crate) fn begin(&self, seed: u64) {
        let mut state = self.state();
        (state.seed, state.begun) = (seed, Instant::now());
    }

    /// A run has ended.
    pub(crate) fn add(&self, report: Report) {
        self.state().report.add(report);
    }

    /// Writes the report and ends the process.
    pub(crate) fn end(&self) -> ! {
        write_and_exit(&self.state().report)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parent process reads the report. Whoever holds the lock meanwhile never returns.
fn write_and_exit(report: &Report) -> ! {
    let is_written = serde_json::to_vec(report).is_ok_and(|text| std::io::stdout().write_all(&text).is_ok());
    std::process::exit(if is_written { 0 } else { 2 })
}
