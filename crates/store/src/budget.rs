//! How much the store may weigh. What it weighs and what the process occupies differ by what the allocator cannot
//! give back: where objects of one size have made room for objects of another, most pages still hold some of the old
//! ones. The budget follows that, so that resident memory keeps within what was allowed.
//!
//! Invariant: the budget is never above the limit the store was made with, and never below a part of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The budget is never less than the limit divided by this, whatever the rest of the process occupies. What the
/// allocator keeps for itself is resident too, and evicting more does not make it give that back.
const LEAST_PART: u64 = 2;

/// The budget of all shards together.
#[derive(Debug)]
pub(crate) struct Budget {
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

    /// Fits the budget to a process that occupies `resident` octets where it may occupy `resident_max`, and whose
    /// store weighs `weighed`.
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
    fn the_budget_makes_room_for_what_the_process_occupies_beyond_the_store() {
        let budget = Budget::new(800);
        for (weighed, resident, expected) in [
            (0, 0, 800),
            // A fifth more than the store is expected.
            (800, 960, 800),
            (800, 1_000, 800),
            (800, 1_100, 700),
            (700, 1_000, 700),
            (700, 900, 800),
            (700, 1_299, 401),
            (100, 5_000, 400),
        ] {
            budget.fit(weighed, resident, 1_000);
            assert_eq!(budget.bytes(), expected, "{weighed} {resident}");
        }
    }
}
