//! Sends one request on its own connection, and reads the whole response.
//!
//! Invariant: time and size are limited. A truncated response is an error; a response that is too
//! long is cut and marked. Parsing is tolerant, because many servers deviate from the standard. The
//! fault that strict parsing reports is kept with the response. Redirects are not followed, and
//! nothing is sent twice.

use address::{Address, HttpUrl};
use bytes::{Bytes, BytesMut};
use clock::Clock;
use h1::client::{Exchange, ResponseEvent, Terms};
use h1::{BodyError, ExchangeError, Limits, ResponseError, Strictness, WriteError};
use message::{Method, RequestHead, ResponseHead, names};
use net::{Stream, TlsClient, TlsError};
use page::document_head;
use profiles::DocumentHead;
use semantics::Moment;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Longest time from the start of connecting to the last byte of the response.
pub const TIME_MAX: Duration = Duration::from_secs(10);

/// Upper bound of the content that is read, in bytes with content coding.
pub const CONTENT_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Limits of a response's head, far above the needs of a page.
const HEAD_LIMITS: Limits = Limits { head_bytes_max: 64 * 1024, fields_max: 256, ..Limits::DEFAULT };

/// Upper bound of informational (1xx) responses before the final one.
const INFORMATIONAL_MAX: u32 = 8;

const TERMS: Terms =
    Terms { limits: HEAD_LIMITS, strictness: Strictness::Tolerant, informational_max: INFORMATIONAL_MAX };

/// Buffer space for one read, in bytes.
const READ_BYTES: usize = 32 * 1024;

/// A response with its content.
#[derive(Clone, Debug)]
pub struct FetchedResponse {
    /// The request.
    pub request: RequestHead,
    /// The status and the header fields.
    pub head: ResponseHead,
    /// The fault for which strict HTTP/1 parsing, as in Petasos, refuses the head.
    pub strict_fault: Option<ResponseError>,
    /// The content after removing the transfer coding. It may still have a content coding.
    pub content: Bytes,
    /// Whether the content is longer than [`CONTENT_BYTES_MAX`] and `content` is only its
    /// beginning.
    pub is_cut: bool,
    /// The time before the request was sent.
    pub sent: Moment,
    /// The time when the head was complete.
    pub arrived: Moment,
    /// The time when the content was complete.
    pub ended: Moment,
}

/// Reasons why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The host name has no address.
    #[error("the name `{0}` has no address")]
    NoAddress(String),
    /// The server refused the connection, or its Unix socket does not exist.
    #[error("nothing listens at {0}")]
    Refused(String),
    /// Connecting failed for another reason.
    #[error("no connection to {0}: {1}")]
    Unreachable(String, io::ErrorKind),
    /// The URL is https and no TLS client is set. Nothing was sent.
    #[error("the URL has the scheme https, but TLS is not set up")]
    NotSecured,
    /// The TLS handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The response was not complete within [`TIME_MAX`].
    #[error("no complete response within {} s", TIME_MAX.as_secs())]
    TimedOut,
    /// The connection ended before the head was complete.
    #[error("the server closed the connection without a response")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Broken(io::ErrorKind),
    /// The head is not HTTP/1.
    #[error("the response is not HTTP/1: {0}")]
    BadHead(ResponseError),
    /// The content is truncated or violates its framing.
    #[error("the response broke off: {0}")]
    BadBody(BodyError),
    /// Too many 1xx responses.
    #[error("more than {INFORMATIONAL_MAX} informational responses and no final response")]
    TooManyInformational,
    /// The request cannot be written as HTTP/1.
    #[error("the request cannot be sent: {0}")]
    Unwritable(WriteError),
}

/// Sends requests.
#[derive(Clone)]
pub struct Fetcher {
    /// The TLS client. Without it, https URLs are refused.
    pub tls: Option<TlsClient>,
    /// The clock for the times of responses.
    pub clock: Arc<dyn Clock>,
}

impl FetchedResponse {
    /// The head of the HTML document. Meaningful only for HTML without content coding.
    pub fn document_head(&self) -> DocumentHead {
        let media_type = self.head.fields.first(names::CONTENT_TYPE).map_or(&[][..], |value| &value[..]);
        let host = self.request.fields.first(names::HOST).map_or(&[][..], |value| &value[..]);
        document_head(&self.content, media_type, host)
    }

    /// The first content coding other than `identity`. `None` if the content has none.
    pub fn content_coding(&self) -> Option<&[u8]> {
        let mut codings = self.head.fields.list(names::CONTENT_ENCODING);
        codings.find(|coding| !coding.eq_ignore_ascii_case(b"identity"))
    }
}

