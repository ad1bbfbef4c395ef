//! The writer: a single thread that takes queued operations, makes room, appends records and syncs
//! regularly. Its submodules make room and write fills.
//!
//! Invariant: a record is written before the index entry that refers to it, and callers learn its
//! location only after both.

mod eviction;
mod filling;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Monotonic;

use crate::figures::{add, of};
use crate::index_file::{IndexEncoder, IndexEntry};
use crate::names;
use crate::open_segment::{OpenSegment, PendingObject, WRITE_BYTES};
use crate::queue::{Batch, Command, WriteCallback};
use crate::record::{Location, Record, RetentionPolicy, WriterProgress};
use crate::segment::{IndexNote, ObjectChange, RefreshedIndex, Segment};
use crate::status::TierFailure;
use crate::tier_state::TierState;
use crate::{Durability, OffReason};
use filling::RunningFill;

/// The interval at which data is synced for which no caller waits.
const SYNC_INTERVAL: Duration = Duration::from_millis(900);

/// The longest sleep of the writer, so that it syncs in time.
const IDLE: Duration = Duration::from_millis(200);

/// The shortest interval at which an idle writer gives memory of its buffers back to the system.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// Writes everything that the tier is asked to write. There is one for each tier.
pub struct DiskWriter {
    shared: Arc<TierState>,
    /// The segment for complete records.
    main: Option<OpenSegment>,
    /// The running fills, in the order of their beginnings. They are few, because each takes a part
    /// of the disk's space for fills.
    filling: Vec<RunningFill>,
    /// Segments with room, whose fills have ended.
    idle: Vec<OpenSegment>,
    /// Segments with unsynced data.
    dirty: BTreeSet<u32>,
    /// Whether segment files were created or removed since the directory was synced.
    are_names_dirty: bool,
    /// Segments with notes that are not written.
    noted: BTreeSet<u32>,
    /// The number of the last processed operation. Operations up to it are durable when `noted` is
    /// empty.
    processed: u64,
    synced_at: Monotonic,
    resume_at: Monotonic,
    is_closed: bool,
}

impl DiskWriter {
    pub(crate) fn new(shared: Arc<TierState>) -> Self {
        let now = shared.clock.monotonic();
        Self {
            shared,
            main: None,
            filling: Vec::new(),
            idle: Vec::new(),
            dirty: BTreeSet::new(),
            are_names_dirty: false,
            noted: BTreeSet::new(),
            processed: 0,
            synced_at: now,
            resume_at: now,
            is_closed: false,
        }
    }

    /// Runs until the tier is closed.
    pub fn run(mut self, keeper: &dyn RetentionPolicy) {
        self.shared.queue.begin();
        let mut has_worked = false;
        let mut give_back_at = self.shared.clock.monotonic();
        loop {
            match self.step(keeper) {
                WriterProgress::Closed => return,
                WriterProgress::Worked => has_worked = true,
                WriterProgress::Idle => {
                    let now = self.shared.clock.monotonic();
                    if has_worked && now >= give_back_at {
                        // Buffers of many different sizes were used once each, and the allocator
                        // retains them.
                        allocator::collect();
                        has_worked = false;
                        give_back_at = now.plus(GIVE_BACK_EVERY);
                    }
                    self.shared.queue.wait(IDLE);
                }
            }
        }
    }

    /// Performs one bounded piece of work. Simulations call this instead of [`DiskWriter::run`].
    pub fn step(&mut self, keeper: &dyn RetentionPolicy) -> WriterProgress {
        if self.is_closed {
            return WriterProgress::Closed;
        }
        let is_closing = self.shared.queue.is_closing();
        self.follow_journal(keeper);
        self.resume(keeper);
        let batch = self.shared.queue.take(WRITE_BYTES.min(self.shared.plan.segment_bytes / 2).max(1));
        // Notes that could not be written for lack of space wait for the end of the pause.
        let has_work = batch.upto.is_some() || (!self.noted.is_empty() && self.shared.status.off().is_none());
        if has_work {
            self.process(keeper, batch);
        }
        let now = self.shared.clock.monotonic();
        if now.since(self.synced_at) >= SYNC_INTERVAL {
            self.synced_at = now;
            self.sync();
        }
        if has_work {
            return WriterProgress::Worked;
        }
        if is_closing {
            self.close();
            return WriterProgress::Closed;
        }
        if self.shrink(keeper) { WriterProgress::Worked } else { WriterProgress::Idle }
    }

    /// After a pause because of a full disk, evicts a segment and resumes writing.
    fn resume(&mut self, keeper: &dyn RetentionPolicy) {
        let is_paused = self.shared.status.off() == Some(OffReason::Full);
        if is_paused && self.shared.clock.monotonic() >= self.resume_at {
            self.evict_oldest(keeper);
            self.shared.status.resume();
        }
    }

