//! A client's connection: reads request heads and content, writes responses, and limits the time of
//! each.
//!
//! Invariant: bytes are sent in the order in which they were queued. A request's content is read
//! only as fast as it is passed on, except for the part that a buffer takes in advance. After the
//! connection has failed, nothing more is sent. This module does not interpret requests.

mod content;

use crate::http2::tunnel::Http2Tunnel;
use crate::http2::wire::Http2Wire;
use crate::memory::budget::MemoryShare;
use crate::memory::grant::Grant;
use crate::request::arrival::Arrival;
use crate::request::fragment_place::{FragmentPlace, Handover};
use crate::request::http1_wire::Http1Wire;
use crate::request::pace::Pace;
use crate::request::respond::SerialisedHead;
use bytes::{Bytes, BytesMut};
use config::EdgeLimits;
use content::RequestContent;
use h1::{BodyFraming, Request, RequestError};
use message::Fields;
use net::{Patience, Peer, Stream};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use store::Object;

/// Bytes of one read of request heads. Heads are small and many connections are idle, so it is low.
const HEAD_READ_BYTES: usize = 4 * 1024;

/// Bytes of one read of request content.
const CONTENT_READ_BYTES: usize = 64 * 1024;

/// Bytes that are gathered for one write, as long as they are available without waiting.
pub(crate) const BATCH_BYTES: u64 = 128 * 1024;

/// Queued bytes that need no memory from a budget: a head.
const QUEUE_ALLOWANCE_BYTES: u64 = 4 * 1024;

/// Bytes of a file that are sent at once.
const FILE_SEND_BYTES: u64 = 2 << 20;

/// Time and bytes for which input is read and discarded after the last response. The client can
/// then read the response before it learns that the connection is closed (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// A client's connection, or one stream of a connection with HTTP/2.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    wire: Wire,
    arrival: Arrival,
    limits: Arc<EdgeLimits>,
    head_limits: h1::Limits,
    content: RequestContent,
    read_patience: Patience,
    write_patience: Patience,
    read_pace: Pace,
    write_pace: Pace,
    received_bytes: u64,
    sent_bytes: u64,
    /// Bytes of the other responses of a connection with HTTP/2 when this one last waited.
    bytes_of_others: u64,
    /// The memory of the queue beyond its first piece.
    queue_grant: Option<Grant>,
    /// The page whose fragment is requested, if the client is the edge itself.
    fragment_of: Option<Handover>,
}

/// The protocol of a client.
#[derive(Debug)]
enum Wire {
    Http1(Http1Wire),
    Http2(Http2Wire),
}

/// The outcome of waiting for a request.
#[derive(Debug)]
pub(crate) enum ReceiveOutcome {
    /// A request head; its content can be read as an [`Upload`].
    Request(Box<Request>),
    /// Bytes that are not a valid request head.
    Malformed(RequestError),
    /// The client closed the connection, or it broke.
    Closed,
    /// No request began in time.
    Idle,
    /// A request began, but its head did not end in time.
    TimedOut,
}

/// Why a response could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The client closed the connection.
    Gone,
    /// The client read nothing for too long.
    TimedOut,
    /// The client read more slowly than `limits.response_rate_min`.
    TooSlow,
}

impl ClientConnection {
    /// A connection with HTTP/1.
    pub(crate) fn new(stream: Stream, arrival: impl Into<Arrival>, limits: Arc<EdgeLimits>) -> Self {
        Self::begun(stream, BytesMut::new(), arrival, limits)
    }

    /// A connection with HTTP/1 whose first bytes were already read.
    pub(crate) fn begun(
        stream: Stream,
        input: BytesMut,
        arrival: impl Into<Arrival>,
        limits: Arc<EdgeLimits>,
    ) -> Self {
        Self::of(Wire::Http1(Http1Wire::new(stream, input)), arrival.into(), limits)
    }

    /// A stream with HTTP/2 whose request was received. `continue_owed`: the client waits for 100
    /// (Continue) before it sends the content.
    pub(crate) fn http2(
        wire: Http2Wire,
        arrival: Arrival,
        limits: Arc<EdgeLimits>,
        continue_owed: bool,
    ) -> Self {
        let content = RequestContent::new(continue_owed, limits.request_body_bytes_max);
        Self { content, ..Self::of(Wire::Http2(wire), arrival, limits) }
    }

