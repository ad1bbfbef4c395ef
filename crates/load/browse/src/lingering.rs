//! Connections that stay open and idle after their page load, as in browsers, until their time is
//! up or the server closes them.
//!
//! Invariant: lingering connections delay neither the next visitor nor the end of the run. A run
//! has at most [`LINGERING_MAX`] of them. Beyond that, or when descriptors run out, the oldest one
//! is closed early and counted.

use crate::connection::Http1Connection;
use crate::http2::Http2Connection;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The most lingering connections of a run: less than Linux's default of 28,232 local ports for
/// connections to one address.
pub const LINGERING_MAX: usize = 20_000;

/// An idle connection.
pub(crate) enum Idle {
    Http1(Http1Connection),
    Http2(Http2Connection),
}

/// The idle connections of one thread.
pub(crate) struct LingeringConnections {
    time: Duration,
    connections_max: usize,
    /// Oldest first. All connections linger equally long, so they also expire in this order. Ended
    /// ones stay in the queue until it has twice its maximum length. Removing them all at once then
    /// costs a constant time per connection.
    open: RefCell<VecDeque<JoinHandle<()>>>,
    /// Connections in the queue that have not ended.
    living: Rc<Cell<usize>>,
}

impl LingeringConnections {
    /// Keeps at most `connections_max` connections open, each for `time`.
    pub(crate) fn new(time: Duration, connections_max: usize) -> Self {
        Self {
            time,
            connections_max: connections_max.max(1),
            open: RefCell::default(),
            living: Rc::default(),
        }
    }

    /// Whether connections linger at all.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.time.is_zero()
    }

    /// Keeps a connection open for the linger time. Returns how many others were closed early to
    /// make room.
    pub(crate) fn keep(&self, connection: Idle) -> u64 {
        let mut closed_early = 0;
        while self.living.get() >= self.connections_max && self.abort_oldest().is_some() {
            closed_early += 1;
        }
        let mut open = self.open.borrow_mut();
        if open.len() >= 2 * self.connections_max {
            open.retain(|one| !one.is_finished());
        }
        let (time, living) = (self.time, Rc::clone(&self.living));
        living.set(living.get() + 1);
        open.push_back(tokio::task::spawn_local(async move {
            match connection {
                // Either its time is up, or the server has ended it.
                Idle::Http1(connection) => drop(tokio::time::timeout(time, connection.ended()).await),
                Idle::Http2(connection) => drop(tokio::time::timeout(time, connection.ended()).await),
            }
            // An aborted task does not reach this line; `abort_oldest` updates the count instead.
            living.set(living.get() - 1);
        }));
        closed_early
    }

    /// Closes the oldest connection and waits until it is closed. Returns whether there was one.
    pub(crate) async fn close_oldest(&self) -> bool {
        let Some(oldest) = self.abort_oldest() else { return false };
        // The result is ignored: the task was aborted, so it is a cancellation.
        let _ = oldest.await;
        true
    }

    /// Aborts the task of the oldest open connection.
    fn abort_oldest(&self) -> Option<JoinHandle<()>> {
        let mut open = self.open.borrow_mut();
        while let Some(oldest) = open.pop_front() {
            if !oldest.is_finished() {
                oldest.abort();
                self.living.set(self.living.get() - 1);
                return Some(oldest);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Http2Connection, Idle, LingeringConnections};
    use crate::connection::Http1Connection;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
    use tokio::task::LocalSet;

    /// A connection, and the server's end of it.
    fn connection() -> (Idle, DuplexStream) {
        let (ours, theirs) = duplex(64);
        (Idle::Http1(Http1Connection::new(Box::new(ours))), theirs)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn oldest_connection_closes_when_there_are_too_many() {
        run(async {
            let lingering = LingeringConnections::new(Duration::from_secs(3600), 2);
            let (mut closed, mut ends) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let (ours, theirs) = connection();
                closed.push(lingering.keep(ours));
                ends.push(theirs);
            }
            assert_eq!(closed, [0, 0, 1]);
            assert_eq!(ends[0].read(&mut [0]).await.unwrap(), 0, "the oldest connection is still open");
            tokio::task::yield_now().await;
            assert_eq!(lingering.open.borrow().len(), 2);
        });
    }

    #[test]
    fn connection_that_the_server_closes_makes_room() {
        run(async {
            let lingering = LingeringConnections::new(Duration::from_secs(3600), 1);
            let (ours, theirs) = connection();
            assert_eq!(lingering.keep(ours), 0);
            drop(theirs);
            while !lingering.open.borrow()[0].is_finished() {
                tokio::task::yield_now().await;
            }
            assert_eq!(lingering.keep(connection().0), 0);
        });
    }

    #[test]
    fn closed_connections_behind_an_open_one_do_not_count() {
        run(async {
            let lingering = LingeringConnections::new(Duration::from_secs(3600), 2);
            let (first, mut end) = connection();
            assert_eq!(lingering.keep(first), 0);
            for _ in 0..10 {
                let (ours, theirs) = connection();
                assert_eq!(lingering.keep(ours), 0, "an open connection was closed early");
                drop(theirs);
                while !lingering.open.borrow().back().unwrap().is_finished() {
                    tokio::task::yield_now().await;
                }
            }
            assert!(lingering.open.borrow().len() <= 4, "ended connections are kept");
            let read = tokio::time::timeout(Duration::ZERO, end.read(&mut [0])).await;
            assert!(read.is_err(), "the open connection was closed");
        });
    }

    #[test]
    fn oldest_connection_closes_on_demand() {
        run(async {
            let lingering = LingeringConnections::new(Duration::from_secs(3600), 9);
            let (mut first, mut second) = (connection(), connection());
            lingering.keep(first.0);
            lingering.keep(second.0);
            assert!(lingering.close_oldest().await);
            assert_eq!(first.1.read(&mut [0]).await.unwrap(), 0, "the oldest connection is still open");
            let read = tokio::time::timeout(Duration::ZERO, second.1.read(&mut [0])).await;
            assert!(read.is_err(), "the other connection was closed");
            assert!(lingering.close_oldest().await && !lingering.close_oldest().await);
        });
    }

    #[test]
    fn connection_closes_when_its_time_is_up() {
        run(async {
            let lingering = LingeringConnections::new(Duration::from_millis(1), 1);
            let (ours, mut theirs) = connection();
            lingering.keep(ours);
            assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
        });
    }
    /// An HTTP/2 connection, and the server's end of it.
    async fn http2() -> (Idle, h2::server::Connection<DuplexStream, bytes::Bytes>) {
        let (ours, theirs) = duplex(4096);
        let (ours, theirs) =
            tokio::join!(Http2Connection::open(Box::new(ours)), h2::server::handshake(theirs));
        (Idle::Http2(ours.unwrap()), theirs.unwrap())
    }

    #[test]
    fn http2_connection_lingers_like_any_other() {
        run(async {
            let lingering = LingeringConnections::new(Duration::from_secs(3600), 1);
            let (ours, theirs) = http2().await;
            assert_eq!(lingering.keep(ours), 0);
            drop(theirs);
            while !lingering.open.borrow()[0].is_finished() {
                tokio::task::yield_now().await;
            }
            let (ours, mut theirs) = http2().await;
            assert_eq!(LingeringConnections::new(Duration::from_millis(1), 1).keep(ours), 0);
            assert!(theirs.accept().await.is_none_or(|stream| stream.is_err()), "a request came");
        });
    }
}
