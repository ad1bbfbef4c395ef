//! A bounded queue of disk work, with one entry per piece.
//!
//! Invariants: a piece is worked on once at a time, however many requests wait for it. At most
//! `pieces_max` pieces are queued or running. A piece that gets no turn in time is dropped, because
//! by then its requests no longer wait.

use crate::upkeep::disk_threads::DiskThreads;
use platform::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The pieces queued or running. `K` identifies a piece.
#[derive(Debug)]
pub(crate) struct Backlog<K> {
    under_way: Mutex<HashMap<K, watch::Receiver<()>>>,
    turns: Arc<Semaphore>,
    pieces_max: usize,
    threads: DiskThreads,
}

impl<K: Copy + Eq + Hash + Send + 'static> Backlog<K> {
    /// At most `pieces_max` pieces, of which `turns_max` run at the same time on `threads`.
    pub(crate) fn new(turns_max: usize, pieces_max: usize, threads: DiskThreads) -> Self {
        let turns = Arc::new(Semaphore::new(turns_max));
        Self { under_way: Mutex::default(), turns, pieces_max, threads }
    }

    /// The semaphore of running pieces, for other work that shares it.
    pub(crate) const fn turns(&self) -> &Arc<Semaphore> {
        &self.turns
    }

    /// Queues `work` unless the piece is queued or running already. The receiver changes when the
    /// work has ended, and is closed without a change if the piece got no turn `within` this time.
    /// `None` if too many pieces are queued.
    pub(crate) fn join(
        self: &Arc<Self>,
        piece: K,
        within: Duration,
        work: impl FnOnce() + Send + 'static,
    ) -> Option<watch::Receiver<()>> {
        let mut under_way = self.under_way();
        if let Some(others) = under_way.get(&piece) {
            return Some(others.clone());
        }
        if under_way.len() >= self.pieces_max {
            return None;
        }
        let (sender, receiver) = watch::channel(());
        under_way.insert(piece, receiver.clone());
        tokio::spawn(Arc::clone(self).run(piece, within, work, sender));
        Some(receiver)
    }

    async fn run(
        self: Arc<Self>,
        piece: K,
        within: Duration,
        work: impl FnOnce() + Send + 'static,
        done: watch::Sender<()>,
    ) {
        if let Ok(turn) = tokio::time::timeout(within, self.turns.acquire()).await {
            // A panic is ignored here: the waiting requests see the result themselves.
            let _ = self.threads.begin(work).await;
            drop(turn);
            self.under_way().remove(&piece);
            // Removed first, so that a request that joins after the change starts a new piece.
            done.send_replace(());
        } else {
            self.under_way().remove(&piece);
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<K, watch::Receiver<()>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Backlog;
    use crate::upkeep::disk_threads::DiskThreads;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[tokio::test]
    async fn backlog_of_a_slow_disk_is_bounded() {
        let backlog = Arc::new(Backlog::new(1, 3, DiskThreads::default()));
        let (release, gate) = channel::<()>();
        let work_done = Arc::new(AtomicUsize::new(0));
        let count = |done: &Arc<AtomicUsize>| {
            let done = Arc::clone(done);
            move || {
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        let slow = backlog.join(0, testkit::PATIENCE, move || {
            // Ends when the gate is dropped.
            let _ = gate.recv();
        });
        let waiting: Vec<_> =
            (1..1000).map(|piece| backlog.join(piece, testkit::PATIENCE, count(&work_done))).collect();
        assert_eq!(waiting.iter().flatten().count(), 2, "a further piece is refused");
        let joined = (0..1000).map(|_| backlog.join(1, testkit::PATIENCE, count(&work_done)));
        assert_eq!(joined.flatten().count(), 1000, "a piece that is under way is joined");
        drop(release);
        for mut end in slow.into_iter().chain(waiting.into_iter().flatten()) {
            assert!(end.changed().await.is_ok());
        }
        assert_eq!(work_done.load(Ordering::SeqCst), 2, "each piece is done once");
        assert!(backlog.join(4, testkit::PATIENCE, || {}).is_some(), "there is room again");
    }

    #[tokio::test]
    async fn piece_that_gets_no_turn_in_time_is_given_up() {
        let backlog = Arc::new(Backlog::new(1, 2, DiskThreads::default()));
        let turn = backlog.turns().clone().acquire_owned().await;
        let work_done = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&work_done);
        let late = backlog.join(1, Duration::ZERO, move || {
            done.fetch_add(1, Ordering::SeqCst);
        });
        assert!(late.unwrap().changed().await.is_err(), "the work got no turn");
        drop(turn);
        let mut next = backlog.join(2, testkit::PATIENCE, || {}).unwrap();
        assert!(next.changed().await.is_ok(), "its work has ended");
        assert_eq!(work_done.load(Ordering::SeqCst), 0, "no caller waits for the late work");
    }
}
