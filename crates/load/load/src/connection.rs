//! One connection with one request at a time. It connects, writes the request, reads the response,
//! and reports the result. The worker decides what happens next.
//!
//! Invariant: at most one request is in flight. System calls are made only when they can succeed:
//! one write and one read for a request on a reused connection. A connection counts as connected
//! when requests can be sent; with TLS, that is after the handshake. All byte counts are of HTTP
//! bytes, also over TLS.

use crate::content::Inspection;
use crate::dial::redial;
use crate::exchange::Exchange;
use crate::reader::{Answer, AnswerReader, HeadMemo, ReadError};
use crate::recorder::Recorder;
use crate::streams::Several;
use crate::tls::{RECORD_BYTES_MAX, Tls, TlsSession};
use bytes::Bytes;
use clock::{Clock, Monotonic};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use net::{Stamp, StampClock, TlsError, receive};
use record::{AbEnd, FailureKind};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

/// After this many bytes of a connection, other work has its turn: timeouts, other connections and
/// the end of the run must not wait for a server that sends faster than its bytes are read.
pub(crate) const TURN_BYTES_MAX: usize = 1024 * 1024;

/// State that the connections of one thread share.
pub(crate) struct Tools<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Converts the kernel's receive timestamps to this clock.
    pub(crate) stamp_clock: StampClock,
    /// The serialised requests, one for each URL.
    pub(crate) images: &'a [Bytes],
    /// The TLS configuration, if any URL uses TLS.
    pub(crate) tls: Option<Tls>,
    /// Whether a request may be sent again if the server closed its reused connection.
    pub(crate) resendable: bool,
    /// Whether the end of a connection ends its response, as in `ab`.
    pub(crate) takes_ends: bool,
    /// Whether the run continues after a connection broke.
    pub(crate) goes_on: bool,
    pub(crate) recorder: Recorder,
    pub(crate) memo: HeadMemo,
    /// State of connections with several requests.
    pub(crate) several: Several,
    /// Read buffer. Its content is not needed between two reads.
    pub(crate) buffer: Vec<u8>,
}

impl<'a> Tools<'a> {
    /// The bytes of the request that an exchange sends.
    pub(crate) fn image(&self, exchange: &Exchange) -> &'a [u8] {
        self.images.get(exchange.url as usize).map_or(&[], |image| &**image)
    }

    /// When the bytes that were read at `now` arrived: the kernel's timestamp, but never before the
    /// request started.
    pub(crate) fn came(&self, stamp: Option<Stamp>, exchange: &Exchange, now: Monotonic) -> Monotonic {
        self.stamp_clock.moment(stamp, now).max(exchange.started)
    }

    /// TLS state for a new connection to the URL of an exchange; `None` if the URL does not use
    /// TLS.
    fn session(&self, exchange: &Exchange) -> Option<Box<TlsSession>> {
        self.tls.as_ref()?.session(exchange.url)
    }
}

/// The readiness that an event reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    /// The server has closed its side.
    pub(crate) closed: bool,
}

/// The result of working on a connection.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing more to do until the next event.
    Waiting,
    /// There may be more to read than the bytes of this turn. No event will tell.
    Unread,
    /// A response is complete; it was read at `end`.
    Answered {
        answer: Answer,
        end: Monotonic,
        /// Whether the connection can carry another request.
        reusable: bool,
    },
    /// The server closed the reused connection before it read the request.
    Stale,
    /// The request failed. The reason is the system's or that of TLS, if there is one.
    Failed(FailureKind, Option<io::Error>),
    /// The connection was waiting for the server to close it, and now it is closed.
    Drained,
}

/// A connection and its current request.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    tls: Option<Box<TlsSession>>,
    reader: AnswerReader,
    exchange: Exchange,
    inspection: Inspection,
    registered: bool,
    /// Bytes of the request written so far.
    sent_bytes: usize,
    /// Bytes of the response read so far.
    received_bytes: u64,
    /// The connection broke, and the bytes received until then count as the response.
    is_broken: bool,
    /// The TCP handshake is done.
    established: bool,
    /// Requests can be sent.
    connected: bool,
    /// Complete responses so far.
    answers: u64,
    /// The server has closed its side.
    closed: bool,
    /// If set, no request is in flight, and the server may close the connection until this moment.
    drains_until: Option<Monotonic>,
}

