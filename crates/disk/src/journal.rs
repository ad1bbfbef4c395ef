//! The journal of invalidations at work: callers add, and those who come at the same time share a write and a sync.
//!
//! Invariant: `Ok` means that the invalidation will be heard of at the next start, or that nothing is left then
//! which it could concern. If neither can be had, the caller is told, and so is everybody after it until the contents
//! are distrusted.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use platform::{Access, Disk, DiskFile};

use crate::figures::{FigureCounters, add};
use crate::journal_file::{self, JournalFile};
use crate::names;
use crate::piece::write_all;
use crate::segment::Segments;
use crate::status::{Status, Trouble};
use crate::witness::Seal;
use crate::{DistrustPlace, Durability, OffReason};

/// How many numbers for objects are reserved at once, so that the reservation is rarely synced.
pub(crate) const RESERVED_AT_ONCE: u64 = 1 << 16;

/// Below this size nothing is compacted, in bytes.
const COMPACT_ABOVE_BYTES: u64 = 64 << 10;

/// What the journal works with.
pub(crate) struct JournalPlan {
    pub(crate) directory: PathBuf,
    pub(crate) bytes_max: u64,
    pub(crate) durability: Durability,
}

struct State {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    compact_above: u64,
    ceiling: u64,
    /// What is to be written next, whether it is to be synced, and how many callers wait for it so far.
    pending: Vec<u8>,
    pending_sync: bool,
    submitted: u64,
    settled: u64,
    /// Somebody writes.
    is_busy: bool,
    is_dirty: bool,
    is_closed: bool,
    /// Nothing in the directory counts any more.
    is_forgotten: bool,
    failed: Option<OffReason>,
}

/// The journal.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    plan: JournalPlan,
    segments: Arc<Segments>,
    status: Arc<Status>,
    counters: Arc<FigureCounters>,
    /// The mark and its witnesses, in the order in which they are tried.
    seals: Vec<Seal>,
    state: Mutex<State>,
    settled: Condvar,
}

