//! Memory reservation of a body on its way into the store, streamed past it, or read back
//! from disk.
//!
//! Invariant: everything reserved is released, however the transfer ends.

use crate::memory::budget::Reservation;
use crate::shared::Shared;

/// Bytes that the slowest client may lag behind in a body that is not stored; the second value
/// applies when memory is short.
const WINDOW_BYTES: u64 = 256 * 1024;
const SHORT_WINDOW_BYTES: u64 = 64 * 1024;

/// A body up to this size is always kept, whatever memory slow clients and other bodies hold. Slow
/// downloads must not prevent pages from being stored. For a body from an origin this takes no
/// additional memory, because the window of a refused body holds as much. Few bodies are read back
/// from the disk at a time ([`crate::fetch::read_queues`]).
const SMALL_BYTES: u64 = SHORT_WINDOW_BYTES;

/// The memory reservation of one body, released when the body is stored or sent.
pub(crate) struct BodyReservation<'a> {
    shared: &'a Shared,
    reservation: Reservation,
    /// The allowed lag of the slowest client, once the body is not kept.
    window_bytes: Option<u64>,
}

impl<'a> BodyReservation<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self { shared, reservation: Reservation::empty(&shared.transit), window_bytes: None }
    }

    /// Reserves room for more bytes; false if there is none.
    pub(crate) fn take(&mut self, octets: u64) -> bool {
        if self.reservation.bytes() + octets <= SMALL_BYTES {
            self.reservation.add_always(octets);
            return true;
        }
        self.reservation.add(octets, self.shared.store.lingering_bytes())
    }

    /// Called once the body is no longer kept: releases what exceeds `held_bytes`, the bytes still
    /// in memory, and the window.
    pub(crate) fn shrink_to_window(&mut self, held_bytes: u64) {
        let window_bytes = *self.window_bytes.get_or_insert_with(|| {
            let missing = WINDOW_BYTES.saturating_sub(self.reservation.bytes());
            let is_taken = missing == 0 || self.reservation.add(missing, self.shared.store.lingering_bytes());
            // With a smaller window, a slow client holds the origin back sooner.
            if is_taken { WINDOW_BYTES } else { SHORT_WINDOW_BYTES }
        });
        self.reservation.shrink_to(held_bytes.max(window_bytes));
    }

    /// The allowed lag of the slowest client, in bytes.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes.unwrap_or(WINDOW_BYTES)
    }
}