    fn of(wire: Wire, arrival: Arrival, limits: Arc<EdgeLimits>) -> Self {
        Self {
            wire,
            arrival,
            head_limits: head_limits(&limits),
            content: RequestContent::new(false, limits.request_body_bytes_max),
            limits,
            read_patience: Patience::new(),
            write_patience: Patience::new(),
            read_pace: Pace::default(),
            write_pace: Pace::default(),
            received_bytes: 0,
            sent_bytes: 0,
            bytes_of_others: 0,
            queue_grant: None,
            fragment_of: None,
        }
    }

    /// A connection within the edge, on which it requests a fragment.
    pub(crate) fn of_fragment(
        stream: Stream,
        arrival: Arrival,
        limits: Arc<EdgeLimits>,
        page: Handover,
    ) -> Self {
        Self { fragment_of: Some(page), ..Self::new(stream, arrival, limits) }
    }

    /// The page whose fragment is requested; `None` for a client's own request.
    pub(crate) fn fragment_of(&self) -> Option<&FragmentPlace> {
        self.fragment_of.as_ref().map(Handover::place)
    }

    /// Gives a stored response, or the gzip form of one, to the page whose fragment is requested.
    /// Returns false if it must be sent instead. `is_for_all`: whether every visitor gets it.
    pub(crate) fn hand_over(
        &mut self,
        object: &Arc<Object>,
        is_form: bool,
        is_for_all: impl Fn() -> bool,
    ) -> bool {
        let is_taken = self.fragment_of.as_ref().is_some_and(|page| page.give(object, is_form, is_for_all()));
        if is_taken {
            self.sent_bytes += object.content_bytes();
        }
        is_taken
    }

    pub(crate) fn peer(&self) -> Peer {
        self.arrival.peer
    }

    /// How the client reached the edge.
    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Obeys the limits of a new plan from the next request on.
    pub(crate) fn change_limits(&mut self, limits: Arc<EdgeLimits>) {
        self.head_limits = head_limits(&limits);
        self.limits = limits;
    }

    /// Whether the client speaks HTTP/2.
    pub(crate) const fn is_http2(&self) -> bool {
        matches!(self.wire, Wire::Http2(_))
    }

    /// The bytes received so far of an incomplete request head.
    pub(crate) fn begun_head(&self) -> &[u8] {
        match &self.wire {
            Wire::Http1(wire) => wire.input(),
            Wire::Http2(_) => &[],
        }
    }

    /// Raises the limit of the current request head to that of a purge order. Returns false if it
    /// was already raised, or if a purge order may not be longer.
    pub(crate) fn lengthen_head(&mut self) -> bool {
        let bytes_max = self.limits.purge_head_bytes_max;
        let is_longer = bytes_max > self.head_limits.head_bytes_max;
        if is_longer {
            (self.head_limits.head_bytes_max, self.head_limits.target_bytes_max) = (bytes_max, bytes_max);
        }
        is_longer
    }

    /// Receives the next request head of a connection with HTTP/1. Before its first byte, `stop`
    /// may end the wait as if the connection were idle.
    pub(crate) async fn receive(
        &mut self,
        mut stop: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
    ) -> ReceiveOutcome {
        self.read_patience.reset();
        // Content that the origin did not read would otherwise be kept as long as the connection.
        self.content.ahead = None;
        poll_fn(|context| self.poll_receive(context, stop.as_mut())).await
    }

    /// Queues the head of a response. Its content is pushed after it.
    pub(crate) fn push_head(&mut self, head: &SerialisedHead) {
        self.push_head_pieces(&[&head.octets], head.framing);
    }

    /// Queues a head in pieces of whole lines, the last of which ends with the empty line.
    pub(crate) fn push_head_pieces(&mut self, pieces: &[&Bytes], framing: BodyFraming) {
        match &mut self.wire {
            Wire::Http1(wire) => pieces.iter().for_each(|piece| wire.push((*piece).clone())),
            Wire::Http2(wire) => {
                wire.push_head(pieces, framing);
                self.sent_bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
            }
        }
    }