impl Connection {
    /// A connection that is being established for `exchange`.
    pub(crate) fn new(stream: TcpStream, exchange: Exchange, tools: &Tools<'_>) -> Self {
        Self {
            stream,
            tls: tools.session(&exchange),
            reader: AnswerReader::default(),
            exchange,
            inspection: Inspection::default(),
            registered: false,
            sent_bytes: 0,
            received_bytes: 0,
            is_broken: false,
            established: false,
            connected: false,
            answers: 0,
            closed: false,
            drains_until: None,
        }
    }

    /// Connects again for `exchange`, with the socket of a connection that the server has closed.
    ///
    /// # Errors
    /// As the system reports them; the connection is unusable afterwards.
    pub(crate) fn renew(
        &mut self,
        address: SocketAddr,
        exchange: Exchange,
        tools: &Tools<'_>,
    ) -> io::Result<()> {
        redial(&self.stream, address)?;
        self.tls = tools.session(&exchange);
        self.reader.reset();
        self.exchange = exchange;
        self.sent_bytes = 0;
        self.received_bytes = 0;
        self.is_broken = false;
        self.established = false;
        self.connected = false;
        self.answers = 0;
        self.closed = false;
        self.drains_until = None;
        Ok(())
    }

    /// Sets how the content of the next response is inspected.
    pub(crate) fn inspect(&mut self, inspection: Inspection) {
        self.inspection = inspection;
    }

    /// Takes the result of inspecting the last response.
    pub(crate) fn take_inspection(&mut self) -> Inspection {
        std::mem::take(&mut self.inspection)
    }

    /// How the response or its connection ended, in `ab`'s terms. `status` is that of a complete
    /// response.
    pub(crate) fn ab_end(&self, status: Option<u16>, is_broken: bool) -> AbEnd {
        let status = status.or_else(|| self.reader.status()).filter(|&status| status != 0);
        let heads_bytes = self.reader.heads_bytes();
        let content_bytes =
            if heads_bytes == 0 { 0 } else { self.received_bytes.saturating_sub(heads_bytes) };
        AbEnd { status, content_bytes, is_broken: is_broken || self.is_broken }
    }

