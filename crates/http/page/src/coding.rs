//! Removes the content coding of documents and stylesheets (RFC 9110 section 8.4.1). Only gzip is
//! supported, because page loads request no other coding.
//!
//! Invariant: decompression stops at the caller's limit, whatever the content claims.

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use message::{Fields, names};
use std::io::Read;

/// Reason why content cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// The content coding is not gzip, or there are several codings.
    #[error("the content has a coding that was not asked for")]
    Unknown,
    /// The content is not valid gzip, or it is truncated.
    #[error("the content is no whole gzip")]
    Broken,
    /// The decoded content is longer than the limit.
    #[error("the content unpacks to more than is allowed")]
    TooLong,
}

/// Decodes the content of a response with the header fields `fields`. The result has at most
/// `bytes_max` bytes.
///
/// # Errors
/// See [`CodingError`].
pub fn decoded(fields: &Fields, content: &Bytes, bytes_max: usize) -> Result<Bytes, CodingError> {
    let codings: Vec<&[u8]> = fields
        .list(names::CONTENT_ENCODING)
        .filter(|coding| !coding.eq_ignore_ascii_case(b"identity"))
        .collect();
    match codings.as_slice() {
        [] if content.len() > bytes_max => Err(CodingError::TooLong),
        [] => Ok(content.clone()),
        [coding] if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") => {
            gunzip(content, bytes_max).map(Bytes::from)
        }
        _ => Err(CodingError::Unknown),
    }
}

/// Decompresses a whole gzip file, which may consist of several members. The result has at most
/// `bytes_max` bytes.
///
/// # Errors
/// [`CodingError::Broken`] and [`CodingError::TooLong`].
pub fn gunzip(content: &[u8], bytes_max: usize) -> Result<Vec<u8>, CodingError> {
    let mut out = Vec::new();
    let mut reader = MultiGzDecoder::new(content).take(bytes_max as u64 + 1);
    reader.read_to_end(&mut out).map_err(|_| CodingError::Broken)?;
    if out.len() > bytes_max { Err(CodingError::TooLong) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::{CodingError, decoded};
    use bytes::Bytes;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use message::Fields;
    use std::io::Write;

    fn gzip(content: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap().into()
    }

    fn with(coding: &'static str) -> Fields {
        let mut fields = Fields::new();
        fields.push("Content-Encoding", coding);
        fields
    }

    #[test]
    fn gzip_is_decoded_and_other_codings_are_refused() {
        assert_eq!(decoded(&with("gzip"), &gzip(b"page"), 10).unwrap(), "page");
        assert_eq!(decoded(&with("identity"), &"page".into(), 10).unwrap(), "page");
        assert_eq!(decoded(&Fields::new(), &"page".into(), 3), Err(CodingError::TooLong));
        assert_eq!(decoded(&with("br"), &"page".into(), 10), Err(CodingError::Unknown));
        assert_eq!(decoded(&with("gzip"), &"page".into(), 10), Err(CodingError::Broken));
        let whole = gzip(b"page");
        assert_eq!(decoded(&with("gzip"), &whole.slice(..whole.len() - 4), 10), Err(CodingError::Broken));
    }

    #[test]
    fn decompression_bomb_is_refused() {
        let bomb = gzip(&vec![b'a'; 3_000_000]);
        assert!(bomb.len() < 100_000);
        assert_eq!(decoded(&with("gzip"), &bomb, 300_000), Err(CodingError::TooLong));
    }
}
