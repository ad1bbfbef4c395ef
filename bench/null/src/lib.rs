//! A bare responder: one thread, one poll, one prebuilt response. Load generators are measured
//! against it, because their own speed is the limit there. With a delay, it is the reference for
//! reported latencies, or simulates a slow application.
//!
//! Invariant: a response leaves no sooner than its delay after its request was read. Every request
//! is counted when it is read. Requests must have no content and arrive in one piece, unless there
//! is a limit for the time of their heads. A connection is kept unless the request says `close`, or
//! is HTTP/1.0 without `keep-alive`. Nothing else is parsed.

mod client;

pub use client::{RunFigures, RunParameters};

use clock::{Clock as _, Monotonic};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use platform::SystemClock;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Token of the listener. Connections count from 0.
const LISTENER: Token = Token(usize::MAX);

/// Below this time until the next response is due, the responder polls without sleeping, so that
/// the response leaves on time.
const SPIN: Duration = Duration::from_millis(2);

/// A responder that listens but serves no connection yet.
pub struct Responder {
    poll: Poll,
    listener: TcpListener,
    address: SocketAddr,
    connections: HashMap<usize, ResponderConnection>,
    next_token: usize,
    kept: Vec<u8>,
    last: Vec<u8>,
    delays: Vec<Duration>,
    /// Longest time from the first byte of a head to its end. `None`: each read is a head.
    head_timeout: Option<Duration>,
    requests: Arc<AtomicUsize>,
    /// Connections whose response is delayed or whose head must end, ordered by due time.
    due: BTreeMap<(Monotonic, usize), ()>,
    clock: SystemClock,
}

struct ResponderConnection {
    stream: TcpStream,
    /// Bytes of the response that are not written yet.
    rest: Vec<u8>,
    closes: bool,
    /// When the connection is closed unless the head that has begun ends.
    head_due: Option<Monotonic>,
}

impl Responder {
    /// Listens on a free loopback port. Every request receives a 200 response with `content` and
    /// the field lines `fields`, each of which ends with CR LF. Responses use the `delays` in turn;
    /// an empty list means no delay.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn bind(fields: &str, content: &[u8], delays: Vec<Duration>) -> io::Result<Self> {
        let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            address: listener.local_addr()?,
            listener,
            connections: HashMap::new(),
            next_token: 0,
            kept: answer(fields, content, "keep-alive"),
            last: answer(fields, content, "close"),
            delays,
            head_timeout: None,
            requests: Arc::default(),
            due: BTreeMap::new(),
            clock: SystemClock::new(),
        })
    }

    /// The same responder, which closes connections whose heads take longer than `limit` from their
    /// first byte to their end. Heads may then arrive in pieces.
    #[must_use]
    pub fn with_head_timeout(self, limit: Duration) -> Self {
        Self { head_timeout: Some(limit), ..self }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counter of the requests read so far. It can be read while the responder serves in another
    /// thread.
    pub fn requests(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.requests)
    }

    /// Serves connections until the process ends.
    ///
    /// # Errors
    /// If polling or accepting fails.
    pub fn serve(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let wait = self.due.keys().next().map(|(moment, _)| moment.since(self.clock.monotonic()));
            let wait = wait.map(|wait| if wait <= SPIN { Duration::ZERO } else { wait - SPIN });
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(token) => self.work(token, &mut buffer),
                }
            }
            let now = self.clock.monotonic();
            while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
                let (due, token) = *first.key();
                first.remove();
                let is_late = |connection: &ResponderConnection| connection.head_due == Some(due);
                if self.connections.get(&token).is_some_and(is_late) {
                    self.connections.remove(&token);
                } else {
                    self.write(token);
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((mut stream, _)) => {
                    let token = self.next_token;
                    self.next_token += 1;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    self.poll.registry().register(&mut stream, Token(token), both)?;
                    let connection =
                        ResponderConnection { stream, rest: Vec::new(), closes: false, head_due: None };
                    self.connections.insert(token, connection);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a request and answers it at once or after its delay. Continues with a response that is
    /// partly written.
    fn work(&mut self, token: usize, buffer: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !connection.rest.is_empty() {
            return self.write(token);
        }
        let request = match connection.stream.read(buffer) {
            Ok(bytes) if bytes > 0 => buffer.get(..bytes).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {
                self.connections.remove(&token);
                return;
            }
        };
        let says = |word: &[u8]| request.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
        if let Some(limit) = self.head_timeout {
            connection.closes |= says(b"connection: close");
            if !request.ends_with(b"\r\n\r\n") {
                let now = self.clock.monotonic();
                let due = *connection.head_due.get_or_insert_with(|| now.plus(limit));
                self.due.insert((due, token), ());
                return;
            }
            connection.head_due = None;
        }
        let http10 = says(b"HTTP/1.0\r\n");
        connection.closes |= if http10 { !says(b"keep-alive") } else { says(b"connection: close") };
        connection.rest.clone_from(if connection.closes { &self.last } else { &self.kept });
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        match self.delays.get(requests % self.delays.len().max(1)) {
            None => self.write(token),
            Some(&delay) => {
                self.due.insert((self.clock.monotonic().plus(delay), token), ());
            }
        }
    }

    fn write(&mut self, token: usize) {
        // A head that has ended leaves its time behind.
        let has_output = |connection: &&mut ResponderConnection| !connection.rest.is_empty();
        let Some(connection) = self.connections.get_mut(&token).filter(has_output) else { return };
        while !connection.rest.is_empty() {
            match connection.stream.write(&connection.rest) {
                Ok(bytes) => drop(connection.rest.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.connections.remove(&token);
                    return;
                }
            }
        }
        if connection.closes {
            self.connections.remove(&token);
        }
    }
}

/// Builds the whole response.
fn answer(fields: &str, content: &[u8], connection: &str) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\n{fields}Connection: {connection}\r\nContent-Length: {}\r\n\r\n",
        content.len()
    )
    .into_bytes();
    answer.extend_from_slice(content);
    answer
}
