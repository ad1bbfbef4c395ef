//! One shard of the index: slots that hold one variant each, chained by the hash of their key, and
//! the eviction order.
//!
//! Invariant: once an object has been stored, the weight of slots, scopes and eviction order is
//! within the shard's budget. Each chain runs from the newest variant to the oldest. The store
//! holds the lock around a shard.
//!
//! A look-up returns only objects that were checked against every invalidation so far. Each slot
//! remembers the last invalidation that it was checked against, so a look-up compares it with later
//! ones only.

use crate::budget::Budget;
use crate::coded_forms::{CodedForm, bytes_of};
use crate::growth::push_by_eighths;
use crate::lingering::LingeringObjects;
use crate::log::{AdmittedObject, LedgerVerdict, Log};
use crate::s3fifo::{Hits, Members, S3Fifo};
use crate::scopes::Scopes;
use crate::selector::IndexedResponse;
use crate::slot::{NONE, SLOT_BYTES, Slot, TAGS_MAX};
use crate::slot_locations::SlotLocations;
use crate::subject::{InvalidationSubject, TagIds};
use crate::{Key, Lookup, Object, Publication, PublishResult, ShelvedObject, StoreLimits};
use bytes::Bytes;
use defects::{Defect, is_planted};
use disk::Location;
use hashbrown::HashTable;
use invalidation::Mode;
use message::Fields;
use platform::HashMap;
use semantics::{VaryRule, canonical_target};
pub(crate) use shelved::Adoption;
use shelved::TierBelow;
use std::sync::Arc;

mod shelved;

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The newest slot of each chain, by the hash of its key.
    index: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    scopes: Scopes,
    order: S3Fifo,
    limits: StoreLimits,
    budget: Arc<Budget>,
    shards: usize,
    counters: ShardCounters,
    lingering: LingeringObjects,
    log: Arc<Log>,
    below: TierBelow,
    slot_locations: SlotLocations,
    /// Bytes of the texts of slots whose objects are on the disk only. These slots are not in the
    /// eviction order.
    shelved_bytes: usize,
    /// Clock hand: the slot where the next search for an on-disk victim starts.
    shelved_hand: usize,
    /// During adoption, the slots that hold an object of an earlier process, each with the object's
    /// order. Empty afterwards.
    adopted: HashMap<u32, u64>,
    /// Objects that were removed under the current hold of the lock. The last owner of an object
    /// may close a file, which may wait for the disk, so they are dropped without the lock.
    removed: Vec<Arc<Object>>,
}

/// The counters of a shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardCounters {
    pub(crate) objects: u64,
    pub(crate) published: u64,
    pub(crate) evicted: u64,
    pub(crate) invalidated: u64,
    /// Comparisons of objects with listed invalidations.
    pub(crate) comparisons: u64,
    /// Objects that are on the disk only.
    pub(crate) shelved: u64,
    /// Bytes of the coded forms of objects in memory.
    pub(crate) form_bytes: u64,
}

/// A stored object: its slot and the state that the disk needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) slot: u32,
    /// The number of the disk write that follows, or 0 if there is none.
    pub(crate) writing: u32,
    /// The place on the disk that already holds the body. Only the head and the index entry need an
    /// update there.
    pub(crate) place: Option<Location>,
    pub(crate) checked: u64,
    pub(crate) softened: bool,
}

/// The result of checking one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotVerdict {
    /// No new invalidation matches the object.
    Valid,
    Invalidated(Mode),
    /// The object is on the disk only, and a ban depends on parts of the response that are not in
    /// memory.
    Undecided,
}

/// The result of checking several slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCheck {
    pub(crate) removed: u64,
    pub(crate) softened: u64,
}

impl SlotCheck {
    const fn count(&mut self, verdict: SlotVerdict) {
        match verdict {
            SlotVerdict::Invalidated(Mode::Hard) => self.removed += 1,
            SlotVerdict::Invalidated(Mode::Soft) => self.softened += 1,
            SlotVerdict::Valid | SlotVerdict::Undecided => {}
        }
    }
}

