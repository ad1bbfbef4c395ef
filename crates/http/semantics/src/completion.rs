//! Continues a response that broke off inside Petasos with a partial fetch: the fields of the
//! request to the origin, and the check of its response.
//!
//! Invariant: bytes are appended only to bytes of the same representation, which a strong validator
//! proves (RFC 9110 section 15.3.7.3), and only exactly the missing ones.

use crate::partial::if_range_value;
use crate::strong::shares_strong_validator;
use crate::{ByteRange, ContentRange};
use message::{Fields, ResponseHead, names};

/// The `Range` and `If-Range` fields that ask the origin for the bytes `missing` of the
/// representation in `stored`. `None` if `stored` has no strong validator.
pub fn completion_fields(stored: &ResponseHead, missing: ByteRange) -> Option<Fields> {
    let mut fields = Fields::new();
    fields.push(names::RANGE, format!("bytes={}-{}", missing.first, missing.last));
    fields.push(names::IF_RANGE, if_range_value(&stored.fields)?);
    Some(fields)
}

/// Whether the content of `answer` is exactly the bytes `missing` of the representation in
/// `stored`, which has `complete_bytes` bytes. It must be a 206 with that range, that length, the
/// same strong validator and the same coding.
pub fn completes(
    stored: &ResponseHead,
    complete_bytes: u64,
    missing: ByteRange,
    answer: &ResponseHead,
) -> bool {
    let ByteRange { first, last } = missing;
    // A response to If-Range may omit the coding. If it names another coding, its bytes differ.
    let coding = answer.fields.first(names::CONTENT_ENCODING);
    ContentRange::of(answer) == Some(ContentRange { first, last, complete: Some(complete_bytes) })
        && shares_strong_validator(&stored.fields, &answer.fields)
        && coding.is_none_or(|coding| stored.fields.first(names::CONTENT_ENCODING) == Some(coding))
}

#[cfg(test)]
mod tests {
    use super::{completes, completion_fields};
    use crate::ByteRange;
    use crate::tests::FieldLines;
    use message::{ResponseHead, Status};

    const CHANGED: (&str, &str) = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
    const LATER: (&str, &str) = ("Date", "Sun, 06 Nov 1994 08:50:00 GMT");
    const MISSING: ByteRange = ByteRange { first: 4, last: 9 };
    fn head(status: Status, lines: &FieldLines) -> ResponseHead {
        ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(status) }
    }

    #[test]
    fn missing_bytes_are_requested_with_a_strong_validator() {
        let asked = |lines: &FieldLines| {
            let fields = completion_fields(&head(Status::OK, lines), MISSING)?;
            assert_eq!(fields.only("Range").unwrap(), "bytes=4-9");
            fields.only("If-Range").cloned()
        };
        assert_eq!(asked(&[("ETag", "\"a\"")]).unwrap(), "\"a\"");
        assert_eq!(asked(&[CHANGED, LATER]).unwrap(), CHANGED.1);
        for weak in [&[][..], &[("ETag", "W/\"a\"")], &[CHANGED], &[("ETag", "W/\"a\""), CHANGED, LATER]] {
            assert!(asked(weak).is_none(), "{weak:?}");
        }
    }

    #[test]
    fn only_the_exact_missing_bytes_complete_a_response() {
        let tag = ("ETag", "\"a\"");
        let stored = head(Status::OK, &[tag, ("Content-Encoding", "gzip")]);
        let is_right =
            |lines: &FieldLines| completes(&stored, 12, MISSING, &head(Status::PARTIAL_CONTENT, lines));
        let range = ("Content-Range", "bytes 4-9/12");
        assert!(is_right(&[tag, range]));
        assert!(is_right(&[tag, range, ("Content-Encoding", "gzip")]));
        for wrong in [
            &[tag][..],
            &[range],
            &[("ETag", "\"b\""), range],
            &[("ETag", "W/\"a\""), range],
            &[tag, ("Content-Range", "bytes 4-8/12")],
            &[tag, ("Content-Range", "bytes 3-9/12")],
            &[tag, ("Content-Range", "bytes 4-9/13")],
            &[tag, ("Content-Range", "bytes 4-9/*")],
            &[tag, range, range],
            &[tag, range, ("Content-Encoding", "br")],
            &[tag, range, ("Content-Type", "multipart/byteranges; boundary=x")],
        ] {
            assert!(!is_right(wrong), "{wrong:?}");
        }
        assert!(!completes(&stored, 12, MISSING, &head(Status::OK, &[tag, range])));
    }
}
