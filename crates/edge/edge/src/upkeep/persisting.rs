//! Makes purges durable without waiting for a hanging disk.
//!
//! Invariants: a purge is in force in this process before this module is called. If it is late
//! here, only the effect on a restart is open, and the caller is told so. Late purges are made
//! durable when the disk answers again, before the disk is used.

use crate::control::counters::Metric;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;

/// Removes purged pages from the static tree; `true` if none of their files is left within
/// `limits.disk_timeout`.
pub(crate) async fn lose_in_time(shared: &Arc<Shared>) -> bool {
    let held = Arc::clone(shared);
    let lost = in_turn(shared, &shared.disk_turns.tree, move || held.static_tree.lose(&held.store));
    lost.await == Some(true)
}

/// Makes the next start know all purges, or begin empty; `true` if that is done in time.
/// Otherwise counts a purge that a restart could undo. Later attempts do not count it again.
pub(crate) async fn persist_in_time(shared: &Arc<Shared>) -> bool {
    let is_durable = try_to_persist(shared).await;
    if !is_durable {
        shared.persistence.note_risk();
        shared.cells(0).count(Metric::PurgesUndurable);
    }
    is_durable
}

/// The journal's disk has `limits.disk_timeout`, unless it is known to hang. After that, the
/// places outside its directory have the same time.
async fn try_to_persist(shared: &Arc<Shared>) -> bool {
    if shared.persistence.is_released() {
        let held = Arc::clone(shared);
        return in_turn(shared, &shared.disk_turns.journal, move || held.persist()).await == Some(true);
    }
    if !shared.persistence.is_journal_hung() {
        let held = Arc::clone(shared);
        let outcome = in_turn(shared, &shared.disk_turns.journal, move || held.persist()).await;
        if let Some(is_durable) = outcome {
            return is_durable;
        }
    }
    shared.persistence.is_set_aside() || set_aside_in_time(shared).await
}

/// Makes the next start begin empty without using the journal's disk; `true` if that is done
/// within `limits.disk_timeout`.
async fn set_aside_in_time(shared: &Arc<Shared>) -> bool {
    if shared.persistence.is_set_aside_hung() {
        return false;
    }
    let held = Arc::clone(shared);
    let outcome = in_turn(shared, &shared.disk_turns.set_aside, move || held.persistence.set_aside()).await;
    if outcome.is_none() {
        shared.persistence.give_up_set_aside();
    }
    outcome == Some(true)
}

/// Runs `work` on a disk thread. `None` if it is not done within `limits.disk_timeout`,
/// including the wait for a permit. Late work keeps its permit until it has ended.
async fn in_turn<T: Send + 'static>(
    shared: &Shared,
    turns: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = async {
        let turn = Arc::clone(turns).acquire_owned().await.ok()?;
        shared.disk_threads.begin(move || (work(), turn).0).await.ok()
    };
    tokio::time::timeout(shared.limits.disk_timeout, done).await.ok().flatten()
}

/// Makes late purges durable on a disk thread. At most one such thread runs.
pub(crate) fn persist_aside(shared: &Arc<Shared>) {
    if shared.persistence.is_stuck() || shared.is_persisting.swap(true, Ordering::SeqCst) {
        return;
    }
    let persisting = PersistenceMark(Arc::clone(shared));
    // No caller waits for the result.
    drop(shared.disk_threads.begin(move || {
        let PersistenceMark(shared) = &persisting;
        shared.persistence.catch_up(|| shared.persist());
    }));
}

/// Marks that a thread makes purges durable, or is about to. Its drop clears the mark, also if no
/// thread was available.
struct PersistenceMark(Arc<Shared>);

impl Drop for PersistenceMark {
    fn drop(&mut self) {
        self.0.is_persisting.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::persist_in_time;
    use crate::control::counters::Metric;
    use crate::shared::Shared;
    use crate::system::System;
    use crate::upkeep::persistence::Persistence;
    use config::EdgePlan;
    use disk::TierSettings;
    use platform::SimulatedDisk;
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
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.disk_timeout = testkit::PATIENCE;
        let persistence = Persistence::of_unopened(Arc::new(disk), settings);
        let shared = Shared::new(plan, None, System::of_machine()).with_persistence(persistence);
        let shared = Arc::new(shared);
        assert!(!persist_in_time(&shared).await);
        for _ in 0..3 {
            assert!(!shared.persist(), "the sweeper's attempts fail too");
        }
        assert_eq!(shared.counters.value(Metric::PurgesUndurable), 1);
        assert!(!persist_in_time(&shared).await);
        assert_eq!(shared.counters.value(Metric::PurgesUndurable), 2, "another purge");
    }
}
