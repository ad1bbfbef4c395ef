//! Accounting of the memory that responses take outside the store.
//!
//! Invariants: all reservations together exceed the share only by what [`Reservation::add_always`]
//! reserves, and each is released when it is dropped. The accounting allocates nothing: its users
//! reserve before they take memory, and do with less if that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A share of the edge's memory, in bytes.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    bytes_max: u64,
    taken: AtomicU64,
}

impl MemoryShare {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, taken: AtomicU64::new(0) })
    }

    /// The bytes that are reserved now.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// The reservation of one user, released on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    share: Arc<MemoryShare>,
    bytes: u64,
}

impl Reservation {
    pub(crate) fn empty(share: &Arc<MemoryShare>) -> Self {
        Self { share: Arc::clone(share), bytes: 0 }
    }

    /// The share that it belongs to.
    pub(crate) const fn share(&self) -> &Arc<MemoryShare> {
        &self.share
    }

    /// Its size in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more bytes, while `beside` bytes are in use without a reservation. Returns `false`
    /// and reserves nothing if the share does not suffice.
    pub(crate) fn add(&mut self, bytes: u64, beside: u64) -> bool {
        let bytes_max = self.share.bytes_max.saturating_sub(beside);
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= bytes_max);
        let is_taken = self.share.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// Reserves more bytes, even beyond the share. For memory that its user takes in any case.
    pub(crate) fn add_always(&mut self, bytes: u64) {
        self.share.taken.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Releases everything beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.share.taken.fetch_sub(surplus, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{MemoryShare, Reservation};

    #[test]
    fn reservations_stay_within_the_share_and_are_given_back() {
        let share = MemoryShare::new(100);
        let (mut one, mut other) = (Reservation::empty(&share), Reservation::empty(&share));
        assert!(one.add(60, 0) && other.add(40, 0));
        assert!(!one.add(1, 0) && !other.add(u64::MAX, 0));
        one.shrink_to(20);
        assert_eq!((one.bytes(), share.taken()), (20, 60));
        assert!(!other.add(11, 30), "lingering bytes count");
        assert!(other.add(10, 30));
        drop(other);
        assert_eq!(share.taken(), 20);
        one.add_always(90);
        assert_eq!((one.bytes(), share.taken()), (110, 110));
        assert!(!one.add(1, 0), "the share is exceeded");
        drop(one);
        assert_eq!(share.taken(), 0);
    }
}
