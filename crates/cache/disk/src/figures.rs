//! The counters of a disk tier.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ReadError;

/// The counters behind [`crate::TierFigures`].
#[derive(Debug, Default)]
pub(crate) struct FigureCounters {
    pub(crate) durable: AtomicU64,
    pub(crate) synced: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) torn: AtomicU64,
    pub(crate) invalidations: AtomicU64,
    /// Reads that failed or returned other bytes than were written. A temporary failure
    /// ([`ReadError::is_passing`]) does not count.
    pub(crate) damaged: AtomicU64,
    pub(crate) io_errors: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) fills_unshared: AtomicU64,
    pub(crate) hangs: AtomicU64,
}

impl FigureCounters {
    /// Counts a read error. It is normal that the segment of an object is evicted before the object
    /// is read, so [`ReadError::Gone`] is not counted.
    pub(crate) fn count_read(&self, error: &ReadError) {
        match error {
            ReadError::Gone => return,
            ReadError::Damaged => add(&self.torn, 1),
            ReadError::Io(_) => add(&self.io_errors, 1),
        }
        if !error.is_passing() {
            add(&self.damaged, 1);
        }
    }
}

// Relaxed is enough for all counters and sizes: they publish no other memory. State that must agree
// with a size is under a lock.

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn of(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
