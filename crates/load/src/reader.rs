//! Reads one answer after the other from the octets of a connection, counting and keeping nothing.
//!
//! Invariant: every octet is looked at, and the result does not depend on how they were cut into reads. In
//! the steady state nothing is allocated: only a head that is cut in two is kept until the rest comes.

use crate::verdict::CacheVerdict;
use h1::{BodyDecoder, Limits, ResponseSkim, Strictness, skim_response};
use message::{list_members, names};

/// One complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Content octets, transfer coding removed.
    pub(crate) content_bytes: u64,
    /// Whether the connection may carry another request.
    pub(crate) persistent: bool,
    pub(crate) verdict: Option<CacheVerdict>,
    /// Whether a `Content-Length` field said how long it would be.
    pub(crate) length_known: bool,
}

/// Why an answer will never be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// What came is not HTTP/1, or more came than the answer has.
    Malformed,
    /// The connection ended in the middle.
    Truncated,
    /// The connection ended before the first octet.
    Nothing,
}

/// When a connection may carry another request after an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Never: it was not asked for.
    #[default]
    Never,
    /// If the answer says `keep-alive`. For HTTP/1.0 requests, also where the answer is HTTP/1.1: many servers
    /// write 1.1 into every answer and close all the same.
    IfSaid,
    /// Unless the answer says otherwise (RFC 9112 section 9.3). For HTTP/1.1 requests.
    UnlessDenied,
}

/// The heads of a run are mostly the same octets again and again, so the last one and what it meant are kept:
/// comparing is ten times faster than parsing. One per thread.
#[derive(Debug, Default)]
pub(crate) struct HeadMemo {
    answers_head: bool,
    persistence: Persistence,
    octets: Vec<u8>,
    head: Option<Head>,
    /// The first final head seen.
    pub(crate) first: Vec<u8>,
}

/// What a head means.
#[derive(Clone, Copy, Debug)]
struct Head {
    skim: ResponseSkim,
    persistent: bool,
    verdict: Option<CacheVerdict>,
    length_known: bool,
}

/// Reads the answers of one connection.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    /// The beginning of a head whose end has not come yet.
    partial_head: Vec<u8>,
    body: Option<(Head, BodyDecoder)>,
    /// Content octets of the current answer so far.
    content_bytes: u64,
    begun: bool,
    /// Octets of the heads of the current answer, or of the one before while none has begun.
    heads_bytes: u64,
}

const LIMITS: Limits = Limits::DEFAULT;

impl AnswerReader {
    /// Whether an octet of the current answer has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Content octets of the current answer so far.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Octets of the heads of the current answer, or of the one before while none has begun. 0 if no head is complete.
    pub(crate) fn heads_bytes(&self) -> u64 {
        self.heads_bytes
    }

    /// The status of the current answer, if its head is complete.
    pub(crate) fn status(&self) -> Option<u16> {
        self.body.as_ref().map(|(head, _)| head.skim.status.code())
    }

    /// Takes what has come for the whole answer; without a head its status is 0.
    pub(crate) fn cut_short(&mut self) -> Answer {
        let nothing =
            Answer { status: 0, content_bytes: 0, persistent: false, verdict: None, length_known: false };
        let whole = self.body.as_ref().map(|(head, _)| answer(head, self.content_bytes));
        self.reset();
        Answer { persistent: false, ..whole.unwrap_or(nothing) }
    }

    /// Takes the next octets of the connection, which must not be empty, and hands what of them is content to
    /// `content`. Gives the answer when it is complete; the reader is then ready for the next one. Nothing may follow
    /// it, as nothing was asked.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        memo: &mut HeadMemo,
        content: impl FnMut(&[u8]),
    ) -> Result<Option<Answer>, ReadError> {
        let (consumed, answer) = self.feed_some(input, memo, content)?;
        if consumed < input.len() { Err(ReadError::Malformed) } else { Ok(answer) }
    }

    /// The same for answers that may follow each other: gives how many of the octets were taken as well.
    pub(crate) fn feed_some(
        &mut self,
        input: &[u8],
        memo: &mut HeadMemo,
        content: impl FnMut(&[u8]),
    ) -> Result<(usize, Option<Answer>), ReadError> {
        if !std::mem::replace(&mut self.begun, true) {
            self.heads_bytes = 0;
        }
        let mut rest = input;
        if self.body.is_none() {
            match self.read_head(rest, memo)? {
                Some(after) => rest = after,
                None => return Ok((input.len(), None)),
            }
        }
        let Some((head, decoder)) = &mut self.body else { return Ok((input.len(), None)) };
        let skimmed = decoder.skim_with(rest, content).map_err(|_| ReadError::Malformed)?;
        self.content_bytes += skimmed.content_bytes;
        if !skimmed.done {
            return Ok((input.len(), None));
        }
        let answer = answer(head, self.content_bytes);
        self.reset();
        Ok((input.len() - (rest.len() - skimmed.consumed), Some(answer)))
    }

    /// Judges the end of the connection at this point.
    pub(crate) fn end(&mut self) -> Result<Answer, ReadError> {
        if !self.begun {
            return Err(ReadError::Nothing);
        }
        let Some((head, decoder)) = &self.body else { return Err(ReadError::Truncated) };
        decoder.eof().map_err(|_| ReadError::Truncated)?;
        let answer = answer(head, self.content_bytes);
        self.reset();
        Ok(answer)
    }

    /// Reads heads until a final one is complete and prepares for its body. Gives the octets after it, or
    /// `None` if more are needed.
    fn read_head<'a>(&mut self, input: &'a [u8], memo: &mut HeadMemo) -> Result<Option<&'a [u8]>, ReadError> {
        let mut rest = input;
        loop {
            let kept_bytes = self.partial_head.len();
            let found = if kept_bytes == 0 {
                memo.head(rest)?
            } else {
                self.partial_head.extend_from_slice(rest);
                memo.head(&self.partial_head)?
            };
            let Some(head) = found else {
                if kept_bytes == 0 {
                    self.partial_head.extend_from_slice(rest);
                }
                return Ok(None);
            };
            self.partial_head.clear();
            self.heads_bytes += head.skim.head_bytes as u64;
            // What was kept was no whole head, so the head ends within the octets that came now.
            rest = rest.get(head.skim.head_bytes.saturating_sub(kept_bytes)..).unwrap_or_default();
            // 101 ends the conversation in HTTP/1; other 1xx heads announce that another head follows.
            if !head.skim.status.is_informational() || head.skim.status.code() == 101 {
                let decoder = BodyDecoder::with_limits(head.skim.framing, &LIMITS, Strictness::Tolerant);
                self.body = Some((head, decoder));
                return Ok(Some(rest));
            }
            if rest.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Forgets what has come of an answer, before the first of another connection.
    pub(crate) fn reset(&mut self) {
        self.partial_head.clear();
        self.body = None;
        self.content_bytes = 0;
        self.begun = false;
    }
}

