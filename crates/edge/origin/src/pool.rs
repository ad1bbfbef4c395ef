//! The idle connections to one origin, shared by all workers.
//!
//! Invariant: each connection in the pool has carried its last response completely. A connection
//! that is taken out was not idle for too long, and neither closed nor readable a moment ago. The
//! newest connection is used first, so that surplus ones grow old and are closed.

use clock::Monotonic;
use net::IdleStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The idle connections of one origin.
#[derive(Debug)]
pub(crate) struct IdlePool {
    idle: Mutex<Vec<IdleConnection>>,
    connections_max: usize,
    idle_timeout: Duration,
}

#[derive(Debug)]
struct IdleConnection {
    stream: IdleStream,
    since: Monotonic,
}

impl IdlePool {
    /// Creates an empty pool for at most `connections_max` connections, each idle for at most
    /// `idle_timeout`.
    pub(crate) fn new(connections_max: usize, idle_timeout: Duration) -> Self {
        Self { idle: Mutex::new(Vec::new()), connections_max, idle_timeout }
    }

    /// Takes a connection that is likely to work, if there is one. Others are closed on the way.
    pub(crate) fn take(&self, now: Monotonic) -> Option<IdleStream> {
        loop {
            let entry = self.lock().pop()?;
            if now.since(entry.since) <= self.idle_timeout && entry.stream.is_quiet() {
                return Some(entry.stream);
            }
        }
    }

    /// Adds a connection, or closes it if the pool is full.
    pub(crate) fn put(&self, stream: IdleStream, now: Monotonic) {
        let mut idle = self.lock();
        if idle.len() < self.connections_max {
            idle.push(IdleConnection { stream, since: now });
        }
    }

    /// Closes connections that were idle for too long.
    pub(crate) fn sweep(&self, now: Monotonic) {
        let mut idle = self.lock();
        // The entries are in order of age, the oldest first.
        let expired = idle.partition_point(|entry| now.since(entry.since) > self.idle_timeout);
        idle.drain(..expired);
    }

    /// Number of idle connections.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The list is consistent after every operation, so a panic elsewhere does no harm.
    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::IdlePool;
    use clock::Monotonic;
    use net::{IdleStream, Stream};
    use std::time::Duration;
    use tokio::net::UnixStream;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    fn pair() -> (IdleStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Stream::Unix(ours).into_idle().unwrap(), theirs)
    }

    #[tokio::test]
    async fn old_and_closed_connections_are_not_handed_out() {
        let pool = IdlePool::new(8, Duration::from_secs(4));
        let ((old, _old_peer), (closed, closed_peer)) = (pair(), pair());
        pool.put(old, at(0));
        pool.put(closed, at(3));
        drop(closed_peer);
        assert!(pool.take(at(5)).is_none());
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn full_pool_takes_no_more_and_sweep_removes_the_oldest() {
        let pool = IdlePool::new(2, Duration::from_secs(4));
        let peers: Vec<_> = (0..3)
            .map(|second| {
                let (ours, theirs) = pair();
                pool.put(ours, at(second));
                theirs
            })
            .collect();
        assert_eq!(pool.len(), 2);
        pool.sweep(at(5));
        assert_eq!(pool.len(), 1);
        assert!(pool.take(at(5)).is_some());
        drop(peers);
    }
}
