//! The shards of a store behind their locks.
//!
//! Invariant: each hash has exactly one shard, which always exists. No thread holds the locks of
//! two shards.

use crate::Object;
use crate::log::Log;
use crate::shard::Shard;
use crate::sync::{Mutex, MutexGuard, sound};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Objects that [`Shards::trim`] evicts under one hold of a shard's lock.
const TRIM_OBJECTS: usize = 64;

/// All shards. Clones refer to the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Shards(Arc<[Mutex<Shard>]>);

/// A shard while its lock is held. Objects that were removed meanwhile are dropped after the lock
/// is released.
pub(crate) struct LockedShard<'a> {
    // Fields are dropped in this order: first the lock, then the objects.
    guard: MutexGuard<'a, Shard>,
    removed: Vec<Arc<Object>>,
}

impl Shards {
    /// `count` shards, which must be a power of two.
    pub(crate) fn new(count: usize, shard: impl Fn() -> Shard) -> Self {
        assert!(count.is_power_of_two(), "a mask of the hash selects the shard");
        Self((0..count).map(|_| Mutex::new(shard())).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The locked shard of a hash. The bits from 32 on choose the shard. The table inside the shard
    /// uses other bits.
    #[expect(clippy::expect_used, reason = "the mask is below the number of shards, a power of two")]
    pub(crate) fn of(&self, hash: u64) -> LockedShard<'_> {
        let place = (hash >> 32) as usize & (self.0.len() - 1);
        LockedShard::new(self.0.get(place).expect("the mask is below the number of shards"))
    }

    /// The locked shard at an index, or `None` behind the last shard.
    pub(crate) fn at(&self, place: usize) -> Option<LockedShard<'_>> {
        self.0.get(place).map(LockedShard::new)
    }

    /// All shards, each locked while it is the iterator's item.
    pub(crate) fn each(&self) -> impl Iterator<Item = LockedShard<'_>> {
        self.0.iter().map(LockedShard::new)
    }

    /// Evicts objects until each shard is within its budget.
    pub(crate) fn trim(&self) {
        for place in 0..self.count() {
            while self.at(place).is_some_and(|mut shard| shard.trim(TRIM_OBJECTS)) {
                // Give a thread that waits for this shard's lock the chance to take it.
                std::thread::yield_now();
            }
        }
    }

    /// Makes a change that may add tags or invalidations to `log`, and then evicts objects for the
    /// bytes that the log gained. The change must hold no lock of a shard when it ends.
    ///
    /// Usually each shard gives 64 bytes and none evicts an object, so a caller may hold locks that
    /// come before those of the shards.
    pub(crate) fn trim_after<T>(&self, log: &Log, change: impl FnOnce() -> T) -> T {
        let result = change();
        if log.take_grown() {
            self.trim();
        }
        result
    }
}

impl<'a> LockedShard<'a> {
    #[inline]
    fn new(shard: &'a Mutex<Shard>) -> Self {
        Self { guard: sound(shard.lock()), removed: Vec::new() }
    }
}

impl Deref for LockedShard<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.guard
    }
}

impl DerefMut for LockedShard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.guard
    }
}

impl Drop for LockedShard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.removed = self.guard.take_removed();
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::Shards;
    use crate::Body;
    use crate::shard::tests::{key, object_of, publish, shard};
    use bytes::Bytes;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Contents of a body that note, when they are dropped, whether the lock of the shard is free.
    struct Contents {
        shards: Shards,
        was_free: Arc<AtomicBool>,
    }

    impl AsRef<[u8]> for Contents {
        fn as_ref(&self) -> &[u8] {
            &[b'x'; 1 << 20]
        }
    }

    impl Drop for Contents {
        fn drop(&mut self) {
            let is_free = self.shards.0.first().is_some_and(|shard| shard.try_lock().is_ok());
            self.was_free.store(is_free, Ordering::SeqCst);
        }
    }

    #[test]
    fn lock_is_free_when_a_removed_object_is_dropped() {
        let shards = Shards::new(1, || shard(8 << 20, 2 << 20, 4, Default::default()));
        let was_free = Arc::new(AtomicBool::new(false));
        let contents = Contents { shards: shards.clone(), was_free: Arc::clone(&was_free) };
        let body = Body::of_chunks(vec![Bytes::from_owner(contents)]);
        assert!(publish(&mut shards.of(0), (0, "/a"), ("", ""), object_of(body)));
        assert_eq!(shards.of(0).remove(0, &key("/a")), 1);
        assert!(was_free.load(Ordering::SeqCst));
    }
}
