//! One request to an origin and its response, with content streaming both ways.
//!
//! Invariant: a connection returns to the pool only after a complete exchange. The whole request
//! was sent, the response ended as its framing said, and no unread bytes follow it. In every other
//! case dropping the exchange closes the connection.
//!
//! The pool does not reuse an idle connection on which bytes have arrived. Once the next request
//! was sent, all bytes count as its response, because nothing distinguishes them. The exchange does
//! not interpret responses.

use crate::error::{FetchError, UploadError};
use crate::group::{Alternatives, is_unsent};
use crate::health::WatchedFetch;
use crate::limit::FetchPermit;
use crate::origin::{FetchRequest, FetchTiming, Origin, OriginConnection, Settings};
use address::OriginUrl;
use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use clock::Monotonic;
use h1::client::{self, Terms};
use h1::{BodyFraming, Strictness};
use message::{Fields, Frame, ResponseHead, Status};
use net::{Patience, Stream};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite};

/// Bytes of the first read from the origin. Most pages fit into it. While there is little memory, a
/// response that waits for its client has no more.
const FIRST_READ_BYTES: usize = 16 * 1024;

/// Largest number of bytes in one read from the origin.
const READ_BYTES_MAX: usize = 64 * 1024;

/// The longest wait for the origin's 100 (Continue) before the content is sent without it. Many
/// origins never send this response (RFC 9110 section 10.1.1).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// Largest number of informational responses before the final one; origins send one or two. The
/// limit protects memory, because the edge may keep these responses for followers of the fetch.
const INFORMATIONAL_MAX: u32 = 32;

/// The source of a request's content.
pub trait Upload {
    /// Polls for the next frame. It is not called again after [`Frame::End`].
    ///
    /// # Errors
    /// [`UploadError`] if the content does not arrive completely.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Frame, UploadError>>;
}

/// The upload of a request without content.
#[derive(Clone, Copy, Debug)]
pub struct NoUpload;

impl Upload for NoUpload {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Result<Frame, UploadError>> {
        Poll::Ready(Ok(Frame::End(None)))
    }
}

/// An event of the response, in this order: any number of informational heads, the head, content,
/// the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginEvent {
    /// A 1xx response other than 101; another head follows.
    Informational(ResponseHead),
    /// The final response's head, or 101 (Switching Protocols).
    Head {
        /// Status and fields as received.
        head: ResponseHead,
        /// How the end of the content is determined.
        framing: BodyFraming,
    },
    /// A piece of the content; never empty.
    Data(Bytes),
    /// The end of the content, with the trailer fields if there were any.
    End(Option<Fields>),
}

/// A request that was sent or is about to be, with its response.
#[derive(Debug)]
pub struct OriginExchange {
    origin: Arc<Origin>,
    /// `None` for a health check, and once it was given up.
    permit: Option<FetchPermit>,
    is_check: bool,
    watched: WatchedFetch,
    request: FetchRequest,
    link: OriginLink,
    timing: FetchTiming,
    upload: UploadState,
    /// Whether the fetch was stalled because the rest of the request's content has not arrived.
    is_starved: bool,
    patience: Patience,
    continue_patience: Patience,
    /// The other origins of the group.
    alternatives: Option<Alternatives>,
}

/// The connection, with the bytes that were read and not parsed, and the bytes to be written.
#[derive(Debug)]
struct OriginLink {
    /// `None` once the response is complete: the connection returned to the pool or was closed.
    stream: Option<Stream>,
    /// When the connection was made.
    made: Monotonic,
    /// Whether the connection carried a request before this one.
    reused: bool,
    /// Parses the response.
    reading: client::Exchange,
    input: BytesMut,
    /// Bytes of the next read. Doubles with each read that fills its room.
    read_bytes: usize,
    output: BytesMut,
    /// Bytes that the stream has taken and that were not counted yet.
    written_bytes: usize,
    /// Whether the stream may hold bytes that it took and has not sent, as TLS does.
    holds_output: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UploadState {
    /// Held back until the origin sends 100 (Continue) or [`CONTINUE_WAIT`] is over.
    Held,
    Streaming,
    Done,
    /// The origin stopped reading, or does not want the content; its response may still come.
    Abandoned,
}

impl OriginExchange {
    pub(crate) fn new(
        origin: Arc<Origin>,
        permit: Option<FetchPermit>,
        watched: WatchedFetch,
        request: FetchRequest,
        connection: OriginConnection,
        timing: FetchTiming,
    ) -> Self {
        let upload = match request.framing {
            BodyFraming::Empty | BodyFraming::UntilClose => UploadState::Done,
            BodyFraming::Length(_) | BodyFraming::Chunked if request.expect_continue => UploadState::Held,
            BodyFraming::Length(_) | BodyFraming::Chunked => UploadState::Streaming,
        };
        let link = OriginLink::new(connection, &request, origin.settings());
        Self {
            origin,
            is_check: permit.is_none(),
            permit,
            watched,
            request,
            link,
            timing,
            upload,
            is_starved: false,
            patience: Patience::new(),
            continue_patience: Patience::new(),
            alternatives: None,
        }
    }

