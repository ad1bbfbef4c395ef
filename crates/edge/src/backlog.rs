//! Pieces of work for threads that may wait for a disk, in a bounded queue.
//!
//! Invariant: a piece is under way once at a time, however many wait for it. At most `pieces_max` are under way, those
//! that wait for their turn included. A piece that gets no turn in time is given up, because nobody waits any longer.

use crate::disk_threads;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// The pieces that are under way. `K` tells them apart.
#[derive(Debug)]
pub(crate) struct Backlog<K> {
    under_way: Mutex<HashMap<K, watch::Receiver<()>>>,
    turns: Arc<Semaphore>,
    pieces_max: usize,
}

impl<K: Copy + Eq + Hash + Send + 'static> Backlog<K> {
    /// At most `pieces_max` pieces, of which `turns_max` are worked on at the same time.
    pub(crate) fn new(turns_max: usize, pieces_max: usize) -> Self {
        Self { under_way: Mutex::default(), turns: Arc::new(Semaphore::new(turns_max)), pieces_max }
    }

    /// The turns, for work that shares them.
    pub(crate) const fn turns(&self) -> &Arc<Semaphore> {
        &self.turns
    }

    /// Has `work` done unless the piece is under way already. What is given changes when the work has ended; it is
    /// closed without a change if the piece got no turn. `None` if too many are under way. `within`: how long it waits
    /// for its turn.
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
            // Whether it has panicked is of no interest here: who waits finds out what came of it.
            let _ = disk_threads::begin(work).await;
            drop(turn);
            self.under_way().remove(&piece);
            // A request that joins from now on has a piece of its own.
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[tokio::test]
    async fn backlog_of_a_slow_disk_is_bounded() {
        let backlog = Arc::new(Backlog::new(1, 3));
        let (release, gate) = channel::<()>();
        let work_done = Arc::new(AtomicUsize::new(0));
        let count = |done: &Arc<AtomicUsize>| {
            let done = Arc::clone(done);
            move || {
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        let slow = backlog.join(0, testkit::PATIENCE, move || {
            // It ends when the gate is gone.
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
        let backlog = Arc::new(Backlog::new(1, 2));
        let turn = backlog.turns().clone().acquire_owned().await;
        let work_done = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&work_done);
        let late = backlog.join(1, Duration::ZERO, move || {
            done.fetch_add(1, Ordering::SeqCst);
        });
        assert!(late.unwrap().changed().await.is_err(), "it got no turn");
        drop(turn);
        let mut next = backlog.join(2, testkit::PATIENCE, || {}).unwrap();
        assert!(next.changed().await.is_ok(), "its work has ended");
        assert_eq!(work_done.load(Ordering::SeqCst), 0, "nobody waits for it");
    }
}
