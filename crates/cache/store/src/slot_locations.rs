//! The places on the disk of a shard's objects.
//!
//! Invariant: a slot has at most one place, and a place belongs to at most one slot. A store
//! without a disk allocates nothing here.

use crate::growth::resize_by_eighths;
use disk::Location;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// The places of one shard's objects.
#[derive(Debug, Default)]
pub(crate) struct SlotLocations {
    of_slot: Vec<Option<Location>>,
    slots: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
}

impl SlotLocations {
    /// The place of a slot's object, if it is on the disk.
    pub(crate) fn get(&self, slot: u32) -> Option<Location> {
        self.of_slot.get(slot as usize).copied().flatten()
    }

    /// The slot whose object is at `location`.
    pub(crate) fn find(&self, location: Location) -> Option<u32> {
        let is_same = |slot: &u32| self.get(*slot) == Some(location);
        self.slots.find(self.hasher.hash_one(Some(location)), is_same).copied()
    }

    /// Records that the object of `slot` is at `location`. The slot must have no place yet.
    pub(crate) fn set(&mut self, slot: u32, location: Location) {
        let position = slot as usize;
        if position >= self.of_slot.len() {
            resize_by_eighths(&mut self.of_slot, position + 1, None);
        }
        let before = self.of_slot.get_mut(position).and_then(|place| place.replace(location));
        assert!(before.is_none(), "an object is at one place");
        let Self { of_slot, slots, hasher } = self;
        let hash_of = |slot: &u32| hasher.hash_one(of_slot.get(*slot as usize).copied().flatten());
        slots.insert_unique(hash_of(&slot), slot, hash_of);
    }

    /// Removes and returns the place of a slot's object.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Location> {
        let location = self.get(slot)?;
        let hash = self.hasher.hash_one(Some(location));
        let found = self.slots.find_entry(hash, |known| *known == slot).map(|entry| entry.remove());
        assert!(found.is_ok(), "the table has the slot of each place");
        self.of_slot.get_mut(slot as usize)?.take()
    }

    /// The bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.of_slot.len() * size_of::<Option<Location>>() + self.slots.capacity() * SLOT_NUMBER_BYTES
    }
}

/// The bytes of a slot's number in the table, including the control byte and the space that the
/// table keeps free.
const SLOT_NUMBER_BYTES: usize = 6;
