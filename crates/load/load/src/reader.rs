//! Reads responses one after the other from the bytes of a connection. Content is counted but not
//! kept.
//!
//! Invariant: every byte is examined, and the result does not depend on how bytes are split into
//! reads. In the steady state nothing is allocated. Only an incomplete head is kept until the rest
//! arrives.

use h1::client::{Exchange, Terms};
use h1::{ResponseError, ResponseSkim, skim_response};
use message::{Method, Status, list_members, names};
use record::CacheVerdict;

/// One complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseSummary {
    pub(crate) status: u16,
    /// Content bytes, without transfer coding.
    pub(crate) content_bytes: u64,
    /// Whether the connection may carry another request.
    pub(crate) persistent: bool,
    pub(crate) verdict: Option<CacheVerdict>,
    /// Whether a `Content-Length` field announced the length.
    pub(crate) length_known: bool,
}

/// Why a response will never be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseReadError {
    /// The bytes are not HTTP/1, or bytes follow the end of the response.
    Malformed,
    /// The connection ended within the response.
    Truncated,
    /// The connection ended before the first byte.
    Nothing,
}

/// When a connection may carry another request after a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeepAliveRule {
    /// Never: the plan does not ask for it.
    #[default]
    Never,
    /// If the response says `keep-alive`. For HTTP/1.0 requests, even if the response says
    /// HTTP/1.1, because many servers write 1.1 into every response and close all the same.
    IfSaid,
    /// Unless the response says otherwise (RFC 9112 section 9.3). For HTTP/1.1 requests.
    UnlessDenied,
}

/// Caches the last head and its meaning, one per thread. The heads of a run are mostly equal, and
/// comparing is ten times faster than parsing.
#[derive(Debug, Default)]
pub(crate) struct HeadMemo {
    answers_head: bool,
    keep_alive_rule: KeepAliveRule,
    octets: Vec<u8>,
    head: Option<Head>,
    /// The first head of a final (not 1xx) response.
    pub(crate) first: Vec<u8>,
}

/// The meaning of a head.
#[derive(Clone, Copy, Debug)]
struct Head {
    skim: ResponseSkim,
    persistent: bool,
    verdict: Option<CacheVerdict>,
    length_known: bool,
}

/// Reads the responses of one connection.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    exchange: Exchange,
    /// The last head of the current response.
    head: Option<Head>,
    /// Content bytes of the current response so far.
    content_bytes: u64,
    /// Bytes of the heads of the current response, or of the previous one until the next begins.
    heads_bytes: u64,
}

const TERMS: Terms = Terms::TOLERANT;

impl Default for AnswerReader {
    fn default() -> Self {
        // The memo reads the heads, and knows the method.
        let exchange = Exchange::new(&Method::Get, TERMS);
        Self { exchange, head: None, content_bytes: 0, heads_bytes: 0 }
    }
}