impl Shard {
    /// An empty shard, one of `shards` that divide the limits and the budget equally. Objects
    /// removed while still in use are counted in `lingering`.
    pub(crate) fn new(
        limits: StoreLimits,
        budget: Arc<Budget>,
        shards: usize,
        lingering: LingeringObjects,
        log: Arc<Log>,
    ) -> Self {
        let bytes_max = usize::try_from(limits.memory_bytes_max).unwrap_or(usize::MAX) / shards;
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            scopes: Scopes::default(),
            order: S3Fifo::new(bytes_max),
            limits,
            budget,
            shards,
            counters: ShardCounters::default(),
            lingering,
            log,
            below: TierBelow::default(),
            slot_locations: SlotLocations::default(),
            shelved_bytes: 0,
            shelved_hand: 0,
            adopted: HashMap::default(),
            removed: Vec::new(),
        }
    }

    /// The bytes in use. Free slots count too, because their memory is still allocated.
    pub(crate) fn bytes(&self) -> usize {
        let slots = self.slots.len() * SLOT_BYTES + self.slot_locations.bytes() + self.shelved_bytes;
        self.order.bytes() + self.scopes.bytes() + slots
    }

    pub(crate) const fn counters(&self) -> ShardCounters {
        self.counters
    }

    pub(crate) const fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// The newest variant under `key` that a request with `fields` selects. The look-up counts as a
    /// use.
    pub(crate) fn lookup(&mut self, hash: u64, key: &Key, fields: &Fields) -> Lookup {
        self.find(hash, key, fields, Hits::count)
    }

    /// As [`Shard::lookup`], but does not count as a use.
    pub(crate) fn peek(&mut self, hash: u64, key: &Key, fields: &Fields) -> Lookup {
        self.find(hash, key, fields, |_| {})
    }

    /// As [`Shard::lookup`]. `count` receives the hits of the slot that is found.
    fn find(&mut self, hash: u64, key: &Key, fields: &Fields, count: impl Fn(&mut Hits)) -> Lookup {
        loop {
            let (id, slot) = match self.select(hash, key, fields) {
                Ok(selected) => selected,
                Err(outcome) => return outcome,
            };
            if slot.checked == self.log.sequence() {
                let found = match &slot.object {
                    Some(object) => Lookup::Found { object: Arc::clone(object), softened: slot.softened },
                    None => {
                        let shelved = |location| Lookup::Shelved(ShelvedObject { hash, location });
                        self.slot_locations.get(id).map_or(Lookup::Absent, shelved)
                    }
                };
                if let Some(hits) = self.slots.hits_mut(id) {
                    count(hits);
                }
                return found;
            }
            // The check has removed the slot if it was invalidated, so the next round may select
            // an older variant. A slot that cannot be judged without its head has to be read first.
            if self.check(id, None) == SlotVerdict::Undecided {
                let location = self.slot_locations.get(id);
                let shelved = |location| Lookup::Shelved(ShelvedObject { hash, location });
                return location.map_or(Lookup::Absent, shelved);
            }
        }
    }

    /// The newest slot under `key` that a request with `fields` selects, or the reason why there is
    /// none.
    fn select(&self, hash: u64, key: &Key, fields: &Fields) -> Result<(u32, &Slot), Lookup> {
        let mut outcome = Lookup::Absent;
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            slot.object.iter().for_each(|object| object.approach());
            let scope = self.scopes.of(slot.scope);
            let (variant, target) = slot.variant_and_target();
            if target == key.target() && scope.is_of(key) {
                if scope.rule.matches_octets(fields, variant) {
                    return Ok((at, slot));
                }
                outcome = Lookup::NoVariant;
            }
            at = slot.next;
        }
        Err(outcome)
    }

    /// Checks a slot, if it is in use, against all invalidations since its last check, and removes
    /// or softens it accordingly. `read` is the slot's object if it has just been read from the
    /// disk.
    fn check(&mut self, id: u32, read: Option<&Object>) -> SlotVerdict {
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else {
            return SlotVerdict::Valid;
        };
        let scope = self.scopes.of(slot.scope);
        let is_skipped = is_planted(Defect::PurgeSkipsDisk) && (slot.object.is_none() || read.is_some());
        if is_skipped {
            slot.checked = self.log.sequence();
        }
        if slot.checked == self.log.sequence() {
            return SlotVerdict::Valid;
        }
        let unknown = IndexedResponse::new(slot.has_equivalents);
        let subject = match read {
            Some(object) => InvalidationSubject { response: object, ..slot.subject(scope, &unknown) },
            None => slot.subject(scope, &unknown),
        };
        let LedgerVerdict { mode, checked, comparisons } = self.log.judge(slot.checked, &subject);
        self.counters.comparisons += comparisons;
        if mode == Some(Mode::Hard) {
            self.counters.invalidated += 1;
            self.drop_slot(id);
            return SlotVerdict::Invalidated(Mode::Hard);
        }
        slot.softened |= mode == Some(Mode::Soft);
        if unknown.is_undecided() {
            // `checked` stays as it was, so that the next check covers all of these
            // invalidations.
            return SlotVerdict::Undecided;
        }
        slot.checked = checked;
        mode.map_or(SlotVerdict::Valid, SlotVerdict::Invalidated)
    }

    /// Checks all variants under `key` and under other percent-encodings of its target.
    pub(crate) fn check_key(&mut self, hash: u64, key: &Key) -> SlotCheck {
        let ids = self.spelled(hash, key);
        let mut checked = SlotCheck::default();
        ids.into_iter().for_each(|id| checked.count(self.check(id, None)));
        checked
    }

    /// The targets of the variants under `key` and under other percent-encodings of its target. A
    /// target with several variants occurs several times.
    pub(crate) fn spellings(&self, hash: u64, key: &Key) -> Vec<Bytes> {
        let slots = self.spelled(hash, key).into_iter().filter_map(|id| self.slot(id));
        slots.map(|slot| Bytes::copy_from_slice(slot.target())).collect()
    }

    /// The variants under `key` and under other percent-encodings of its target.
    fn spelled(&self, hash: u64, key: &Key) -> Vec<u32> {
        let own = canonical_target(key.target());
        let mut ids = Vec::new();
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            if self.scopes.of(slot.scope).is_of(key) && canonical_target(slot.target()) == own {
                ids.push(at);
            }
            at = slot.next;
        }
        ids
    }

    /// Checks at most `count` slots from slot `from` on, and fewer if they need more than
    /// `comparisons_max` comparisons. Also returns the slot at which to continue, or `None` at the
    /// end.
    pub(crate) fn sweep(
        &mut self,
        from: usize,
        count: usize,
        comparisons_max: u64,
    ) -> (SlotCheck, Option<usize>) {
        let end = from.saturating_add(count).min(self.slots.len());
        let enough = self.counters.comparisons + comparisons_max;
        let mut checked = SlotCheck::default();
        let mut next = from;
        while next < end && self.counters.comparisons < enough {
            checked.count(self.check(next as u32, None));
            next += 1;
        }
        (checked, (next < self.slots.len()).then_some(next))
    }

    /// The union of the Vary rules of the variants under `key`.
    pub(crate) fn rule(&self, hash: u64, key: &Key) -> VaryRule {
        let slots = self.variants(hash, key).into_iter().filter_map(|id| self.slot(id));
        slots.fold(VaryRule::default(), |all, slot| all.union(&self.scopes.of(slot.scope).rule))
    }

    /// Stores an object in place of the same variant and evicts others if space is needed.
    ///
    /// If the object exceeds a limit, the older variant is removed all the same, because it is out
    /// of date. If the object was invalidated after its fetch began, or its body is no longer at
    /// its place on the disk, nothing changes.
    pub(crate) fn publish(
        &mut self,
        hash: u64,
        publication: Publication<'_>,
    ) -> Result<Admission, PublishResult> {
        let Publication { key, rule, variant, object, tags, begun } = publication;
        // A revalidated response keeps its body, and the body keeps its place on the disk.
        let place = object.on_disk().map(|body| body.place().location);
        let base = place.and_then(|place| self.slot_locations.find(place));
        if place.is_some() && base.is_none() {
            // The object would keep an unlinked file open, and the verifier would not read it.
            self.lingering.count(&object);
            return Err(PublishResult::Displaced);
        }
        let has_equivalents = object.has_equivalents();
        let subject = InvalidationSubject {
            site: key.site(),
            https: key.is_https(),
            host: key.host(),
            target: key.target(),
            hash,
            tags: TagIds::default(),
            has_equivalents,
            response: &*object,
        };
        let has_too_many_tags = tags.len() > TAGS_MAX;
        let tags = if has_too_many_tags { &[] } else { tags };
        let Some(admitted) = self.log.admit(begun, &subject, tags) else {
            self.lingering.count(&object);
            return Err(PublishResult::Invalidated);
        };
        base.into_iter().for_each(|id| self.drop_but_place(id));
        self.replace(hash, key, &rule, variant.octets());
        let scope = self.scopes.enter(key, rule);
        let fits = match object.on_disk() {
            // Damage may have been found before the revalidation. The body must not return then.
            Some(body) => !body.is_damaged(),
            None => object.content_bytes() <= self.limits.object_bytes_max,
        };
        let is_small = fits && !has_too_many_tags;
        let mut slot = Slot::new((hash, scope), key.target(), variant.octets(), Some(object), &admitted);
        slot.has_equivalents = has_equivalents;
        let writing = if place.is_none() { self.below.next_write() } else { 0 };
        slot.writing = writing;
        let bytes = slot.bytes();
        let form_bytes = slot.form_bytes();
        if !is_small || !self.make_room(bytes) {
            self.dismiss(&slot);
            place.into_iter().for_each(|place| self.below.remove(place));
            return Err(PublishResult::TooLarge);
        }
        let id = self.add(slot);
        self.order.insert(id, hash, bytes);
        if let Some(place) = place {
            self.slot_locations.set(id, place);
        }
        self.counters.published += 1;
        self.counters.form_bytes += form_bytes;
        let AdmittedObject { checked, softened, .. } = admitted;
        Ok(Admission { slot: id, writing, place, checked, softened })
    }

    /// Removes the slot that the new variant replaces. Without one, removes the oldest variant if
    /// the key is at its limit of variants, or else a surplus percent-encoding.
    fn replace(&mut self, hash: u64, key: &Key, rule: &VaryRule, variant: &[u8]) {
        let variants = self.variants(hash, key);
        let replaced = self.same_variant(&variants, rule, variant);
        let is_full = variants.len() >= self.limits.variants_max.max(1);
        let surplus = if is_full { variants.last().copied() } else { None };
        if let Some(id) = replaced.or(surplus).or_else(|| self.surplus_spelling(hash)) {
            self.drop_slot(id);
        }
    }

    /// The slot to remove when a chain holds as many non-canonical percent-encodings as there may
    /// be variants. Any client can request further encodings, and each look-up of the page walks
    /// over all of them.
    fn surplus_spelling(&self, hash: u64) -> Option<u32> {
        let mut others = 0;
        let mut oldest = None;
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            if canonical_target(slot.target()) != slot.target() {
                others += 1;
                oldest = Some(at);
            }
            at = slot.next;
        }
        if others >= self.limits.variants_max.max(1) { oldest } else { None }
    }

    /// The slot among `variants` that holds this variant.
    fn same_variant(&self, variants: &[u32], rule: &VaryRule, variant: &[u8]) -> Option<u32> {
        let is_same = |id: &u32| {
            self.slot(*id)
                .is_some_and(|slot| slot.variant() == variant && self.scopes.of(slot.scope).rule == *rule)
        };
        variants.iter().copied().find(is_same)
    }

    /// Adds coded forms to an object, and evicts others if space is needed. Returns false if the
    /// object is no longer stored under `key`, was invalidated, or has no room for its forms.
    pub(crate) fn add_forms(
        &mut self,
        hash: u64,
        key: &Key,
        object: &Arc<Object>,
        forms: Box<[CodedForm]>,
    ) -> bool {
        let form_bytes = bytes_of(&forms);
        let replacing = self.replacing(hash, key);
        let object = replacing.as_ref().unwrap_or(object);
        // An invalidated object leaves the index, and evicts no other one for its forms.
        if !self.holds(hash, key, object) || !self.make_room(form_bytes) {
            return false;
        }
        // Making room may have removed this very object.
        let Some(id) = self.slot_of(hash, key, object) else { return false };
        if !object.add_forms(forms) {
            return false;
        }
        let bytes = self.slot(id).map_or(0, Slot::bytes);
        self.order.reweigh(id, bytes);
        self.counters.form_bytes += form_bytes as u64;
        true
    }

    /// Another object than the one that forms were made of, for the defect that adds them to it.
    fn replacing(&self, hash: u64, key: &Key) -> Option<Arc<Object>> {
        if !is_planted(Defect::FormsOfReplacedObject) {
            return None;
        }
        self.variants(hash, key).into_iter().find_map(|id| self.slot(id)?.object.clone())
    }

    /// Whether this very object is in memory under `key` and no hard invalidation covers it.
    pub(crate) fn holds(&mut self, hash: u64, key: &Key, object: &Arc<Object>) -> bool {
        let id = self.slot_of(hash, key, object);
        id.is_some_and(|id| self.check(id, None) != SlotVerdict::Invalidated(Mode::Hard))
    }

    /// The slot under `key` that holds this very object in memory.
    fn slot_of(&self, hash: u64, key: &Key, object: &Arc<Object>) -> Option<u32> {
        let has_it = |id: &u32| {
            let held = self.slot(*id).and_then(|slot| slot.object.as_ref());
            held.is_some_and(|held| Arc::ptr_eq(held, object))
        };
        self.variants(hash, key).into_iter().find(has_it)
    }

    /// Removes every variant under `key` and returns how many there were.
    pub(crate) fn remove(&mut self, hash: u64, key: &Key) -> usize {
        let ids = self.variants(hash, key);
        ids.iter().for_each(|id| self.drop_slot(*id));
        ids.len()
    }

    /// Evicts until `bytes` more fit. Returns false if they cannot fit.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes_max() {
            // Evict nothing for an object that can never fit.
            return false;
        }
        loop {
            let place = if self.free.is_empty() { SLOT_BYTES } else { 0 };
            if self.bytes().saturating_add(bytes).saturating_add(place) <= self.bytes_max() {
                return true;
            }
            if is_planted(Defect::NoEviction) {
                return true;
            }
            if !self.give_way() {
                return false;
            }
        }
    }

    /// Frees some memory. If objects on the disk only exceed their share, removes one of them;
    /// otherwise evicts one from memory. An evicted object that has a copy on the disk keeps its
    /// slot.
    fn give_way(&mut self) -> bool {
        (self.has_many_shelved(0) && self.forget_shelved()) || self.evict()
    }

    /// Evicts up to `objects` objects while the shard is above its budget. Returns whether it still
    /// is.
    pub(crate) fn trim(&mut self, objects: usize) -> bool {
        for _ in 0..objects {
            if self.bytes() <= self.bytes_max() || is_planted(Defect::NoEviction) || !self.give_way() {
                return false;
            }
        }
        true
    }

    /// The shard's budget in bytes. The memory of the log is divided among all shards equally.
    fn bytes_max(&self) -> usize {
        let all = usize::try_from(self.budget.bytes()).unwrap_or(usize::MAX);
        all.saturating_sub(self.log.weighed_bytes()) / self.shards
    }

    fn evict(&mut self) -> bool {
        let Some(id) = self.order.evict(&mut *self.slots) else { return false };
        if self.slot_locations.get(id).is_some() || self.slot(id).is_some_and(|slot| slot.writing != 0) {
            self.shelve(id);
        } else {
            self.take_slot(id);
        }
        self.counters.evicted += 1;
        true
    }

    /// Inserts a slot into a free place and at the front of its chain. The caller adds it to the
    /// eviction order.
    fn add(&mut self, mut slot: Slot) -> u32 {
        let hash = slot.hash;
        let id = self.free.pop().unwrap_or_else(|| {
            push_by_eighths(&mut self.slots, None);
            // 32 bits suffice: a slot costs at least SLOT_BYTES, so fewer than 2^32 slots fit
            // into memory.
            (self.slots.len() - 1) as u32
        });
        let Self { index, slots, .. } = self;
        let hash_of = |id: &u32| chained(slots, *id).hash;
        match index.find_mut(hash, |id| hash_of(id) == hash) {
            Some(first) => slot.next = std::mem::replace(first, id),
            None => {
                index.insert_unique(hash, id, hash_of);
            }
        }
        let before = slots.get_mut(id as usize).and_then(|place| place.replace(slot));
        assert!(before.is_none(), "a free place is empty");
        self.counters.objects += 1;
        id
    }

    /// The first slot of a chain, or [`NONE`] if there is no such chain.
    fn first(&self, hash: u64) -> u32 {
        let is_same = |id: &u32| chained(&self.slots, *id).hash == hash;
        self.index.find(hash, is_same).copied().unwrap_or(NONE)
    }

    /// The slots of `key`, newest first.
    fn variants(&self, hash: u64, key: &Key) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            if slot.target() == key.target() && self.scopes.of(slot.scope).is_of(key) {
                ids.push(at);
            }
            at = slot.next;
        }
        ids
    }

    fn slot(&self, id: u32) -> Option<&Slot> {
        self.slots.get(id as usize)?.as_ref()
    }

    fn drop_slot(&mut self, id: u32) {
        self.order.remove(id);
        self.take_slot(id);
    }

    /// Empties a slot that has left the eviction order, and unlinks it from its chain.
    #[expect(clippy::expect_used, reason = "each caller has found the slot in use")]
    fn take_slot(&mut self, id: u32) {
        self.unchain(id);
        let slot = self.slots.get_mut(id as usize).and_then(Option::take).expect("a slot is emptied once");
        self.adopted.remove(&id);
        if slot.object.is_none() {
            self.shelved_bytes -= slot.text_bytes();
            self.counters.shelved -= 1;
        }
        self.counters.form_bytes -= slot.form_bytes();
        if let Some(location) = self.slot_locations.take(id) {
            self.below.remove(location);
        }
        self.dismiss(&slot);
        self.removed.extend(slot.object);
        self.counters.objects -= 1;
        if self.counters.objects > 0 {
            push_by_eighths(&mut self.free, id);
            return;
        }
        // No number of a slot is in use any more, so the memory of the tables can be given back.
        self.index = HashTable::new();
        self.slots = Vec::new();
        self.free = Vec::new();
        self.slot_locations = SlotLocations::default();
        self.order.clear();
    }

    /// The objects that were removed since the last call. To be dropped without the lock.
    pub(crate) fn take_removed(&mut self) -> Vec<Arc<Object>> {
        std::mem::take(&mut self.removed)
    }

    /// Releases the scope and the tags of a slot that has left the index. If its object is still in
    /// use, it is counted as lingering.
    fn dismiss(&mut self, slot: &Slot) {
        if let Some(object) = &slot.object {
            self.lingering.count(object);
        }
        self.scopes.leave(slot.scope);
        self.log.dismiss(slot.tags(), slot.checked);
    }

    /// Unlinks a slot from its chain.
    fn unchain(&mut self, id: u32) {
        let Slot { hash, next, .. } = *chained(&self.slots, id);
        let Self { index, slots, .. } = self;
        if let Ok(mut first) = index.find_entry(hash, |first| *first == id) {
            match next {
                NONE => drop(first.remove()),
                _ => *first.get_mut() = next,
            }
            return;
        }
        let mut at = index.find(hash, |first| chained(slots, *first).hash == hash).copied();
        while let Some(before) = at.and_then(|id| slots.get_mut(id as usize)?.as_mut()) {
            if before.next == id {
                before.next = next;
                return;
            }
            at = Some(before.next);
        }
        unreachable!("a slot in use is in its chain");
    }
}

