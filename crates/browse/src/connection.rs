//! One connection to a server, and one exchange after the other on it, as a browser's HTTP/1 half does it.
//!
//! Invariant: content is read to its end or the connection is of no use any more; an answer that broke off is a
//! failure. Nothing is sent twice here.

use crate::outcome::FetchFailure;
use bytes::{Bytes, BytesMut};
use h1::{BodyDecoder, Decoded, Limits, Strictness};
use message::{RequestHead, ResponseHead};
use platform::{Clock, Monotonic};
use semantics::Moment;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Heads as long as browsers take them, about.
const HEAD_LIMITS: Limits = Limits { head_bytes_max: 256 * 1024, fields_max: 256, ..Limits::DEFAULT };

/// Informational responses before the one that answers.
const INFORMATIONAL_MAX: u32 = 8;

/// Octets that one read may bring.
const READ_BYTES: usize = 32 * 1024;

/// Something that octets go through.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// An open connection.
pub(crate) struct Connection {
    wire: Box<dyn Wire>,
    input: BytesMut,
    /// Whether an answer has come through it already.
    pub(crate) is_used: bool,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) head: ResponseHead,
    /// Empty where only its length was asked for.
    pub(crate) content: Bytes,
    /// Octets received.
    pub(crate) received_bytes: u64,
    /// When the request was sent, and when the head had come.
    pub(crate) times: (Moment, Moment),
    /// When the last octet had come.
    pub(crate) ended: Monotonic,
    /// Whether the connection can carry another exchange.
    pub(crate) is_persistent: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    pub(crate) failure: FetchFailure,
    /// Whether not one octet came, so that a used connection may have ended before the request arrived.
    pub(crate) is_silent: bool,
}

/// Content as it comes: bounded, and kept only where it is read.
pub(crate) struct Content {
    keeps: bool,
    bytes_max: usize,
    bytes: usize,
    octets: BytesMut,
}

impl Content {
    /// At most `bytes_max` octets, of which nothing is kept unless `keeps`.
    pub(crate) fn new(keeps: bool, bytes_max: usize) -> Self {
        Self { keeps, bytes_max, bytes: 0, octets: BytesMut::new() }
    }

    /// Takes what has come.
    ///
    /// # Errors
    /// If it is more than there may be.
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

    /// What was kept.
    pub(crate) fn whole(self) -> Bytes {
        self.octets.freeze()
    }
}

impl Connection {
    pub(crate) fn new(wire: Box<dyn Wire>) -> Self {
        Self { wire, input: BytesMut::new(), is_used: false }
    }

    /// Waits until the server ends a connection on which nothing is asked for. Bytes that come unasked end it too.
    pub(crate) async fn ended(self) {
        let Self { mut wire, .. } = self;
        // Whatever comes, or why nothing does: the connection is of no more use.
        let _ = wire.read(&mut [0]).await;
    }

    /// Sends a request without content and reads the whole answer, its content into `content`.
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

    /// Reads more; 0 at the end. Many servers end TLS without its closing message: whether the answer is whole then,
    /// its framing knows.
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
    use super::{Content, FetchFailure};

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
