//! One client connection: collects bytes until a request is complete, and sends the response.
//!
//! Invariant: no further request is read after a response that ended the connection or after a
//! malformed request. Reading never blocks. Writing waits for the client for a limited time.

use crate::answer::Answer;
use crate::limits;
use crate::visit::Visit;
use bytes::{Bytes, BytesMut};
use clock::{Clock, Monotonic};
use h1::{BodyDecoder, Decoded, Request, RequestError, Strictness};
use message::{ResponseHead, Version, names};
use mio::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// Limits of a client's requests.
const READ_LIMITS: h1::Limits = h1::Limits { head_bytes_max: limits::HEAD_BYTES_MAX, ..h1::Limits::DEFAULT };

/// Buffer space for one read, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// A connection with the input that is not processed yet.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    /// The time by which the next request must be complete.
    pub(super) deadline: Monotonic,
    input: BytesMut,
    receiving: Option<Receiving>,
    /// Number of bytes that the client may still send. Set when the connection only lingers.
    left_to_drop: Option<usize>,
}

/// A request whose content is incomplete.
#[derive(Debug)]
struct Receiving {
    request: Request,
    decoder: BodyDecoder,
    content: BytesMut,
}

/// The result of reading.
#[derive(Debug)]
pub(super) enum Progress {
    /// A request is complete.
    Complete(Box<Incoming>),
    /// The request is incomplete; the connection must be watched.
    Waiting,
    /// The client has closed the connection, or it failed.
    Closed,
    /// The request is refused with this status. The connection ends after the response.
    Refused(u16),
}

/// A complete request.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) visit: Visit,
    pub(super) persistent: bool,
}

/// Properties of a response's delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// The version of the request.
    pub(super) version: Version,
    /// Whether another request may follow.
    pub(super) persistent: bool,
    /// Whether the request was HEAD.
    pub(super) head_only: bool,
    /// Longest time to wait for a client that does not read. Zero in threads that must not wait.
    pub(super) patience: Duration,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, deadline: Monotonic) -> Self {
        Self { stream, peer, deadline, input: BytesMut::new(), receiving: None, left_to_drop: None }
    }

    /// Reads the available bytes, up to the end of one request.
    pub(super) fn advance(&mut self) -> Progress {
        if let Some(left) = self.left_to_drop {
            return self.drop_input(left);
        }
        loop {
            match self.parse() {
                Ok(Some(incoming)) => return Progress::Complete(Box::new(incoming)),
                Ok(None) => {}
                Err(code) => return Progress::Refused(code),
            }
            match self.read() {
                Ok(0) => return Progress::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Closed,
            }
        }
    }

    /// Whether the connection is idle and may be closed without a response.
    pub(super) fn is_idle(&self) -> bool {
        self.left_to_drop.is_some() || (self.input.is_empty() && self.receiving.is_none())
    }

    /// Writes a response. Returns false if the connection must be closed.
    pub(super) fn send(&mut self, answer: &Answer, how: Delivery, clock: &dyn Clock) -> bool {
        let mut head = ResponseHead::new(answer.status);
        head.fields = answer.fields.clone();
        if !answer.status.has_no_content() {
            head.fields.push(names::CONTENT_LENGTH, answer.body.len().to_string());
        }
        match (how.persistent, how.version) {
            (false, _) => head.fields.push(names::CONNECTION, "close"),
            (true, Version::Http10) => head.fields.push(names::CONNECTION, "keep-alive"),
            (true, Version::Http11) => {}
        }
        let mut out = BytesMut::with_capacity(head.fields.wire_bytes() + answer.body.len() + 64);
        if h1::write_response_head(&mut out, &head).is_err() {
            // A script put an illegal byte into a field.
            let plain = Answer::plain(500, "This page is out of order.\n");
            return self.send(&plain, Delivery { persistent: false, ..how }, clock);
        }
        if !how.head_only {
            out.extend_from_slice(&answer.body);
        }
        self.write_all(&out, how.patience, clock).is_ok() && how.persistent
    }

    /// Ends sending, and from now on drops the input. If the connection were closed at once, the
    /// kernel would reset it, and a client that is still sending might never read the response.
    pub(super) fn linger(&mut self, deadline: Monotonic) {
        // If the client has gone, the next read reports it.
        let _ = self.stream.shutdown(Shutdown::Write);
        self.deadline = deadline;
        self.left_to_drop = Some(limits::LINGER_BYTES_MAX);
        self.input = BytesMut::new();
        self.receiving = None;
    }

    /// Drops the client's input.
    fn drop_input(&mut self, left: usize) -> Progress {
        let mut left = left;
        while left > 0 {
            match self.read() {
                Ok(0) => return Progress::Closed,
                Ok(octets) => left = left.saturating_sub(octets),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.left_to_drop = Some(left);
                    return Progress::Waiting;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Closed,
            }
            self.input.clear();
        }
        Progress::Closed
    }

    /// Parses the next request. `None` if it is incomplete.
    fn parse(&mut self) -> Result<Option<Incoming>, u16> {
        if self.receiving.is_none() {
            let parsed = h1::parse_request(&mut self.input, &READ_LIMITS, Strictness::Strict);
            let Some(request) = parsed.map_err(|error: RequestError| error.status().code())? else {
                return Ok(None);
            };
            if request.expect_continue && self.input.is_empty() {
                // A write this short fits an empty send buffer. If it fails, the next read reports
                // it.
                let _ = self.stream.write(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let decoder = BodyDecoder::new(request.framing);
            self.receiving = Some(Receiving { request, decoder, content: BytesMut::new() });
        }
        let Some(receiving) = &mut self.receiving else { return Ok(None) };
        loop {
            match receiving.decoder.decode(&mut self.input) {
                Ok(Decoded::NeedMore) => return Ok(None),
                Ok(Decoded::Data(data))
                    if receiving.content.len() + data.len() > limits::CONTENT_BYTES_MAX =>
                {
                    return Err(413);
                }
                Ok(Decoded::Data(data)) => receiving.content.extend_from_slice(&data),
                Ok(Decoded::End(_)) => break,
                Err(_) => return Err(400),
            }
        }
        let peer = self.peer;
        Ok(self.receiving.take().map(|received| Incoming {
            persistent: received.request.persistent,
            visit: Visit { head: received.request.head, content: Bytes::from(received.content), peer },
        }))
    }

    fn read(&mut self) -> io::Result<usize> {
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let room = self.input.get_mut(before..).unwrap_or_default();
        let read = self.stream.read(room);
        self.input.truncate(before + read.as_ref().copied().unwrap_or(0));
        read
    }

    fn write_all(&mut self, mut octets: &[u8], patience: Duration, clock: &dyn Clock) -> io::Result<()> {
        let deadline = clock.monotonic().plus(patience);
        while !octets.is_empty() {
            match self.stream.write(octets) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => octets = octets.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait_writable(deadline, clock)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_writable(&self, deadline: Monotonic, clock: &dyn Clock) -> io::Result<()> {
        let left = deadline.since(clock.monotonic());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        rustix::event::poll(&mut [PollFd::new(&self.stream, PollFlags::OUT)], Some(&timeout))?;
        Ok(())
    }
}
