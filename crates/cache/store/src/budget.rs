//! The store's memory budget.
//!
//! The process occupies more memory than the store counts, because the allocator cannot give
//! everything back: when objects of one size replace objects of another, most pages still hold some
//! of the old ones. The budget follows this difference, so that resident memory stays within its
//! limit.
//!
//! Invariant: the budget is never above the store's limit, and never below half of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The budget is at least the limit divided by this, whatever the rest of the process occupies.
/// Memory that the allocator retains is resident too, and evicting more objects would not make it
/// give that back.
const LEAST_PART: u64 = 4;

/// The budget of all shards together.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Relaxed is enough: a shard that reads the previous budget evicts a little too much or too
    /// little, until its next insertion.
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Budget {
    pub(crate) const fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(bytes_max), bytes_max }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adapts the budget to a process that occupies `resident` bytes of at most `resident_max`, in
    /// which the store has counted `weighed` bytes.
    pub(crate) fn fit(&self, weighed: u64, resident: u64, resident_max: u64) {
        let beyond = resident.saturating_sub(weighed);
        let fitting = resident_max.saturating_sub(beyond);
        self.bytes.store(fitting.clamp(self.bytes_max / LEAST_PART, self.bytes_max), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn budget_shrinks_by_memory_outside_the_store() {
        let budget = Budget::new(800);
        for (weighed, resident, expected) in [
            (0, 0, 800),
            // Resident memory is a fifth above the store's own count, which still fits.
            (800, 960, 800),
            (800, 1_000, 800),
            (800, 1_100, 700),
            (700, 1_000, 700),
            (700, 900, 800),
            (700, 1_499, 201),
            (100, 5_000, 200),
        ] {
            budget.fit(weighed, resident, 1_000);
            assert_eq!(budget.bytes(), expected, "{weighed} {resident}");
        }
    }
}
