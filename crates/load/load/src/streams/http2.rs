//! HTTP/2 on an established connection: its streams, each with one request.
//!
//! Invariant: a request that the server has not processed is sent again elsewhere, if the
//! connection had delivered a response. Every other request ends as answered or failed. The library
//! implements the protocol; only streams that it wakes are polled.

use super::dialling::ConnectError;
use super::exchange::{After, Stream};
use super::socket::{Counted, Greeting};
use super::wakes::CONNECTION;
use super::{Asked, Came, Carrier, State};
use crate::connection::Tools;
use crate::exchange::Exchange;
use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use record::FailureKind;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// How often a request is sent again after the server refused its stream.
const REFUSALS_MAX: u32 = 3;

/// The streams of a connection.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    connection: Box<Connection<Counted, Bytes>>,
    is_over: bool,
    streams: Vec<Option<Stream>>,
    free: Vec<usize>,
    /// The waker of the stream at each index.
    wakers: Vec<Waker>,
}

impl Http2 {
    pub(super) fn new(sender: SendRequest<Bytes>, connection: Box<Connection<Counted, Bytes>>) -> Self {
        Self { sender, connection, is_over: false, streams: Vec::new(), free: Vec::new(), wakers: Vec::new() }
    }

    /// Number of requests on it.
    pub(super) fn len(&self) -> usize {
        self.streams.len() - self.free.len()
    }

    pub(super) fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        self.streams.iter().flatten().map(|stream| &stream.asked.exchange)
    }

    /// Drops the streams of the matching requests and returns the requests. Dropping a stream
    /// resets it at the server.
    pub(super) fn take_where(&mut self, is_taken: impl Fn(&Exchange) -> bool) -> Vec<Asked> {
        let mut taken = Vec::new();
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream) = stream.take_if(|stream| is_taken(&stream.asked.exchange)) {
                taken.push(stream.asked);
                self.free.push(place);
            }
        }
        taken
    }

    /// Moves bytes in both directions. Returns whether the connection has just ended.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_over {
            return false;
        }
        // The result is not needed here, because the streams receive the error as well.
        self.is_over = Pin::new(&mut self.connection).poll(context).is_ready();
        self.is_over
    }
}

/// Why a server that sent this greeting does not speak HTTP/2; `None` if it does.
const fn not_spoken(greeting: Option<Greeting>) -> Option<&'static str> {
    match greeting {
        Some(Greeting::Settings) => None,
        Some(Greeting::Http1) => Some("it responded in HTTP/1; use --http 1.1"),
        Some(Greeting::Other) => Some("its response is not HTTP"),
        None => Some("it closed the connection without a response; use --http 1.1"),
    }
}

impl Carrier {
    /// Makes as much progress as possible.
    ///
    /// # Errors
    /// If the connection has ended and the server never began to speak HTTP/2. The connection then
    /// still holds its requests.
    pub(super) fn turn_http2(&mut self, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        let connection = self.waker.clone();
        loop {
            self.begin_streams();
            let State::H2(http2) = &mut self.state else { return Ok(()) };
            if http2.poll(&mut Context::from_waker(&connection)) {
                self.is_open = false;
                if let Some(reason) = not_spoken(self.octets.greeting()) {
                    self.waiting.extend(http2.take_where(|_| true));
                    return Err(ConnectError::Protocol(reason.to_owned()));
                }
                (0..http2.streams.len()).for_each(|place| self.wakes.wake(place));
            }
            let mut woken = std::mem::take(&mut self.woken);
            woken.clear();
            let is_any = self.wakes.take(&mut woken);
            for &place in woken.iter().filter(|&&place| place != CONNECTION) {
                self.turn_stream(place, tools);
            }
            self.woken = woken;
            if !is_any {
                return Ok(());
            }
        }
    }

    /// Opens a stream for each waiting request.
    fn begin_streams(&mut self) {
        let State::H2(http2) = &mut self.state else { return };
        for asked in self.waiting.drain(..) {
            let place = http2.free.pop().unwrap_or(http2.streams.len());
            if http2.wakers.len() <= place {
                http2.wakers.push(self.wakes.waker(place));
            }
            let waker = http2.wakers.get(place).cloned().unwrap_or_else(|| self.wakes.waker(place));
            let stream = Some(Stream::new(asked, waker));
            match http2.streams.get_mut(place) {
                Some(free) => *free = stream,
                None => http2.streams.push(stream),
            }
            self.wakes.wake(place);
        }
    }

    fn turn_stream(&mut self, place: usize, tools: &mut Tools<'_>) {
        let State::H2(http2) = &mut self.state else { return };
        let Some(stream) = http2.streams.get_mut(place).and_then(Option::as_mut) else { return };
        let after = match stream.poll(&http2.sender, &self.octets, tools) {
            Poll::Ready(after) => after,
            Poll::Pending if http2.is_over => After::Broken(FailureKind::Receive),
            Poll::Pending => return,
        };
        if matches!(after, After::Refused) && stream.refusals < REFUSALS_MAX {
            stream.begin_again();
            tools.recorder.resent += u64::from(stream.asked.exchange.measured);
            return self.wakes.wake(place);
        }
        let Some(Stream { mut asked, .. }) = http2.streams.get_mut(place).and_then(Option::take) else {
            return;
        };
        http2.free.push(place);
        self.is_open &= !matches!(after, After::Broken(_) | After::Unseen);
        self.came.push_back(match after {
            After::Answered(answer) => {
                self.answers += 1;
                let now = tools.clock.monotonic();
                let came = tools.came(self.octets.stamp(), &asked.exchange, now);
                asked.exchange.receive(came, now);
                Came::Answered(asked, answer, now)
            }
            After::Failed(kind) | After::Broken(kind) => Came::Failed(asked, kind),
            After::Unseen if self.answers > 0 => Came::Unseen(asked),
            After::Unseen | After::Refused => Came::Failed(asked, FailureKind::Receive),
        });
    }
}
