//! One request on a connection of its own, and its whole answer.
//!
//! Invariant: time and size have limits; an answer that broke off is an error, never an answer, and one that is too
//! long is marked as cut. Servers are read tolerantly, as they are in the field; what a strict reader would have
//! refused is kept beside the answer. Redirects are not followed, and nothing is sent twice.

use crate::SiteUrl;
use bytes::{Bytes, BytesMut};
use h1::{BodyDecoder, BodyError, Decoded, Limits, ResponseError, Strictness, WriteError};
use message::{Method, RequestHead, ResponseHead, names};
use net::{Address, Stream, TlsClient, TlsError};
use page::document_head;
use platform::Clock;
use profiles::DocumentHead;
use semantics::Moment;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Time from the connection's beginning to the last octet of the answer.
pub const TIME_MAX: Duration = Duration::from_secs(10);

/// Octets of content that are read, content coding included; what is beyond is left.
pub const CONTENT_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Octets of an answer's head, and its field lines: far above what a page needs.
const HEAD_LIMITS: Limits = Limits { head_bytes_max: 64 * 1024, fields_max: 256, ..Limits::DEFAULT };

/// Informational responses before the one that answers.
const INFORMATIONAL_MAX: u32 = 8;

/// Octets that one read may bring.
const READ_BYTES: usize = 32 * 1024;

/// An answer with its content.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The request it answers.
    pub request: RequestHead,
    /// Status and fields.
    pub head: ResponseHead,
    /// What a strict reader of HTTP/1, as Petasos is one, would have refused the head for.
    pub strict_fault: Option<ResponseError>,
    /// The content, transfer coding removed and content coding on it.
    pub content: Bytes,
    /// Whether the content is longer than [`CONTENT_BYTES_MAX`] and `content` only its beginning.
    pub is_cut: bool,
    /// When the request was sent.
    pub sent: Moment,
    /// When the head had arrived.
    pub arrived: Moment,
    /// When the content had ended.
    pub ended: Moment,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The host's name has no address.
    #[error("the name `{0}` has no address")]
    NoAddress(String),
    /// Nobody listens.
    #[error("nothing listens at {0}")]
    Refused(String),
    /// No connection for another reason.
    #[error("no connection to {0}: {1}")]
    Unreachable(String, io::ErrorKind),
    /// An https URL, and nothing to secure the connection with: then nothing is sent.
    #[error("the URL asks for https, and TLS is not set up")]
    NotSecured,
    /// No secure connection.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The answer was not complete in time.
    #[error("no whole answer within {} s", TIME_MAX.as_secs())]
    TimedOut,
    /// The connection ended before an answer.
    #[error("the server closed the connection without an answer")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(io::ErrorKind),
    /// What came is no HTTP/1 answer.
    #[error("the answer is no HTTP/1: {0}")]
    BadHead(ResponseError),
    /// The content broke off or breaks its framing.
    #[error("the answer broke off: {0}")]
    BadBody(BodyError),
    /// One 1xx answer after the other.
    #[error("more than {INFORMATIONAL_MAX} informational answers and none that counts")]
    TooManyInformational,
    /// The request cannot be written as HTTP/1.
    #[error("the request cannot be sent: {0}")]
    Unwritable(WriteError),
}

/// How requests are sent.
#[derive(Clone)]
pub struct Fetcher {
    /// For https; without it no https URL is asked.
    pub tls: Option<TlsClient>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Answer {
    /// The head of the document, where the content is one without content coding.
    pub fn document_head(&self) -> DocumentHead {
        let media_type = self.head.fields.first(names::CONTENT_TYPE).map_or(&[][..], |value| &value[..]);
        let host = self.request.fields.first(names::HOST).map_or(&[][..], |value| &value[..]);
        document_head(&self.content, media_type, host)
    }

    /// The content coding that is on the content.
    pub fn content_coding(&self) -> Option<&[u8]> {
        let mut codings = self.head.fields.list(names::CONTENT_ENCODING);
        codings.find(|coding| !coding.eq_ignore_ascii_case(b"identity"))
    }
}

impl Fetcher {
    /// Sends `request` with `content` to the host of `url` and reads the whole answer.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(
        &self,
        url: &SiteUrl,
        request: RequestHead,
        content: &[u8],
    ) -> Result<Answer, FetchError> {
        let whole = async {
            if !url.is_https() {
                return self.exchange(connect(url).await?, request, content).await;
            }
            let tls = self.tls.as_ref().ok_or(FetchError::NotSecured)?;
            let stream = tls.secure(connect(url).await?, &url.host()).await?;
            self.exchange(stream, request, content).await
        };
        within_time(whole).await
    }

