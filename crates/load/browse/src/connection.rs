//! One HTTP/1 connection to a server, with one exchange at a time, as in a browser.
//!
//! Invariant: content is read to its end, or the connection is not used again. A truncated response
//! is a failure. Bytes that came before their request are never taken for its response. Nothing is
//! sent twice here.

use bytes::{Bytes, BytesMut};
use clock::{Clock, Monotonic};
use h1::{BodyDecoder, Decoded, Limits, Strictness};
use message::{RequestHead, ResponseHead};
use record::FetchFailure;
use semantics::Moment;
use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// The most bytes of a response head: roughly what browsers accept.
pub(crate) const HEAD_BYTES_MAX: u32 = 256 * 1024;

const HEAD_LIMITS: Limits =
    Limits { head_bytes_max: HEAD_BYTES_MAX as usize, fields_max: 256, ..Limits::DEFAULT };

/// The most informational (1xx) responses accepted before the final one.
const INFORMATIONAL_MAX: u32 = 8;

/// Bytes reserved for one read.
const READ_BYTES: usize = 32 * 1024;

/// A byte stream to a server, with or without TLS.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// An open connection.
pub(crate) struct Connection {
    wire: Box<dyn Wire>,
    input: BytesMut,
    /// Whether it has delivered a response.
    pub(crate) is_used: bool,
}

/// A complete response.
pub(crate) struct Answer {
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
pub(crate) struct Content {
    keeps: bool,
    bytes_max: usize,
    bytes: usize,
    octets: BytesMut,
}

impl Content {
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

impl Connection {
    pub(crate) fn new(wire: Box<dyn Wire>) -> Self {
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
        content: Content,
        clock: &dyn Clock,
    ) -> Result<Answer, NoAnswer> {
        let silent = |failure| NoAnswer { failure, is_silent: true };
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, request).map_err(|_| silent(FetchFailure::BadAnswer))?;
        let sent = Moment::read(clock);
        self.wire.write_all(&octets).await.map_err(|_| silent(FetchFailure::Closed))?;
        self.wire.flush().await.map_err(|_| silent(FetchFailure::Closed))?;
        let mut received = self.input.len() as u64;
        let response = self.read_head(request, &mut received).await?;
        let arrived = Moment::read(clock);
        let broken = |failure| NoAnswer { failure, is_silent: false };
        let mut decoder = BodyDecoder::with_limits(response.framing, &HEAD_LIMITS, Strictness::Tolerant);
        let content = self.read_content(&mut decoder, content, &mut received).await.map_err(broken)?;
        self.is_used = true;
        Ok(Answer {
            is_persistent: response.persistent && self.input.is_empty() && decoder.is_done(),
            head: response.head,
            content,
            received_bytes: received,
            times: (sent, arrived),
            ended: clock.monotonic(),
        })
    }

    async fn read_head(
        &mut self,
        request: &RequestHead,
        received: &mut u64,
    ) -> Result<h1::Response, NoAnswer> {
        let mut informational = 0;
        loop {
            let parsed =
                h1::parse_response(&mut self.input, &request.method, &HEAD_LIMITS, Strictness::Tolerant);
            let is_silent = *received == 0;
            let fail = |failure| NoAnswer { failure, is_silent };
            let Some(response) = parsed.map_err(|_| fail(FetchFailure::BadAnswer))? else {
                let bytes = self.fill().await.map_err(|_| fail(FetchFailure::Broken))?;
                *received += bytes as u64;
                if bytes == 0 {
                    return Err(fail(FetchFailure::Closed));
                }
                continue;
            };
            if !response.head.status.is_informational() {
                return Ok(response);
            }
            informational += 1;
            if informational > INFORMATIONAL_MAX || response.head.status.code() == 101 {
                return Err(fail(FetchFailure::BadAnswer));
            }
        }
    }

    async fn read_content(
        &mut self,
        decoder: &mut BodyDecoder,
        mut content: Content,
        received: &mut u64,
    ) -> Result<Bytes, FetchFailure> {
        loop {
            match decoder.decode(&mut self.input).map_err(|_| FetchFailure::Broken)? {
                Decoded::Data(octets) => content.add(&octets)?,
                Decoded::End(_) => return Ok(content.whole()),
                Decoded::NeedMore => {
                    let more = self.fill().await.map_err(|_| FetchFailure::Broken)?;
                    *received += more as u64;
                    if more == 0 {
                        decoder.eof().map_err(|_| FetchFailure::Broken)?;
                        return Ok(content.whole());
                    }
                }
            }
        }
    }

    /// Reads more bytes; 0 at the end. Many servers end TLS without a closing alert, so that counts
    /// as an end too. The framing decides whether the response is complete.
    async fn fill(&mut self) -> io::Result<usize> {
        self.input.reserve(READ_BYTES);
        match self.wire.read_buf(&mut self.input).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, Content, FetchFailure};
    use tokio::io::AsyncWriteExt as _;

    #[test]
    fn connection_with_unasked_bytes_or_an_end_is_not_quiet() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for unasked in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
                let (ours, mut theirs) = tokio::io::duplex(64);
                let mut connection = Connection::new(Box::new(ours));
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
            let mut content = Content::new(keeps, 4);
            assert_eq!((content.add(b"abc"), content.add(b"d")), (Ok(()), Ok(())));
            assert_eq!(content.add(b"e"), Err(FetchFailure::TooLong));
            assert_eq!(content.whole(), expected);
        }
    }
}
