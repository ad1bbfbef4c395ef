//! Turns of connections that are closed because their time is over.
//!
//! Connections that were made together expire together, such as those of a slow attack. The event
//! loop runs its tasks in the order in which they were woken. Without turns, every other client
//! would wait until thousands of connections are refused and closed.
//!
//! Invariants: at most [`TURNS`] connections of a worker close in a round of its event loop, and
//! the worker looks for new events in between. No task holds a turn while it waits for a client.

use tokio::sync::Semaphore;

/// Largest number of connections of a worker that close in a round of its event loop.
const TURNS: usize = 16;

/// The turns of all workers.
#[derive(Debug)]
pub(crate) struct ClosingTurns(Vec<Semaphore>);

impl ClosingTurns {
    /// Turns for this many workers, at least one.
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers.max(1)).map(|_| Semaphore::new(TURNS)).collect())
    }

    /// Waits for a turn of this worker. The caller must then close its connection without waiting
    /// for its client.
    pub(crate) async fn take(&self, worker: usize) {
        let Some(turns) = self.0.get(worker % self.0.len().max(1)) else { return };
        // The semaphore is never closed.
        let turn = turns.acquire().await;
        // Comes back after the event loop has looked for events.
        tokio::task::yield_now().await;
        drop(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::{ClosingTurns, TURNS};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn other_tasks_run_between_turns() {
        let (turns, closed) = (Arc::new(ClosingTurns::new(1)), Arc::new(AtomicUsize::new(0)));
        let mut closing = JoinSet::new();
        for _ in 0..1000 {
            let (turns, closed) = (Arc::clone(&turns), Arc::clone(&closed));
            closing.spawn(async move {
                turns.take(0).await;
                closed.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut last = 0;
        while closed.load(Ordering::Relaxed) < 1000 {
            tokio::task::yield_now().await;
            let now = closed.load(Ordering::Relaxed);
            assert!(now - last <= 2 * TURNS, "{} in a round", now - last);
            last = now;
        }
        closing.join_all().await;
    }
}
