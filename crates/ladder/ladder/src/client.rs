//! HTTP client for the ladder's own requests: switches, proofs and bystanders. Each request uses
//! its own connection and reads the whole response. The measured load does not use this client; the
//! `load` crate generates it.
//!
//! Invariants:
//!
//! * A response is complete, or the result is an error.
//! * A request to stop ends a read within [`crate::interrupt::SLICE`].
//! * Reading ends at the time limit, also if the server never stops to send.

use crate::interrupt::{SLICE, StopFlag};
use address::HttpUrl;
use bytes::BytesMut;
use clock::{Clock, Monotonic};
use h1::client::{Exchange, ResponseEvent, Terms};
use h1::{BodyError, ExchangeError};
use message::{Fields, Method, RequestHead, Version};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// Size limit of a response's content in bytes.
const CONTENT_BYTES_MAX: usize = 64 << 20;
/// Size of the read buffer in bytes.
const READ_BYTES: usize = 64 << 10;

/// Sends requests, one connection each.
#[derive(Clone, Copy)]
pub(crate) struct HttpClient<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) stop: &'a StopFlag,
    /// Time limit for connecting, for each write, and for the whole request while it reads.
    pub(crate) limit: Duration,
}

/// A request to send.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    /// Value of the Host field; `None` takes it from the URL.
    pub(crate) host: Option<&'a str>,
    /// Further header fields, name and value.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) content: Vec<u8>,
    /// Time from before the connect to the last byte.
    pub(crate) elapsed: Duration,
}

/// Reason why a request has no complete response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{0}")]
    Url(#[from] address::HttpUrlError),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("the response is not HTTP: {0}")]
    Malformed(String),
    #[error("the connection ended before the end of the response")]
    Truncated,
    #[error("the response is longer than {CONTENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("no response within {0:?}")]
    Late(Duration),
    #[error("interrupted")]
    Interrupted,
}

impl HttpClient<'_> {
    /// Requests a URL. `host` replaces the URL's host in the Host field.
    pub(crate) fn ask(
        &self,
        method: &str,
        url: &str,
        host: Option<&str>,
    ) -> Result<HttpResponse, ClientError> {
        self.ask_for(&HttpRequest { method, url, host, ..HttpRequest::default() })
    }

    /// Sends a request and reads its response.
    pub(crate) fn ask_for(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, ClientError> {
        let begun = self.clock.monotonic();
        let target = HttpUrl::parse(request.url)?;
        let mut stream = self.connect(&target)?;
        let method = Method::from_token(request.method.as_bytes());
        let octets = octets(&method, &target, request)?;
        stream.write_all(&octets).map_err(ClientError::Broken)?;
        let mut answer = self.read(&mut stream, &method, begun)?;
        answer.elapsed = self.clock.monotonic().since(begun);
        Ok(answer)
    }

    /// Like [`Self::ask`], but a status other than 2xx is an error. The error is a sentence for the
    /// user.
    pub(crate) fn ask_2xx(
        &self,
        method: &str,
        url: &str,
        host: Option<&str>,
    ) -> Result<HttpResponse, String> {
        let answer = self.ask(method, url, host).map_err(|error| format!("{method} {url}: {error}"))?;
        if (200..300).contains(&answer.status) {
            Ok(answer)
        } else {
            Err(format!("{method} {url}: the response has status {}", answer.status))
        }
    }

    fn connect(&self, target: &HttpUrl) -> Result<TcpStream, ClientError> {
        let addresses = (target.host(), target.port()).to_socket_addrs().map_err(ClientError::Connect)?;
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.limit) {
                Ok(stream) => {
                    let timeouts = stream
                        // Reads return after each slice, so that `fill` can look at the stop flag.
                        .set_read_timeout(Some(SLICE))
                        .and_then(|()| stream.set_write_timeout(Some(self.limit)))
                        .and_then(|()| stream.set_nodelay(true));
                    return timeouts.map(|()| stream).map_err(ClientError::Connect);
                }
                Err(error) => failure = error,
            }
        }
        Err(ClientError::Connect(failure))
    }

    fn read(
        &self,
        stream: &mut TcpStream,
        method: &Method,
        begun: Monotonic,
    ) -> Result<HttpResponse, ClientError> {
        let mut exchange = Exchange::new(method, Terms::TOLERANT);
        let (mut buffer, mut head, mut content) = (BytesMut::new(), None, Vec::new());
        loop {
            match exchange.next(&mut buffer)? {
                Some(ResponseEvent::Informational(_)) => {}
                Some(ResponseEvent::Head(response)) if response.head.status.code() == 101 => {
                    return Err(ClientError::Malformed("another protocol follows unasked".to_owned()));
                }
                Some(ResponseEvent::Head(response)) => head = Some(response.head),
                Some(ResponseEvent::Data(data)) if content.len() + data.len() > CONTENT_BYTES_MAX => {
                    return Err(ClientError::TooLong);
                }
                Some(ResponseEvent::Data(data)) => content.extend_from_slice(&data),
                Some(ResponseEvent::End(_)) => break,
                None if self.fill(stream, &mut buffer, begun)? == 0 => {
                    exchange.close()?;
                    break;
                }
                None => {}
            }
        }
        let head = head.ok_or(ClientError::Truncated)?;
        Ok(HttpResponse { status: head.status.code(), fields: head.fields, content, elapsed: Duration::ZERO })
    }

    /// Reads more bytes into the buffer; 0 means the end of the connection.
    fn fill(
        &self,
        stream: &mut TcpStream,
        buffer: &mut BytesMut,
        begun: Monotonic,
    ) -> Result<usize, ClientError> {
        let mut piece = [0; READ_BYTES];
        loop {
            if self.stop.is_requested() {
                return Err(ClientError::Interrupted);
            }
            // A server that sends a little now and then never lets a read time out.
            if self.clock.monotonic().since(begun) >= self.limit {
                return Err(ClientError::Late(self.limit));
            }
            match stream.read(&mut piece) {
                Ok(count) => {
                    buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
                    return Ok(count);
                }
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(ClientError::Broken(error)),
            }
        }
    }
}

