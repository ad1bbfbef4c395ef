//! The store: shards behind locks, one look-up and one publish step, and invalidations that are barriers.
//!
//! Invariant: a look-up takes one lock for a few comparisons, and what it returns stays valid however the store
//! changes afterwards. After [`Store::invalidate`] has returned, no look-up gives what it means, and no fetch that
//! began before gets it in again. Whether an object may be used is `semantics`' decision; staleness does not remove it.

use crate::budget::Budget;
use crate::hash::KeyHasher;
use crate::ledger::{Subject, TagIds};
use crate::lingering::Lingering;
use crate::log::Log;
use crate::shard::{Checked, Shard};
use crate::sweep::{Sweep, Swept};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Invalidated, Invalidation, Key, Object, Selector};
use bytes::Bytes;
use message::{Fields, ResponseHead};
use semantics::{VariantKey, VaryRule};
use std::sync::Arc;

/// The limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The memory that objects, keys, index, tags and the record of invalidations may occupy, in octets.
    /// Default: 256 MiB.
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
    Found {
        /// The object.
        object: Arc<Object>,
        /// Whether it was invalidated softly: it is stale whatever its freshness says.
        softened: bool,
    },
    /// The key has variants, and the request selects none of them.
    NoVariant,
    /// Nothing is stored under the key.
    Absent,
}

/// What is to be stored, and what is known of it.
#[derive(Debug)]
pub struct Publication<'a> {
    /// The key of the page.
    pub key: &'a Key,
    /// What the response varies on.
    pub rule: VaryRule,
    /// The variant it is: `rule.key` of the fields that were forwarded to get it.
    pub variant: VariantKey,
    /// The response.
    pub object: Arc<Object>,
    /// Its tags.
    pub tags: &'a [Bytes],
    /// What [`Store::sequence`] gave before the request that got it was sent.
    pub begun: u64,
}

/// What became of an object that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is stored and will be found.
    Stored,
    /// It is larger, or has more tags, than the limits allow. An older one that it would have replaced is gone too.
    TooLarge,
    /// It was invalidated since its fetch began.
    Invalidated,
}

/// Figures of a store. Counters count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Octets in use, weighed as the limit weighs them.
    pub bytes: u64,
    /// Octets that may be in use at the moment: the limit, or less where the process occupies more than is weighed.
    pub budget_bytes: u64,
    /// Octets among them for tags and the record of invalidations.
    pub tag_bytes: u64,
    /// Tags that are known now.
    pub tags: u64,
    /// Objects stored now.
    pub objects: u64,
    /// Objects stored ever.
    pub published: u64,
    /// Objects removed to make room.
    pub evicted: u64,
    /// Objects removed because they were invalidated.
    pub invalidated: u64,
}

/// Objects by key and variant, in memory.
#[derive(Debug)]
pub struct Store {
    limits: StoreLimits,
    hasher: KeyHasher,
    shards: Box<[Mutex<Shard>]>,
    lingering: Lingering,
    log: Arc<Log>,
    sweep: Sweep,
    budget: Arc<Budget>,
}

impl Store {
    /// An empty store. `seed` should be random and of this process alone.
    pub fn new(limits: StoreLimits, seed: u64) -> Self {
        let (count, hasher, lingering) = (limits.shards(), KeyHasher::new(seed), Lingering::default());
        let log = Arc::new(Log::new(hasher.clone(), seed.rotate_left(16)));
        let budget = Arc::new(Budget::new(limits.memory_bytes_max));
        let shard = |_| Shard::new(limits, Arc::clone(&budget), count, lingering.clone(), Arc::clone(&log));
        let shards = (0..count).map(shard).map(Mutex::new).collect();
        Self { limits, hasher, shards, lingering, log, sweep: Sweep::default(), budget }
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
        self.shard(hash).map_or(Lookup::Absent, |mut shard| shard.peek(hash, key, fields))
    }

    /// What the responses stored under `key` are known to vary on; for [`semantics::shared_fields`].
    pub fn known_rule(&self, key: &Key) -> VaryRule {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or_else(VaryRule::default, |shard| shard.rule(hash, key))
    }

    /// Stores an object in place of the same variant, unless it was invalidated since its fetch began.
    pub fn publish(&self, publication: Publication<'_>) -> Published {
        let hash = self.hasher.hash(publication.key);
        self.shard(hash).map_or(Published::TooLarge, |mut shard| shard.publish(hash, publication))
    }

    /// Removes every variant under `key`; says how many there were.
    pub fn remove(&self, key: &Key) -> usize {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or(0, |mut shard| shard.remove(hash, key))
    }

    /// The number of the last invalidation, for a fetch that begins now.
    pub fn sequence(&self) -> u64 {
        self.log.sequence()
    }

