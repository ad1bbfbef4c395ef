//! Making room: evicts whole segments, the oldest first, and writes the objects again that the
//! keeper wants to keep. It also removes segments without objects and compacts indexes that have
//! grown.
//!
//! Invariant: the new copy of an object is in the files before the old one is removed.

use std::sync::Arc;

use defects::{Defect, is_planted};
use platform::{Access, HashSet};

use super::DiskWriter;
use crate::figures::{add, of};
use crate::index_file::{IndexEncoder, IndexFile, IndexedObject};
use crate::names;
use crate::open_segment::{PendingObject, WRITE_BYTES};
use crate::record::{Location, Record, RetentionPolicy};
use crate::segment::{IndexNote, ObjectChange, RefreshedIndex, Segment};
use crate::status::TierFailure;
use crate::stored::StoredObject;
use crate::{Durability, OffReason, ReadError};

impl DiskWriter {
    /// Evicts until there is room for `bytes` more. Gives up if running fills leave no segment to
    /// evict.
    ///
    /// Objects that are kept move to newer segments, which this call does not evict. Otherwise it
    /// might move the same objects from one segment to the next for ever.
    pub(super) fn make_room(&mut self, keeper: &dyn RetentionPolicy, bytes: u64) -> Result<(), TierFailure> {
        let shared = Arc::clone(&self.shared);
        let is_short = || {
            shared.used_bytes() + bytes > shared.plan.usable_bytes
                || shared.segments.count() >= shared.plan.segments_max
        };
        if !is_short() {
            return Ok(());
        }
        let is_livelock = is_planted(Defect::DiskLivelock);
        if !is_livelock && self.pinned_bytes() + shared.journal.bytes() + bytes > shared.plan.usable_bytes {
            return Err(TierFailure::NoRoom);
        }
        let newest = if is_livelock { u32::MAX } else { shared.segments.newest() };
        while is_short() {
            if !self.evict_up_to(keeper, newest) {
                return Err(TierFailure::NoRoom);
            }
        }
        Ok(())
    }

    /// Evicts a segment if the files are larger than the size permits: after a restart with a
    /// smaller size there may be no write that makes room. Returns whether it evicted one.
    pub(super) fn shrink(&mut self, keeper: &dyn RetentionPolicy) -> bool {
        let is_over = self.shared.used_bytes() > self.shared.plan.usable_bytes;
        is_over && self.shared.status.off().is_none() && self.evict_oldest(keeper)
    }

    /// Evicts the oldest segment. Returns false if no segment can be evicted.
    pub(super) fn evict_oldest(&mut self, keeper: &dyn RetentionPolicy) -> bool {
        self.evict_up_to(keeper, u32::MAX)
    }

    /// Evicts the oldest segment, unless it is newer than `newest`.
    fn evict_up_to(&mut self, keeper: &dyn RetentionPolicy, newest: u32) -> bool {
        if self.shared.segments.oldest().is_none() {
            let open = self.main.take().into_iter().chain(std::mem::take(&mut self.idle));
            open.collect::<Vec<_>>().into_iter().for_each(|open| self.seal(open));
        }
        let oldest = self.shared.segments.oldest().filter(|segment| segment.id <= newest);
        let Some(segment) = oldest else { return false };
        self.evict(keeper, &segment);
        true
    }

    fn evict(&mut self, keeper: &dyn RetentionPolicy, segment: &Arc<Segment>) {
        add(&self.shared.counters.evicted, of(&segment.objects));
        // The keeper does not know objects that the recovery has not returned yet.
        if segment.is_known.load(std::sync::atomic::Ordering::SeqCst) {
            let index = self.read_index(segment);
            let is_whole = index.as_ref().is_some_and(|index| !index.is_torn());
            index.into_iter().for_each(|index| self.rescue(keeper, segment, index));
            if !is_whole {
                keeper.lost_all(segment.id);
            }
        }
        self.forget(segment);
    }

    /// Tells the keeper about the segments that the journal has removed from a full disk.
    pub(super) fn follow_journal(&mut self, keeper: &dyn RetentionPolicy) {
        for (id, note_bytes) in self.shared.segments.take_orphaned() {
            keeper.lost_all(id);
            self.shared.queue.release(note_bytes);
            self.are_names_dirty = true;
        }
    }