    /// The same exchange, whose request may go to other origins.
    pub(crate) fn with_alternatives(self, alternatives: Alternatives) -> Self {
        Self { alternatives: Some(alternatives), ..self }
    }

    /// The origin that the request goes to.
    pub fn origin_url(&self) -> &OriginUrl {
        self.origin.url()
    }

    /// The times until the request could leave.
    pub const fn timing(&self) -> FetchTiming {
        self.timing
    }

    /// The next event of the response.
    ///
    /// The request is sent once more, on a new connection, if a reused connection ends without a
    /// byte of the response. If a new connection ends in this way, it goes to another origin. Only
    /// an idempotent request without content is repeated.
    ///
    /// # Errors
    /// [`FetchError`]. The exchange is over then.
    pub async fn next(&mut self, upload: &mut impl Upload) -> Result<OriginEvent, FetchError> {
        loop {
            self.patience.reset();
            let mut is_repeated = false;
            let event = match poll_fn(|context| self.poll_event(context, upload)).await {
                // TLS may report the end of an idle connection by an alert.
                Err(error) if self.link.reused && self.is_unanswered(&error) => {
                    is_repeated = true;
                    self.repeat(upload).await
                }
                other => other,
            };
            let Err(error) = event else { return event };
            self.count(&error);
            self.watched.failed(&error, &self.request);
            // An origin that has ended closes its idle connections and refuses a new one.
            let may_move = self.is_unanswered(&error) || is_repeated && is_unsent(&error);
            let alternatives = if may_move { self.alternatives.take() } else { None };
            let Some(alternatives) = alternatives else { return Err(error) };
            // The failed origin has the request no longer.
            self.permit = None;
            self.link.stream = None;
            *self = alternatives.fetch(self.request.clone(), error).await?;
        }
    }

    /// Sends the request once more, on a new connection.
    async fn repeat(&mut self, upload: &mut impl Upload) -> Result<OriginEvent, FetchError> {
        self.origin.tally.retry();
        let connection = self.origin.connect(self.request.client).await?;
        self.link = OriginLink::new(connection, &self.request, self.origin.settings());
        self.upload = UploadState::Done;
        self.patience.reset();
        poll_fn(|context| self.poll_event(context, upload)).await
    }

    /// Polls for the next event as [`OriginExchange::next`] does, but never repeats the request.
    /// Use it for the content, once the head has arrived. Call [`OriginExchange::resume`] before
    /// the first poll and after any time without polls.
    ///
    /// # Errors
    /// [`FetchError`]. The exchange is over then.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        upload: &mut impl Upload,
    ) -> Poll<Result<OriginEvent, FetchError>> {
        let polled = self.poll_event(context, upload);
        if let Poll::Ready(Err(error)) = &polled {
            self.count(error);
        }
        polled
    }

    /// Counts an error, unless it is that of a health check.
    fn count(&self, error: &FetchError) {
        if !self.is_check {
            self.origin.tally.failed(error);
        }
    }

    /// Restarts the time limit for the origin, after a time without polls.
    pub fn resume(&mut self) {
        self.patience.reset();
    }

    /// Bytes of the next read of the response, at most. They grow while reads fill their room.
    pub const fn next_read_bytes(&self) -> usize {
        self.link.read_bytes
    }

    /// Makes the next read a short one of 16 KiB, because its bytes will have to wait while there
    /// is little memory.
    pub const fn shorten_next_read(&mut self) {
        self.link.read_bytes = FIRST_READ_BYTES;
    }

