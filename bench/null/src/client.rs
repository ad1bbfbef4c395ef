//! A bare client: one thread, one poll, one prebuilt request. It shows the least possible cost of a
//! load generator that reads all responses. Any cost above that is the generator's own.
//!
//! Invariant: every byte of every response is read, but only counted. All responses must have the
//! length of the first one, which determines where a response ends. The client measures no times
//! and ends at the first error.

use clock::{Clock as _, Monotonic};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use platform::SystemClock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{connect, connect_unspec, sockopt::set_tcp_quickack};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// Size of the read buffer, in bytes.
const READ_BYTES: usize = 64 * 1024;
/// Longest wait in poll.
const SLICE: Duration = Duration::from_millis(100);

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct RunParameters {
    /// Address of the server, also used as `Host`.
    pub address: SocketAddr,
    /// Path with query.
    pub path: String,
    /// Number of concurrent connections.
    pub connections: usize,
    /// Whether a connection carries many requests, or only one.
    pub keep_alive: bool,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFigures {
    /// Number of complete responses.
    pub answers: u64,
    /// Their length in bytes, including heads.
    pub octets: u64,
}

struct LoopConnection {
    stream: TcpStream,
    /// Bytes of the current response.
    octets: usize,
    closed: bool,
}

impl RunParameters {
    /// Sends requests for this time.
    ///
    /// # Errors
    /// As the system reports them, and if a response is cut off or has another length than the
    /// first.
    pub fn ask(&self, time: Duration) -> io::Result<RunFigures> {
        let request = self.request();
        let answer_bytes = self.answer_bytes(&request)?;
        let clock = SystemClock::new();
        let mut poll = Poll::new()?;
        let mut connections = Vec::new();
        for index in 0..self.connections {
            let mut stream = TcpStream::connect(self.address)?;
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            send(&mut stream, &request)?;
            connections.push(LoopConnection { stream, octets: 0, closed: false });
        }
        let end = clock.monotonic().plus(time);
        let mut round = RunState {
            asking: self,
            request,
            answer_bytes,
            buffer: vec![0; READ_BYTES],
            asked: RunFigures::default(),
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

    /// Length of a response in bytes, including its head.
    fn answer_bytes(&self, request: &[u8]) -> io::Result<usize> {
        let strange = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
        let mut stream = std::net::TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        let mut octet = [0];
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

/// State that all connections share.
struct RunState<'a> {
    asking: &'a RunParameters,
    request: Vec<u8>,
    answer_bytes: usize,
    buffer: Vec<u8>,
    asked: RunFigures,
}

impl RunState<'_> {
    /// Reads all available bytes. Sends the next request when the response is complete.
    fn work(&mut self, connection: &mut LoopConnection) -> io::Result<()> {
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
        // Without keep-alive, wait until the server has closed the connection. Otherwise the port
        // would stay in TIME_WAIT on this side.
        if !whole || !(self.asking.keep_alive || connection.closed) {
            return Ok(());
        }
        self.asked.answers += 1;
        self.asked.octets += connection.octets as u64;
        connection.octets = 0;
        connection.closed = false;
        if !self.asking.keep_alive {
            reconnect(&connection.stream, self.asking.address)?;
        }
        send(&mut connection.stream, &self.request)
    }
}

/// Opens the next connection with the same socket, which is cheaper than a new socket.
fn reconnect(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    connect_unspec(stream)?;
    // The acknowledgement that completes the handshake is sent with the request, not on its own.
    set_tcp_quickack(stream, false)?;
    match connect(stream, &address) {
        Err(error) if error != rustix::io::Errno::INPROGRESS => Err(error.into()),
        _ => Ok(()),
    }
}

/// Sends the request in one write. On loopback, an idle or new connection always has room for it,
/// unless the system dropped the first packet of a new connection. Then the whole client waits
/// until that packet is sent again.
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
    use super::RunParameters;
    use crate::Responder;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    #[test]
    fn every_byte_of_every_response_is_counted() {
        for keep_alive in [true, false] {
            let responder = Responder::bind("X: y\r\n", &[b'x'; 13_000], Vec::new()).unwrap();
            let address = responder.address();
            let requests = responder.requests();
            std::thread::spawn(move || responder.serve());
            let asking = RunParameters { address, path: "/".to_owned(), connections: 3, keep_alive };
            let asked = asking.ask(Duration::from_millis(50)).unwrap();
            let served = requests.load(Ordering::Relaxed) as u64;
            // The client sends one request before the measured ones, and requests in flight at the
            // end are not counted.
            assert!((asked.answers + 1..=asked.answers + 4).contains(&served), "{asked:?}, {served} served");
            assert!(asked.answers > 3, "{asked:?}");
            assert_eq!(asked.octets % asked.answers, 0);
            assert!((13_000..13_200).contains(&(asked.octets / asked.answers)), "{asked:?}");
        }
    }
}
