//! A complete body: in memory, reference-counted chunks that every response shares; or on the disk, where the large
//! ones are.
//!
//! Invariant: no chunk is empty, and each owns exactly the memory its length says. A body on the disk has no chunks.

use crate::Shelved;
use bytes::Bytes;
use disk::{DiskBody, FileRange, ReadError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The length of every chunk but the last, in octets. A smaller body is one exact allocation.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// A complete body. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Body {
    chunks: Option<Arc<[Bytes]>>,
    len: u64,
    on_disk: Option<Arc<OnDisk>>,
}

/// A body on the disk. It can be read to its end whatever becomes of its place.
pub struct OnDisk {
    body: DiskBody,
    place: Shelved,
    /// Whether all of it has been read and was as it was written.
    checked: AtomicBool,
    /// Whether something of it could not be read, or was not as it was written.
    damaged: AtomicBool,
}

impl OnDisk {
    /// Checks at most `bytes_max` octets from `offset` on, which must be within the body, without keeping them; gives
    /// how many they are. Blocks.
    ///
    /// # Errors
    /// When they cannot be read, or are not as they were written.
    pub fn check(&self, offset: u64, bytes_max: usize) -> Result<u64, ReadError> {
        self.body.check(offset, bytes_max)
    }

    /// At most `bytes_max` octets from `offset` on, which must be within the body, for a response that is not sent from
    /// the file; blocks.
    ///
    /// # Errors
    /// When they cannot be read, or are not as they were written.
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.body.read_at(offset, bytes_max)
    }

    /// The number of octets.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether there is no octet.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// The octets of memory that its checksums take.
    pub(crate) const fn sums_bytes(&self) -> usize {
        self.body.sums_bytes()
    }

    /// All of it has been checked with [`OnDisk::check`].
    pub fn was_read(&self) {
        self.checked.store(true, Ordering::Relaxed);
    }

    /// Where it stands in a file, to be sent without being read: once all of it has been read and was as it was
    /// written, and until damage is found.
    pub fn file_range(&self) -> Option<FileRange> {
        let is_trusted = self.checked.load(Ordering::Relaxed) && !self.is_damaged();
        if is_trusted { self.body.pieces() } else { None }
    }

    /// Where it stands in a file, to send octets that [`OnDisk::check`] has just found sound, whatever else is damaged.
    pub fn unchecked_range(&self) -> Option<FileRange> {
        self.body.pieces()
    }

    /// Whether damage was found: it is not sent unread and not stored again.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Damage was found.
    pub(crate) fn distrust(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// Where it was when it was read; it may have moved since.
    pub(crate) const fn place(&self) -> Shelved {
        self.place
    }
}

impl fmt::Debug for OnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDisk").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Body {
    /// A body with a copy of `octets`, cut into chunks.
    pub fn copy_of(octets: &[u8]) -> Self {
        Self::of_chunks(octets.chunks(CHUNK_BYTES).map(Bytes::copy_from_slice).collect())
    }

    /// A body of chunks that are not empty and own their memory.
    pub(crate) fn of_chunks(chunks: Vec<Bytes>) -> Self {
        let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self { chunks: (!chunks.is_empty()).then(|| chunks.into()), len, on_disk: None }
    }

    /// A body that stays on the disk.
    pub(crate) fn of_disk(body: DiskBody, place: Shelved) -> Self {
        let (len, body) = (body.len(), body.without_octets());
        let (checked, damaged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { chunks: None, len, on_disk: Some(Arc::new(OnDisk { body, place, checked, damaged })) }
    }

    /// The body on the disk, if it is there and not in memory.
    pub const fn on_disk(&self) -> Option<&Arc<OnDisk>> {
        self.on_disk.as_ref()
    }

    /// The chunks in order; none if the body is on the disk.
    pub fn chunks(&self) -> &[Bytes] {
        self.chunks.as_deref().unwrap_or_default()
    }

    /// The octets from `first` to `last`, both included and both within the body, as slices of its chunks; to be asked
    /// of a body in memory.
    pub fn slice(&self, first: u64, last: u64) -> Vec<Bytes> {
        let mut slices = Vec::new();
        let mut offset = 0;
        for chunk in self.chunks() {
            let (begin, end) = (offset, offset + chunk.len() as u64);
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

    /// A body of these octets, copied into chunks of its own.
    pub fn gathered<'a>(pieces: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>) -> Self {
        let pieces = pieces.into_iter();
        let mut left: usize = pieces.clone().map(Bytes::len).sum();
        let exact = |left: usize| Vec::with_capacity(left.min(CHUNK_BYTES));
        let (mut chunks, mut open) = (Vec::with_capacity(left.div_ceil(CHUNK_BYTES)), exact(left));
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

    /// The number of octets.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no octet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, CHUNK_BYTES};
    use bytes::Bytes;

    #[test]
    fn slices_and_gathered_bodies_hold_the_same_octets() {
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
