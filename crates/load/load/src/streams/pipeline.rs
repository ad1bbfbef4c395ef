//! HTTP/1.1 pipelining: requests are sent without waiting for the responses to earlier ones
//! (RFC 9112 section 9.3.2).
//!
//! Invariant: responses belong to the requests in order. If the server closes, unanswered requests
//! are sent again elsewhere, provided that their method allows it and the connection had delivered
//! a response. Otherwise they have failed. Requests are sent together, after all available
//! responses were read.

use super::socket::Counted;
use super::{Asked, Came, Carrier, State};
use crate::connection::Tools;
use crate::exchange::Exchange;
use crate::reader::{Answer, AnswerReader, ReadError};
use clock::Monotonic;
use record::FailureKind;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// A connection and the requests on it.
pub(super) struct Line {
    wire: Box<Counted>,
    /// Requests whose responses have not come, in order.
    pending: VecDeque<Asked>,
    /// Bytes to send, and how many of them are sent.
    outgoing: Vec<u8>,
    sent_bytes: usize,
    /// Whether writing has failed, so nothing more can be sent.
    is_deaf: bool,
    reader: AnswerReader,
}

/// How a connection ended.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The server will send no further response.
    Over,
    /// A response was invalid or did not come.
    Broken(FailureKind),
}

impl Line {
    pub(super) fn new(wire: Box<Counted>) -> Self {
        Self {
            wire,
            pending: VecDeque::new(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            is_deaf: false,
            reader: AnswerReader::default(),
        }
    }

    /// Number of requests on it.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        self.pending.iter().map(|asked| &asked.exchange)
    }

    /// Appends requests to those in flight. They count as sent now.
    fn take(&mut self, waiting: &mut VecDeque<Asked>, tools: &Tools<'_>) {
        let now = tools.clock.monotonic();
        for mut asked in waiting.drain(..) {
            asked.exchange.sent = now;
            self.outgoing.extend_from_slice(tools.image(&asked.exchange));
            self.pending.push_back(asked);
        }
    }

    /// Writes as much as the socket takes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.outgoing.get(self.sent_bytes..) {
            match ready!(Pin::new(&mut self.wire).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => self.sent_bytes += bytes,
            }
        }
        self.outgoing.clear();
        self.sent_bytes = 0;
        Pin::new(&mut self.wire).poll_flush(context)
    }

    /// The result of a failed read.
    fn broken(&self) -> End {
        if self.reader.has_begun() { End::Broken(FailureKind::Receive) } else { End::Over }
    }
}

impl Carrier {
    pub(super) fn turn_line(&mut self, tools: &mut Tools<'_>) {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        let State::Line(line) = &mut self.state else { return };
        line.take(&mut self.waiting, tools);
        // If writing fails, the server may still have responded, so reading goes on.
        line.is_deaf |= !line.is_deaf && matches!(line.poll_send(&mut context), Poll::Ready(Err(_)));
        let mut buffer = std::mem::take(&mut tools.buffer);
        let end = self.read(&mut context, &mut buffer, tools);
        tools.buffer = buffer;
        if let Some(end) = end {
            self.end_line(end, tools.resendable);
        }
    }

    /// Reads the available bytes. Returns how the connection ended, if it did.
    fn read(&mut self, context: &mut Context<'_>, buffer: &mut [u8], tools: &mut Tools<'_>) -> Option<End> {
        loop {
            let State::Line(line) = &mut self.state else { return None };
            let mut room = ReadBuf::new(buffer);
            match Pin::new(&mut line.wire).poll_read(context, &mut room) {
                Poll::Pending if line.is_deaf && !line.wire.octets.is_turn_over() => {
                    return Some(line.broken());
                }
                Poll::Pending => return None,
                Poll::Ready(Err(_)) => return Some(line.broken()),
                Poll::Ready(Ok(())) if room.filled().is_empty() => return Some(self.closed(tools)),
                Poll::Ready(Ok(())) => {}
            }
            if let Some(end) = self.feed(room.filled(), tools) {
                return Some(end);
            }
        }
    }

    /// Processes received bytes. Returns how the connection ended, if it did.
    fn feed(&mut self, mut octets: &[u8], tools: &mut Tools<'_>) -> Option<End> {
        while !octets.is_empty() {
            let State::Line(line) = &mut self.state else { return None };
            let Some(Asked { exchange, inspection }) = line.pending.front_mut() else {
                return Some(End::Broken(FailureKind::Malformed));
            };
            let now = tools.clock.monotonic();
            let came = tools.came(line.wire.octets.stamp(), exchange, now);
            if !line.reader.has_begun() {
                exchange.first_octet = came;
            }
            exchange.receive(came, now);
            let mut content_bytes = 0;
            let fed = line.reader.feed_some(octets, &mut tools.memo, |content| {
                content_bytes += content.len() as u64;
                inspection.take(content);
            });
            if exchange.measured {
                tools.recorder.content_bytes += content_bytes;
            }
            match fed {
                Ok((_, None)) => return None,
                Ok((consumed, Some(answer))) => {
                    octets = octets.get(consumed..).unwrap_or_default();
                    self.answered(answer, now);
                    if !answer.persistent {
                        return Some(End::Over);
                    }
                }
                Err(_) => return Some(End::Broken(FailureKind::Malformed)),
            }
        }
        None
    }

    /// Records a complete response.
    fn answered(&mut self, answer: Answer, now: Monotonic) {
        let State::Line(line) = &mut self.state else { return };
        let Some(asked) = line.pending.pop_front() else { return };
        self.answers += 1;
        self.is_open &= answer.persistent;
        self.came.push_back(Came::Answered(asked, answer, now));
    }

    /// Handles the server's close.
    fn closed(&mut self, tools: &Tools<'_>) -> End {
        let State::Line(line) = &mut self.state else { return End::Over };
        match line.reader.end() {
            Ok(answer) => {
                let now = tools.clock.monotonic();
                line.pending.front_mut().into_iter().for_each(|asked| asked.exchange.end_with_close(now));
                self.answered(Answer { persistent: false, ..answer }, now);
                End::Over
            }
            Err(ReadError::Nothing) => End::Over,
            Err(_) => End::Broken(FailureKind::Receive),
        }
    }

    /// Returns the requests without a response. Only the first of them can have broken the
    /// connection.
    pub(super) fn end_line(&mut self, end: End, resendable: bool) {
        self.is_open = false;
        let State::Line(line) = &mut self.state else { return };
        let mut broken = match end {
            End::Broken(kind) => Some(kind),
            End::Over => None,
        };
        let is_resent = self.answers > 0 && resendable;
        for asked in line.pending.drain(..).chain(self.waiting.drain(..)) {
            self.came.push_back(match broken.take() {
                None if is_resent => Came::Unseen(asked),
                kind => Came::Failed(asked, kind.unwrap_or(FailureKind::Receive)),
            });
        }
    }
}
