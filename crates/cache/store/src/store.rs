//! The store: shards behind locks, one look-up step, one publish step, and invalidations that are
//! barriers.
//!
//! Invariant: a look-up takes one lock for a few comparisons, and its result stays valid however
//! the store changes afterwards. After [`Store::invalidate`] has returned, no look-up finds an
//! invalidated object. A fetch that began before the invalidation cannot store its response either.
//!
//! Staleness does not remove an object: `semantics` decides whether it may be used.
//!
//! Lock order: the sweep's position, then a shard, then the ledger, the list of lingering objects
//! or the locks of the disk tier. No thread holds the locks of two shards.

mod forms;

use crate::budget::Budget;
use crate::disk_write::DiskWrite;
use crate::hash::KeyHasher;
use crate::ledger::RecordedInvalidation;
use crate::lingering::LingeringObjects;
use crate::log::Log;
use crate::record::{IndexRecord, SiteNames};
use crate::shard::{Admission, Adoption, Shard, SlotCheck};
use crate::shards::Shards;
use crate::shelf::{ShardRetention, ShelvedObject, Spill, StoreDisk};
use crate::slot::TAGS_MAX;
use crate::subject::{InvalidationSubject, TagIds};
use crate::sweep::{Sweep, Swept};
use crate::{Bans, Invalidation, InvalidationResult, Key, Object, OnDisk, Selector, SiteId};
use bytes::Bytes;
use defects::{Defect, is_planted};
use disk::{OffReason, ReadError, RecoveredObject, Recovery, StoredObject, Tier};
use message::{Fields, ResponseHead, names};
use semantics::{Moment, VariantKey, VaryRule};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The memory, in bytes, that objects, keys, index, tags and the record of invalidations may
    /// occupy together. Default: 256 MiB.
    pub memory_bytes_max: u64,
    /// The largest body kept in memory, in bytes. Default: 8 MiB.
    pub object_bytes_max: u64,
    /// The largest number of variants under one key; above it the oldest variant is removed.
    /// Default: 32.
    pub variants_max: usize,
    /// The largest number of prefix, ban and tag-group invalidations that are kept exactly. Above
    /// it the oldest is widened to its whole site: it then applies to each response of the site
    /// that has not been checked against it yet. In a small store there are fewer, because their
    /// memory is at most a quarter of `memory_bytes_max`. Default: 512.
    pub listed_max: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { memory_bytes_max: 256 << 20, object_bytes_max: 8 << 20, variants_max: 32, listed_max: 512 }
    }
}

impl StoreLimits {
    /// The number of shards, a power of two. More shards mean less waiting for locks. But a shard
    /// must hold several of the largest objects, or one of them would evict all others.
    fn shards(&self) -> usize {
        let roomy = self.memory_bytes_max / self.object_bytes_max.saturating_mul(LARGEST_PER_SHARD).max(1);
        usize::try_from(roomy.clamp(1, SHARDS_MAX)).map_or(1, |shards| 1 << shards.ilog2())
    }
}

/// With several shards, the part of each in the memory limit is at least this many times the
/// largest body. A body that exceeds one such part of a shard's budget is not read back from disk.
const LARGEST_PER_SHARD: u64 = 8;
const SHARDS_MAX: u64 = 64;

/// The result of a look-up.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The newest variant that the request selects, fresh or stale.
    Found {
        /// The object.
        object: Arc<Object>,
        /// Whether a soft invalidation reached the object. It is then stale whatever its freshness
        /// says.
        softened: bool,
    },
    /// The object is on the disk only. [`Store::load`] reads it.
    Shelved(ShelvedObject),
    /// The key has variants, and the request selects none of them.
    NoVariant,
    /// Nothing is stored under the key.
    Absent,
}

/// A response to be stored, with its place in the index.
#[derive(Debug)]
pub struct Publication<'a> {
    /// The cache key.
    pub key: &'a Key,
    /// The request fields that select the variant.
    pub rule: VaryRule,
    /// The variant: `rule.key` of the request fields that were forwarded to the origin.
    pub variant: VariantKey,
    /// The response.
    pub object: Arc<Object>,
    /// The tags (surrogate keys) of the response.
    pub tags: &'a [Bytes],
    /// The value of [`Store::sequence`] before the request was sent to the origin.
    pub begun: u64,
}

