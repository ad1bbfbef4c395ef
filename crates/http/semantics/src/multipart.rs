//! `multipart/byteranges` (RFC 9110 section 14.6): several parts of one representation in one
//! response.
//!
//! Invariant: `content_bytes` is the length of the content if every head is followed by exactly the
//! bytes of its part, and nothing follows the end. The caller supplies the boundary, because only
//! the caller can ensure that the content does not contain it.

use crate::ByteRange;
use bytes::{BufMut, Bytes, BytesMut};

/// The bytes around the parts of one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// The bytes before each part, in the order of the parts.
    pub heads: Vec<Bytes>,
    /// The bytes after the last part.
    pub end: Bytes,
    /// The length of the whole content in bytes, including the parts.
    pub content_bytes: u64,
}

/// Lays out a response with `parts` of a representation of `complete` bytes and of the media type
/// `content_type`.
///
/// `boundary` must be a token of at most 70 bytes (RFC 2046 section 5.1.1) that does not occur in
/// the parts.
pub fn multipart_layout(
    boundary: &str,
    content_type: Option<&[u8]>,
    complete: u64,
    parts: &[ByteRange],
) -> Multipart {
    let heads: Vec<_> =
        parts.iter().map(|part| part_delimiter(boundary, content_type, complete, *part)).collect();
    let end = Bytes::from(format!("\r\n--{boundary}--\r\n"));
    let parts_bytes = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes()));
    let around_bytes = heads.iter().map(Bytes::len).sum::<usize>() + end.len();
    let content_bytes = parts_bytes.saturating_add(around_bytes as u64);
    Multipart { heads, end, content_bytes }
}

/// The delimiter before a part, and the fields of the part.
fn part_delimiter(boundary: &str, content_type: Option<&[u8]>, complete: u64, part: ByteRange) -> Bytes {
    let mut head = BytesMut::new();
    head.put_slice(format!("\r\n--{boundary}\r\n").as_bytes());
    if let Some(content_type) = content_type {
        head.put_slice(b"Content-Type: ");
        head.put_slice(content_type);
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"Content-Range: ");
    head.put_slice(&part.of_complete(complete).value());
    head.put_slice(b"\r\n\r\n");
    head.freeze()
}

#[cfg(test)]
mod tests {
    use super::multipart_layout;
    use crate::ByteRange;

    #[test]
    fn example_of_rfc_9110() {
        let parts = [ByteRange { first: 500, last: 999 }, ByteRange { first: 7000, last: 7999 }];
        let layout = multipart_layout("THIS_STRING_SEPARATES", Some(b"application/pdf"), 8000, &parts);
        assert_eq!(
            layout.heads,
            [
                "\r\n--THIS_STRING_SEPARATES\r\nContent-Type: application/pdf\r\n\
                 Content-Range: bytes 500-999/8000\r\n\r\n",
                "\r\n--THIS_STRING_SEPARATES\r\nContent-Type: application/pdf\r\n\
                 Content-Range: bytes 7000-7999/8000\r\n\r\n",
            ]
        );
        assert_eq!(layout.end, "\r\n--THIS_STRING_SEPARATES--\r\n");
        assert_eq!(layout.content_bytes, 95 + 500 + 97 + 1000 + 29);
    }

    #[test]
    fn parts_have_no_media_type_if_the_response_has_none() {
        let layout = multipart_layout("b", None, 9, &[ByteRange { first: 0, last: 0 }]);
        assert_eq!(layout.heads, ["\r\n--b\r\nContent-Range: bytes 0-0/9\r\n\r\n"]);
    }
}
