//! How many requests one application works on at a time, and how long the others wait for their turn.
//!
//! Invariant: never more than `fetches_max` permits exist and never more than `queue_max` requests wait; a
//! waiting request gets its permit in the order of arrival or an error in time. Shared by all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bound on concurrent fetches from one origin, with its queue.
#[derive(Debug)]
pub struct FetchLimit {
    permits: Arc<Semaphore>,
    fetches_max: usize,
    waiting: AtomicUsize,
    queue_max: usize,
    queue_timeout: Duration,
}

/// The right to one fetch; given back when dropped.
#[derive(Debug)]
pub struct FetchPermit {
    _permit: OwnedSemaphorePermit,
}

/// Why a fetch did not get its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// As many requests wait as may.
    #[error("as many requests wait for the application as may")]
    QueueFull,
    /// The request waited as long as it may.
    #[error("the application did not get to the request in time")]
    QueueTimeout,
}

impl FetchLimit {
    /// A limit of `fetches_max` concurrent fetches, at least one, with at most `queue_max` requests waiting,
    /// each no longer than `queue_timeout`.
    pub fn new(fetches_max: usize, queue_max: usize, queue_timeout: Duration) -> Self {
        let fetches_max = fetches_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(fetches_max)),
            fetches_max,
            waiting: AtomicUsize::new(0),
            queue_max,
            queue_timeout,
        }
    }

    /// The right to one fetch, at once or after waiting for it.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full or the wait too long.
    pub async fn acquire(&self) -> Result<FetchPermit, Busy> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(FetchPermit { _permit: permit });
        }
        let _place = self.queue_up()?;
        match tokio::time::timeout(self.queue_timeout, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(FetchPermit { _permit: permit }),
            // The semaphore is never closed, so only the time can run out.
            Ok(Err(_)) | Err(_) => Err(Busy::QueueTimeout),
        }
    }

    /// Fetches under way.
    pub fn active(&self) -> usize {
        self.fetches_max - self.permits.available_permits().min(self.fetches_max)
    }

    /// Requests waiting for their turn.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn queue_up(&self) -> Result<Place<'_>, Busy> {
        self.waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < self.queue_max).then_some(waiting + 1)
            })
            .map(|_| Place { limit: self })
            .map_err(|_| Busy::QueueFull)
    }
}

/// A place in the queue, left on drop also when the waiting request goes away.
struct Place<'a> {
    limit: &'a FetchLimit,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.limit.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, FetchLimit};
    use std::sync::Arc;
    use std::time::Duration;

    const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_permit_given_back_goes_to_the_next_in_the_queue() {
        let limit = Arc::new(FetchLimit::new(1, 1, QUEUE_TIMEOUT));
        let first = limit.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let limit = Arc::clone(&limit);
            async move { limit.acquire().await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!((limit.active(), limit.waiting()), (1, 1));
        assert_eq!(limit.acquire().await.map(drop), Err(Busy::QueueFull));
        drop(first);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!((limit.active(), limit.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_an_end() {
        let limit = FetchLimit::new(1, 1, QUEUE_TIMEOUT);
        let _held = limit.acquire().await.unwrap();
        let before = tokio::time::Instant::now();
        assert_eq!(limit.acquire().await.map(drop), Err(Busy::QueueTimeout));
        assert!(before.elapsed() >= QUEUE_TIMEOUT);
        assert_eq!(limit.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_leaves_the_queue() {
        let limit = Arc::new(FetchLimit::new(1, 1, QUEUE_TIMEOUT));
        let _held = limit.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let limit = Arc::clone(&limit);
            async move { limit.acquire().await.map(drop) }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(limit.waiting(), 0);
    }
}
