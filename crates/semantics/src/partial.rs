//! Heads of messages about parts: the answers 206 and 416 (RFC 9110 sections 15.3.7 and 15.5.17), the request for
//! what is missing of a stored part, and the head under which parts are combined (RFC 9111 section 3.4).
//!
//! Invariant: no head carries `Content-Length`, which is framing and written by whoever sends, and `Content-Range`
//! stands only where there is one part. Which octets are sent is `range`'s part, the content is `multipart`'s.

use crate::content_range::unsatisfied_range;
use crate::strong::{strong_date, strong_tag};
use crate::{ContentRange, format_date, updated_head};
use bytes::Bytes;
use message::{Fields, ResponseHead, Status, names};

/// The head of a 206 with one part of the stored response's representation. It keeps all stored fields: a
/// client that got them before may be another one.
pub fn part_head(stored: &ResponseHead, extent: ContentRange) -> ResponseHead {
    let mut head = head_like(stored, Status::PARTIAL_CONTENT);
    head.fields.push(names::CONTENT_RANGE, extent.value());
    head
}

/// The head of a 206 with several parts, laid out by [`crate::multipart_layout`] with the same boundary.
pub fn multipart_head(stored: &ResponseHead, boundary: &str) -> ResponseHead {
    let mut head = head_like(stored, Status::PARTIAL_CONTENT);
    head.fields.set(names::CONTENT_TYPE, format!("multipart/byteranges; boundary={boundary}"));
    head
}

/// The head of the 416 for a representation of `complete_bytes`, none of which was asked for.
pub fn unsatisfiable_head(complete_bytes: u64) -> ResponseHead {
    let mut head = ResponseHead::new(Status::RANGE_NOT_SATISFIABLE);
    head.fields.push(names::CONTENT_RANGE, unsatisfied_range(complete_bytes));
    head
}

/// The fields that ask the origin for the rest of a representation of which `part` is stored: `Range`, and
/// `If-Range` where `stored` has a strong validator. `None` if the rest is not one range.
///
/// Without `If-Range` an answer with 206 can never be joined to the part, so that asking so only helps with an
/// origin that ignores `Range`.
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

/// The head under which two parts are kept after [`crate::joined_extent`] gave `extent`: the stored fields
/// updated by the newer ones (RFC 9111 section 3.2), and 200 as soon as the representation is whole.
pub fn combined_head(stored: &ResponseHead, newer: &ResponseHead, extent: ContentRange) -> ResponseHead {
    let updated = updated_head(stored, newer);
    if extent.is_whole() { head_like(&updated, Status::OK) } else { part_head(&updated, extent) }
}

/// A head with the fields of `stored` but those that speak of its own content's extent.
fn head_like(stored: &ResponseHead, status: Status) -> ResponseHead {
    let mut head = ResponseHead::new(status);
    head.fields = stored.fields.clone();
    head.fields.remove(names::CONTENT_LENGTH);
    head.fields.remove(names::CONTENT_RANGE);
    head
}

/// The strong validator that `If-Range` names; a date only where there is no entity tag.
fn if_range_value(stored: &Fields) -> Option<Bytes> {
    if stored.has(names::ETAG) {
        return strong_tag(stored).map(Bytes::copy_from_slice);
    }
    strong_date(stored).map(format_date)
}
