//! One HTTP/1 connection to a server, with one exchange at a time, as in a browser.
//!
//! Invariant: content is read to its end, or the connection is not used again. A truncated response
//! is a failure. Bytes that came before their request are never taken for its response. Nothing is
//! sent twice here.

use bytes::{Bytes, BytesMut};
use clock::{Clock, Monotonic};
use h1::client::{Exchange, ResponseEvent, Terms};
use h1::{ExchangeError, Limits, Strictness};
use message::{RequestHead, ResponseHead};
use record::FetchFailure;
use semantics::Moment;
use std::pin::Pin;
use std::task::{Context, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// The most bytes of a response head: roughly the limit of browsers.
pub(crate) const HEAD_BYTES_MAX: u32 = 256 * 1024;

const HEAD_LIMITS: Limits =
    Limits { head_bytes_max: HEAD_BYTES_MAX as usize, fields_max: 256, ..Limits::DEFAULT };

/// The most informational (1xx) responses accepted before the final one.
const INFORMATIONAL_MAX: u32 = 8;

const TERMS: Terms =
    Terms { limits: HEAD_LIMITS, strictness: Strictness::Tolerant, informational_max: INFORMATIONAL_MAX };

/// Bytes reserved for one read.
const READ_BYTES: usize = 32 * 1024;

/// A byte stream to a server, with or without TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> ByteStream for T {}

/// An open connection.
pub(crate) struct Http1Connection {
    wire: Box<dyn ByteStream>,
    input: BytesMut,
    /// Whether it has delivered a response.
    pub(crate) is_used: bool,
}

/// A complete response.
pub(crate) struct ResourceResponse {
    pub(crate) head: ResponseHead,
    /// Empty if its bytes were only counted.
    pub(crate) content: Bytes,
    /// Bytes received.
    pub(crate) received_bytes: u64,
    /// When the request was sent, and when the response head had arrived.
    pub(crate) times: (Moment, Moment),
    /// When the last byte had arrived.
    pub(crate) ended: Monotonic,
    /// Whether the connection can carry another exchange.
    pub(crate) is_persistent: bool,
}

/// A response being read.
struct IncomingResponse {
    exchange: Exchange,
    received_bytes: u64,
}

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    pub(crate) failure: FetchFailure,
    /// Whether no byte arrived, so that a used connection may have ended before the request reached
    /// the server.
    pub(crate) is_silent: bool,
}

/// Collects content while it arrives, up to a limit. The bytes are kept only if they will be
/// parsed.
#[derive(Clone)]
pub(crate) struct ContentBuffer {
    keeps: bool,
    bytes_max: usize,
    bytes: usize,
    octets: BytesMut,
}

impl ContentBuffer {
    /// Accepts at most `bytes_max` bytes. Keeps them if `keeps` is set, otherwise only counts them.
    pub(crate) fn new(keeps: bool, bytes_max: usize) -> Self {
        Self { keeps, bytes_max, bytes: 0, octets: BytesMut::new() }
    }

    /// Takes received bytes.
    ///
    /// # Errors
    /// If the limit is exceeded.
    pub(crate) fn add(&mut self, octets: &[u8]) -> Result<(), FetchFailure> {
        self.bytes += octets.len();
        if self.bytes > self.bytes_max {
            return Err(FetchFailure::TooLong);
        }
        if self.keeps {
            self.octets.extend_from_slice(octets);
        }
        Ok(())
    }

    /// The kept bytes.
    pub(crate) fn whole(self) -> Bytes {
        self.octets.freeze()
    }
}

impl Http1Connection {
    pub(crate) fn new(wire: Box<dyn ByteStream>) -> Self {
        Self { wire, input: BytesMut::new(), is_used: false }
    }

