//! The memory of objects that left the store while somebody still sends them to a slow visitor.
//!
//! Invariant: an object is counted from the moment it leaves, if anybody but the store holds it then, until the
//! last holder lets go. Nothing here frees memory: who publishes asks how much there is before it takes more.

use crate::Object;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The octets of all lingering objects of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lingering(Arc<AtomicU64>);

impl Lingering {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins to count `object`, which the store is about to let go, if somebody else holds it. The shard's lock
    /// is held, so nobody can get hold of it meanwhile.
    pub(crate) fn count(&self, object: &Arc<Object>) {
        if Arc::strong_count(object) > 1 {
            object.linger(self);
        }
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
