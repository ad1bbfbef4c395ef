//! The memory that bodies take on their way into the store.
//!
//! Invariant: what was taken is given back, however the way ends.

use crate::shared::Shared;

/// A body up to this size is kept however much slow visitors hold. The system's buffers take it at once, so that a
/// slow visitor holds nothing of it; and pages must not be lost because somebody reads downloads slowly.
const SMALL_BYTES: u64 = 64 * 1024;

/// The memory that one body takes on its way into the store; given back when it is there, or not kept.
pub(crate) struct Room<'a> {
    shared: &'a Shared,
    bytes: u64,
}

impl<'a> Room<'a> {
    pub(crate) const fn new(shared: &'a Shared) -> Self {
        Self { shared, bytes: 0 }
    }

    /// Takes room for more octets; false if there is none.
    pub(crate) fn take(&mut self, octets: usize) -> bool {
        let octets = octets as u64;
        let small = self.bytes + octets <= SMALL_BYTES;
        let lingering = if small { 0 } else { self.shared.store.lingering_bytes() };
        let taken = self.shared.filling.take(octets, lingering);
        self.bytes += if taken { octets } else { 0 };
        taken
    }

    /// Gives back what is more than `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.shared.filling.give_back(surplus);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
