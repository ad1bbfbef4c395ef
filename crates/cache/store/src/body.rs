//! A complete body: in memory as reference-counted chunks that all responses share, or, if it is
//! large, on the disk.
//!
//! Invariant: no chunk is empty, and each owns exactly as much memory as its length. A body on the
//! disk has no chunks.

use crate::ShelvedObject;
use bytes::Bytes;
use defects::{Defect, is_planted};
use disk::{DiskBody, FileRange, ReadError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The length in bytes of every chunk except the last. A smaller body is one exact allocation.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// A complete body. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Body {
    chunks: Option<Arc<[Bytes]>>,
    len: u64,
    on_disk: Option<Arc<OnDisk>>,
}

/// A body on the disk. It can be read to its end even if it is evicted or moved meanwhile.
pub struct OnDisk {
    body: DiskBody,
    place: ShelvedObject,
    /// Whether all of it has been read and matched its checksums.
    checked: AtomicBool,
    /// Whether a part of it could not be read or did not match its checksum.
    damaged: AtomicBool,
}

impl OnDisk {
    /// Checks at most `bytes_max` bytes from `offset` on against their checksums, without keeping
    /// them. `offset` must be within the body. Returns the number of bytes checked. Blocks.
    ///
    /// # Errors
    /// The bytes cannot be read or do not match their checksums.
    pub fn check(&self, offset: u64, bytes_max: usize) -> Result<u64, ReadError> {
        self.body.check(offset, bytes_max)
    }

    /// Reads at most `bytes_max` bytes from `offset` on, for a response sent without
    /// sendfile. `offset` must be within the body. Blocks.
    ///
    /// # Errors
    /// The bytes cannot be read or do not match their checksums.
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.body.read_at(offset, bytes_max)
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// The bytes of memory that its checksums occupy.
    pub(crate) const fn sums_bytes(&self) -> usize {
        self.body.sums_bytes()
    }

    /// Records that all of it was checked with [`OnDisk::check`].
    pub fn was_read(&self) {
        // Relaxed is enough, here and for `damaged`: the flags publish no other memory.
        self.checked.store(true, Ordering::Relaxed);
    }

    /// The range of the file that holds the body, to be sent without another check. `None` until
    /// all of it has been checked, and again once damage is found.
    pub fn file_range(&self) -> Option<FileRange> {
        let is_trusted = self.checked.load(Ordering::Relaxed) && !self.is_damaged();
        if is_trusted { self.body.pieces() } else { None }
    }

    /// The range of the file that holds the body, to send bytes that [`OnDisk::check`] has just
    /// found intact. It is available even if other parts are damaged.
    pub fn unchecked_range(&self) -> Option<FileRange> {
        self.body.pieces()
    }

    /// Whether damage was found. The body is then neither sent unchecked nor stored again.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Records that damage was found.
    pub(crate) fn distrust(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// The place from which it was read. The object may have moved since.
    pub(crate) const fn place(&self) -> ShelvedObject {
        self.place
    }
}

impl fmt::Debug for OnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDisk").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Body {
    /// A body with a copy of `octets`, divided into chunks.
    pub fn copy_of(octets: &[u8]) -> Self {
        Self::of_chunks(octets.chunks(CHUNK_BYTES).map(Bytes::copy_from_slice).collect())
    }

    /// A body of chunks, which must not be empty and must own their memory exactly.
    pub(crate) fn of_chunks(chunks: Vec<Bytes>) -> Self {
        let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self { chunks: (!chunks.is_empty()).then(|| chunks.into()), len, on_disk: None }
    }

    /// A body that stays on the disk.
    pub(crate) fn of_disk(body: DiskBody, place: ShelvedObject) -> Self {
        let len = body.len();
        let body = body.without_octets();
        let checked = AtomicBool::new(false);
        let damaged = AtomicBool::new(false);
        Self { chunks: None, len, on_disk: Some(Arc::new(OnDisk { body, place, checked, damaged })) }
    }

    /// The body on the disk, or `None` if the body is in memory.
    pub const fn on_disk(&self) -> Option<&Arc<OnDisk>> {
        self.on_disk.as_ref()
    }

    /// The chunks in order. There are none if the body is on the disk.
    pub fn chunks(&self) -> &[Bytes] {
        self.chunks.as_deref().unwrap_or_default()
    }

    /// The bytes from `first` to `last` (both inclusive, both within the body) as slices of the
    /// chunks. Only for a body in memory.
    pub fn slice(&self, first: u64, last: u64) -> Vec<Bytes> {
        let is_shifted = is_planted(Defect::ShiftedRange) && first > 0;
        let (first, last) = if is_shifted { (first - 1, last - 1) } else { (first, last) };
        let mut slices = Vec::new();
        let mut offset = 0;
        for chunk in self.chunks() {
            let begin = offset;
            let end = offset + chunk.len() as u64;
            offset = end;
            if end <= first {
                continue;
            }
            if begin > last {
                break;
            }
            // Both differences are below the chunk's length.
            let from = first.saturating_sub(begin) as usize;
            let to = (last + 1).min(end).saturating_sub(begin) as usize;
            slices.push(chunk.slice(from..to));
        }
        slices
    }

    /// A body with a copy of these pieces, joined into new chunks.
    pub fn gathered<'a>(pieces: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>) -> Self {
        let pieces = pieces.into_iter();
        let mut left: usize = pieces.clone().map(Bytes::len).sum();
        let exact = |left: usize| Vec::with_capacity(left.min(CHUNK_BYTES));
        let mut chunks = Vec::with_capacity(left.div_ceil(CHUNK_BYTES));
        let mut open = exact(left);
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(left.min(CHUNK_BYTES) - open.len()));
                open.extend_from_slice(now);
                rest = later;
                if open.len() == left.min(CHUNK_BYTES) {
                    left -= open.len();
                    chunks.push(Bytes::from(std::mem::replace(&mut open, exact(left))));
                }
            }
        }
        Self::of_chunks(chunks)
    }

    /// The length in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the length is zero.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, CHUNK_BYTES};
    use bytes::Bytes;

    #[test]
    fn slices_and_gathered_copies_equal_the_body() {
        let octets: Vec<u8> = (0..=255).cycle().take(2 * CHUNK_BYTES + 10).collect();
        let body = Body::copy_of(&octets);
        let end = octets.len() as u64 - 1;
        let chunk = CHUNK_BYTES as u64;
        let cases =
            [(0, 0), (0, end), (5, 9), (chunk - 1, chunk), (chunk, chunk), (chunk + 3, end), (end, end)];
        for (first, last) in cases {
            let slices = body.slice(first, last);
            assert!(slices.iter().all(|slice| !slice.is_empty()));
            assert_eq!(slices.concat(), octets[first as usize..=last as usize], "{first}-{last}");
        }
        let gathered = Body::gathered([&Bytes::from_static(b"ab"), &Bytes::from(octets.clone())]);
        assert_eq!(gathered.len(), body.len() + 2);
        assert_eq!(gathered.chunks().concat(), [b"ab", &octets[..]].concat());
        assert!(gathered.chunks().iter().all(|piece| !piece.is_empty() && piece.len() <= CHUNK_BYTES));
    }
}
