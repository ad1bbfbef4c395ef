//! The thread that frees what was invalidated.
//!
//! Invariant: answers never wait for it; it holds the store's locks for a few objects at a time, and rests between
//! walks so that whatever is busy goes first.

use crate::shared::Shared;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Objects of one walk.
const WALK_SLOTS: usize = 4096;

/// The rest between two walks.
const REST: Duration = Duration::from_millis(2);

/// Tells the thread that there is something to do.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    due: bool,
    ended: bool,
}

impl Sweeper {
    /// There is something to sweep.
    pub(crate) fn wake(&self) {
        self.change(|state| state.due = true);
    }

    /// The thread shall end.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for something to do; says whether to go on.
    fn wait(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut State| !state.due && !state.ended;
        let mut state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        state.due = false;
        !state.ended
    }
}

/// Starts the thread.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("petasos-sweeper".to_owned()).spawn(move || {
        while shared.sweeper.wait() {
            while shared.store.sweep(WALK_SLOTS).more {
                std::thread::sleep(REST);
            }
        }
    })
}
