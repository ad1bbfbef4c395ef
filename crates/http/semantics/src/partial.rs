//! Heads of messages about parts. They are the heads of 206 and 416 responses (RFC 9110 sections
//! 15.3.7 and 15.5.17), and the fields of the request for the missing rest of a stored part. The
//! head of combined parts is here too (RFC 9111 section 3.4).
//!
//! Invariant: no head has `Content-Length`, which is framing and is written by the sender.
//! `Content-Range` is present only if there is one part. The module `range` chooses the bytes, and
//! `multipart` lays out the content.

use crate::content_range::unsatisfied_range;
use crate::strong::{strong_date, strong_tag};
use crate::{ContentRange, format_date, updated_head};
use bytes::Bytes;
use message::{Fields, ResponseHead, Status, names};

/// The head of a 206 with one part of the stored response's representation. It keeps all stored
/// fields, because the client may have received none of them before.
pub fn part_head(stored: &ResponseHead, extent: ContentRange) -> ResponseHead {
    let mut head = head_like(stored, Status::PARTIAL_CONTENT);
    head.fields.push(names::CONTENT_RANGE, extent.value());
    head
}

/// The head of a 206 with several parts, laid out by [`crate::multipart_layout`] with the same
/// boundary.
pub fn multipart_head(stored: &ResponseHead, boundary: &str) -> ResponseHead {
    let mut head = head_like(stored, Status::PARTIAL_CONTENT);
    head.fields.set(names::CONTENT_TYPE, format!("multipart/byteranges; boundary={boundary}"));
    head
}

/// The head of the 416 for a representation of `complete_bytes` bytes, when no requested range lies
/// within it.
pub fn unsatisfiable_head(complete_bytes: u64) -> ResponseHead {
    let mut head = ResponseHead::new(Status::RANGE_NOT_SATISFIABLE);
    head.fields.push(names::CONTENT_RANGE, unsatisfied_range(complete_bytes));
    head
}

/// The fields that ask the origin for the rest of a representation, if `part` of it is stored.
///
/// They are `Range`, and `If-Range` if `stored` has a strong validator. `None` if the rest is not a
/// single range. Without `If-Range` a 206 response can never be joined to the part, so the request
/// then helps only if the origin ignores `Range` and sends everything.
pub fn missing_part_fields(stored: &ResponseHead, part: ContentRange) -> Option<Fields> {
    let range = match (part.first, part.complete) {
        (0, Some(complete)) if part.last + 1 == complete => return None,
        (0, _) => format!("bytes={}-", part.last + 1),
        (first, Some(complete)) if part.last + 1 == complete => format!("bytes=0-{}", first - 1),
        _ => return None,
    };
    let mut fields = Fields::new();
    fields.push(names::RANGE, range);
    if let Some(validator) = if_range_value(&stored.fields) {
        fields.push(names::IF_RANGE, validator);
    }
    Some(fields)
}

/// The head for two combined parts after [`crate::joined_extent`] returned `extent`: the stored
/// fields, updated by the newer ones (RFC 9111 section 3.2). Its status becomes 200 when the
/// representation is whole.
pub fn combined_head(stored: &ResponseHead, newer: &ResponseHead, extent: ContentRange) -> ResponseHead {
    let updated = updated_head(stored, newer);
    if extent.is_whole() { head_like(&updated, Status::OK) } else { part_head(&updated, extent) }
}

/// A head with the fields of `stored`, without `Content-Length` and `Content-Range`.
fn head_like(stored: &ResponseHead, status: Status) -> ResponseHead {
    let mut head = ResponseHead::new(status);
    head.fields = stored.fields.clone();
    head.fields.remove(names::CONTENT_LENGTH);
    head.fields.remove(names::CONTENT_RANGE);
    head
}

/// The strong validator for `If-Range`: the entity tag, or a date if there is no entity tag at all.
pub(crate) fn if_range_value(stored: &Fields) -> Option<Bytes> {
    if stored.has(names::ETAG) {
        return strong_tag(stored).map(Bytes::copy_from_slice);
    }
    strong_date(stored).map(format_date)
}

#[cfg(test)]
mod tests {
    use super::{combined_head, missing_part_fields, multipart_head, part_head, unsatisfiable_head};
    use crate::ContentRange;
    use message::{Fields, ResponseHead, Status};

    fn extent(value: &str) -> ContentRange {
        ContentRange::parse(value.as_bytes()).unwrap()
    }

