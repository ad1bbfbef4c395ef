//! An HTTP/2 connection to a host. It carries all requests of a page load to that host, as many at
//! a time as the server allows.
//!
//! Invariant: content is read to its end, or its stream is dropped. A truncated response is a
//! failure. Nothing is sent twice here. The library implements the protocol; bytes are counted
//! below it and above TLS.

use crate::connection::{ByteStream, ContentBuffer, HEAD_BYTES_MAX, NoAnswer, ResourceResponse};
use crate::frames::Frames;
use bytes::Bytes;
use clock::Clock;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use message::{Fields, RequestHead, ResponseHead, Status, names};
use record::FetchFailure;
use semantics::Moment;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use url::{Position, Url};

/// An open connection.
pub(crate) struct Http2Connection {
    sender: SendRequest<Bytes>,
    /// The task that moves bytes; it is aborted with the connection.
    mover: JoinHandle<()>,
    counts: Rc<Counts>,
    /// Whether no further request may be sent on it.
    is_left: Cell<bool>,
}

/// Counts of received data on a connection.
#[derive(Debug, Default)]
struct Counts {
    frames: RefCell<Frames>,
    /// Number of response heads.
    heads: Cell<u64>,
}

/// The count of the bytes of one response, which ends with it.
struct StreamCount<'a> {
    counts: &'a Counts,
    stream: u32,
}

impl<'a> StreamCount<'a> {
    fn new(counts: &'a Counts, stream: u32) -> Self {
        counts.frames.borrow_mut().announce(stream);
        Self { counts, stream }
    }

    fn received_bytes(&self) -> u64 {
        self.counts.frames.borrow_mut().take(self.stream)
    }
}

impl Drop for StreamCount<'_> {
    fn drop(&mut self) {
        self.received_bytes();
    }
}

impl Http2Connection {
    /// Performs the HTTP/2 handshake.
    ///
    /// # Errors
    /// If the connection ends during the handshake.
    pub(crate) async fn open(wire: Box<dyn ByteStream>) -> Result<Self, FetchFailure> {
        let counts = Rc::<Counts>::default();
        let counted = CountedStream { wire, counts: Rc::clone(&counts) };
        let mut builder = load::http2_settings();
        // The library's own limit is 16 MiB a head, and a few coded bytes can expand to that many.
        builder.max_header_list_size(HEAD_BYTES_MAX);
        let made = builder.handshake(counted).await;
        let (sender, connection) = made.map_err(|_| FetchFailure::Closed)?;
        let mover = tokio::task::spawn_local(async move {
            // The result is not needed here, because the streams receive the error as well.
            let _ = connection.await;
        });
        Ok(Self { sender, mover, counts, is_left: Cell::new(false) })
    }

    /// Whether it accepts no further requests.
    pub(crate) fn is_over(&self) -> bool {
        self.is_left.get() || self.mover.is_finished()
    }

    /// Whether it has delivered a response.
    pub(crate) fn is_used(&self) -> bool {
        self.counts.heads.get() > 0
    }

    /// Waits until the server ends an idle connection.
    pub(crate) async fn ended(mut self) {
        // The result does not matter, because no request is in flight.
        let _ = (&mut self.mover).await;
    }

    /// Accepts no further requests; requests in flight continue.
    pub(crate) fn leave(&self) {
        self.is_left.set(true);
    }

    /// Sends a request without content and reads the whole response. Its content goes into
    /// `content`.
    pub(crate) async fn exchange(
        &self,
        url: &Url,
        request: &RequestHead,
        content: ContentBuffer,
        clock: &dyn Clock,
    ) -> Result<ResourceResponse, NoAnswer> {
        let silent = |failure| NoAnswer { failure, is_silent: true };
        let request = packed(url, request).ok_or_else(|| silent(FetchFailure::BadAnswer))?;
        let mut sender = self.sender.clone().ready().await.map_err(|error| self.no_answer(&error))?;
        let sent = Moment::read(clock);
        let (response, _) = sender.send_request(request, true).map_err(|error| self.no_answer(&error))?;
        // A request that fails or is late is dropped here, and its count with it.
        let stream = StreamCount::new(&self.counts, response.stream_id().as_u32());
        let response = response.await.map_err(|error| self.no_answer(&error))?;
        let arrived = Moment::read(clock);
        self.counts.heads.set(self.counts.heads.get() + 1);
        let odd = NoAnswer { failure: FetchFailure::BadAnswer, is_silent: false };
        let head = head(&response).ok_or(odd)?;
        let content = read_content(response.into_body(), content)
            .await
            .map_err(|failure| NoAnswer { failure, is_silent: false })?;
        Ok(ResourceResponse {
            head,
            content,
            received_bytes: stream.received_bytes(),
            times: (sent, arrived),
            ended: clock.monotonic(),
            is_persistent: true,
        })
    }

