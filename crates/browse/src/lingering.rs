//! Connections of visitors who have their page and stay: open and idle, as browsers leave them, until the visitor goes
//! or the server closes them.
//!
//! Invariant: they hold up neither the next visitor nor the end of the run. A run has at most [`LINGERING_MAX`] of
//! them; beyond that the oldest one is closed early and counted.

use crate::connection::Connection;
use crate::http2::Http2;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The most connections of a run that stay open after their page: less than the 28,232 local ports that Linux has by
/// default for connections to one address.
pub const LINGERING_MAX: usize = 20_000;

/// A connection that nothing is asked for any more.
pub(crate) enum Idle {
    Http1(Connection),
    Http2(Http2),
}

/// The idle connections of one thread.
pub(crate) struct Lingering {
    time: Duration,
    connections_max: usize,
    /// The oldest first; all linger equally long, so that is the order in which their time is up.
    open: RefCell<VecDeque<JoinHandle<()>>>,
}

impl Lingering {
    /// Keeps at most `connections_max` connections open for a time.
    pub(crate) fn new(time: Duration, connections_max: usize) -> Self {
        Self { time, connections_max: connections_max.max(1), open: RefCell::default() }
    }

    /// Whether connections stay open at all.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.time.is_zero()
    }

    /// Leaves a connection open for a while; gives how many others were closed early for it.
    pub(crate) fn keep(&self, connection: Idle) -> u64 {
        let mut open = self.open.borrow_mut();
        while open.front().is_some_and(JoinHandle::is_finished) {
            open.pop_front();
        }
        let mut closed_early = 0;
        while open.len() >= self.connections_max {
            if let Some(oldest) = open.pop_front().filter(|oldest| !oldest.is_finished()) {
                oldest.abort();
                closed_early += 1;
            }
        }
        let time = self.time;
        open.push_back(tokio::task::spawn_local(async move {
            match connection {
                // Either its time is up, or the server has ended it.
                Idle::Http1(connection) => drop(tokio::time::timeout(time, connection.ended()).await),
                Idle::Http2(connection) => drop(tokio::time::timeout(time, connection.ended()).await),
            }
        }));
        closed_early
    }
}

#[cfg(test)]
mod tests {
    use super::{Http2, Idle, Lingering};
    use crate::connection::Connection;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
    use tokio::task::LocalSet;

    /// A connection, and the server's end of it.
    fn connection() -> (Idle, DuplexStream) {
        let (ours, theirs) = duplex(64);
        (Idle::Http1(Connection::new(Box::new(ours))), theirs)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn oldest_connection_closes_when_there_are_too_many() {
        run(async {
            let lingering = Lingering::new(Duration::from_secs(3600), 2);
            let (mut closed, mut ends) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let (ours, theirs) = connection();
                closed.push(lingering.keep(ours));
                ends.push(theirs);
            }
            assert_eq!(closed, [0, 0, 1]);
            assert_eq!(ends[0].read(&mut [0]).await.unwrap(), 0, "the oldest one is closed");
            tokio::task::yield_now().await;
            assert_eq!(lingering.open.borrow().len(), 2);
        });
    }

    #[test]
    fn connection_that_the_server_closes_makes_room() {
        run(async {
            let lingering = Lingering::new(Duration::from_secs(3600), 1);
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
    fn connection_closes_when_its_time_is_up() {
        run(async {
            let lingering = Lingering::new(Duration::from_millis(1), 1);
            let (ours, mut theirs) = connection();
            lingering.keep(ours);
            assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
        });
    }
    /// A connection of HTTP/2, and the server's end of it.
    async fn http2() -> (Idle, h2::server::Connection<DuplexStream, bytes::Bytes>) {
        let (ours, theirs) = duplex(4096);
        let (ours, theirs) = tokio::join!(Http2::open(Box::new(ours)), h2::server::handshake(theirs));
        (Idle::Http2(ours.unwrap()), theirs.unwrap())
    }

    #[test]
    fn http2_connection_lingers_like_any_other() {
        run(async {
            let lingering = Lingering::new(Duration::from_secs(3600), 1);
            let (ours, theirs) = http2().await;
            assert_eq!(lingering.keep(ours), 0);
            drop(theirs);
            while !lingering.open.borrow()[0].is_finished() {
                tokio::task::yield_now().await;
            }
            let (ours, mut theirs) = http2().await;
            assert_eq!(Lingering::new(Duration::from_millis(1), 1).keep(ours), 0);
            assert!(theirs.accept().await.is_none_or(|stream| stream.is_err()), "a request came");
        });
    }
}
