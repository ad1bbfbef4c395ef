//! Checks the content of responses: against the expectations of the plan, and against the first
//! good response of the same URL.
//!
//! Invariant: a response that equals the first one is compared while it arrives, and nothing of it
//! is kept. Kept are only the first response, responses that differ, and, if a pattern is expected,
//! responses that arrive before there is a first one. Each is kept up to [`CONTENT_BYTES_MAX`].

use crate::reader::ResponseSummary;
use crate::recorder::ResponseJudgement;
use bytes::Bytes;
use record::{Expect, FailureKind, Length};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of a content that are compared and searched; later bytes are only counted.
pub const CONTENT_BYTES_MAX: usize = 1024 * 1024;

/// A thread compares this many of its responses with the first one, and later only one in
/// [`COMPARED_ONE_IN`]. Comparing costs about a tenth of all other work for a request.
const COMPARED_ALL: u64 = 1_000;

/// See [`COMPARED_ALL`].
const COMPARED_ONE_IN: u64 = 16;

/// The reference contents of a run, by URL; shared by its threads.
#[derive(Debug)]
pub(crate) struct Contents {
    documents: Vec<UrlReference>,
    differing: OnceLock<(usize, Bytes)>,
}

/// The reference content of one URL.
#[derive(Debug)]
struct UrlReference {
    /// The length of the first response with a good status, or [`UNKNOWN`].
    length: AtomicU64,
    first: OnceLock<Arc<First>>,
    /// Whether a thread is keeping a response that may become the first. The flag guards no other
    /// data, so relaxed ordering is enough.
    is_claimed: AtomicBool,
}

/// No length yet. No response is this long.
const UNKNOWN: u64 = u64::MAX;

/// The content of the first good response.
#[derive(Debug)]
pub(crate) struct First {
    kept: Bytes,
    is_whole: bool,
    /// Whether it meets the expectations.
    is_expected: bool,
}

/// Examines the content of one response while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    state: InspectionState,
    is_cut: bool,
    /// Whether this inspection holds the claim (`is_claimed`) to provide the first response.
    claims: bool,
}

#[derive(Debug, Default)]
enum InspectionState {
    /// Content is ignored.
    #[default]
    Away,
    /// Content is kept.
    Keep(Vec<u8>),
    /// Content has been equal to that of the first response for this number of bytes.
    Same(Arc<First>, usize),
    /// Content differs from the first response, and is kept.
    Differs(Vec<u8>),
}

impl Inspection {
    /// Takes the next bytes of the content.
    #[inline]
    pub(crate) fn take(&mut self, octets: &[u8]) {
        match &mut self.state {
            InspectionState::Away => {}
            InspectionState::Keep(kept) | InspectionState::Differs(kept) => {
                self.is_cut |= !keep(kept, octets)
            }
            InspectionState::Same(first, at) => {
                let rest = first.kept.get(*at..).unwrap_or_default();
                let common = rest.len().min(octets.len());
                let is_same =
                    rest.get(..common) == octets.get(..common) && (common == octets.len() || !first.is_whole);
                if is_same {
                    *at += common;
                    return;
                }
                let mut kept = first.kept.get(..*at).unwrap_or_default().to_vec();
                self.is_cut |= !keep(&mut kept, octets);
                self.state = InspectionState::Differs(kept);
            }
        }
    }

    /// Takes the end of the content.
    fn end(&mut self) {
        if let InspectionState::Same(first, at) = &self.state
            && *at < first.kept.len()
        {
            self.state = InspectionState::Differs(first.kept.get(..*at).unwrap_or_default().to_vec());
        }
    }
}

/// Appends bytes up to the limit; returns whether all of them fitted.
fn keep(kept: &mut Vec<u8>, octets: &[u8]) -> bool {
    let room = CONTENT_BYTES_MAX.saturating_sub(kept.len());
    kept.extend_from_slice(octets.get(..room).unwrap_or(octets));
    octets.len() <= room
}

impl Contents {
    /// Empty references for this number of URLs.
    pub(crate) fn new(urls: usize) -> Self {
        let document = || UrlReference {
            length: AtomicU64::new(UNKNOWN),
            first: OnceLock::new(),
            is_claimed: AtomicBool::new(false),
        };
        Self { documents: std::iter::repeat_with(document).take(urls).collect(), differing: OnceLock::new() }
    }