    /// Sends `request` with `content` on a fresh connection and reads the whole answer.
    pub(crate) async fn exchange(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        request: RequestHead,
        content: &[u8],
    ) -> Result<Answer, FetchError> {
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, &request).map_err(FetchError::Unwritable)?;
        octets.extend_from_slice(content);
        let sent = Moment::read(&*self.clock);
        stream.write_all(&octets).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let mut input = BytesMut::new();
        let (response, strict_fault) = read_head(&mut stream, &mut input, &request.method).await?;
        let arrived = Moment::read(&*self.clock);
        let mut decoder = BodyDecoder::with_limits(response.framing, &HEAD_LIMITS, Strictness::Tolerant);
        let (content, is_cut) = read_content(&mut stream, &mut input, &mut decoder).await?;
        let ended = Moment::read(&*self.clock);
        Ok(Answer { request, head: response.head, strict_fault, content, is_cut, sent, arrived, ended })
    }
}

/// The exchange, or the end of its time.
pub(crate) async fn within_time<T>(
    whole: impl Future<Output = Result<T, FetchError>>,
) -> Result<T, FetchError> {
    tokio::time::timeout(TIME_MAX, Box::pin(whole)).await.unwrap_or(Err(FetchError::TimedOut))
}

/// What a failure to connect is called.
pub(crate) fn connection_failure(address: &Address, error: &io::Error) -> FetchError {
    match error.kind() {
        // A Unix socket that does not exist belongs to a process that does not run.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            FetchError::Refused(address.to_string())
        }
        kind => FetchError::Unreachable(address.to_string(), kind),
    }
}

/// Connects to the first address of the host that takes the connection.
async fn connect(url: &SiteUrl) -> Result<Stream, FetchError> {
    let addresses = match url.address() {
        Address::Host { name, port } => {
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            found.map_err(|_| FetchError::NoAddress(name.clone()))?.map(Address::Ip).collect()
        }
        other => vec![other],
    };
    let mut failure = FetchError::NoAddress(url.host());
    for address in addresses {
        match Stream::connect(&address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = connection_failure(&address, &error),
        }
    }
    Err(failure)
}

/// The head of the answer that counts, and what a strict reader has against it.
async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    method: &Method,
) -> Result<(h1::Response, Option<ResponseError>), FetchError> {
    let mut informational = 0;
    loop {
        let mut copy = input.clone();
        let parsed = h1::parse_response(input, method, &HEAD_LIMITS, Strictness::Tolerant);
        let Some(response) = parsed.map_err(FetchError::BadHead)? else {
            if fill(stream, input).await? == 0 {
                return Err(FetchError::Closed);
            }
            continue;
        };
        if !response.head.status.is_informational() || response.head.status.code() == 101 {
            let strict = h1::parse_response(&mut copy, method, &HEAD_LIMITS, Strictness::Strict);
            return Ok((response, strict.err()));
        }
        informational += 1;
        if informational > INFORMATIONAL_MAX {
            return Err(FetchError::TooManyInformational);
        }
    }
}

/// The content up to the limit, and whether there is more.
async fn read_content(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    decoder: &mut BodyDecoder,
) -> Result<(Bytes, bool), FetchError> {
    let mut content = BytesMut::new();
    loop {
        match decoder.decode(input).map_err(FetchError::BadBody)? {
            Decoded::Data(octets) => {
                let room = CONTENT_BYTES_MAX - content.len();
                if octets.len() > room {
                    content.extend_from_slice(octets.get(..room).unwrap_or_default());
                    return Ok((content.freeze(), true));
                }
                content.extend_from_slice(&octets);
            }
            Decoded::End(_) => return Ok((content.freeze(), false)),
            Decoded::NeedMore => {
                if fill(stream, input).await? == 0 {
                    decoder.eof().map_err(FetchError::BadBody)?;
                    return Ok((content.freeze(), false));
                }
            }
        }
    }
}

/// Reads more; 0 at the end. Many servers end TLS without its closing message: whether the answer is whole then,
/// its framing knows.
async fn fill(stream: &mut (impl AsyncRead + Unpin), input: &mut BytesMut) -> Result<usize, FetchError> {
    input.reserve(READ_BYTES);
    match stream.read_buf(input).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        other => other.map_err(broken),
    }
}

fn broken(error: io::Error) -> FetchError {
    FetchError::Broken(error.kind())
}