impl Fetcher {
    /// Sends `request` with `content` to the host of `url`, and reads the whole response.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn fetch(
        &self,
        url: &HttpUrl,
        request: RequestHead,
        content: &[u8],
    ) -> Result<FetchedResponse, ProbeError> {
        let whole = async {
            if !url.is_https() {
                return self.exchange(connect(url).await?, request, content).await;
            }
            let tls = self.tls.as_ref().ok_or(ProbeError::NotSecured)?;
            let stream = tls.secure(connect(url).await?, &url.host()).await?;
            self.exchange(stream, request, content).await
        };
        within_time(whole).await
    }

    /// Sends `request` with `content` on a new connection, and reads the whole response.
    pub(crate) async fn exchange(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        request: RequestHead,
        content: &[u8],
    ) -> Result<FetchedResponse, ProbeError> {
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, &request).map_err(ProbeError::Unwritable)?;
        octets.extend_from_slice(content);
        let sent = Moment::read(&*self.clock);
        stream.write_all(&octets).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let mut reading = ResponseStream::new(stream, &request.method);
        let (head, strict_fault) = reading.head(&request.method).await?;
        let arrived = Moment::read(&*self.clock);
        let (content, is_cut) = reading.content().await?;
        let ended = Moment::read(&*self.clock);
        Ok(FetchedResponse { request, head, strict_fault, content, is_cut, sent, arrived, ended })
    }
}

/// Runs an exchange, and ends it after [`TIME_MAX`].
pub(crate) async fn within_time<T>(
    whole: impl Future<Output = Result<T, ProbeError>>,
) -> Result<T, ProbeError> {
    tokio::time::timeout(TIME_MAX, Box::pin(whole)).await.unwrap_or(Err(ProbeError::TimedOut))
}

/// The error for a failure to connect.
pub(crate) fn connection_failure(address: &Address, error: &io::Error) -> ProbeError {
    match error.kind() {
        // If a Unix socket does not exist, its server is not running.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            ProbeError::Refused(address.to_string())
        }
        kind => ProbeError::Unreachable(address.to_string(), kind),
    }
}

/// Connects to the first address of the host that accepts the connection.
async fn connect(url: &HttpUrl) -> Result<Stream, ProbeError> {
    let addresses = match url.address() {
        Address::Host { name, port } => {
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            found.map_err(|_| ProbeError::NoAddress(name.clone()))?.map(Address::Ip).collect()
        }
        other => vec![other],
    };
    let mut failure = ProbeError::NoAddress(url.host());
    for address in addresses {
        match Stream::connect(&address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = connection_failure(&address, &error),
        }
    }
    Err(failure)
}

/// A response being read.
pub(crate) struct ResponseStream<S> {
    stream: S,
    input: BytesMut,
    exchange: Exchange,
}

impl<S: AsyncRead + Unpin> ResponseStream<S> {
    /// The response to a request with this method, which was sent on `stream`.
    pub(crate) fn new(stream: S, method: &Method) -> Self {
        Self { stream, input: BytesMut::new(), exchange: Exchange::new(method, TERMS) }
    }

    /// Reads the head of the final response. Also returns the fault that strict parsing reports.
    pub(crate) async fn head(
        &mut self,
        method: &Method,
    ) -> Result<(ResponseHead, Option<ResponseError>), ProbeError> {
        loop {
            let mut copy = self.input.clone();
            if let Some(ResponseEvent::Head(response)) = self.advance().await? {
                let strict = h1::parse_response(&mut copy, method, &HEAD_LIMITS, Strictness::Strict);
                return Ok((response.head, strict.err()));
            }
        }
    }

    /// Reads the content up to the limit. Also returns whether the content is longer.
    pub(crate) async fn content(&mut self) -> Result<(Bytes, bool), ProbeError> {
        let mut content = BytesMut::new();
        loop {
            match self.advance().await? {
                Some(ResponseEvent::Data(octets)) => {
                    let room = CONTENT_BYTES_MAX - content.len();
                    if octets.len() > room {
                        content.extend_from_slice(octets.get(..room).unwrap_or_default());
                        return Ok((content.freeze(), true));
                    }
                    content.extend_from_slice(&octets);
                }
                Some(ResponseEvent::End(_)) => return Ok((content.freeze(), false)),
                Some(ResponseEvent::Informational(_) | ResponseEvent::Head(_)) | None => {}
            }
        }
    }

    /// Takes the next event. If there is none yet, reads more bytes and returns `None`.
    pub(crate) async fn advance(&mut self) -> Result<Option<ResponseEvent>, ProbeError> {
        if let Some(event) = self.exchange.next(&mut self.input)? {
            return Ok(Some(event));
        }
        match net::read_more(&mut self.stream, &mut self.input, READ_BYTES).await.map_err(broken)? {
            0 => Ok(Some(ResponseEvent::End(self.exchange.close()?))),
            _ => Ok(None),
        }
    }
}

fn broken(error: io::Error) -> ProbeError {
    // In TLS 1.3 a server refuses the client's certificate after the client's handshake.
    TlsError::inside(&error, "").map_or(ProbeError::Broken(error.kind()), ProbeError::Tls)
}

impl From<ExchangeError> for ProbeError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Closed => Self::Closed,
            ExchangeError::Head(error) => Self::BadHead(error),
            ExchangeError::TooManyInformational => Self::TooManyInformational,
            ExchangeError::Body(error) => Self::BadBody(error),
        }
    }
}