/// The result of storing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishResult {
    /// The object is stored, and look-ups find it.
    Stored,
    /// The object exceeds a limit: it is too large or has too many tags. The same is returned for a
    /// revalidated object whose body is on the disk, if the disk does not accept the new head. In
    /// each case the older object that it would have replaced is removed.
    TooLarge,
    /// The object was invalidated after its fetch began, or its site is retired.
    Invalidated,
    /// The body of a revalidated object is no longer at its place on the disk, because it was moved
    /// or removed since it was read. Nothing changes, so the next request revalidates once more.
    Displaced,
}

/// Statistics of a store. Counters start at zero when the store is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Bytes in use, counted in the same way as for the limit.
    pub bytes: u64,
    /// Bytes that may be in use now: the limit, or less if the process occupies more memory than
    /// the store has counted.
    pub budget_bytes: u64,
    /// The part of `bytes` that tags and the record of invalidations occupy.
    pub tag_bytes: u64,
    /// Tags known now.
    pub tags: u64,
    /// Objects stored now.
    pub objects: u64,
    /// Objects stored since the start.
    pub published: u64,
    /// Objects evicted from memory since the start. An object whose copy is on the disk stays in
    /// the index.
    pub evicted: u64,
    /// Objects removed by hard invalidations since the start.
    pub invalidated: u64,
    /// Stored objects that are on the disk only.
    pub shelved: u64,
    /// The part of `bytes` that coded forms occupy.
    pub form_bytes: u64,
    /// Prefix, ban and tag-group invalidations that are kept exactly now.
    pub listed: u64,
    /// Invalidations that were widened before the sweep had passed, because too many were recorded.
    pub widened: u64,
    /// Comparisons of objects with prefix, ban and tag-group invalidations since the start.
    pub comparisons: u64,
}

/// Objects by key and variant, in memory and, with [`Store::above`], on a disk.
#[derive(Debug)]
pub struct Store {
    limits: StoreLimits,
    hasher: KeyHasher,
    shards: Shards,
    lingering: LingeringObjects,
    log: Arc<Log>,
    sweep: Sweep,
    budget: Arc<Budget>,
    shelf: Option<StoreDisk>,
    /// Whether objects of an earlier process may still be missing from the index.
    adopting: AtomicBool,
}

impl Store {
    /// An empty store. `seed` keys the hash functions: it should be random and unique to this
    /// process.
    pub fn new(limits: StoreLimits, seed: u64) -> Self {
        let count = limits.shards();
        let hasher = KeyHasher::new(seed);
        let lingering = LingeringObjects::default();
        let StoreLimits { listed_max, memory_bytes_max, .. } = limits;
        let log = Log::new(hasher.clone(), seed.rotate_left(16), listed_max, memory_bytes_max);
        let log = Arc::new(log);
        let budget = Arc::new(Budget::new(limits.memory_bytes_max));
        let shard = || Shard::new(limits, Arc::clone(&budget), count, lingering.clone(), Arc::clone(&log));
        let shards = Shards::new(count, shard);
        let sweep = Sweep::default();
        let adopting = AtomicBool::new(false);
        Self { limits, hasher, shards, lingering, log, sweep, budget, shelf: None, adopting }
    }

    /// Puts the store above a disk and replays the invalidations of an earlier process. The objects
    /// of that process are added afterwards with [`Store::adopt`].
    ///
    /// `names` and `bans` decode the sites and bans of the records on the disk. `life` identifies
    /// this process: it should be random and unique. `hear` is called with the number and the
    /// selector of each replayed invalidation. The second returned value answers the disk writer's
    /// questions about objects.
    #[must_use]
    pub fn above(
        mut self,
        tier: &Tier,
        recovery: &Recovery,
        names: Arc<dyn SiteNames>,
        bans: &dyn Bans,
        life: u64,
        hear: impl FnMut(u64, &Selector),
    ) -> (Self, Box<dyn disk::RetentionPolicy>) {
        let shelf = StoreDisk::new(tier.clone(), names, life);
        shelf.replay(&self.log, recovery.invalidations(), bans, hear);
        self.log.resume(recovery.sequence());
        self.shards.each().for_each(|mut shard| shard.set_tier(tier.clone()));
        let keeper = ShardRetention(self.shards.clone(), tier.clone());
        self.shelf = Some(shelf);
        self.adopting = AtomicBool::new(true);
        (self, Box::new(keeper))
    }

