//! Decodes gzip in small steps.
//!
//! Invariants: one step returns at most 64 KiB, however well its input is compressed. All steps
//! together return at most the limit. Only content that ends as its checksum demands ends without
//! an error.

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use std::io::Write;

/// Maximum bytes of one step: the decoder's internal buffer and the bytes that the previous step
/// left in it.
#[cfg(test)]
const STEP_BYTES: usize = 64 * 1024;

/// The decoder of a content with gzip coding.
#[derive(Debug)]
pub(crate) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Bytes that may still be returned.
    left: u64,
    is_begun: bool,
}

/// The content is not gzip, is truncated, or exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undecodable;

impl Gunzip {
    /// A decoder for content of at most `bytes_max` decoded bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), left: bytes_max, is_begun: false }
    }

    /// Consumes some of `coded` and returns the decoded bytes.
    pub(crate) fn step(&mut self, coded: &mut Bytes) -> Result<Bytes, Undecodable> {
        self.is_begun = true;
        let taken = self.decoder.write(coded).map_err(|_| Undecodable)?;
        coded.advance(taken);
        let plain = std::mem::take(self.decoder.get_mut());
        if taken == 0 && plain.is_empty() {
            return Err(Undecodable);
        }
        self.within_limit(plain)
    }

    /// The remaining bytes, after all content was consumed. An empty content has no coding to undo.
    pub(crate) fn end(mut self) -> Result<Bytes, Undecodable> {
        if !self.is_begun {
            return Ok(Bytes::new());
        }
        self.decoder.try_finish().map_err(|_| Undecodable)?;
        let plain = std::mem::take(self.decoder.get_mut());
        self.within_limit(plain)
    }

    fn within_limit(&mut self, plain: Vec<u8>) -> Result<Bytes, Undecodable> {
        self.left = self.left.checked_sub(plain.len() as u64).ok_or(Undecodable)?;
        Ok(Bytes::from(plain))
    }
}

#[cfg(test)]
mod tests {
    use super::{Gunzip, STEP_BYTES, Undecodable};
    use bytes::Bytes;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Decodes a content that arrives in pieces; checks that no step exceeds [`STEP_BYTES`].
    fn decoded(coded: &[u8], piece: usize, bytes_max: u64) -> Result<Vec<u8>, Undecodable> {
        let (mut gunzip, mut plain) = (Gunzip::new(bytes_max), Vec::new());
        for piece in coded.chunks(piece) {
            let mut piece = Bytes::copy_from_slice(piece);
            while !piece.is_empty() {
                let step = gunzip.step(&mut piece)?;
                assert!(step.len() <= STEP_BYTES, "{} bytes in a step", step.len());
                plain.extend_from_slice(&step);
            }
        }
        plain.extend_from_slice(&gunzip.end()?);
        Ok(plain)
    }

    #[test]
    fn content_is_decoded_for_any_size_of_pieces() {
        let content: Vec<u8> =
            (0..60_000_u32).flat_map(|number| number.wrapping_mul(number).to_be_bytes()).collect();
        let coded = gzip(&content);
        for piece in [1, 7, 4096, coded.len()] {
            assert!(decoded(&coded, piece, u64::MAX).unwrap() == content, "{piece}");
        }
        assert_eq!(decoded(&[gzip(b"one "), gzip(b"two")].concat(), 5, 100).unwrap(), b"one two");
        assert_eq!(decoded(b"", 1, 0).unwrap(), b"");
        assert_eq!(decoded(&gzip(b""), 1, 0).unwrap(), b"");
    }

    #[test]
    fn decompression_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 20_000_000]);
        assert!(bomb.len() < 50_000);
        assert_eq!(decoded(&bomb, bomb.len(), 1_000_000), Err(Undecodable));
        assert_eq!(decoded(&bomb, bomb.len(), 20_000_000).unwrap().len(), 20_000_000);
    }

    #[test]
    fn broken_content_ends_in_an_error() {
        let whole = gzip(b"some content that is long enough");
        let mut other = whole.clone();
        other[20] ^= 1;
        let behind = [&whole[..], b"garbage"].concat();
        for broken in [&whole[..whole.len() - 1], &whole[..5], &other, b"plain text", &behind] {
            assert_eq!(decoded(broken, 3, 1_000), Err(Undecodable), "{broken:?}");
        }
    }
}