    fn process(&mut self, keeper: &dyn RetentionPolicy, batch: Batch) {
        self.noted.extend(batch.noted);
        let mut records = Vec::new();
        for command in batch.commands {
            if let Command::Write { record, order, done } = command {
                records.push((PendingObject { record, order, life: self.shared.mark.life }, done));
                continue;
            }
            self.write(keeper, std::mem::take(&mut records));
            match command {
                Command::Fill(fill) => self.fill(keeper, &fill),
                Command::Abandon(fill) => self.abandon(&fill),
                Command::Finish { fill, index, head, sequence, order, done } => {
                    self.finish(
                        keeper,
                        &fill,
                        &Record { index, head, body: Vec::new(), sequence },
                        order,
                        done,
                    );
                }
                Command::Write { .. } => unreachable!("a write was taken above"),
            }
        }
        self.write(keeper, records);
        self.write_notes(keeper);
        self.processed = self.processed.max(batch.upto.unwrap_or_default());
        if self.noted.is_empty() && !self.shared.status.is_off_for_good() {
            // Relaxed is enough here and for `synced`: readers of the figures only show them.
            self.shared.counters.durable.store(self.processed, Ordering::Relaxed);
        }
        self.shared.queue.release(batch.bytes);
    }

    /// Writes objects and answers their callers with the locations.
    fn write(&mut self, keeper: &dyn RetentionPolicy, records: Vec<(PendingObject, WriteCallback)>) {
        if records.is_empty() || self.shared.status.off().is_some() {
            add(&self.shared.counters.refused, records.len() as u64);
            return;
        }
        let (records, answers): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let bytes = records.iter().map(|incoming| PendingObject::bytes(&incoming.record)).sum();
        match self.with_room(keeper, bytes, |writer| writer.put(&records)) {
            Ok(locations) => {
                add(&self.shared.counters.written, locations.len() as u64);
                answers.into_iter().zip(locations).for_each(|(answer, location)| answer.give(location));
            }
            Err(failure) => {
                add(&self.shared.counters.refused, records.len() as u64);
                self.meet(failure);
            }
        }
    }

    /// Makes room and writes. If the disk is full all the same, evicts a segment and tries once
    /// more.
    fn with_room<T>(
        &mut self,
        keeper: &dyn RetentionPolicy,
        bytes: u64,
        mut write: impl FnMut(&mut Self) -> Result<T, TierFailure>,
    ) -> Result<T, TierFailure> {
        self.make_room(keeper, bytes)?;
        match write(self) {
            Err(TierFailure::Full) if self.evict_oldest(keeper) => write(self),
            outcome => outcome,
        }
    }

    /// Turns the tier off, for a while or for good, if the failure demands it.
    fn meet(&mut self, failure: TierFailure) {
        match failure {
            TierFailure::Full => {
                self.resume_at = self.shared.clock.monotonic().plus(self.shared.plan.full_pause);
                self.shared.status.pause();
            }
            TierFailure::NoRoom => {}
            TierFailure::Io { operation, kind } => self.shared.status.fail(operation, kind),
        }
    }

    /// Appends objects to the main segment: all of them, or none after an error.
    fn put(&mut self, records: &[PendingObject]) -> Result<Vec<Location>, TierFailure> {
        let sequence_max = records.iter().map(|incoming| incoming.record.sequence).max().unwrap_or_default();
        self.reserve(sequence_max)?;
        let open = match self.main.take() {
            Some(open) if !open.is_full(self.shared.plan.segment_bytes) => open,
            full => {
                if let Some(open) = full {
                    self.seal(open);
                }
                self.create()?
            }
        };
        self.dirty.insert(open.segment.id);
        let outcome = open.put(&self.shared.segments, records);
        self.main = Some(open);
        outcome
    }

    /// Reserves invalidation numbers in the journal, so that a restart does not assign them again.
    fn reserve(&self, sequence: u64) -> Result<(), TierFailure> {
        self.shared.journal.reserve(sequence).map_err(|reason| match reason {
            OffReason::Io { operation, kind } => TierFailure::Io { operation, kind },
            _ => TierFailure::Full,
        })
    }

    fn create(&mut self) -> Result<OpenSegment, TierFailure> {
        self.are_names_dirty = true;
        OpenSegment::create(&self.shared.segments)
    }

    /// Ends a segment: nothing more is appended to it.
    fn seal(&self, open: OpenSegment) {
        let segment = open.segment;
        segment.state().index_baseline = of(&segment.index_bytes);
        segment.is_open.store(false, Ordering::SeqCst);
        if of(&segment.objects) == 0 {
            self.shared.queue.look_at(segment.id);
        }
    }

    /// Writes the notes about objects into the indexes of their segments.
    fn write_notes(&mut self, keeper: &dyn RetentionPolicy) {
        for id in std::mem::take(&mut self.noted) {
            if self.shared.status.off().is_some() {
                self.noted.insert(id);
                continue;
            }
            let Some(segment) = self.shared.segments.of(id) else { continue };
            let notes = segment.state().notes.clone();
            let bytes = notes.iter().map(|note| 64 + note.index_bytes()).sum();
            if let Err(failure) = self.with_room(keeper, bytes, |writer| writer.put_notes(&segment, &notes)) {
                self.noted.insert(id);
                // The notes are kept and tried again, but only after a pause.
                self.meet(if failure == TierFailure::NoRoom { TierFailure::Full } else { failure });
            }
            self.tidy(&segment);
        }
    }

