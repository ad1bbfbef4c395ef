//! The front thread: accepts connections, reads whole requests, and queues them for the workers. So
//! neither a slow client nor an idle connection occupies a worker.

use super::connection::{Connection, Delivery, Incoming, Progress};
use super::queue::Queue;
use super::{Job, Link};
use crate::answer::Answer;
use crate::limits;
use message::Version;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) const LISTENER: Token = Token(0);
pub(super) const WAKER: Token = Token(1);
const FIRST_CONNECTION: usize = 2;

/// Interval between two searches for connections that are too late.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Delivery of the front's own responses. The front must never wait for a client.
const LAST_WORD: Delivery =
    Delivery { version: Version::Http11, persistent: false, head_only: false, patience: Duration::ZERO };

/// The state of the front thread.
pub(super) struct Front {
    poll: Poll,
    listener: TcpListener,
    link: Arc<Link>,
    pages: Arc<Queue<Job>>,
    aside: Arc<Queue<Job>>,
    connections: HashMap<Token, Connection>,
    next: usize,
    /// Whether the listener may have further connections to accept.
    acceptable: bool,
}

impl Front {
    pub(super) fn new(
        poll: Poll,
        mut listener: TcpListener,
        link: Arc<Link>,
        pages: Arc<Queue<Job>>,
        aside: Arc<Queue<Job>>,
    ) -> io::Result<Self> {
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let connections = HashMap::new();
        Ok(Self { poll, listener, link, pages, aside, connections, next: FIRST_CONNECTION, acceptable: true })
    }

    /// Runs until the server stops, then closes the queues.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut swept = self.link.clock().monotonic();
        while !self.link.stopping.load(Ordering::SeqCst) {
            match self.poll.poll(&mut events, Some(SWEEP_INTERVAL)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => break,
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.acceptable = true,
                    WAKER => {}
                    token => self.advance(token),
                }
            }
            self.take_returned();
            self.accept();
            let now = self.link.clock().monotonic();
            if now.since(swept) >= SWEEP_INTERVAL {
                swept = now;
                self.sweep();
            }
        }
        self.pages.close();
        self.aside.close();
    }

    fn accept(&mut self) {
        while self.acceptable && self.link.open.load(Ordering::SeqCst) < limits::CONNECTIONS_MAX {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    self.link.open.fetch_add(1, Ordering::SeqCst);
                    self.link.shared.counters.connections.add(1);
                    // Otherwise the last segment of a response may wait for an acknowledgement
                    // (Nagle's algorithm). The connection works even if this fails.
                    let _ = stream.set_nodelay(true);
                    let deadline = self.link.clock().monotonic().plus(limits::RECEIVE_TIMEOUT);
                    self.receive(Connection::new(stream, peer, deadline));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No connection is waiting, or no descriptor is free. The next event or sweep tries
                // again.
                Err(_) => self.acceptable = false,
            }
        }
    }

    /// Takes back the open connections from the workers.
    fn take_returned(&mut self) {
        for mut connection in self.link.take_returned() {
            connection.deadline = self.link.clock().monotonic().plus(limits::RECEIVE_TIMEOUT);
            self.receive(connection);
        }
    }

    /// Reads from an unwatched connection: it is new, or its last response was just sent.
    fn receive(&mut self, mut connection: Connection) {
        match connection.advance() {
            Progress::Complete(incoming) => self.dispatch(connection, *incoming),
            Progress::Waiting => self.watch(connection),
            Progress::Closed => self.link.closed(connection),
            Progress::Refused(code) => self.refuse(connection, code),
        }
    }

    fn watch(&mut self, mut connection: Connection) {
        let token = Token(self.next);
        self.next = self.next.checked_add(1).unwrap_or(FIRST_CONNECTION);
        match self.poll.registry().register(&mut connection.stream, token, Interest::READABLE) {
            Ok(()) => {
                self.connections.insert(token, connection);
            }
            Err(_) => self.link.closed(connection),
        }
    }

    /// Reads from a watched connection that has input.
    fn advance(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let progress = connection.advance();
        if matches!(progress, Progress::Waiting) {
            return;
        }
        let Some(mut connection) = self.connections.remove(&token) else { return };
        // Fails only if the descriptor is no longer registered, which is the goal.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        match progress {
            Progress::Complete(incoming) => self.dispatch(connection, *incoming),
            Progress::Refused(code) => self.refuse(connection, code),
            Progress::Closed | Progress::Waiting => self.link.closed(connection),
        }
    }

    /// Queues a request. Pages go to the workers. Assets and the operator's pages go to a separate
    /// thread, which answers even if all workers are busy.
    fn dispatch(&self, connection: Connection, incoming: Incoming) {
        let path = incoming.visit.path();
        let queue =
            if path.starts_with(b"/assets/") || path.starts_with(b"/_") { &self.aside } else { &self.pages };
        if let Err(job) = queue.push(Job { connection, incoming }) {
            self.link.shared.counters.queue_full.add(1);
            let mut answer = Answer::plain(503, "All workers are busy.\n");
            answer.fields.push("Retry-After", "1");
            self.link.finish(job.connection, &answer, LAST_WORD);
        }
    }

    /// Answers a malformed or late request with `code`, and lingers until the client has stopped
    /// sending.
    fn refuse(&mut self, mut connection: Connection, code: u16) {
        self.link.shared.counters.bad_requests.add(1);
        self.link.send(&mut connection, &Answer::plain(code, "This request cannot be read.\n"), LAST_WORD);
        connection.linger(self.link.clock().monotonic().plus(limits::LINGER_TIMEOUT));
        self.receive(connection);
    }

    /// Ends the connections whose deadline has passed.
    fn sweep(&mut self) {
        self.acceptable = true;
        let now = self.link.clock().monotonic();
        let late: Vec<Token> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.deadline <= now)
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            let Some(mut connection) = self.connections.remove(&token) else { continue };
            // Fails only if the descriptor is no longer registered, which is the goal.
            let _ = self.poll.registry().deregister(&mut connection.stream);
            if connection.is_idle() {
                self.link.closed(connection);
            } else {
                self.refuse(connection, 408);
            }
        }
    }
}
