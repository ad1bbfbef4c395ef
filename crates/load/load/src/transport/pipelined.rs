//! HTTP/1.1 pipelining: requests are sent without waiting for the responses to earlier ones
//! (RFC 9112 section 9.3.2).
//!
//! Invariant: responses belong to the requests in order. If the server closes, unanswered requests
//! are sent again elsewhere, provided that their method allows it and the connection had delivered
//! a response. Otherwise they have failed. Requests are sent together, after all available
//! responses were read.

use super::multiplexed::{ConnectionQueue, Layer, Multiplexed};
use super::socket::{CountedSocket, Octets};
use super::{ConnectError, ConnectionState, PendingRequest, Tools, TransportEvent};
use crate::exchange::ExchangeTimes;
use crate::reader::{AnswerReader, ResponseReadError, ResponseSummary};
use clock::Monotonic;
use record::FailureKind;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// A connection with pipelined requests.
pub(crate) type Pipelined = Multiplexed<Line>;

/// The requests whose responses come one after the other.
pub(crate) struct Line {
    wire: CountedSocket,
    /// Requests whose responses have not come, in order.
    pending: VecDeque<PendingRequest>,
    /// Bytes to send, and how many of them are sent.
    outgoing: Vec<u8>,
    sent_bytes: usize,
    /// Whether writing has failed, so nothing more can be sent.
    is_deaf: bool,
    reader: AnswerReader,
}

/// How a connection ended.
#[derive(Clone, Copy)]
enum ConnectionEnd {
    /// The server will send no further response.
    Over,
    /// A response was invalid or did not come.
    Broken(FailureKind),
}

impl Layer for Line {
    const IS_HTTP2: bool = false;

    async fn begin(wire: CountedSocket) -> Result<Self, ConnectError> {
        Ok(Self {
            wire,
            pending: VecDeque::new(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            is_deaf: false,
            reader: AnswerReader::default(),
        })
    }

    fn turn(&mut self, queue: &mut ConnectionQueue, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        let waker = queue.waker.clone();
        let mut context = Context::from_waker(&waker);
        self.take(&mut queue.waiting, tools);
        // If writing fails, the server may still have responded, so reading goes on.
        self.is_deaf |= !self.is_deaf && matches!(self.poll_send(&mut context), Poll::Ready(Err(_)));
        let mut buffer = std::mem::take(&mut tools.buffer);
        let end = self.read(&mut context, &mut buffer, queue, tools);
        tools.buffer = buffer;
        if let Some(end) = end {
            self.end(end, queue, tools.resendable);
        }
        Ok(())
    }

    fn is_proven(&self, _: &Octets) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.pending.len()
    }

    fn under_way(&self) -> impl Iterator<Item = &ExchangeTimes> {
        self.pending.iter().map(|pending| &pending.exchange)
    }

    fn expire(&mut self, queue: &mut ConnectionQueue, now: Monotonic, limit: Duration, tools: &Tools<'_>) {
        if self.pending.front().is_some_and(|first| now.since(first.exchange.started) >= limit) {
            self.end(ConnectionEnd::Broken(FailureKind::Timeout), queue, tools.resendable);
        }
    }
}

impl Line {
    /// Appends requests to those in flight. They count as sent now.
    fn take(&mut self, waiting: &mut VecDeque<PendingRequest>, tools: &Tools<'_>) {
        let now = tools.clock.monotonic();
        for mut pending in waiting.drain(..) {
            pending.exchange.sent = now;
            self.outgoing.extend_from_slice(tools.image(&pending.exchange));
            self.pending.push_back(pending);
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
    fn broken(&self) -> ConnectionEnd {
        if self.reader.has_begun() {
            ConnectionEnd::Broken(FailureKind::Receive)
        } else {
            ConnectionEnd::Over
        }
    }

    /// Reads the available bytes. Returns how the connection ended, if it did.
    fn read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        queue: &mut ConnectionQueue,
        tools: &mut Tools<'_>,
    ) -> Option<ConnectionEnd> {
        loop {
            let mut room = ReadBuf::new(buffer);
            match Pin::new(&mut self.wire).poll_read(context, &mut room) {
                Poll::Pending if self.is_deaf && !queue.octets.is_turn_over() => {
                    return Some(self.broken());
                }
                Poll::Pending => return None,
                Poll::Ready(Err(_)) => return Some(self.broken()),
                Poll::Ready(Ok(())) if room.filled().is_empty() => {
                    return Some(self.closed(queue, tools));
                }
                Poll::Ready(Ok(())) => {}
            }
            if let Some(end) = self.feed(room.filled(), queue, tools) {
                return Some(end);
            }
        }
    }

    /// Processes received bytes. Returns how the connection ended, if it did.
    fn feed(
        &mut self,
        mut octets: &[u8],
        queue: &mut ConnectionQueue,
        tools: &mut Tools<'_>,
    ) -> Option<ConnectionEnd> {
        while !octets.is_empty() {
            let Some(PendingRequest { exchange, inspection }) = self.pending.front_mut() else {
                return Some(ConnectionEnd::Broken(FailureKind::Malformed));
            };
            let now = tools.clock.monotonic();
            let came = tools.came(queue.octets.stamp(), exchange, now);
            if !self.reader.has_begun() {
                exchange.first_octet = came;
            }
            exchange.receive(came, now);
            let mut content_bytes = 0;
            let fed = self.reader.feed_some(octets, &mut tools.memo, |content| {
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
                    self.answered(answer, now, queue);
                    if !answer.persistent {
                        return Some(ConnectionEnd::Over);
                    }
                }
                Err(_) => return Some(ConnectionEnd::Broken(FailureKind::Malformed)),
            }
        }
        None
    }

    /// Records a complete response.
    fn answered(&mut self, answer: ResponseSummary, now: Monotonic, queue: &mut ConnectionQueue) {
        if let Some(pending) = self.pending.pop_front() {
            queue.answered(pending, answer, now);
        }
    }

    /// Handles the server's close.
    fn closed(&mut self, queue: &mut ConnectionQueue, tools: &Tools<'_>) -> ConnectionEnd {
        match self.reader.end() {
            Ok(answer) => {
                let now = tools.clock.monotonic();
                if let Some(pending) = self.pending.front_mut() {
                    pending.exchange.end_with_close(now);
                }
                self.answered(ResponseSummary { persistent: false, ..answer }, now, queue);
                ConnectionEnd::Over
            }
            Err(ResponseReadError::Nothing) => ConnectionEnd::Over,
            Err(_) => ConnectionEnd::Broken(FailureKind::Receive),
        }
    }

    /// Returns the requests without a response. Only the first of them can have broken the
    /// connection.
    fn end(&mut self, end: ConnectionEnd, queue: &mut ConnectionQueue, resendable: bool) {
        queue.state = ConnectionState::Broken;
        let mut broken = match end {
            ConnectionEnd::Broken(kind) => Some(kind),
            ConnectionEnd::Over => None,
        };
        let is_resent = queue.answers > 0 && resendable;
        let ConnectionQueue { waiting, events, .. } = queue;
        for pending in self.pending.drain(..).chain(waiting.drain(..)) {
            events.push_back(match broken.take() {
                None if is_resent => TransportEvent::Returned(pending),
                kind => TransportEvent::Failed(pending, kind.unwrap_or(FailureKind::Receive), false),
            });
        }
    }
}
