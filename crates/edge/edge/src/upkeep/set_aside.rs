//! Purges while the disk tier hangs: a record on another device makes the next start begin empty.
//! The record is taken back when the journal has caught up.
//!
//! Invariant: while the state is [`SetAsideState::Recorded`], the next start begins empty. The
//! state changes before the journal catches up, so that every purge is either covered by the record
//! or waits for the journal itself.

use disk::{DistrustPlace, Tier};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use threads::{Mutex, MutexGuard};

/// The state of the record.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    state: Mutex<SetAsideState>,
    /// Held while the record is written and the state changes accordingly. Lock order: `writing`,
    /// then `state`.
    writing: Mutex<()>,
    /// A thread is writing a record.
    is_recording: AtomicBool,
    /// A caller has stopped waiting for that thread.
    is_given_up: AtomicBool,
}

/// Whether the next start begins empty because of purges that the journal lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SetAsideState {
    /// It does not: the journal has all purges, or their callers were told that they are not
    /// durable.
    #[default]
    NotDue,
    /// It does; the record is in this place.
    Recorded(DistrustPlace),
    /// It does, but the journal is catching up, so new purges wait for the journal again.
    TakingBack(DistrustPlace),
}

impl SetAside {
    /// Whether the next start begins empty, whatever the journal lacks.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(*self.state(), SetAsideState::Recorded(_))
    }

    /// Whether no record has to be taken back.
    pub(crate) fn is_clear(&self) -> bool {
        *self.state() == SetAsideState::NotDue
    }

    /// Whether the journal is catching up.
    pub(crate) fn is_taking_back(&self) -> bool {
        matches!(*self.state(), SetAsideState::TakingBack(_))
    }

    /// Whether a thread is writing a record for which its caller stopped waiting: that device hangs
    /// too.
    pub(crate) fn is_hung(&self) -> bool {
        self.is_recording.load(Ordering::SeqCst) && self.is_given_up.load(Ordering::SeqCst)
    }

    /// Records that a caller stopped waiting for the thread.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// Records that the next start begins empty. Blocks, but not on the tier's disk. Returns false
    /// if no place can be written.
    pub(crate) fn record(&self, tier: &Tier) -> bool {
        let _writing = lock(&self.writing);
        self.is_given_up.store(false, Ordering::SeqCst);
        self.is_recording.store(true, Ordering::SeqCst);
        let place = tier.set_aside();
        if let Some(place) = place {
            *self.state() = SetAsideState::Recorded(place);
        }
        self.is_recording.store(false, Ordering::SeqCst);
        place.is_some()
    }

    /// Runs `persisted`, which journals all purges and returns whether it succeeded, and then takes
    /// the record back. Blocks. If the record cannot be taken back, the next start begins empty
    /// once, which loses no purge.
    pub(crate) fn catch_up(&self, tier: &Tier, persisted: impl FnOnce() -> bool) {
        let place = self.begin_taking_back();
        let is_journaled = persisted();
        let Some(place) = place else { return };
        let _writing = lock(&self.writing);
        if *self.state() != SetAsideState::TakingBack(place) {
            // A later purge has found the disk hanging again and recorded that.
            return;
        }
        if is_journaled {
            // Its result does not matter, because the journal now has all recorded purges.
            tier.take_back(place);
        }
        *self.state() = if is_journaled { SetAsideState::NotDue } else { SetAsideState::Recorded(place) };
    }

    fn begin_taking_back(&self) -> Option<DistrustPlace> {
        let mut state = self.state();
        let SetAsideState::Recorded(place) = *state else { return None };
        *state = SetAsideState::TakingBack(place);
        Some(place)
    }

    fn state(&self) -> MutexGuard<'_, SetAsideState> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
