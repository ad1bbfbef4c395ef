//! The ranges that a client requests with `Range` (RFC 9110 section 14.2), under `If-Range`
//! (section 13.1.5).
//!
//! Invariant: the response to ranges has exactly the requested bytes that exist, each of them once.
//! No request therefore receives more content than the representation has. A `Range` is ignored if
//! it is not understood or asks for too much at once (section 17.15). The whole content is then
//! sent, as the RFC permits.
//!
//! The other conditions are evaluated before, in `conditions`. The heads of the responses are in
//! `partial`.

use crate::ContentRange;
use crate::dates::parse_date;
use crate::strong::{is_strong_tag, strong_date, strong_tag};
use message::{Fields, Method, ResponseHead, Status, list_members, names};

/// The maximum number of ranges in one request. With more, `Range` is ignored. Document viewers ask
/// for up to ten.
pub const RANGES_MAX: usize = 16;

/// Consecutive bytes of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The position of the first byte, counted from 0.
    pub first: u64,
    /// The position of the last byte, inclusive.
    pub last: u64,
}

impl ByteRange {
    /// The length of the range in bytes.
    pub const fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }

    /// This range as a part of a representation of `complete` bytes.
    pub const fn of_complete(self, complete: u64) -> ContentRange {
        ContentRange { first: self.first, last: self.last, complete: Some(complete) }
    }
}

/// How a request is answered from a complete stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// With the whole content, as if there were no `Range`.
    Whole,
    /// With a 206. One range is sent alone, and several as `multipart/byteranges` in this order.
    Parts(Vec<ByteRange>),
    /// With a 416.
    Unsatisfiable,
}

/// How to answer a request from `response`, a complete response of `complete_bytes` bytes, after
/// its other conditions let it proceed. An empty representation has no parts, so it is always sent
/// whole.
pub fn answer_range(
    method: &Method,
    request: &Fields,
    response: &ResponseHead,
    complete_bytes: u64,
) -> RangeAnswer {
    // Range is defined only for GET, and only for a response that would otherwise be a 200.
    if response.status != Status::OK || complete_bytes == 0 {
        return RangeAnswer::Whole;
    }
    wanted_ranges(method, request, response)
        .map_or(RangeAnswer::Whole, |wanted| answer_wanted(&wanted, complete_bytes))
}

/// The same as [`answer_range`] if only `part` of the content is stored: the ranges that answer the
/// request. `None` if a requested byte is not stored, or if the whole content is wanted: then the
/// origin is asked.
///
/// If the complete length is not known, only a single range with both of its ends is answered.
pub fn answer_range_from_part(
    method: &Method,
    request: &Fields,
    response: &ResponseHead,
    part: ContentRange,
) -> Option<Vec<ByteRange>> {
    let wanted = wanted_ranges(method, request, response)?;
    let ranges = match part.complete {
        Some(complete) => match answer_wanted(&wanted, complete) {
            RangeAnswer::Parts(ranges) => ranges,
            RangeAnswer::Whole | RangeAnswer::Unsatisfiable => return None,
        },
        None => match &wanted[..] {
            [RangeSpec::Closed(range)] => vec![*range],
            _ => return None,
        },
    };
    let are_stored = ranges.iter().all(|range| part.first <= range.first && range.last <= part.last);
    are_stored.then_some(ranges)
}

/// One `range-spec` of the unit `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeSpec {
    /// `first-last`
    Closed(ByteRange),
    /// `first-`
    From(u64),
    /// `-count`
    Last(u64),
}

impl RangeSpec {
    /// Parses a `range-spec`. A position too large counts as the largest possible one.
    fn parse(spec: &[u8]) -> Option<Self> {
        let (first, last) = spec.split_at(spec.iter().position(|&byte| byte == b'-')?);
        let last = last.get(1..)?;
        match (first, last) {
            (b"", count) => Some(Self::Last(position(count)?)),
            (first, b"") => Some(Self::From(position(first)?)),
            (first, last) => {
                let first = position(first)?;
                let last = position(last)?;
                (first <= last).then_some(Self::Closed(ByteRange { first, last }))
            }
        }
    }

    /// The bytes that this range means in a representation of `complete` bytes, which must not be
    /// 0; `None` if it means none.
    fn within(&self, complete: u64) -> Option<ByteRange> {
        let (first, last) = match *self {
            Self::Closed(ByteRange { first, last }) => (first, last),
            Self::From(first) => (first, u64::MAX),
            Self::Last(count) => (complete.saturating_sub(count), u64::MAX),
        };
        (first < complete).then(|| ByteRange { first, last: last.min(complete - 1) })
    }
}

