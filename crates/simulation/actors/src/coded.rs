//! Decodes the forms that the edge makes of a content.
//!
//! Invariant: what is returned for an incomplete form is the beginning of its content.

use flate2::read::MultiGzDecoder;
use std::io::Read;

/// The mark that the edge puts into the entity tag of a form in `coding`.
pub(crate) fn mark(coding: &str) -> String {
    format!("~petasos-{coding}")
}

/// The content of a form, as far as it can be decoded, and whether the form is complete. `None` for
/// a coding that the edge does not make.
pub(crate) fn decoded(coding: &str, form: &[u8]) -> Option<(Vec<u8>, bool)> {
    Some(match coding {
        "br" => read(brotli::Decompressor::new(form, 4096)),
        "zstd" => match zstd::stream::read::Decoder::new(form) {
            Ok(decoder) => read(decoder),
            Err(_) => (Vec::new(), false),
        },
        "gzip" => read(MultiGzDecoder::new(form)),
        _ => return None,
    })
}

fn read(mut decoder: impl Read) -> (Vec<u8>, bool) {
    let (mut content, mut step) = (Vec::new(), [0; 4096]);
    loop {
        match decoder.read(&mut step) {
            Ok(0) => return (content, true),
            Ok(bytes) => content.extend_from_slice(step.get(..bytes).unwrap_or_default()),
            Err(_) => return (content, false),
        }
    }
}
