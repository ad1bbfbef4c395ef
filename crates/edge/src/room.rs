//! The memory that bodies take on their way into the store, past it, or back from the disk.
//!
//! Invariant: what was taken is given back, however the way ends.

use crate::memory::Reservation;
use crate::shared::Shared;

/// A body up to this size is kept however much slow visitors hold. The system's buffers take it at once, so that a
/// slow visitor holds nothing of it; and pages must not be lost because somebody reads downloads slowly.
const SMALL_BYTES: u64 = 64 * 1024;

/// Octets that the slowest visitor may lag behind in a body that is not stored, and where memory is short.
const WINDOW_BYTES: u64 = 256 * 1024;
const SHORT_WINDOW_BYTES: u64 = 64 * 1024;

/// The memory that one body takes; given back when it is in the store, or sent.
pub(crate) struct Room<'a> {
    shared: &'a Shared,
    reservation: Reservation,
    /// How much the visitors may lag behind, once the body is not kept.
    window_bytes: Option<u64>,
}

impl<'a> Room<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self { shared, reservation: Reservation::empty(&shared.transit), window_bytes: None }
    }

    /// Takes room for more octets; false if there is none.
    pub(crate) fn take(&mut self, octets: u64) -> bool {
        let small = self.reservation.bytes() + octets <= SMALL_BYTES;
        let lingering = if small { 0 } else { self.shared.store.lingering_bytes() };
        self.reservation.add(octets, lingering)
    }

    /// The body, of which so many octets are in memory, is not kept any more: gives back what it does not need for its
    /// window.
    pub(crate) fn shrink_to_window(&mut self, held_bytes: u64) {
        let window_bytes = *self.window_bytes.get_or_insert_with(|| {
            let missing = WINDOW_BYTES.saturating_sub(self.reservation.bytes());
            let is_taken = missing == 0 || self.reservation.add(missing, self.shared.store.lingering_bytes());
            // A visitor that reads slowly holds the origin back sooner then.
            if is_taken { WINDOW_BYTES } else { SHORT_WINDOW_BYTES }
        });
        self.reservation.shrink_to(held_bytes.max(window_bytes));
    }

    /// How much the slowest visitor may lag behind.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes.unwrap_or(WINDOW_BYTES)
    }
}
