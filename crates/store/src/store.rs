//! The store: shards behind locks, one look-up and one publish step.
//!
//! Invariant: a look-up takes one lock for a few comparisons, and what it returns stays valid however the store
//! changes afterwards. Whether an object may be used is `semantics`' decision; staleness does not remove it.

use crate::hash::KeyHasher;
use crate::lingering::Lingering;
use crate::shard::{Entry, Shard};
use crate::{Key, Object};
use message::Fields;
use semantics::{VariantKey, VaryRule};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The memory that objects, keys and index may occupy, in octets. Default: 256 MiB.
    pub memory_bytes_max: u64,
    /// The largest body that is kept, in octets. Default: 8 MiB.
    pub object_bytes_max: u64,
    /// The most variants under one key; past it the oldest goes. Default: 32.
    pub variants_max: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { memory_bytes_max: 256 << 20, object_bytes_max: 8 << 20, variants_max: 32 }
    }
}

impl StoreLimits {
    /// A shard must have room for several of the largest objects, else one of them would empty it; beyond that,
    /// more shards mean less waiting.
    fn shards(&self) -> usize {
        let roomy = self.memory_bytes_max / self.object_bytes_max.saturating_mul(LARGEST_PER_SHARD).max(1);
        usize::try_from(roomy.clamp(1, SHARDS_MAX)).map_or(1, |shards| 1 << shards.ilog2())
    }
}

const LARGEST_PER_SHARD: u64 = 8;
const SHARDS_MAX: u64 = 64;

/// What a look-up found.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The newest variant that the request selects; fresh or not.
    Found(Arc<Object>),
    /// The key has variants, and the request selects none of them.
    NoVariant,
    /// Nothing is stored under the key.
    Absent,
}

/// What became of an object that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is stored and will be found.
    Stored,
    /// It is larger than the limits allow. An older one that it would have replaced is gone too.
    TooLarge,
}

/// Figures of a store. Counters count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Octets in use, weighed as the limit weighs them.
    pub bytes: u64,
    /// Objects stored now.
    pub objects: u64,
    /// Objects stored ever.
    pub published: u64,
    /// Objects removed to make room.
    pub evicted: u64,
}

/// Objects by key and variant, in memory.
#[derive(Debug)]
pub struct Store {
    limits: StoreLimits,
    hasher: KeyHasher,
    shards: Box<[Mutex<Shard>]>,
    lingering: Lingering,
}

impl Store {
    /// An empty store. `seed` should be random and of this process alone.
    pub fn new(limits: StoreLimits, seed: u64) -> Self {
        let count = limits.shards();
        let bytes_max = usize::try_from(limits.memory_bytes_max).unwrap_or(usize::MAX) / count;
        let (variants_max, lingering) = (limits.variants_max.max(1), Lingering::default());
        let shard =
            |_| Mutex::new(Shard::new(bytes_max, limits.object_bytes_max, variants_max, lingering.clone()));
        let shards = (0..count).map(shard).collect();
        Self { limits, hasher: KeyHasher::new(seed), shards, lingering }
    }

    /// The octets of objects that have left the store and are still held by who looked them up or published them.
    /// They are in memory beyond the store's limit.
    pub fn lingering_bytes(&self) -> u64 {
        self.lingering.bytes()
    }

    /// The limits it was made with.
    pub const fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    /// Looks for the response to a request with this key and these fields.
    pub fn lookup(&self, key: &Key, fields: &Fields) -> Lookup {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or(Lookup::Absent, |mut shard| shard.lookup(hash, key, fields))
    }

    /// As [`Store::lookup`], without counting as a use: what is only looked at is not kept longer for that.
    pub fn peek(&self, key: &Key, fields: &Fields) -> Lookup {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or(Lookup::Absent, |shard| shard.peek(hash, key, fields))
    }

    /// What the responses stored under `key` are known to vary on; for [`semantics::shared_fields`].
    pub fn known_rule(&self, key: &Key) -> VaryRule {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or_else(VaryRule::default, |shard| shard.rule(hash, key))
    }

    /// Stores `object` as the variant `variant` under `key`, in place of the same variant. `variant` must be
    /// `rule.key` of the fields that were forwarded to get it.
    pub fn publish(&self, key: &Key, rule: VaryRule, variant: VariantKey, object: Arc<Object>) -> Published {
        let hash = self.hasher.hash(key);
        let entry = Entry { hash, key, rule, variant, object };
        let stored = self.shard(hash).is_some_and(|mut shard| shard.publish(entry));
        if stored { Published::Stored } else { Published::TooLarge }
    }

    /// Removes every variant under `key`; says how many there were.
    pub fn remove(&self, key: &Key) -> usize {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or(0, |mut shard| shard.remove(hash, key))
    }

    /// The figures now. Locks one shard after the other; for metrics, not for decisions.
    pub fn stats(&self) -> StoreStats {
        self.shards.iter().map(lock).fold(StoreStats::default(), |sum, shard| {
            let counters = shard.counters();
            StoreStats {
                bytes: sum.bytes + shard.bytes() as u64,
                objects: sum.objects + counters.objects,
                published: sum.published + counters.published,
                evicted: sum.evicted + counters.evicted,
            }
        })
    }

    /// The locked shard of a hash. Its upper middle bits choose the shard; the table inside uses the others.
    /// There is always one, as the number of shards is a power of two.
    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = (hash >> 32) as usize & (self.shards.len() - 1);
        self.shards.get(index).map(lock)
    }
}

/// No code that can panic for a reason from outside runs under the lock; a shard is whole at every moment.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
