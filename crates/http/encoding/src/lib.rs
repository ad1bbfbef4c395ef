//! Coded forms of contents (RFC 9110 section 8.4.1): brotli, zstd and gzip of a whole content, gzip
//! of one that is still arriving, and gzip that is put together from parts.
//!
//! Invariants: a form decodes to exactly the content that was given. Beside the form, the memory of
//! an encoder depends on its coding and on `CONTENT_BYTES_MAX` only. An encoder works in steps of
//! at most [`STEP_BYTES`], between which its caller may end it.

mod encode;
mod joined;
mod stream;

pub use encode::{CONTENT_BYTES_MAX, STEP_BYTES, Source, Unencodable, encode};
pub use joined::{CodedPart, GZIP_HEAD, JoinedGzip, coded_content, coded_texts, encode_texts, slices};
pub use stream::GzipStream;
