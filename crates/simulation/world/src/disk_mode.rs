//! How a simulated disk behaves: its times, and its faults by chance.
//!
//! Invariant: a mode is plain data. The default mode is a fast disk without faults.

use std::time::Duration;

/// The least duration in milliseconds of an operation that counts as slow.
pub const SLOW_MS: u64 = 100;

/// How a disk behaves. Each fault hits an operation with its own chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskMode {
    /// The longest duration in milliseconds of an ordinary operation.
    pub latency_ms_max: u64,
    /// How often in 100 cases an operation is slow.
    pub slow_percent: u64,
    /// The longest duration in milliseconds of a slow operation; at least [`SLOW_MS`].
    pub slow_ms_max: u64,
    /// How often in 1000 cases an operation ends with an input/output error.
    pub failing_permille: u64,
    /// How often in 1000 cases an operation that needs space finds the disk full.
    pub full_permille: u64,
    /// How often in 1000 cases a read or write transfers only a part.
    pub short_permille: u64,
    /// How often in 1000 cases a read of a file with a name returns a wrong byte.
    pub misread_permille: u64,
}

impl Default for DiskMode {
    fn default() -> Self {
        Self {
            latency_ms_max: 2,
            slow_percent: 0,
            slow_ms_max: SLOW_MS,
            failing_permille: 0,
            full_permille: 0,
            short_permille: 0,
            misread_permille: 0,
        }
    }
}

impl DiskMode {
    /// A disk on which a third of the operations take up to `slow_ms_max` milliseconds.
    pub fn slow(slow_ms_max: u64) -> Self {
        Self { slow_percent: 33, slow_ms_max, ..Self::default() }
    }

    /// A disk on which `failing_permille` of 1000 operations fail.
    pub fn failing(failing_permille: u64) -> Self {
        Self { failing_permille, ..Self::default() }
    }

    /// Whether the disk is slow at most: it reports no error, and ends each operation in less than
    /// `limit`.
    pub fn is_slow_only(self, limit: Duration) -> bool {
        let longest_ms = self.latency_ms_max.max(self.slow_ms_max);
        self.failing_permille == 0 && self.full_permille == 0 && u128::from(longest_ms) < limit.as_millis()
    }
}

/// Which operations of a disk hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskHang {
    /// None.
    #[default]
    Nothing,
    /// All but closing a file.
    Everything,
    /// All operations that change the disk.
    Writing,
    /// Closing a file.
    Closing,
}
