//! What a client asks for by `Range` (RFC 9110 section 14.2), under `If-Range` (section 13.1.5).
//!
//! Invariant: the ranges that are answered hold exactly the octets that were asked for and exist, each of them
//! once, so that no request costs more than the whole representation. What is not understood, and what asks for
//! too much at once (section 17.15), is ignored as the RFC permits: the whole is sent.
//! Other conditions come first and are `conditions`' part; the heads of the answers are `partial`'s.

use crate::ContentRange;
use crate::dates::parse_date;
use crate::strong::{is_strong_tag, strong_date, strong_tag};
use message::{Fields, Method, ResponseHead, Status, list_members, names};

/// More ranges in one request are not answered as ranges. Viewers of documents ask for up to ten.
pub const RANGES_MAX: usize = 16;

/// Some consecutive octets of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The position of the first octet.
    pub first: u64,
    /// The position of the last octet.
    pub last: u64,
}

impl ByteRange {
    /// How many octets it has.
    pub const fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }

    /// This range as a part of `complete` octets.
    pub const fn of_complete(self, complete: u64) -> ContentRange {
        ContentRange { first: self.first, last: self.last, complete: Some(complete) }
    }
}

/// How a request is answered from a complete stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// With all of it, as if there were no `Range`.
    Whole,
    /// With 206: one range as it is, several as `multipart/byteranges` in this order.
    Parts(Vec<ByteRange>),
    /// With 416.
    Unsatisfiable,
}

/// How to answer a request from `response`, a complete response of `complete_bytes`, after its other conditions
/// let it proceed. An empty representation has no parts, so it is always sent whole.
pub fn answer_range(
    method: &Method,
    request: &Fields,
    response: &ResponseHead,
    complete_bytes: u64,
) -> RangeAnswer {
    // Range is defined for GET alone, and only where the answer would be a 200.
    if response.status != Status::OK || complete_bytes == 0 {
        return RangeAnswer::Whole;
    }
    let Some(wanted) = wanted_ranges(method, request, response) else { return RangeAnswer::Whole };
    let ranges: Vec<_> = wanted.iter().filter_map(|wanted| wanted.within(complete_bytes)).collect();
    if ranges.is_empty() {
        return RangeAnswer::Unsatisfiable;
    }
    let asked_bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.bytes()));
    if asked_bytes > complete_bytes {
        return RangeAnswer::Whole;
    }
    RangeAnswer::Parts(coalesced(&ranges))
}

/// The same where only `part` of the content is stored: the ranges that answer the request, if all octets it wants
/// are stored. `None` if they are not, and whenever the whole is wanted: then the origin is asked.
///
/// Without a known complete length a position counted from the end says nothing, and several parts are not
/// answered.
pub fn answer_range_from_part(
    method: &Method,
    request: &Fields,
    response: &ResponseHead,
    part: ContentRange,
) -> Option<Vec<ByteRange>> {
    let wanted = wanted_ranges(method, request, response)?;
    let ranges: Vec<_> = match part.complete {
        Some(complete) => wanted.iter().filter_map(|wanted| wanted.within(complete)).collect(),
        None => wanted.iter().map(Wanted::closed).collect::<Option<_>>()?,
    };
    let are_stored = ranges.iter().all(|range| part.first <= range.first && range.last <= part.last);
    if ranges.is_empty() || !are_stored {
        return None;
    }
    let ranges = coalesced(&ranges);
    (ranges.len() == 1 || part.complete.is_some()).then_some(ranges)
}

/// One `range-spec` of the unit bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// `first-last`
    Closed(ByteRange),
    /// `first-`
    From(u64),
    /// `-count`
    Last(u64),
}

impl Wanted {
    /// Reads a `range-spec`. Positions beyond every representation count as the largest there is.
    fn parse(spec: &[u8]) -> Option<Self> {
        let (first, last) = spec.split_at(spec.iter().position(|&byte| byte == b'-')?);
        let last = last.get(1..)?;
        match (first, last) {
            (b"", count) => Some(Self::Last(position(count)?)),
            (first, b"") => Some(Self::From(position(first)?)),
            (first, last) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Self::Closed(ByteRange { first, last }))
            }
        }
    }

    /// The octets meant of a representation of `complete` octets, which is not 0; `None` if there are none.
    fn within(&self, complete: u64) -> Option<ByteRange> {
        let (first, last) = match *self {
            Self::Closed(ByteRange { first, last }) => (first, last),
            Self::From(first) => (first, u64::MAX),
            Self::Last(0) => return None,
            Self::Last(count) => (complete.saturating_sub(count), u64::MAX),
        };
        (first < complete).then_some(ByteRange { first, last: last.min(complete - 1) })
    }

    /// The octets meant, where the representation's length does not matter for that.
    const fn closed(&self) -> Option<ByteRange> {
        match self {
            Self::Closed(range) => Some(*range),
            Self::From(_) | Self::Last(_) => None,
        }
    }
}

/// The ranges a request asks for; `None` if it has no `Range`, if it is not to be honoured under `If-Range`, or if
/// it is to be ignored because it is not understood, invalid or excessive.
fn wanted_ranges(method: &Method, request: &Fields, response: &ResponseHead) -> Option<Vec<Wanted>> {
    if *method != Method::Get || !request.has(names::RANGE) || !is_unchanged(request, &response.fields) {
        return None;
    }
    let (unit, set) = request.only(names::RANGE)?.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    // One more than the limit is enough to know.
    let wanted: Option<Vec<_>> = list_members(set).take(RANGES_MAX + 1).map(Wanted::parse).collect();
    wanted.filter(|wanted| !wanted.is_empty() && wanted.len() <= RANGES_MAX)
}

/// Whether `If-Range`, if there is one, names the state of the representation that is stored: its entity tag or its
/// date, strong in both cases.
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

/// The ranges without overlaps, adjacent ones joined, in the order in which each was first asked for (RFC 9110
/// section 15.3.7.2). At most [`RANGES_MAX`], so comparing each with each is cheap.
fn coalesced(ranges: &[ByteRange]) -> Vec<ByteRange> {
    let mut parts: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut joined = *range;
        let mut place = parts.len();
        // A join may reach a part that neither of the two touched.
        while let Some(index) = parts.iter().position(|part| touches(part, &joined)) {
            let part = parts.remove(index);
            joined = ByteRange { first: joined.first.min(part.first), last: joined.last.max(part.last) };
            place = place.min(index);
        }
        parts.insert(place.min(parts.len()), joined);
    }
    parts
}

/// Whether two ranges overlap or leave no octet between them.
const fn touches(one: &ByteRange, other: &ByteRange) -> bool {
    one.first <= other.last.saturating_add(1) && other.first <= one.last.saturating_add(1)
}

/// A position or count; saturating.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}
