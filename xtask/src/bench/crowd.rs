//! A crowd: visitors with open connections who all send the same request at the same time.
//!
//! Invariant: every byte of every response is compared with the expected content. Times count from
//! just before the first request is sent. One thread with one poll keeps the cost of the clients
//! low. Each connection carries one request only.

use anyhow::{Context, Result, bail};
use clock::Clock;
use h1::client::{Exchange, Terms};
use message::{Method, Status};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest time until an interruption is noticed.
const SLICE: Duration = Duration::from_millis(100);
/// Size of the read buffer, in bytes; more than a whole response.
const READ_BYTES: usize = 64 * 1024;

/// Connected visitors who have sent nothing yet.
pub(super) struct ConnectedCrowd {
    poll: Poll,
    visitors: Vec<CrowdVisitor>,
}

/// Result of a rush.
#[derive(Debug, Default)]
pub(super) struct RushResult {
    /// Time of completion of each right response, in ascending order.
    pub(super) right: Vec<Duration>,
    /// Responses with another status or content, or cut off.
    pub(super) wrong: usize,
    /// Responses that were not complete in time.
    pub(super) missing: usize,
}

struct CrowdVisitor {
    stream: TcpStream,
    answer: PartialResponse,
}

/// A response, partly received.
struct PartialResponse {
    exchange: Exchange,
    /// Bytes of content so far.
    content_bytes: usize,
    /// Whether the response is right; `None` while unknown.
    verdict: Option<bool>,
}

impl ConnectedCrowd {
    /// Opens the connections.
    ///
    /// # Errors
    /// If the server refuses a connection.
    pub(super) fn gather(address: SocketAddr, visitors: usize) -> Result<Self> {
        let poll = Poll::new()?;
        let connect = |index| -> std::io::Result<CrowdVisitor> {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            Ok(CrowdVisitor { stream, answer: PartialResponse::new() })
        };
        let visitors = (0..visitors)
            .map(connect)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{address} does not take another connection"))?;
        Ok(Self { poll, visitors })
    }

    /// Sends the request on every connection, and reads until all responses are complete or `limit`
    /// has passed.
    ///
    /// # Errors
    /// If a request cannot be sent in one write, or `interrupted` is set.
    pub(super) fn rush(
        mut self,
        request: &[u8],
        content: &[u8],
        limit: Duration,
        clock: &dyn Clock,
        interrupted: &AtomicBool,
    ) -> Result<RushResult> {
        let mut events = Events::with_capacity(self.visitors.len());
        let mut buffer = vec![0; READ_BYTES];
        let mut rush = RushResult::default();
        let mut open = self.visitors.len();
        let begun = clock.monotonic();
        for visitor in &mut self.visitors {
            let sent = visitor.stream.write(request).context("a request cannot be sent")?;
            if sent < request.len() {
                bail!("a request cannot be sent at once");
            }
        }
        while open > 0 && clock.monotonic().since(begun) < limit {
            // Relaxed is enough: the flag guards no other data.
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            match self.poll.poll(&mut events, Some(SLICE)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                let Some(visitor) = self.visitors.get_mut(event.token().0) else { continue };
                match visitor.read(&mut buffer, content) {
                    Some(true) => rush.right.push(clock.monotonic().since(begun)),
                    Some(false) => rush.wrong += 1,
                    None => continue,
                }
                open -= 1;
            }
        }
        rush.missing = open;
        Ok(rush)
    }
}

impl CrowdVisitor {
    /// Reads all available bytes. Returns the verdict once, when it becomes known.
    fn read(&mut self, buffer: &mut [u8], content: &[u8]) -> Option<bool> {
        while self.answer.verdict.is_none() {
            let verdict = match self.stream.read(buffer) {
                Ok(0) => Some(self.answer.end(content)),
                Ok(octets) => self.answer.feed(buffer.get(..octets).unwrap_or_default(), content),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => None,
                Err(_) => Some(false),
            };
            self.answer.verdict = verdict;
            if verdict.is_some() {
                return verdict;
            }
        }
        None
    }
}

impl PartialResponse {
    fn new() -> Self {
        Self { exchange: Exchange::new(&Method::Get, Terms::TOLERANT), content_bytes: 0, verdict: None }
    }

    /// Takes the next bytes. Returns the verdict once the response is complete, or as soon as a
    /// wrong byte is found.
    fn feed(&mut self, input: &[u8], content: &[u8]) -> Option<bool> {
        let (mut same, mut at) = (true, self.content_bytes);
        let taken = self.exchange.skim(input, |run| {
            same &= content.get(at..).is_some_and(|rest| rest.starts_with(run));
            at += run.len();
        });
        self.content_bytes = at;
        same &= self.exchange.status().is_none_or(|status| status == Status::OK);
        match taken {
            Ok(taken) if same && !taken.is_complete => None,
            Ok(taken) => Some(same && at == content.len() && taken.consumed == input.len()),
            Err(_) => Some(false),
        }
    }

    /// The connection has ended: whether the response is complete and right.
    fn end(&mut self, content: &[u8]) -> bool {
        self.exchange.close().is_ok() && self.content_bytes == content.len()
    }
}

#[cfg(test)]
mod tests {
    use super::PartialResponse;

    const CONTENT: &[u8] = b"0123456789";

    /// The verdict on a response that arrives in pieces of `piece` bytes, followed by the end of
    /// the connection.
    fn verdict(answer: &str, piece: usize) -> Option<bool> {
        let mut reading = PartialResponse::new();
        for octets in answer.as_bytes().chunks(piece) {
            if let Some(verdict) = reading.feed(octets, CONTENT) {
                return Some(verdict);
            }
        }
        Some(reading.end(CONTENT))
    }

    #[test]
    fn only_a_complete_response_with_the_content_is_right() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", true),
            ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
                true,
            ),
            ("HTTP/1.1 200 OK\r\n\r\n0123456789", true),
            ("HTTP/1.1 200 OK\r\n\r\n012345678", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012345678", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n012345678", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456798", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n", false),
            ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 10\r\n\r\n0123456789", false),
            ("SSH-2.0\r\n\r\n", false),
            ("", false),
        ];
        for (answer, right) in cases {
            for piece in [1, 7, 4096] {
                assert_eq!(verdict(answer, piece), Some(right), "{answer:?} in pieces of {piece}");
            }
        }
    }
}