    /// Sends more of the request's content without reading the response, while the caller holds the
    /// response back. The poll is ready only if the upload failed.
    pub fn poll_upload(&mut self, context: &mut Context<'_>, upload: &mut impl Upload) -> Poll<UploadError> {
        match self.poll_send(context, upload) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// Whether the whole request was sent.
    pub fn is_uploaded(&self) -> bool {
        self.upload == UploadState::Done && self.link.is_written()
    }

    /// Gives up the permit, so that another fetch can begin although this one goes on. Used for
    /// responses that stay open until the visitor leaves, such as server-sent events.
    pub fn release_turn(&mut self) {
        self.permit = None;
    }

    /// Lets another fetch begin while the origin waits for a slow client.
    ///
    /// Returns `false` if the fetch is stalled already, if it gave up its permit, or if the limit
    /// of stalled fetches is reached. The fetch counts as active again at the next poll for an
    /// event.
    pub fn stall(&mut self) -> bool {
        self.permit.as_mut().is_some_and(FetchPermit::stall)
    }

    /// Returns the connection after a head with status 101, and the bytes that the origin already
    /// sent on it. `None` if the response is over.
    pub fn into_tunnel(self) -> Option<(Stream, BytesMut)> {
        Some((self.link.stream?, self.link.input))
    }

    /// Whether the connection ended without a byte of the response, and the request can be
    /// repeated.
    fn is_unanswered(&self, error: &FetchError) -> bool {
        matches!(error, FetchError::Closed | FetchError::Tls(_))
            && !self.link.reading.has_begun()
            && self.request.is_replayable()
    }

    fn poll_event(
        &mut self,
        context: &mut Context<'_>,
        upload: &mut impl Upload,
    ) -> Poll<Result<OriginEvent, FetchError>> {
        // A stalled fetch counts as active again when its response is read, unless the origin still
        // waits for the rest of the request.
        if !self.is_starved {
            self.permit.as_mut().into_iter().for_each(FetchPermit::resume);
        }
        let sending = self.poll_send(context, upload)?;
        if let Poll::Ready(event) = self.poll_receive(context)? {
            return Poll::Ready(Ok(event));
        }
        // While the client is slow to send, the origin's time limit does not run.
        let waits_for_visitor = sending.is_pending() && self.link.is_written();
        if waits_for_visitor {
            self.patience.reset();
            return Poll::Pending;
        }
        let settings = self.origin.settings();
        let begun = self.link.reading.has_begun() || sending.is_pending();
        let (limit, error) = if begun {
            (settings.between_bytes_timeout, FetchError::BetweenBytesTimeout)
        } else {
            (settings.first_byte_timeout, FetchError::FirstByteTimeout)
        };
        self.patience.poll_over(context, limit).map(|()| Err(error))
    }

    /// Writes the request. Ready once all of it was written or the origin reads no more.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        upload: &mut impl Upload,
    ) -> Poll<Result<(), UploadError>> {
        loop {
            let flushed = self.link.poll_flush(context, &mut self.patience);
            self.origin.tally.sent(std::mem::take(&mut self.link.written_bytes));
            if ready!(flushed).is_err() {
                self.abandon_upload();
            }
            match self.upload {
                UploadState::Done | UploadState::Abandoned => return Poll::Ready(Ok(())),
                UploadState::Held => {
                    ready!(self.continue_patience.poll_over(context, CONTINUE_WAIT));
                    self.upload = UploadState::Streaming;
                }
                UploadState::Streaming => {
                    let Poll::Ready(frame) = upload.poll_frame(context) else {
                        self.is_starved |= self.stall();
                        return Poll::Pending;
                    };
                    if std::mem::take(&mut self.is_starved) {
                        self.permit.as_mut().into_iter().for_each(FetchPermit::resume);
                    }
                    match frame? {
                        Frame::Data(octets) => self.queue_data(&octets),
                        Frame::End(trailer) => self.queue_end(trailer.as_deref()),
                    }
                }
            }
        }
    }

    /// The origin stopped reading, which is allowed. Its response, or the lack of one, decides the
    /// result.
    fn abandon_upload(&mut self) {
        self.link.give_up_output();
        self.upload = UploadState::Abandoned;
    }

    fn queue_data(&mut self, octets: &[u8]) {
        match self.request.framing {
            BodyFraming::Chunked => h1::write_chunk(&mut self.link.output, octets),
            BodyFraming::Empty | BodyFraming::Length(_) | BodyFraming::UntilClose => {
                self.link.output.extend_from_slice(octets);
            }
        }
    }

