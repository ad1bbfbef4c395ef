//! Making purges outlive the process without waiting for a disk that hangs.
//!
//! Invariant: a purge is in force in this process before anything here is asked; what is late is only whether a restart
//! knows it, and the caller is told so. What is late is made up for when the disk answers again, before it is used.

use crate::disk_threads;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;

/// Purges at a time that wait for the disk of the journal, as many for that of the static tree, and as many for those
/// of the state and runtime directories. Each holds a thread. What one of them writes down covers all that are in
/// force by then, so further turns would bring nothing.
const WAITING_MAX: usize = 2;

/// Turns for purges that are in force and wait for a disk.
#[derive(Debug)]
pub(crate) struct DiskTurns {
    journal: Arc<Semaphore>,
    tree: Arc<Semaphore>,
    witness: Arc<Semaphore>,
}

impl Default for DiskTurns {
    fn default() -> Self {
        let turns = || Arc::new(Semaphore::new(WAITING_MAX));
        Self { journal: turns(), tree: turns(), witness: turns() }
    }
}

impl Shared {
    /// Removes purged pages from the static tree; `true` if no file of them is left within `limits.disk_timeout`.
    pub(crate) async fn lose_in_time(self: &Arc<Self>) -> bool {
        let shared = Arc::clone(self);
        let lost = self.in_turn(&self.disk_turns.tree, move || shared.static_tree.lose(&shared.store));
        lost.await == Some(true)
    }

    /// Makes purges known to the next start, or makes that begin empty; `true` if that is done in time. The disk of the
    /// journal has `limits.disk_timeout` to answer, unless it is known to hang, and then the places outside of its
    /// directory have as long.
    pub(crate) async fn persist_in_time(self: &Arc<Self>) -> bool {
        if !self.persistence.is_journal_hung() {
            let shared = Arc::clone(self);
            let outcome = self.in_turn(&self.disk_turns.journal, move || shared.persist()).await;
            if let Some(is_durable) = outcome {
                return is_durable;
            }
        }
        let is_durable = self.persistence.is_set_aside() || self.set_aside_in_time().await;
        if !is_durable {
            self.count_undurable();
        }
        is_durable
    }

    /// Makes the next start begin empty without the disk of the journal; `true` if that is done within
    /// `limits.disk_timeout`.
    async fn set_aside_in_time(self: &Arc<Self>) -> bool {
        if self.persistence.is_set_aside_hung() {
            return false;
        }
        let shared = Arc::clone(self);
        let outcome = self.in_turn(&self.disk_turns.witness, move || shared.persistence.set_aside()).await;
        if outcome.is_none() {
            self.persistence.give_up_set_aside();
        }
        outcome == Some(true)
    }

    /// Has `work` done on a thread that may wait for a disk; `None` if it is not done within `limits.disk_timeout`, the
    /// wait for a turn included. Work that is late keeps its turn until it has ended.
    async fn in_turn<T: Send + 'static>(
        &self,
        turns: &Arc<Semaphore>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let done = async {
            let turn = Arc::clone(turns).acquire_owned().await.ok()?;
            disk_threads::begin(move || (work(), turn).0).await.ok()
        };
        tokio::time::timeout(self.limits.disk_timeout, done).await.ok().flatten()
    }

    /// Has written down what is not, on a thread that may wait for the disk. One such thread is enough.
    pub(crate) fn persist_aside(self: &Arc<Self>) {
        if self.persistence.is_stuck() || self.is_persisting.swap(true, Ordering::SeqCst) {
            return;
        }
        let persisting = Persisting(Arc::clone(self));
        // Nothing waits for it.
        drop(disk_threads::begin(move || {
            let Persisting(shared) = &persisting;
            shared.persistence.catch_up(|| shared.persist());
        }));
    }
}

/// A thread that writes down, or is to be one. It ends also where there is no thread to be had.
struct Persisting(Arc<Shared>);

impl Drop for Persisting {
    fn drop(&mut self) {
        self.0.is_persisting.store(false, Ordering::SeqCst);
    }
}
