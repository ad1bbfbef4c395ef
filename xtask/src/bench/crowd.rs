//! A crowd: visitors on connections of their own, opened before, who all send the same request at once.
//!
//! Invariant: every octet of every answer is compared with what it should be, and each answer's time counts from
//! the moment before the first request was sent. One thread and one poll, so that little of the machine goes into
//! asking. It sends one request on each connection and never another.

use anyhow::{Context, Result, bail};
use h1::{BodyDecoder, Limits, Strictness, skim_response};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use platform::Clock;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the wish to stop is looked at.
const SLICE: Duration = Duration::from_millis(100);
/// Octets that one read may bring; more than an answer has.
const READ_BYTES: usize = 64 * 1024;

/// Visitors who are connected and have asked nothing yet.
pub(super) struct Crowd {
    poll: Poll,
    visitors: Vec<Visitor>,
}

/// What the visitors got.
#[derive(Debug, Default)]
pub(super) struct Rush {
    /// When each right answer was whole, in order.
    pub(super) right: Vec<Duration>,
    /// Answers of another status or content, and answers cut off.
    pub(super) wrong: usize,
    /// Answers that were not whole in time.
    pub(super) missing: usize,
}

struct Visitor {
    stream: TcpStream,
    answer: Answer,
}

/// One answer on its way.
#[derive(Default)]
struct Answer {
    /// The beginning of a head whose end has not come yet.
    partial_head: Vec<u8>,
    body: Option<BodyDecoder>,
    /// Octets of content so far.
    content_bytes: usize,
    /// Whether it was right, once that is known.
    verdict: Option<bool>,
}

impl Crowd {
    /// Opens the connections.
    ///
    /// # Errors
    /// If the server does not take one of them.
    pub(super) fn gather(address: SocketAddr, visitors: usize) -> Result<Self> {
        let poll = Poll::new()?;
        let connect = |index| -> std::io::Result<Visitor> {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            Ok(Visitor { stream, answer: Answer::default() })
        };
        let visitors = (0..visitors)
            .map(connect)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{address} does not take another connection"))?;
        Ok(Self { poll, visitors })
    }

    /// Sends the request on every connection and reads until each has its answer or `limit` is over.
    ///
    /// # Errors
    /// If a request cannot be sent at once, or `interrupted` is set.
    pub(super) fn rush(
        mut self,
        request: &[u8],
        content: &[u8],
        limit: Duration,
        clock: &dyn Clock,
        interrupted: &AtomicBool,
    ) -> Result<Rush> {
        let mut events = Events::with_capacity(self.visitors.len());
        let mut buffer = vec![0; READ_BYTES];
        let mut rush = Rush::default();
        let mut open = self.visitors.len();
        let begun = clock.monotonic();
        for visitor in &mut self.visitors {
            let sent = visitor.stream.write(request).context("a request cannot be sent")?;
            if sent < request.len() {
                bail!("a request cannot be sent at once");
            }
        }
        while open > 0 && clock.monotonic().since(begun) < limit {
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

impl Visitor {
    /// Reads what is there; says once whether the answer was right, as soon as that is known.
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

impl Answer {
    /// Takes the next octets; says whether the answer is right when it is whole, or wrong as soon as it is.
    fn feed(&mut self, input: &[u8], content: &[u8]) -> Option<bool> {
        if self.body.is_some() {
            return self.feed_body(input, content);
        }
        if self.partial_head.is_empty() {
            return self.feed_head(input, content);
        }
        let mut head = std::mem::take(&mut self.partial_head);
        head.extend_from_slice(input);
        self.feed_head(&head, content)
    }

    fn feed_head(&mut self, input: &[u8], content: &[u8]) -> Option<bool> {
        let mut rest = input;
        loop {
            match skim_response(rest, false, &Limits::DEFAULT) {
                Err(_) => return Some(false),
                Ok(None) => {
                    self.partial_head.extend_from_slice(rest);
                    return None;
                }
                Ok(Some(head)) => {
                    rest = rest.get(head.head_bytes..).unwrap_or_default();
                    if head.status.is_informational() {
                        continue;
                    }
                    if head.status.code() != 200 {
                        return Some(false);
                    }
                    let framing = head.framing;
                    self.body =
                        Some(BodyDecoder::with_limits(framing, &Limits::DEFAULT, Strictness::Tolerant));
                    return self.feed_body(rest, content);
                }
            }
        }
    }

    fn feed_body(&mut self, input: &[u8], content: &[u8]) -> Option<bool> {
        let (mut same, mut at) = (true, self.content_bytes);
        let skimmed = self.body.as_mut()?.skim_with(input, |run| {
            same &= content.get(at..).is_some_and(|rest| rest.starts_with(run));
            at += run.len();
        });
        self.content_bytes = at;
        match skimmed {
            Ok(skimmed) if same && !skimmed.done => None,
            Ok(skimmed) => Some(same && at == content.len() && skimmed.consumed == input.len()),
            Err(_) => Some(false),
        }
    }

    /// The connection has ended: whether that makes the answer whole and right.
    fn end(&self, content: &[u8]) -> bool {
        let whole = self.body.as_ref().is_some_and(|body| body.eof().is_ok());
        whole && self.content_bytes == content.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    const CONTENT: &[u8] = b"0123456789";

    /// The verdict on an answer that comes in pieces of this many octets, and then the end.
    fn verdict(answer: &str, piece: usize) -> Option<bool> {
        let mut reading = Answer::default();
        for octets in answer.as_bytes().chunks(piece) {
            if let Some(verdict) = reading.feed(octets, CONTENT) {
                return Some(verdict);
            }
        }
        Some(reading.end(CONTENT))
    }

    #[test]
    fn only_a_whole_answer_with_the_right_content_is_right() {
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
