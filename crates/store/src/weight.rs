//! What an allocation costs: its size class, not what was asked for.
//!
//! Invariant: the weight of an allocation is at least what the allocator sets aside for it. The classes are those that
//! size-class allocators have in common: multiples of 16 octets at first, then four for each doubling.

/// The octets that an allocation of `bytes` occupies; none for an empty one, which is not made.
pub(crate) const fn allocated(bytes: usize) -> usize {
    if bytes <= MULTIPLES_UP_TO {
        return bytes.next_multiple_of(STEP);
    }
    // Between two powers of two there are four classes.
    let power = (bytes - 1).ilog2();
    bytes.next_multiple_of(1 << (power - 2))
}

/// The largest allocation, at most `bytes`, that fills its size class; `bytes` if all small ones do.
pub(crate) const fn filled(bytes: usize) -> usize {
    if bytes <= MULTIPLES_UP_TO {
        return bytes;
    }
    bytes - bytes % (1 << (bytes.ilog2() - 2))
}

const STEP: usize = 16;
const MULTIPLES_UP_TO: usize = 128;

/// What a clone of a [`bytes::Bytes`] leaves with it: its counter, kept as long as the octets are.
pub(crate) const SHARED_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::{allocated, filled};

    #[test]
    fn an_allocation_weighs_its_class() {
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
    fn what_fills_its_class_wastes_nothing() {
        for (asked, fills) in [(0, 0), (100, 100), (129, 128), (191, 160), (1_429, 1_280), (65_536, 65_536)] {
            assert_eq!(filled(asked), fills, "{asked}");
        }
        for asked in 129..10_000 {
            let fills = filled(asked);
            assert!(allocated(fills) == fills && allocated(asked) - fills <= asked / 2 && fills <= asked);
        }
    }
}