impl HeadMemo {
    /// A memo for answers to requests of one kind; `answers_head` says that their method is HEAD.
    pub(crate) fn new(answers_head: bool, persistence: Persistence) -> Self {
        Self { answers_head, persistence, ..Self::default() }
    }

    /// What the head at the start of `input` means; `None` if it is not complete.
    fn head(&mut self, input: &[u8]) -> Result<Option<Head>, ReadError> {
        if let Some(head) = self.head.filter(|_| input.starts_with(&self.octets)) {
            return Ok(Some(head));
        }
        let skim = skim_response(input, self.answers_head, &LIMITS).map_err(|_| ReadError::Malformed)?;
        let Some(skim) = skim else { return Ok(None) };
        let persistent = skim.persistent
            && match self.persistence {
                Persistence::Never => false,
                Persistence::IfSaid => says_keep_alive(&skim, input),
                Persistence::UnlessDenied => true,
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

fn answer(head: &Head, content_bytes: u64) -> Answer {
    Answer {
        status: head.skim.status.code(),
        content_bytes,
        persistent: head.persistent,
        verdict: head.verdict,
        length_known: head.length_known,
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, AnswerReader, HeadMemo, Persistence, ReadError};
    use crate::verdict::CacheVerdict;

    /// A reader and a memo for plain HTTP/1.1 requests.
    fn reader() -> (AnswerReader, HeadMemo) {
        (AnswerReader::default(), HeadMemo::new(false, Persistence::UnlessDenied))
    }

    /// Feeds `octets` in pieces of `size` and gives the first result that is not "more".
    fn read(octets: &[u8], size: usize) -> Result<Option<Answer>, ReadError> {
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
    fn the_cuts_between_reads_do_not_matter() {
        let octets = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX-Cache: HIT\r\n\
                       Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: 1\r\n\r\n";
        let expected = Answer {
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
    fn octets_after_the_end_are_malformed() {
        let octets = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n";
        assert_eq!(read(octets, octets.len()), Err(ReadError::Malformed));
        assert!(matches!(read(octets, 1), Ok(Some(Answer { content_bytes: 2, .. }))));
    }

    #[test]
    fn a_repeated_head_means_the_same_and_a_changed_one_does_not() {
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
    fn the_end_of_the_connection_is_judged() {
        let end = |octets: &[u8]| {
            let (mut reader, mut memo) = reader();
            if !octets.is_empty() {
                assert_eq!(reader.feed(octets, &mut memo, |_| {}), Ok(None));
            }
            reader.end()
        };
        assert_eq!(end(b""), Err(ReadError::Nothing));
        assert_eq!(end(b"HTTP/1.1 200"), Err(ReadError::Truncated));
        assert_eq!(end(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), Err(ReadError::Truncated));
        assert_eq!(end(b"HTTP/1.1 100 Continue\r\n\r\n"), Err(ReadError::Truncated));
        let until_close = end(b"HTTP/1.0 200 OK\r\n\r\nabc").unwrap();
        assert_eq!((until_close.content_bytes, until_close.persistent), (3, false));
    }

    #[test]
    fn answers_to_head_have_no_content() {
        let mut reader = AnswerReader::default();
        let mut memo = HeadMemo::new(true, Persistence::UnlessDenied);
        let answer =
            reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", &mut memo, |_| {}).unwrap().unwrap();
        assert_eq!((answer.content_bytes, answer.persistent), (0, true));
    }

    #[test]
    fn connections_persist_only_where_both_sides_want_it() {
        let persists = |persistence, head: &str| {
            let octets = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 0\r\n\r\n");
            let mut memo = HeadMemo::new(false, persistence);
            AnswerReader::default().feed(octets.as_bytes(), &mut memo, |_| {}).unwrap().unwrap().persistent
        };
        let fields = ["", "Connection: Keep-Alive\r\n", "Connection: close\r\n"];
        assert_eq!(fields.map(|field| persists(Persistence::Never, field)), [false; 3]);
        assert_eq!(fields.map(|field| persists(Persistence::IfSaid, field)), [false, true, false]);
        assert_eq!(fields.map(|field| persists(Persistence::UnlessDenied, field)), [true, true, false]);
    }

    #[test]
    fn what_is_not_http_is_malformed() {
        assert_eq!(read(b"SSH-2.0-server\r\n", 16), Err(ReadError::Malformed));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 99), Err(ReadError::Malformed));
    }
}
