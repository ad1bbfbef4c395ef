//! The place of a part in its representation: `Content-Range` (RFC 9110 section 14.4), and the
//! parts that may be combined (RFC 9110 section 15.3.7.3, RFC 9111 section 3.4).
//!
//! Invariant: an extent that was parsed or joined has `first <= last`, and `last < complete` if the
//! complete length is known. A field with any other content is invalid, and its part is never
//! joined with another. The request's `Range` is parsed in `range`; the message fields are built in
//! `partial`.

use crate::strong::shares_strong_validator;
use bytes::Bytes;
use message::{ResponseHead, Status, names};

/// The extent of one part, in bytes of the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The position of the first byte, counted from 0.
    pub first: u64,
    /// The position of the last byte, inclusive; never [`u64::MAX`].
    pub last: u64,
    /// The length of the whole representation in bytes; `None` if the sender did not know it.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// The extent that a `Content-Range` field states. `None` for another unit than bytes, for a
    /// field without an extent such as `bytes */10`, and for an invalid one.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, range) = value.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let mut halves = range.splitn(2, |&byte| byte == b'/');
        let mut positions = halves.next()?.splitn(2, |&byte| byte == b'-');
        let first = decimal(positions.next()?)?;
        let last = decimal(positions.next()?)?;
        let complete = match halves.next()? {
            b"*" => None,
            length => Some(decimal(length)?),
        };
        let is_valid = first <= last && last < complete.unwrap_or(u64::MAX);
        is_valid.then_some(Self { first, last, complete })
    }

    /// The extent of the content of a 206 with a single part. `None` for any other status, for a
    /// multipart response, and if the field is missing, invalid or present twice.
    pub fn of(response: &ResponseHead) -> Option<Self> {
        if response.status != Status::PARTIAL_CONTENT || is_multipart(response) {
            return None;
        }
        response.fields.only(names::CONTENT_RANGE).and_then(|value| Self::parse(value))
    }

    /// The value of the `Content-Range` field that states this extent.
    pub fn value(&self) -> Bytes {
        let Self { first, last, complete } = self;
        Bytes::from(match complete {
            Some(complete) => format!("bytes {first}-{last}/{complete}"),
            None => format!("bytes {first}-{last}/*"),
        })
    }

    /// The length of the part in bytes.
    pub const fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether the part is the whole representation.
    pub fn is_whole(&self) -> bool {
        self.first == 0 && self.complete == Some(self.bytes())
    }

    /// The extent of a part that states this extent and brought `content_bytes` bytes, with
    /// complete framing. `None` if the content is empty or longer than stated.
    ///
    /// An origin that ended the message properly but sent fewer bytes than stated has one wrong
    /// number. Its statement of the first position is trusted. If the stated part reached the end
    /// of the representation, its end is trusted too. Responses made from the part are then
    /// consistent. The complete length differs from the stated one, so the part is not joined with
    /// correct parts.
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

/// The value of `Content-Range` in a 416: no part, only the length of the representation.
pub(crate) fn unsatisfied_range(complete_bytes: u64) -> Bytes {
    Bytes::from(format!("bytes */{complete_bytes}"))
}

/// The extent of both parts together; `None` if they must not be combined or leave a gap.
///
/// Both responses need the same strong validator (RFC 9111 section 3.4) and the same complete
/// length, if both know it. The parts must touch or overlap. Pass a 200 whose content broke off as
/// the extent from 0 to the last received byte.
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
    // A part without a complete length may reach beyond the other part's complete length.
    let fits = complete.is_none_or(|complete| last < complete);
    (after.first <= before.last + 1 && fits).then_some(ContentRange { first: before.first, last, complete })
}

/// A number of bytes; `None` if `digits` is not a number or too large.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether the content is `multipart/byteranges`, whose parts state their own extents.
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
    fn examples_of_rfc_9110() {
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
    fn invalid_fields_state_no_extent() {
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
    fn short_part_keeps_its_stated_start() {
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
        let dated = [("Last-Modified", CHANGED), ("Date", LATER)];
        let tag = ("ETag", "\"a\"");
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
            let one = response(Status::PARTIAL_CONTENT, one);
            let other = response(Status::OK, other);
            let joined = joined_extent((&one, extent("bytes 0-4/10")), (&other, extent("bytes 5-9/10")));
            assert_eq!(joined.is_some(), joins, "{one:?} {other:?}");
        }
    }
}
