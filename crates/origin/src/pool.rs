//! Connections to one application that wait for their next request, shared by all workers.
//!
//! Invariant: what is in the pool has answered its last request completely; what is taken out was quiet a
//! moment ago and not idle for longer than allowed. The newest is used first, so that surplus ones age.

use net::IdleStream;
use platform::Monotonic;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The idle connections of one origin.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Entry>>,
    connections_max: usize,
    idle_timeout: Duration,
}

#[derive(Debug)]
struct Entry {
    stream: IdleStream,
    since: Monotonic,
}

impl Pool {
    /// An empty pool for at most `connections_max` connections, each idle for at most `idle_timeout`.
    pub(crate) fn new(connections_max: usize, idle_timeout: Duration) -> Self {
        Self { idle: Mutex::new(Vec::new()), connections_max, idle_timeout }
    }

    /// A connection that can be expected to work, if there is one.
    pub(crate) fn take(&self, now: Monotonic) -> Option<IdleStream> {
        loop {
            let entry = self.lock().pop()?;
            if now.since(entry.since) <= self.idle_timeout && entry.stream.is_quiet() {
                return Some(entry.stream);
            }
        }
    }

    /// Keeps a connection for later, or closes it when there are enough.
    pub(crate) fn put(&self, stream: IdleStream, now: Monotonic) {
        let mut idle = self.lock();
        if idle.len() < self.connections_max {
            idle.push(Entry { stream, since: now });
        }
    }

    /// Closes what has been idle for too long. Entries are in the order of their age.
    pub(crate) fn sweep(&self, now: Monotonic) {
        let mut idle = self.lock();
        let expired = idle.partition_point(|entry| now.since(entry.since) > self.idle_timeout);
        idle.drain(..expired);
    }

    /// Connections that wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The list is consistent after every operation, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;
    use net::{IdleStream, Stream};
    use platform::Monotonic;
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
        let pool = Pool::new(8, Duration::from_secs(4));
        let ((old, _old_peer), (closed, closed_peer)) = (pair(), pair());
        pool.put(old, at(0));
        pool.put(closed, at(3));
        drop(closed_peer);
        assert!(pool.take(at(5)).is_none());
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn the_pool_has_a_limit_and_sweeping_removes_the_oldest() {
        let pool = Pool::new(2, Duration::from_secs(4));
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
