//! A walk over everything that the store has on the disk, which reads and checks it.
//!
//! Invariant: no lock is held while the disk works, and what is found damaged is forgotten before the walk goes on.

use crate::{Shelved, Store};
use disk::{DiskBody, ReadError, Stored};

/// Slots that are looked at under one lock.
const SLOTS_AT_ONCE: usize = 1_024;

/// How far a walk over the disk is.
#[derive(Default)]
pub struct Examination {
    shard: usize,
    slot: usize,
    /// What is being read, and how far.
    current: Option<(Shelved, DiskBody, u64)>,
}

/// What a step of the walk did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// So many bytes were read and are as they were written.
    Sound(u64),
    /// Something could not be read or was not as it was written, and is forgotten.
    Damaged,
    /// The walk has come round, and begins again with the next step.
    End,
}

impl Examination {
    /// Goes on by at most `bytes_max` bytes of a body, or by one head. Blocks.
    pub fn step(&mut self, store: &Store, bytes_max: usize) -> Examined {
        match self.current.take() {
            Some((place, body, offset)) => match body.read_at(offset, bytes_max) {
                Ok(octets) => {
                    let read = octets.len() as u64;
                    if offset + read < body.len() {
                        self.current = Some((place, body, offset + read));
                    }
                    Examined::Sound(read)
                }
                Err(error) => found(store, place, &error),
            },
            None => self.advance(store),
        }
    }

    /// Begins with the next object.
    fn advance(&mut self, store: &Store) -> Examined {
        let Some(next) = store.next_place(self.shard, self.slot, SLOTS_AT_ONCE) else {
            *self = Self::default();
            return Examined::End;
        };
        let Some((place, slot)) = next else {
            (self.shard, self.slot) = (self.shard + 1, 0);
            return Examined::Sound(0);
        };
        self.slot = slot;
        let Some(place) = place else { return Examined::Sound(0) };
        match store.read_aside(place) {
            Some(Ok(Stored { index, head, body })) => {
                if !body.is_empty() {
                    self.current = Some((place, body, 0));
                }
                Examined::Sound((index.len() + head.len()) as u64)
            }
            Some(Err(error)) => found(store, place, &error),
            None => Examined::Sound(0),
        }
    }
}

fn found(store: &Store, place: Shelved, error: &ReadError) -> Examined {
    // What is gone was evicted or removed meanwhile.
    if matches!(error, ReadError::Gone) || error.is_passing() {
        return Examined::Sound(0);
    }
    store.forget_place(place);
    Examined::Damaged
}

impl std::fmt::Debug for Examination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shard, slot, .. } = self;
        f.debug_struct("Examination").field("shard", shard).field("slot", slot).finish_non_exhaustive()
    }
}