    fn queue_end(&mut self, trailer: Option<&Fields>) {
        self.upload = UploadState::Done;
        if self.request.framing == BodyFraming::Chunked
            && h1::write_last_chunk(&mut self.link.output, trailer).is_err()
        {
            // Trailer fields are parsed as strictly as the writer checks them, so this is not
            // expected. A recipient may discard trailer fields (RFC 9110 section 6.5.1). Without
            // trailer fields the write cannot fail.
            let _ = h1::write_last_chunk(&mut self.link.output, None);
        }
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<OriginEvent, FetchError>> {
        loop {
            if let Some(event) = self.link.reading.next(&mut self.link.input)? {
                return Poll::Ready(self.take(event));
            }
            match ready!(self.link.poll_fill(context)) {
                Ok(0) => {
                    let end = self.link.reading.close()?;
                    return Poll::Ready(self.take(client::ResponseEvent::End(end)));
                }
                Ok(bytes) => {
                    self.origin.tally.received(bytes);
                    self.watched.answered();
                    self.patience.reset();
                }
                Err(error) => return Poll::Ready(Err(self.broken(&error))),
            }
        }
    }

    /// The error for a connection that broke. Before the first byte of a response, TLS may know
    /// why: in version 1.3 an origin refuses the client's certificate only after the handshake.
    fn broken(&self, error: &io::Error) -> FetchError {
        let by_tls = if self.link.reading.has_begun() { None } else { self.origin.tls_error(error) };
        by_tls.map_or_else(|| self.link.reading.broken().into(), FetchError::Tls)
    }

    /// Updates the upload, the permit and the connection after an event of the response.
    fn take(&mut self, event: client::ResponseEvent) -> Result<OriginEvent, FetchError> {
        match event {
            client::ResponseEvent::Informational(head) => {
                if head.status.code() == 100 && self.upload == UploadState::Held {
                    self.upload = UploadState::Streaming;
                }
                Ok(OriginEvent::Informational(head))
            }
            client::ResponseEvent::Head(response) => {
                if self.upload == UploadState::Held {
                    // The origin answered `Expect: 100-continue` with a final response, so it does
                    // not want the content (RFC 9110 section 10.1.1).
                    self.upload = UploadState::Abandoned;
                }
                let status = response.head.status.code();
                self.learn(status);
                if response.head.status == Status::NOT_MODIFIED && !self.request.is_conditional {
                    return Err(FetchError::UnaskedNotModified);
                }
                Ok(OriginEvent::Head { head: response.head, framing: response.framing })
            }
            client::ResponseEvent::Data(octets) => Ok(OriginEvent::Data(octets)),
            client::ResponseEvent::End(end) => {
                self.finish(end.is_reusable);
                Ok(OriginEvent::End(end.trailer))
            }
        }
    }

    /// Reports a response to a visitor's request to the origin. Errors, which are often quick, do
    /// not count for the limit, nor does a request whose client decides when it is complete.
    fn learn(&mut self, status: u16) {
        let now = self.origin.clock.monotonic();
        if self.is_check {
            return;
        }
        self.origin.tally.response(status);
        self.origin.service.responded(status, || self.request.page_digest(), now);
        if status < 500
            && status != 429
            && self.request.framing.is_empty()
            && let Some(permit) = &mut self.permit
        {
            permit.answered(|| self.request.page_digest(), now.since(self.timing.connected), now);
        }
    }

    /// Ends a complete response: gives up the permit, and keeps the connection if it is reusable.
    fn finish(&mut self, is_reusable: bool) {
        self.permit = None;
        match self.link.stream.take() {
            Some(stream) if is_reusable && self.is_uploaded() => {
                self.origin.keep((stream, self.link.made), self.request.client)
            }
            _ => {}
        }
    }
}

impl OriginLink {
    fn new(connection: OriginConnection, request: &FetchRequest, settings: &Settings) -> Self {
        let terms = Terms {
            limits: settings.response_limits,
            strictness: Strictness::Strict,
            informational_max: INFORMATIONAL_MAX,
        };
        Self {
            stream: Some(connection.stream),
            made: connection.made,
            reused: connection.is_reused,
            reading: client::Exchange::new(&request.method, terms),
            input: BytesMut::new(),
            read_bytes: FIRST_READ_BYTES,
            output: BytesMut::from(&request.head[..]),
            written_bytes: 0,
            holds_output: false,
        }
    }

    /// Whether nothing is left to be written.
    fn is_written(&self) -> bool {
        self.output.is_empty() && !self.holds_output
    }

    /// Discards the unwritten output.
    fn give_up_output(&mut self) {
        self.output.clear();
        self.holds_output = false;
    }

    /// Writes the pending output. Ready once all of it was sent.
    fn poll_flush(&mut self, context: &mut Context<'_>, patience: &mut Patience) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            match ready!(Pin::new(stream).poll_write(context, &self.output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.output.advance(written);
                    self.written_bytes += written;
                }
            }
            self.holds_output = true;
            patience.reset();
        }
        if self.holds_output {
            let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            ready!(Pin::new(stream).poll_flush(context))?;
            self.holds_output = false;
            patience.reset();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads more of the response. Returns 0 at the end of the stream.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        net::make_room(&mut self.input, self.read_bytes);
        // `read_buf` keeps no state between polls, so a new future for each poll loses nothing.
        let room_bytes = (self.input.capacity() - self.input.len()).min(self.read_bytes);
        let mut room = (&mut self.input).limit(room_bytes);
        let read = ready!(pin!(stream.read_buf(&mut room)).poll(context))?;
        if read == room_bytes {
            self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
        }
        Poll::Ready(Ok(read))
    }
}
