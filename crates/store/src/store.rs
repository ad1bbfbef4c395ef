//! The store: shards behind locks, one look-up and one publish step, and invalidations that are barriers.
//!
//! Invariant: a look-up takes one lock for a few comparisons, and what it returns stays valid however the store
//! changes afterwards. After [`Store::invalidate`] has returned, no look-up gives what it means, and no fetch that
//! began before gets it in again. Whether an object may be used is `semantics`' decision; staleness does not remove it.

use crate::budget::Budget;
use crate::hash::KeyHasher;
use crate::ledger::{Recorded, Subject, TagIds};
use crate::lingering::Lingering;
use crate::log::Log;
use crate::record::{Entry, SiteNames};
use crate::shard::{Admission, Adoption, Checked, Shard};
use crate::shelf::{Keeper, Shelf, Shelved, Spill};
use crate::slot::TAGS_MAX;
use crate::sweep::{Sweep, Swept};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Bans, Invalidated, Invalidation, Key, Object, OnDisk, Selector, SiteId};
use bytes::Bytes;
use disk::{OffReason, ReadError, Recovered, Recovery, Stored, Tier};
use message::{Fields, ResponseHead, names};
use semantics::{Moment, VariantKey, VaryRule};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The most prefixes, bans and groups of tags that are kept as such; past it the oldest becomes one of its whole
    /// site, for what nothing has checked since. Default: 512.
    pub listed_max: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { memory_bytes_max: 256 << 20, object_bytes_max: 8 << 20, variants_max: 32, listed_max: 512 }
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
    /// It is on the disk: [`Store::load`] reads it.
    Shelved(Shelved),
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
    /// It is larger, or has more tags, than the limits allow; or it confirms what is on the disk, and the disk does
    /// not take note of that. An older one that it would have replaced is gone too.
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
    /// Objects among the stored ones that are on the disk only.
    pub shelved: u64,
    /// Prefixes, bans and groups of tags that are kept as such now.
    pub listed: u64,
    /// Invalidations that became wider ever, because too many came before the sweep had passed.
    pub widened: u64,
    /// Comparisons of objects with prefixes, bans and groups of tags ever.
    pub comparisons: u64,
}

/// Objects by key and variant, in memory.
#[derive(Debug)]
pub struct Store {
    limits: StoreLimits,
    hasher: KeyHasher,
    shards: Arc<[Mutex<Shard>]>,
    lingering: Lingering,
    log: Arc<Log>,
    sweep: Sweep,
    budget: Arc<Budget>,
    shelf: Option<Shelf>,
    /// Whether something on the disk may not have been taken over yet.
    adopting: AtomicBool,
}

impl Store {
    /// An empty store. `seed` should be random and of this process alone.
    pub fn new(limits: StoreLimits, seed: u64) -> Self {
        let (count, hasher, lingering) = (limits.shards(), KeyHasher::new(seed), Lingering::default());
        let log = Arc::new(Log::new(hasher.clone(), seed.rotate_left(16), limits.listed_max));
        let budget = Arc::new(Budget::new(limits.memory_bytes_max));
        let shard = |_| Shard::new(limits, Arc::clone(&budget), count, lingering.clone(), Arc::clone(&log));
        let shards = (0..count).map(shard).map(Mutex::new).collect();
        let (sweep, adopting) = (Sweep::default(), AtomicBool::new(false));
        Self { limits, hasher, shards, lingering, log, sweep, budget, shelf: None, adopting }
    }

    /// The same store above a disk, of which an earlier process's invalidations are known from here on. Its objects are
    /// to be taken over with [`Store::adopt`]. `names` and `bans` read back what was written; `life` should be random
    /// and of this process alone. `hear` is told of each of these invalidations and its number. Also gives what the
    /// disk's writer asks about objects.
    #[must_use]
    pub fn above(
        mut self,
        tier: &Tier,
        recovery: &Recovery,
        names: Arc<dyn SiteNames>,
        bans: &dyn Bans,
        life: u64,
        hear: impl FnMut(u64, &Selector),
    ) -> (Self, Box<dyn disk::Keeper>) {
        let shelf = Shelf::new(tier.clone(), names, life);
        shelf.replay(&self.log, recovery.invalidations(), bans, hear);
        self.log.resume(recovery.sequence());
        self.shards.iter().for_each(|shard| lock(shard).set_tier(tier.clone()));
        let keeper = Keeper(Arc::clone(&self.shards), tier.clone());
        (self.shelf, self.adopting) = (Some(shelf), AtomicBool::new(true));
        (self, Box::new(keeper))
    }

