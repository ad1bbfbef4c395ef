//! The sweep: a walk over all objects that removes or softens invalidated ones.
//!
//! Invariant: a walk checks every object that was stored when it began against every invalidation
//! recorded by then. Objects that are stored later were checked when they were stored. Look-ups do
//! not depend on the sweep: it only frees memory, and lets the ledger forget invalidations.

use crate::shard::SlotCheck;
use crate::shards::LockedShard;
use crate::sync::{Mutex, sound};

/// The most slots of a slice, which is checked under one hold of a shard's lock. Comparisons with
/// listed invalidations may end it earlier. So a look-up waits some tens of microseconds.
const SLICE_SLOTS: usize = 64;
const SLICE_COMPARISONS: u64 = 128;

/// The most slices of one call, whatever number of slots was requested. It takes some milliseconds
/// at most.
const SLICES_MAX: usize = 64;

/// The result of a part of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects removed.
    pub removed: u64,
    /// Objects made stale.
    pub softened: u64,
    /// Whether there is more to do.
    pub more: bool,
    /// Whether a walk has ended. Invalidations that came during the walk are left to the next one.
    pub ended: bool,
}

/// The position of the walk, or `None` between walks.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<Option<SweepPosition>>);

#[derive(Clone, Copy, Debug)]
struct SweepPosition {
    /// At the end of the walk, every object will have been checked up to this number.
    sequence: u64,
    shard: usize,
    slot: usize,
}

impl Sweep {
    /// Checks about `slots` slots. `begin` returns the number that a new walk has to reach, if
    /// there is anything to do. `lock` locks the shard with an index. `end` receives the number
    /// that a complete walk has reached.
    pub(crate) fn walk<'a>(
        &self,
        slots: usize,
        begin: impl Fn() -> Option<u64>,
        lock: impl Fn(usize) -> Option<LockedShard<'a>>,
        end: impl Fn(u64),
    ) -> Swept {
        let mut place = sound(self.0.lock());
        let mut swept = Swept::default();
        let start = || begin().map(|sequence| SweepPosition { sequence, shard: 0, slot: 0 });
        let Some(mut walk) = place.take().or_else(start) else { return swept };
        let mut left = slots;
        let mut slices = 0;
        while left > 0 && slices < SLICES_MAX {
            let Some(mut shard) = lock(walk.shard) else {
                end(walk.sequence);
                swept.more = begin().is_some();
                swept.ended = true;
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
    fn add(&mut self, checked: SlotCheck) {
        self.removed += checked.removed;
        self.softened += checked.softened;
    }
}
