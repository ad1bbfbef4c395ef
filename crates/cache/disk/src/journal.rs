//! The journal of invalidations. Callers that add entries at the same time share one write and one
//! sync.
//!
//! Invariant: `Ok` means that the next start will know the invalidation, or that it will begin
//! empty. If neither can be ensured, the caller receives an error. So does every later caller,
//! until the contents are recorded as distrusted.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use platform::{Access, Disk, DiskFile, sound};
use threads::{Condvar, Mutex, MutexGuard};

use crate::figures::{FigureCounters, add};
use crate::journal_file::{self, JournalFile};
use crate::names;
use crate::piece::write_all;
use crate::segment::Segments;
use crate::status::{TierFailure, TierStatus};
use crate::witness::Seal;
use crate::{DistrustPlace, Durability, OffReason};

/// The invalidation numbers reserved at once for objects. A large step means that the reservation
/// is rarely synced.
pub(crate) const RESERVED_AT_ONCE: u64 = 1 << 16;

/// A journal below this size, in bytes, is not compacted.
const COMPACT_ABOVE_BYTES: u64 = 64 << 10;

/// The settings of the journal.
pub(crate) struct JournalPlan {
    pub(crate) directory: PathBuf,
    pub(crate) bytes_max: u64,
    pub(crate) durability: Durability,
}

struct JournalState {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    compact_above: u64,
    /// The highest reserved number.
    ceiling: u64,
    /// The entries to write next, whether they must be synced, and the number of entries submitted
    /// so far.
    pending: Vec<u8>,
    pending_sync: bool,
    submitted: u64,
    /// The number of submitted entries that were written or have failed.
    settled: u64,
    /// Whether a thread is writing, syncing or compacting without holding the lock.
    is_busy: bool,
    /// Whether entries were written that are not synced.
    is_dirty: bool,
    is_closed: bool,
    /// Whether the contents of the directory are distrusted, so that nothing needs to be journaled
    /// any more.
    is_forgotten: bool,
    /// A failure whose consequence, the distrust of the contents, could not be recorded either.
    failed: Option<OffReason>,
}

/// The journal.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    plan: JournalPlan,
    segments: Arc<Segments>,
    status: Arc<TierStatus>,
    counters: Arc<FigureCounters>,
    /// The mark and its witnesses, in the order in which they are tried.
    seals: Vec<Seal>,
    state: Mutex<JournalState>,
    settled: Condvar,
}

