//! Encodes a whole content.
//!
//! Invariant: the levels are constants, so a content always has the same form.

use crate::joined::PartEncoder;
use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use semantics::Coding;
use std::io::{self, Write};

/// The longest content that is encoded, in bytes. It bounds the memory of encoders, which grows
/// with the content up to their windows.
pub const CONTENT_BYTES_MAX: u64 = 64 << 20;

/// The bytes of content that one step encodes.
pub const STEP_BYTES: usize = 64 * 1024;

/// Levels that are at the knee of their curves for web pages; docs/compression.md has the figures.
const BROTLI_QUALITY: i32 = 5;
const ZSTD_LEVEL: i32 = 9;
pub(crate) const GZIP_LEVEL: u32 = 6;

/// The logarithms of brotli's smallest and largest window. The window of a short content is short,
/// because an encoder takes memory for all of its window.
const BROTLI_WINDOW_LOG: (u32, u32) = (16, 22);

/// The logarithm of zstd's largest window: decoders on the web accept 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The content to be encoded.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The bytes of the content, or of its gzip form.
    pub pieces: &'a [Bytes],
    /// Whether `pieces` are gzip.
    pub is_gzip: bool,
    /// The longest content that is encoded, in bytes.
    pub bytes_max: u64,
}

/// Why there is no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unencodable {
    /// The pieces are not gzip, although they should be.
    NotGzip,
    /// The content is too long.
    TooLong,
    /// The caller has ended the work, or the encoder has failed.
    Ended,
}

/// Encodes a content. `goes_on` is asked before each step. Also returns the length of the content
/// in bytes.
///
/// # Errors
/// [`Unencodable`].
pub fn encode(
    source: Source<'_>,
    coding: Coding,
    goes_on: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, u64), Unencodable> {
    let given: u64 = source.pieces.iter().map(|piece| piece.len() as u64).sum();
    let limit = source.bytes_max.min(CONTENT_BYTES_MAX);
    let sink = Sink {
        encoder: Encoder::new(coding, (!source.is_gzip).then_some(given)).map_err(|_| Unencodable::Ended)?,
        bytes: 0,
        bytes_max: limit,
        ended: None,
        goes_on,
    };
    let sink =
        if source.is_gzip { decoded_into(sink, source.pieces)? } else { copied_into(sink, source.pieces)? };
    let bytes = sink.bytes;
    let form = sink.encoder.finish().map_err(|_| Unencodable::Ended)?;
    Ok((form, bytes))
}

fn copied_into<'a>(mut sink: Sink<'a>, pieces: &[Bytes]) -> Result<Sink<'a>, Unencodable> {
    for piece in pieces {
        let written = sink.write_all(piece);
        written.map_err(|_| sink.ended.unwrap_or(Unencodable::Ended))?;
    }
    Ok(sink)
}

fn decoded_into<'a>(sink: Sink<'a>, pieces: &[Bytes]) -> Result<Sink<'a>, Unencodable> {
    let mut decoder = MultiGzDecoder::new(sink);
    let why = |decoder: &MultiGzDecoder<Sink<'_>>| decoder.get_ref().ended.unwrap_or(Unencodable::NotGzip);
    for piece in pieces {
        decoder.write_all(piece).map_err(|_| why(&decoder))?;
    }
    decoder.try_finish().map_err(|_| why(&decoder))?;
    decoder.finish().map_err(|_| Unencodable::NotGzip)
}

/// Takes the content and encodes it step by step.
struct Sink<'a> {
    encoder: Encoder,
    bytes: u64,
    bytes_max: u64,
    /// Why it takes no more.
    ended: Option<Unencodable>,
    goes_on: &'a dyn Fn() -> bool,
}

impl Write for Sink<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let step = octets.get(..octets.len().min(STEP_BYTES)).unwrap_or_default();
        self.bytes += step.len() as u64;
        if self.bytes > self.bytes_max {
            self.ended = Some(Unencodable::TooLong);
        } else if !(self.goes_on)() || self.encoder.write(step).is_err() {
            self.ended = Some(Unencodable::Ended);
        }
        if self.ended.is_some() { Err(io::Error::other("ended")) } else { Ok(step.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An encoder and what it has made so far.
enum Encoder {
    // Boxed: it is some hundred times as large as the others.
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    /// Its form is also a part of assembled pages.
    Gzip(PartEncoder),
}

impl Encoder {
    /// An encoder of a content of `bytes` bytes, if its length is known.
    fn new(coding: Coding, bytes: Option<u64>) -> io::Result<Self> {
        Ok(match coding {
            Coding::Brotli => {
                let (least, most) = BROTLI_WINDOW_LOG;
                let needed = bytes.map_or(most, |bytes| bytes.max(1).ilog2() + 1);
                let params = BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    // At most 22, so it fits.
                    lgwin: needed.clamp(least, most) as i32,
                    size_hint: bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0),
                    ..BrotliEncoderParams::default()
                };
                Self::Brotli(Box::new(CompressorWriter::with_params(Vec::new(), 4096, &params)))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.window_log(window_log(bytes))?;
                encoder.set_pledged_src_size(bytes)?;
                Self::Zstd(encoder)
            }
            Coding::Gzip => Self::Gzip(PartEncoder::new()),
        })
    }

    fn write(&mut self, step: &[u8]) -> io::Result<()> {
        match self {
            Self::Brotli(encoder) => encoder.write_all(step),
            Self::Zstd(encoder) => encoder.write_all(step),
            Self::Gzip(encoder) => encoder.write(step),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Gzip(encoder) => encoder.into_form(),
        }
    }
}