    /// Invalidates what is stored, and what is on its way to be: once this has returned, no look-up finds what is
    /// meant, and nothing of it that was fetched by a request which began before is stored.
    ///
    /// The memory of a hard invalidation is free when [`Store::sweep`] has passed, but for single pages, which go at
    /// once. When too much waits for the sweep, this does it.
    pub fn invalidate(&self, invalidation: &Invalidation) -> Invalidated {
        let Invalidation { selector, mode } = invalidation;
        let (sequence, mut objects) = loop {
            if let Some(recorded) = self.log.record(selector, *mode) {
                break recorded;
            }
            self.sweep(SWEEP_SLOTS);
        };
        match selector {
            Selector::Target { site, host, target } => {
                let keys = [false, true].map(|https| Key::new(*site, https, host, target.clone()));
                let checked = keys.iter().map(|key| self.check_key(key));
                objects = Some(checked.map(|checked| checked.removed + checked.softened).sum());
            }
            Selector::Host { site, host } => {
                let spelled = [false, true].map(|https| Key::new(*site, https, host, Bytes::new()));
                objects =
                    Some(self.count(|shard| {
                        shard.scopes().count(|scope| spelled.iter().any(|key| scope.is_of(key)))
                    }));
            }
            Selector::Everything { site: Some(site) } => {
                objects = Some(self.count(|shard| shard.scopes().count(|scope| scope.site == *site)));
            }
            Selector::Everything { site: None } => {
                objects = Some(self.count(|shard| shard.counters().objects));
            }
            Selector::Prefix { .. } | Selector::Tags { .. } | Selector::Ban { .. } => {}
        }
        Invalidated { sequence, objects }
    }

    /// Whether a request may take part in a fetch that began at `begun`, whose answer has this head and these tags:
    /// no invalidation since then means it.
    pub fn may_join(&self, begun: u64, key: &Key, tags: &[Bytes], head: &ResponseHead) -> bool {
        if begun == self.sequence() {
            return true;
        }
        let subject = Subject {
            site: key.site(),
            https: key.is_https(),
            host: key.host(),
            target: key.target(),
            hash: self.hasher.hash(key),
            tags: TagIds::default(),
            response: head,
        };
        self.log.judge_texts(begun, &subject, tags).is_none()
    }

    /// Walks over about `slots` objects, and removes or softens what was invalidated. To be called again while there
    /// is more, from a thread that has time.
    pub fn sweep(&self, slots: usize) -> Swept {
        self.sweep.walk(
            slots,
            || self.log.unswept(),
            |place| self.shards.get(place).map(lock),
            |sequence| self.log.sweep_ended(sequence),
        )
    }

    /// Fits the store to what the process really occupies: `resident_bytes`, where it may be `resident_bytes_max`.
    /// What is beyond the store's own weight is taken from its budget, and objects are evicted until they are within
    /// it. To be called several times a second, from a thread that has time.
    pub fn fit(&self, resident_bytes: u64, resident_bytes_max: u64) {
        self.budget.fit(self.stats().bytes, resident_bytes, resident_bytes_max);
        for shard in &self.shards {
            while lock(shard).trim(TRIM_OBJECTS) {}
        }
    }

    /// The figures now. Locks one shard after the other; for metrics, not for decisions.
    pub fn stats(&self) -> StoreStats {
        let (tag_bytes, tags) = (self.log.bytes() as u64, self.log.tags() as u64);
        let budget_bytes = self.budget.bytes();
        let own = StoreStats { bytes: tag_bytes, tag_bytes, tags, budget_bytes, ..StoreStats::default() };
        self.shards.iter().map(lock).fold(own, |sum, shard| {
            let counters = shard.counters();
            StoreStats {
                bytes: sum.bytes + shard.bytes() as u64,
                objects: sum.objects + counters.objects,
                published: sum.published + counters.published,
                evicted: sum.evicted + counters.evicted,
                invalidated: sum.invalidated + counters.invalidated,
                ..sum
            }
        })
    }

    fn check_key(&self, key: &Key) -> Checked {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or_else(Checked::default, |mut shard| shard.check_key(hash, key))
    }

    fn count(&self, count: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.iter().map(|shard| count(&lock(shard))).sum()
    }

    /// The locked shard of a hash. Its upper middle bits choose the shard; the table inside uses the others.
    /// There is always one, as the number of shards is a power of two.
    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = (hash >> 32) as usize & (self.shards.len() - 1);
        self.shards.get(index).map(lock)
    }
}

/// Objects that are evicted while a shard is locked, where nobody waits for the room.
const TRIM_OBJECTS: usize = 64;

/// Slots that an invalidation sweeps at a time where it has to.
const SWEEP_SLOTS: usize = 4_096;

/// No code that can panic for a reason from outside runs under the lock; a shard is whole at every moment.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
