//! The content of a page, without coding and in the codings that web servers send.
//!
//! Invariant: all forms have the same content. A coded form that is not smaller is left out.

use crate::candidate::{PAGE_BYTES_MAX, QueuedPage};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// Brotli's quality (0 to 11) and the logarithm of its window size. The quality can be fairly high,
/// because each page is encoded only once, in the writer's thread.
const BROTLI_QUALITY: u32 = 7;
const BROTLI_WINDOW_BITS: u32 = 22;

/// Size of brotli's output buffer, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// The content of one page.
#[derive(Debug)]
pub(crate) struct PageContent {
    pub(crate) plain: Vec<u8>,
    pub(crate) gzip: Option<Vec<u8>>,
    pub(crate) brotli: Option<Vec<u8>>,
}

impl PageContent {
    /// Decodes and encodes the content of a page. `None` if the content is not in the coding that
    /// the head states, exceeds [`PAGE_BYTES_MAX`], or is not UTF-8.
    pub(crate) fn of(page: &QueuedPage) -> Option<Self> {
        let plain = page.coding.decoded(page.body.chunks().concat(), PAGE_BYTES_MAX)?;
        if !page.is_declared && std::str::from_utf8(&plain).is_err() {
            return None;
        }
        let useful = |coded: io::Result<Vec<u8>>| coded.ok().filter(|coded| coded.len() < plain.len());
        let gzip = useful(gzip(&plain));
        let brotli = useful(brotli(&plain));
        Some(Self { plain, gzip, brotli })
    }

    /// The size of all files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let coded = [&self.gzip, &self.brotli].into_iter().flatten().map(Vec::len).sum::<usize>();
        (self.plain.len() + coded) as u64
    }
}

fn gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut coder = GzEncoder::new(Vec::new(), Compression::best());
    coder.write_all(plain)?;
    coder.finish()
}

fn brotli(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut coder =
        brotli::CompressorWriter::new(Vec::new(), BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW_BITS);
    coder.write_all(plain)?;
    coder.flush()?;
    Ok(coder.into_inner())
}