/// The ranges that a request asks for. `None` if it has no `Range`, if `If-Range` forbids using it,
/// or if it is ignored because it is not understood, invalid or excessive.
fn wanted_ranges(method: &Method, request: &Fields, response: &ResponseHead) -> Option<Vec<RangeSpec>> {
    if *method != Method::Get || !request.has(names::RANGE) || !is_unchanged(request, &response.fields) {
        return None;
    }
    let (unit, set) = request.only(names::RANGE)?.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    // One member beyond the limit is enough to detect that there are too many.
    let wanted: Option<Vec<_>> = list_members(set).take(RANGES_MAX + 1).map(RangeSpec::parse).collect();
    wanted.filter(|wanted| !wanted.is_empty() && wanted.len() <= RANGES_MAX)
}

/// Whether `If-Range`, if present, names the stored state of the representation. Its entity tag or
/// date must be a strong validator and equal the stored one.
fn is_unchanged(request: &Fields, response: &Fields) -> bool {
    if !request.has(names::IF_RANGE) {
        return true;
    }
    let Some(validator) = request.only(names::IF_RANGE) else { return false };
    if is_strong_tag(validator) {
        return strong_tag(response) == Some(&**validator);
    }
    parse_date(validator).is_some_and(|date| strong_date(response) == Some(date))
}

/// How the wanted ranges of a representation of `complete` bytes, which must not be 0, are
/// answered.
fn answer_wanted(wanted: &[RangeSpec], complete: u64) -> RangeAnswer {
    let ranges: Vec<_> = wanted.iter().filter_map(|wanted| wanted.within(complete)).collect();
    if ranges.is_empty() {
        return RangeAnswer::Unsatisfiable;
    }
    let asked_bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.bytes()));
    // A sum above the complete length means that ranges overlap, which no sensible client asks for.
    if asked_bytes > complete {
        return RangeAnswer::Whole;
    }
    RangeAnswer::Parts(coalesced(&ranges))
}

/// The ranges without overlaps and with adjacent ones joined, in the order in which each was first
/// requested (RFC 9110 section 15.3.7.2). There are at most [`RANGES_MAX`], so comparing all pairs
/// is cheap.
fn coalesced(ranges: &[ByteRange]) -> Vec<ByteRange> {
    let mut parts: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut joined = *range;
        let mut place = parts.len();
        // The joined range may touch a part that neither of the two touched before.
        while let Some(index) = parts.iter().position(|part| touches(part, &joined)) {
            let part = parts.remove(index);
            joined = ByteRange { first: joined.first.min(part.first), last: joined.last.max(part.last) };
            place = place.min(index);
        }
        parts.insert(place.min(parts.len()), joined);
    }
    parts
}

/// Whether two ranges overlap or are adjacent.
const fn touches(one: &ByteRange, other: &ByteRange) -> bool {
    one.first <= other.last.saturating_add(1) && other.first <= one.last.saturating_add(1)
}

