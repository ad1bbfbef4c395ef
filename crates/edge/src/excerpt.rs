//! A part of a stored response, for requests with `Range` (RFC 9110 section 14.2).
//!
//! Invariant: what is sent lies within the octets that are stored, and its `Content-Range` says where. Which octets a
//! request wants is `semantics`' part.

use crate::respond;
use bytes::Bytes;
use message::{RequestHead, ResponseHead, names};
use semantics::{
    ByteRange, ContentRange, RangeAnswer, answer_range, answer_range_from_part, multipart_head,
    multipart_layout, part_head,
};
use std::sync::Arc;
use store::Object;

/// An answer with a part of the content, or with none because there is no such part.
pub(crate) struct Excerpt {
    pub(crate) head: ResponseHead,
    pub(crate) content: Vec<Bytes>,
}

impl Excerpt {
    /// What a request wants of a stored response; `None` if it wants the whole of what is stored, as it is.
    /// `boundary` separates several parts.
    pub(crate) fn of(request: &RequestHead, object: &Arc<Object>, boundary: &str) -> Option<Self> {
        let range = request.fields.first(names::RANGE)?;
        let Some(part) = object.part() else {
            let (head, bytes) = (object.head(), object.content_bytes());
            return match answer_range(&request.method, &request.fields, &head, bytes) {
                RangeAnswer::Whole => None,
                RangeAnswer::Parts(ranges) => {
                    Some(Self::of_ranges(object, &ranges, 0, Some(bytes), boundary))
                }
                RangeAnswer::Unsatisfiable => {
                    Some(Self { head: respond::unsatisfiable(&head, bytes), content: Vec::new() })
                }
            };
        };
        if *range == part.asked {
            return None;
        }
        let ranges = answer_range_from_part(&request.method, &request.fields, &object.head(), part.extent)?;
        Some(Self::of_ranges(object, &ranges, part.extent.first, part.extent.complete, boundary))
    }

    /// The octets of its content.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content.iter().map(|piece| piece.len() as u64).sum()
    }

    /// These ranges of an object whose first octet is at `offset` of the representation.
    fn of_ranges(
        object: &Arc<Object>,
        ranges: &[ByteRange],
        offset: u64,
        complete: Option<u64>,
        boundary: &str,
    ) -> Self {
        let (head, body) = (object.head(), object.body());
        let octets = |range: &ByteRange| body.slice(range.first - offset, range.last - offset);
        if let ([range], complete) = (ranges, complete) {
            let extent = ContentRange { first: range.first, last: range.last, complete };
            return Self { head: part_head(&head, extent), content: octets(range) };
        }
        let media_type = head.fields.first(names::CONTENT_TYPE).map(|value| &value[..]);
        let layout = multipart_layout(boundary, media_type, complete.unwrap_or(0), ranges);
        let parts = ranges.iter().zip(layout.heads);
        let mut content: Vec<Bytes> =
            parts.flat_map(|(range, part)| std::iter::once(part).chain(octets(range))).collect();
        content.push(layout.end);
        Self { head: multipart_head(&head, boundary), content }
    }
}
