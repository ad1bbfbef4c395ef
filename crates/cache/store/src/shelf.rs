//! The disk as the store uses it. Published objects are queued for writing, requested objects are
//! read, invalidations are journaled, and the objects of an earlier process are adopted.
//!
//! Invariant: an invalidation is in force in the store before it is journaled. When
//! [`StoreDisk::persist`] returns `Ok`, it is journaled, or the next start ignores the contents of
//! the disk. The index in memory is the only one: an object missing from it is removed from the
//! disk.

use crate::invalidation_record::{Bans, RestoredInvalidation};
use crate::log::Log;
use crate::record::{HeadRecord, IndexRecord, SiteNames};
use crate::shards::Shards;
use crate::sync::{DiskMutex, Mutex, sound};
use crate::{Body, CHUNK_BYTES, Invalidation, Object, Selector};
use bytes::Bytes;
use defects::{Defect, is_planted};
use disk::{DiskBody, Location, OffReason, ReadError, Record, RecoveredObject, StoredObject, Tier};
use semantics::Moment;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bodies above this size, in bytes, are not read into memory but sent from the disk. The system's
/// page cache holds those in demand. Reading them would also leave memory behind in the allocator
/// for each thread that reads.
const BODY_READ_BYTES_MAX: u64 = 64 << 10;

/// The most invalidations that may wait for the journal or for another process. More than these are
/// replaced by one invalidation of everything.
pub const PENDING_INVALIDATIONS_MAX: usize = 4096;

/// The place on the disk of an object that a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShelvedObject {
    /// The hash of its cache key.
    pub(crate) hash: u64,
    pub(crate) location: Location,
}

/// The disk tier below a store.
pub(crate) struct StoreDisk {
    tier: Tier,
    names: Arc<dyn SiteNames>,
    /// A random number that identifies this process. The monotonic times of other processes are
    /// meaningless here.
    life: u64,
    /// Invalidations that are not journaled yet, with their numbers.
    pending: Mutex<Vec<(u64, Vec<u8>)>>,
    /// Held while invalidations are being journaled. Lock order: `journaling`, then `pending`.
    journaling: DiskMutex<()>,
}

impl StoreDisk {
    pub(crate) fn new(tier: Tier, names: Arc<dyn SiteNames>, life: u64) -> Self {
        Self { tier, names, life, pending: Mutex::default(), journaling: DiskMutex::default() }
    }

    /// Replays the invalidations of an earlier process in the log, and passes each to `hear`.
    pub(crate) fn replay(
        &self,
        log: &Log,
        invalidations: &[(u64, Bytes)],
        bans: &dyn Bans,
        mut hear: impl FnMut(u64, &Selector),
    ) {
        for (sequence, octets) in invalidations {
            if is_planted(Defect::ForgottenJournal) {
                continue;
            }
            let restored = RestoredInvalidation::of_octets(octets, &*self.names, bans);
            let Some(Invalidation { selector, mode }) = restored.due() else { continue };
            log.replay(*sequence, &selector, mode);
            hear(*sequence, &selector);
        }
    }