    /// Classifies an error that came before the response head.
    fn no_answer(&self, error: &h2::Error) -> NoAnswer {
        let is_refused = error.reason() == Some(Reason::REFUSED_STREAM);
        let is_leaving = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        // A server that does not speak HTTP/2 makes the library report a protocol error at once. Of
        // one that does and sends too much, the library demands calm.
        let is_excess = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
        let is_other = error.is_go_away() && error.is_library() && !is_excess && !self.is_used();
        let failure = match error {
            _ if is_other => FetchFailure::Http2,
            error if error.is_reset() && error.is_remote() => FetchFailure::Broken,
            error if error.is_io() || is_leaving => FetchFailure::Closed,
            _ => FetchFailure::BadAnswer,
        };
        NoAnswer { failure, is_silent: error.is_remote() && (is_refused || is_leaving) || error.is_io() }
    }
}

async fn read_content(mut body: RecvStream, mut content: ContentBuffer) -> Result<Bytes, FetchFailure> {
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|_| FetchFailure::Broken)?;
        content.add(&piece)?;
        body.flow_control().release_capacity(piece.len()).map_err(|_| FetchFailure::Broken)?;
    }
    body.trailers().await.map_err(|_| FetchFailure::Broken)?;
    Ok(content.whole())
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.mover.abort();
    }
}

/// A request in HTTP/2 form (RFC 9113 section 8.3): the host is part of the URI. `None` if the
/// request has no host.
fn packed(url: &Url, request: &RequestHead) -> Option<Request<()>> {
    let host = std::str::from_utf8(request.fields.first(names::HOST)?).ok()?;
    let uri = format!("{}://{host}{}", url.scheme(), &url[Position::BeforePath..Position::AfterQuery]);
    let mut packed = Request::builder().method(request.method.as_bytes()).uri(uri);
    let is_sent =
        |name: &[u8]| !name.eq_ignore_ascii_case(names::HOST.as_bytes()) && !load::is_of_connections(name);
    for field in request.fields.iter().filter(|field| is_sent(&field.name)) {
        packed = packed.header(&*field.name, &*field.value);
    }
    packed.body(()).ok()
}

/// A response head in the form that the rest of the crate uses; `None` if the status code is
/// invalid.
fn head(response: &Response<RecvStream>) -> Option<ResponseHead> {
    let status = Status::from_code(response.status().as_u16())?;
    Some(ResponseHead { fields: fields(response.headers()), ..ResponseHead::new(status) })
}

fn fields(map: &HeaderMap) -> Fields {
    let mut fields = Fields::with_capacity(map.len());
    for (name, value) in map {
        fields.push(name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()));
    }
    fields
}

/// Counts the received bytes.
struct CountedStream {
    wire: Box<dyn ByteStream>,
    counts: Rc<Counts>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.wire).poll_read(context, buffer))?;
        this.counts.frames.borrow_mut().feed(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().wire).poll_write(context, octets)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ContentBuffer, Counts, FetchFailure, HEAD_BYTES_MAX, Http2Connection, NoAnswer, StreamCount,
    };
    use http::{HeaderValue, Response};
    use message::{Fields, Method, RequestHead, Version, names};
    use platform::SystemClock;
    use tokio::task::LocalSet;
    use url::Url;

    /// The error for a request whose response has two fields of `bytes` each.
    async fn no_answer(bytes: usize) -> Option<NoAnswer> {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (ours, theirs) =
            tokio::join!(Http2Connection::open(Box::new(ours)), h2::server::handshake(theirs));
        let mut theirs: h2::server::Connection<_, bytes::Bytes> = theirs.unwrap();
        tokio::task::spawn_local(async move {
            while let Some(Ok((_, mut respond))) = theirs.accept().await {
                let value = HeaderValue::from_bytes(&vec![b'x'; bytes]).unwrap();
                let response = Response::builder().header("a", value.clone()).header("b", value);
                respond.send_response(response.body(()).unwrap(), true).unwrap();
            }
        });
        let mut fields = Fields::new();
        fields.push(names::HOST, "h");
        let (method, version) = (Method::Get, Version::Http11);
        let request = RequestHead { method, target: "/".into(), version, fields };
        let (url, content) = (Url::parse("http://h/").unwrap(), ContentBuffer::new(false, 1));
        ours.unwrap().exchange(&url, &request, content, &SystemClock::new()).await.err()
    }

    #[test]
    fn head_beyond_the_limit_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let half = HEAD_BYTES_MAX as usize / 2;
        let tasks = LocalSet::new();
        let found =
            [half - 1_000, half + 1_000, 8 * half].map(|bytes| tasks.block_on(&runtime, no_answer(bytes)));
        let refused = NoAnswer { failure: FetchFailure::BadAnswer, is_silent: false };
        assert_eq!(found, [None, Some(refused), Some(refused)]);
    }

    #[test]
    fn count_of_a_request_without_a_response_ends() {
        let counts = Counts::default();
        drop(StreamCount::new(&counts, 5));
        // An empty DATA frame on stream 5.
        counts.frames.borrow_mut().feed(&[0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(counts.frames.borrow_mut().take(5), 0);
    }
}
