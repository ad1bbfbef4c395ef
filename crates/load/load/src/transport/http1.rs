//! HTTP/1 with one request at a time.
//!
//! Invariant: at most one request is in flight. System calls are made only when they can succeed:
//! one write and one read for a request on a reused connection. A connection counts as connected
//! when requests can be sent; with TLS, this means after the handshake. All byte counts are of HTTP
//! bytes, also over TLS. In the steady state nothing is allocated.

use super::{
    ConnectError, ConnectionState, PendingRequest, Readiness, TURN_BYTES_MAX, Tools, Transport,
    TransportEvent,
};
use crate::content::Inspection;
use crate::dial::redial;
use crate::exchange::ExchangeTimes;
use crate::reader::{AnswerReader, ResponseReadError, ResponseSummary};
use crate::tls::{RECORD_BYTES_MAX, TlsSession};
use clock::Monotonic;
use mio::net::TcpStream;
use net::{TlsError, receive};
use record::{AbEnd, FailureKind};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// The smallest maximum segment size to expect on a path, less the longest TCP options.
const SEGMENT_BYTES_MIN: usize = 1200;

/// The result of working on a connection.
#[derive(Debug)]
enum Turn {
    /// Nothing more to do until the next event.
    Waiting,
    /// There may be more to read than the bytes of this turn. No event will tell.
    Unread,
    /// A response is complete; it was read at `end`.
    Answered { answer: ResponseSummary, end: Monotonic },
    /// The server closed the reused connection before it read the request.
    Stale,
    /// The request failed. The reason is the system's or that of TLS, if there is one.
    Failed(FailureKind, Option<io::Error>),
    /// The connection could not be established.
    Unconnected(ConnectError),
}

/// A connection and its current request.
#[derive(Debug)]
pub(crate) struct Http1 {
    stream: TcpStream,
    tls: Option<Box<TlsSession>>,
    reader: AnswerReader,
    /// The current request, or the last one if none is in flight.
    exchange: ExchangeTimes,
    inspection: Inspection,
    in_flight: bool,
    /// The result of the request that the worker has not taken yet.
    result: Option<Turn>,
    /// Both ends are on this machine.
    is_loopback: bool,
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
    state: ConnectionState,
}

impl Transport for Http1 {
    fn open(stream: TcpStream, address: SocketAddr, first: &ExchangeTimes, tools: &Tools<'_>) -> Self {
        let connection = Self {
            stream,
            tls: tools.session(first),
            reader: AnswerReader::default(),
            exchange: *first,
            inspection: Inspection::default(),
            in_flight: false,
            result: None,
            is_loopback: address.ip().is_loopback(),
            sent_bytes: 0,
            received_bytes: 0,
            is_broken: false,
            established: false,
            connected: false,
            answers: 0,
            closed: false,
            state: ConnectionState::Open,
        };
        connection.set_nodelay(first, tools);
        connection
    }

    fn renew(&mut self, address: SocketAddr, first: &ExchangeTimes, tools: &Tools<'_>) -> io::Result<()> {
        redial(&self.stream, address)?;
        self.tls = tools.session(first);
        self.reader.reset();
        self.established = false;
        self.connected = false;
        self.answers = 0;
        self.closed = false;
        self.state = ConnectionState::Open;
        self.set_nodelay(first, tools);
        Ok(())
    }

    #[inline]
    fn ask(&mut self, pending: PendingRequest, tools: &mut Tools<'_>) {
        PendingRequest { exchange: self.exchange, inspection: self.inspection } = pending;
        self.in_flight = true;
        self.sent_bytes = 0;
        self.received_bytes = 0;
        self.is_broken = false;
        let turn = if self.connected {
            self.write(self.exchange.started, tools)
        } else if self.is_loopback {
            // On the loopback interface, a connection is established immediately.
            self.write(tools.clock.monotonic(), tools)
        } else {
            Turn::Waiting
        };
        self.keep(turn);
    }

    #[inline]
    fn turn(&mut self, ready: Readiness, tools: &mut Tools<'_>) -> bool {
        self.closed |= ready.closed;
        if self.result.is_some() {
            return false;
        }
        let turn = if self.in_flight { self.work(ready, tools) } else { self.drain(tools) };
        self.keep(turn)
    }

    fn has_work(&self) -> bool {
        self.result.is_some()
    }

    #[inline]
    fn next_event(&mut self) -> Option<TransportEvent> {
        Some(match self.result.take()? {
            Turn::Answered { answer, end } => TransportEvent::Answered(self.take(), answer, end),
            Turn::Stale => TransportEvent::Returned(self.lose()),
            Turn::Failed(kind, reason) => {
                let is_broken = kind == FailureKind::Receive && reason.is_some();
                TransportEvent::Failed(self.lose(), kind, is_broken)
            }
            // The request stays here until it is taken back.
            Turn::Unconnected(error) => TransportEvent::Unconnected(error),
            Turn::Waiting | Turn::Unread => return None,
        })
    }

    fn is_connected(&self) -> bool {
        self.connected
    }

    fn is_proven(&self) -> bool {
        self.connected
    }

    #[inline]
    fn state(&self) -> ConnectionState {
        let is_closed = self.closed && self.state != ConnectionState::Broken;
        if is_closed { ConnectionState::Closed } else { self.state }
    }

    #[inline]
    fn load(&self) -> usize {
        usize::from(self.in_flight)
    }

