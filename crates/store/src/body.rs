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

    /// The number of octets.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no octet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}