    /// Takes over what an earlier process wrote; what is of no use any more is removed from the disk. A response with
    /// `No-Vary-Search` is taken over only if `admits` calls the closure that it is given, which says whether it was;
    /// `admits` may be asked twice.
    pub fn adopt(&self, recovered: &Recovered, admits: impl Fn(&Returning<'_>, &mut dyn FnMut() -> bool)) {
        let Some(shelf) = &self.shelf else { return };
        let adoption = shelf.entry(recovered).map_or(Adoption::Useless, |entry| {
            let hash = self.hasher.hash(&entry.key);
            let adopt = |read: Option<&Object>| {
                let mut adoption = Adoption::Useless;
                let mut put = || {
                    let shard = self.shard(hash);
                    adoption = shard
                        .map_or(Adoption::Useless, |mut shard| shard.adopt(hash, &entry, recovered, read));
                    adoption == Adoption::Done
                };
                match Returning::of(&entry) {
                    Some(returning) => admits(&returning, &mut put),
                    None => drop(put()),
                }
                adoption
            };
            match adopt(None) {
                Adoption::Undecided => {
                    // Only what the head says counts here, not its age.
                    let place = Shelved { hash, location: recovered.location };
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

    /// Everything was taken over.
    pub fn end_adoption(&self) {
        self.shards.iter().for_each(|shard| lock(shard).end_adoption());
        self.adopting.store(false, Ordering::SeqCst);
    }

    /// Reads what a look-up for `key` found on the disk, and gives what it would find now. Blocks; to be called from a
    /// thread that may wait. What cannot be read is forgotten. `admits` says whether there is memory to read a body of
    /// so many octets; else it stays on the disk.
    pub fn load(&self, key: &Key, shelved: Shelved, admits: impl FnOnce(u64) -> bool, now: Moment) -> Lookup {
        let (Some(shelf), Shelved { hash, location }) = (&self.shelf, shelved) else { return Lookup::Absent };
        // A body that takes much of what a shard may weigh now would push out everything else.
        let bytes_max = self.budget.bytes() / self.shards.len() as u64 / LARGEST_PER_SHARD;
        let read = shelf.read(shelved, |entry| entry.key == *key, (bytes_max, admits), now);
        let Some(mut shard) = self.shard(hash) else { return Lookup::Absent };
        match read {
            Ok(Some(object)) => shard.unshelve(location, Arc::new(object)),
            // It may be whole, and is not forgotten because there are many connections.
            Err(error) if error.is_passing() => Lookup::Absent,
            Ok(None) | Err(_) => {
                shard.forget(location);
                Lookup::Absent
            }
        }
    }

    /// Forgets a response whose body on the disk could not be read, or is not as it was written: no look-up finds it
    /// after this. Who sends it already goes on with what can be read.
    pub fn forget_damaged(&self, body: &Arc<OnDisk>) {
        body.distrust();
        let Shelved { hash, location } = body.place();
        if let Some(mut shard) = self.shard(hash) {
            shard.forget_body(hash, body);
            shard.forget(location);
        }
    }

    /// The place of the next object on the disk in a shard, and where to go on, as [`Shard::next_place`] has it; `None`
    /// inside where the shard has no more slots, and `None` outside where there is no such shard.
    pub(crate) fn next_place(
        &self,
        shard: usize,
        slot: usize,
        count: usize,
    ) -> Option<Option<(Option<Shelved>, usize)>> {
        self.shards.get(shard).map(|shard| lock(shard).next_place(slot, count))
    }

    /// Reads what is at a place, to verify it; `None` where there is no disk. Blocks.
    pub(crate) fn read_aside(&self, place: Shelved) -> Option<Result<Stored, ReadError>> {
        self.shelf.as_ref().map(|shelf| shelf.tier().read_aside(place.location))
    }

    /// Forgets what is damaged at a place.
    pub(crate) fn forget_place(&self, place: Shelved) {
        if let Some(mut shard) = self.shard(place.hash) {
            shard.forget_place(place.location);
        }
    }

    /// Returns `Ok` when every invalidation up to now would be known after a restart, or when nothing of what is on the
    /// disk would be used then; blocks.
    ///
    /// # Errors
    /// Neither could be made sure. The invalidations are in force in this process, and the next call tries again.
    pub fn persist(&self) -> Result<(), OffReason> {
        self.shelf.as_ref().map_or(Ok(()), Shelf::persist)
    }

    /// Whether there is an invalidation that a restart would not know, and that no call of [`Store::persist`] is
    /// under way for.
    pub fn is_behind(&self) -> bool {
        self.shelf.as_ref().is_some_and(Shelf::is_behind)
    }

    /// Whether the disk knows every invalidation so far, and no call of [`Store::persist`] is under way.
    pub fn is_written_down(&self) -> bool {
        self.shelf.as_ref().is_none_or(Shelf::is_written_down)
    }

    /// Whether objects and invalidations outlive the process.
    pub const fn is_persistent(&self) -> bool {
        self.shelf.is_some()
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
        let found = self.shard(hash).map_or(Lookup::Absent, |mut shard| shard.lookup(hash, key, fields));
        // Not under the lock.
        if let Lookup::Found { object, .. } = &found {
            object.read_ahead();
        }
        found
    }

    /// As [`Store::lookup`], without counting as a use: what is only looked at is not kept longer for that.
    pub fn peek(&self, key: &Key, fields: &Fields) -> Lookup {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or(Lookup::Absent, |mut shard| shard.peek(hash, key, fields))
    }

    /// Whether anything is stored under `key`.
    pub fn has(&self, key: &Key) -> bool {
        !matches!(self.peek(key, &Fields::new()), Lookup::Absent)
    }

    /// The keys of the stored pages that an invalidation of `key` reaches: itself and its other percent-encodings.
    pub fn spellings(&self, key: &Key) -> Vec<Key> {
        let hash = self.hasher.hash(key);
        let mut targets = self.shard(hash).map(|shard| shard.spellings(hash, key)).unwrap_or_default();
        targets.sort_unstable();
        targets.dedup();
        targets.into_iter().map(|target| Key::new(key.site(), key.is_https(), key.host(), target)).collect()
    }

    /// What the responses stored under `key` are known to vary on; for [`semantics::shared_fields`].
    pub fn known_rule(&self, key: &Key) -> VaryRule {
        let hash = self.hasher.hash(key);
        self.shard(hash).map_or_else(VaryRule::default, |shard| shard.rule(hash, key))
    }

    /// Stores an object in place of the same variant, unless it was invalidated since its fetch began.
    pub fn publish(&self, publication: Publication<'_>) -> Published {
        let hash = self.hasher.hash(publication.key);
        let written = self.shelf.as_ref().map(|shelf| (shelf, Written::of(&publication)));
        let Some(mut shard) = self.shard(hash) else { return Published::TooLarge };
        let admission = match shard.publish(hash, publication) {
            Ok(admission) => admission,
            Err(refused) => return refused,
        };
        let Some((shelf, Written { mut entry, object })) = written else { return Published::Stored };
        (entry.checked, entry.softened) = (admission.checked, admission.softened);
        match admission.place {
            // Under the shard's lock, so that of two that are confirmed the later has the last word on the disk too.
            Some(place) if !shelf.refresh(place, &entry, &object) => {
                shard.forget(place);
                return Published::TooLarge;
            }
            None if admission.writing != 0 => {
                drop(shard);
                self.write(shelf, hash, admission, &Written { entry, object });
            }
            Some(_) | None => {}
        }
        Published::Stored
    }

    /// Begins to store a body that is too large for memory, of `expected` octets if that is known. `None` where there
    /// is no disk, or none that takes it.
    pub fn spill(&self, expected: Option<u64>) -> Option<Spill> {
        self.shelf.as_ref()?.spill(expected)
    }

    /// Stores what was spilled, when the disk has it: in place of the same variant, unless it is invalidated until
    /// then. The publication's object is the response without its body. `admits` is called on the disk's thread, and
    /// the response is stored when it calls the closure that it is given.
    pub fn publish_spilled(
        &self,
        publication: &Publication<'_>,
        spill: Spill,
        admits: impl FnOnce(&mut dyn FnMut()) + Send + 'static,
    ) {
        let Some(shelf) = self.shelf.as_ref().filter(|_| publication.tags.len() <= TAGS_MAX) else { return };
        let Written { entry, object } = Written::of(publication);
        let hash = self.hasher.hash(&entry.key);
        let (shards, place) = (Arc::clone(&self.shards), self.place(hash));
        let (known, head) = (entry.clone(), Arc::clone(&object));
        shelf.finish(spill, &entry, &object, move |location| {
            let mut is_stored = false;
            admits(&mut || {
                let shard = shards.get(place).map(lock);
                is_stored = shard.is_some_and(|mut shard| shard.shelve_new(hash, &known, &head, location));
            });
            is_stored
        });
    }

    /// Writes behind what was stored.
    fn write(&self, shelf: &Shelf, hash: u64, admission: Admission, written: &Written) {
        let Written { entry, object } = written;
        let (shards, place) = (Arc::clone(&self.shards), self.place(hash));
        let is_taken = shelf.write(entry, object, move |location| {
            shards.get(place).is_some_and(|shard| lock(shard).written(admission, location))
        });
        if !is_taken && let Some(mut shard) = self.shard(hash) {
            shard.written(admission, None);
        }
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
    /// once. When much waits for the sweep, this does a small part of it, so that invalidations do not outrun it.
    pub fn invalidate(&self, invalidation: &Invalidation) -> Invalidated {
        let Invalidation { selector, mode } = invalidation;
        let Recorded { sequence, mut objects, is_crowded } = self.log.record(selector, *mode);
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
        Invalidated { sequence, objects }
    }

    /// The hosts, as in keys, that the site's stored pages have and that `is_meant` names; `None` if there are more
    /// than `hosts_max`, or not everything was taken over from the disk.
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
        for shard in self.shards.iter() {
            for host in lock(shard).scopes().hosts(site) {
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
            has_equivalents: head.fields.has(names::NO_VARY_SEARCH),
            response: head,
        };
        self.log.judge_texts(begun, &subject, tags).is_none()
    }

    /// Walks over about `slots` objects, and removes or softens what was invalidated. To be called again while there
    /// is more, from a thread that has time. Of a step that takes longer than some milliseconds a part is left.
    pub fn sweep(&self, slots: usize) -> Swept {
        self.log.sieve();
        self.sweep.walk(
            slots,
            || self.log.unswept(),
            |place| self.shards.get(place).map(lock),
            |sequence| self.log.sweep_ended(sequence),
        )
    }

    /// Fits the store to what the process really occupies: `resident_bytes`, where it may be `resident_bytes_max`.
    /// What is beyond the store's own weight is taken from its budget, and objects are evicted until they are within
    /// it. To be called many times a second, from a thread that has time.
    pub fn fit(&self, resident_bytes: u64, resident_bytes_max: u64) {
        self.budget.fit(self.stats().bytes, resident_bytes, resident_bytes_max);
        for shard in self.shards.iter() {
            while lock(shard).trim(TRIM_OBJECTS) {
                // Whoever waits for the lock is next.
                std::thread::yield_now();
            }
        }
    }

    /// The figures now. Locks one shard after the other; for metrics, not for decisions.
    pub fn stats(&self) -> StoreStats {
        let (tag_bytes, tags) = (self.log.bytes() as u64, self.log.tags() as u64);
        let budget_bytes = self.budget.bytes();
        let (listed, widened) = (self.log.listed() as u64, self.log.widened());
        let own = StoreStats {
            bytes: tag_bytes,
            tag_bytes,
            tags,
            budget_bytes,
            listed,
            widened,
            ..StoreStats::default()
        };
        self.shards.iter().map(lock).fold(own, |sum, shard| {
            let counters = shard.counters();
            StoreStats {
                bytes: sum.bytes + shard.bytes() as u64,
                objects: sum.objects + counters.objects,
                published: sum.published + counters.published,
                evicted: sum.evicted + counters.evicted,
                invalidated: sum.invalidated + counters.invalidated,
                shelved: sum.shelved + counters.shelved,
                comparisons: sum.comparisons + counters.comparisons,
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
        self.shards.get(self.place(hash)).map(lock)
    }

    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

/// A response of an earlier process that says which other targets have the same content.
#[derive(Clone, Copy, Debug)]
pub struct Returning<'a> {
    /// What it was stored under.
    pub key: &'a Key,
    /// The value of its `No-Vary-Search`.
    pub no_vary_search: &'a Bytes,
    /// Up to which invalidation it was checked.
    pub checked: u64,
}

impl<'a> Returning<'a> {
    fn of(entry: &'a Entry) -> Option<Self> {
        let no_vary_search = entry.no_vary_search.as_ref()?;
        Some(Self { key: &entry.key, no_vary_search, checked: entry.checked })
    }
}

/// What is written of a publication once it is stored.
struct Written {
    entry: Entry,
    object: Arc<Object>,
}

impl Written {
    fn of(publication: &Publication<'_>) -> Self {
        let Publication { key, rule, variant, object, tags, begun } = publication;
        let (rule, variant) = (rule.clone(), variant.clone());
        let entry = Entry {
            key: (*key).clone(),
            rule,
            variant,
            tags: tags.to_vec(),
            checked: *begun,
            softened: false,
            no_vary_search: object.no_vary_search(),
            head: None,
        };
        Self { entry, object: Arc::clone(object) }
    }
}

/// Objects that are evicted while a shard is locked, where nobody waits for the room.
const TRIM_OBJECTS: usize = 64;

/// Slots that an invalidation sweeps where much waits for that.
const ASSIST_SLOTS: usize = 512;

/// No code that can panic for a reason from outside runs under the lock; a shard is whole at every moment.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
