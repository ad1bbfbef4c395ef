//! The HTTP client through which the ACME library talks to an authority.
//!
//! Invariant: every request is over TLS with a verified server, on its own connection, and limited
//! in time and size. Redirects are not followed, and nothing is sent twice.

use address::{HttpUrl, HttpUrlError};
use bytes::{Bytes, BytesMut};
use clock::Clock;
use h1::client::{Exchange, ResponseEvent, Terms};
use h1::{ExchangeError, WriteError};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use message::{Field, Fields, Method, RequestHead, ResponseHead, Version, names};
use net::{Stream, TlsClient, TlsError, TlsStream};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

/// Longest time from the start of connecting to the last byte of a response.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Largest content of a response, far above a chain of certificates.
const CONTENT_BYTES_MAX: usize = 1024 * 1024;

/// Buffer space for one read, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// Why the authority gave no usable response.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The URL cannot be requested.
    #[error("the authority's URL cannot be used: {0}")]
    Url(#[from] HttpUrlError),
    /// The URL has the scheme http.
    #[error("the authority's URL {0} is not https")]
    NotSecured(String),
    /// There is no connection.
    #[error("no connection to the authority at {host}: {error}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// The system's error.
        error: io::Error,
    },
    /// The authority cannot be trusted.
    #[error("the authority at {host} cannot be trusted: {error}; name its own authorities in `acme_ca_file`")]
    Tls {
        /// The host.
        host: String,
        /// The fault.
        error: TlsError,
    },
    /// The request cannot be written.
    #[error("the request to the authority cannot be sent: {0}")]
    Unwritable(#[from] WriteError),
    /// The connection broke.
    #[error("the connection to the authority broke: {0}")]
    Broken(#[from] io::Error),
    /// The response is not HTTP/1, or it is truncated.
    #[error("the authority's response cannot be read: {0}")]
    Malformed(#[from] ExchangeError),
    /// The response is too large.
    #[error("the authority's response is larger than {CONTENT_BYTES_MAX} bytes")]
    TooLarge,
    /// The response did not arrive in time.
    #[error("the authority at {host} gave no complete response within {} s", TIME_MAX.as_secs())]
    TimedOut {
        /// Host and port.
        host: String,
    },
    /// The response is an error outside the protocol.
    #[error("the authority answers with status {0}")]
    Status(u16),
    /// A part of the exchange has no equivalent in the ACME library.
    #[error("the exchange with the authority cannot be translated: {0}")]
    Foreign(#[from] http::Error),
}

/// The client of one attempt. Clones share the pause that the authority has asked for.
#[derive(Clone)]
pub(crate) struct AuthorityClient {
    tls: TlsClient,
    clock: Arc<dyn Clock>,
    /// The pause that the authority asked for together with its last refusal.
    asked: Arc<Mutex<Option<Duration>>>,
}

impl AuthorityClient {
    pub(crate) fn new(tls: TlsClient, clock: Arc<dyn Clock>) -> Self {
        Self { tls, clock, asked: Arc::default() }
    }

    /// The pause that the authority asked for together with its last refusal.
    pub(crate) fn asked_pause(&self) -> Option<Duration> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (parts, mut content) = request.into_parts();
        let content = poll_fn(|context| Pin::new(&mut content).poll_frame(context)).await;
        // The library's contents are whole, and reading them cannot fail.
        let content = content.and_then(|frame| frame.ok()?.into_data().ok()).unwrap_or_default();
        let exchange = Box::pin(self.exchange(&parts, &content));
        let host = parts.uri.authority().map(ToString::to_string).unwrap_or_default();
        let answered = tokio::time::timeout(TIME_MAX, exchange).await;
        let answered = answered.unwrap_or(Err(AuthorityError::TimedOut { host }));
        answered.map_err(|error| Error::Other(Box::new(error)))
    }

    async fn exchange(&self, parts: &Parts, content: &[u8]) -> Result<BytesResponse, AuthorityError> {
        let url = HttpUrl::parse(&parts.uri.to_string())?;
        if !url.is_https() {
            return Err(AuthorityError::NotSecured(url.to_string()));
        }
        let mut octets = BytesMut::new();
        let head = request_head(parts, &url, content.len());
        h1::write_request_head(&mut octets, &head)?;
        octets.extend_from_slice(content);
        let mut stream = self.connect(&url).await?;
        stream.write_all(&octets).await?;
        stream.flush().await?;
        let (head, content) = receive(stream, &head.method).await?;
        self.note(&head);
        translate(&head, content)
    }

    async fn connect(&self, url: &HttpUrl) -> Result<TlsStream, AuthorityError> {
        let address = url.address();
        let connected = Stream::connect(&address).await;
        let stream =
            connected.map_err(|error| AuthorityError::Unreachable { host: address.to_string(), error })?;
        let secured = self.tls.secure(stream, &url.host()).await;
        secured.map_err(|error| AuthorityError::Tls { host: address.to_string(), error })
    }

    /// Remembers the pause that a refusal asks for (RFC 8555 section 6.6).
    fn note(&self, head: &ResponseHead) {
        let asked = if head.status.code() >= 400 { self.pause_of(&head.fields) } else { None };
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
    }

    /// The value of Retry-After (RFC 9110 section 10.2.3).
    fn pause_of(&self, fields: &Fields) -> Option<Duration> {
        let text = std::str::from_utf8(fields.first(names::RETRY_AFTER)?).ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = httpdate::parse_http_date(text).ok()?;
        date.duration_since(self.clock.now().to_system_time()).ok()
    }
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let own = self.clone();
        Box::pin(async move { own.send(request).await })
    }
}

/// The head of a request on a separate connection.
fn request_head(parts: &Parts, url: &HttpUrl, content_bytes: usize) -> RequestHead {
    let mut fields = Fields::new();
    fields.push(names::HOST, Bytes::copy_from_slice(url.authority().as_bytes()));
    fields.push(names::CONNECTION, "close");
    for (name, value) in &parts.headers {
        let name = Bytes::copy_from_slice(name.as_str().as_bytes());
        fields.push(name, Bytes::copy_from_slice(value.as_bytes()));
    }
    let method = Method::from_token(parts.method.as_str().as_bytes());
    if method == Method::Post {
        fields.push(names::CONTENT_LENGTH, content_bytes.to_string());
    }
    let target = Bytes::copy_from_slice(url.path_and_query().as_bytes());
    RequestHead { method, target, version: Version::Http11, fields }
}

/// Reads a whole response.
async fn receive(mut stream: TlsStream, method: &Method) -> Result<(ResponseHead, Bytes), AuthorityError> {
    let mut exchange = Exchange::new(method, Terms::TOLERANT);
    let (mut input, mut head, mut content) = (BytesMut::new(), None, BytesMut::new());
    loop {
        match exchange.next(&mut input)? {
            Some(ResponseEvent::Informational(_)) => {}
            Some(ResponseEvent::Head(response)) => head = Some(response.head),
            Some(ResponseEvent::Data(octets)) => {
                if content.len() + octets.len() > CONTENT_BYTES_MAX {
                    return Err(AuthorityError::TooLarge);
                }
                content.extend_from_slice(&octets);
            }
            Some(ResponseEvent::End(_)) => break,
            None => {
                if net::read_more(&mut stream, &mut input, READ_BYTES).await? == 0 {
                    exchange.close()?;
                    break;
                }
            }
        }
    }
    let head = head.ok_or(ExchangeError::Closed)?;
    Ok((head, content.freeze()))
}

/// Whether a field asks for a pause that the library cannot add to the time.
fn is_absurd_pause(field: &Field) -> bool {
    let secs = || std::str::from_utf8(&field.value).ok()?.trim().parse::<u64>().ok();
    field.is(names::RETRY_AFTER) && secs().is_some_and(|secs| secs > RETRY_AFTER_SECS_MAX)
}

/// The longest pause to pass on to the library, in seconds: a year.
const RETRY_AFTER_SECS_MAX: u64 = 365 * 24 * 60 * 60;

/// The response in the types of the ACME library.
fn translate(head: &ResponseHead, content: Bytes) -> Result<BytesResponse, AuthorityError> {
    let code = head.status.code();
    // The library reads every refusal as JSON, and would report a page of HTML as bad JSON.
    if code >= 400 && content.first().is_none_or(|first| *first != b'{') {
        return Err(AuthorityError::Status(code));
    }
    let status = StatusCode::from_u16(code).map_err(http::Error::from)?;
    let mut response = Response::builder().status(status);
    for field in head.fields.iter().filter(|field| !is_absurd_pause(field)) {
        response = response.header(&field.name[..], &field.value[..]);
    }
    let (parts, ()) = response.body(())?.into_parts();
    Ok(BytesResponse { parts, body: Box::new(content) })
}