    fn response(status: Status, lines: &[(&'static str, &'static str)]) -> ResponseHead {
        ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(status) }
    }

    fn lines(fields: &Fields) -> Vec<(&str, &str)> {
        let text = |octets| std::str::from_utf8(octets).unwrap();
        fields.iter().map(|field| (text(&field.name), text(&field.value))).collect()
    }

    #[test]
    fn part_keeps_the_stored_fields() {
        let stored =
            response(Status::OK, &[("A", "1"), ("Content-Length", "11"), ("Content-Type", "text/plain")]);
        let head = part_head(&stored, extent("bytes 0-1/11"));
        assert_eq!((head.status, &head.reason[..]), (Status::PARTIAL_CONTENT, &b"Partial Content"[..]));
        let expected = [("A", "1"), ("Content-Type", "text/plain"), ("Content-Range", "bytes 0-1/11")];
        assert_eq!(lines(&head.fields), expected);
        // A part of a part states only its own extent.
        let of_part = part_head(&head, extent("bytes 1-1/11"));
        assert_eq!(of_part.fields.only("Content-Range").unwrap(), "bytes 1-1/11");
    }

    #[test]
    fn several_parts_state_their_extents_themselves() {
        let stored =
            response(Status::OK, &[("Content-Type", "text/plain"), ("A", "1"), ("Content-Range", "x")]);
        let head = multipart_head(&stored, "xyz");
        assert_eq!(head.status, Status::PARTIAL_CONTENT);
        assert_eq!(lines(&head.fields), [("A", "1"), ("Content-Type", "multipart/byteranges; boundary=xyz")]);
    }

    #[test]
    fn unsatisfiable_head_states_the_length() {
        let head = unsatisfiable_head(47022);
        assert_eq!(head.status.code(), 416);
        assert_eq!(lines(&head.fields), [("Content-Range", "bytes */47022")]);
    }

    #[test]
    fn missing_rest_is_requested_with_a_strong_validator() {
        let tagged = response(Status::PARTIAL_CONTENT, &[("ETag", "\"a\"")]);
        let asked = |stored: &_, part: &str| missing_part_fields(stored, extent(part));
        let ask = |part: &str| asked(&tagged, part).map(|fields| fields.only("Range").unwrap().clone());
        assert_eq!(ask("bytes 0-4/10").unwrap(), "bytes=5-");
        assert_eq!(ask("bytes 0-4/*").unwrap(), "bytes=5-");
        assert_eq!(ask("bytes 4-9/10").unwrap(), "bytes=0-3");
        for part in ["bytes 0-9/10", "bytes 4-8/10", "bytes 4-9/*"] {
            assert_eq!(ask(part), None, "{part}");
        }
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let dated = response(
            Status::PARTIAL_CONTENT,
            &[("Last-Modified", "Sunday, 06-Nov-94 08:49:37 GMT"), ("Date", "Sun, 06 Nov 1994 08:49:38 GMT")],
        );
        let weak = response(Status::PARTIAL_CONTENT, &[("ETag", "W/\"a\""), ("Last-Modified", date)]);
        let same_second = response(Status::PARTIAL_CONTENT, &[("Last-Modified", date), ("Date", date)]);
        for (stored, validator) in
            [(&tagged, Some("\"a\"")), (&dated, Some(date)), (&weak, None), (&same_second, None)]
        {
            let fields = asked(stored, "bytes 0-4/10").unwrap();
            assert_eq!(fields.first("If-Range").map(|value| &value[..]), validator.map(str::as_bytes));
        }
    }

    #[test]
    fn combined_head_has_newer_fields_and_is_200_when_whole() {
        let stored = response(
            Status::PARTIAL_CONTENT,
            &[("A", "1"), ("B", "1"), ("Age", "7"), ("ETag", "\"a\""), ("Content-Range", "bytes 0-3/10")],
        );
        let newer = response(
            Status::PARTIAL_CONTENT,
            &[("ETag", "\"a\""), ("A", "2"), ("Content-Range", "bytes 4-9/10"), ("Content-Length", "6")],
        );
        let whole = combined_head(&stored, &newer, extent("bytes 0-9/10"));
        assert_eq!((whole.status, &whole.reason[..]), (Status::OK, &b"OK"[..]));
        assert_eq!(lines(&whole.fields), [("B", "1"), ("ETag", "\"a\""), ("A", "2")]);
        let larger = combined_head(&stored, &newer, extent("bytes 0-9/20"));
        assert_eq!(larger.status, Status::PARTIAL_CONTENT);
        assert_eq!(larger.fields.only("Content-Range").unwrap(), "bytes 0-9/20");
    }
}