/// A slot that the index or a chain names.
#[expect(clippy::expect_used, reason = "a slot leaves its chain before it is emptied")]
fn chained(slots: &[Option<Slot>], id: u32) -> &Slot {
    slots.get(id as usize).and_then(Option::as_ref).expect("a slot leaves its chain before it is emptied")
}

impl Members for [Option<Slot>] {
    fn hash(&self, id: u32) -> u64 {
        chained(self, id).hash
    }

    fn hits_mut(&mut self, id: u32) -> Option<&mut Hits> {
        self.get_mut(id as usize)?.as_mut().map(|slot| &mut slot.hits)
    }
}

/// Objects on the disk only may take one part in this many of a shard's budget; above it they are
/// removed first.
const SHELVED_PART: usize = 2;

#[cfg(test)]
pub(crate) mod tests {
    use super::{LingeringObjects, Shard};
    use crate::budget::Budget;
    use crate::hash::KeyHasher;
    use crate::log::Log;
    use crate::{Body, CodedForm, Key, Lookup, Object, Publication, SiteId, StoreLimits};
    use bytes::Bytes;
    use message::{Fields, ResponseHead, Status};
    use profiles::Policy;
    use semantics::{Coding, Freshness, Moment, VaryRule};
    use std::sync::Arc;
    use std::time::Duration;

