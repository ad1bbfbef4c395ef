//! Purges while the disk of the tier hangs: a witness on another device is spoiled, so that the next start begins
//! empty, until the journal has all of them.
//!
//! Invariant: while the state is [`State::Recorded`], the next start begins empty. It leaves that state before the
//! journal is asked to catch up, so that a purge is covered by the record or waits for the journal itself.

use disk::{DistrustPlace, Tier};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is recorded.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    state: Mutex<State>,
    /// Held while a witness is written, and while the state changes with that.
    writing: Mutex<()>,
    /// A thread is writing a record.
    is_recording: AtomicBool,
    /// A caller has given up waiting for such a thread.
    is_given_up: AtomicBool,
}

/// Whether the next start begins empty for purges that the journal lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It does not: the journal has all purges, or their callers were told otherwise.
    #[default]
    NotDue,
    /// It does, as this place says.
    Recorded(DistrustPlace),
    /// The same, and the journal is catching up: a purge waits for the journal again.
    TakingBack(DistrustPlace),
}

impl SetAside {
    /// Whether the next start begins empty whatever the journal lacks.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(*self.state(), State::Recorded(_))
    }

    /// Whether nothing is recorded that has to be taken back.
    pub(crate) fn is_clear(&self) -> bool {
        *self.state() == State::NotDue
    }

    /// Whether the journal is catching up.
    pub(crate) fn is_taking_back(&self) -> bool {
        matches!(*self.state(), State::TakingBack(_))
    }

    /// Whether a thread is recording that a caller has given up. Its device hangs too.
    pub(crate) fn is_hung(&self) -> bool {
        self.is_recording.load(Ordering::SeqCst) && self.is_given_up.load(Ordering::SeqCst)
    }

    /// A caller does not wait any longer for the thread that records.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// Records that the next start begins empty; blocks, but not for the disk of the tier. False if no place works.
    pub(crate) fn record(&self, tier: &Tier) -> bool {
        let _writing = lock(&self.writing);
        self.is_given_up.store(false, Ordering::SeqCst);
        self.is_recording.store(true, Ordering::SeqCst);
        let place = tier.set_aside();
        if let Some(place) = place {
            *self.state() = State::Recorded(place);
        }
        self.is_recording.store(false, Ordering::SeqCst);
        place.is_some()
    }

    /// Has `persisted` journal all purges, and then takes the record back; blocks. `persisted` says whether all are
    /// journaled. If the record cannot be taken back, the next start begins empty once, which loses no purge.
    pub(crate) fn catch_up(&self, tier: &Tier, persisted: impl FnOnce() -> bool) {
        let place = self.begin_taking_back();
        let is_journaled = persisted();
        let Some(place) = place else { return };
        let _writing = lock(&self.writing);
        if *self.state() != State::TakingBack(place) {
            // A purge has found the disk hanging again.
            return;
        }
        if is_journaled {
            // Whether this succeeds or not, the journal has what the record was for.
            tier.take_back(place);
        }
        *self.state() = if is_journaled { State::NotDue } else { State::Recorded(place) };
    }

    fn begin_taking_back(&self) -> Option<DistrustPlace> {
        let mut state = self.state();
        let State::Recorded(place) = *state else { return None };
        *state = State::TakingBack(place);
        Some(place)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