    fn put_notes(&mut self, segment: &Arc<Segment>, notes: &[IndexNote]) -> Result<(), TierFailure> {
        let sequences = notes.iter().filter_map(|note| match &note.change {
            ObjectChange::Refreshed { sequence, .. } => Some(*sequence),
            ObjectChange::Removed => None,
        });
        self.reserve(sequences.max().unwrap_or_default())?;
        // The segment may have been removed to make room, also by the reservation.
        if notes.is_empty() || self.shared.segments.of(segment.id).is_none() {
            return Ok(());
        }
        let entries = IndexEncoder::of(segment.id);
        let mut out = Vec::new();
        let mut written = Vec::new();
        for note in notes {
            let entry = IndexEntry {
                order: note.order,
                offset: note.offset,
                life: self.shared.mark.life,
                ..IndexEntry::default()
            };
            match &note.change {
                ObjectChange::Removed => entries.removed(&mut out, entry),
                ObjectChange::Refreshed { index, sequence } => {
                    entries.refreshed(&mut out, IndexEntry { sequence: *sequence, ..entry }, index);
                    segment.lower_sequence_min(*sequence);
                    let position = (out.len() - index.len()) as u64;
                    written.push((note.offset, note.order, position, index.len() as u32));
                }
            }
        }
        self.dirty.insert(segment.id);
        let start = self.shared.segments.append_index(segment, &out)?;
        let mut state = segment.state();
        if state.is_gone {
            return Ok(());
        }
        state.notes.drain(..notes.len());
        for (offset, order, position, bytes) in written {
            if let Some(place) = state.refreshed.get_mut(&offset)
                && matches!(place, RefreshedIndex::Queued { order: queued, .. } if *queued == order)
            {
                *place = RefreshedIndex::Written { position: start + position, bytes };
            }
        }
        drop(state);
        self.shared.queue.release(notes.iter().map(IndexNote::index_bytes).sum());
        Ok(())
    }

    /// Syncs the journal and, under [`Durability::Power`], all segments.
    fn sync(&mut self) {
        self.shared.journal.sync();
        self.shared.journal.compact_if_grown();
        if self.shared.plan.durability == Durability::Power && !self.shared.status.is_off_for_good() {
            self.sync_segments();
        }
    }

    /// Syncs all segments and appends entries that say so. Returns whether that succeeded.
    fn sync_segments(&mut self) -> bool {
        let durable = of(&self.shared.counters.durable);
        let outcome = self.try_sync_segments();
        match outcome {
            Ok(()) => self.shared.counters.synced.store(durable, Ordering::Relaxed),
            Err(failure) => self.meet(failure),
        }
        outcome.is_ok()
    }

    fn try_sync_segments(&mut self) -> Result<(), TierFailure> {
        let shared = Arc::clone(&self.shared);
        let failure = |error: std::io::Error| TierFailure::of("sync a segment", &error);
        let dirty: Vec<_> = self.dirty.iter().filter_map(|id| shared.segments.of(*id)).collect();
        for segment in &dirty {
            shared.segments.sync(segment).map_err(failure)?;
        }
        if std::mem::take(&mut self.are_names_dirty) {
            shared.disk.sync_directory(&shared.plan.directory).map_err(failure)?;
        }
        self.dirty.clear();
        for segment in &dirty {
            let mut mark = Vec::new();
            IndexEncoder::of(segment.id).synced(&mut mark, shared.mark.life);
            shared.segments.append_index(segment, &mark)?;
            shared.segments.sync_index(segment).map_err(failure)?;
        }
        Ok(())
    }

    /// Syncs everything and, if nothing is missing, marks the directory as cleanly closed.
    fn close(&mut self) {
        self.is_closed = true;
        self.fail_fills(OffReason::Closed);
        for open in self.main.take().into_iter().chain(std::mem::take(&mut self.idle)) {
            open.segment.is_open.store(false, Ordering::SeqCst);
        }
        let is_well = self.shared.status.off().is_none() && self.noted.is_empty();
        let is_synced = is_well && self.sync_segments();
        if self.shared.journal.close() && is_synced {
            let mark = crate::mark::DirectoryMark { is_clean: true, ..self.shared.mark.clone() };
            let path = self.shared.plan.directory.join(names::MARK);
            if let Err(error) = self.shared.disk.replace(&path, &mark.encode()) {
                self.meet(TierFailure::of("write the mark", &error));
            }
        }
        self.shared.status.close();
        self.shared.queue.finish();
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        // A panic is not an orderly end: record a failure instead of a closed tier.
        if std::thread::panicking() {
            self.shared.status.fail("go on, because its writing thread panicked", ErrorKind::Other);
        }
        self.shared.status.close();
        self.shared.queue.finish();
    }
}
