//! Coded forms of stored objects.
//!
//! Invariant: forms are added only to an object that is stored and valid at that moment.

use super::Store;
use crate::{CodedForm, Key, Object};
use std::sync::Arc;

impl Store {
    /// Adds coded forms to a stored object, if it is still stored under `key` and valid. Returns
    /// whether it was. Nothing is written to the disk, so an object that leaves memory loses its
    /// forms.
    pub fn add_forms(&self, key: &Key, object: &Arc<Object>, forms: Vec<CodedForm>) -> bool {
        let hash = self.hasher.hash(key);
        self.shards.of(hash).add_forms(hash, key, object, forms.into_boxed_slice())
    }

    /// Whether this very object is in memory under `key` and no hard invalidation covers it.
    pub fn holds(&self, key: &Key, object: &Arc<Object>) -> bool {
        let hash = self.hasher.hash(key);
        self.shards.of(hash).holds(hash, key, object)
    }
}
