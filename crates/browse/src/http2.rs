//! A connection of HTTP/2 to a host, and everything that a page load asks of that host on it, as much at a time as the
//! server lets.
//!
//! Invariant: content is read to its end or its stream is given up; an answer that broke off is a failure. Nothing is
//! sent twice here. The protocol is the library's; octets are counted where they come, below it and above TLS.

use crate::connection::{Answer, Content, NoAnswer, Wire};
use crate::frames::Frames;
use crate::outcome::FetchFailure;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use load::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use message::{Fields, RequestHead, ResponseHead, Status, names};
use platform::Clock;
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
pub(crate) struct Http2 {
    sender: SendRequest<Bytes>,
    /// Moves the octets; gone with the connection.
    mover: JoinHandle<()>,
    counts: Rc<Counts>,
    /// Nothing more is to be sent on it.
    is_left: Cell<bool>,
}

/// What has come through a connection.
#[derive(Debug, Default)]
struct Counts {
    frames: RefCell<Frames>,
    /// Heads of answers.
    heads: Cell<u64>,
}

impl Http2 {
    /// Says the first words on a connection.
    ///
    /// # Errors
    /// If it ends over that.
    pub(crate) async fn open(wire: Box<dyn Wire>) -> Result<Self, FetchFailure> {
        let counts = Rc::<Counts>::default();
        let counted = Counted { wire, counts: Rc::clone(&counts) };
        let mut builder = Builder::new();
        builder.enable_push(false).initial_window_size(STREAM_WINDOW_BYTES);
        builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let made = builder.handshake(counted).await;
        let (sender, connection) = made.map_err(|_| FetchFailure::Closed)?;
        let mover = tokio::task::spawn_local(async move {
            // How it ended, its streams are told.
            let _ = connection.await;
        });
        Ok(Self { sender, mover, counts, is_left: Cell::new(false) })
    }

    /// Whether it carries nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_left.get() || self.mover.is_finished()
    }

    /// Whether an answer has come through it already.
    pub(crate) fn is_used(&self) -> bool {
        self.counts.heads.get() > 0
    }

    /// Waits until the server ends a connection on which nothing is asked for.
    pub(crate) async fn ended(mut self) {
        // How it ended does not matter: nothing is under way on it.
        let _ = (&mut self.mover).await;
    }

    /// Sends nothing more on it; what is under way goes on.
    pub(crate) fn leave(&self) {
        self.is_left.set(true);
    }

    /// Sends a request without content and reads the whole answer, its content into `content`.
    pub(crate) async fn exchange(
        &self,
        url: &Url,
        request: &RequestHead,
        content: Content,
        clock: &dyn Clock,
    ) -> Result<Answer, NoAnswer> {
        let silent = |failure| NoAnswer { failure, is_silent: true };
        let request = packed(url, request).ok_or_else(|| silent(FetchFailure::BadAnswer))?;
        let mut sender = self.sender.clone().ready().await.map_err(|error| self.no_answer(&error))?;
        let sent = Moment::read(clock);
        let (response, _) = sender.send_request(request, true).map_err(|error| self.no_answer(&error))?;
        let stream = response.stream_id().as_u32();
        let response = response.await.map_err(|error| self.no_answer(&error))?;
        let arrived = Moment::read(clock);
        self.counts.heads.set(self.counts.heads.get() + 1);
        let odd = NoAnswer { failure: FetchFailure::BadAnswer, is_silent: false };
        let head = head(&response).ok_or(odd)?;
        let content = read_content(response.into_body(), content)
            .await
            .map_err(|failure| NoAnswer { failure, is_silent: false })?;
        Ok(Answer {
            head,
            content,
            received_bytes: self.counts.frames.borrow_mut().take(stream),
            times: (sent, arrived),
            ended: clock.monotonic(),
            is_persistent: true,
        })
    }

    /// What an error before the head means.
    fn no_answer(&self, error: &h2::Error) -> NoAnswer {
        let is_refused = error.reason() == Some(Reason::REFUSED_STREAM);
        let is_leaving = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        // What is no HTTP/2 at all breaks the library's rules at once.
        let is_other = error.is_go_away() && error.is_library() && !self.is_used();
        let failure = match error {
            _ if is_other => FetchFailure::Http2,
            error if error.is_reset() => FetchFailure::Broken,
            error if error.is_io() || is_leaving => FetchFailure::Closed,
            _ => FetchFailure::BadAnswer,
        };
        NoAnswer { failure, is_silent: error.is_remote() && (is_refused || is_leaving) || error.is_io() }
    }
}

async fn read_content(mut body: RecvStream, mut content: Content) -> Result<Bytes, FetchFailure> {
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|_| FetchFailure::Broken)?;
        content.add(&piece)?;
        body.flow_control().release_capacity(piece.len()).map_err(|_| FetchFailure::Broken)?;
    }
    body.trailers().await.map_err(|_| FetchFailure::Broken)?;
    Ok(content.whole())
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.mover.abort();
    }
}

/// A request in the form of HTTP/2 (RFC 9113 section 8.3): the host is in the address. `None` if it has none.
fn packed(url: &Url, request: &RequestHead) -> Option<Request<()>> {
    let host = std::str::from_utf8(request.fields.first(names::HOST)?).ok()?;
    let uri = format!("{}://{host}{}", url.scheme(), &url[Position::BeforePath..Position::AfterQuery]);
    let mut packed = Request::builder().method(request.method.as_bytes()).uri(uri);
    let is_of_connections = |name: &[u8]| {
        [names::HOST, "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"]
            .iter()
            .any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
    };
    for field in request.fields.iter().filter(|field| !is_of_connections(&field.name)) {
        packed = packed.header(&*field.name, &*field.value);
    }
    packed.body(()).ok()
}

/// The head of an answer in the form that the rest of a page load knows; `None` if its status is none.
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

/// Counts the octets that come.
struct Counted {
    wire: Box<dyn Wire>,
    counts: Rc<Counts>,
}

impl AsyncRead for Counted {
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

impl AsyncWrite for Counted {
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
