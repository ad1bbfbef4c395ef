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

#[cfg(test)]
mod tests {
    use super::{ContentRange, joined_extent, unsatisfied_range};
    use message::{ResponseHead, Status};

    const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:50:00 GMT";

    fn extent(value: &str) -> ContentRange {
        ContentRange::parse(value.as_bytes()).unwrap()
    }

    fn response(status: Status, lines: &[(&'static str, &'static str)]) -> ResponseHead {
        ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(status) }
    }

    #[test]
    fn the_examples_of_the_rfc() {
        for (value, first, last, complete) in [
            ("bytes 42-1233/1234", 42, 1233, Some(1234)),
            ("bytes 42-1233/*", 42, 1233, None),
            ("bytes 0-499/1234", 0, 499, Some(1234)),
            ("bytes 734-1233/1234", 734, 1233, Some(1234)),
        ] {
            assert_eq!(extent(value), ContentRange { first, last, complete });
            assert_eq!(extent(value).value(), value);
        }
        assert_eq!(unsatisfied_range(1234), "bytes */1234");
    }

    #[test]
    fn invalid_ones_state_nothing() {
        for value in [
            "bytes */1234",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes 0-9",
            "bytes 0-9/",
            "bytes -9/10",
            "bytes 0-/10",
            "bytes=0-9/10",
            "bytes  0-9/10",
            "bytes 0-9/10 ",
            "bytes 0 - 9/10",
            "items 0-9/10",
            "bytes 0-9/10/11",
            "",
            "bytes +0-9/10",
            "bytes 0-18446744073709551615/*",
            "bytes 0-9/18446744073709551616",
            "bytes a-b/c",
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), None, "{value}");
        }
        assert_eq!(extent("Bytes 00-09/010"), ContentRange { first: 0, last: 9, complete: Some(10) });
    }

    #[test]
    fn only_a_single_part_has_an_extent() {
        let field = ("Content-Range", "bytes 0-4/10");
        let of = |status, lines: &[_]| ContentRange::of(&response(status, lines));
        assert_eq!(of(Status::PARTIAL_CONTENT, &[field]), Some(extent("bytes 0-4/10")));
        assert_eq!(of(Status::OK, &[field]), None);
        assert_eq!(of(Status::RANGE_NOT_SATISFIABLE, &[("Content-Range", "bytes */10")]), None);
        assert_eq!(of(Status::PARTIAL_CONTENT, &[]), None);
        assert_eq!(of(Status::PARTIAL_CONTENT, &[field, field]), None);
        let multipart = ("Content-Type", "Multipart/ByteRanges; boundary=x");
        assert_eq!(of(Status::PARTIAL_CONTENT, &[field, multipart]), None);
        assert!(of(Status::PARTIAL_CONTENT, &[field, ("Content-Type", "multipart/mixed")]).is_some());
    }

    #[test]
    fn fewer_octets_than_stated_are_believed_about_their_beginning() {
        let stated = extent("bytes 4-9/10");
        assert_eq!(stated.received(6), Some(stated));
        assert_eq!(stated.received(5), Some(extent("bytes 4-8/9")));
        assert_eq!(extent("bytes 4-9/20").received(5), Some(extent("bytes 4-8/20")));
        assert_eq!(extent("bytes 4-9/*").received(5), Some(extent("bytes 4-8/*")));
        assert_eq!((stated.received(0), stated.received(7)), (None, None));
    }

    #[test]
    fn parts_are_joined_without_a_gap() {
        let tagged = response(Status::PARTIAL_CONTENT, &[("ETag", "\"a\"")]);
        for (one, other, expected) in [
            ("bytes 0-4/10", "bytes 5-9/10", Some("bytes 0-9/10")),
            ("bytes 0-6/10", "bytes 3-9/10", Some("bytes 0-9/10")),
            ("bytes 0-9/10", "bytes 3-4/10", Some("bytes 0-9/10")),
            ("bytes 0-4/10", "bytes 6-9/10", None),
            ("bytes 2-4/*", "bytes 5-7/*", Some("bytes 2-7/*")),
            ("bytes 2-4/*", "bytes 5-7/10", Some("bytes 2-7/10")),
            ("bytes 0-4/10", "bytes 5-9/11", None),
            ("bytes 0-4/10", "bytes 5-10/*", None),
        ] {
            let join = |one, other| joined_extent((&tagged, extent(one)), (&tagged, extent(other)));
            assert_eq!(join(one, other), expected.map(extent), "{one} {other}");
            assert_eq!(join(other, one), expected.map(extent), "{other} {one}");
        }
        assert!(extent("bytes 0-9/10").is_whole());
        for part in ["bytes 0-8/10", "bytes 1-9/10", "bytes 0-9/*"] {
            assert!(!extent(part).is_whole(), "{part}");
        }
    }

    #[test]
    fn only_parts_with_the_same_strong_validator_are_joined() {
        let (dated, tag) = ([("Last-Modified", CHANGED), ("Date", LATER)], ("ETag", "\"a\""));
        for (one, other, joins) in [
            (&[tag][..], &[tag][..], true),
            (&dated, &[("Last-Modified", CHANGED), ("Date", "Sun, 06 Nov 1994 08:51:00 GMT")], true),
            (&[tag, ("Last-Modified", CHANGED)], &[tag], true),
            (&[tag], &[("ETag", "\"b\"")], false),
            (&[("ETag", "W/\"a\"")], &[("ETag", "W/\"a\"")], false),
            (&[tag], &[], false),
            (&[], &[], false),
            (&[tag, dated[0], dated[1]], &dated, false),
            (&dated, &[("Last-Modified", LATER), ("Date", "Sun, 06 Nov 1994 08:51:00 GMT")], false),
            (&dated, &[("Last-Modified", CHANGED), ("Date", CHANGED)], false),
            (&[tag, tag], &[tag], false),
        ] {
            let (one, other) = (response(Status::PARTIAL_CONTENT, one), response(Status::OK, other));
            let joined = joined_extent((&one, extent("bytes 0-4/10")), (&other, extent("bytes 5-9/10")));
            assert_eq!(joined.is_some(), joins, "{one:?} {other:?}");
        }
    }
}