/// The logarithm of zstd's window for a content of `bytes` bytes.
fn window_log(bytes: Option<u64>) -> u32 {
    let needed = bytes.map_or(ZSTD_WINDOW_LOG_MAX, |bytes| bytes.max(1).ilog2() + 1);
    needed.clamp(10, ZSTD_WINDOW_LOG_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Source, Unencodable, encode};
    use bytes::Bytes;
    use flate2::Compression;
    use flate2::read::MultiGzDecoder;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use semantics::Coding;
    use std::cell::Cell;
    use std::io::{Read, Write};

    pub(crate) fn decoded(coding: Coding, form: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match coding {
            Coding::Brotli => brotli::Decompressor::new(form, 4096).read_to_end(&mut content).unwrap(),
            Coding::Zstd => {
                zstd::stream::read::Decoder::new(form).unwrap().read_to_end(&mut content).unwrap()
            }
            Coding::Gzip => MultiGzDecoder::new(form).read_to_end(&mut content).unwrap(),
        };
        content
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn pieces(content: &[u8], bytes: usize) -> Vec<Bytes> {
        content.chunks(bytes).map(Bytes::copy_from_slice).collect()
    }

    fn page(lines: usize) -> Vec<u8> {
        (0..lines)
            .flat_map(|line| format!("<li>{} of {line}</li>\n", line * 7919 % 1009).into_bytes())
            .collect()
    }

    #[test]
    fn forms_decode_to_the_content_and_are_small() {
        let content = page(20_000);
        for coding in Coding::ALL {
            for (given, is_gzip) in [(content.clone(), false), (gzip(&content), true)] {
                let pieces = pieces(&given, 50_000);
                let source = Source { pieces: &pieces, is_gzip, bytes_max: content.len() as u64 };
                let (form, bytes) = encode(source, coding, &|| true).unwrap();
                assert_eq!(bytes, content.len() as u64);
                assert!(decoded(coding, &form) == content, "{coding:?}");
                assert!(form.len() * 4 < content.len(), "{coding:?}: {} bytes", form.len());
            }
        }
    }

    #[test]
    fn content_that_is_no_gzip_or_too_long_has_no_form() {
        let content = page(5_000);
        let whole = gzip(&content);
        let mut other = whole.clone();
        let middle = other.len() / 2;
        other[middle] ^= 1;
        for (given, is_gzip, bytes_max, expected) in [
            (&content[..], true, u64::MAX, Unencodable::NotGzip),
            (&whole[..whole.len() - 1], true, u64::MAX, Unencodable::NotGzip),
            (&[&whole[..], b"garbage"].concat(), true, u64::MAX, Unencodable::NotGzip),
            (&other, true, u64::MAX, Unencodable::NotGzip),
            (&whole, true, content.len() as u64 - 1, Unencodable::TooLong),
            (&content, false, content.len() as u64 - 1, Unencodable::TooLong),
            (&gzip(&vec![0; 10_000_000]), true, 1_000_000, Unencodable::TooLong),
        ] {
            let pieces = pieces(given, 1_000);
            let result = encode(Source { pieces: &pieces, is_gzip, bytes_max }, Coding::Brotli, &|| true);
            assert_eq!(result, Err(expected));
        }
    }

    #[test]
    fn work_ends_between_two_steps() {
        let pieces = pieces(&vec![b'x'; 1 << 20], 1 << 20);
        for coding in Coding::ALL {
            let steps = Cell::new(0);
            let goes_on = || {
                steps.set(steps.get() + 1);
                steps.get() < 3
            };
            let source = Source { pieces: &pieces, is_gzip: false, bytes_max: u64::MAX };
            assert_eq!(encode(source, coding, &goes_on), Err(Unencodable::Ended));
            assert_eq!(steps.get(), 3);
        }
    }

    #[test]
    fn empty_content_has_forms() {
        for coding in Coding::ALL {
            let source = Source { pieces: &[], is_gzip: false, bytes_max: 0 };
            let (form, bytes) = encode(source, coding, &|| true).unwrap();
            assert_eq!((decoded(coding, &form), bytes), (Vec::new(), 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_content_survives(content in prop::collection::vec(0..4_u8, 0..200_000), piece in 1..70_000_usize) {
            for coding in Coding::ALL {
                let pieces = pieces(&content, piece);
                let source = Source { pieces: &pieces, is_gzip: false, bytes_max: u64::MAX };
                let (form, _) = encode(source, coding, &|| true).unwrap();
                prop_assert!(decoded(coding, &form) == content);
            }
        }
    }
}