    /// Asks the keeper about each object of the segment, and writes those again that it keeps.
    fn rescue(&mut self, keeper: &dyn RetentionPolicy, segment: &Arc<Segment>, mut index: IndexFile) {
        let removed = removed(&segment.state().notes);
        let kept_bytes_max = self.shared.plan.segment_bytes / 2;
        let mut kept_bytes = 0;
        let mut batch_bytes = 0;
        let mut batch = Vec::new();
        while let Some(live) = index.next_live() {
            let from = live.location(segment.id);
            if removed.contains(&from.offset) || !keeper.evicts(from) {
                continue;
            }
            let incoming = self
                .read_again(segment, live)
                .ok()
                .filter(|incoming| kept_bytes + PendingObject::bytes(&incoming.record) <= kept_bytes_max);
            let Some(incoming) = incoming else {
                keeper.lost(from);
                continue;
            };
            kept_bytes += PendingObject::bytes(&incoming.record);
            batch_bytes += PendingObject::bytes(&incoming.record);
            batch.push((from, incoming));
            if batch_bytes >= WRITE_BYTES {
                batch_bytes = 0;
                self.put_again(keeper, segment, std::mem::take(&mut batch));
            }
        }
        self.put_again(keeper, segment, batch);
        if kept_bytes > 0 && self.shared.plan.durability == Durability::Power {
            self.sync_segments();
        }
    }

    fn read_index(&self, segment: &Segment) -> Option<IndexFile> {
        let path = names::index(&self.shared.plan.directory, segment.id);
        let read = IndexFile::read(&*self.shared.disk, &path, segment.id);
        read.inspect_err(|_| add(&self.shared.counters.io_errors, 1)).ok().flatten()
    }

    /// Reads a complete object with its newest index entry, which may still be queued.
    fn read_again(&self, segment: &Segment, live: IndexedObject) -> Result<PendingObject, ReadError> {
        let shared = &self.shared;
        let location = live.location(segment.id);
        let file = shared.segments.data(segment)?;
        let stored = StoredObject::read(file, location, Arc::clone(&shared.counters))?;
        if stored.body.len() > shared.plan.segment_bytes / 2 {
            return Err(ReadError::Gone);
        }
        let mut body = Vec::new();
        let mut read = 0;
        while read < stored.body.len() {
            let octets = stored.body.read_at(read, usize::MAX)?;
            read += octets.len() as u64;
            body.push(octets);
        }
        // An unproven object stays unproven, because its copy keeps the life in which it was
        // written.
        let life = if shared.survived(&live) { shared.mark.life } else { live.entry.life };
        let mut index = live.index;
        let mut sequence = live.entry.sequence;
        let mut order = live.entry.order;
        if let Some(RefreshedIndex::Queued { index: newer, sequence: number, order: at }) =
            segment.state().refreshed.get(&location.offset)
        {
            index = newer.clone();
            sequence = *number;
            order = *at;
        }
        let record = Record { index, head: stored.head, body, sequence };
        Ok(PendingObject { record, order, life })
    }

    /// Writes objects again and reports their new locations. Removals and refreshes that were
    /// requested meanwhile are repeated for the copies.
    fn put_again(
        &mut self,
        keeper: &dyn RetentionPolicy,
        segment: &Segment,
        batch: Vec<(Location, PendingObject)>,
    ) {
        if batch.is_empty() {
            return;
        }
        let (from, records): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let Ok(locations) = self.put(&records) else {
            from.into_iter().for_each(|from| keeper.lost(from));
            return;
        };
        add(&self.shared.counters.kept, locations.len() as u64);
        let removed = removed(&segment.state().notes);
        for ((from, to), incoming) in from.into_iter().zip(locations).zip(&records) {
            if removed.contains(&from.offset) {
                self.shared.remove(to);
                continue;
            }
            keeper.moved(from, to, &mut || self.renew(segment, (from, to), incoming.order));
        }
    }

