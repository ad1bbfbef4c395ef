//! Walking over all objects to remove, or soften, what was invalidated.
//!
//! Invariant: a walk checks every object that was stored when it began against every invalidation that was taken down
//! by then; what is stored meanwhile has been checked when it was. Nobody needs a walk to have happened to get right
//! answers: it frees memory, and lets the ledger forget.

use crate::shard::{Checked, Shard};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Slots that are checked while a shard is locked, and comparisons with listed invalidations after which no further
/// slot is: a look-up waits for some tens of microseconds.
const SLICE_SLOTS: usize = 64;
const SLICE_COMPARISONS: u64 = 128;

/// Slices of one part of a walk, whatever it was allowed: some milliseconds at most.
const SLICES_MAX: usize = 64;

/// What a part of a walk has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects removed.
    pub removed: u64,
    /// Objects made stale.
    pub softened: u64,
    /// Whether there is more to do.
    pub more: bool,
    /// Whether the walk has ended, and what is left is for another one.
    pub ended: bool,
}

/// Where the walk is.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<Option<Walk>>);

#[derive(Clone, Copy, Debug)]
struct Walk {
    /// The invalidation up to which everything will have been checked.
    sequence: u64,
    shard: usize,
    slot: usize,
}

impl Sweep {
    /// Walks over about `slots` slots. `begin` gives the number to reach, if there is anything to do; `lock` a shard by
    /// its place; `end` takes the number that was reached.
    pub(crate) fn walk<'a>(
        &self,
        slots: usize,
        begin: impl Fn() -> Option<u64>,
        lock: impl Fn(usize) -> Option<MutexGuard<'a, Shard>>,
        end: impl Fn(u64),
    ) -> Swept {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut swept = Swept::default();
        let start = || begin().map(|sequence| Walk { sequence, shard: 0, slot: 0 });
        let Some(mut walk) = place.take().or_else(start) else { return swept };
        let (mut left, mut slices) = (slots, 0);
        while left > 0 && slices < SLICES_MAX {
            let Some(mut shard) = lock(walk.shard) else {
                end(walk.sequence);
                (swept.more, swept.ended) = (begin().is_some(), true);
                return swept;
            };
            let count = left.min(SLICE_SLOTS);
            let (checked, next) = shard.sweep(walk.slot, count, SLICE_COMPARISONS);
            drop(shard);
            swept.add(checked);
            left -= next.map_or(count, |next| next - walk.slot);
            slices += 1;
            (walk.shard, walk.slot) = next.map_or((walk.shard + 1, 0), |slot| (walk.shard, slot));
        }
        swept.more = true;
        *place = Some(walk);
        swept
    }
}

impl Swept {
    fn add(&mut self, checked: Checked) {
        self.removed += checked.removed;
        self.softened += checked.softened;
    }
}
