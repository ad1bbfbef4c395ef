//! The content codings (RFC 9110 section 8.4.1) that can be decoded.
//!
//! Invariant: decoding produces at most one byte more than the caller allows, whatever the content
//! claims.

use flate2::read::MultiGzDecoder;
use message::{Fields, names};
use std::io::Read;

/// Size of brotli's input buffer, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// The coding of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// No coding.
    Plain,
    /// The coding `gzip`.
    Gzip,
    /// The coding `br` (brotli).
    Brotli,
}

impl Coding {
    /// The coding of a response with these fields. `None` for unknown codings and for more than
    /// one.
    pub fn of(fields: &Fields) -> Option<Self> {
        let mut codings = fields.list(names::CONTENT_ENCODING).map(<[u8]>::to_ascii_lowercase);
        let coding = match codings.next().as_deref() {
            None | Some(b"identity") => Self::Plain,
            Some(b"gzip" | b"x-gzip") => Self::Gzip,
            Some(b"br") => Self::Brotli,
            Some(_) => return None,
        };
        codings.next().is_none().then_some(coding)
    }

    /// Decodes a content. `None` if it is truncated, not in this coding, or longer than `bytes_max`
    /// when decoded.
    pub fn decoded(self, content: Vec<u8>, bytes_max: u64) -> Option<Vec<u8>> {
        let plain = match self {
            Self::Plain => content,
            Self::Gzip => read(MultiGzDecoder::new(&content[..]), bytes_max)?,
            Self::Brotli => read(brotli::Decompressor::new(&content[..], BUFFER_BYTES), bytes_max)?,
        };
        (plain.len() as u64 <= bytes_max).then_some(plain)
    }
}

fn read(decoder: impl Read, bytes_max: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(bytes_max + 1).read_to_end(&mut plain).ok()?;
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::Coding;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use message::Fields;
    use std::io::Write;

    fn of(value: &'static str) -> Option<Coding> {
        let mut fields = Fields::new();
        fields.push("Content-Encoding", value);
        Coding::of(&fields)
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut coder = GzEncoder::new(Vec::new(), Compression::best());
        coder.write_all(content).unwrap();
        coder.finish().unwrap()
    }

    #[test]
    fn known_codings_are_recognised() {
        assert_eq!(Coding::of(&Fields::new()), Some(Coding::Plain));
        assert_eq!(
            (of("GZIP"), of("br"), of("identity")),
            (Some(Coding::Gzip), Some(Coding::Brotli), Some(Coding::Plain))
        );
        assert_eq!((of("zstd"), of("gzip, br")), (None, None));
    }

    #[test]
    fn truncated_or_too_long_content_is_refused() {
        let whole = gzip(b"page");
        let page = Some(b"page".to_vec());
        assert_eq!(Coding::Gzip.decoded(whole.clone(), 4), page);
        assert_eq!(Coding::Gzip.decoded(whole.clone(), 3), None);
        assert_eq!(Coding::Gzip.decoded(whole[..whole.len() - 4].to_vec(), 4), None);
        assert_eq!(Coding::Plain.decoded(b"page".to_vec(), 4), page);
        assert_eq!(Coding::Plain.decoded(b"page".to_vec(), 3), None);
        assert_eq!(Coding::Brotli.decoded(b"page".to_vec(), 4), None);
        assert_eq!(Coding::Gzip.decoded(gzip(&vec![b'a'; 1_000_000]), 1_000), None);
    }
}