    /// Repeats for the copy of an object at `to` a refresh that was requested after the entry of
    /// this order. Returns false if it is refused.
    fn renew(&self, segment: &Segment, (from, to): (Location, Location), order: u64) -> bool {
        let newer = match segment.state().refreshed.get(&from.offset) {
            Some(RefreshedIndex::Queued { index, sequence, order: newer }) if *newer > order => {
                Some((index.clone(), *sequence))
            }
            _ => None,
        };
        newer.is_none_or(|(index, sequence)| self.shared.refresh(to, index, sequence))
    }

    /// Removes a segment's files and drops its pending notes.
    fn forget(&mut self, segment: &Segment) {
        self.are_names_dirty = true;
        let (note_bytes, forgotten) = self.shared.segments.forget(segment.id);
        self.shared.queue.release(note_bytes);
        if let Err(error) = forgotten {
            self.meet(TierFailure::of("remove a segment", &error));
        }
    }

    /// Removes a sealed segment without objects, or compacts an index that has grown.
    pub(super) fn tidy(&mut self, segment: &Arc<Segment>) {
        let is_known = segment.is_known.load(std::sync::atomic::Ordering::SeqCst);
        let is_open = segment.is_open.load(std::sync::atomic::Ordering::SeqCst);
        let is_there = self.shared.segments.of(segment.id).is_some();
        if !is_known || is_open || !is_there || self.shared.status.off() == Some(OffReason::Closed) {
            return;
        }
        if of(&segment.objects) == 0 {
            let stands = self.read_index(segment).and_then(|mut index| index.next_live());
            // The count may be too low, because an object may have been removed twice.
            if stands.is_none() {
                self.forget(segment);
            }
            return;
        }
        let baseline = segment.state().index_baseline;
        if of(&segment.index_bytes) > 2 * baseline + self.shared.plan.segment_bytes / 16
            && let Err(failure) = self.compact_index(segment)
        {
            self.meet(failure);
        }
    }

    /// Replaces an index by one with a single entry for each object.
    fn compact_index(&self, segment: &Arc<Segment>) -> Result<(), TierFailure> {
        let Some(mut index) = self.read_index(segment) else { return Ok(()) };
        let entries = IndexEncoder::of(segment.id);
        let mut survived = entries.header();
        let mut others = Vec::new();
        let mut of_survived = Vec::new();
        let mut of_others = Vec::new();
        while let Some(live) = index.next_live() {
            let life = if self.shared.survived(&live) { self.shared.mark.life } else { live.entry.life };
            let (out, places) = if life == self.shared.mark.life {
                (&mut survived, &mut of_survived)
            } else {
                (&mut others, &mut of_others)
            };
            entries.restate(out, life, &live);
            places.push((live.entry.offset, (out.len() - live.index.len()) as u64));
        }
        // `replace` syncs the whole file, so entries of this life are synced by then.
        entries.synced(&mut survived, self.shared.mark.life);
        let shift = survived.len() as u64;
        survived.extend_from_slice(&others);
        let places =
            of_survived.into_iter().chain(of_others.into_iter().map(|(at, place)| (at, place + shift)));
        let path = names::index(&self.shared.plan.directory, segment.id);
        let failure = |error: std::io::Error| TierFailure::of("compact an index", &error);
        // Make sure that the old file is open. Readers use it until they get the new file together
        // with the new positions.
        self.shared.segments.index(segment).map_err(failure)?;
        self.shared.disk.replace(&path, &survived).map_err(failure)?;
        let index = self.shared.disk.open(&path, Access::Write).map_err(failure)?;
        let mut state = segment.state();
        let old = state.index.replace(index);
        state.index_baseline = survived.len() as u64;
        for (offset, at) in places {
            if let Some(RefreshedIndex::Written { position, .. }) = state.refreshed.get_mut(&offset) {
                *position = at;
            }
        }
        drop(state);
        // Closed when the lock is free again, because closing may wait for the disk.
        drop(old);
        self.shared.segments.resize(segment, of(&segment.data_bytes), survived.len() as u64);
        Ok(())
    }
}

fn removed(notes: &[IndexNote]) -> HashSet<u64> {
    let removed = notes.iter().filter(|note| matches!(note.change, ObjectChange::Removed));
    removed.map(|note| note.offset).collect()
}
