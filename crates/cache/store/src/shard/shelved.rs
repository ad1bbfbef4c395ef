//! The part of a shard that deals with the disk: slots whose objects are on the disk and not in
//! memory ("shelved").
//!
//! Invariant: a slot without an object has a place on the disk or is being written there. An object
//! evicted from memory stays on the disk. An object that leaves the index is removed from the disk.

use super::{Admission, Shard};
use crate::record::IndexRecord;
use crate::s3fifo::Hits;
use crate::selector::{IndexedResponse, ResponseAttributes};
use crate::slot::{SLOT_BYTES, Slot};
use crate::subject::{InvalidationSubject, TagIds};
use crate::{Lookup, Object, OnDisk, ShelvedObject};
use disk::{Location, RecoveredObject, Tier};
use platform::HashMap;
use std::fmt;
use std::sync::Arc;

/// The disk tier below the shard, if there is one.
#[derive(Default)]
pub(super) struct TierBelow {
    tier: Option<Tier>,
    /// The number of the last write.
    writes: u32,
}

impl TierBelow {
    /// Removes an object from the disk that no slot refers to any more.
    pub(super) fn remove(&self, location: Location) {
        if let Some(tier) = &self.tier {
            tier.remove(location);
        }
    }

    /// The number of the next write, or 0 if there is no disk. Numbers repeat after 2^32 - 1
    /// writes; no write takes that long.
    pub(super) fn next_write(&mut self) -> u32 {
        if self.tier.is_some() {
            self.writes = self.writes.checked_add(1).unwrap_or(1);
        }
        self.writes
    }
}

