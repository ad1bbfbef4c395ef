//! Parts of a stored response, for requests with `Range` (RFC 9110 section 14.2).
//!
//! Invariant: the sent bytes lie within the stored ones, and `Content-Range` states their position.
//! `semantics` decides which bytes a request wants.

use crate::request::respond;
use bytes::Bytes;
use message::{Fields, RequestHead, ResponseHead, names};
use semantics::{
    ByteRange, ContentRange, RangeAnswer, answer_range, answer_range_from_part, multipart_head,
    multipart_layout, part_head,
};
use std::sync::Arc;
use store::Object;

/// A response with parts of the content, or with none if the range is unsatisfiable.
pub(crate) struct Excerpt {
    pub(crate) head: ResponseHead,
    pub(crate) content: Vec<Extract>,
}

/// Whether the request says by `If-Range` which form of a response its parts belong to. A date does
/// not: it is the same for all forms.
fn may_name_parts(request: &Fields) -> bool {
    request.first(names::IF_RANGE).is_none_or(|validator| validator.ends_with(b"\""))
}

/// A piece of the response's content.
pub(crate) enum Extract {
    Octets(Bytes),
    /// This many bytes of a body on disk, starting at `first`.
    OnDisk {
        first: u64,
        bytes: u64,
    },
}

impl Extract {
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Octets(octets) => octets.len() as u64,
            Self::OnDisk { bytes, .. } => *bytes,
        }
    }
}

impl Excerpt {
    /// All of a stored response.
    pub(crate) fn whole(object: &Arc<Object>) -> Self {
        let content = match object.on_disk() {
            Some(body) => vec![Extract::OnDisk { first: 0, bytes: body.len() }],
            None => object.body().chunks().iter().cloned().map(Extract::Octets).collect(),
        };
        let mut head = object.head();
        // For HEAD; the origin may have sent the content in chunks.
        head.fields.remove(names::CONTENT_LENGTH);
        head.fields.push(names::CONTENT_LENGTH, object.content_bytes().to_string());
        Self { head, content }
    }

    /// The parts of a stored response that a request wants; `None` if it wants everything that is
    /// stored, unchanged. `boundary` separates several parts.
    pub(crate) fn of(request: &RequestHead, object: &Arc<Object>, boundary: &str) -> Option<Self> {
        let range = request.fields.first(names::RANGE)?;
        let Some(part) = object.part() else {
            if object.is_encodable() && !may_name_parts(&request.fields) {
                return None;
            }
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

    /// The length of its content in bytes.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content.iter().map(Extract::bytes).sum()
    }

    /// These ranges of an object whose first byte is at `offset` of the representation.
    fn of_ranges(
        object: &Arc<Object>,
        ranges: &[ByteRange],
        offset: u64,
        complete: Option<u64>,
        boundary: &str,
    ) -> Self {
        let body = object.body();
        let octets = |first, last| {
            let (first, last) = (first - offset, last - offset);
            match body.on_disk() {
                Some(_) => vec![Extract::OnDisk { first, bytes: last - first + 1 }],
                None => body.slice(first, last).into_iter().map(Extract::Octets).collect(),
            }
        };
        let (head, content) = joined(&object.head(), ranges, complete, boundary, octets);
        Self { head, content }
    }
}

/// The head and the content of a response with these ranges of a representation with this `head`.
/// `octets` gives the bytes from the first to the last one.
pub(crate) fn joined(
    head: &ResponseHead,
    ranges: &[ByteRange],
    complete: Option<u64>,
    boundary: &str,
    octets: impl Fn(u64, u64) -> Vec<Extract>,
) -> (ResponseHead, Vec<Extract>) {
    if let [range] = ranges {
        let extent = ContentRange { first: range.first, last: range.last, complete };
        return (part_head(head, extent), octets(range.first, range.last));
    }
    let media_type = head.fields.first(names::CONTENT_TYPE).map(|value| &value[..]);
    let layout = multipart_layout(boundary, media_type, complete.unwrap_or(0), ranges);
    let parts = ranges.iter().zip(layout.heads);
    let framed = |(range, part): (&ByteRange, Bytes)| {
        std::iter::once(Extract::Octets(part)).chain(octets(range.first, range.last))
    };
    let mut content: Vec<Extract> = parts.flat_map(framed).collect();
    content.push(Extract::Octets(layout.end));
    (multipart_head(head, boundary), content)
}