    pub(crate) fn key(name: &'static str) -> Key {
        Key::new(SiteId(0), false, b"example.org", Bytes::from_static(name.as_bytes()))
    }

    pub(crate) fn shard(
        memory_bytes_max: u64,
        object_bytes_max: u64,
        variants_max: usize,
        lingering: LingeringObjects,
    ) -> Shard {
        let limits =
            StoreLimits { memory_bytes_max, object_bytes_max, variants_max, ..StoreLimits::default() };
        let budget = Arc::new(Budget::new(memory_bytes_max));
        Shard::new(
            limits,
            budget,
            1,
            lingering,
            Arc::new(Log::new(KeyHasher::new(1), 2, 512, memory_bytes_max)),
        )
    }

    fn fields(language: &'static str) -> Fields {
        let mut fields = Fields::new();
        fields.push("Accept-Language", language);
        fields
    }

    fn object(body: &[u8]) -> Arc<Object> {
        object_of(Body::copy_of(body))
    }

    pub(crate) fn object_of(body: Body) -> Arc<Object> {
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", body, freshness))
    }

    pub(crate) fn publish(
        shard: &mut Shard,
        (hash, name): (u64, &'static str),
        (vary, language): (&'static str, &'static str),
        object: Arc<Object>,
    ) -> bool {
        let mut response = Fields::new();
        response.push("Vary", vary);
        let rule = VaryRule::from_response(&response, &Policy::default_profile()).unwrap();
        let variant = rule.key(&fields(language));
        let publication = Publication { key: &key(name), rule, variant, object, tags: &[], begun: 0 };
        shard.publish(hash, publication).is_ok()
    }

    fn body(shard: &mut Shard, hash: u64, name: &'static str, language: &'static str) -> Option<String> {
        match shard.lookup(hash, &key(name), &fields(language)) {
            Lookup::Found { object, .. } => {
                Some(String::from_utf8(object.content().collect::<Vec<_>>().concat()).unwrap())
            }
            Lookup::NoVariant => Some("other variant".to_owned()),
            Lookup::Absent => None,
            Lookup::Shelved(_) => panic!("there is no disk"),
        }
    }

    #[test]
    fn keys_with_equal_hashes_stay_apart() {
        let mut shard = shard(1 << 20, 1 << 20, 4, LingeringObjects::default());
        assert!(publish(&mut shard, (7, "/a"), ("", ""), object(b"a")));
        assert!(publish(&mut shard, (7, "/b"), ("", ""), object(b"b")));
        assert!(publish(&mut shard, (7, "/c"), ("", ""), object(b"c")));
        assert_eq!(body(&mut shard, 7, "/a", "").unwrap(), "a");
        assert_eq!(body(&mut shard, 7, "/d", ""), None);
        assert_eq!(shard.remove(7, &key("/b")), 1);
        assert_eq!(body(&mut shard, 7, "/b", ""), None);
        assert_eq!(body(&mut shard, 7, "/a", "").unwrap(), "a");
        assert_eq!(shard.remove(7, &key("/c")), 1);
        assert_eq!(shard.remove(7, &key("/a")), 1);
        assert_eq!((shard.index.len(), shard.bytes()), (0, 0));
    }

    #[test]
    fn newest_matching_variant_is_selected() {
        let mut shard = shard(1 << 20, 1 << 20, 4, LingeringObjects::default());
        assert!(publish(&mut shard, (1, "/"), ("Accept-Language", "de"), object(b"de")));
        assert!(publish(&mut shard, (1, "/"), ("Accept-Language", "en"), object(b"en")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "de");
        assert_eq!(body(&mut shard, 1, "/", "fr").unwrap(), "other variant");
        assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"all")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "all");
        assert_eq!(shard.rule(1, &key("/")).names(), ["accept-language"]);
        assert!(publish(&mut shard, (1, "/"), ("Accept-Language", "de"), object(b"DE")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "DE");
        assert_eq!(shard.remove(1, &key("/")), 3);
    }

    #[test]
    fn oldest_variant_is_removed_above_the_limit() {
        let mut shard = shard(1 << 20, 1 << 20, 2, LingeringObjects::default());
        for (language, text) in [("de", "de"), ("en", "en"), ("fr", "fr")] {
            assert!(publish(&mut shard, (1, "/"), ("Accept-Language", language), object(text.as_bytes())));
        }
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "other variant");
        assert_eq!(body(&mut shard, 1, "/", "fr").unwrap(), "fr");
        assert_eq!(shard.counters().objects, 2);
    }

