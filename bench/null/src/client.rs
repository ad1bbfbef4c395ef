//! A bare client: one thread, one poll, one prebuilt request. What it reaches against a responder is the floor below
//! any load generator that reads what it gets; whatever one needs beyond it is its own doing.
//!
//! Invariant: every octet of every answer is read. It looks at nothing but how many there are: all answers must be as
//! long as the first, which also tells it where one ends. It times nothing, and any trouble ends it.

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use platform::{Clock as _, Monotonic, SystemClock};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{connect, connect_unspec, sockopt::set_tcp_quickack};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// Octets that one read may bring.
const READ_BYTES: usize = 64 * 1024;
/// How often the time is looked at while nothing comes.
const SLICE: Duration = Duration::from_millis(100);

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The server; its address is the `Host`.
    pub address: SocketAddr,
    /// The path with its query.
    pub path: String,
    /// Connections that are busy at a time.
    pub connections: usize,
    /// Whether a connection carries one request after the other, instead of one.
    pub keep_alive: bool,
}

/// What was got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Whole answers.
    pub answers: u64,
    /// Their octets, heads included.
    pub octets: u64,
}

struct Connection {
    stream: TcpStream,
    /// Octets of the current answer.
    octets: usize,
    closed: bool,
}

impl Asking {
    /// Asks for so much time.
    ///
    /// # Errors
    /// As the system reports them, and for answers that cannot be told apart by their length.
    pub fn ask(&self, time: Duration) -> io::Result<Asked> {
        let request = self.request();
        let answer_bytes = self.answer_bytes(&request)?;
        let clock = SystemClock::new();
        let mut poll = Poll::new()?;
        let mut connections = Vec::new();
        for index in 0..self.connections {
            let mut stream = TcpStream::connect(self.address)?;
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            send(&mut stream, &request)?;
            connections.push(Connection { stream, octets: 0, closed: false });
        }
        let end = clock.monotonic().plus(time);
        let mut round = Round {
            asking: self,
            request,
            answer_bytes,
            buffer: vec![0; READ_BYTES],
            asked: Asked::default(),
        };
        let mut events = Events::with_capacity(1024);
        while clock.monotonic() < end {
            match poll.poll(&mut events, Some(SLICE.min(remaining(&clock, end)))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if let Some(connection) = connections.get_mut(event.token().0) {
                    connection.closed |= event.is_read_closed();
                    round.work(connection)?;
                }
            }
        }
        Ok(round.asked)
    }

    fn request(&self) -> Vec<u8> {
        let connection = if self.keep_alive { "" } else { "Connection: close\r\n" };
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n{connection}\r\n", self.path, self.address).into_bytes()
    }

    /// The length of an answer, with its head.
    fn answer_bytes(&self, request: &[u8]) -> io::Result<usize> {
        let strange = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
        let mut stream = std::net::TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request)?;
        let (mut answer, mut octet) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut octet)?;
            answer.extend_from_slice(&octet);
        }
        let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        if !head.starts_with("http/1.1 200 ") {
            return Err(strange("the answer's status is not 200"));
        }
        let mut lines = head.lines().filter_map(|line| line.strip_prefix("content-length:"));
        let length = lines.next().and_then(|length| length.trim().parse::<usize>().ok());
        Ok(answer.len() + length.ok_or_else(|| strange("the answer has no Content-Length"))?)
    }
}

/// What all connections share.
struct Round<'a> {
    asking: &'a Asking,
    request: Vec<u8>,
    answer_bytes: usize,
    buffer: Vec<u8>,
    asked: Asked,
}

impl Round<'_> {
    /// Reads what is there, and asks again when the answer is whole.
    fn work(&mut self, connection: &mut Connection) -> io::Result<()> {
        while connection.octets < self.answer_bytes {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "an answer is cut off")),
                Ok(octets) => {
                    connection.octets += octets;
                    if octets < self.buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if connection.octets > self.answer_bytes {
            return Err(io::Error::new(ErrorKind::InvalidData, "an answer is longer than the first"));
        }
        let whole = connection.octets == self.answer_bytes;
        // Without keep-alive, the server closes first; the side that does has to keep the port.
        if !whole || !(self.asking.keep_alive || connection.closed) {
            return Ok(());
        }
        self.asked.answers += 1;
        self.asked.octets += connection.octets as u64;
        (connection.octets, connection.closed) = (0, false);
        if !self.asking.keep_alive {
            reconnect(&connection.stream, self.asking.address)?;
        }
        send(&mut connection.stream, &self.request)
    }
}

/// Makes the next connection with the same socket, which saves making it anew.
fn reconnect(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    connect_unspec(stream)?;
    // The request carries the acknowledgement that ends the handshake.
    set_tcp_quickack(stream, false)?;
    match connect(stream, &address) {
        Err(error) if error != rustix::io::Errno::INPROGRESS => Err(error.into()),
        _ => Ok(()),
    }
}

/// Sends the request in one piece, which an idle connection on loopback takes, and so does a fresh one unless the
/// system dropped its first packet; then everybody waits until it was sent again.
fn send(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    let sent = match stream.write(request) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            poll(&mut [PollFd::new(stream, PollFlags::OUT)], None)?;
            stream.write(request)?
        }
        sent => sent?,
    };
    if sent < request.len() {
        return Err(io::Error::new(ErrorKind::WriteZero, "a request cannot be sent at once"));
    }
    Ok(())
}

fn remaining(clock: &SystemClock, end: Monotonic) -> Duration {
    end.since(clock.monotonic())
}

#[cfg(test)]
mod tests {
    use super::Asking;
    use crate::Responder;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    #[test]
    fn every_octet_of_every_answer_is_counted() {
        for keep_alive in [true, false] {
            let responder = Responder::bind("X: y\r\n", &[b'x'; 13_000], Vec::new()).unwrap();
            let (address, requests) = (responder.address(), responder.requests());
            std::thread::spawn(move || responder.serve());
            let asking = Asking { address, path: "/".to_owned(), connections: 3, keep_alive };
            let asked = asking.ask(Duration::from_millis(50)).unwrap();
            let served = requests.load(Ordering::Relaxed) as u64;
            // One came before, and those in flight at the end are not counted.
            assert!((asked.answers + 1..=asked.answers + 4).contains(&served), "{asked:?}, {served} served");
            assert!(asked.answers > 3, "{asked:?}");
            assert_eq!(asked.octets % asked.answers, 0);
            assert!((13_000..13_200).contains(&(asked.octets / asked.answers)), "{asked:?}");
        }
    }
}
