//! A store's knowledge about the tier below it, to be compared with the tier's contents.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use petasos_disk::{Location, RetentionPolicy};

/// Random numbers from a seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn of(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % count
    }
}

/// The progress of an operation: in the files, and synced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationProgress {
    pub(crate) operation: u64,
    pub(crate) is_durable: bool,
    pub(crate) is_synced: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ModelObject {
    pub(crate) body_bytes: usize,
    pub(crate) written: Option<OperationProgress>,
    /// The requested versions of its index entry. The first is the one that it was written with.
    pub(crate) versions: Vec<OperationProgress>,
    pub(crate) removed: Option<OperationProgress>,
    /// Its location, as last reported by the tier.
    pub(crate) location: Option<Location>,
    /// Whether a power cut has left it unproven. A refresh ends this.
    pub(crate) is_suspect: bool,
}

impl ModelObject {
    /// Notes that the object has a new copy. Unless `is_synced`, a power cut may lose it.
    pub(crate) fn unsync(&mut self, is_synced: bool) {
        let came = self.versions.iter_mut().chain(&mut self.written);
        came.for_each(|came| came.is_synced &= is_synced);
    }
}

#[derive(Default)]
pub(crate) struct ModelTier {
    pub(crate) objects: BTreeMap<u64, ModelObject>,
    pub(crate) places: HashMap<Location, u64>,
    /// The numbers of objects that the tier has reported as dropped.
    pub(crate) forgotten: BTreeSet<u64>,
}

/// The store's side: the tier's reports, behind a lock that callbacks take.
#[derive(Clone, Default)]
pub(crate) struct StoreSide {
    /// Whether copies are synced before the originals are removed.
    pub(crate) syncs_moved: bool,
    pub(crate) shelf: Arc<Mutex<ModelTier>>,
}

impl RetentionPolicy for StoreSide {
    fn evicts(&self, location: Location) -> bool {
        let mut shelf = self.shelf.lock().unwrap();
        let Some(number) = shelf.places.get(&location).copied() else { return false };
        let keeps = number.is_multiple_of(3) && shelf.objects[&number].removed.is_none();
        if !keeps {
            shelf.forgotten.insert(number);
        }
        keeps
    }

    fn moved(&self, from: Location, to: Location, renew: &mut dyn FnMut() -> bool) {
        let mut shelf = self.shelf.lock().unwrap();
        // Only a tier that is off for good refuses it. It writes nothing more.
        renew();
        let number = shelf.places.remove(&from).unwrap();
        shelf.places.insert(to, number);
        let object = shelf.objects.get_mut(&number).unwrap();
        object.location = Some(to);
        object.unsync(self.syncs_moved);
    }

    fn lost(&self, location: Location) {
        let mut shelf = self.shelf.lock().unwrap();
        if let Some(number) = shelf.places.remove(&location) {
            shelf.forgotten.insert(number);
        }
    }
}

/// The end of a life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LifeEnd {
    Kill,
    PowerCut,
    /// A power cut after the tier was closed, so that everything should be synced.
    Closed,
}
