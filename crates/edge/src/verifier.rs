//! The thread that reads what is on the disk again and again, so that damage is found before a client meets it.
//!
//! Invariant: nothing waits for it for longer than [`END_WAIT`], whatever the disk does; it holds no lock while it
//! reads, and between two steps nothing of the edge.

use crate::shared::Shared;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use store::{Examination, Examined};

/// The most that one step reads, in bytes.
const STEP_BYTES: usize = 256 << 10;

/// What looking for an object and reading its head counts as, in bytes.
const HEAD_COST_BYTES: u64 = 16 << 10;

/// The rest after everything was read.
const ROUND_REST: Duration = Duration::from_secs(1);

/// How long the end of the edge waits for a step. A disk that hangs may hold the thread for longer.
const END_WAIT: Duration = Duration::from_secs(1);

/// How much nicer than others the thread is.
const GIVE_WAY_NICE: i32 = 10;

/// What the thread has found, and whether it shall end.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    state: Mutex<State>,
    changed: Condvar,
    verified_bytes: AtomicU64,
    damaged: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_ended: bool,
    is_in_step: bool,
}

impl Verifier {
    /// Bytes that were read and are as they were written.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.verified_bytes.load(Ordering::Relaxed)
    }

    /// Stored responses that were found damaged.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Ends the thread after its step, which is waited for, though not for ever.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_ended = true;
        self.changed.notify_all();
        let in_step = |state: &mut State| state.is_in_step;
        drop(self.changed.wait_timeout_while(state, END_WAIT, in_step));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step; false when there shall be none.
    fn begin_step(&self) -> bool {
        let mut state = self.state();
        state.is_in_step = !state.is_ended;
        state.is_in_step
    }

    /// The step is over. Rests, unless it is the end.
    fn end_step(&self, rest: Duration) {
        let mut state = self.state();
        state.is_in_step = false;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(state, rest, |state| !state.is_ended));
    }

    /// Counts what a step did; says how long to rest after it at this rate, in bytes per second.
    fn count(&self, examined: Examined, rate: u64) -> Duration {
        let cost = match examined {
            // Nothing was read.
            Examined::Sound(0) => 0,
            Examined::Sound(bytes) => {
                self.verified_bytes.fetch_add(bytes, Ordering::Relaxed);
                bytes.max(HEAD_COST_BYTES)
            }
            Examined::Damaged => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                HEAD_COST_BYTES
            }
            Examined::End => return ROUND_REST,
        };
        Duration::from_nanos(cost.saturating_mul(1_000_000_000) / rate)
    }
}

/// Starts the thread, where there is a disk and a rate at which it is to be verified. It is never joined: a disk that
/// hangs must not hold the end of the process.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let rate = shared.limits.disk_verify_rate;
    if rate == 0 || !shared.store.is_persistent() {
        return Ok(());
    }
    let (verifier, shared) = (Arc::clone(&shared.verifier), Arc::downgrade(shared));
    Builder::new().name("petasos-verify".to_owned()).spawn(move || {
        // On Linux this is the calling thread alone. Where it is not allowed, the thread is merely less polite.
        let _ = rustix::process::setpriority_process(None, GIVE_WAY_NICE);
        let mut walk = Examination::default();
        while verifier.begin_step() {
            let rest = match shared.upgrade() {
                Some(shared) => verifier.count(walk.step(&shared.store, STEP_BYTES), rate),
                None => return,
            };
            verifier.end_step(rest);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{HEAD_COST_BYTES, ROUND_REST, STEP_BYTES, Verifier};
    use std::time::Duration;
    use store::Examined;

    #[test]
    fn rest_after_a_step_keeps_to_the_rate() {
        let verifier = Verifier::default();
        let rate = STEP_BYTES as u64;
        assert_eq!(verifier.count(Examined::Sound(rate), rate), Duration::from_secs(1));
        assert_eq!(verifier.count(Examined::Sound(rate / 2), 2 * rate), Duration::from_millis(250));
        let head = verifier.count(Examined::Sound(1), HEAD_COST_BYTES);
        assert_eq!(
            (head, verifier.count(Examined::Damaged, HEAD_COST_BYTES)),
            (head, Duration::from_secs(1))
        );
        assert_eq!(verifier.count(Examined::Sound(0), 1), Duration::ZERO);
        assert_eq!(verifier.count(Examined::End, u64::MAX), ROUND_REST);
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