    /// Adds one object of an earlier process to the index. A useless object is removed from the
    /// disk.
    ///
    /// A response with `No-Vary-Search` is passed to `admits` and is added only if `admits` calls
    /// the closure that it receives. The closure returns whether the object was added. `admits` may
    /// be called twice for one object.
    pub fn adopt(
        &self,
        recovered: &RecoveredObject,
        admits: impl Fn(&AdoptedEquivalent<'_>, &mut dyn FnMut() -> bool),
    ) {
        let Some(shelf) = &self.shelf else { return };
        let adoption = shelf.entry(recovered).map_or(Adoption::Useless, |entry| {
            let hash = self.hasher.hash(&entry.key);
            let adopt = |read: Option<&Object>| {
                let mut adoption = Adoption::Useless;
                let mut put = || {
                    let adopt = || self.shards.of(hash).adopt(hash, &entry, recovered, read);
                    adoption = self.shards.trim_after(&self.log, adopt);
                    adoption == Adoption::Done
                };
                match AdoptedEquivalent::of(&entry) {
                    Some(returning) => admits(&returning, &mut put),
                    None => drop(put()),
                }
                adoption
            };
            match adopt(None) {
                Adoption::Undecided => {
                    // The read serves to check the head against bans, so its age does not matter
                    // here.
                    let place = ShelvedObject { hash, location: recovered.location };
                    let read = shelf.read(place, |known| *known == entry, (0, |_| true), Moment::default());
                    read.ok().flatten().map_or(Adoption::Useless, |object| adopt(Some(&object)))
                }
                decided => decided,
            }
        });
        if adoption != Adoption::Done {
            shelf.tier().remove(recovered.location);
        }
    }

    /// Ends the adoption: every object of an earlier process has been passed to [`Store::adopt`].
    pub fn end_adoption(&self) {
        self.shards.each().for_each(|mut shard| shard.end_adoption());
        self.adopting.store(false, Ordering::SeqCst);
    }

    /// Reads the object that a look-up for `key` found on the disk, and returns the look-up's
    /// result as of now. Blocks, so the calling thread must be one that may wait.
    ///
    /// An object that cannot be read is removed. `admits` receives the size of the body in bytes
    /// and says whether there is memory for it; without memory the body stays on the disk.
    /// `mark` marks the object as its site's settings demand.
    pub fn load(
        &self,
        key: &Key,
        shelved: ShelvedObject,
        admits: impl FnOnce(u64) -> bool,
        mark: impl FnOnce(Object) -> Object,
        now: Moment,
    ) -> Lookup {
        let (Some(shelf), ShelvedObject { hash, location }) = (&self.shelf, shelved) else {
            return Lookup::Absent;
        };
        // A body that takes a large part of a shard's budget would evict everything else.
        let bytes_max = self.budget.bytes() / self.shards.count() as u64 / LARGEST_PER_SHARD;
        let read = shelf.read(shelved, |entry| entry.key == *key, (bytes_max, admits), now);
        let read = read.map(|read| read.map(|object| Arc::new(mark(object))));
        let mut shard = self.shards.of(hash);
        match read {
            Ok(Some(object)) => shard.unshelve(location, object),
            // The failure is temporary (too many open files, for example) and the object may be
            // intact, so it stays.
            Err(error) if error.is_passing() => Lookup::Absent,
            Ok(None) | Err(_) => {
                shard.forget(location);
                Lookup::Absent
            }
        }
    }

    /// Removes a response whose body on the disk cannot be read or fails its checksum: no later
    /// look-up finds it. Connections that already send the body continue with the part that can be
    /// read.
    pub fn forget_damaged(&self, body: &Arc<OnDisk>) {
        if is_planted(Defect::DamagedBodyKept) {
            return;
        }
        body.distrust();
        let ShelvedObject { hash, location } = body.place();
        let mut shard = self.shards.of(hash);
        shard.forget_body(hash, body);
        shard.forget(location);
    }

    /// Finds the next object on the disk in a shard, and the slot at which to continue; see
    /// [`Shard::next_place`]. The outer `None` means that there is no such shard, the inner `None`
    /// that the shard has no more slots.
    pub(crate) fn next_place(
        &self,
        shard: usize,
        slot: usize,
        count: usize,
    ) -> Option<Option<(Option<ShelvedObject>, usize)>> {
        self.shards.at(shard).map(|shard| shard.next_place(slot, count))
    }

    /// Reads the object at a place on the disk, to verify it. `None` if the store has no disk.
    /// Blocks.
    pub(crate) fn read_aside(&self, place: ShelvedObject) -> Option<Result<StoredObject, ReadError>> {
        self.shelf.as_ref().map(|shelf| shelf.tier().read_aside(place.location))
    }

    /// Removes a damaged object at a place on the disk.
    pub(crate) fn forget_place(&self, place: ShelvedObject) {
        self.shards.of(place.hash).forget_place(place.location);
    }

    /// Makes all invalidations up to now durable. Blocks.
    ///
    /// Returns `Ok` when a restart would know every invalidation, or when a restart would ignore
    /// the contents of the disk.
    ///
    /// # Errors
    /// Neither could be ensured. The invalidations are in force in this process, and the next call
    /// tries again.
    pub fn persist(&self) -> Result<(), OffReason> {
        self.shelf.as_ref().map_or(Ok(()), StoreDisk::persist)
    }

    /// Whether an invalidation is not durable and no call of [`Store::persist`] is working on it.
    pub fn is_behind(&self) -> bool {
        self.shelf.as_ref().is_some_and(StoreDisk::is_behind)
    }

    /// Whether every invalidation so far is durable and no call of [`Store::persist`] is running.
    pub fn is_written_down(&self) -> bool {
        self.shelf.as_ref().is_none_or(StoreDisk::is_written_down)
    }

    /// Whether objects and invalidations outlive the process.
    pub const fn is_persistent(&self) -> bool {
        self.shelf.is_some()
    }

    /// The bytes of objects that have left the store and are still held by a reader or a publisher.
    /// This memory is used in addition to the store's limit.
    pub fn lingering_bytes(&self) -> u64 {
        self.lingering.bytes()
    }

    /// The limits that the store was created with.
    pub const fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    /// Finds the newest variant for a request with this key and these fields, and counts the use.
    pub fn lookup(&self, key: &Key, fields: &Fields) -> Lookup {
        let hash = self.hasher.hash(key);
        let found = self.shards.of(hash).lookup(hash, key, fields);
        // After the lock is released, because these reads may wait for memory.
        if let Lookup::Found { object, .. } = &found {
            object.read_ahead();
        }
        found
    }

    /// As [`Store::lookup`], but does not count as a use, so it does not delay the object's
    /// eviction.
    pub fn peek(&self, key: &Key, fields: &Fields) -> Lookup {
        let hash = self.hasher.hash(key);
        self.shards.of(hash).peek(hash, key, fields)
    }

    /// Whether anything is stored under `key`.
    pub fn has(&self, key: &Key) -> bool {
        !matches!(self.peek(key, &Fields::new()), Lookup::Absent)
    }

    /// The keys of the stored responses that an invalidation of `key` reaches: `key` itself and
    /// other percent-encodings of its target.
    pub fn spellings(&self, key: &Key) -> Vec<Key> {
        let hash = self.hasher.hash(key);
        let mut targets = self.shards.of(hash).spellings(hash, key);
        targets.sort_unstable();
        targets.dedup();
        targets.into_iter().map(|target| Key::new(key.site(), key.is_https(), key.host(), target)).collect()
    }

    /// The union of the Vary rules of the responses stored under `key`, for
    /// [`semantics::shared_fields`].
    pub fn known_rule(&self, key: &Key) -> VaryRule {
        let hash = self.hasher.hash(key);
        self.shards.of(hash).rule(hash, key)
    }

    /// Stores an object and replaces the same variant, unless the object was invalidated after its
    /// fetch began.
    pub fn publish(&self, publication: Publication<'_>) -> PublishResult {
        self.shards.trim_after(&self.log, || self.insert(publication))
    }

    fn insert(&self, publication: Publication<'_>) -> PublishResult {
        let hash = self.hasher.hash(publication.key);
        let written = self.shelf.as_ref().map(|shelf| (shelf, DiskWrite::of(&publication)));
        let mut shard = self.shards.of(hash);
        let admission = match shard.publish(hash, publication) {
            Ok(admission) => admission,
            Err(refused) => return refused,
        };
        let Some((shelf, DiskWrite { mut entry, object })) = written else { return PublishResult::Stored };
        entry.checked = admission.checked;
        entry.softened = admission.softened;
        match admission.place {
            // The shard is still locked, so that the later of two revalidations is also the
            // later one on the disk.
            Some(place) if !shelf.refresh(place, &entry, &object) => {
                shard.forget(place);
                return PublishResult::TooLarge;
            }
            None if admission.writing != 0 => {
                // If the queue refuses the object, `write` locks the shard again.
                drop(shard);
                self.write(shelf, hash, admission, &DiskWrite { entry, object });
            }
            Some(_) | None => {}
        }
        PublishResult::Stored
    }

    /// Starts to store a body too large for memory. `expected` is its length in bytes, if known.
    /// `None` if there is no disk or the disk does not accept the body.
    pub fn spill(&self, expected: Option<u64>) -> Option<Spill> {
        self.shelf.as_ref()?.spill(expected)
    }

    /// Stores a spilled body once it is on the disk, in place of the same variant, unless it has
    /// been invalidated by then.
    ///
    /// The publication's object is the response without its body. `admits` is called on the disk's
    /// thread, and the response is stored only if `admits` calls the closure that it receives.
    pub fn publish_spilled(
        &self,
        publication: &Publication<'_>,
        spill: Spill,
        admits: impl FnOnce(&mut dyn FnMut()) + Send + 'static,
    ) {
        let Some(shelf) = self.shelf.as_ref() else { return };
        // Before its record is complete on the disk: a process that ends before the record is
        // removed would leave it to the next one.
        if publication.tags.len() > TAGS_MAX || self.log.is_retired(publication.key.site()) {
            return;
        }
        let DiskWrite { entry, object } = DiskWrite::of(publication);
        let hash = self.hasher.hash(&entry.key);
        let (shards, log) = (self.shards.clone(), Arc::clone(&self.log));
        let known = entry.clone();
        let head = Arc::clone(&object);
        shelf.finish(spill, &entry, &object, move |location| {
            let mut is_stored = false;
            admits(&mut || {
                let shelve = || shards.of(hash).shelve_new(hash, &known, &head, location);
                is_stored = shards.trim_after(&log, shelve);
            });
            is_stored
        });
    }

    /// Queues a published object for the disk. If the queue refuses it, the object stays in memory
    /// only.
    fn write(&self, shelf: &StoreDisk, hash: u64, admission: Admission, written: &DiskWrite) {
        let DiskWrite { entry, object } = written;
        let shards = self.shards.clone();
        let written = move |location| shards.of(hash).written(admission, location);
        if !shelf.write(entry, object, written) {
            self.shards.of(hash).written(admission, None);
        }
    }

    /// Removes every variant under `key` and returns how many there were.
    pub fn remove(&self, key: &Key) -> usize {
        let hash = self.hasher.hash(key);
        self.shards.of(hash).remove(hash, key)
    }

    /// The number of the last invalidation. A fetch that begins now records it as its start.
    pub fn sequence(&self) -> u64 {
        self.log.sequence()
    }

    /// Invalidates stored responses and responses that are being fetched. Once this has returned,
    /// no look-up finds an invalidated object, and no fetch that began earlier can store one.
    ///
    /// A hard invalidation of a single page frees its memory at once. All other hard invalidations
    /// free theirs when [`Store::sweep`] has passed. When many invalidations wait for the sweep,
    /// this function performs a small part of it, so that invalidations do not outrun the sweep.
    /// Objects are evicted for the memory that the invalidation itself takes: a purge may name
    /// thousands of tags.
    pub fn invalidate(&self, invalidation: &Invalidation) -> InvalidationResult {
        self.shards.trim_after(&self.log, || self.record(invalidation))
    }

    fn record(&self, invalidation: &Invalidation) -> InvalidationResult {
        let Invalidation { selector, mode } = invalidation;
        // The invalidation is in force from here on. The rest frees memory, journals and counts.
        let RecordedInvalidation { sequence, mut objects, is_crowded } = self.log.record(selector, *mode);
        if is_crowded {
            self.sweep(ASSIST_SLOTS);
        }
        if let Some(shelf) = &self.shelf {
            shelf.enlist(sequence, invalidation);
        }
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
        InvalidationResult { sequence, objects }
    }

    /// Lets nothing of a site be stored any more, not even by a fetch that begins later. Objects
    /// that are stored already stay until they are invalidated.
    ///
    /// Call it when no plan has the site any more. Requests under an earlier plan may still fetch
    /// its pages, but purges do not reach them: they apply to the site that replaced it. A later
    /// process with the earlier settings would use such a page again if it were on the disk.
    pub fn retire(&self, site: SiteId) {
        self.log.retire(site);
    }

    /// The canonical hosts of the site's stored responses that `is_meant` accepts. `None` if there
    /// are more than `hosts_max`, or if objects on the disk have not all been adopted yet.
    pub fn hosts(
        &self,
        site: SiteId,
        is_meant: impl Fn(&[u8]) -> bool,
        hosts_max: usize,
    ) -> Option<Vec<Bytes>> {
        if self.adopting.load(Ordering::SeqCst) {
            return None;
        }
        let mut hosts: Vec<Bytes> = Vec::new();
        for shard in self.shards.each() {
            for host in shard.scopes().hosts(site) {
                if !is_meant(host) || hosts.contains(host) {
                    continue;
                }
                if hosts.len() == hosts_max {
                    return None;
                }
                hosts.push(host.clone());
            }
        }
        Some(hosts)
    }

    /// Whether a request may share a fetch that began at `begun` and whose response has this head
    /// and these tags. It may if no later invalidation matches the response.
    pub fn may_join(&self, begun: u64, key: &Key, tags: &[Bytes], head: &ResponseHead) -> bool {
        if begun == self.sequence() || is_planted(Defect::JoinAfterPurge) {
            return true;
        }
        let subject = InvalidationSubject {
            site: key.site(),
            https: key.is_https(),
            host: key.host(),
            target: key.target(),
            hash: self.hasher.hash(key),
            tags: TagIds::default(),
            has_equivalents: head.fields.has(names::NO_VARY_SEARCH),
            response: head,
        };
        self.log.judge_texts(begun, &subject, tags).is_none()
    }

    /// Checks about `slots` objects and removes or softens the invalidated ones. Call it again
    /// while [`Swept::more`] is set, from a thread that may take time. A call ends after some
    /// milliseconds at most, even if fewer objects were checked.
    pub fn sweep(&self, slots: usize) -> Swept {
        self.log.sieve();
        self.sweep.walk(
            slots,
            || self.log.unswept(),
            |place| self.shards.at(place),
            |sequence| self.log.sweep_ended(sequence),
        )
    }

    /// Adapts the store to the resident memory of the process, `resident_bytes`, and its limit,
    /// `resident_bytes_max`. Memory that the process occupies beyond the store's own count reduces
    /// the store's budget. Objects are then evicted until the store is within its budget.
    ///
    /// Call it many times a second, from a thread that may take time.
    pub fn fit(&self, resident_bytes: u64, resident_bytes_max: u64) {
        self.budget.fit(self.stats().bytes, resident_bytes, resident_bytes_max);
        self.shards.trim();
    }

    /// The statistics now. Locks one shard after the other, so the figures are for metrics and not
    /// for decisions.
    pub fn stats(&self) -> StoreStats {
        let tag_bytes = self.log.bytes() as u64;
        let tags = self.log.tags() as u64;
        let budget_bytes = self.budget.bytes();
        let listed = self.log.listed() as u64;
        let widened = self.log.widened();
        let own = StoreStats {
            bytes: tag_bytes,
            tag_bytes,
            tags,
            budget_bytes,
            listed,
            widened,
            ..StoreStats::default()
        };
        self.shards.each().fold(own, |sum, shard| {
            let counters = shard.counters();
            StoreStats {
                bytes: sum.bytes + shard.bytes() as u64,
                objects: sum.objects + counters.objects,
                published: sum.published + counters.published,
                evicted: sum.evicted + counters.evicted,
                invalidated: sum.invalidated + counters.invalidated,
                shelved: sum.shelved + counters.shelved,
                form_bytes: sum.form_bytes + counters.form_bytes,
                comparisons: sum.comparisons + counters.comparisons,
                ..sum
            }
        })
    }

    fn check_key(&self, key: &Key) -> SlotCheck {
        let hash = self.hasher.hash(key);
        self.shards.of(hash).check_key(hash, key)
    }

    fn count(&self, count: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.each().map(|shard| count(&shard)).sum()
    }
}

/// An adopted response with `No-Vary-Search`, a field that names other targets with the same
/// content.
#[derive(Clone, Copy, Debug)]
pub struct AdoptedEquivalent<'a> {
    /// The key under which the response is stored.
    pub key: &'a Key,
    /// The value of its `No-Vary-Search`.
    pub no_vary_search: &'a Bytes,
    /// The number of the last invalidation that the response was checked against.
    pub checked: u64,
}

impl<'a> AdoptedEquivalent<'a> {
    fn of(entry: &'a IndexRecord) -> Option<Self> {
        let no_vary_search = entry.no_vary_search.as_ref()?;
        Some(Self { key: &entry.key, no_vary_search, checked: entry.checked })
    }
}

/// Slots that [`Store::invalidate`] sweeps itself while many invalidations wait for the sweep.
const ASSIST_SLOTS: usize = 512;
