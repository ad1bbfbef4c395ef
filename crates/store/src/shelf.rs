//! The disk, as the store uses it: what is stored is written behind, what is asked for is read, invalidations are
//! journaled, and what an earlier process left is taken over.
//!
//! Invariant: an invalidation is known to the store before it is journaled, and journaled, or made moot, before
//! [`Shelf::persist`] returns `Ok`. The index in memory is the only one: what is not in it is removed from the disk.

use crate::invalidation_record::{self, Bans, Restored};
use crate::log::Log;
use crate::record::{Entry, Kept, SiteNames};
use crate::shard::Shard;
use crate::sync::{Mutex, PoisonError};
use crate::{Body, CHUNK_BYTES, Invalidation, Mode, Object, Selector};
use bytes::Bytes;
use disk::{DiskBody, Location, OffReason, ReadError, Record, Recovered, Stored, Tier};
use semantics::Moment;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A larger body is not read into memory again, but sent from the disk: the system keeps in memory what of it is in
/// demand. Each thread that reads has memory from the allocator, which keeps some of what larger bodies have left.
const BODY_READ_BYTES_MAX: u64 = 64 << 10;

/// Most invalidations that wait to be journaled. Beyond it they become one of everything.
const PENDING_MAX: usize = 4096;

/// Where on the disk an object is that a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shelved {
    /// The hash of its key.
    pub(crate) hash: u64,
    pub(crate) location: Location,
}

/// The disk below a store.
pub(crate) struct Shelf {
    tier: Tier,
    names: Arc<dyn SiteNames>,
    /// A number of this process alone: the monotonic clock of another says nothing here.
    life: u64,
    /// Invalidations that are not journaled yet.
    pending: Mutex<Vec<(u64, Vec<u8>)>>,
    /// Held while some are being journaled.
    journaling: Mutex<()>,
}

impl Shelf {
    pub(crate) fn new(tier: Tier, names: Arc<dyn SiteNames>, life: u64) -> Self {
        Self { tier, names, life, pending: Mutex::default(), journaling: Mutex::default() }
    }

    /// Takes down what an earlier process knew to be invalidated, and tells `hear`.
    pub(crate) fn replay(
        &self,
        log: &Log,
        invalidations: &[(u64, Bytes)],
        bans: &dyn Bans,
        mut hear: impl FnMut(u64, &Selector),
    ) {
        for (sequence, octets) in invalidations {
            let everything =
                || Invalidation { selector: Selector::Everything { site: None }, mode: Mode::Hard };
            let Invalidation { selector, mode } =
                match invalidation_record::of_octets(octets, &*self.names, bans) {
                    Restored::Same(invalidation) => invalidation,
                    Restored::OfNoSite => continue,
                    Restored::Unreadable => everything(),
                };
            log.replay(*sequence, &selector, mode);
            hear(*sequence, &selector);
        }
    }

    /// Writes an object that was stored. `written` is told where it is, if it could be written, and says whether it is
    /// still wanted there. False if the disk does not take it; then `written` is not asked.
    pub(crate) fn write(
        &self,
        entry: &Entry,
        object: &Arc<Object>,
        written: impl FnOnce(Option<Location>) -> bool + Send + 'static,
    ) -> bool {
        let record = Record {
            index: entry.to_octets(&*self.names),
            head: object.kept().to_octets(self.life),
            body: object.body().chunks().to_vec(),
            sequence: entry.checked,
        };
        let tier = self.tier.clone();
        self.tier.write(record, move |location| {
            if !written(location)
                && let Some(location) = location
            {
                tier.remove(location);
            }
        })
    }

    /// What is at a place was confirmed with another head; its body stays as it is. False if the disk does not take
    /// that: then what it has is out of date. A disk that is off for good stays as it is, whatever becomes of objects.
    pub(crate) fn refresh(&self, location: Location, entry: &Entry, object: &Object) -> bool {
        let entry = Entry { head: Some(object.kept().to_octets(self.life)), ..entry.clone() };
        self.tier.refresh(location, entry.to_octets(&*self.names), entry.checked)
            || matches!(self.tier.off(), Some(OffReason::Io { .. } | OffReason::Closed))
    }

    /// Begins a body that is too large for memory, of `expected` octets if that is known.
    pub(crate) fn spill(&self, expected: Option<u64>) -> Option<Spill> {
        self.tier.fill(expected).map(Spill)
    }

    /// Ends such a body; `object` is its response without it. `written` is told where it is, and says whether it is
    /// wanted there.
    pub(crate) fn finish(
        &self,
        spill: Spill,
        entry: &Entry,
        object: &Object,
        written: impl FnOnce(Location) -> bool + Send + 'static,
    ) {
        let (index, head) = (entry.to_octets(&*self.names), object.kept().to_octets(self.life));
        let tier = self.tier.clone();
        spill.0.finish(index, head, entry.checked, move |location| {
            if let Some(location) = location
                && !written(location)
            {
                tier.remove(location);
            }
        });
    }