/// A position or count. It saturates at [`u64::MAX`].
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, RANGES_MAX, RangeAnswer, answer_range, answer_range_from_part};
    use crate::ContentRange;
    use message::{Fields, Method, ResponseHead, Status};

    const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const SECOND_LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        lines.iter().copied().collect()
    }

    fn range(value: impl Into<bytes::Bytes>) -> Fields {
        let mut section = Fields::new();
        section.push("Range", value);
        section
    }

    fn response(status: Status, lines: &[(&'static str, &'static str)]) -> ResponseHead {
        let mut head = ResponseHead::new(status);
        head.fields = fields(lines);
        head
    }

    fn parts(ranges: &[(u64, u64)]) -> RangeAnswer {
        RangeAnswer::Parts(byte_ranges(ranges))
    }

    fn byte_ranges(ranges: &[(u64, u64)]) -> Vec<ByteRange> {
        ranges.iter().map(|&(first, last)| ByteRange { first, last }).collect()
    }

    fn answer(value: &'static str, complete_bytes: u64) -> RangeAnswer {
        answer_range(&Method::Get, &range(value), &response(Status::OK, &[]), complete_bytes)
    }

    #[test]
    fn examples_of_rfc_9110() {
        for (value, expected) in [
            ("bytes=0-499", &[(0, 499)][..]),
            ("bytes=500-999", &[(500, 999)]),
            ("bytes=-500", &[(9500, 9999)]),
            ("bytes=9500-", &[(9500, 9999)]),
            ("bytes=0-0,-1", &[(0, 0), (9999, 9999)]),
            ("bytes= 0-999, 4500-5499, -1000", &[(0, 999), (4500, 5499), (9000, 9999)]),
            ("bytes=500-600,601-999", &[(500, 999)]),
            ("bytes=500-700,601-999", &[(500, 999)]),
        ] {
            assert_eq!(answer(value, 10_000), parts(expected), "{value}");
        }
    }

    #[test]
    fn ranges_are_cut_to_the_representation() {
        assert_eq!(answer("bytes=8-99", 10), parts(&[(8, 9)]));
        assert_eq!(answer("bytes=-99", 10), parts(&[(0, 9)]));
        assert_eq!(answer("BYTES=0-99999999999999999999999", 10), parts(&[(0, 9)]));
        assert_eq!(answer("bytes=20-30, 2-3, -0", 10), parts(&[(2, 3)]));
        for value in
            ["bytes=10-", "bytes=10-10", "bytes=-0", "bytes=99999999999999999999-", "bytes=10-,20-30"]
        {
            assert_eq!(answer(value, 10), RangeAnswer::Unsatisfiable, "{value}");
        }
    }

    #[test]
    fn range_that_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=3-2",
            "bytes=0-1,3-2",
            "bytes=0-1;2-3",
            "bytes=0 - 1",
            "bytes=0-+1",
            "bytes=0--1",
            "bytes =0-1",
            "items=0-1",
            "bytes=\"0-1\"",
        ] {
            assert_eq!(answer(value, 10), RangeAnswer::Whole, "{value}");
        }
        assert_eq!(answer("bytes=,0-1,,", 10), parts(&[(0, 1)]));
        assert_eq!(answer("bytes=0-1", 0), RangeAnswer::Whole);
        let request = fields(&[("Range", "bytes=0-1"), ("Range", "bytes=0-1")]);
        let ok = response(Status::OK, &[]);
        assert_eq!(answer_range(&Method::Get, &request, &ok, 10), RangeAnswer::Whole);
        assert_eq!(answer_range(&Method::Head, &range("bytes=0-1"), &ok, 10), RangeAnswer::Whole);
        let not_found = response(Status::NOT_FOUND, &[]);
        assert_eq!(answer_range(&Method::Get, &range("bytes=0-1"), &not_found, 10), RangeAnswer::Whole);
    }

    #[test]
    fn excessive_ranges_give_the_whole_content() {
        let ok = response(Status::OK, &[]);
        let many = |count: u64| -> Fields {
            let ranges: Vec<_> = (0..count).map(|n| format!("{}-{}", n * 10, n * 10 + 1)).collect();
            range(format!("bytes={}", ranges.join(",")))
        };
        let answered = answer_range(&Method::Get, &many(RANGES_MAX as u64), &ok, 10_000);
        assert!(matches!(answered, RangeAnswer::Parts(ranges) if ranges.len() == RANGES_MAX));
        assert_eq!(answer_range(&Method::Get, &many(RANGES_MAX as u64 + 1), &ok, 10_000), RangeAnswer::Whole);
        for value in ["bytes=0-,0-", "bytes=0-9,0-0", "bytes=-10,-10,-10", "bytes=0-,1-,2-,3-"] {
            assert_eq!(answer(value, 10), RangeAnswer::Whole, "{value}");
        }
    }

    #[test]
    fn overlaps_are_joined_and_the_order_is_kept() {
        assert_eq!(answer("bytes=8-9,0-1", 10), parts(&[(8, 9), (0, 1)]));
        assert_eq!(answer("bytes=8-9,0-1,5-7", 10), parts(&[(5, 9), (0, 1)]));
        // The third range joins the first two.
        assert_eq!(answer("bytes=6-7,0-1,3-3,2-5", 20), parts(&[(0, 7)]));
        assert_eq!(answer("bytes=9-9,6-7,0-1,2-5", 20), parts(&[(9, 9), (0, 7)]));
        assert_eq!(answer("bytes=0-1,3-3", 10), parts(&[(0, 1), (3, 3)]));
    }

    #[test]
    fn if_range_needs_the_same_representation() {
        let dated = [("Last-Modified", CHANGED), ("Date", SECOND_LATER)];
        let tagged = [("ETag", "\"a\"")];
        let both = [("ETag", "\"a\""), ("Last-Modified", CHANGED), ("Date", SECOND_LATER)];
        for (validator, stored, holds) in [
            ("\"a\"", &tagged[..], true),
            ("\"a\"", &both, true),
            (CHANGED, &both, true),
            (CHANGED, &dated, true),
            ("Sunday, 06-Nov-94 08:49:37 GMT", &dated, true),
            ("\"A\"", &tagged, false),
            ("W/\"a\"", &tagged, false),
            ("W/\"a\"", &[("ETag", "W/\"a\"")], false),
            ("\"a\"", &[("ETag", "W/\"a\"")], false),
            ("\"a\", \"b\"", &tagged, false),
            ("*", &tagged, false),
            ("a", &[("ETag", "a")], false),
            (SECOND_LATER, &dated, false),
            ("\"a\"", &dated, false),
            // Within the second of its date the representation may have changed again.
            (CHANGED, &[("Last-Modified", CHANGED), ("Date", CHANGED)], false),
            (CHANGED, &[("Last-Modified", CHANGED)], false),
            (CHANGED, &[("Date", SECOND_LATER)], false),
            (SECOND_LATER, &[("Last-Modified", SECOND_LATER), ("Date", CHANGED)], false),
        ] {
            let mut request = range("bytes=0-1");
            request.push("If-Range", validator);
            let answered = answer_range(&Method::Get, &request, &response(Status::OK, stored), 10);
            let expected = if holds { parts(&[(0, 1)]) } else { RangeAnswer::Whole };
            assert_eq!(answered, expected, "{validator} {stored:?}");
        }
        let twice = fields(&[("Range", "bytes=0-1"), ("If-Range", "\"a\""), ("If-Range", "\"a\"")]);
        let tagged = response(Status::OK, &tagged);
        assert_eq!(answer_range(&Method::Get, &twice, &tagged, 10), RangeAnswer::Whole);
    }

    fn from_part(value: &'static str, part: &str) -> Option<Vec<ByteRange>> {
        let part = ContentRange::parse(part.as_bytes()).unwrap();
        let stored = response(Status::PARTIAL_CONTENT, &[("ETag", "\"a\"")]);
        answer_range_from_part(&Method::Get, &range(value), &stored, part)
    }

    #[test]
    fn part_answers_ranges_within_it() {
        for (value, expected) in [
            ("bytes=5-9", &[(5, 9)][..]),
            ("bytes=-5", &[(5, 9)]),
            ("bytes=-1", &[(9, 9)]),
            ("bytes=6-8", &[(6, 8)]),
            ("bytes=6-", &[(6, 9)]),
            ("bytes=6-99", &[(6, 9)]),
            ("bytes=5-5,-1", &[(5, 5), (9, 9)]),
            ("bytes=5-5,10-", &[(5, 5)]),
        ] {
            assert_eq!(from_part(value, "bytes 5-9/10"), Some(byte_ranges(expected)), "{value}");
        }
        for value in [
            "bytes=4-5",
            "bytes=-6",
            "bytes=0-",
            "bytes=0-0,6-7",
            "bytes=10-",
            "bytes=x",
            "bytes=7-,7-,7-,7-",
        ] {
            assert_eq!(from_part(value, "bytes 5-9/10"), None, "{value}");
        }
        let part = ContentRange { first: 5, last: 9, complete: Some(10) };
        let stored = response(Status::PARTIAL_CONTENT, &[("ETag", "\"a\"")]);
        assert_eq!(answer_range_from_part(&Method::Get, &Fields::new(), &stored, part), None);
        assert_eq!(answer_range_from_part(&Method::Head, &range("bytes=6-7"), &stored, part), None);
        let changed = fields(&[("Range", "bytes=6-7"), ("If-Range", "\"b\"")]);
        assert_eq!(answer_range_from_part(&Method::Get, &changed, &stored, part), None);
    }

    #[test]
    fn unknown_length_allows_only_ranges_with_both_ends() {
        assert_eq!(from_part("bytes=6-8", "bytes 5-9/*"), Some(byte_ranges(&[(6, 8)])));
        for value in ["bytes=6-", "bytes=-1", "bytes=6-10", "bytes=6-6,8-8", "bytes=4-6"] {
            assert_eq!(from_part(value, "bytes 5-9/*"), None, "{value}");
        }
    }
}