impl Journal {
    /// Opens a journal whose file has just been replaced. The file has `bytes` bytes and reserves
    /// numbers up to `ceiling`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        plan: JournalPlan,
        segments: Arc<Segments>,
        status: Arc<TierStatus>,
        counters: Arc<FigureCounters>,
        seals: Vec<Seal>,
        (bytes, ceiling): (u64, u64),
    ) -> std::io::Result<Self> {
        let file = disk.open(&plan.directory.join(names::INVALIDATIONS), Access::Write)?;
        let state = JournalState {
            file,
            bytes,
            compact_above: COMPACT_ABOVE_BYTES.max(bytes * 2).min(plan.bytes_max),
            ceiling,
            pending: Vec::new(),
            pending_sync: false,
            submitted: 0,
            settled: 0,
            is_busy: false,
            is_dirty: false,
            is_closed: false,
            is_forgotten: false,
            failed: None,
        };
        Ok(Self {
            disk,
            plan,
            segments,
            status,
            counters,
            seals,
            state: Mutex::new(state),
            settled: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        sound(self.state.lock())
    }

    /// The size of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// Journals an invalidation, and syncs it if the durability demands it.
    pub(crate) fn add(&self, sequence: u64, octets: &[u8]) -> Result<(), OffReason> {
        let entry = journal_file::invalidation(sequence, octets);
        self.commit(&entry, self.plan.durability == Durability::Power)?;
        add(&self.counters.invalidations, 1);
        Ok(())
    }

    /// Reserves numbers, so that a restart begins above `sequence`.
    pub(crate) fn reserve(&self, sequence: u64) -> Result<(), OffReason> {
        if sequence <= self.state().ceiling {
            return Ok(());
        }
        let ceiling = sequence.saturating_add(RESERVED_AT_ONCE);
        self.commit(&journal_file::ceiling(ceiling), true)?;
        let mut state = self.state();
        state.ceiling = state.ceiling.max(ceiling);
        Ok(())
    }

    /// Whether an entry may be missing from the journal and the contents are not recorded as
    /// distrusted.
    pub(crate) fn is_undurable(&self) -> bool {
        self.state().failed.is_some()
    }

    /// After a failure, tries again to record that the contents are distrusted.
    pub(crate) fn confirm(&self) -> Result<(), OffReason> {
        if self.is_undurable() { self.commit(&[], false) } else { Ok(()) }
    }

    /// Adds an entry. The first of several concurrent callers writes the entries of all.
    fn commit(&self, entry: &[u8], sync: bool) -> Result<(), OffReason> {
        let mut state = self.state();
        if state.is_closed {
            return Err(OffReason::Closed);
        }
        state.pending.extend_from_slice(entry);
        state.pending_sync |= sync;
        state.submitted += 1;
        let ticket = state.submitted;
        while state.settled < ticket {
            let waits = |state: &mut JournalState| state.is_busy && state.settled < ticket;
            state = sound(self.settled.wait_while(state, waits));
            if state.settled < ticket {
                state = self.write_pending(state);
            }
        }
        state.failed.map_or(Ok(()), Err)
    }

    fn write_pending<'a>(&'a self, mut state: MutexGuard<'a, JournalState>) -> MutexGuard<'a, JournalState> {
        let pending = std::mem::take(&mut state.pending);
        let sync = std::mem::take(&mut state.pending_sync);
        let upto = state.submitted;
        let offset = state.bytes;
        let file = Arc::clone(&state.file);
        if state.is_forgotten {
            state.settled = upto;
            return state;
        }
        let failed_before = state.failed;
        state.is_busy = true;
        drop(state);
        let outcome = match failed_before {
            // The file is unreliable from the failed write on, so nothing is appended to it.
            Some(reason) => Err(reason),
            None => self.write(&*file, &pending, offset, sync).map_err(TierFailure::reason),
        };
        // A compaction below must close the file, which may wait for the disk, without the lock.
        drop(file);
        let forgotten = outcome.is_err_and(|reason| self.forget_everything(reason));
        let mut state = self.state();
        state.is_busy = false;
        state.settled = upto;
        match outcome {
            Ok(()) => {
                state.bytes += pending.len() as u64;
                state.is_dirty |= !sync;
            }
            Err(reason) => {
                state.is_forgotten = forgotten;
                state.failed = (!forgotten).then_some(reason);
            }
        }
        self.settled.notify_all();
        if state.bytes > self.plan.bytes_max { self.compact_in(state) } else { state }
    }

    /// Appends to the file. If the disk is full, removes the oldest segments without asking the
    /// keeper, which the writer tells afterwards. This thread cannot wait for the writer, because
    /// the writer may wait for the journal.
    fn write(&self, file: &dyn DiskFile, entries: &[u8], offset: u64, sync: bool) -> Result<(), TierFailure> {
        let failure = |error| TierFailure::of("write the journal of invalidations", &error);
        let mut outcome = write_all(file, entries, offset).map_err(failure);
        while let Err(TierFailure::Full) = outcome {
            if !self.segments.forget_oldest() {
                break;
            }
            outcome = write_all(file, entries, offset).map_err(failure);
        }
        outcome?;
        if sync {
            file.sync().map_err(|error| TierFailure::of("sync the journal of invalidations", &error))?;
        }
        Ok(())
    }

    /// Turns the tier off and records, at the first place that accepts it, that the contents must
    /// not be used again. Returns false if no place accepts it.
    fn forget_everything(&self, reason: OffReason) -> bool {
        match reason {
            OffReason::Io { operation, kind } => self.status.fail(operation, kind),
            _ => self.status.fail("write the journal of invalidations", std::io::ErrorKind::StorageFull),
        }
        // The mark is overwritten through its open file, because its path may lead nowhere, or to
        // another directory, while the device is detached.
        let place = self.seals.iter().find(|seal| seal.spoil().is_ok()).map(|seal| seal.place);
        if let Some(place) = place {
            self.status.distrust(place);
        }
        place.is_some()
    }

    /// Records at the first witness that accepts it that the next start must begin empty. Returns
    /// its place. Waits neither for the directory's disk nor for a thread that waits for it.
    pub(crate) fn set_aside(&self) -> Option<DistrustPlace> {
        let mut witnesses = self.seals.iter().filter(|seal| seal.place != DistrustPlace::Tier);
        witnesses.find(|seal| seal.spoil().is_ok()).map(|seal| seal.place)
    }

    /// Withdraws the record at `place`. Returns false if the record remains or may remain, so that
    /// the next start begins empty.
    pub(crate) fn take_back(&self, place: DistrustPlace) -> bool {
        let mut state = self.wait_idle();
        // After a failure the record is needed for another reason.
        if state.is_closed || state.is_forgotten || state.failed.is_some() {
            return false;
        }
        state.is_busy = true;
        drop(state);
        let restored =
            self.seals.iter().find(|seal| seal.place == place).is_some_and(|seal| seal.restore().is_ok());
        self.state().is_busy = false;
        self.settled.notify_all();
        restored
    }

    /// Syncs entries for which no caller has waited.
    pub(crate) fn sync(&self) {
        let mut state = self.wait_idle();
        if !state.is_dirty || state.is_forgotten || state.failed.is_some() {
            return;
        }
        state.is_busy = true;
        let file = Arc::clone(&state.file);
        // Entries that are written during the sync set this again.
        state.is_dirty = false;
        drop(state);
        let reason = |error: std::io::Error| OffReason::Io {
            operation: "sync the journal of invalidations",
            kind: error.kind(),
        };
        let outcome = file.sync().map_err(reason);
        // After a failed sync the data may be missing from the page cache as well.
        let forgotten = outcome.is_err_and(|reason| self.forget_everything(reason));
        let mut state = self.state();
        state.is_busy = false;
        if let Err(reason) = outcome {
            state.is_forgotten = forgotten;
            state.failed = (!forgotten).then_some(reason);
        }
        self.settled.notify_all();
    }

    fn wait_idle(&self) -> MutexGuard<'_, JournalState> {
        let wait = self.settled.wait_while(self.state(), |state| state.is_busy);
        sound(wait)
    }

    /// Compacts the journal if it has grown: drops invalidations that no object needs.
    pub(crate) fn compact_if_grown(&self) {
        let state = self.wait_idle();
        if state.bytes > state.compact_above {
            drop(self.compact_in(state));
        }
    }

    fn compact_in<'a>(&'a self, mut state: MutexGuard<'a, JournalState>) -> MutexGuard<'a, JournalState> {
        if state.is_busy || state.is_forgotten || state.failed.is_some() {
            return state;
        }
        state.is_busy = true;
        drop(state);
        let outcome = self.compact().map(|(file, bytes)| {
            let old = std::mem::replace(&mut self.state().file, file);
            // Closing may wait for the disk, and the lock is also taken for figures.
            drop(old);
            bytes
        });
        let forgotten = match &outcome {
            Err(failure @ TierFailure::Io { .. }) => self.forget_everything(failure.reason()),
            _ => false,
        };
        let mut state = self.state();
        state.is_busy = false;
        match outcome {
            Ok(bytes) => {
                state.bytes = bytes;
                state.compact_above = COMPACT_ABOVE_BYTES.max(bytes * 2).min(self.plan.bytes_max);
                state.is_dirty = false;
            }
            // The old file stays in use. The next attempt comes when it has doubled.
            Err(TierFailure::Full | TierFailure::NoRoom) => state.compact_above = state.bytes * 2,
            Err(failure) => {
                state.is_forgotten = forgotten;
                state.failed = (!forgotten).then_some(failure.reason());
            }
        }
        self.settled.notify_all();
        state
    }

    fn compact(&self) -> Result<(Arc<dyn DiskFile>, u64), TierFailure> {
        let failure = |error: std::io::Error| TierFailure::of("compact the journal of invalidations", &error);
        let path = self.plan.directory.join(names::INVALIDATIONS);
        let octets = Bytes::from(self.disk.read(&path).map_err(failure)?);
        let (mut journal, _) = JournalFile::parse(&octets);
        journal.compact(self.segments.sequence_min(), self.plan.bytes_max / 2);
        let content = journal.encode();
        self.disk.replace(&path, &content).map_err(failure)?;
        Ok((self.disk.open(&path, Access::Write).map_err(failure)?, content.len() as u64))
    }

    /// Closes the journal: no entry is accepted any more. Returns whether everything is synced.
    pub(crate) fn close(&self) -> bool {
        self.sync();
        let mut state = self.wait_idle();
        state.is_closed = true;
        let is_synced =
            !state.is_dirty && state.pending.is_empty() && !state.is_forgotten && state.failed.is_none();
        drop(state);
        is_synced
    }
}
