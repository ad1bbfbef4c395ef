//! The face of the tier for callers.
//!
//! Invariant: nothing here waits for the disk but `read`, `journal_invalidation`, `confirm`, `set_aside`, `take_back`
//! and `close`.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use platform::DiskFile;

use crate::figures::{add, of};
use crate::fill::Fill;
use crate::index_file::Entries;
use crate::open_segment::Incoming;
use crate::queue::{Answer, Command};
use crate::record::{Figures, HEAD_BYTES_MAX, INDEX_BYTES_MAX, INVALIDATION_BYTES_MAX, Location, Record};
use crate::segment::{Refreshed, Segment};
use crate::shared::Shared;
use crate::stored::Stored;
use crate::watch::Stuck;
use crate::{DistrustPlace, OffReason, ReadError};

/// The lock and the mark, in bytes and files.
const FIXED_BYTES: u64 = 4096;
const FIXED_FILES: u64 = 3;

/// The face of the tier for callers. Clones are one tier.
#[derive(Clone)]
pub struct Tier {
    pub(crate) shared: Arc<Shared>,
}

impl Tier {
    /// Queues an object. `done` is called with its place once it is written, or with `None` if it could not be.
    /// `false`: refused (off, too large or queue full), and `done` is not called.
    pub fn write(&self, record: Record, done: impl FnOnce(Option<Location>) + Send + 'static) -> bool {
        let bytes = Incoming::bytes(&record);
        let is_fit = record.index.len() <= INDEX_BYTES_MAX
            && record.head.len() <= HEAD_BYTES_MAX
            && bytes <= self.shared.plan.object_bytes_max;
        let accepted = is_fit
            && self.shared.status.off().is_none()
            && self.shared.queue.add(bytes, |number| Command::Write {
                record,
                order: self.shared.order(number),
                done: Answer::new(Box::new(done)),
            });
        if !accepted {
            add(&self.shared.counters.refused, 1);
        }
        accepted
    }

    /// Begins a body that streams in, of `expected` octets if that is known. `None`: refused (off, too large, or
    /// too many stream in already).
    pub fn fill(&self, expected: Option<u64>) -> Option<Fill> {
        Fill::begin(&self.shared, expected)
    }

    /// Gives the object a new index and number; its body and head stay. It counts as proven from now on: what is not
    /// proven must be validated first. Readers see the new index at once. If the queue is full it is refused and
    /// counted, and the old index stands. `false`: refused (off for good, too large, queue full), or the object is
    /// gone.
    pub fn refresh(&self, location: Location, index: Bytes, sequence: u64) -> bool {
        if index.len() > INDEX_BYTES_MAX {
            add(&self.shared.counters.refused, 1);
            return false;
        }
        self.shared.refresh(location, index, sequence)
    }

    /// Forgets an object. The location is not to be used any more.
    pub fn remove(&self, location: Location) {
        self.shared.remove(location);
    }

    /// Reads an object's index and head, checked, and opens its body. Blocks.
    ///
    /// # Errors
    /// As [`ReadError`] says.
    pub fn read(&self, location: Location) -> Result<Stored, ReadError> {
        let shared = &self.shared;
        let read = self.try_read(location, |segment| shared.segments.data(segment));
        read.inspect_err(|error| shared.counters.count_read(error))
    }

    /// As [`Tier::read`], through a file of its own that leaves the system's page cache alone where it can: for
    /// verification. Blocks.
    ///
    /// # Errors
    /// As [`ReadError`] says.
    pub fn read_aside(&self, location: Location) -> Result<Stored, ReadError> {
        let shared = &self.shared;
        let read = self.try_read(location, |segment| shared.segments.data_aside(segment));
        read.inspect_err(|error| shared.counters.count_read(error))
    }

    fn try_read(
        &self,
        location: Location,
        open: impl FnOnce(&Segment) -> io::Result<Arc<dyn DiskFile>>,
    ) -> Result<Stored, ReadError> {
        let shared = &self.shared;
        let segment = shared.segments.of(location.segment).ok_or(ReadError::Gone)?;
        let file = open(&segment).map_err(gone)?;
        let mut stored = Stored::read(file, location, Arc::clone(&shared.counters))?;
        if let Some(index) = self.refreshed(&segment, location.offset)? {
            stored.index = index;
        }
        Ok(stored)
    }

