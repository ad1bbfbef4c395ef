//! Makes purges durable without waiting for a hanging disk.
//!
//! Invariants: a purge is in force in this process before this module is called. If it is late
//! here, only the effect on a restart is open, and the caller is told so. Late purges are made
//! durable when the disk answers again, before the disk is used.

use crate::control::counters::Metric;
use crate::shared::Shared;
use crate::upkeep::disk_threads;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;

/// Maximum number of purges that wait for each disk at the same time. The disks are those of the
/// journal, the static tree, and the state and runtime directories. Each purge holds a thread. Two
/// are enough, because one write covers all purges in force.
const WAITING_MAX: usize = 2;

/// Permits for purges that are in force and wait for a disk.
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
    /// Removes purged pages from the static tree; `true` if none of their files is left within
    /// `limits.disk_timeout`.
    pub(crate) async fn lose_in_time(self: &Arc<Self>) -> bool {
        let shared = Arc::clone(self);
        let lost = self.in_turn(&self.disk_turns.tree, move || shared.static_tree.lose(&shared.store));
        lost.await == Some(true)
    }

    /// Makes the next start know all purges, or begin empty; `true` if that is done in time.
    /// Otherwise counts a purge that a restart could undo. Later attempts do not count it again.
    pub(crate) async fn persist_in_time(self: &Arc<Self>) -> bool {
        let is_durable = self.try_to_persist().await;
        if !is_durable {
            self.persistence.note_risk();
            self.cells(0).count(Metric::PurgesUndurable);
        }
        is_durable
    }

    /// The journal's disk has `limits.disk_timeout`, unless it is known to hang. After that, the
    /// places outside its directory have the same time.
    async fn try_to_persist(self: &Arc<Self>) -> bool {
        if !self.persistence.is_journal_hung() {
            let shared = Arc::clone(self);
            let outcome = self.in_turn(&self.disk_turns.journal, move || shared.persist()).await;
            if let Some(is_durable) = outcome {
                return is_durable;
            }
        }
        self.persistence.is_set_aside() || self.set_aside_in_time().await
    }

    /// Makes the next start begin empty without using the journal's disk; `true` if that is done
    /// within `limits.disk_timeout`.
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

    /// Runs `work` on a disk thread. `None` if it is not done within `limits.disk_timeout`,
    /// including the wait for a permit. Late work keeps its permit until it has ended.
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

    /// Makes late purges durable on a disk thread. At most one such thread runs.
    pub(crate) fn persist_aside(self: &Arc<Self>) {
        if self.persistence.is_stuck() || self.is_persisting.swap(true, Ordering::SeqCst) {
            return;
        }
        let persisting = Persisting(Arc::clone(self));
        // No caller waits for the result.
        drop(disk_threads::begin(move || {
            let Persisting(shared) = &persisting;
            shared.persistence.catch_up(|| shared.persist());
        }));
    }
}

/// Marks that a thread makes purges durable, or is about to. Its drop clears the mark, also if no
/// thread was available.
struct Persisting(Arc<Shared>);

impl Drop for Persisting {
    fn drop(&mut self) {
        self.0.is_persisting.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use crate::control::counters::Metric;
    use crate::shared::Shared;
    use crate::upkeep::persistence::Persistence;
    use config::Plan;
    use disk::TierSettings;
    use platform::{SimulatedDisk, SystemClock};
    use std::io::ErrorKind;
    use std::sync::Arc;

    #[tokio::test]
    async fn undurable_purge_counts_once_however_often_it_is_tried_again() {
        let disk = SimulatedDisk::new(1);
        disk.set_broken(Some(ErrorKind::Other));
        let settings = TierSettings {
            directory: "/cache".into(),
            state_directory: Some("/state".into()),
            ..TierSettings::default()
        };
        let mut plan = Plan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.disk_timeout = testkit::PATIENCE;
        let persistence = Persistence::of_unopened(Arc::new(disk), settings);
        let shared = Shared::new(plan, None, Arc::new(SystemClock::new())).with_persistence(persistence);
        let shared = Arc::new(shared);
        assert!(!shared.persist_in_time().await);
        for _ in 0..3 {
            assert!(!shared.persist(), "the sweeper's attempts fail too");
        }
        assert_eq!(shared.counters.value(Metric::PurgesUndurable), 1);
        assert!(!shared.persist_in_time().await);
        assert_eq!(shared.counters.value(Metric::PurgesUndurable), 2, "another purge");
    }
}
