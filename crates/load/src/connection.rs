//! One connection to the target: connects, writes the request, reads the answer, and says what came of it.
//! It decides nothing about what happens next; the worker does.
//!
//! Invariant: at most one request is in flight. System calls are made only when they can succeed: one write
//! and one read for a request on a kept connection.

use crate::outcome::FailureKind;
use crate::reader::{Answer, AnswerReader, HeadMemo, ReadError};
use crate::recorder::{Exchange, Recorder};
use mio::net::TcpStream;
use platform::{Clock, Monotonic};
use std::io::{self, ErrorKind, Read as _, Write as _};

/// What the connections of one thread share.
pub(crate) struct Tools<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// The request.
    pub(crate) image: &'a [u8],
    /// Whether the request may be sent again when its connection turns out to be closed.
    pub(crate) resendable: bool,
    pub(crate) recorder: Recorder,
    pub(crate) memo: HeadMemo,
    /// What is read lands here; nothing in it is needed between two reads.
    pub(crate) buffer: Vec<u8>,
}

/// What an event reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    /// The server has closed its side.
    pub(crate) closed: bool,
}

/// What came of working on a connection.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing more to do until the next event.
    Waiting,
    /// An answer is complete; `end` is when it was.
    Answered {
        answer: Answer,
        end: Monotonic,
        /// Whether the connection can carry another request.
        reusable: bool,
    },
    /// The kept connection was closed by the server before it saw the request.
    Stale,
    /// The request failed. The reason is the system's, where it gave one.
    Failed(FailureKind, Option<io::Error>),
    /// The connection was waiting for the server to close it, and now it is closed.
    Drained,
}

/// A connection and the request on it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    reader: AnswerReader,
    exchange: Exchange,
    /// Octets of the request that are written.
    sent_bytes: usize,
    connected: bool,
    /// Complete answers so far.
    answers: u64,
    /// The server has closed its side.
    closed: bool,
    /// No request is in flight; until this moment the server may close the connection.
    drains_until: Option<Monotonic>,
}

impl Connection {
    /// A connection that is being made for `exchange`.
    pub(crate) fn new(stream: TcpStream, exchange: Exchange) -> Self {
        Self {
            stream,
            reader: AnswerReader::default(),
            exchange,
            sent_bytes: 0,
            connected: false,
            answers: 0,
            closed: false,
            drains_until: None,
        }
    }

    /// The request in flight.
    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The stream, to register it for events.
    pub(crate) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Whether the connection stands.
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

    /// Sends the next request on a connection whose last answer said it could carry one.
    pub(crate) fn begin(&mut self, exchange: Exchange, tools: &mut Tools<'_>) -> Turn {
        self.exchange = exchange;
        self.sent_bytes = 0;
        self.write(exchange.started, tools)
    }

    /// Writes as much of the request as the socket takes. `now` is when the connection stood, if it does.
    pub(crate) fn write(&mut self, now: Monotonic, tools: &mut Tools<'_>) -> Turn {
        loop {
            let rest = tools.image.get(self.sent_bytes..).unwrap_or_default();
            match self.stream.write(rest) {
                Ok(bytes) => {
                    if !self.connected {
                        self.connected = true;
                        self.exchange.connected = now;
                    }
                    self.sent_bytes += bytes;
                    if self.exchange.measured {
                        tools.recorder.sent_bytes += bytes as u64;
                    }
                    if self.sent_bytes >= tools.image.len() {
                        self.exchange.sent = tools.clock.monotonic();
                        return Turn::Waiting;
                    }
                    if bytes == 0 {
                        return Turn::Failed(FailureKind::Send, None);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if !self.connected => return Turn::Failed(FailureKind::Connect, Some(error)),
                Err(_) if self.answers > 0 && self.sent_bytes == 0 && tools.resendable => return Turn::Stale,
                Err(error) => return Turn::Failed(FailureKind::Send, Some(error)),
            }
        }
    }

    /// Does what an event made possible.
    pub(crate) fn turn(&mut self, ready: Readiness, tools: &mut Tools<'_>) -> Turn {
        self.closed |= ready.closed;
        if self.drains_until.is_some() {
            return self.drain(tools);
        }
        if self.sent_bytes < tools.image.len() {
            let now = tools.clock.monotonic();
            let turn = self.write(now, tools);
            if !matches!(turn, Turn::Waiting) {
                return turn;
            }
        }
        if self.connected && (ready.readable || self.closed) { self.read(tools) } else { Turn::Waiting }
    }

    /// Reads until the answer is complete or there is nothing more to read.
    fn read(&mut self, tools: &mut Tools<'_>) -> Turn {
        let mut first = !self.reader.has_begun();
        loop {
            let bytes = match self.stream.read(&mut tools.buffer) {
                Ok(0) => return self.ended(tools),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.broken(error, tools),
            };
            if first {
                self.exchange.first_octet = tools.clock.monotonic();
            }
            let octets = tools.buffer.get(..bytes).unwrap_or_default();
            let content_before = self.reader.content_bytes();
            let fed = self.reader.feed(octets, &mut tools.memo);
            if self.exchange.measured {
                let content_after = match fed {
                    Ok(Some(answer)) => answer.content_bytes,
                    _ => self.reader.content_bytes(),
                };
                tools.recorder.received_bytes += bytes as u64;
                tools.recorder.content_bytes += content_after - content_before;
            }
            match fed {
                Ok(Some(answer)) => {
                    let end = if first { self.exchange.first_octet } else { tools.clock.monotonic() };
                    return self.answered(answer, end, tools);
                }
                // A short read has emptied the socket; more comes with a new event. Only a close that is
                // already known has no event of its own left.
                Ok(None) if bytes < tools.buffer.len() && !self.closed => return Turn::Waiting,
                Ok(None) => first = false,
                Err(_) => return Turn::Failed(FailureKind::Malformed, None),
            }
        }
    }

    fn answered(&mut self, answer: Answer, end: Monotonic, tools: &Tools<'_>) -> Turn {
        self.answers += 1;
        let all_sent = self.sent_bytes >= tools.image.len();
        Turn::Answered { answer, end, reusable: answer.persistent && all_sent && !self.closed }
    }

    /// The server has closed the connection.
    fn ended(&mut self, tools: &Tools<'_>) -> Turn {
        self.closed = true;
        match self.reader.end() {
            Ok(answer) => {
                let end = tools.clock.monotonic();
                self.answered(answer, end, tools)
            }
            Err(ReadError::Nothing) if self.answers > 0 && tools.resendable => Turn::Stale,
            Err(_) => Turn::Failed(FailureKind::Receive, None),
        }
    }

    /// Reading failed.
    fn broken(&mut self, error: io::Error, tools: &Tools<'_>) -> Turn {
        let unseen = matches!(self.reader.end(), Err(ReadError::Nothing));
        if unseen && self.answers > 0 && tools.resendable && error.kind() == ErrorKind::ConnectionReset {
            return Turn::Stale;
        }
        Turn::Failed(FailureKind::Receive, Some(error))
    }

    /// Waits for the server's close; what comes before it belongs to no request.
    fn drain(&mut self, tools: &mut Tools<'_>) -> Turn {
        loop {
            if self.closed {
                return Turn::Drained;
            }
            match self.stream.read(&mut tools.buffer) {
                Ok(0) => self.closed = true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }
}
