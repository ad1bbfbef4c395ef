//! The idle connections to one origin, shared by all workers.
//!
//! Invariant: each connection in the pool has carried its last response completely. A connection
//! taken from the pool was not idle for too long, and neither closed nor readable a moment ago. The
//! newest connection is used first, so that surplus ones grow old and are closed. A connection that
//! began with a PROXY header carries only requests for the address in it.

use clock::Monotonic;
use net::IdleStream;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The idle connections of one origin.
#[derive(Debug)]
pub(crate) struct IdlePool {
    idle: Mutex<Vec<IdleConnection>>,
    connections_max: AtomicUsize,
    idle_timeout: Duration,
    /// The age beyond which no connection is used again. `None`: there is none.
    age_max: Option<Duration>,
}

#[derive(Debug)]
struct IdleConnection {
    stream: IdleStream,
    since: Monotonic,
    /// When it was made.
    made: Monotonic,
    /// The address in the connection's PROXY header; `None` without one.
    named: Option<IpAddr>,
}

impl IdlePool {
    /// Creates an empty pool for at most `connections_max` connections, each idle for at most
    /// `idle_timeout`, and used again until `age_max` after it was made.
    pub(crate) fn new(connections_max: usize, idle_timeout: Duration, age_max: Option<Duration>) -> Self {
        Self {
            idle: Mutex::new(Vec::new()),
            connections_max: AtomicUsize::new(connections_max),
            idle_timeout,
            age_max,
        }
    }

    /// Takes a connection that names this address and is likely to work, if there is one, and when
    /// it was made. Others that name it are closed on the way.
    pub(crate) fn take(&self, named: Option<IpAddr>, now: Monotonic) -> Option<(IdleStream, Monotonic)> {
        loop {
            let mut entry = {
                let mut idle = self.lock();
                let newest = idle.iter().rposition(|entry| entry.named == named)?;
                idle.remove(newest)
            };
            let was_just_idle = now.since(entry.since) <= self.idle_timeout;
            if was_just_idle && self.is_young(entry.made, now) && entry.stream.is_quiet() {
                return Some((entry.stream, entry.made));
            }
        }
    }

    /// Whether a connection that was made at `made` may be used again.
    fn is_young(&self, made: Monotonic, now: Monotonic) -> bool {
        self.age_max.is_none_or(|age_max| now.since(made) <= age_max)
    }

    /// Adds a connection that was made at `made`, or closes it if it is too old or the pool is
    /// full.
    pub(crate) fn put(&self, (stream, made): (IdleStream, Monotonic), named: Option<IpAddr>, now: Monotonic) {
        let mut idle = self.lock();
        // Relaxed is enough: the lock orders it with the list.
        if self.is_young(made, now) && idle.len() < self.connections_max.load(Ordering::Relaxed) {
            idle.push(IdleConnection { stream, since: now, made, named });
        }
    }

    /// Closes all connections, and takes no more.
    pub(crate) fn retire(&self) {
        let mut idle = self.lock();
        self.connections_max.store(0, Ordering::Relaxed);
        idle.clear();
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
        let pool = IdlePool::new(8, Duration::from_secs(4), None);
        let ((old, _old_peer), (closed, closed_peer)) = (pair(), pair());
        pool.put((old, at(0)), None, at(0));
        pool.put((closed, at(0)), None, at(3));
        drop(closed_peer);
        assert!(pool.take(None, at(5)).is_none());
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn connection_beyond_its_age_is_neither_kept_nor_handed_out() {
        let pool = IdlePool::new(8, Duration::from_secs(60), Some(Duration::from_secs(30)));
        let ((kept, _kept_peer), (late, _late_peer)) = (pair(), pair());
        pool.put((kept, at(0)), None, at(29));
        pool.put((late, at(0)), None, at(31));
        assert_eq!(pool.len(), 1);
        assert!(pool.take(None, at(31)).is_none());
    }

    #[tokio::test]
    async fn full_pool_takes_no_more_and_sweep_removes_the_oldest() {
        let pool = IdlePool::new(2, Duration::from_secs(4), None);
        let peers: Vec<_> = (0..3)
            .map(|second| {
                let (ours, theirs) = pair();
                pool.put((ours, at(0)), None, at(second));
                theirs
            })
            .collect();
        assert_eq!(pool.len(), 2);
        pool.sweep(at(5));
        assert_eq!(pool.len(), 1);
        assert!(pool.take(None, at(5)).is_some());
        drop(peers);
    }

    #[tokio::test]
    async fn connection_carries_only_requests_for_its_address() {
        let pool = IdlePool::new(8, Duration::from_secs(4), None);
        let named = |text: &str| Some(text.parse().unwrap());
        let ((one, _one_peer), (other, _other_peer)) = (pair(), pair());
        pool.put((one, at(0)), named("192.0.2.1"), at(0));
        pool.put((other, at(0)), named("192.0.2.2"), at(0));
        assert!(pool.take(None, at(1)).is_none() && pool.take(named("192.0.2.3"), at(1)).is_none());
        assert!(pool.take(named("192.0.2.1"), at(1)).is_some());
        assert!(pool.take(named("192.0.2.1"), at(1)).is_none());
        assert_eq!(pool.len(), 1);
    }
}
