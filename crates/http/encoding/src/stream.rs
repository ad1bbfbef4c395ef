//! Encodes a content with gzip while it arrives.
//!
//! Invariant: the bytes that were returned after a [`GzipStream::flush`] decode to everything that
//! was pushed before it.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The fastest level: a client waits for the result.
const LEVEL: u32 = 1;

/// The encoder of a content with gzip coding.
#[derive(Debug)]
pub struct GzipStream(GzEncoder<Vec<u8>>);

impl Default for GzipStream {
    fn default() -> Self {
        Self::new()
    }
}

impl GzipStream {
    /// The encoder of a content that begins.
    pub fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::new(LEVEL)))
    }

    /// Encodes a piece of the content. Returns the coded bytes that are ready; often there are
    /// none.
    pub fn push(&mut self, piece: &[u8]) -> Bytes {
        // Writing into a Vec cannot fail, here and below.
        let _ = self.0.write_all(piece);
        self.take()
    }

    /// Returns what is needed to decode everything so far.
    pub fn flush(&mut self) -> Bytes {
        let _ = self.0.flush();
        self.take()
    }

    /// Returns the rest of the coded content.
    pub fn end(mut self) -> Bytes {
        let _ = self.0.try_finish();
        self.take()
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(self.0.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::GzipStream;
    use crate::encode::tests::decoded;
    use flate2::write::GzDecoder;
    use semantics::Coding;
    use std::io::Write;

    #[test]
    fn stream_decodes_to_the_content_and_up_to_each_flush() {
        let mut stream = GzipStream::new();
        let mut decoder = GzDecoder::new(Vec::new());
        let (mut content, mut coded) = (Vec::new(), Vec::new());
        for round in 0..50_u32 {
            let piece: Vec<u8> = (0..round * 97).flat_map(u32::to_be_bytes).collect();
            content.extend_from_slice(&piece);
            let ready = [stream.push(&piece), stream.flush()].concat();
            decoder.write_all(&ready).unwrap();
            decoder.flush().unwrap();
            assert!(*decoder.get_ref() == content, "round {round}");
            coded.extend_from_slice(&ready);
        }
        coded.extend_from_slice(&stream.end());
        assert!(decoded(Coding::Gzip, &coded) == content);
        assert_eq!(decoded(Coding::Gzip, &GzipStream::default().end()), b"");
    }
}