impl From<ExchangeError> for ClientError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Closed | ExchangeError::Body(BodyError::Truncated { .. }) => Self::Truncated,
            other => Self::Malformed(other.to_string()),
        }
    }
}

/// Whether a read timed out or was interrupted, so that the caller may check its flags and go on.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Encodes a request as bytes.
fn octets(method: &Method, target: &HttpUrl, request: &HttpRequest<'_>) -> Result<Vec<u8>, ClientError> {
    let mut fields = Fields::new();
    fields.push("Host", request.host.map_or_else(|| target.authority().to_owned(), str::to_owned));
    fields.push("User-Agent", "petasos-ladder");
    fields.push("Accept", "*/*");
    fields.push("Connection", "close");
    if !matches!(method, Method::Get | Method::Head) {
        fields.push("Content-Length", request.content.len().to_string());
    }
    for (name, value) in &request.fields {
        fields.push(name.clone(), value.clone());
    }
    let head = RequestHead {
        method: method.clone(),
        target: target.path_and_query().to_owned().into(),
        version: Version::Http11,
        fields,
    };
    let mut octets = Vec::new();
    h1::write_request_head(&mut octets, &head).map_err(|error| ClientError::Malformed(error.to_string()))?;
    octets.extend_from_slice(&request.content);
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::{ClientError, HttpClient, HttpResponse};
    use crate::interrupt::StopFlag;
    use platform::SystemClock;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    /// Serves one connection: reads a head, writes `answer`, and keeps the connection open until
    /// `ask` has returned if `hold` is set.
    fn served(
        answer: &'static str,
        hold: bool,
        ask: impl FnOnce(&str) -> Result<HttpResponse, ClientError>,
    ) -> Result<HttpResponse, ClientError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        std::thread::scope(|scope| {
            let (release, released) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 4096];
                assert!(stream.read(&mut head).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
                if hold {
                    let _ = released.recv();
                }
            });
            let result = ask(&url);
            drop(release);
            result
        })
    }

    fn ask_for(url: &str, limit: Duration, stop: &StopFlag) -> Result<HttpResponse, ClientError> {
        HttpClient { clock: &SystemClock::new(), stop, limit }.ask("GET", url, None)
    }

    fn ask(url: &str) -> Result<HttpResponse, ClientError> {
        ask_for(url, Duration::from_secs(20), &StopFlag::default())
    }

    #[test]
    fn response_is_read_to_its_end() {
        let chunked = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 201 Made\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let answer = served(chunked, true, ask).unwrap();
        assert_eq!((answer.status, answer.content.as_slice()), (201, &b"abc"[..]));
        assert_eq!(answer.fields.only("x-a").unwrap(), "b");
        assert_eq!(
            served("HTTP/1.0 200 OK\r\n\r\nuntil the end", false, ask).unwrap().content,
            b"until the end"
        );
    }

    #[test]
    fn half_a_response_is_an_error() {
        let short = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        assert!(matches!(served(short, false, ask), Err(ClientError::Truncated)));
        assert!(matches!(served("HTTP/1.1 200", false, ask), Err(ClientError::Truncated)));
        assert!(matches!(served("SSH-2.0-x\r\n\r\n", false, ask), Err(ClientError::Malformed(_))));
    }

    #[test]
    fn waiting_ends_at_the_limit_or_a_stop() {
        let limit = Duration::from_millis(120);
        let late = served("", true, |url| ask_for(url, limit, &StopFlag::default()));
        assert!(matches!(late, Err(ClientError::Late(_))));
        let stop = StopFlag::default();
        stop.request();
        let interrupted = served("", true, |url| ask_for(url, Duration::from_secs(20), &stop));
        assert!(matches!(interrupted, Err(ClientError::Interrupted)));
    }

    /// The server sends four bytes every 5 ms. It ends after two seconds, so that a client without
    /// a limit fails the test instead of hanging.
    #[test]
    fn trickling_response_ends_at_the_limit() {
        for (head, piece) in
            [("HTTP/1.1 200 OK\r\nContent-Length: 1600\r\n\r\n", "abcd"), ("", "HTTP/1.1 103 Early\r\n\r\n")]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/x", listener.local_addr().unwrap());
            let result = std::thread::scope(|scope| {
                scope.spawn(move || {
                    let (mut stream, _) = listener.accept().unwrap();
                    let pieces = std::iter::once(head).chain(std::iter::repeat_n(piece, 400));
                    for piece in pieces {
                        if stream.write_all(piece.as_bytes()).is_err() {
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
                ask_for(&url, Duration::from_millis(200), &StopFlag::default())
            });
            assert!(matches!(result, Err(ClientError::Late(_))), "{result:?}");
        }
    }

    #[test]
    fn status_outside_2xx_is_reported_in_a_sentence() {
        let stop = StopFlag::default();
        let clock = SystemClock::new();
        let client = HttpClient { clock: &clock, stop: &stop, limit: Duration::from_secs(20) };
        let refused = served("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", false, |url| {
            let reason = client.ask_2xx("POST", url, Some("shop.example")).unwrap_err();
            assert!(reason.ends_with("/x: the response has status 503"), "{reason}");
            Err(ClientError::Interrupted)
        });
        assert!(refused.is_err());
    }
}
