//! The interface of the tier for its callers.
//!
//! Invariant: only `read`, `read_aside`, `journal_invalidation`, `confirm`, `set_aside`,
//! `take_back` and `close` wait for a disk.

use std::io;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;

use platform::DiskFile;

use crate::figures::{add, of};
use crate::fill::Fill;
use crate::index_file::IndexEncoder;
use crate::open_segment::PendingObject;
use crate::operation_watch::StuckOperation;
use crate::queue::{Command, WriteCallback};
use crate::record::{HEAD_BYTES_MAX, INDEX_BYTES_MAX, INVALIDATION_BYTES_MAX, Location, Record, TierFigures};
use crate::segment::{RefreshedIndex, Segment};
use crate::stored::StoredObject;
use crate::tier_state::TierState;
use crate::{DistrustPlace, OffReason, ReadError};

/// The bytes of the lock and the mark, generously rounded, and the number of files beside segments:
/// lock, mark and journal.
const FIXED_BYTES: u64 = 4096;
const FIXED_FILES: u64 = 3;

/// The interface of the tier for its callers. Clones refer to the same tier.
#[derive(Clone)]
pub struct Tier {
    pub(crate) shared: Arc<TierState>,
}

impl Tier {
    /// Queues an object for writing. `done` is called with its location once it is written, or with
    /// `None` if that failed.
    ///
    /// Returns false without calling `done` if the tier is off, the object is too large or the
    /// queue is full.
    pub fn write(&self, record: Record, done: impl FnOnce(Option<Location>) + Send + 'static) -> bool {
        let bytes = PendingObject::bytes(&record);
        let is_fit = record.index.len() <= INDEX_BYTES_MAX
            && record.head.len() <= HEAD_BYTES_MAX
            && bytes <= self.shared.plan.object_bytes_max;
        let accepted = is_fit
            && self.shared.status.off().is_none()
            && self.shared.queue.add(bytes, |number| Command::Write {
                record,
                order: self.shared.order(number),
                done: WriteCallback::new(Box::new(done)),
            });
        if !accepted {
            add(&self.shared.counters.refused, 1);
        }
        accepted
    }

    /// Starts a body to be written while it is being received. `expected` is its length in bytes,
    /// if known. `None` if the tier is off, the body is too large, or the running fills leave no
    /// room.
    pub fn fill(&self, expected: Option<u64>) -> Option<Fill> {
        Fill::begin(&self.shared, expected)
    }

    /// Replaces the index entry and the number of an object. Its head and body stay. Readers see
    /// the new entry at once. The object counts as proven from now on, so the caller must have
    /// validated an unproven one.
    ///
    /// Returns false if the object is gone, the tier is off for good, the entry is too large or the
    /// queue is full. The old entry then stays in force.
    pub fn refresh(&self, location: Location, index: Bytes, sequence: u64) -> bool {
        if index.len() > INDEX_BYTES_MAX {
            add(&self.shared.counters.refused, 1);
            return false;
        }
        self.shared.refresh(location, index, sequence)
    }

    /// Removes an object. Its location must not be used afterwards.
    pub fn remove(&self, location: Location) {
        self.shared.remove(location);
    }

    /// Reads and checks an object's index entry and head, and opens its body. Blocks.
    ///
    /// # Errors
    /// As described for [`ReadError`].
    pub fn read(&self, location: Location) -> Result<StoredObject, ReadError> {
        let shared = &self.shared;
        let read = self.try_read(location, |segment| shared.segments.data(segment));
        read.inspect_err(|error| shared.counters.count_read(error))
    }

    /// As [`Tier::read`], but opens the file anew and bypasses the system's page cache if possible.
    /// This is for verification. Blocks.
    ///
    /// # Errors
    /// As described for [`ReadError`].
    pub fn read_aside(&self, location: Location) -> Result<StoredObject, ReadError> {
        let shared = &self.shared;
        let read = self.try_read(location, |segment| shared.segments.data_aside(segment));
        read.inspect_err(|error| shared.counters.count_read(error))
    }

    fn try_read(
        &self,
        location: Location,
        open: impl FnOnce(&Segment) -> io::Result<Arc<dyn DiskFile>>,
    ) -> Result<StoredObject, ReadError> {
        let shared = &self.shared;
        let segment = shared.segments.of(location.segment).ok_or(ReadError::Gone)?;
        let file = open(&segment).map_err(gone)?;
        let mut stored = StoredObject::read(file, location, Arc::clone(&shared.counters))?;
        if let Some(index) = self.refreshed(&segment, location.offset)? {
            stored.index = index;
        }
        Ok(stored)
    }

    /// The index entry that the object was last refreshed with. `None` if it never was.
    fn refreshed(&self, segment: &Segment, offset: u64) -> Result<Option<Bytes>, ReadError> {
        match segment.state().refreshed.get(&offset) {
            None => return Ok(None),
            Some(RefreshedIndex::Queued { index, .. }) => return Ok(Some(index.clone())),
            Some(RefreshedIndex::Written { .. }) => {}
        }
        let file = self.shared.segments.index(segment).map_err(gone)?;
        // The index file may have been compacted meanwhile, so the file and the position in it are
        // taken under one lock.
        let (file, position, bytes) = {
            let state = segment.state();
            match state.refreshed.get(&offset) {
                None => return Ok(None),
                Some(RefreshedIndex::Queued { index, .. }) => return Ok(Some(index.clone())),
                Some(RefreshedIndex::Written { position, bytes }) => {
                    (state.index.clone().unwrap_or(file), *position, *bytes)
                }
            }
        };
        IndexEncoder::of(segment.id).read_index(&*file, offset, (position, bytes)).map(Some)
    }

