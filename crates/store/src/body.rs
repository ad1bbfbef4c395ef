//! A complete body in memory: reference-counted chunks that every response shares.
//!
//! Invariant: no chunk is empty, and each owns exactly the memory its length says.

use bytes::Bytes;
use std::sync::Arc;

/// The length of every chunk but the last, in octets. A smaller body is one exact allocation.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// A complete body. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Body {
    chunks: Option<Arc<[Bytes]>>,
    len: u64,
}

impl Body {
    /// A body with a copy of `octets`, cut into chunks.
    pub fn copy_of(octets: &[u8]) -> Self {
        Self::of_chunks(octets.chunks(CHUNK_BYTES).map(Bytes::copy_from_slice).collect())
    }

    /// A body of chunks that are not empty and own their memory.
    pub(crate) fn of_chunks(chunks: Vec<Bytes>) -> Self {
        let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self { chunks: (!chunks.is_empty()).then(|| chunks.into()), len }
    }

    /// The chunks in order.
    pub fn chunks(&self) -> &[Bytes] {
        self.chunks.as_deref().unwrap_or_default()
    }

    /// The octets from `first` to `last`, both included and both within the body, as slices of its chunks.
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