    /// How to inspect response `number` of a thread, for URL `url`.
    pub(crate) fn inspect(&self, url: u32, number: u64, expect: &Expect) -> Inspection {
        let is_due = number < COMPARED_ALL || number.is_multiple_of(COMPARED_ONE_IN);
        let Some(document) = self.documents.get(url as usize).filter(|_| is_due || expect.looks_at_content())
        else {
            return Inspection::default();
        };
        if let Some(first) = document.first.get() {
            return Inspection {
                state: InspectionState::Same(Arc::clone(first), 0),
                ..Inspection::default()
            };
        }
        let claims = !document.is_claimed.swap(true, Ordering::Relaxed);
        if claims || expect.looks_at_content() {
            return Inspection { state: InspectionState::Keep(Vec::new()), is_cut: false, claims };
        }
        Inspection::default()
    }

    /// Ends an inspection whose response failed, so that another response may become the first.
    pub(crate) fn give_up(&self, url: u32, inspection: &Inspection) {
        if let Some(document) = self.documents.get(url as usize).filter(|_| inspection.claims) {
            document.is_claimed.store(false, Ordering::Relaxed);
        }
    }

    /// Content bytes of this URL's first response with a good status.
    pub(crate) fn document_bytes(&self, url: usize) -> Option<u64> {
        let length = self.documents.get(url)?.length.load(Ordering::Relaxed);
        (length != UNKNOWN).then_some(length)
    }

    /// The first difference found in the run: the URL's index, its first good content, and the
    /// content that differs.
    pub(crate) fn differing(&self) -> Option<(usize, Bytes, Bytes)> {
        let (url, other) = self.differing.get()?;
        let first = self.documents.get(*url)?.first.get()?;
        Some((*url, first.kept.clone(), other.clone()))
    }

    /// Judges a complete response.
    pub(crate) fn judge(
        &self,
        expect: &Expect,
        url: u32,
        answer: &ResponseSummary,
        mut inspection: Inspection,
    ) -> ResponseJudgement {
        let Some(document) =
            self.documents.get(url as usize).filter(|_| expect.status.contains(answer.status))
        else {
            self.give_up(url, &inspection);
            return ResponseJudgement { wrong: Some(FailureKind::Status), ..ResponseJudgement::default() };
        };
        let length_differs = document.length_differs(answer.content_bytes);
        inspection.end();
        let (is_expected, content_differs) = match inspection.state {
            InspectionState::Away => (true, None),
            InspectionState::Same(first, _) => (first.is_expected, Some(false)),
            InspectionState::Differs(kept) => {
                let is_expected = expect.is_content(&kept);
                // Only the first difference is kept, so an error here is expected.
                let _ = self.differing.set((url as usize, Bytes::from(kept)));
                (is_expected, Some(true))
            }
            InspectionState::Keep(kept) => {
                let is_expected = expect.is_content(&kept);
                let first = First { kept: Bytes::from(kept), is_whole: !inspection.is_cut, is_expected };
                // Another thread may have been faster. This response was then checked but not
                // compared.
                let _ = document.first.set(Arc::new(first));
                (is_expected, None)
            }
        };
        let wrong = if length_differs && expect.length == Length::Constant {
            Some(FailureKind::Length)
        } else {
            (!is_expected).then_some(FailureKind::Body)
        };
        ResponseJudgement { wrong, length_differs, content_differs }
    }
}

impl UrlReference {
    /// Whether a length differs from that of the first response with a good status. If there is
    /// none yet, this length becomes the reference.
    fn length_differs(&self, bytes: u64) -> bool {
        let mut reference = self.length.load(Ordering::Relaxed);
        if reference == UNKNOWN {
            let set = self.length.compare_exchange(UNKNOWN, bytes, Ordering::Relaxed, Ordering::Relaxed);
            reference = set.err().unwrap_or(bytes);
        }
        reference != bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTENT_BYTES_MAX, Contents, Inspection};
    use crate::reader::ResponseSummary;
    use crate::recorder::ResponseJudgement;
    use record::{Expect, FailureKind, Length};

    fn answer(status: u16, content_bytes: usize) -> ResponseSummary {
        let content_bytes = content_bytes as u64;
        ResponseSummary { status, content_bytes, persistent: true, verdict: None, length_known: true }
    }

    /// Passes `content` in pieces of `size` bytes and judges it.
    fn judge(
        contents: &Contents,
        expect: &Expect,
        status: u16,
        content: &[u8],
        size: usize,
    ) -> ResponseJudgement {
        let mut inspection = contents.inspect(0, 0, expect);
        content.chunks(size).for_each(|piece| inspection.take(piece));
        contents.judge(expect, 0, &answer(status, content.len()), inspection)
    }

    fn variable() -> Expect {
        Expect { length: Length::Variable, ..Expect::default() }
    }