    /// Whether an idle connection can carry another request: the server has neither ended it nor
    /// sent anything. A server may send 408 (Request Timeout) without a request, for example.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut octet = [0];
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.wire).poll_read(&mut context, &mut ReadBuf::new(&mut octet));
        read.is_pending()
    }

    /// Waits until the server ends an idle connection. Bytes that arrive unasked end it too.
    pub(crate) async fn ended(self) {
        let Self { mut wire, .. } = self;
        // The result does not matter: in all cases the connection is unusable now.
        let _ = wire.read(&mut [0]).await;
    }

    /// Sends a request without content and reads the whole response. Its content goes into
    /// `content`.
    pub(crate) async fn exchange(
        &mut self,
        request: &RequestHead,
        content: ContentBuffer,
        clock: &dyn Clock,
    ) -> Result<ResourceResponse, NoAnswer> {
        let silent = |failure| NoAnswer { failure, is_silent: true };
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, request).map_err(|_| silent(FetchFailure::BadAnswer))?;
        let sent = Moment::read(clock);
        self.wire.write_all(&octets).await.map_err(|_| silent(FetchFailure::Closed))?;
        self.wire.flush().await.map_err(|_| silent(FetchFailure::Closed))?;
        let mut reading = IncomingResponse {
            exchange: Exchange::new(&request.method, TERMS),
            received_bytes: self.input.len() as u64,
        };
        let whole = self.read(&mut reading, content, clock).await;
        let (head, arrived, content, is_persistent) =
            whole.map_err(|failure| NoAnswer { failure, is_silent: !reading.exchange.has_begun() })?;
        self.is_used = true;
        Ok(ResourceResponse {
            head,
            content,
            received_bytes: reading.received_bytes,
            times: (sent, arrived),
            ended: clock.monotonic(),
            is_persistent,
        })
    }

    /// Reads the whole response. Returns its head, the time of the head's arrival, the content, and
    /// whether the connection can carry another exchange.
    async fn read(
        &mut self,
        reading: &mut IncomingResponse,
        mut content: ContentBuffer,
        clock: &dyn Clock,
    ) -> Result<(ResponseHead, Moment, Bytes, bool), FetchFailure> {
        let mut head = None;
        loop {
            match self.next(reading).await? {
                ResponseEvent::Informational(_) => {}
                // No request asks for another protocol.
                ResponseEvent::Head(response) if response.head.status.code() == 101 => {
                    return Err(FetchFailure::BadAnswer);
                }
                ResponseEvent::Head(response) => head = Some((response.head, Moment::read(clock))),
                ResponseEvent::Data(octets) => content.add(&octets)?,
                ResponseEvent::End(end) => {
                    let (head, arrived) = head.ok_or(FetchFailure::Closed)?;
                    return Ok((head, arrived, content.whole(), end.is_reusable));
                }
            }
        }
    }

    /// The next event of the response.
    async fn next(&mut self, reading: &mut IncomingResponse) -> Result<ResponseEvent, FetchFailure> {
        loop {
            if let Some(event) = reading.exchange.next(&mut self.input).map_err(failure)? {
                return Ok(event);
            }
            let more = net::read_more(&mut self.wire, &mut self.input, READ_BYTES).await;
            match more.map_err(|_| FetchFailure::Broken)? {
                0 => return reading.exchange.close().map(ResponseEvent::End).map_err(failure),
                bytes => reading.received_bytes += bytes as u64,
            }
        }
    }
}

fn failure(error: ExchangeError) -> FetchFailure {
    match error {
        ExchangeError::Closed => FetchFailure::Closed,
        ExchangeError::Head(_) | ExchangeError::TooManyInformational => FetchFailure::BadAnswer,
        ExchangeError::Body(_) => FetchFailure::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentBuffer, FetchFailure, Http1Connection};
    use tokio::io::AsyncWriteExt as _;

    #[test]
    fn connection_with_unasked_bytes_or_an_end_is_not_quiet() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for unasked in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
                let (ours, mut theirs) = tokio::io::duplex(64);
                let mut connection = Http1Connection::new(Box::new(ours));
                assert!(connection.is_quiet());
                theirs.write_all(unasked).await.unwrap();
                drop(theirs);
                assert!(!connection.is_quiet(), "{unasked:?}");
            }
        });
    }

    #[test]
    fn content_is_bounded_whether_it_is_kept_or_not() {
        for (keeps, expected) in [(true, &b"abcd"[..]), (false, b"")] {
            let mut content = ContentBuffer::new(keeps, 4);
            assert_eq!((content.add(b"abc"), content.add(b"d")), (Ok(()), Ok(())));
            assert_eq!(content.add(b"e"), Err(FetchFailure::TooLong));
            assert_eq!(content.whole(), expected);
        }
    }
}