impl AnswerReader {
    /// Whether a byte of the current response has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.exchange.has_begun()
    }

    /// Content bytes of the current response so far.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Bytes of the heads of the current response, or of the previous one until the next begins. 0
    /// if no head is complete.
    pub(crate) fn heads_bytes(&self) -> u64 {
        self.heads_bytes
    }

    /// The status of the current response, if its head is complete.
    pub(crate) fn status(&self) -> Option<u16> {
        self.exchange.status().map(Status::code)
    }

    /// Treats the bytes received so far as the whole response. Without a complete head its status
    /// is 0.
    pub(crate) fn cut_short(&mut self) -> ResponseSummary {
        let nothing = ResponseSummary {
            status: 0,
            content_bytes: 0,
            persistent: false,
            verdict: None,
            length_known: false,
        };
        let head = if self.exchange.status().is_some() { self.head } else { None };
        let whole = head.map(|head| answer(&head, self.content_bytes));
        self.reset();
        ResponseSummary { persistent: false, ..whole.unwrap_or(nothing) }
    }

    /// Reads the next bytes of the connection, which must not be empty, and passes content to
    /// `content`. Returns the response when it is complete; the reader is then ready for the next
    /// one. Bytes after the end are an error, because no further request was sent.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        memo: &mut HeadMemo,
        content: impl FnMut(&[u8]),
    ) -> Result<Option<ResponseSummary>, ResponseReadError> {
        let (consumed, answer) = self.feed_some(input, memo, content)?;
        if consumed < input.len() { Err(ResponseReadError::Malformed) } else { Ok(answer) }
    }

    /// Like [`AnswerReader::feed`], for responses that may follow each other. Also returns the
    /// number of bytes consumed.
    pub(crate) fn feed_some(
        &mut self,
        input: &[u8],
        memo: &mut HeadMemo,
        mut content: impl FnMut(&[u8]),
    ) -> Result<(usize, Option<ResponseSummary>), ResponseReadError> {
        let Self { exchange, head, content_bytes, heads_bytes } = self;
        if !exchange.has_begun() {
            *heads_bytes = 0;
        }
        let read_head = |octets: &[u8]| {
            let Some(found) = memo.head(octets)? else { return Ok(None) };
            *heads_bytes += found.skim.head_bytes as u64;
            *head = Some(found);
            Ok(Some(found.skim))
        };
        let count = |run: &[u8]| {
            *content_bytes += run.len() as u64;
            content(run);
        };
        let taken = exchange.skim_with(input, read_head, count).map_err(|_| ResponseReadError::Malformed)?;
        let answer = if taken.is_complete { self.complete() } else { None };
        Ok((taken.consumed, answer))
    }

    /// The result of the connection ending at this point.
    pub(crate) fn end(&mut self) -> Result<ResponseSummary, ResponseReadError> {
        if !self.has_begun() {
            return Err(ResponseReadError::Nothing);
        }
        self.exchange.close().map_err(|_| ResponseReadError::Truncated)?;
        self.complete().ok_or(ResponseReadError::Truncated)
    }

    /// The complete response. The reader is then ready for the next one.
    fn complete(&mut self) -> Option<ResponseSummary> {
        let answer = self.head.map(|head| answer(&head, self.content_bytes));
        self.reset();
        answer
    }

    /// Discards a partial response, before the connection is made anew.
    pub(crate) fn reset(&mut self) {
        self.exchange.restart();
        self.head = None;
        self.content_bytes = 0;
    }
}

impl HeadMemo {
    /// A memo for responses to one kind of request; `answers_head` says that the method is HEAD.
    pub(crate) fn new(answers_head: bool, keep_alive_rule: KeepAliveRule) -> Self {
        Self { answers_head, keep_alive_rule, ..Self::default() }
    }

    /// The meaning of the head at the start of `input`; `None` if the head is not complete.
    fn head(&mut self, input: &[u8]) -> Result<Option<Head>, ResponseError> {
        if let Some(head) = self.head.filter(|_| input.starts_with(&self.octets)) {
            return Ok(Some(head));
        }
        let Some(skim) = skim_response(input, self.answers_head, &TERMS.limits)? else { return Ok(None) };
        let persistent = skim.persistent
            && match self.keep_alive_rule {
                KeepAliveRule::Never => false,
                KeepAliveRule::IfSaid => says_keep_alive(&skim, input),
                KeepAliveRule::UnlessDenied => true,
            };
        let length_known = skim.field(input, names::CONTENT_LENGTH).is_some();
        let head = Head { skim, persistent, verdict: verdict(&skim, input), length_known };
        self.octets.clear();
        self.octets.extend_from_slice(input.get(..skim.head_bytes).unwrap_or_default());
        self.head = Some(head);
        if self.first.is_empty() && !skim.status.is_informational() {
            self.first.clone_from(&self.octets);
        }
        Ok(Some(head))
    }
}

fn says_keep_alive(skim: &ResponseSkim, input: &[u8]) -> bool {
    let options = skim.field(input, names::CONNECTION).unwrap_or_default();
    list_members(options).any(|option| option.eq_ignore_ascii_case(b"keep-alive"))
}

fn verdict(skim: &ResponseSkim, input: &[u8]) -> Option<CacheVerdict> {
    CacheVerdict::of(|name| skim.field(input, name))
}