    fn under_way(&self) -> impl Iterator<Item = &ExchangeTimes> {
        self.in_flight.then_some(&self.exchange).into_iter()
    }

    fn expire(&mut self, now: Monotonic, limit: Duration, _: &Tools<'_>) {
        if self.in_flight && self.result.is_none() && now.since(self.exchange.started) >= limit {
            self.result = Some(Turn::Failed(FailureKind::Timeout, None));
        }
    }

    fn give_up(&mut self) -> VecDeque<PendingRequest> {
        let pending = self.in_flight.then(|| self.lose());
        pending.into_iter().collect()
    }

    fn last_look(
        &mut self,
        now: Monotonic,
        tools: &mut Tools<'_>,
        mut tell: impl FnMut(&ExchangeTimes, Option<Monotonic>),
    ) {
        if self.in_flight {
            let unread = match receive(&self.stream, &mut tools.buffer) {
                Ok((1.., stamp)) if self.connected => Some(tools.came(stamp, &self.exchange, now)),
                _ => None,
            };
            tell(&self.exchange, unread);
        }
    }

    fn ab_end(&self, status: Option<u16>, is_broken: bool) -> Option<AbEnd> {
        let status = status.or_else(|| self.reader.status()).filter(|&status| status != 0);
        let heads_bytes = self.reader.heads_bytes();
        let content_bytes =
            if heads_bytes == 0 { 0 } else { self.received_bytes.saturating_sub(heads_bytes) };
        Some(AbEnd { status, content_bytes, is_broken: is_broken || self.is_broken })
    }
}

impl Http1 {
    /// Keeps the result of a turn for the worker. Returns whether bytes may be left unread.
    #[inline]
    fn keep(&mut self, turn: Turn) -> bool {
        match turn {
            Turn::Waiting => false,
            Turn::Unread => true,
            result => {
                self.result = Some(result);
                false
            }
        }
    }

    /// Ends the request in flight.
    #[inline]
    fn take(&mut self) -> PendingRequest {
        self.in_flight = false;
        PendingRequest { exchange: self.exchange, inspection: std::mem::take(&mut self.inspection) }
    }

    /// Ends the request in flight, and with it the use of the connection.
    fn lose(&mut self) -> PendingRequest {
        self.state = ConnectionState::Broken;
        self.take()
    }

    /// Lets written bytes be sent at once. Nagle's algorithm only delays a request that does not
    /// fit one segment.
    fn set_nodelay(&self, first: &ExchangeTimes, tools: &Tools<'_>) {
        if tools.image(first).len() > SEGMENT_BYTES_MIN {
            // The error is ignored: with Nagle's algorithm a run is slower, not wrong.
            let _ = self.stream.set_nodelay(true);
        }
    }

    /// Writes as much of the request as the socket takes. If the TCP handshake has just ended,
    /// `now` is when.
    fn write(&mut self, now: Monotonic, tools: &mut Tools<'_>) -> Turn {
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
            _ if !self.established => Some(Turn::Unconnected(ConnectError::Tcp(error))),
            _ if !self.connected => Some(Turn::Unconnected(ConnectError::Handshake(error))),
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
        Turn::Unconnected(ConnectError::Tls(TlsError::of(error, &host)))
    }

    /// Works on the request in flight.
    fn work(&mut self, ready: Readiness, tools: &mut Tools<'_>) -> Turn {
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
                // A short read has emptied the socket, and further bytes cause a new event. An
                // already known close causes no further event, so it has to be read now.
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
    ) -> Result<(usize, Result<Option<ResponseSummary>, ResponseReadError>), Turn> {
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
                _ => Err(ResponseReadError::Malformed),
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

    fn answered(&mut self, answer: ResponseSummary, end: Monotonic, tools: &Tools<'_>) -> Turn {
        self.answers += 1;
        let persistent = answer.persistent && !self.wants_write(tools) && !self.closed;
        self.state = if persistent { ConnectionState::Open } else { ConnectionState::Ending };
        Turn::Answered { answer: ResponseSummary { persistent, ..answer }, end }
    }

    /// Handles the server's close.
    fn ended(&mut self, tools: &Tools<'_>) -> Turn {
        self.closed = true;
        if !self.connected {
            return Turn::Unconnected(ConnectError::Tls(TlsError::Broken(ErrorKind::UnexpectedEof)));
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
            Err(ResponseReadError::Nothing) if self.answers > 0 && tools.resendable => Turn::Stale,
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
            let error =
                if self.established { ConnectError::Handshake(error) } else { ConnectError::Tcp(error) };
            return Turn::Unconnected(error);
        }
        let unseen = matches!(self.reader.end(), Err(ResponseReadError::Nothing));
        if unseen && self.answers > 0 && tools.resendable && error.kind() == ErrorKind::ConnectionReset {
            return Turn::Stale;
        }
        if tools.takes_ends && tools.goes_on {
            self.is_broken = true;
            return self.cut_short(tools.clock.monotonic(), tools);
        }
        Turn::Failed(FailureKind::Receive, Some(error))
    }

    /// Waits for the server's close. Bytes that arrive before it belong to no request and are
    /// dropped.
    fn drain(&mut self, tools: &mut Tools<'_>) -> Turn {
        let mut turn_bytes = 0;
        loop {
            if self.closed {
                return Turn::Waiting;
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
