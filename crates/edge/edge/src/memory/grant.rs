//! The memory of one holder of bytes in transfer: an allowance that needs no budget, so that every
//! holder makes progress, and more from a share.
//!
//! Invariant: the holder has at most one piece more than its allowance and the memory taken for it.

use crate::memory::budget::{MemoryShare, Reservation};
use std::sync::Arc;

/// Memory is taken from the share in steps of this size.
const STEP_BYTES: u64 = 64 * 1024;

/// The memory of one holder. Memory from the share is returned when the grant ends.
#[derive(Debug)]
pub(crate) struct Grant {
    taken: Reservation,
    allowance_bytes: u64,
    bytes_max: u64,
}

impl Grant {
    /// `bytes_max` limits the allowance and the memory from the share together.
    pub(crate) fn new(share: &Arc<MemoryShare>, allowance_bytes: u64, bytes_max: u64) -> Self {
        Self { taken: Reservation::empty(share), allowance_bytes, bytes_max }
    }

    /// The share that the memory is taken from.
    pub(crate) const fn share(&self) -> &Arc<MemoryShare> {
        self.taken.share()
    }

    /// Whether a holder of `held_bytes` may take up another piece. Takes memory from the share if
    /// that is necessary.
    pub(crate) fn has_room(&mut self, held_bytes: u64) -> bool {
        while held_bytes >= self.granted_bytes() {
            let is_permitted = self.granted_bytes() + STEP_BYTES <= self.bytes_max;
            if !is_permitted || !self.taken.add(STEP_BYTES, 0) {
                return false;
            }
        }
        true
    }

    /// Returns the memory that a holder of `held_bytes` does not need.
    pub(crate) fn shrink(&mut self, held_bytes: u64) {
        while self.taken.bytes() > 0 && held_bytes + STEP_BYTES <= self.granted_bytes() {
            self.taken.shrink_to(self.taken.bytes() - STEP_BYTES);
        }
    }

    const fn granted_bytes(&self) -> u64 {
        self.allowance_bytes + self.taken.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{Grant, STEP_BYTES};
    use crate::memory::budget::MemoryShare;

    #[test]
    fn grant_keeps_its_allowance_when_the_share_is_empty() {
        let share = MemoryShare::new(2 * STEP_BYTES);
        let (mut one, mut other) = (Grant::new(&share, 100, 10 * STEP_BYTES), Grant::new(&share, 100, 1000));
        assert!(one.has_room(99) && one.has_room(100) && one.has_room(100 + STEP_BYTES));
        assert_eq!(share.taken(), 2 * STEP_BYTES);
        assert!(!one.has_room(100 + 2 * STEP_BYTES), "the share is empty");
        assert!(other.has_room(99) && !other.has_room(100), "only the allowance is left");
        one.shrink(101);
        assert_eq!(share.taken(), STEP_BYTES);
        one.shrink(100);
        assert_eq!(share.taken(), 0);
        assert!(!other.has_room(100), "a step exceeds the limit of this holder");
        assert!(one.has_room(100));
        drop(one);
        assert_eq!(share.taken(), 0);
    }
}
