//! The shards of a store behind their locks.
//!
//! Invariant: each hash has exactly one shard, which always exists. No thread holds the locks of
//! two shards.

use crate::shard::Shard;
use crate::sync::{Mutex, MutexGuard, sound};
use std::sync::Arc;

/// All shards. Clones refer to the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Shards(Arc<[Mutex<Shard>]>);

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
    pub(crate) fn of(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let place = (hash >> 32) as usize & (self.0.len() - 1);
        sound(self.0.get(place).expect("the mask is below the number of shards").lock())
    }

    /// The locked shard at an index, or `None` behind the last shard.
    pub(crate) fn at(&self, place: usize) -> Option<MutexGuard<'_, Shard>> {
        self.0.get(place).map(|shard| sound(shard.lock()))
    }

    /// All shards, each locked while it is the iterator's item.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.0.iter().map(|shard| sound(shard.lock()))
    }
}