    /// The current request, or the last one if none is in flight.
    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Registers the connection for events, unless its socket already is registered.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        if !self.registered {
            registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)?;
            self.registered = true;
        }
        Ok(())
    }

    /// Sets TCP_NODELAY: written bytes are sent at once instead of waiting for a full segment.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.stream.set_nodelay(true)
    }

    /// Whether requests can be sent.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Until when the server may close the connection; `None` if a request is in flight.
    pub(crate) fn drains_until(&self) -> Option<Monotonic> {
        self.drains_until
    }

    /// Whether the server has already closed its side.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Leaves the closing of the connection to the server, until `moment`.
    pub(crate) fn drain_until(&mut self, moment: Monotonic) {
        self.drains_until = Some(moment);
    }

    /// Sends the next request on a connection whose last response allowed another one.
    pub(crate) fn begin(&mut self, exchange: Exchange, tools: &mut Tools<'_>) -> Turn {
        self.exchange = exchange;
        self.sent_bytes = 0;
        self.received_bytes = 0;
        self.is_broken = false;
        self.drains_until = None;
        self.write(exchange.started, tools)
    }

    /// Writes as much of the request as the socket takes. If the TCP handshake has just ended,
    /// `now` is when.
    pub(crate) fn write(&mut self, now: Monotonic, tools: &mut Tools<'_>) -> Turn {
        if self.tls.is_some() {
            return self.write_secured(now, tools);
        }
        loop {
            let rest = tools.image(&self.exchange).get(self.sent_bytes..).unwrap_or_default();
            match self.stream.write(rest) {
                Ok(bytes) => {
                    if !self.connected {
                        self.established = true;
                        self.connected = true;
                        self.exchange.established = now;
                        self.exchange.connected = now;
                    }
                    self.sent(bytes, tools);
                    if bytes >= rest.len() {
                        self.exchange.sent = tools.clock.monotonic();
                        return Turn::Waiting;
                    }
                    if bytes == 0 {
                        return Turn::Failed(FailureKind::Send, None);
                    }
                }
                Err(error) => match self.write_failed(error, tools) {
                    Some(turn) => return turn,
                    None => continue,
                },
            }
        }
    }

    /// Writes pending TLS records and, after the handshake, as much of the request as the socket
    /// takes.
    fn write_secured(&mut self, now: Monotonic, tools: &mut Tools<'_>) -> Turn {
        loop {
            let Some(tls) = &mut self.tls else { return Turn::Waiting };
            let records = tls.to_send();
            if records.is_empty() {
                let rest = tools.image(&self.exchange).get(self.sent_bytes..).unwrap_or_default();
                let piece = rest.get(..rest.len().min(RECORD_BYTES_MAX)).unwrap_or_default();
                let made = match (tls.is_secured(), self.established) {
                    (true, _) if piece.is_empty() => return Turn::Waiting,
                    (true, _) => tls.send(piece),
                    (false, true) => return Turn::Waiting,
                    (false, false) => tls.receive(&mut [], |_| {}),
                };
                match made {
                    Ok(()) if tls.is_secured() => self.sent(piece.len(), tools),
                    Ok(()) => {}
                    Err(error) => return self.refused(&error, tools),
                }
                continue;
            }
            match self.stream.write(records) {
                Ok(bytes) => {
                    tls.sent(bytes);
                    if !self.established {
                        self.established = true;
                        self.exchange.established = now;
                    }
                    let all_sent = self.sent_bytes >= tools.image(&self.exchange).len();
                    if all_sent && tls.to_send().is_empty() {
                        self.exchange.sent = tools.clock.monotonic();
                    }
                }
                Err(error) => {
                    if let Some(turn) = self.write_failed(error, tools) {
                        return turn;
                    }
                }
            }
        }
    }

    /// Counts bytes of the request that were written, or turned into TLS records.
    fn sent(&mut self, bytes: usize, tools: &mut Tools<'_>) {
        self.sent_bytes += bytes;
        if self.exchange.measured {
            tools.recorder.sent_bytes += bytes as u64;
        }
    }

    /// The result of a write error; `None` if the write should be repeated.
    fn write_failed(&self, error: io::Error, tools: &Tools<'_>) -> Option<Turn> {
        match error.kind() {
            ErrorKind::WouldBlock => Some(Turn::Waiting),
            ErrorKind::Interrupted => None,
            _ if !self.established => Some(Turn::Failed(FailureKind::Connect, Some(error))),
            _ if !self.connected => Some(Turn::Failed(FailureKind::Tls, Some(error))),
            _ if self.answers > 0 && self.sent_bytes == 0 && tools.resendable => Some(Turn::Stale),
            _ => Some(Turn::Failed(FailureKind::Send, Some(error))),
        }
    }

    /// The result of a TLS error: the server's certificate was refused, or the server violates the
    /// protocol.
    fn refused(&self, error: &tokio_rustls::rustls::Error, tools: &Tools<'_>) -> Turn {
        if self.connected {
            return Turn::Failed(FailureKind::Receive, Some(io::Error::other(error.to_string())));
        }
        let host = tools.tls.as_ref().map(|tls| tls.host(self.exchange.url)).unwrap_or_default();
        Turn::Failed(FailureKind::Tls, Some(io::Error::other(TlsError::of(error, &host))))
    }

    /// Handles an event.
    pub(crate) fn turn(&mut self, ready: Readiness, tools: &mut Tools<'_>) -> Turn {
        self.closed |= ready.closed;
        if self.drains_until.is_some() {
            return self.drain(tools);
        }
        if self.wants_write(tools) {
            let now = tools.clock.monotonic();
            let turn = self.write(now, tools);
            if !matches!(turn, Turn::Waiting) {
                return turn;
            }
        }
        if self.established && (ready.readable || self.closed) { self.read(tools) } else { Turn::Waiting }
    }

    fn wants_write(&self, tools: &Tools<'_>) -> bool {
        self.sent_bytes < tools.image(&self.exchange).len()
            || self.tls.as_ref().is_some_and(|tls| !tls.to_send().is_empty())
    }

    /// Reads until the response is complete, nothing more can be read, or other work has its turn.
    fn read(&mut self, tools: &mut Tools<'_>) -> Turn {
        let mut first = !self.reader.has_begun();
        let mut turn_bytes = 0;
        loop {
            let kept = self.tls.as_ref().map_or(0, |tls| tls.restore(&mut tools.buffer));
            let room = tools.buffer.get_mut(kept..).unwrap_or_default();
            let (bytes, stamp, is_all) = match receive(&self.stream, room) {
                Ok((0, _)) => return self.ended(tools),
                Ok((bytes, stamp)) => (bytes, stamp, bytes < room.len()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.broken(error, tools),
            };
            let now = tools.clock.monotonic();
            let came = tools.came(stamp, &self.exchange, now);
            if first {
                self.exchange.first_octet = came;
            }
            self.exchange.receive(came, now);
            let content_before = self.reader.content_bytes();
            let (received_bytes, fed) = match self.feed(kept + bytes, now, tools) {
                Ok(fed) => fed,
                Err(turn) => return turn,
            };
            self.received_bytes += received_bytes as u64;
            if self.exchange.measured {
                let content_after = match fed {
                    Ok(Some(answer)) => answer.content_bytes,
                    _ => self.reader.content_bytes(),
                };
                tools.recorder.counters.received_bytes += received_bytes as u64;
                // Bytes after the end of the response have reset the reader. The response failed,
                // and its last bytes are in no figure of content.
                tools.recorder.content_bytes += content_after.saturating_sub(content_before);
            }
            match fed {
                Ok(Some(answer)) => return self.answered(answer, now, tools),
                Err(_) if tools.takes_ends => return self.cut_short(now, tools),
                Err(_) => return Turn::Failed(FailureKind::Malformed, None),
                // A short read has emptied the socket, and further bytes cause a new event. A close
                // that is already known causes no further event, so it has to be read now.
                Ok(None) if is_all && !self.closed => return Turn::Waiting,
                Ok(None) if turn_bytes + bytes >= TURN_BYTES_MAX => return Turn::Unread,
                Ok(None) => {
                    first = !self.reader.has_begun();
                    turn_bytes += bytes;
                }
            }
        }
    }

    /// Passes the bytes in the buffer to the reader, through TLS if the connection uses it. Returns
    /// how many of them are HTTP bytes, and the reader's result. If the connection has failed,
    /// returns the failure.
    fn feed(
        &mut self,
        filled_bytes: usize,
        now: Monotonic,
        tools: &mut Tools<'_>,
    ) -> Result<(usize, Result<Option<Answer>, ReadError>), Turn> {
        let Tools { buffer, memo, recorder, tls: shared_tls, .. } = tools;
        let octets = buffer.get_mut(..filled_bytes).unwrap_or_default();
        let (reader, inspection) = (&mut self.reader, &mut self.inspection);
        let mut read = |octets: &[u8]| reader.feed(octets, memo, |content| inspection.take(content));
        let Some(tls) = &mut self.tls else { return Ok((filled_bytes, read(octets))) };
        let (mut received_bytes, mut fed) = (0, Ok(None));
        let done = tls.receive(octets, |plain| {
            received_bytes += plain.len();
            fed = match fed {
                _ if plain.is_empty() => fed,
                Ok(None) => read(plain),
                _ => Err(ReadError::Malformed),
            };
        });
        let (is_secured, is_closed) = (tls.is_secured(), tls.is_closed());
        if let Err(error) = done {
            return Err(self.refused(&error, tools));
        }
        self.closed |= is_closed;
        if is_secured && !self.connected {
            self.connected = true;
            self.exchange.connected = now;
            recorder.resumed += u64::from(self.exchange.measured && tls.is_resumed());
            if let Some(shared) = shared_tls {
                shared.note_agreement(|| tls.agreement());
            }
        }
        match self.wants_write(tools) {
            true => match self.write(now, tools) {
                Turn::Waiting => Ok((received_bytes, fed)),
                turn => Err(turn),
            },
            false => Ok((received_bytes, fed)),
        }
    }

    fn answered(&mut self, answer: Answer, end: Monotonic, tools: &Tools<'_>) -> Turn {
        self.answers += 1;
        let reusable = answer.persistent && !self.wants_write(tools) && !self.closed;
        Turn::Answered { answer, end, reusable }
    }

    /// Handles the server's close.
    fn ended(&mut self, tools: &Tools<'_>) -> Turn {
        self.closed = true;
        if !self.connected {
            let reason = io::Error::other(TlsError::Broken(ErrorKind::UnexpectedEof));
            return Turn::Failed(FailureKind::Tls, Some(reason));
        }
        // Without TLS's closing alert, anyone may have cut the connection (RFC 9112 section 9.8).
        let is_cut = self.tls.as_ref().is_some_and(|tls| !tls.is_closed());
        match self.reader.end() {
            Ok(_) if is_cut && !tools.takes_ends => Turn::Failed(FailureKind::Receive, None),
            Ok(answer) => {
                let end = tools.clock.monotonic();
                self.exchange.end_with_close(end);
                self.answered(answer, end, tools)
            }
            Err(ReadError::Nothing) if self.answers > 0 && tools.resendable => Turn::Stale,
            Err(_) if tools.takes_ends => self.cut_short(tools.clock.monotonic(), tools),
            Err(_) => Turn::Failed(FailureKind::Receive, None),
        }
    }

    /// Ends the response with the bytes received so far, and treats the connection as closed.
    fn cut_short(&mut self, end: Monotonic, tools: &Tools<'_>) -> Turn {
        self.closed = true;
        let had_begun = self.reader.has_begun();
        let answer = self.reader.cut_short();
        if !had_begun {
            self.exchange.first_octet = end;
        }
        self.exchange.end_with_close(end);
        self.answered(answer, end, tools)
    }

    /// Handles a read error.
    fn broken(&mut self, error: io::Error, tools: &Tools<'_>) -> Turn {
        if !self.connected {
            let kind = if self.established { FailureKind::Tls } else { FailureKind::Connect };
            return Turn::Failed(kind, Some(error));
        }
        let unseen = matches!(self.reader.end(), Err(ReadError::Nothing));
        if unseen && self.answers > 0 && tools.resendable && error.kind() == ErrorKind::ConnectionReset {
            return Turn::Stale;
        }
        if tools.takes_ends && tools.goes_on {
            self.is_broken = true;
            return self.cut_short(tools.clock.monotonic(), tools);
        }
        Turn::Failed(FailureKind::Receive, Some(error))
    }

    /// When unread bytes of the response in flight arrived; `None` if there are none. The read
    /// consumes bytes, so the connection is unusable afterwards.
    pub(crate) fn unread_since(&self, now: Monotonic, tools: &mut Tools<'_>) -> Option<Monotonic> {
        match receive(&self.stream, &mut tools.buffer) {
            Ok((1.., stamp)) if self.connected => Some(tools.came(stamp, &self.exchange, now)),
            _ => None,
        }
    }

    /// Waits for the server's close. Bytes that arrive before it belong to no request and are
    /// dropped.
    fn drain(&mut self, tools: &mut Tools<'_>) -> Turn {
        let mut turn_bytes = 0;
        loop {
            if self.closed {
                return Turn::Drained;
            }
            match self.stream.read(&mut tools.buffer) {
                Ok(0) => self.closed = true,
                Ok(bytes) if turn_bytes + bytes >= TURN_BYTES_MAX => return Turn::Unread,
                Ok(bytes) => turn_bytes += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }
}