    #[test]
    fn too_large_object_is_refused_and_removes_the_old_one() {
        for (bytes_max, body_bytes_max) in [(2_000, 1 << 20), (1 << 20, 1_000)] {
            let mut shard = shard(bytes_max, body_bytes_max, 2, LingeringObjects::default());
            assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"small")));
            assert!(!publish(&mut shard, (1, "/"), ("", ""), object(&[b'x'; 4_000])));
            assert_eq!(body(&mut shard, 1, "/", ""), None);
            assert_eq!(shard.bytes(), 0);
        }
    }

    #[test]
    fn replacing_a_variant_uses_no_more_memory() {
        let mut shard = shard(1 << 20, 1 << 20, 2, LingeringObjects::default());
        assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"0123456789")));
        let bytes = shard.bytes();
        for _ in 0..100 {
            assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"9876543210")));
        }
        assert_eq!((shard.bytes(), shard.slots.len()), (bytes, 1));
    }

    #[test]
    fn lookups_delay_eviction_and_peeks_do_not() {
        const NAMES: [&str; 12] = ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/10", "/11"];
        let mut shard = shard(12_000, 1 << 20, 4, LingeringObjects::default());
        let page = |number: usize| (number as u64, NAMES[number]);
        for number in [0, 1] {
            assert!(publish(&mut shard, page(number), ("", ""), object(&[b'x'; 1_000])));
        }
        for _ in 0..2 {
            shard.lookup(0, &key("/0"), &fields(""));
            shard.peek(1, &key("/1"), &fields(""));
        }
        for number in 2..NAMES.len() {
            assert!(publish(&mut shard, page(number), ("", ""), object(&[b'x'; 1_000])));
        }
        assert!(body(&mut shard, 0, "/0", "").is_some());
        assert!(body(&mut shard, 1, "/1", "").is_none());
    }

    fn encodable(body: &[u8]) -> Arc<Object> {
        Arc::new(Arc::into_inner(object(body)).unwrap().as_encodable())
    }

    fn forms(bodies: &[(Coding, &[u8])]) -> Box<[CodedForm]> {
        bodies.iter().map(|(coding, body)| CodedForm { coding: *coding, object: object(body) }).collect()
    }

    #[test]
    fn forms_count_as_memory_and_leave_with_their_object() {
        let mut shard = shard(1 << 20, 1 << 20, 4, LingeringObjects::default());
        let page = encodable(&[b'x'; 5_000]);
        assert!(publish(&mut shard, (1, "/"), ("", ""), Arc::clone(&page)));
        let before = shard.bytes();
        let made = forms(&[(Coding::Brotli, &[b'b'; 1_000]), (Coding::Gzip, &[b'g'; 2_000])]);
        assert!(shard.add_forms(1, &key("/"), &page, made));
        let more = shard.bytes() - before;
        assert!((3_000..3_600).contains(&more), "{more}");
        assert!((shard.counters().form_bytes as usize).abs_diff(more) < 16);
        let first = |form: &CodedForm| form.object.content().collect::<Vec<_>>().concat()[0];
        let found = Coding::ALL.map(|coding| page.form(coding).map(first));
        assert_eq!(found, [Some(b'b'), None, Some(b'g')]);
        assert!(!shard.add_forms(1, &key("/"), &page, forms(&[(Coding::Zstd, b"z")])), "only once");
        assert_eq!(shard.bytes() - before, more);
        assert_eq!(shard.remove(1, &key("/")), 1);
        assert_eq!((shard.bytes(), shard.counters().form_bytes), (0, 0));
    }

    #[test]
    fn forms_are_refused_for_an_object_that_is_not_stored() {
        let mut shard = shard(1 << 20, 1 << 20, 4, LingeringObjects::default());
        let (old, new, plain) = (encodable(b"old"), encodable(b"new"), object(b"plain"));
        assert!(publish(&mut shard, (1, "/"), ("", ""), Arc::clone(&old)));
        assert!(publish(&mut shard, (1, "/"), ("", ""), Arc::clone(&new)));
        assert!(publish(&mut shard, (2, "/2"), ("", ""), Arc::clone(&plain)));
        let made = || forms(&[(Coding::Brotli, b"br")]);
        assert!(!shard.add_forms(1, &key("/"), &old, made()));
        assert!(!shard.add_forms(1, &key("/other"), &new, made()));
        assert!(!shard.add_forms(2, &key("/2"), &plain, made()));
        assert!(old.forms().is_empty() && new.forms().is_empty() && plain.forms().is_empty());
        assert!(shard.add_forms(1, &key("/"), &new, made()));
    }

    #[test]
    fn forms_evict_others_and_are_refused_where_there_is_no_room() {
        let mut shard = shard(20_000, 1 << 20, 4, LingeringObjects::default());
        let page = encodable(&[b'x'; 4_000]);
        for (hash, name, object) in
            [(1, "/1", object(&[1; 6_000])), (2, "/2", object(&[2; 6_000])), (3, "/3", Arc::clone(&page))]
        {
            assert!(publish(&mut shard, (hash, name), ("", ""), object));
        }
        (0..3).for_each(|_| drop(shard.lookup(3, &key("/3"), &fields(""))));
        assert!(!shard.add_forms(3, &key("/3"), &page, forms(&[(Coding::Brotli, &[b'b'; 30_000])])));
        assert_eq!(shard.counters().objects, 3, "nothing is evicted for what never fits");
        assert!(shard.add_forms(3, &key("/3"), &page, forms(&[(Coding::Brotli, &[b'b'; 9_000])])));
        assert!(shard.bytes() <= 20_000 && shard.counters().objects < 3, "{}", shard.bytes());
        let big = object(&[b'z'; 15_000]);
        assert!(publish(&mut shard, (4, "/4"), ("", ""), Arc::clone(&big)));
        assert!(shard.bytes() <= 20_000);
        assert_eq!(shard.counters().form_bytes, 0, "evicted with its object");
    }

    #[test]
    fn held_form_lingers_without_its_object() {
        let lingering = LingeringObjects::default();
        let mut shard = shard(1 << 20, 1 << 20, 4, lingering.clone());
        let page = encodable(&[b'x'; 5_000]);
        assert!(publish(&mut shard, (1, "/"), ("", ""), Arc::clone(&page)));
        assert!(shard.add_forms(1, &key("/"), &page, forms(&[(Coding::Brotli, &[b'b'; 1_000])])));
        let sent = Arc::clone(&page.forms()[0].object);
        drop(page);
        assert_eq!(shard.remove(1, &key("/")), 1);
        drop(shard.take_removed());
        assert!((1_000..2_000).contains(&lingering.bytes()), "{}", lingering.bytes());
        drop(sent);
        assert_eq!(lingering.bytes(), 0);
    }

    #[test]
    fn removed_object_counts_as_lingering_until_dropped() {
        let lingering = LingeringObjects::default();
        let body = vec![b'x'; 1_000];
        let mut shard = shard(1 << 20, 1 << 20, 4, lingering.clone());
        for round in 0..2 {
            assert!(publish(&mut shard, (1, "a"), ("", ""), object(&body)));
            let Lookup::Found { object: read, .. } = shard.lookup(1, &key("a"), &fields("")) else {
                panic!("not stored")
            };
            assert_eq!(lingering.bytes(), 0);
            match round {
                0 => assert_eq!(shard.remove(1, &key("a")), 1),
                _ => assert!(publish(&mut shard, (1, "a"), ("", ""), object(b"new"))),
            }
            // As when the lock is released.
            drop(shard.take_removed());
            assert!(lingering.bytes() > 1_000);
            drop(read);
            assert_eq!(lingering.bytes(), 0);
        }
        assert_eq!(shard.remove(1, &key("a")), 1);
        drop(shard.take_removed());
        assert_eq!(lingering.bytes(), 0, "no reader held it");
        let mut tiny = super::tests::shard(100, 1 << 20, 4, lingering.clone());
        let read = object(&body);
        assert!(!publish(&mut tiny, (1, "a"), ("", ""), Arc::clone(&read)) && lingering.bytes() > 1_000);
        drop(read);
        assert_eq!(lingering.bytes(), 0);
    }
}
