//! Bytes in one allocation, or in two if that wastes less memory.
//!
//! Allocators round up to size classes, four between each two powers of two: 1,429 bytes occupy
//! 1,536. Divided into 1,280 and 149 bytes they occupy 1,440.
//!
//! Invariant: each piece is exactly as large as its bytes, and the first is at least as long as the
//! caller requires.

use crate::weight::{allocated, filled};

/// The bytes that a second allocation must save to be worth another memory access on a hit.
const WORTH_BYTES: usize = 32;

/// The bytes, in one or two pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    first: Box<[u8]>,
    rest: Box<[u8]>,
}

impl Pieces {
    /// A copy of `parts`, one after the other. At least the first `together` bytes are in one
    /// piece.
    pub(crate) fn gathered<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone, together: usize) -> Self {
        let len = parts.clone().map(<[u8]>::len).sum();
        let cut = cut(len, together);
        // Allocate the exact size, because allocators do not give back the tail of a shrunk block.
        let mut first = Vec::with_capacity(cut);
        let mut rest = Vec::with_capacity(len - cut);
        for part in parts {
            let (here, there) = part.split_at(part.len().min(cut - first.len()));
            first.extend_from_slice(here);
            rest.extend_from_slice(there);
        }
        Self { first: first.into_boxed_slice(), rest: rest.into_boxed_slice() }
    }

    /// The first piece.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// The second piece, usually empty.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// The bytes of memory that both pieces occupy.
    pub(crate) fn bytes(&self) -> usize {
        allocated(self.first.len()) + allocated(self.rest.len())
    }
}

/// The position at which `len` bytes are divided, or `len` if they are not.
fn cut(len: usize, together: usize) -> usize {
    let first = filled(len);
    let both = first + allocated(len - first);
    if first >= together && both + WORTH_BYTES <= allocated(len) { first } else { len }
}

#[cfg(test)]
mod tests {
    use super::{Pieces, WORTH_BYTES};
    use crate::weight::allocated;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_divided_only_where_that_saves_memory() {
        for (len, together, first) in [
            (0, 0, 0),
            (100, 0, 100),
            (1_280, 0, 1_280),
            (1_429, 400, 1_280),
            (1_429, 1_281, 1_429),
            (1_510, 0, 1_510),
        ] {
            let octets = vec![7; len];
            let pieces = Pieces::gathered([&octets[..]].into_iter(), together);
            assert_eq!((pieces.first().len(), pieces.rest().len()), (first, len - first), "{len}");
        }
    }

    proptest! {
        #[test]
        fn divided_bytes_are_complete_and_save_memory(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..900), 0..6),
            together in 0_usize..2_000,
        ) {
            let whole = parts.concat();
            let together = together.min(whole.len());
            let pieces = Pieces::gathered(parts.iter().map(|part| &part[..]), together);
            prop_assert_eq!(&[pieces.first(), pieces.rest()].concat(), &whole);
            prop_assert!(pieces.first().len() >= together);
            let saved = allocated(whole.len()) - pieces.bytes();
            prop_assert!(pieces.rest().is_empty() || saved >= WORTH_BYTES);
        }
    }
}