    /// The index that the object was last refreshed with, if it was.
    fn refreshed(&self, segment: &Segment, offset: u64) -> Result<Option<Bytes>, ReadError> {
        match segment.state().refreshed.get(&offset) {
            None => return Ok(None),
            Some(Refreshed::Queued { index, .. }) => return Ok(Some(index.clone())),
            Some(Refreshed::Written { .. }) => {}
        }
        let file = self.shared.segments.index(segment).map_err(gone)?;
        // The index may have been written anew since: the file and the place in it are taken together.
        let (file, position, bytes) = {
            let state = segment.state();
            match state.refreshed.get(&offset) {
                None => return Ok(None),
                Some(Refreshed::Queued { index, .. }) => return Ok(Some(index.clone())),
                Some(Refreshed::Written { position, bytes }) => {
                    (state.index.clone().unwrap_or(file), *position, *bytes)
                }
            }
        };
        Entries::of(segment.id).read_index(&*file, offset, (position, bytes)).map(Some)
    }

    /// Writes an invalidation of at most [`INVALIDATION_BYTES_MAX`] octets down. Blocks until it has survived what the
    /// tier's durability says. Works also while the tier is off.
    ///
    /// # Errors
    /// The invalidation could not be written and what it means may be found at the next start, or the tier is closed.
    pub fn journal_invalidation(&self, sequence: u64, octets: &[u8]) -> Result<(), OffReason> {
        if octets.len() > INVALIDATION_BYTES_MAX {
            return Err(OffReason::TooLarge);
        }
        self.shared.journal.add(sequence, octets)
    }

    /// Whether an invalidation may be missing at the next start although the tier was told. [`Tier::confirm`] tries
    /// again to mend that.
    pub fn is_undurable(&self) -> bool {
        self.shared.journal.is_undurable()
    }

    /// Tries again to record that the contents are not to be used, where that is due. Blocks.
    ///
    /// # Errors
    /// No place for the record works.
    pub fn confirm(&self) -> Result<(), OffReason> {
        self.shared.journal.confirm()
    }

    /// Records outside of the tier's directory that the next start begins empty, and gives the place; `None` if no
    /// place works. For invalidations while the directory's disk hangs: this does not wait for that disk, only for
    /// those of the state and runtime directories. Blocks.
    pub fn set_aside(&self) -> Option<DistrustPlace> {
        self.shared.journal.set_aside()
    }

    /// Takes back what [`Tier::set_aside`] has recorded at `place`, once all invalidations are journaled. `false`: the
    /// next start begins empty all the same, or may. Blocks.
    pub fn take_back(&self, place: DistrustPlace) -> bool {
        self.shared.journal.take_back(place)
    }

    /// Where it is recorded that the next start begins empty for good; `None`: it is not.
    pub fn distrusted(&self) -> Option<DistrustPlace> {
        self.shared.status.distrusted()
    }

    /// How the tier stands.
    pub fn figures(&self) -> Figures {
        let shared = &self.shared;
        let counters = &shared.counters;
        let segments = shared.segments.all();
        let (accepted, queue_bytes) = shared.queue.figures();
        Figures {
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
            fills_unshared: of(&counters.fills_unshared),
            hangs: of(&counters.hangs),
            stuck: shared.watch.stuck().len() as u64,
        }
    }

    /// Why nothing is written at the moment; `None`: the tier works.
    pub fn off(&self) -> Option<OffReason> {
        self.shared.status.off()
    }

    /// Looks whether the disk hangs, and lets bodies that wait for it give up; to be called again and again. A disk
    /// that has hung is used again once it answers and `may_return`. Does not block.
    pub fn look_after(&self, may_return: bool) {
        if self.shared.watch.look(may_return) {
            self.shared.queue.release(0);
        }
    }

    /// The operations that the disk has not answered in time, with the threads that wait for them.
    pub fn stuck(&self) -> Vec<Stuck> {
        self.shared.watch.stuck()
    }

    /// Writes what is queued, syncs it, and marks the directory as cleanly left. Waits for a writer that runs; one that
    /// is stepped ends with its steps. `false`: the disk hangs, and the writer was left behind.
    pub fn close(&self) -> bool {
        self.shared.queue.close();
        self.shared.queue.wait_finished(|| self.shared.watch.stuck().is_empty())
    }
}

/// A file that is not there any more was evicted.
fn gone(error: io::Error) -> ReadError {
    if error.kind() == io::ErrorKind::NotFound { ReadError::Gone } else { ReadError::Io(error) }
}