    #[test]
    fn first_good_response_sets_the_length() {
        let (contents, expect) = (Contents::new(1), Expect::default());
        let wrong =
            |status, bytes| contents.judge(&expect, 0, &answer(status, bytes), Inspection::default()).wrong;
        assert_eq!(wrong(500, 3), Some(FailureKind::Status));
        assert_eq!(wrong(200, 10), None);
        assert_eq!(wrong(200, 11), Some(FailureKind::Length));
        assert_eq!(wrong(404, 10), Some(FailureKind::Status));
        assert_eq!(wrong(200, 10), None);
        assert_eq!(contents.document_bytes(0), Some(10));
        let judgement = contents.judge(&variable(), 0, &answer(200, 11), Inspection::default());
        assert_eq!((judgement.wrong, judgement.length_differs), (None, true));
    }

    #[test]
    fn differences_are_found_for_any_split_into_pieces() {
        for size in [1, 3, 100] {
            let contents = Contents::new(1);
            let differs = |content: &[u8]| judge(&contents, &variable(), 200, content, size).content_differs;
            assert_eq!(differs(b"hello world"), None);
            assert_eq!(differs(b"hello world"), Some(false));
            assert_eq!(differs(b"hello"), Some(true));
            assert_eq!(differs(b"hello world!"), Some(true));
            assert_eq!(differs(b"hellO world"), Some(true));
            let (url, first, other) = contents.differing().unwrap();
            assert_eq!((url, &first[..], &other[..]), (0, &b"hello world"[..], &b"hello"[..]));
        }
    }

    #[test]
    fn error_pages_never_become_the_reference() {
        let contents = Contents::new(1);
        assert_eq!(judge(&contents, &variable(), 500, b"no", 9).content_differs, None);
        assert_eq!(judge(&contents, &variable(), 200, b"yes", 9).content_differs, None);
        assert_eq!(judge(&contents, &variable(), 200, b"yes", 9).content_differs, Some(false));
    }

    #[test]
    fn failed_first_response_passes_its_claim_on() {
        let contents = Contents::new(1);
        let lost = contents.inspect(0, 0, &variable());
        let beside = contents.inspect(0, 0, &variable());
        assert!(lost.claims && !beside.claims);
        contents.give_up(0, &beside);
        assert!(!contents.inspect(0, 0, &variable()).claims);
        contents.give_up(0, &lost);
        assert!(contents.inspect(0, 0, &variable()).claims);
    }

    #[test]
    fn expected_pattern_is_searched_in_every_response() {
        let contents = Contents::new(1);
        let expect = Expect { body: Some("h.llo".parse().unwrap()), ..variable() };
        let wrong = |content: &[u8]| judge(&contents, &expect, 200, content, 4).wrong;
        let together: Vec<_> = (0..2).map(|_| contents.inspect(0, 5, &expect)).collect();
        for mut inspection in together {
            inspection.take(b"an error");
            let judgement = contents.judge(&expect, 0, &answer(200, 8), inspection);
            assert_eq!(judgement.wrong, Some(FailureKind::Body));
        }
        assert_eq!((wrong(b"an error"), wrong(b"say hello")), (Some(FailureKind::Body), None));
    }

    #[test]
    fn forbidden_pattern_is_searched_in_every_response() {
        let contents = Contents::new(1);
        let expect = Expect { never: Some("Hello, \\w+".parse().unwrap()), ..variable() };
        for number in [0, 5, 1_001, 1_002] {
            for (content, wrong) in [(&b"Log in"[..], None), (b"Hello, Ada", Some(FailureKind::Body))] {
                let mut inspection = contents.inspect(0, number, &expect);
                inspection.take(content);
                let judgement = contents.judge(&expect, 0, &answer(200, content.len()), inspection);
                assert_eq!(judgement.wrong, wrong, "answer {number}");
            }
        }
    }

    #[test]
    fn long_contents_are_compared_up_to_the_limit() {
        let contents = Contents::new(1);
        let mut long = vec![b'x'; CONTENT_BYTES_MAX + 10];
        assert_eq!(judge(&contents, &variable(), 200, &long, 65_536).content_differs, None);
        long[CONTENT_BYTES_MAX + 5] = b'y';
        assert_eq!(judge(&contents, &variable(), 200, &long, 65_536).content_differs, Some(false));
        long[5] = b'y';
        assert_eq!(judge(&contents, &variable(), 200, &long, 65_536).content_differs, Some(true));
        assert_eq!(contents.differing().unwrap().2.len(), CONTENT_BYTES_MAX);
    }

    #[test]
    fn one_in_16_later_responses_is_compared() {
        let contents = Contents::new(1);
        judge(&contents, &variable(), 200, b"x", 1);
        let looked = |number| {
            let mut inspection = contents.inspect(0, number, &variable());
            inspection.take(b"y");
            contents.judge(&variable(), 0, &answer(200, 1), inspection).content_differs.is_some()
        };
        assert!(looked(999) && !looked(1_001) && looked(1_008));
    }
}