    /// Journals an invalidation of at most [`INVALIDATION_BYTES_MAX`] bytes. Blocks until it is as
    /// durable as [`Durability`](crate::Durability) demands. This works while the tier is off, too.
    ///
    /// # Errors
    /// The tier is closed, or the invalidation is too long or could not be journaled. In the last
    /// case the next start may find objects that it applies to.
    pub fn journal_invalidation(&self, sequence: u64, octets: &[u8]) -> Result<(), OffReason> {
        if octets.len() > INVALIDATION_BYTES_MAX {
            return Err(OffReason::TooLarge);
        }
        self.shared.journal.add(sequence, octets)
    }

    /// Whether an invalidation may be missing at the next start although it was passed to the tier.
    /// [`Tier::confirm`] tries to repair that.
    pub fn is_undurable(&self) -> bool {
        self.shared.journal.is_undurable()
    }

    /// If an invalidation could not be journaled, tries again to record that the contents must not
    /// be used. Blocks.
    ///
    /// # Errors
    /// No place accepts the record.
    pub fn confirm(&self) -> Result<(), OffReason> {
        self.shared.journal.confirm()
    }

    /// Records outside of the tier's directory that the next start must begin empty. Returns the
    /// place, or `None` if no place accepts the record. Blocks.
    ///
    /// This serves for invalidations while the tier's disk hangs. It waits for the disks of the
    /// state and runtime directories only.
    pub fn set_aside(&self) -> Option<DistrustPlace> {
        self.shared.journal.set_aside()
    }

    /// Withdraws the record that [`Tier::set_aside`] made at `place`, after all invalidations have
    /// been journaled. Returns false if the next start may begin empty all the same. Blocks.
    pub fn take_back(&self, place: DistrustPlace) -> bool {
        self.shared.journal.take_back(place)
    }

    /// The place where it is recorded that the next start begins empty, or `None` if there is no
    /// such record. Records of [`Tier::set_aside`] do not count here.
    pub fn distrusted(&self) -> Option<DistrustPlace> {
        self.shared.status.distrusted()
    }

    /// The tier's statistics.
    pub fn figures(&self) -> TierFigures {
        let shared = &self.shared;
        let counters = &shared.counters;
        let segments = shared.segments.all();
        let (accepted, queue_bytes) = shared.queue.figures();
        TierFigures {
            bytes: shared.used_bytes() + FIXED_BYTES,
            files: 2 * segments.len() as u64 + FIXED_FILES,
            segments: segments.len() as u64,
            objects: segments.iter().map(|segment| of(&segment.objects)).sum(),
            queue_bytes,
            accepted,
            durable: of(&counters.durable),
            synced: of(&counters.synced),
            written: of(&counters.written),
            refused: of(&counters.refused),
            evicted: of(&counters.evicted),
            kept: of(&counters.kept),
            torn: of(&counters.torn),
            invalidations: of(&counters.invalidations),
            invalidation_bytes: shared.journal.bytes(),
            damaged: of(&counters.damaged),
            io_errors: of(&counters.io_errors),
            full: of(&counters.full),
            fill_bytes: shared.fill_share.taken(),
            fill_waiting_bytes: shared.fill_share.waiting(),
            fills_unshared: of(&counters.fills_unshared),
            hangs: of(&counters.hangs),
            stuck: shared.watch.stuck().len() as u64,
        }
    }

    /// The reason why nothing is written at the moment, or `None` if the tier works.
    pub fn off(&self) -> Option<OffReason> {
        self.shared.status.off()
    }

    /// Checks whether the disk hangs, and if so lets fills that wait for it give up. Call it
    /// regularly. A disk that has hung is used again once it answers and `may_return` is set. Does
    /// not block.
    pub fn look_after(&self, may_return: bool) {
        if self.shared.watch.look(may_return) {
            self.shared.queue.release(0);
        }
    }

    /// The operations that the disk has not answered in time, with the threads that wait for them.
    pub fn stuck(&self) -> Vec<StuckOperation> {
        self.shared.watch.stuck()
    }

    /// Writes all queued operations, syncs them, and marks the directory as cleanly closed. Waits
    /// for a writer that runs on a thread. A writer driven by
    /// [`DiskWriter::step`](crate::DiskWriter::step) finishes with its next steps.
    ///
    /// Returns false if the disk hangs, so that the writer was left behind.
    pub fn close(&self) -> bool {
        self.shared.queue.close();
        self.shared.queue.wait_finished(|| self.shared.watch.stuck().is_empty())
    }

    /// Lets another process open the directory. Call it after [`Tier::close`] has returned true and
    /// the writer has returned. Objects can be read from here on as long as that process keeps
    /// them.
    pub fn give_up_lock(&self) {
        let lock = self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(lock);
    }
}

/// A file that does not exist any more belonged to an evicted segment.
fn gone(error: io::Error) -> ReadError {
    if error.kind() == io::ErrorKind::NotFound { ReadError::Gone } else { ReadError::Io(error) }
}
