//! A count of the memory that a simulation takes for itself: bytes on their way through its
//! network, and bodies that its actors send and compare. The memory of the process without it is
//! that of the edge.
//!
//! Invariant: each holder is counted from when it takes memory until it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct MemoryMeter(Arc<AtomicU64>);

impl MemoryMeter {
    /// The bytes of all holders.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A holder of no memory.
    pub fn holder(&self) -> CountedMemory {
        CountedMemory { meter: self.clone(), bytes: 0 }
    }
}

/// The memory of one holder.
#[derive(Debug)]
pub struct CountedMemory {
    meter: MemoryMeter,
    bytes: u64,
}

impl CountedMemory {
    /// The holder has `bytes` now.
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        // Adding before subtracting keeps the sum from falling below zero.
        self.meter.0.fetch_add(bytes, Ordering::Relaxed);
        self.meter.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for CountedMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryMeter;

    #[test]
    fn holders_are_counted_until_they_are_dropped() {
        let meter = MemoryMeter::default();
        let (mut one, mut other) = (meter.holder(), meter.holder());
        one.set(10);
        other.set(5);
        one.set(7);
        assert_eq!(meter.bytes(), 12);
        drop(one);
        assert_eq!(meter.bytes(), 5);
        drop(other);
        assert_eq!(meter.bytes(), 0);
    }
}
