//! The part of a shard that is about the disk: objects that are there and not in memory.
//!
//! Invariant: a slot without an object has a place on the disk, or is being written there. What gives way in memory
//! stays on the disk, and what leaves the index leaves the disk.

use super::{Admission, Shard};
use crate::invalidation::{Response, Unknown};
use crate::ledger::{Subject, TagIds};
use crate::record::Entry;
use crate::s3fifo::Hits;
use crate::slot::{SLOT_BYTES, Slot};
use crate::{Lookup, Object, OnDisk, Shelved};
use disk::{Location, Recovered, Tier};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The disk, if there is one.
#[derive(Default)]
pub(super) struct Below {
    tier: Option<Tier>,
    /// The number of the last write.
    writes: u32,
}

impl Below {
    /// Nothing refers to what is there any more.
    pub(super) fn remove(&self, location: Location) {
        if let Some(tier) = &self.tier {
            tier.remove(location);
        }
    }

    /// The number of a write that follows; 0 where there is no disk. It comes round again after four thousand million
    /// others, and no write takes so long.
    pub(super) fn next_write(&mut self) -> u32 {
        if self.tier.is_some() {
            self.writes = self.writes.checked_add(1).unwrap_or(1);
        }
        self.writes
    }
}

impl fmt::Debug for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below").field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl Shard {
    /// Objects may be on the disk from now on.
    pub(crate) fn set_tier(&mut self, tier: Tier) {
        self.below = Below { tier: Some(tier), writes: 0 };
    }

    /// The object that was stored as `admission` says has been written to `location`, or could not be. False if it is
    /// not stored any more.
    pub(crate) fn written(&mut self, admission: Admission, location: Option<Location>) -> bool {
        let Admission { slot: id, writing, .. } = admission;
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return false };
        if slot.writing != writing {
            return false;
        }
        slot.writing = 0;
        let is_in_memory = slot.object.is_some();
        match location {
            Some(location) => self.places.set(id, location),
            // It has left memory, and is nowhere.
            None if !is_in_memory => self.take_slot(id),
            None => {}
        }
        true
    }

    /// Drops the slot whose object is at `place`, for one that takes its place; false if there is none.
    pub(super) fn drop_but_place(&mut self, place: Location) -> bool {
        let Some(id) = self.places.find(place) else { return false };
        self.places.take(id);
        self.drop_slot(id);
        true
    }

    /// Gives up the memory of an object that the eviction order no longer has: it is on the disk.
    pub(super) fn shelve(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let Some(object) = slot.object.take() else { return };
        self.shelved_bytes += slot.text_bytes();
        self.counters.shelved += 1;
        self.lingering.count(&object);
    }

    /// Takes an object into memory that was read from `location`, and gives what a look-up now finds there.
    /// [`Lookup::Absent`] if it was removed or replaced meanwhile.
    pub(crate) fn unshelve(&mut self, location: Location, object: Arc<Object>) -> Lookup {
        let Some(id) = self.places.find(location) else { return Lookup::Absent };
        self.check(id, Some(&*object));
        let Some(slot) = self.slot(id) else { return Lookup::Absent };
        let softened = slot.softened;
        if let Some(object) = &slot.object {
            return Lookup::Found { object: Arc::clone(object), softened };
        }
        let object = if slot.unproven { Arc::new(object.to_be_validated()) } else { object };
        let found = Lookup::Found { object: Arc::clone(&object), softened };
        let (hash, bytes) = (slot.hash, slot.text_bytes() + object.bytes());
        if !self.make_room(object.bytes()) {
            // It can be used once, as what has left the store is.
            self.lingering.count(&object);
            return found;
        }
        // Room may have been made of this slot too.
        let is_there = self.places.find(location) == Some(id);
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::as_mut).filter(|_| is_there) else {
            self.lingering.count(&object);
            return found;
        };
        (slot.object, slot.hits) = (Some(object), Hits::default());
        self.shelved_bytes -= slot.text_bytes();
        self.counters.shelved -= 1;
        self.order.insert(id, hash, bytes);
        found
    }

    /// Forgets what is at `location`, because it cannot be read.
    pub(crate) fn forget(&mut self, location: Location) {
        if let Some(id) = self.places.find(location) {
            self.drop_slot(id);
        }
    }

    /// Forgets the responses with this body, wherever it has moved: it is damaged.
    pub(crate) fn forget_body(&mut self, hash: u64, body: &Arc<OnDisk>) {
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            let (id, next) = (at, slot.next);
            let has_it = slot.object.as_ref().and_then(|object| object.on_disk());
            if has_it.is_some_and(|known| Arc::ptr_eq(known, body)) {
                self.drop_slot(id);
            }
            at = next;
        }
    }

    /// What is at `location` is damaged there. A response that is whole in memory stays; any other is forgotten.
    pub(crate) fn forget_place(&mut self, location: Location) {
        let Some(id) = self.places.find(location) else { return };
        let in_memory = self.slot(id).and_then(|slot| slot.object.as_ref());
        match in_memory.map(|object| object.on_disk()) {
            Some(None) => {
                self.places.take(id);
                self.below.remove(location);
            }
            Some(Some(body)) => {
                body.distrust();
                self.drop_slot(id);
            }
            None => self.drop_slot(id),
        }
    }

    /// The place of the first object in the slots from `from` on that is on the disk, and where to go on; the place is
    /// `None` where `count` slots have none. `None`: there is no slot left.
    pub(crate) fn next_place(&self, from: usize, count: usize) -> Option<(Option<Shelved>, usize)> {
        if from >= self.slots.len() {
            return None;
        }
        let end = from.saturating_add(count).min(self.slots.len());
        for at in from..end {
            let id = at as u32;
            if let (Some(slot), Some(location)) = (self.slot(id), self.places.get(id)) {
                return Some((Some(Shelved { hash: slot.hash, location }), at + 1));
            }
        }
        Some((None, end))
    }

    /// The segment with `location` goes. What is in memory as well is worth being written again, which is true; what
    /// is not is forgotten. `None` if it is not one of this shard's.
    pub(crate) fn loses(&mut self, location: Location) -> Option<bool> {
        let id = self.places.find(location)?;
        let is_in_memory = self.slot(id).is_some_and(|slot| slot.object.is_some());
        if !is_in_memory {
            self.lost(location);
        }
        Some(is_in_memory)
    }

    /// What was at `location` is there no more.
    pub(crate) fn lost(&mut self, location: Location) {
        let Some(id) = self.places.find(location) else { return };
        self.places.take(id);
        if self
            .slot(id)
            .is_some_and(|slot| slot.object.as_ref().is_none_or(|object| object.on_disk().is_some()))
        {
            // A body on the disk would keep a file open that has no name any more, and is verified by nobody.
            self.drop_slot(id);
        }
    }

    /// What was at `from` is at `to` now. False if nothing is there any more.
    pub(crate) fn moved(&mut self, from: Location, to: Location) -> bool {
        let Some(id) = self.places.find(from) else { return false };
        self.places.take(id);
        self.places.set(id, to);
        if self
            .slot(id)
            .and_then(|slot| slot.object.as_ref())
            .is_some_and(|object| object.on_disk().is_some())
        {
            // Its body is in the file that goes; it is read again where it is now.
            self.order.remove(id);
            self.shelve(id);
        }
        true
    }

    /// Puts what an earlier process has written into the index; `read` is the response, if it had to be read for that.
    pub(crate) fn adopt(
        &mut self,
        hash: u64,
        entry: &Entry,
        recovered: &Recovered,
        read: Option<&Object>,
    ) -> Adoption {
        let Entry { key, rule, variant, .. } = entry;
        let variants = self.variants(hash, key);
        let same = self.same_variant(&variants, rule, variant.octets());
        let is_older = |id: u32| self.adopted.get(&id).is_none_or(|order| *order > recovered.order);
        if same.is_some_and(is_older) || (same.is_none() && variants.len() >= self.limits.variants_max.max(1))
        {
            return Adoption::Useless;
        }
        let unknown = Unknown::new(entry.has_equivalents());
        let response: &dyn Response = match read {
            Some(object) => object,
            None => &unknown,
        };
        self.log.judge_texts(entry.checked, &subject(hash, entry, response), &entry.tags);
        if unknown.is_undecided() {
            return Adoption::Undecided;
        }
        let Some(id) = self.shelve_entry(hash, entry, response, recovered.location) else {
            return Adoption::Useless;
        };
        if unknown.is_undecided() {
            // A ban has come in between. The object goes, which costs a fetch.
            self.places.take(id);
            self.take_slot(id);
            return Adoption::Useless;
        }
        if let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::as_mut) {
            slot.softened |= entry.softened;
            slot.unproven = !recovered.proven;
        }
        self.adopted.insert(id, recovered.order);
        Adoption::Done
    }

    /// Puts what was written to `location` into the index, in place of the same variant. False if it was invalidated
    /// since its fetch began, or there is no room.
    pub(crate) fn shelve_new(
        &mut self,
        hash: u64,
        entry: &Entry,
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

    /// A slot for what is at `location`, in place of the same variant; `response` is what bans ask about.
    fn shelve_entry(
        &mut self,
        hash: u64,
        entry: &Entry,
        response: &dyn Response,
        location: Location,
    ) -> Option<u32> {
        let Entry { key, rule, variant, tags, checked, .. } = entry;
        let admitted = self.log.admit(*checked, &subject(hash, entry, response), tags)?;
        let variants = self.variants(hash, key);
        if let Some(id) = self.same_variant(&variants, rule, variant.octets()) {
            // It came before this one.
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
        self.places.set(id, location);
        Some(id)
    }

    /// Nothing more comes from an earlier process.
    pub(crate) fn end_adoption(&mut self) {
        self.adopted = HashMap::new();
    }

    /// Whether what is on the disk only takes more of the memory than it may, with so many octets more.
    pub(super) fn has_many_shelved(&self, bytes: usize) -> bool {
        let slots = self.counters.shelved as usize * SLOT_BYTES;
        self.shelved_bytes + slots + bytes > self.bytes_max() / super::SHELVED_PART
    }

    /// Forgets a shelved object, on the disk too; false if there is none. They go in the order of their places, one
    /// after the other, which is about the order in which they came.
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

/// What became of an object that an earlier process has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// It is in the index.
    Done,
    /// It was invalidated, or something newer is here, or there is no room.
    Useless,
    /// Its response has to be read first.
    Undecided,
}

/// What an entry says of its response, as invalidations see it.
fn subject<'a>(hash: u64, entry: &'a Entry, response: &'a dyn Response) -> Subject<'a> {
    Subject {
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