fn answer(head: &Head, content_bytes: u64) -> ResponseSummary {
    ResponseSummary {
        status: head.skim.status.code(),
        content_bytes,
        persistent: head.persistent,
        verdict: head.verdict,
        length_known: head.length_known,
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerReader, HeadMemo, KeepAliveRule, ResponseReadError, ResponseSummary};
    use record::CacheVerdict;

    /// A reader and a memo for plain HTTP/1.1 requests.
    fn reader() -> (AnswerReader, HeadMemo) {
        (AnswerReader::default(), HeadMemo::new(false, KeepAliveRule::UnlessDenied))
    }

    /// Feeds `octets` in pieces of `size` bytes and returns the first result except "more".
    fn read(octets: &[u8], size: usize) -> Result<Option<ResponseSummary>, ResponseReadError> {
        let (mut reader, mut memo) = reader();
        for piece in octets.chunks(size) {
            match reader.feed(piece, &mut memo, |_| {}) {
                Ok(None) => {}
                done => return done,
            }
        }
        Ok(None)
    }

    #[test]
    fn result_does_not_depend_on_the_split_into_reads() {
        let octets = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX-Cache: HIT\r\n\
                       Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: 1\r\n\r\n";
        let expected = ResponseSummary {
            status: 200,
            content_bytes: 6,
            persistent: true,
            verdict: Some(CacheVerdict::Hit),
            length_known: false,
        };
        for size in 1..=octets.len() {
            assert_eq!(read(octets, size), Ok(Some(expected)), "in pieces of {size}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_malformed() {
        let octets = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n";
        assert_eq!(read(octets, octets.len()), Err(ResponseReadError::Malformed));
        assert!(matches!(read(octets, 1), Ok(Some(ResponseSummary { content_bytes: 2, .. }))));
    }

    #[test]
    fn changed_head_is_parsed_again() {
        let (mut reader, mut memo) = reader();
        let mut status =
            |octets: &[u8]| reader.feed(octets, &mut memo, |_| {}).unwrap().map(|answer| answer.status);
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"), Some(200));
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"), Some(200));
        assert_eq!(status(b"HTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nc"), Some(500));
        assert_eq!(status(b"HTTP/1.1 500 No\r\nContent-Len"), None);
        assert_eq!(status(b"gth: 0\r\n\r\n"), Some(500));
        assert!(memo.first.starts_with(b"HTTP/1.1 200"));
    }

    #[test]
    fn early_close_is_nothing_truncated_or_the_end() {
        let end = |octets: &[u8]| {
            let (mut reader, mut memo) = reader();
            if !octets.is_empty() {
                assert_eq!(reader.feed(octets, &mut memo, |_| {}), Ok(None));
            }
            reader.end()
        };
        assert_eq!(end(b""), Err(ResponseReadError::Nothing));
        assert_eq!(end(b"HTTP/1.1 200"), Err(ResponseReadError::Truncated));
        assert_eq!(
            end(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
            Err(ResponseReadError::Truncated)
        );
        assert_eq!(end(b"HTTP/1.1 100 Continue\r\n\r\n"), Err(ResponseReadError::Truncated));
        let until_close = end(b"HTTP/1.0 200 OK\r\n\r\nabc").unwrap();
        assert_eq!((until_close.content_bytes, until_close.persistent), (3, false));
    }

    #[test]
    fn responses_to_head_have_no_content() {
        let mut reader = AnswerReader::default();
        let mut memo = HeadMemo::new(true, KeepAliveRule::UnlessDenied);
        let answer =
            reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", &mut memo, |_| {}).unwrap().unwrap();
        assert_eq!((answer.content_bytes, answer.persistent), (0, true));
    }

    #[test]
    fn connections_persist_only_if_both_sides_agree() {
        let persists = |keep_alive_rule, head: &str| {
            let octets = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 0\r\n\r\n");
            let mut memo = HeadMemo::new(false, keep_alive_rule);
            AnswerReader::default().feed(octets.as_bytes(), &mut memo, |_| {}).unwrap().unwrap().persistent
        };
        let fields = ["", "Connection: Keep-Alive\r\n", "Connection: close\r\n"];
        assert_eq!(fields.map(|field| persists(KeepAliveRule::Never, field)), [false; 3]);
        assert_eq!(fields.map(|field| persists(KeepAliveRule::IfSaid, field)), [false, true, false]);
        assert_eq!(fields.map(|field| persists(KeepAliveRule::UnlessDenied, field)), [true, true, false]);
    }

    #[test]
    fn non_http_bytes_are_malformed() {
        assert_eq!(read(b"SSH-2.0-server\r\n", 16), Err(ResponseReadError::Malformed));
        assert_eq!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 99),
            Err(ResponseReadError::Malformed)
        );
    }
}
