//! The memory of objects that left the store while somebody still sends them to a slow visitor.
//!
//! Invariant: an object is counted from the moment it leaves, if anybody but the store holds it then, until the
//! last holder lets go. Nothing here frees memory: who publishes asks how much there is before it takes more. Objects
//! pay nothing for it while they are stored: what has left is on a list, and who asks goes through it.

use crate::Object;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::sync::{Arc, Weak};

/// The objects of a store that linger.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lingering(Arc<Mutex<Left>>);

#[derive(Debug, Default)]
struct Left {
    objects: Vec<(Weak<Object>, usize)>,
    /// The length at which those that are gone are looked for.
    look_at: usize,
}

/// So many may be on the list before it is worth going through it.
const FEW: usize = 64;

impl Lingering {
    /// The octets of all that linger.
    pub(crate) fn bytes(&self) -> u64 {
        let mut left = self.left();
        left.forget_the_gone();
        left.objects.iter().map(|(_, bytes)| *bytes as u64).sum()
    }

    /// Begins to count `object`, which the store is about to let go, if somebody else holds it. The shard's lock
    /// is held, so nobody can get hold of it meanwhile.
    pub(crate) fn count(&self, object: &Arc<Object>) {
        if Arc::strong_count(object) > 1 {
            let mut left = self.left();
            if left.objects.len() >= left.look_at {
                left.forget_the_gone();
            }
            left.objects.push((Arc::downgrade(object), object.bytes()));
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        // A list that a panic left is whole: each change of it is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Left {
    fn forget_the_gone(&mut self) {
        self.objects.retain(|(object, _)| object.strong_count() > 0);
        // Doubling what is left, so that each object is looked at a few times in all.
        self.look_at = FEW.max(2 * self.objects.len());
    }
}
