//! Sends the origin's responses over a stream, honestly or with a fault.
//!
//! Invariant: a lie is reported before its first byte is sent. The body that is sent is always a
//! beginning of the content, whatever the head says about its length.

use crate::answer::Answer;
use crate::event::Lie;
use crate::fault::OriginFault;
use crate::page::Framing;
use crate::read::READ_BYTES;
use bytes::BytesMut;
use message::{ResponseHead, Status};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use world::Random;

/// Longest time for which a closed connection is still read.
const LINGER: Duration = Duration::from_secs(5);

/// How late the last byte of a body comes, in milliseconds.
const LATE_MS: (u64, u64) = (3000, 9000);

/// One connection of the origin.
pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    /// Bytes that arrived and are not read yet.
    pub(crate) input: BytesMut,
    pub(crate) random: Random,
}

/// How the origin ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    Close,
    Reset,
}

/// Why a connection carries no further exchange.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The stream failed.
    Stream(#[expect(dead_code, reason = "shown by tests with Debug")] io::Error),
    /// The origin ends it.
    Ends(ConnectionEnd),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Waits for more input.
    pub(crate) async fn receive(&mut self) -> Result<(), Failure> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(Failure::Ends(ConnectionEnd::Close)),
            _ => Ok(()),
        }
    }

    pub(crate) async fn send(&mut self, octets: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(octets).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Sends nothing until the peer closes the connection, for at most `longest`.
    pub(crate) async fn hang(&mut self, longest: Duration) -> Result<(), Failure> {
        let until_closed = async { while self.receive().await.is_ok() {} };
        // Both ends mean the same: the origin closes.
        let _ = tokio::time::timeout(longest, until_closed).await;
        Err(Failure::Ends(ConnectionEnd::Close))
    }

    /// Closes the connection in an orderly way. Unread input would turn the close into a reset, and
    /// the peer might lose the end of the response. It is therefore read for a while.
    pub(crate) async fn close(mut self) {
        // The peer may have closed its side already.
        let _ = self.stream.shutdown().await;
        let until_closed = async { while self.receive().await.is_ok() {} };
        let _ = tokio::time::timeout(LINGER, until_closed).await;
    }

    pub(crate) async fn send_garbage(&mut self) -> Result<(), Failure> {
        let garbage: &[u8] = match self.random.below(4) {
            0 => b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
            1 => b"HTTP/1.1 abc\r\n\r\n",
            2 => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            _ => b"\x16\x03\x01\x00\x00\x00\xff\n\n\n",
        };
        self.send(garbage).await?;
        Err(Failure::Ends(ConnectionEnd::Close))
    }

    pub(crate) async fn send_error(&mut self, status: u16) -> Result<(), Failure> {
        let text = format!("HTTP/1.1 {status} Broken\r\nContent-Length: 6\r\n\r\nbroken");
        self.send(text.as_bytes()).await
    }

    /// Sends a response. `lies` learns about each lie before it is told.
    pub(crate) async fn send_answer(
        &mut self,
        answer: &Answer,
        is_head: bool,
        fault: Option<OriginFault>,
        date: &str,
        lies: impl Fn(Lie),
    ) -> Result<(), Failure> {
        let bytes = answer.body.len();
        let within = self.random.below(bytes as u64) as usize;
        let (announced, sent) = match fault {
            Some(OriginFault::LongLength) => (bytes + 1 + self.random.below(500) as usize, bytes),
            Some(OriginFault::ShortLength) => (within, bytes),
            Some(OriginFault::EmptyOk) => (0, 0),
            Some(OriginFault::Truncate | OriginFault::EarlyEnd | OriginFault::HangInBody) => (bytes, within),
            Some(OriginFault::Reset) if answer.framing != Framing::Close => (bytes, within),
            Some(OriginFault::Reset) => return Err(Failure::Ends(ConnectionEnd::Reset)),
            _ => (bytes, bytes),
        };
        match fault {
            Some(OriginFault::LongLength) => lies(Lie::Announces(announced)),
            Some(OriginFault::ShortLength | OriginFault::EmptyOk) => lies(Lie::LooksWhole(announced)),
            Some(OriginFault::EarlyEnd) => lies(Lie::LooksWhole(sent)),
            _ => {}
        }
        let framing = if fault == Some(OriginFault::EmptyOk) { Framing::Length } else { answer.framing };
        let head = head(answer, framing, announced, is_head, date);
        self.send(&head).await?;
        let has_body = !is_head && answer.status != 304 && answer.status != 204;
        if has_body {
            let body = answer.body.get(..sent).unwrap_or_default();
            let last = if fault == Some(OriginFault::LateEnd) { body.len().min(1) } else { 0 };
            let (body, end) = body.split_at_checked(body.len() - last).unwrap_or((body, &[]));
            self.send_body(body, framing, fault == Some(OriginFault::SlowBody)).await?;
            if !end.is_empty() {
                tokio::time::sleep(self.random.millis(LATE_MS.0, LATE_MS.1)).await;
                self.send_body(end, framing, false).await?;
            }
        }
        match fault {
            Some(OriginFault::HangInBody) => self.hang(Duration::from_secs(900)).await,
            Some(OriginFault::Reset) => Err(Failure::Ends(ConnectionEnd::Reset)),
            Some(
                OriginFault::Truncate
                | OriginFault::EarlyEnd
                | OriginFault::LongLength
                | OriginFault::ShortLength
                | OriginFault::CloseBetween,
            ) => Err(Failure::Ends(ConnectionEnd::Close)),
            _ => {
                if has_body && framing == Framing::Chunked {
                    self.send(b"0\r\n\r\n").await?;
                }
                let ends = has_body && framing == Framing::Close;
                if ends { Err(Failure::Ends(ConnectionEnd::Close)) } else { Ok(()) }
            }
        }
    }

    /// Sends a body in pieces, without the last chunk.
    async fn send_body(&mut self, body: &[u8], framing: Framing, is_slow: bool) -> Result<(), Failure> {
        let largest = if is_slow { (body.len() / 8).max(1) as u64 } else { 32_768 };
        let mut rest = body;
        while !rest.is_empty() {
            let bytes = (self.random.between(1, largest) as usize).min(rest.len());
            let (piece, after) = rest.split_at_checked(bytes).unwrap_or((rest, &[]));
            rest = after;
            if framing == Framing::Chunked {
                let mut chunk = BytesMut::with_capacity(piece.len() + 16);
                h1::write_chunk(&mut chunk, piece);
                self.send(&chunk).await?;
            } else {
                self.send(piece).await?;
            }
            if is_slow && !rest.is_empty() {
                tokio::time::sleep(self.random.millis(50, 3000)).await;
            }
        }
        Ok(())
    }
}

/// The head of a response, as bytes.
fn head(answer: &Answer, framing: Framing, announced: usize, is_head: bool, date: &str) -> BytesMut {
    let status = Status::from_code(answer.status).unwrap_or(Status::OK);
    let mut head = ResponseHead::new(status);
    head.fields = answer.fields.clone();
    head.fields.push("Date", date.to_owned());
    match framing {
        _ if matches!(answer.status, 304 | 204) => {}
        Framing::Length => head.fields.push("Content-Length", announced.to_string()),
        Framing::Chunked if !is_head => head.fields.push("Transfer-Encoding", "chunked"),
        Framing::Close if !is_head => head.fields.push("Connection", "close"),
        // RFC 9111 section 4.3.5 lets a HEAD response without validator and length renew a stored
        // page of any version, and the edge obeys. The length tells near versions apart.
        _ if !head.fields.has("ETag") && !head.fields.has("Last-Modified") => {
            head.fields.push("Content-Length", announced.to_string());
        }
        _ => {}
    }
    let mut octets = BytesMut::new();
    // The fields are made from text without line ends, so that writing them cannot fail.
    let _ = h1::write_response_head(&mut octets, &head);
    octets
}
