//! The share of the tier that bodies may take while they stream in.
//!
//! Invariant: all reservations together are at most the share. A segment that a fill writes to cannot be evicted, so
//! without this bound the fills of a few aborted downloads would pin the whole tier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share, in bytes.
pub(crate) struct FillShare {
    bytes_max: u64,
    taken: AtomicU64,
}

impl FillShare {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, taken: AtomicU64::new(0) })
    }

    /// What is reserved now, in bytes.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken() >= self.bytes_max
    }
}

/// What one fill holds of the share. It is given back when this is dropped.
pub(crate) struct Reservation {
    share: Arc<FillShare>,
    bytes: u64,
}

impl Reservation {
    pub(crate) const fn empty(share: Arc<FillShare>) -> Self {
        Self { share, bytes: 0 }
    }

    /// Adds to it. `false`: the share has not so much left, and nothing was added.
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.share.bytes_max);
        let is_taken = self.share.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        self.share.taken.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}
