//! The share of the tier's disk space that running fills may take.
//!
//! Invariant: all reservations together are within the share. A segment with a running fill cannot
//! be evicted. Without this limit, a few aborted downloads could make the whole tier impossible to
//! evict.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share, in bytes.
pub(crate) struct FillShare {
    bytes_max: u64,
    taken: AtomicU64,
    /// The bytes of all fills that are received and not written.
    waiting: AtomicU64,
}

impl FillShare {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, taken: AtomicU64::new(0), waiting: AtomicU64::new(0) })
    }

    /// The reserved bytes.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The bytes of all fills that are received and not written.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken() >= self.bytes_max
    }
}

/// A fill's part of the share. It is released when this is dropped.
pub(crate) struct FillReservation {
    share: Arc<FillShare>,
    bytes: u64,
    /// The fill's bytes that are received and not written. They are counted until this is dropped.
    waiting: u64,
}

impl FillReservation {
    pub(crate) const fn empty(share: Arc<FillShare>) -> Self {
        Self { share, bytes: 0, waiting: 0 }
    }

    /// Extends the reservation. Returns false, and changes nothing, if the share has too little
    /// left.
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.share.bytes_max);
        let is_taken = self.share.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// Counts the fill's bytes that are received and not written, in place of the last count.
    pub(crate) fn count_waiting(&mut self, bytes: u64) {
        // The sum is right although the difference wraps around.
        self.share.waiting.fetch_add(bytes.wrapping_sub(self.waiting), Ordering::Relaxed);
        self.waiting = bytes;
    }

    /// Releases the whole reservation.
    pub(crate) fn release(&mut self) {
        self.share.taken.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for FillReservation {
    fn drop(&mut self) {
        self.release();
        self.count_waiting(0);
    }
}