    /// Reads what is at a place; blocks. A body of more than `bytes_max` octets, or [`BODY_READ_BYTES_MAX`], or that
    /// `admits` does not let into memory, stays on the disk. `None` if it is not what the index said.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read(
        &self,
        place: Shelved,
        is_meant: impl FnOnce(&Entry) -> bool,
        (bytes_max, admits): (u64, impl FnOnce(u64) -> bool),
        now: Moment,
    ) -> Result<Option<Object>, ReadError> {
        let Stored { index, head, body } = self.tier.read(place.location)?;
        let Some(entry) = Entry::of_octets(&index, &*self.names).filter(|entry| is_meant(entry)) else {
            return Ok(None);
        };
        let Some(kept) = Kept::of_octets(entry.head.as_ref().unwrap_or(&head), self.life, now) else {
            return Ok(None);
        };
        // A part is joined with others in memory, whatever its size.
        let is_part = kept.part.is_some();
        let is_read = (is_part || body.len() <= bytes_max.min(BODY_READ_BYTES_MAX)) && admits(body.len());
        let body = match (is_read, is_part) {
            (true, _) => read_body(&body)?,
            (false, true) => return Err(ReadError::Io(io::ErrorKind::OutOfMemory.into())),
            (false, false) => Body::of_disk(body, place),
        };
        Ok(Some(Object::of_kept(kept, &body)))
    }

    /// What an earlier process wrote, read back; `None` if it is of no use to this one.
    pub(crate) fn entry(&self, recovered: &Recovered) -> Option<Entry> {
        Entry::of_octets(&recovered.index, &*self.names)
    }

    /// Takes note of an invalidation that is to be journaled.
    pub(crate) fn enlist(&self, sequence: u64, invalidation: &Invalidation) {
        let octets = invalidation_record::to_octets(invalidation, &*self.names);
        let octets = if octets.len() <= disk::INVALIDATION_BYTES_MAX {
            octets
        } else {
            // Too long to be written: after a restart it means everything.
            let everything =
                Invalidation { selector: Selector::Everything { site: None }, mode: invalidation.mode };
            invalidation_record::to_octets(&everything, &*self.names)
        };
        let mut pending = lock(&self.pending);
        pending.push((sequence, octets));
        if pending.len() > PENDING_MAX {
            // One invalidation of everything covers them all. None of them is durable, so nothing is lost by it yet.
            let sequence = pending.iter().map(|(sequence, _)| *sequence).max().unwrap_or(sequence);
            let everything = Invalidation { selector: Selector::Everything { site: None }, mode: Mode::Hard };
            *pending = vec![(sequence, invalidation_record::to_octets(&everything, &*self.names))];
        }
    }

    /// Returns `Ok` when every invalidation that was enlisted before is known to the next start, or when the next start
    /// is known to begin empty; blocks. After an error the invalidations are kept, and the next call tries again: so no
    /// later caller is told `Ok` while an earlier invalidation could be missing.
    pub(crate) fn persist(&self) -> Result<(), OffReason> {
        let journaling = lock(&self.journaling);
        let mut taken = VecDeque::from(std::mem::take(&mut *lock(&self.pending)));
        let mut outcome = Ok(());
        while let Some((sequence, octets)) = taken.front() {
            outcome = self.tier.journal_invalidation(*sequence, octets);
            if outcome.is_err() {
                break;
            }
            taken.pop_front();
        }
        if !taken.is_empty() {
            let mut pending = lock(&self.pending);
            taken.extend(pending.drain(..));
            *pending = taken.into();
        }
        let outcome = outcome.and_then(|()| self.tier.confirm());
        drop(journaling);
        outcome
    }

    /// Whether an invalidation is not durable, and no call of [`Shelf::persist`] is under way for it.
    pub(crate) fn is_behind(&self) -> bool {
        !lock(&self.pending).is_empty() || self.tier.is_undurable()
    }

    /// Whether every invalidation so far is durable: none waits, and no call of [`Shelf::persist`] is under way.
    pub(crate) fn is_written_down(&self) -> bool {
        // A call under way holds this lock and has taken its invalidations out of the list. The lock is kept
        // while the list is read, so that no call begins in between.
        let idle = self.journaling.try_lock();
        idle.is_ok() && !self.is_behind()
    }

    pub(crate) const fn tier(&self) -> &Tier {
        &self.tier
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("life", &self.life).finish_non_exhaustive()
    }
}

/// A body that is too large for memory, on its way to the disk. Dropped before its end, it is forgotten.
pub struct Spill(disk::Fill);

impl Spill {
    /// Adds octets. [`Spill::poll_ready`] says when there is room for them.
    pub fn push(&mut self, octets: Bytes) {
        self.0.push(octets);
    }

    /// Ready when there is room for more octets; false when the disk takes no more of it.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<bool> {
        self.0.poll_ready(context).map(|ready| ready.is_ok())
    }
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill").finish_non_exhaustive()
    }
}

/// All of a body, in chunks of their own.
fn read_body(body: &DiskBody) -> Result<Body, ReadError> {
    let mut chunks = Vec::new();
    let mut offset = 0;
    while offset < body.len() {
        let chunk = body.read_at(offset, CHUNK_BYTES)?;
        offset += chunk.len() as u64;
        chunks.push(chunk);
    }
    Ok(Body::gathered(&chunks))
}

/// The shards, as the disk's writer asks them.
pub(crate) struct Keeper(pub(crate) Arc<[Mutex<Shard>]>, pub(crate) Tier);

impl disk::Keeper for Keeper {
    fn evicts(&self, location: Location) -> bool {
        self.0.iter().find_map(|shard| lock(shard).loses(location)).unwrap_or(false)
    }

    fn moved(&self, from: Location, to: Location) {
        if !self.0.iter().any(|shard| lock(shard).moved(from, to)) {
            self.1.remove(to);
        }
    }

    fn lost(&self, location: Location) {
        self.0.iter().for_each(|shard| lock(shard).lost(location));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> crate::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