    /// Queues a stored object for writing.
    ///
    /// `written` is called with the place, or with `None` if the write failed. It returns whether
    /// the object is still wanted there. The result is false if the disk does not accept the
    /// object; `written` is not called then.
    pub(crate) fn write(
        &self,
        entry: &IndexRecord,
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

    /// Records that an object was revalidated and has a new head; its body is unchanged.
    ///
    /// The result is false if the disk does not accept the new head, so that its copy is out of
    /// date. It is true for a tier switched off for good, because nothing in it can be changed or
    /// removed any more.
    pub(crate) fn refresh(&self, location: Location, entry: &IndexRecord, object: &Object) -> bool {
        let entry = IndexRecord { head: Some(object.kept().to_octets(self.life)), ..entry.clone() };
        self.tier.refresh(location, entry.to_octets(&*self.names), entry.checked)
            || matches!(self.tier.off(), Some(OffReason::Io { .. } | OffReason::Closed))
    }

    /// Starts a body too large for memory. `expected` is its length in bytes, if known.
    pub(crate) fn spill(&self, expected: Option<u64>) -> Option<Spill> {
        self.tier.fill(expected).map(Spill)
    }

    /// Completes a spilled body. `object` is its response without the body. `written` is called
    /// with the place and returns whether the object is wanted there.
    pub(crate) fn finish(
        &self,
        spill: Spill,
        entry: &IndexRecord,
        object: &Object,
        written: impl FnOnce(Location) -> bool + Send + 'static,
    ) {
        let index = entry.to_octets(&*self.names);
        let head = object.kept().to_octets(self.life);
        let tier = self.tier.clone();
        spill.0.finish(index, head, entry.checked, move |location| {
            if let Some(location) = location
                && !written(location)
            {
                tier.remove(location);
            }
        });
    }

    /// Reads the object at a place. Blocks.
    ///
    /// The body stays on the disk if it is longer than `bytes_max` or [`BODY_READ_BYTES_MAX`]
    /// bytes, or if `admits` refuses its length. The result is `None` if `is_meant` rejects the
    /// entry, or if the record cannot be decoded.
    ///
    /// # Errors
    /// The object cannot be read, or it is a part (206) for which `admits` found no memory.
    pub(crate) fn read(
        &self,
        place: ShelvedObject,
        is_meant: impl FnOnce(&IndexRecord) -> bool,
        (bytes_max, admits): (u64, impl FnOnce(u64) -> bool),
        now: Moment,
    ) -> Result<Option<Object>, ReadError> {
        let StoredObject { index, head, body } = self.tier.read(place.location)?;
        let Some(entry) = IndexRecord::of_octets(&index, &*self.names).filter(|entry| is_meant(entry)) else {
            return Ok(None);
        };
        let Some(kept) = HeadRecord::of_octets(entry.head.as_ref().unwrap_or(&head), self.life, now) else {
            return Ok(None);
        };
        // A part is read whatever its size, because it is joined with others in memory.
        let is_part = kept.part.is_some();
        let is_read = (is_part || body.len() <= bytes_max.min(BODY_READ_BYTES_MAX)) && admits(body.len());
        let body = match (is_read, is_part) {
            (true, _) => read_body(&body)?,
            (false, true) => return Err(ReadError::Io(io::ErrorKind::OutOfMemory.into())),
            (false, false) => Body::of_disk(body, place),
        };
        Ok(Some(Object::of_kept(kept, &body)))
    }

    /// Decodes the entry of an earlier process's object. `None` if this process cannot use it.
    pub(crate) fn entry(&self, recovered: &RecoveredObject) -> Option<IndexRecord> {
        IndexRecord::of_octets(&recovered.index, &*self.names)
    }

    /// Adds an invalidation to those that are to be journaled.
    pub(crate) fn enlist(&self, sequence: u64, invalidation: &Invalidation) {
        // After a restart, one that is too long for the journal applies to everything.
        let octets = invalidation.to_octets(&*self.names, disk::INVALIDATION_BYTES_MAX);
        let mut pending = lock(&self.pending);
        pending.push((sequence, octets));
        if pending.len() > PENDING_INVALIDATIONS_MAX {
            // One invalidation of everything covers them all. None of them was durable yet, so no
            // promise is broken.
            let sequence = pending.iter().map(|(sequence, _)| *sequence).max().unwrap_or(sequence);
            let everything = Invalidation::EVERYTHING.to_octets(&*self.names, disk::INVALIDATION_BYTES_MAX);
            *pending = vec![(sequence, everything)];
        }
    }

    /// Makes all enlisted invalidations durable. Blocks. Returns `Ok` when the next start will know
    /// each of them, or will certainly begin empty.
    ///
    /// After an error the invalidations are kept, and the next call tries again. So no later caller
    /// receives `Ok` while an earlier invalidation may be missing.
    pub(crate) fn persist(&self) -> Result<(), OffReason> {
        let journaling = sound(self.journaling.lock());
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

    /// Whether an invalidation is not durable and no call of [`StoreDisk::persist`] is working on
    /// it.
    pub(crate) fn is_behind(&self) -> bool {
        !lock(&self.pending).is_empty() || self.tier.is_undurable()
    }

    /// Whether every invalidation so far is durable and no call of [`StoreDisk::persist`] is
    /// running.
    pub(crate) fn is_written_down(&self) -> bool {
        // A running call holds this lock and has taken its invalidations out of the list. The lock
        // is kept while the list is checked, so that no call starts in between.
        let idle = self.journaling.try_lock();
        idle.is_ok() && !self.is_behind()
    }

    pub(crate) const fn tier(&self) -> &Tier {
        &self.tier
    }
}

impl fmt::Debug for StoreDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("life", &self.life).finish_non_exhaustive()
    }
}

/// A body too large for memory, on its way to the disk. Dropping it before it is published discards
/// it.
pub struct Spill(disk::Fill);

impl Spill {
    /// Adds bytes. Call [`Spill::poll_ready`] first, to wait until there is room for them.
    pub fn push(&mut self, octets: Bytes) {
        self.0.push(octets);
    }

    /// Ready with true when there is room for more bytes, with false when the disk accepts no more
    /// of this body.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<bool> {
        self.0.poll_ready(context).map(|ready| ready.is_ok())
    }
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill").finish_non_exhaustive()
    }
}

/// Reads a whole body into newly allocated chunks.
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

/// The slots that are searched under one hold of a shard's lock for objects of a lost segment.
const SLOTS_AT_ONCE: usize = 4096;

/// Answers the disk writer's questions about objects from the shards.
pub(crate) struct ShardRetention(pub(crate) Shards, pub(crate) Tier);

impl disk::RetentionPolicy for ShardRetention {
    fn evicts(&self, location: Location) -> bool {
        self.0.each().find_map(|mut shard| shard.loses(location)).unwrap_or(false)
    }

    fn moved(&self, from: Location, to: Location, renew: &mut dyn FnMut() -> bool) {
        if !self.0.each().any(|mut shard| shard.moved(from, to, renew)) {
            self.1.remove(to);
        }
    }

    fn lost(&self, location: Location) {
        self.0.each().for_each(|mut shard| shard.lost(location));
    }

    fn lost_all(&self, segment: u32) {
        for place in 0..self.0.count() {
            let mut next = Some(0);
            while let Some(from) = next {
                next = self.0.at(place).and_then(|mut shard| shard.lost_in(segment, from, SLOTS_AT_ONCE));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> crate::sync::MutexGuard<'_, T> {
    sound(mutex.lock())
}
