//! The users of a closed loop, and those of them that pause.

use crate::account::UserState;
use crate::slots::SlotId;
use clock::Monotonic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a pausing user continues, the state it paused in, and the connection on which it has a
/// place.
pub(super) type Wake = (Monotonic, UserState, Option<SlotId>);

/// The users of this thread. A user with several requests in flight is counted once for each of
/// them.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// How many there should be.
    pub(super) wanted: usize,
    /// How many there are, in any state.
    pub(super) present: usize,
    /// How many can start a request now.
    pub(super) ready: usize,
    /// The index, over all threads, of this thread's next user to begin in the current part.
    pub(super) next: usize,
    /// Wake-up times of pausing users, earliest first.
    wakes: BinaryHeap<Reverse<Wake>>,
}

impl Users {
    /// Lets a user pause.
    pub(super) fn pause(&mut self, until: Monotonic, state: UserState, kept: Option<SlotId>) {
        self.wakes.push(Reverse((until, state, kept)));
    }

    /// When the next pausing user continues.
    pub(super) fn next_wake(&self) -> Option<Monotonic> {
        self.wakes.peek().map(|Reverse((moment, ..))| *moment)
    }

    /// Ends the earliest pause, if it is over at `now`.
    pub(super) fn wake(&mut self, now: Monotonic) -> Option<Wake> {
        self.next_wake().filter(|&moment| moment <= now)?;
        self.wakes.pop().map(|Reverse(wake)| wake)
    }

    /// Whether all users pause.
    pub(super) fn all_pause(&self) -> bool {
        self.present == self.wakes.len()
    }
}
