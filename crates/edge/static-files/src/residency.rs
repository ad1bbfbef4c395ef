//! Which parts of an open file were lately in the system's memory.
//!
//! Invariant: a chunk counts as resident only in the period in which it was probed as a whole. A
//! chunk that was sent a moment ago is among the last that the system evicts, so this is as good as
//! a new probe, which costs a tenth of the time of sending.

use clock::Monotonic;
use std::sync::atomic::{AtomicU32, Ordering};

/// Length of a chunk in bytes. Chunks begin at multiples of it.
pub const CHUNK_BYTES: u64 = 2 << 20;

/// Chunks at the beginning of a file that are remembered, with 4 KiB of memory.
const CHUNKS_MAX: u64 = 1024;

/// The period of a time has this many of its lower bits, in nanoseconds: 134 ms.
const PERIOD_BITS: u32 = 27;

/// The chunks of a file with the period of their last probe.
#[derive(Debug)]
pub(crate) struct Residency {
    file_bytes: u64,
    /// The number of a period, counted from one; 0: none.
    probed: Box<[AtomicU32]>,
}

impl Residency {
    /// Of a file of this length; nothing was probed yet.
    pub(crate) fn of(file_bytes: u64) -> Self {
        let chunks = file_bytes.div_ceil(CHUNK_BYTES).min(CHUNKS_MAX);
        Self { file_bytes, probed: (0..chunks).map(|_| AtomicU32::new(0)).collect() }
    }

    /// The size of its allocation, in bytes.
    pub(crate) const fn cost_bytes(&self) -> usize {
        self.probed.len() * size_of::<AtomicU32>()
    }

    /// Whether `bytes` bytes from `at` are in memory, which `probe` finds out if need be.
    pub(crate) fn has(&self, at: u64, bytes: u64, now: Monotonic, probe: impl FnOnce() -> bool) -> bool {
        let first = at / CHUNK_BYTES * CHUNK_BYTES;
        let end = first.saturating_add(CHUNK_BYTES).min(self.file_bytes);
        let is_inside = at.saturating_add(bytes) <= end;
        let chunk = usize::try_from(at / CHUNK_BYTES).ok().and_then(|place| self.probed.get(place));
        let Some(chunk) = chunk.filter(|_| is_inside) else { return probe() };
        // The cut makes two periods equal that are 18 years apart.
        let period = (now.as_nanos() >> PERIOD_BITS) as u32 + 1;
        if chunk.load(Ordering::Relaxed) == period {
            return true;
        }
        let is_there = probe();
        if is_there && at == first && at + bytes == end {
            chunk.store(period, Ordering::Relaxed);
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES, CHUNKS_MAX, PERIOD_BITS, Residency};
    use clock::Monotonic;

    const NOW: Monotonic = Monotonic::from_nanos(0);

    /// Whether `residency` probes for these bytes; the probe says `is_there`.
    fn probes(residency: &Residency, (at, bytes): (u64, u64), now: Monotonic, is_there: bool) -> bool {
        let mut probes = false;
        let has = residency.has(at, bytes, now, || {
            probes = true;
            is_there
        });
        assert_eq!(has, !probes || is_there);
        probes
    }

    #[test]
    fn whole_chunks_are_probed_once_in_a_period() {
        let bytes = 2 * CHUNK_BYTES + 5;
        let residency = Residency::of(bytes);
        let chunks = [(0, CHUNK_BYTES), (CHUNK_BYTES, CHUNK_BYTES), (2 * CHUNK_BYTES, 5)];
        for chunk in chunks {
            assert!(probes(&residency, chunk, NOW, true));
        }
        let last = Monotonic::from_nanos((1 << PERIOD_BITS) - 1);
        for chunk in chunks {
            assert!(!probes(&residency, chunk, last, true));
        }
        // Parts of a chunk are in memory with it.
        assert!(!probes(&residency, (CHUNK_BYTES + 7, 100), NOW, true));
        assert!(probes(&residency, (0, CHUNK_BYTES), Monotonic::from_nanos(1 << PERIOD_BITS), true));
    }

    #[test]
    fn only_a_whole_chunk_in_memory_counts() {
        let residency = Residency::of(2 * CHUNK_BYTES);
        for part in [(0, CHUNK_BYTES - 1), (1, CHUNK_BYTES - 1), (0, CHUNK_BYTES + 1)] {
            assert!(probes(&residency, part, NOW, true));
            assert!(probes(&residency, part, NOW, true), "{part:?}");
        }
        assert!(probes(&residency, (0, CHUNK_BYTES), NOW, false));
        assert!(probes(&residency, (0, CHUNK_BYTES), NOW, true));
        // A range over two chunks is not one of them.
        assert!(probes(&residency, (5, CHUNK_BYTES), NOW, true));
    }

    #[test]
    fn memory_is_bounded_and_short_files_need_little() {
        assert_eq!(Residency::of(0).cost_bytes(), 0);
        assert_eq!(Residency::of(1).cost_bytes(), 4);
        let huge = Residency::of(u64::MAX);
        assert_eq!(huge.cost_bytes(), 4096);
        let behind = (CHUNKS_MAX * CHUNK_BYTES, CHUNK_BYTES);
        assert!(probes(&huge, behind, NOW, true));
        assert!(probes(&huge, behind, NOW, true));
        assert!(probes(&huge, (u64::MAX - 5, 5), NOW, true));
    }
}
