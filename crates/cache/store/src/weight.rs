//! The cost of an allocation: the size of its size class, not the requested size.
//!
//! Invariant: the weight of an allocation is at least the memory that the allocator uses for it.
//! The classes are common to size-class allocators: multiples of 16 bytes at first, then four
//! between each two powers of two.

/// The bytes that an allocation of `bytes` occupies. An empty one is not allocated and occupies
/// none.
pub(crate) const fn allocated(bytes: usize) -> usize {
    if bytes <= MULTIPLES_UP_TO {
        return bytes.next_multiple_of(STEP);
    }
    // There are four classes between two powers of two.
    let power = (bytes - 1).ilog2();
    bytes.next_multiple_of(1 << (power - 2))
}

/// The size of the largest allocation of at most `bytes` bytes that fills its size class exactly;
/// small sizes are returned unchanged.
pub(crate) const fn filled(bytes: usize) -> usize {
    if bytes <= MULTIPLES_UP_TO {
        return bytes;
    }
    bytes - bytes % (1 << (bytes.ilog2() - 2))
}

const STEP: usize = 16;
const MULTIPLES_UP_TO: usize = 128;

/// The bytes that the first clone of a [`bytes::Bytes`] adds: its reference counter, which lives as
/// long as the data.
pub(crate) const SHARED_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::{allocated, filled};

    #[test]
    fn allocation_weighs_its_size_class() {
        for (asked, weight) in [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (257, 320),
            (1_025, 1_280),
            (65_536, 65_536),
            (65_537, 81_920),
        ] {
            assert_eq!(allocated(asked), weight, "{asked}");
        }
    }
    #[test]
    fn filled_size_wastes_no_memory() {
        for (asked, fills) in [(0, 0), (100, 100), (129, 128), (191, 160), (1_429, 1_280), (65_536, 65_536)] {
            assert_eq!(filled(asked), fills, "{asked}");
        }
        for asked in 129..10_000 {
            let fills = filled(asked);
            assert!(allocated(fills) == fills && allocated(asked) - fills <= asked / 2 && fills <= asked);
        }
    }
}
