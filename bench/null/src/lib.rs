//! A bare responder: one thread, one poll, one prebuilt answer. Load generators are measured against it,
//! because whatever they cannot reach here is their own doing; with a delay it is the truth that reported
//! latencies are held against, or an application that takes its time.
//!
//! Invariant: an answer leaves no sooner than its delay after its request was read, and every request is counted
//! when it was read. Requests must have no content and arrive in one piece; connections are kept unless the request
//! says `close` or is HTTP/1.0 without `keep-alive`. It parses nothing else.

mod client;

pub use client::{Asked, Asking};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use platform::{Clock as _, Monotonic, SystemClock};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The token of the listener; connections count from 0.
const LISTENER: Token = Token(usize::MAX);

/// An answer that is due sooner than this is waited for without sleeping, so that it leaves on time.
const SPIN: Duration = Duration::from_millis(2);

/// A responder that listens and serves nobody yet.
pub struct Responder {
    poll: Poll,
    listener: TcpListener,
    address: SocketAddr,
    connections: HashMap<usize, Connection>,
    next_token: usize,
    kept: Vec<u8>,
    last: Vec<u8>,
    delays: Vec<Duration>,
    requests: Arc<AtomicUsize>,
    /// Answers that wait for their time, by that time and their connection.
    due: BTreeMap<(Monotonic, usize), ()>,
    clock: SystemClock,
}

struct Connection {
    stream: TcpStream,
    /// What is left to write of the answer.
    rest: Vec<u8>,
    closes: bool,
}

impl Responder {
    /// Listens on a free loopback port. Every request gets 200 with these field lines, each ended by CR LF, and this
    /// content, after the delays in turn; at once if there are none.
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
            requests: Arc::default(),
            due: BTreeMap::new(),
            clock: SystemClock::new(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests read so far, also while it serves in another thread.
    pub fn requests(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.requests)
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If the system takes away what serving needs.
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
                let (_, token) = *first.key();
                first.remove();
                self.write(token);
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
                    self.connections.insert(token, Connection { stream, rest: Vec::new(), closes: false });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a request, if there is one, and answers it now or later; goes on with an answer that is half out.
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
        let http10 = says(b"HTTP/1.0\r\n");
        connection.closes = if http10 { !says(b"keep-alive") } else { says(b"connection: close") };
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
        let Some(connection) = self.connections.get_mut(&token) else { return };
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

/// The whole answer.
fn answer(fields: &str, content: &[u8], connection: &str) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\n{fields}Connection: {connection}\r\nContent-Length: {}\r\n\r\n",
        content.len()
    )
    .into_bytes();
    answer.extend_from_slice(content);
    answer
}
