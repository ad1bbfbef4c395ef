//! The counters of the verifier thread, its pace, and the order that ends it.
//!
//! Invariant: the shutdown waits for the thread at most [`END_WAIT`], whatever the disk does.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::ExaminationStep;
use threads::{Condvar, Mutex, MutexGuard};

/// Bytes that count for finding an object and reading its head.
const HEAD_COST_BYTES: u64 = 16 << 10;

/// Pause after everything was read.
const ROUND_REST: Duration = Duration::from_secs(1);

/// How long the shutdown waits for a step. A hanging disk may hold the thread longer.
const END_WAIT: Duration = Duration::from_secs(1);

/// The counters of the thread, and whether it must end.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    state: Mutex<VerifierState>,
    changed: Condvar,
    /// Relaxed is enough for both counters: no other memory depends on them.
    verified_bytes: AtomicU64,
    damaged: AtomicU64,
}

#[derive(Debug, Default)]
struct VerifierState {
    is_ended: bool,
    is_in_step: bool,
}

impl Verifier {
    /// Bytes that were read and found correct.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.verified_bytes.load(Ordering::Relaxed)
    }

    /// Number of stored objects that were found damaged.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Ends the thread after its current step. Waits for that step, but at most [`END_WAIT`].
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_ended = true;
        self.changed.notify_all();
        let in_step = |state: &mut VerifierState| state.is_in_step;
        drop(self.changed.wait_timeout_while(state, END_WAIT, in_step));
    }

    fn state(&self) -> MutexGuard<'_, VerifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step; false if the thread must end.
    pub(crate) fn begin_step(&self) -> bool {
        let mut state = self.state();
        state.is_in_step = !state.is_ended;
        state.is_in_step
    }

    /// Ends a step and rests, unless the thread must end.
    pub(crate) fn end_step(&self, rest: Duration) {
        let mut state = self.state();
        state.is_in_step = false;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(state, rest, |state| !state.is_ended));
    }

    /// Counts the result of a step. Returns the rest after it that keeps to `rate` bytes per
    /// second.
    pub(crate) fn count(&self, examined: ExaminationStep, rate: u64) -> Duration {
        let cost = match examined {
            // Nothing was read.
            ExaminationStep::Sound(0) => 0,
            ExaminationStep::Sound(bytes) => {
                self.verified_bytes.fetch_add(bytes, Ordering::Relaxed);
                bytes.max(HEAD_COST_BYTES)
            }
            ExaminationStep::Damaged => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                HEAD_COST_BYTES
            }
            ExaminationStep::End => return ROUND_REST,
        };
        Duration::from_nanos(cost.saturating_mul(1_000_000_000) / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD_COST_BYTES, ROUND_REST, Verifier};
    use std::time::Duration;
    use store::ExaminationStep;

    #[test]
    fn rest_after_a_step_keeps_to_the_rate() {
        let verifier = Verifier::default();
        let rate = 256 << 10;
        assert_eq!(verifier.count(ExaminationStep::Sound(rate), rate), Duration::from_secs(1));
        assert_eq!(verifier.count(ExaminationStep::Sound(rate / 2), 2 * rate), Duration::from_millis(250));
        let head = verifier.count(ExaminationStep::Sound(1), HEAD_COST_BYTES);
        assert_eq!(
            (head, verifier.count(ExaminationStep::Damaged, HEAD_COST_BYTES)),
            (head, Duration::from_secs(1))
        );
        assert_eq!(verifier.count(ExaminationStep::Sound(0), 1), Duration::ZERO);
        assert_eq!(verifier.count(ExaminationStep::End, u64::MAX), ROUND_REST);
        assert_eq!((verifier.verified_bytes(), verifier.damaged()), (rate + rate / 2 + 1, 1));
    }

    #[test]
    fn ended_verifier_begins_no_step_and_does_not_rest() {
        let verifier = Verifier::default();
        assert!(verifier.begin_step());
        verifier.end_step(Duration::ZERO);
        verifier.end();
        assert!(!verifier.begin_step());
        verifier.end_step(Duration::from_secs(3_600));
    }
}
