//! Where a part lies in its representation: `Content-Range` (RFC 9110 section 14.4), and which parts go together
//! (RFC 9110 section 15.3.7.3, RFC 9111 section 3.4).
//!
//! Invariant: an extent that was read or joined has `first <= last`, and `last < complete` where the complete
//! length is known. A field that says anything else is invalid, and its content is never joined with another.
//! What a client wants is `range`'s part; the fields of the messages are `partial`'s.

use crate::strong::shares_strong_validator;
use bytes::Bytes;
use message::{ResponseHead, Status, names};

/// The extent of one part, in octets of the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The position of its first octet.
    pub first: u64,
    /// The position of its last octet; never [`u64::MAX`].
    pub last: u64,
    /// The length of the whole representation; `None` if the sender did not know it.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// The extent a `Content-Range` field states; `None` for another unit than bytes, for `*/10`, which states
    /// none, and for an invalid one.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, range) = value.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let mut halves = range.splitn(2, |&byte| byte == b'/');
        let mut positions = halves.next()?.splitn(2, |&byte| byte == b'-');
        let (first, last) = (decimal(positions.next()?)?, decimal(positions.next()?)?);
        let complete = match halves.next()? {
            b"*" => None,
            length => Some(decimal(length)?),
        };
        let is_valid = first <= last && last < complete.unwrap_or(u64::MAX);
        is_valid.then_some(Self { first, last, complete })
    }

    /// The extent of the content of a 206 that is a single part. `None` for any other status, for a multipart
    /// answer, and where the field is missing, invalid or there twice.
    pub fn of(response: &ResponseHead) -> Option<Self> {
        if response.status != Status::PARTIAL_CONTENT || is_multipart(response) {
            return None;
        }
        response.fields.only(names::CONTENT_RANGE).and_then(|value| Self::parse(value))
    }

    /// The value of the field that states this extent.
    pub fn value(&self) -> Bytes {
        let Self { first, last, complete } = self;
        Bytes::from(match complete {
            Some(complete) => format!("bytes {first}-{last}/{complete}"),
            None => format!("bytes {first}-{last}/*"),
        })
    }

    /// How many octets it has.
    pub const fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether it is all of the representation.
    pub fn is_whole(&self) -> bool {
        self.first == 0 && self.complete == Some(self.bytes())
    }

    /// The extent of the `content_bytes` that were received, framing complete, under this statement. `None` if
    /// there are none, or more than were stated.
    ///
    /// An origin that sent fewer octets than it stated, and ended the message properly, has made a mistake in one
    /// of its numbers. It is believed about where the part begins, and, if the part was to reach the end of the
    /// representation, about that. What is answered from the part then agrees with itself, and because the
    /// complete length differs, it is not joined with parts whose numbers are right.
    pub fn received(&self, content_bytes: u64) -> Option<Self> {
        if content_bytes == 0 || content_bytes > self.bytes() {
            return None;
        }
        let last = self.first + content_bytes - 1;
        let reached_end = self.complete == Some(self.last + 1);
        let complete = if reached_end { Some(last + 1) } else { self.complete };
        Some(Self { first: self.first, last, complete })
    }
}

/// The value of a 416's `Content-Range`: no part, only the length of the representation.
pub(crate) fn unsatisfied_range(complete_bytes: u64) -> Bytes {
    Bytes::from(format!("bytes */{complete_bytes}"))
}

/// The extent of both parts together, if they may be combined and leave no gap: both responses have the same
/// strong validator (RFC 9111 section 3.4), agree about the complete length, and touch or overlap.
///
/// Give a 200 whose content broke off as the extent from 0 to what came of it.
pub fn joined_extent(
    (one, one_extent): (&ResponseHead, ContentRange),
    (other, other_extent): (&ResponseHead, ContentRange),
) -> Option<ContentRange> {
    if !shares_strong_validator(&one.fields, &other.fields) {
        return None;
    }
    let complete = match (one_extent.complete, other_extent.complete) {
        (Some(one), Some(other)) if one != other => return None,
        (one, other) => one.or(other),
    };
    let (before, after) = if one_extent.first <= other_extent.first {
        (one_extent, other_extent)
    } else {
        (other_extent, one_extent)
    };
    let last = before.last.max(after.last);
    // One side may have known no length and reach further than the other side's.
    let fits = complete.is_none_or(|complete| last < complete);
    (after.first <= before.last + 1 && fits).then_some(ContentRange { first: before.first, last, complete })
}

/// A number of octets; `None` if it is none or too large to be one.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether the content is `multipart/byteranges`, whose parts state their extents themselves.
fn is_multipart(response: &ResponseHead) -> bool {
    response.fields.first(names::CONTENT_TYPE).is_some_and(|media_type| {
        let name = media_type.split(|&byte| byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"multipart/byteranges")
    })
}
