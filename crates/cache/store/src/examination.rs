//! A walk that reads and checks every object that the store has on the disk.
//!
//! Invariant: no lock is held during a disk operation, and a damaged object is removed before the
//! walk goes on.

use crate::{ShelvedObject, Store};
use disk::{DiskBody, ReadError, StoredObject};

/// Slots that are looked at under one hold of a shard's lock.
const SLOTS_AT_ONCE: usize = 1_024;

/// The progress of a walk over the disk.
#[derive(Default)]
pub struct Examination {
    shard: usize,
    slot: usize,
    /// The body being read, and the offset reached.
    current: Option<(ShelvedObject, DiskBody, u64)>,
}

/// The result of a step of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExaminationStep {
    /// This number of bytes was read and matches its checksums.
    Sound(u64),
    /// An object could not be read or did not match its checksums. It has been removed.
    Damaged,
    /// The walk has visited every object. The next step starts again.
    End,
}

impl Examination {
    /// Reads at most `bytes_max` bytes of a body, or one head, or skips some slots. Blocks.
    pub fn step(&mut self, store: &Store, bytes_max: usize) -> ExaminationStep {
        match self.current.take() {
            Some((place, body, offset)) => match body.read_at(offset, bytes_max) {
                Ok(octets) => {
                    let read = octets.len() as u64;
                    if offset + read < body.len() {
                        self.current = Some((place, body, offset + read));
                    }
                    ExaminationStep::Sound(read)
                }
                Err(error) => found(store, place, &error),
            },
            None => self.advance(store),
        }
    }

    /// Starts with the next object.
    fn advance(&mut self, store: &Store) -> ExaminationStep {
        let Some(next) = store.next_place(self.shard, self.slot, SLOTS_AT_ONCE) else {
            *self = Self::default();
            return ExaminationStep::End;
        };
        let Some((place, slot)) = next else {
            self.shard += 1;
            self.slot = 0;
            return ExaminationStep::Sound(0);
        };
        self.slot = slot;
        let Some(place) = place else { return ExaminationStep::Sound(0) };
        match store.read_aside(place) {
            Some(Ok(StoredObject { index, head, body })) => {
                if !body.is_empty() {
                    self.current = Some((place, body, 0));
                }
                ExaminationStep::Sound((index.len() + head.len()) as u64)
            }
            Some(Err(error)) => found(store, place, &error),
            None => ExaminationStep::Sound(0),
        }
    }
}

fn found(store: &Store, place: ShelvedObject, error: &ReadError) -> ExaminationStep {
    // A missing object was evicted or removed meanwhile.
    if matches!(error, ReadError::Gone) || error.is_passing() {
        return ExaminationStep::Sound(0);
    }
    store.forget_place(place);
    ExaminationStep::Damaged
}

impl std::fmt::Debug for Examination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shard, slot, .. } = self;
        f.debug_struct("Examination").field("shard", shard).field("slot", slot).finish_non_exhaustive()
    }
}