impl fmt::Debug for TierBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below").field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl Shard {
    /// Attaches the disk tier. Objects may be on the disk from now on.
    pub(crate) fn set_tier(&mut self, tier: Tier) {
        self.below = TierBelow { tier: Some(tier), writes: 0 };
    }

    /// Records that the object of `admission` has been written to `location`, or with `None` that
    /// the write failed. Returns false if the object is no longer stored.
    pub(crate) fn written(&mut self, admission: Admission, location: Option<Location>) -> bool {
        let Admission { slot: id, writing, .. } = admission;
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return false };
        if slot.writing != writing {
            return false;
        }
        slot.writing = 0;
        let is_in_memory = slot.object.is_some();
        match location {
            Some(location) => self.slot_locations.set(id, location),
            // The object was evicted from memory while it was being written, so no copy is left.
            None if !is_in_memory => self.take_slot(id),
            None => {}
        }
        true
    }

    /// Removes a slot but keeps the copy of its object on the disk, which another slot takes over.
    pub(super) fn drop_but_place(&mut self, id: u32) {
        self.slot_locations.take(id);
        self.drop_slot(id);
    }

    /// A slot that was found in use under the same hold of the shard's lock.
    #[expect(clippy::expect_used, reason = "the slot was found in use")]
    fn used_mut(&mut self, id: u32) -> &mut Slot {
        self.slots.get_mut(id as usize).and_then(Option::as_mut).expect("the slot was found in use")
    }

    /// Drops the memory of an object that the eviction order has released. The object stays on the
    /// disk.
    #[expect(clippy::expect_used, reason = "the eviction order has the slots with an object in memory")]
    pub(super) fn shelve(&mut self, id: u32) {
        let slot = self.used_mut(id);
        let text_bytes = slot.text_bytes();
        let object = slot.object.take().expect("an object in memory is shelved once");
        self.shelved_bytes += text_bytes;
        self.counters.shelved += 1;
        self.counters.form_bytes -= object.form_bytes() as u64;
        self.lingering.count(&object);
        self.removed.push(object);
    }

    /// Takes an object that was read from `location` into memory, and returns the result of a
    /// look-up for it as of now. [`Lookup::Absent`] if the object was removed or replaced
    /// meanwhile.
    pub(crate) fn unshelve(&mut self, location: Location, object: Arc<Object>) -> Lookup {
        let Some(id) = self.slot_locations.find(location) else { return Lookup::Absent };
        self.check(id, Some(&*object));
        let Some(slot) = self.slot(id) else { return Lookup::Absent };
        let softened = slot.softened;
        if let Some(object) = &slot.object {
            return Lookup::Found { object: Arc::clone(object), softened };
        }
        let object = if slot.unproven { Arc::new(object.to_be_validated()) } else { object };
        let found = Lookup::Found { object: Arc::clone(&object), softened };
        let hash = slot.hash;
        let bytes = slot.text_bytes() + object.bytes();
        if !self.make_room(object.bytes()) {
            // There is no memory to store it, but this one request may use it.
            self.lingering.count(&object);
            return found;
        }
        // Making room may have removed this very slot.
        let is_there = self.slot_locations.find(location) == Some(id);
        let slot = if is_there { self.slots.get_mut(id as usize).and_then(Option::as_mut) } else { None };
        let Some(slot) = slot else {
            self.lingering.count(&object);
            return found;
        };
        slot.object = Some(object);
        slot.hits = Hits::default();
        self.shelved_bytes -= slot.text_bytes();
        self.counters.shelved -= 1;
        self.order.insert(id, hash, bytes);
        found
    }

    /// Removes the object at `location`, because it cannot be read.
    pub(crate) fn forget(&mut self, location: Location) {
        if let Some(id) = self.slot_locations.find(location) {
            self.drop_slot(id);
        }
    }

    /// Removes all responses with this damaged body, even if it has moved on the disk.
    pub(crate) fn forget_body(&mut self, hash: u64, body: &Arc<OnDisk>) {
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            let id = at;
            let next = slot.next;
            let has_it = slot.object.as_ref().and_then(|object| object.on_disk());
            if has_it.is_some_and(|known| Arc::ptr_eq(known, body)) {
                self.drop_slot(id);
            }
            at = next;
        }
    }

    /// Handles damage at `location`. A response with its body in memory stays; any other is
    /// removed.
    pub(crate) fn forget_place(&mut self, location: Location) {
        let Some(id) = self.slot_locations.find(location) else { return };
        let in_memory = self.slot(id).and_then(|slot| slot.object.as_ref());
        match in_memory.map(|object| object.on_disk()) {
            Some(None) => {
                self.slot_locations.take(id);
                self.below.remove(location);
            }
            Some(Some(body)) => {
                body.distrust();
                self.drop_slot(id);
            }
            None => self.drop_slot(id),
        }
    }

    /// Finds the first object on the disk among `count` slots from `from` on, and the slot at which
    /// to continue. The inner place is `None` if these slots have none. The outer `None` means that
    /// there are no more slots.
    pub(crate) fn next_place(&self, from: usize, count: usize) -> Option<(Option<ShelvedObject>, usize)> {
        if from >= self.slots.len() {
            return None;
        }
        let end = from.saturating_add(count).min(self.slots.len());
        for at in from..end {
            let id = at as u32;
            if let (Some(slot), Some(location)) = (self.slot(id), self.slot_locations.get(id)) {
                return Some((Some(ShelvedObject { hash: slot.hash, location }), at + 1));
            }
        }
        Some((None, end))
    }

    /// Handles the eviction of the segment that holds `location`. Returns true if the object is in
    /// memory too, and so is worth writing again. Otherwise the object is removed and the result is
    /// false. `None` if it does not belong to this shard.
    pub(crate) fn loses(&mut self, location: Location) -> Option<bool> {
        let id = self.slot_locations.find(location)?;
        let is_in_memory = self.slot(id).is_some_and(|slot| slot.object.is_some());
        if !is_in_memory {
            self.lost(location);
        }
        Some(is_in_memory)
    }

    /// Records that the copy at `location` no longer exists.
    pub(crate) fn lost(&mut self, location: Location) {
        let Some(id) = self.slot_locations.find(location) else { return };
        self.slot_locations.take(id);
        if self
            .slot(id)
            .is_some_and(|slot| slot.object.as_ref().is_none_or(|object| object.on_disk().is_some()))
        {
            // A body on the disk would keep an unlinked file open, and the verifier would not read
            // it any more.
            self.drop_slot(id);
        }
    }

    /// Records that the copies in a segment no longer exist, for `count` slots from `from` on.
    /// Returns the slot at which to continue, or `None` at the end.
    pub(crate) fn lost_in(&mut self, segment: u32, from: usize, count: usize) -> Option<usize> {
        let end = from.saturating_add(count).min(self.slots.len());
        for id in from..end {
            let place = self.slot_locations.get(id as u32);
            place.into_iter().filter(|place| place.segment() == segment).for_each(|place| self.lost(place));
        }
        (end < self.slots.len()).then_some(end)
    }

    /// Records that an object has moved on the disk. Returns false if the object is no longer
    /// stored, or if `renew` cannot bring the copy up to date. The store refreshes objects under
    /// the shard's lock, so none is refreshed at `from` after the call of `renew`.
    pub(crate) fn moved(&mut self, from: Location, to: Location, renew: &mut dyn FnMut() -> bool) -> bool {
        let Some(id) = self.slot_locations.find(from) else { return false };
        if !renew() {
            self.lost(from);
            return false;
        }
        self.slot_locations.take(id);
        self.slot_locations.set(id, to);
        if self
            .slot(id)
            .and_then(|slot| slot.object.as_ref())
            .is_some_and(|object| object.on_disk().is_some())
        {
            // The body is in the file to be removed. The next look-up reads it from the new place.
            self.order.remove(id);
            self.shelve(id);
        }
        true
    }

    /// Adds an object of an earlier process to the index. `read` is the response, if its head was
    /// needed for the decision.
    pub(crate) fn adopt(
        &mut self,
        hash: u64,
        entry: &IndexRecord,
        recovered: &RecoveredObject,
        read: Option<&Object>,
    ) -> Adoption {
        let IndexRecord { key, rule, variant, .. } = entry;
        let variants = self.variants(hash, key);
        let same = self.same_variant(&variants, rule, variant.octets());
        // A variant that this process stored, or one with a higher order, is newer.
        let is_older = |id: u32| self.adopted.get(&id).is_none_or(|order| *order > recovered.order);
        if same.is_some_and(is_older) || (same.is_none() && variants.len() >= self.limits.variants_max.max(1))
        {
            return Adoption::Useless;
        }
        let unknown = IndexedResponse::new(entry.has_equivalents());
        let response: &dyn ResponseAttributes = match read {
            Some(object) => object,
            None => &unknown,
        };
        // Only `unknown` matters here: it notes whether a ban is undecided. `shelve_entry` judges.
        self.log.judge_texts(entry.checked, &subject(hash, entry, response), &entry.tags);
        if unknown.is_undecided() {
            return Adoption::Undecided;
        }
        let Some(id) = self.shelve_entry(hash, entry, response, recovered.location) else {
            return Adoption::Useless;
        };
        if unknown.is_undecided() {
            // A new ban was recorded in between. Dropping the object costs one fetch.
            self.slot_locations.take(id);
            self.take_slot(id);
            return Adoption::Useless;
        }
        let slot = self.used_mut(id);
        slot.softened |= entry.softened;
        slot.unproven = !recovered.proven;
        self.adopted.insert(id, recovered.order);
        Adoption::Done
    }

    /// Adds an object that was written to `location` to the index, in place of the same variant.
    /// Returns false if the object was invalidated after its fetch began, or if there is no memory
    /// for its slot.
    pub(crate) fn shelve_new(
        &mut self,
        hash: u64,
        entry: &IndexRecord,
        object: &Object,
        location: Location,
    ) -> bool {
        let variants = self.variants(hash, &entry.key);
        if self.same_variant(&variants, &entry.rule, entry.variant.octets()).is_none()
            && variants.len() >= self.limits.variants_max.max(1)
            && let Some(oldest) = variants.last()
        {
            self.drop_slot(*oldest);
        }
        let is_new = self.shelve_entry(hash, entry, object, location).is_some();
        self.counters.published += u64::from(is_new);
        is_new
    }

    /// Adds a slot for the object at `location`, in place of the same variant. Bans are checked
    /// against `response`. `None` if the object was invalidated or there is no memory for the slot.
    fn shelve_entry(
        &mut self,
        hash: u64,
        entry: &IndexRecord,
        response: &dyn ResponseAttributes,
        location: Location,
    ) -> Option<u32> {
        let IndexRecord { key, rule, variant, tags, checked, .. } = entry;
        let admitted = self.log.admit(*checked, &subject(hash, entry, response), tags)?;
        let variants = self.variants(hash, key);
        if let Some(id) = self.same_variant(&variants, rule, variant.octets()) {
            // The same variant, stored earlier than this one.
            self.drop_slot(id);
        } else if let Some(id) = self.surplus_spelling(hash) {
            self.drop_slot(id);
        }
        let scope = self.scopes.enter(key, rule.clone());
        let mut slot = Slot::new((hash, scope), key.target(), variant.octets(), None, &admitted);
        slot.has_equivalents = entry.has_equivalents();
        let bytes = slot.text_bytes();
        if self.has_many_shelved(bytes) || !self.make_room(bytes) {
            self.dismiss(&slot);
            return None;
        }
        self.shelved_bytes += bytes;
        self.counters.shelved += 1;
        let id = self.add(slot);
        self.slot_locations.set(id, location);
        Some(id)
    }

    /// Ends the adoption of an earlier process's objects.
    pub(crate) fn end_adoption(&mut self) {
        self.adopted = HashMap::default();
    }

    /// Whether shelved slots would exceed their share of the memory with `bytes` more.
    pub(super) fn has_many_shelved(&self, bytes: usize) -> bool {
        let slots = self.counters.shelved as usize * SLOT_BYTES;
        self.shelved_bytes + slots + bytes > self.bytes_max() / super::SHELVED_PART
    }

    /// Removes a shelved object from the index and from the disk. Returns false if there is none. A
    /// clock hand passes over the slots in order of their numbers, which is roughly the order in
    /// which they were added.
    pub(super) fn forget_shelved(&mut self) -> bool {
        let count = self.slots.len();
        if self.counters.shelved == 0 {
            return false;
        }
        for _ in 0..count {
            let id = self.shelved_hand % count;
            self.shelved_hand = id + 1;
            if self.slot(id as u32).is_some_and(|slot| slot.object.is_none()) {
                self.take_slot(id as u32);
                return true;
            }
        }
        false
    }
}

/// The result of adopting an object of an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// The object is in the index.
    Done,
    /// The object was invalidated, a newer one is stored, or there is no memory for its slot.
    Useless,
    /// The response must be read before it can be decided.
    Undecided,
}

/// The response of an entry, in the form that invalidations are checked against.
fn subject<'a>(
    hash: u64,
    entry: &'a IndexRecord,
    response: &'a dyn ResponseAttributes,
) -> InvalidationSubject<'a> {
    InvalidationSubject {
        site: entry.key.site(),
        https: entry.key.is_https(),
        host: entry.key.host(),
        target: entry.key.target(),
        hash,
        tags: TagIds::default(),
        has_equivalents: entry.has_equivalents(),
        response,
    }
}
