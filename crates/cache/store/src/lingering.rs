//! Lingering objects: objects that have left the store while they are still held, for example by a
//! connection to a slow client.
//!
//! Invariant: if an object is held elsewhere when it leaves the store, it is counted from then
//! until its last holder drops it. This module frees no memory: callers check the total before they
//! take memory for a new body. Stored objects carry no cost for this, because only objects that
//! have left are listed.

use crate::Object;
use crate::sync::{Mutex, MutexGuard, sound};
use std::sync::{Arc, Weak};

/// The lingering objects of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct LingeringObjects(Arc<Mutex<LingeringState>>);

#[derive(Debug, Default)]
struct LingeringState {
    objects: Vec<(Weak<Object>, usize)>,
    /// The length of the list at which dropped objects are next removed from it.
    look_at: usize,
}

/// Lists up to this length are not searched for dropped objects.
const FEW: usize = 64;

impl LingeringObjects {
    /// The bytes of all lingering objects.
    pub(crate) fn bytes(&self) -> u64 {
        let mut left = self.left();
        left.forget_the_gone();
        left.objects.iter().map(|(_, bytes)| *bytes as u64).sum()
    }

    /// Starts to count `object` if it is held outside of the store. Call it while the shard is
    /// locked, so that no look-up can take another reference meanwhile.
    pub(crate) fn count(&self, object: &Arc<Object>) {
        let is_held = Arc::strong_count(object) > 1;
        if is_held {
            self.add(object, object.own_bytes());
        }
        // Each may be held by itself, and an object that is held holds all of its forms.
        for form in object.forms() {
            if is_held || Arc::strong_count(&form.object) > 1 {
                self.add(&form.object, form.object.bytes());
            }
        }
    }

    fn add(&self, object: &Arc<Object>, bytes: usize) {
        let mut left = self.left();
        if left.objects.len() >= left.look_at {
            left.forget_the_gone();
        }
        left.objects.push((Arc::downgrade(object), bytes));
    }

    fn left(&self) -> MutexGuard<'_, LingeringState> {
        sound(self.0.lock())
    }
}

impl LingeringState {
    fn forget_the_gone(&mut self) {
        self.objects.retain(|(object, _)| object.strong_count() > 0);
        // Doubling the length means that each object is examined only a few times in total.
        self.look_at = FEW.max(2 * self.objects.len());
    }
}