    /// Queues an informational response, or 101 (Switching Protocols).
    pub(crate) fn push_interim(&mut self, head: Bytes) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.push(head),
            Wire::Http2(wire) => wire.push_interim(&head),
        }
    }

    /// Queues content of a response whose length its head states.
    pub(crate) fn push(&mut self, octets: Bytes) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.push(octets),
            Wire::Http2(wire) => wire.push(octets),
        }
    }

    /// Queues a piece of content in this framing.
    pub(crate) fn push_content(&mut self, framing: BodyFraming, octets: Bytes) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.push_content(framing, octets),
            Wire::Http2(wire) => wire.push(octets),
        }
    }

    /// Queues pieces of content, which have `bytes` bytes, in this framing.
    pub(crate) fn push_gathered(
        &mut self,
        framing: BodyFraming,
        bytes: usize,
        pieces: impl Iterator<Item = Bytes>,
    ) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.push_gathered(framing, bytes, pieces),
            Wire::Http2(wire) => pieces.for_each(|piece| wire.push(piece)),
        }
    }

    /// Queues the end of content in this framing.
    pub(crate) fn push_end(&mut self, framing: BodyFraming, trailer: Option<&Fields>) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.push_end(framing, trailer),
            // The last byte of content with a known length was its end.
            Wire::Http2(_) if matches!(framing, BodyFraming::Length(_)) => {}
            Wire::Http2(wire) => wire.push_end(trailer),
        }
    }

    /// Number of queued bytes.
    pub(crate) fn queued_bytes(&self) -> usize {
        match &self.wire {
            Wire::Http1(wire) => wire.queued_bytes(),
            Wire::Http2(wire) => wire.queued_bytes(),
        }
    }

    /// Whether another piece of content may be queued, which this response alone holds. The first
    /// piece needs no budget; more pieces, up to [`BATCH_BYTES`], need memory of `share`.
    pub(crate) fn has_room(&mut self, share: &Arc<MemoryShare>) -> bool {
        let queued_bytes = self.queued_bytes() as u64;
        queued_bytes < QUEUE_ALLOWANCE_BYTES || self.queue_grant(share).has_room(queued_bytes)
    }

    /// Whether the queue, which is empty, may take a piece of `bytes` bytes in memory of `share`.
    pub(crate) fn has_room_for(&mut self, bytes: u64, share: &Arc<MemoryShare>) -> bool {
        self.queue_grant(share).has_room(bytes.saturating_sub(1))
    }

    fn queue_grant(&mut self, share: &Arc<MemoryShare>) -> &mut Grant {
        let grant = || Grant::new(share, QUEUE_ALLOWANCE_BYTES, QUEUE_ALLOWANCE_BYTES + BATCH_BYTES);
        self.queue_grant.get_or_insert_with(grant)
    }

    /// Whether [`ClientConnection::write_at_once`] can send a head and its content.
    pub(crate) fn writes_at_once(&self) -> bool {
        matches!(&self.wire, Wire::Http1(wire) if wire.queued_bytes() == 0)
    }

    /// Writes as much of `pieces` as the system accepts without blocking, if
    /// [`ClientConnection::writes_at_once`]. Returns the number of bytes written; the caller must
    /// queue the rest.
    pub(crate) fn write_at_once<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, SendError> {
        self.write_now(pieces, false)
    }

    /// As [`ClientConnection::write_at_once`], for a head that [`ClientConnection::send_file`]
    /// follows.
    pub(crate) fn write_before_file<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, SendError> {
        self.write_now(pieces, true)
    }

    fn write_now<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
        file_follows: bool,
    ) -> Result<usize, SendError> {
        let Wire::Http1(wire) = &mut self.wire else { return Ok(0) };
        let written = wire.write_at_once(pieces, file_follows).map_err(|_| SendError::Gone)?;
        self.sent_bytes += written as u64;
        Ok(written)
    }

    /// Sends all queued bytes.
    pub(crate) async fn flush(&mut self) -> Result<(), SendError> {
        self.write_patience.reset();
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Restarts the time limit for writing. Must be called before [`ClientConnection::poll_flush`]
    /// is polled directly.
    pub(crate) fn begin_flush(&mut self) {
        self.write_patience.reset();
    }

    /// Writes the queue; ready when it is empty.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        while self.has_output() {
            let written = match &mut self.wire {
                Wire::Http1(wire) => wire.poll_write(context),
                Wire::Http2(wire) => wire.poll_write(context),
            };
            match written {
                Poll::Ready(Ok(written)) => {
                    self.write_patience.reset();
                    self.write_pace.moved(written);
                    self.sent_bytes += written as u64;
                }
                Poll::Ready(Err(_)) => {
                    self.give_up();
                    return Poll::Ready(Err(SendError::Gone));
                }
                Poll::Pending => {
                    let error = ready!(self.poll_too_late(context));
                    self.give_up();
                    return Poll::Ready(Err(error));
                }
            }
        }
        let flushed = match &mut self.wire {
            Wire::Http1(wire) => wire.poll_flush(context),
            Wire::Http2(_) => Poll::Ready(Ok(())),
        };
        match flushed {
            Poll::Ready(Ok(())) => {
                self.queue_grant = None;
                // A pause of the origin that follows is not the client's.
                self.write_pace.moved(0);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(SendError::Gone)),
            Poll::Pending => self.poll_too_late(context).map(Err),
        }
    }

    fn has_output(&self) -> bool {
        match &self.wire {
            Wire::Http1(wire) => wire.queued_bytes() > 0,
            Wire::Http2(wire) => wire.has_output(),
        }
    }

    /// Drops the queue, because the client accepts no more.
    fn give_up(&mut self) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.give_up(),
            Wire::Http2(wire) => wire.abandon(),
        }
    }

    /// Ends a stream with HTTP/2 whose response is incomplete, so that the client learns it.
    pub(crate) fn abandon(&mut self) {
        if let Wire::Http2(wire) = &mut self.wire {
            wire.abandon();
        }
    }

    /// Closes a connection with HTTP/1 after its last response. TLS says that this is the end, so
    /// that the client can tell it from a truncation (RFC 8446 section 6.1).
    pub(crate) async fn close(self) {
        if let Wire::Http1(mut wire) = self.wire
            && wire.stream().is_secured()
        {
            // A client that reads nothing does not learn it.
            let goodbye = tokio::io::AsyncWriteExt::shutdown(wire.stream());
            let _ = tokio::time::timeout(LINGER, goodbye).await;
        }
    }

    /// Whether the system can send files on this connection. It cannot encrypt them for TLS.
    pub(crate) fn takes_files(&self) -> bool {
        matches!(&self.wire, Wire::Http1(wire) if wire.takes_files())
    }

    /// Sends `bytes` bytes of a file, starting at `offset`, as long as `is_good` says so before
    /// each step; nothing may be queued. Returns the number of bytes sent, which is smaller if the
    /// file ends early or cannot be read.
    pub(crate) async fn send_file(
        &mut self,
        file: &File,
        mut offset: u64,
        bytes: u64,
        is_good: impl Fn() -> bool,
    ) -> Result<u64, SendError> {
        let (begin, end) = (offset, offset + bytes);
        self.write_patience.reset();
        while offset < end {
            // Between two steps, other connections of this worker get their turn.
            let count = (end - offset).min(FILE_SEND_BYTES) as usize;
            let sending = poll_fn(|context| match is_good() {
                true => self.poll_send_file(context, file, &mut offset, count),
                false => Poll::Ready(Ok(0)),
            });
            let sent = sending.await?;
            if sent == 0 {
                break;
            }
            self.write_patience.reset();
            self.write_pace.moved(sent);
            self.sent_bytes += sent as u64;
        }
        Ok(offset - begin)
    }

    fn poll_send_file(
        &mut self,
        context: &mut Context<'_>,
        file: &File,
        offset: &mut u64,
        count: usize,
    ) -> Poll<Result<usize, SendError>> {
        let Wire::Http1(wire) = &self.wire else { return Poll::Ready(Ok(0)) };
        match wire.poll_send_file(context, file, offset, count) {
            Poll::Ready(Ok(sent)) => Poll::Ready(Ok(sent)),
            Poll::Ready(Err(error)) if is_of_connection(&error) => Poll::Ready(Err(SendError::Gone)),
            // An error of the file. If it belongs to the connection after all, the next write
            // reports it.
            Poll::Ready(Err(_)) => Poll::Ready(Ok(0)),
            Poll::Pending => self.poll_too_late(context).map(Err),
        }
    }

    /// Ready when a client whose socket is full has read nothing for too long, or too little.
    fn poll_too_late(&mut self, context: &mut Context<'_>) -> Poll<SendError> {
        let EdgeLimits { write_timeout, response_rate_min, rate_window, .. } = *self.limits;
        if let Wire::Http2(wire) = &self.wire
            && let others = wire.bytes_of_others()
            && std::mem::replace(&mut self.bytes_of_others, others) != others
        {
            // Another response of the connection was sent meanwhile, so the client is not slow.
            self.write_patience.reset();
            self.write_pace.reset();
        }
        if self.write_pace.poll_too_slow(context, response_rate_min, rate_window).is_ready() {
            return Poll::Ready(SendError::TooSlow);
        }
        self.write_patience.poll_over(context, write_timeout).map(|()| SendError::TimedOut)
    }

    /// Whether the whole content of the current request has been read.
    pub(crate) fn is_content_read(&self) -> bool {
        match &self.wire {
            Wire::Http1(wire) => wire.is_content_read(),
            Wire::Http2(wire) => wire.is_content_read(),
        }
    }

    /// Whether the whole content of the current request has been passed to the origin.
    pub(crate) fn is_content_passed_on(&self) -> bool {
        self.is_content_read() && self.content.ahead.is_none()
    }

    /// Whether the whole request has been read and no further input follows it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_content_read() && self.begun_head().is_empty()
    }

    /// Bytes sent since the last call of [`ClientConnection::take_octet_counts`].
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes received and sent since the last call.
    pub(crate) fn take_octet_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.received_bytes), std::mem::take(&mut self.sent_bytes))
    }

    /// Closes a connection with HTTP/1 after the last response to a client that may still be
    /// sending. First shuts down the sending side, then reads and discards input for a moment:
    /// closing with unread input would make the client lose the response.
    pub(crate) async fn linger(self) {
        let Wire::Http1(mut wire) = self.wire else { return };
        let goodbye = async {
            if tokio::io::AsyncWriteExt::shutdown(wire.stream()).await.is_err() {
                return;
            }
            let mut discarded = 0;
            while discarded < LINGER_BYTES_MAX {
                wire.clear_input();
                match poll_fn(|context| wire.poll_fill(context, HEAD_READ_BYTES)).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => discarded += read,
                }
            }
        };
        // A client that sends for longer may lose its response.
        let _ = tokio::time::timeout(LINGER, goodbye).await;
    }

    /// Tells the socket whether the end of the connection marks the end of the response, which is
    /// true while `begun`. Until the response is complete, every other way of closing must then be
    /// a reset.
    pub(crate) fn end_means_whole(&mut self, begun: bool) {
        // On HTTP/2, END_STREAM marks the end.
        if let Wire::Http1(wire) = &mut self.wire {
            wire.stream().reset_on_close(begun);
        }
    }

    /// The connection and the bytes that were read ahead, for another protocol.
    pub(crate) fn into_tunnel(self) -> (Stream, BytesMut) {
        match self.wire {
            Wire::Http1(wire) => wire.into_parts(),
            Wire::Http2(wire) => (Stream::Other(Box::new(Http2Tunnel::new(wire))), BytesMut::new()),
        }
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        stop: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
    ) -> Poll<ReceiveOutcome> {
        loop {
            let Wire::Http1(wire) = &mut self.wire else { return Poll::Ready(ReceiveOutcome::Closed) };
            match wire.parse(&self.head_limits) {
                Ok(Some(request)) => {
                    self.head_limits = head_limits(&self.limits);
                    let bytes_max = self.limits.request_body_bytes_max;
                    self.content = RequestContent::new(request.expect_continue, bytes_max);
                    self.read_patience.reset();
                    self.read_pace.reset();
                    self.write_pace.reset();
                    return Poll::Ready(ReceiveOutcome::Request(Box::new(request)));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(ReceiveOutcome::Malformed(error)),
            }
            let idle = wire.input().is_empty();
            match self.poll_fill(context, HEAD_READ_BYTES) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(ReceiveOutcome::Closed),
                Poll::Ready(Ok(_)) if idle => self.read_patience.reset(),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending if idle => {
                    if let Wire::Http1(wire) = &mut self.wire {
                        wire.release_input();
                    }
                    let limit = self.limits.idle_timeout;
                    let over = self.read_patience.poll_over(context, limit).is_ready();
                    return if over || stop.poll(context).is_ready() {
                        Poll::Ready(ReceiveOutcome::Idle)
                    } else {
                        Poll::Pending
                    };
                }
                Poll::Pending => {
                    let limit = self.limits.request_head_timeout;
                    return self.read_patience.poll_over(context, limit).map(|()| ReceiveOutcome::TimedOut);
                }
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>, octets: usize) -> Poll<io::Result<usize>> {
        let read = ready!(match &mut self.wire {
            Wire::Http1(wire) => wire.poll_fill(context, octets),
            Wire::Http2(wire) => wire.poll_fill(context),
        });
        self.received_bytes += read.as_ref().map_or(0, |read| *read as u64);
        Poll::Ready(read)
    }
}

/// Limits of the head of a client's request.
pub(crate) fn head_limits(limits: &EdgeLimits) -> h1::Limits {
    h1::Limits {
        head_bytes_max: limits.request_head_bytes_max,
        fields_max: limits.request_fields_max,
        target_bytes_max: limits.request_head_bytes_max,
        ..h1::Limits::DEFAULT
    }
}

/// Whether sendfile failed because of the connection rather than the file.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    )
}
