//! A bare responder: one thread, one poll, one prebuilt answer. Load generators are measured against it,
//! because whatever they cannot reach here is their own doing; with a delay it is the truth that reported
//! latencies are held against.
//!
//! Usage: `petasos-null [BYTES [DELAY_US [DELAY_US]]]`. Answers every request with 200 and BYTES of content (12
//! by default) after DELAY_US microseconds (none by default); with two delays every other answer takes the
//! second one. Prints the address it listens on. Requests must have no content and arrive in one piece;
//! connections are kept unless the request says `close` or is HTTP/1.0 without `keep-alive`.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use platform::{Clock as _, Monotonic, SystemClock};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

/// The token of the listener; connections count from 0.
const LISTENER: Token = Token(usize::MAX);

/// An answer that is due sooner than this is waited for without sleeping, so that it leaves on time.
const SPIN: Duration = Duration::from_millis(2);

fn main() -> io::Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|text| text.parse().ok()).collect();
    let bytes = numbers.first().copied().unwrap_or(12) as usize;
    let delays =
        numbers.get(1..).unwrap_or_default().iter().map(|&delay| Duration::from_micros(delay)).collect();
    let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    println!("{}", listener.local_addr()?);
    let poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    Responder {
        poll,
        listener,
        connections: HashMap::new(),
        next_token: 0,
        kept: answer(bytes, "keep-alive"),
        last: answer(bytes, "close"),
        delays,
        requests: 0,
        due: BTreeMap::new(),
        clock: SystemClock::new(),
    }
    .serve()
}

/// The whole answer.
fn answer(bytes: usize, connection: &str) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: {bytes}\r\n\r\n")
            .into_bytes();
    answer.resize(answer.len() + bytes, b'x');
    answer
}

struct Connection {
    stream: TcpStream,
    /// What is left to write of the answer.
    rest: Vec<u8>,
    closes: bool,
}

struct Responder {
    poll: Poll,
    listener: TcpListener,
    connections: HashMap<usize, Connection>,
    next_token: usize,
    kept: Vec<u8>,
    last: Vec<u8>,
    delays: Vec<Duration>,
    requests: usize,
    /// Answers that wait for their time, by that time and their connection.
    due: BTreeMap<(Monotonic, usize), ()>,
    clock: SystemClock,
}

impl Responder {
    fn serve(mut self) -> io::Result<()> {
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
        self.requests += 1;
        match self.delays.get(self.requests % self.delays.len().max(1)) {
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
