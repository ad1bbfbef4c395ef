//! The signal that wakes and ends the sweeper thread.
//!
//! Invariant: an invalidation that comes while the thread works is not missed.

use std::sync::PoisonError;
use std::time::Duration;
use threads::{Condvar, Mutex};

/// Wakes and ends the thread.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    state: Mutex<SweeperState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SweeperState {
    due: bool,
    ended: bool,
}

impl Sweeper {
    /// Starts a sweep.
    pub(crate) fn wake(&self) {
        self.change(|state| state.due = true);
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut SweeperState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Rests for at most this time; an invalidation ends the rest if it `wakes`. Returns whether to
    /// continue.
    pub(crate) fn wait(&self, rest: Duration, wakes: bool) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut SweeperState| !(state.ended || wakes && state.due);
        let waited = self.changed.wait_timeout_while(state, rest, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.due = false;
        !state.ended
    }
}