impl Journal {
    /// A journal whose file was just replaced by `bytes` octets in which `ceiling` stands.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        plan: JournalPlan,
        segments: Arc<Segments>,
        status: Arc<Status>,
        counters: Arc<FigureCounters>,
        seals: Vec<Seal>,
        (bytes, ceiling): (u64, u64),
    ) -> std::io::Result<Self> {
        let file = disk.open(&plan.directory.join(names::INVALIDATIONS), Access::Write)?;
        let state = State {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its file takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// Writes an invalidation down; synced if the durability says so.
    pub(crate) fn add(&self, sequence: u64, octets: &[u8]) -> Result<(), OffReason> {
        let entry = journal_file::invalidation(sequence, octets);
        self.commit(&entry, self.plan.durability == Durability::Power)?;
        add(&self.counters.invalidations, 1);
        Ok(())
    }

    /// Makes sure that a restart takes `sequence` for used.
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

    /// Whether something that the journal was told may be missing from it, and the contents are not distrusted.
    pub(crate) fn is_undurable(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Where the journal has failed, tries again to have the contents distrusted.
    pub(crate) fn confirm(&self) -> Result<(), OffReason> {
        if self.is_undurable() { self.commit(&[], false) } else { Ok(()) }
    }

    /// Adds an entry. The first who comes writes for all who came until then.
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
            state = if state.is_busy {
                self.settled.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.write_pending(state)
            };
        }
        state.failed.map_or(Ok(()), Err)
    }

    fn write_pending<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let pending = std::mem::take(&mut state.pending);
        let sync = std::mem::take(&mut state.pending_sync);
        let (upto, offset, file) = (state.submitted, state.bytes, Arc::clone(&state.file));
        if state.is_forgotten {
            state.settled = upto;
            return state;
        }
        let failed_before = state.failed;
        state.is_busy = true;
        drop(state);
        let outcome = match failed_before {
            // What was written behind a failed write may be lost with it.
            Some(reason) => Err(reason),
            None => self.write(&*file, &pending, offset, sync).map_err(Trouble::reason),
        };
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

    /// Writes at the end of the file. On a full disk the oldest segment makes room, without asking anybody.
    fn write(&self, file: &dyn DiskFile, entries: &[u8], offset: u64, sync: bool) -> Result<(), Trouble> {
        let trouble = |error| Trouble::of("write the journal of invalidations", &error);
        let mut outcome = write_all(file, entries, offset).map_err(trouble);
        while let Err(Trouble::Full) = outcome {
            let Some(oldest) = self.segments.oldest() else { break };
            if self.segments.forget(oldest.id).is_err() {
                break;
            }
            outcome = write_all(file, entries, offset).map_err(trouble);
        }
        outcome?;
        if sync {
            file.sync().map_err(|error| Trouble::of("sync the journal of invalidations", &error))?;
        }
        Ok(())
    }

    /// Turns the tier off and records, at the first place that works, that its contents are not to be used again.
    /// False if no place works.
    fn forget_everything(&self, reason: OffReason) -> bool {
        match reason {
            OffReason::Io { operation, kind } => self.status.fail(operation, kind),
            _ => self.status.fail("write the journal of invalidations", std::io::ErrorKind::StorageFull),
        }
        // The mark is spoiled by its open file. Its name may lead to another directory, or nowhere, while the device
        // with the contents is away.
        let place = self.seals.iter().find(|seal| seal.spoil().is_ok()).map(|seal| seal.place);
        if let Some(place) = place {
            self.status.distrust(place);
        }
        place.is_some()
    }

    /// Records at the first witness that works that the next start begins empty, and gives its place. Asks neither the
    /// directory's disk nor a thread that waits for that disk.
    pub(crate) fn set_aside(&self) -> Option<DistrustPlace> {
        let mut witnesses = self.seals.iter().filter(|seal| seal.place != DistrustPlace::Tier);
        witnesses.find(|seal| seal.spoil().is_ok()).map(|seal| seal.place)
    }

    /// Takes back what was recorded at `place`. False if it stands, or may stand: then the next start begins empty.
    pub(crate) fn take_back(&self, place: DistrustPlace) -> bool {
        let mut state = self.wait_idle();
        // A record that is due for another reason stays.
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

    /// Syncs what callers did not wait for.
    pub(crate) fn sync(&self) {
        let mut state = self.wait_idle();
        if !state.is_dirty || state.is_forgotten || state.failed.is_some() {
            return;
        }
        state.is_busy = true;
        let file = Arc::clone(&state.file);
        // What comes from now on makes it dirty again.
        state.is_dirty = false;
        drop(state);
        let reason = |error: std::io::Error| OffReason::Io {
            operation: "sync the journal of invalidations",
            kind: error.kind(),
        };
        let outcome = file.sync().map_err(reason);
        // What could not be synced may be gone from the page cache too.
        let forgotten = outcome.is_err_and(|reason| self.forget_everything(reason));
        let mut state = self.state();
        state.is_busy = false;
        if let Err(reason) = outcome {
            state.is_forgotten = forgotten;
            state.failed = (!forgotten).then_some(reason);
        }
        self.settled.notify_all();
    }

    fn wait_idle(&self) -> MutexGuard<'_, State> {
        let wait = self.settled.wait_while(self.state(), |state| state.is_busy);
        wait.unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what no object needs, if the journal has grown.
    pub(crate) fn compact_if_grown(&self) {
        let state = self.wait_idle();
        if state.bytes > state.compact_above {
            drop(self.compact_in(state));
        }
    }

    fn compact_in<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.is_busy || state.is_forgotten || state.failed.is_some() {
            return state;
        }
        state.is_busy = true;
        drop(state);
        let outcome = self.compact();
        let forgotten = match &outcome {
            Err(trouble @ Trouble::Io { .. }) => self.forget_everything(trouble.reason()),
            _ => false,
        };
        let mut state = self.state();
        state.is_busy = false;
        match outcome {
            Ok((file, bytes)) => {
                state.file = file;
                state.bytes = bytes;
                state.compact_above = COMPACT_ABOVE_BYTES.max(bytes * 2).min(self.plan.bytes_max);
                state.is_dirty = false;
            }
            // The old file stands; it is tried again when it has grown by as much again.
            Err(Trouble::Full | Trouble::NoRoom) => state.compact_above = state.bytes * 2,
            Err(trouble) => {
                state.is_forgotten = forgotten;
                state.failed = (!forgotten).then_some(trouble.reason());
            }
        }
        self.settled.notify_all();
        state
    }

    fn compact(&self) -> Result<(Arc<dyn DiskFile>, u64), Trouble> {
        let trouble = |error: std::io::Error| Trouble::of("compact the journal of invalidations", &error);
        let path = self.plan.directory.join(names::INVALIDATIONS);
        let octets = Bytes::from(self.disk.read(&path).map_err(trouble)?);
        let (mut journal, _) = JournalFile::parse(&octets);
        journal.compact(self.segments.sequence_min(), self.plan.bytes_max / 2);
        let content = journal.encode();
        self.disk.replace(&path, &content).map_err(trouble)?;
        Ok((self.disk.open(&path, Access::Write).map_err(trouble)?, content.len() as u64))
    }

    /// Ends the journal: nothing is added any more. `true`: all of it is synced.
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
