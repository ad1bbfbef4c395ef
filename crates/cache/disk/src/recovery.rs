//! The recovery of objects from earlier lives, while the tier is already in use.
//!
//! Invariant: each object is returned at most once, and only if all entries about it say that it
//! exists.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::figures::{add, of};
use crate::index_file::{IndexFile, IndexedObject};
use crate::names;
use crate::record::RecoveredObject;
use crate::segment::{RefreshedIndex, Segment};
use crate::tier_state::TierState;

/// The contents found in a directory: the invalidations at once, the objects one by one from the
/// newest segment on. Reading it blocks, and may happen on another thread while the tier is already
/// in use.
pub struct Recovery {
    shared: Arc<TierState>,
    invalidations: Vec<(u64, Bytes)>,
    sequence: u64,
    /// Objects with lower numbers are not proven.
    floor: u64,
    /// The segments that are still to be read, the newest last.
    segments: Vec<u32>,
    current: Option<CurrentSegment>,
    is_distrusted: bool,
}

/// The segment being read.
struct CurrentSegment {
    segment: Arc<Segment>,
    index: IndexFile,
    sequence_min: u64,
}

impl Recovery {
    pub(crate) const fn new(
        shared: Arc<TierState>,
        invalidations: Vec<(u64, Bytes)>,
        (sequence, floor): (u64, u64),
        segments: Vec<u32>,
        is_distrusted: bool,
    ) -> Self {
        Self { shared, invalidations, sequence, floor, segments, current: None, is_distrusted }
    }

    /// A number above every number that was ever persisted.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the directory had contents that are ignored, because a purge may be missing from
    /// them.
    pub const fn is_distrusted(&self) -> bool {
        self.is_distrusted
    }

    /// The invalidations with their numbers, in order. They must be replayed before any object is
    /// used.
    pub fn invalidations(&self) -> &[(u64, Bytes)] {
        &self.invalidations
    }

    /// Reads the index of the next segment. `None` if there is no more.
    fn advance(&mut self) -> Option<()> {
        self.leave();
        loop {
            let id = self.segments.pop()?;
            self.shared.segments.pinned.store(id, Ordering::SeqCst);
            let Some(segment) = self.shared.segments.of(id) else { continue };
            let path = names::index(&self.shared.plan.directory, id);
            match self.read(&path, &segment) {
                Ok(Some(index)) => {
                    let mut state = segment.state();
                    state.index_baseline = index.valid_bytes;
                    state.cut_at = index.is_torn().then_some(index.valid_bytes);
                    drop(state);
                    add(&self.shared.counters.torn, u64::from(index.is_torn()));
                    self.current = Some(CurrentSegment { segment, index, sequence_min: u64::MAX });
                    return Some(());
                }
                // The file is not an index, so the segment has no objects. The writer removes it.
                Ok(None) => {
                    add(&self.shared.counters.torn, 1);
                    segment.is_known.store(true, Ordering::SeqCst);
                    self.shared.queue.look_at(id);
                }
                // The objects of this segment are not recovered. The segment is evicted in its
                // turn.
                Err(_) => add(&self.shared.counters.io_errors, 1),
            }
        }
    }

    /// Reads an index. A damaged one is replaced: the writer would truncate it before appending,
    /// and the next start would not notice that its objects must stay unproven.
    fn read(&self, path: &Path, segment: &Segment) -> io::Result<Option<IndexFile>> {
        let id = segment.id;
        let index = match IndexFile::read(&*self.shared.disk, path, id)? {
            Some(index) if index.is_damaged => index,
            other => return Ok(other),
        };
        add(&self.shared.counters.torn, 1);
        let content = index.salvage(id);
        self.shared.disk.replace(path, &content)?;
        self.shared.segments.resize(segment, of(&segment.data_bytes), content.len() as u64);
        Ok(IndexFile::parse(content.into(), id))
    }

    /// Ends a segment, after all of its objects were returned.
    fn leave(&mut self) {
        if let Some(CurrentSegment { segment, sequence_min, .. }) = self.current.take() {
            // Relaxed is enough; see the field.
            segment.sequence_min.store(sequence_min, Ordering::Relaxed);
            segment.is_known.store(true, Ordering::SeqCst);
            if of(&segment.objects) == 0 {
                self.shared.queue.look_at(segment.id);
            }
        }
        self.shared.segments.pinned.store(0, Ordering::SeqCst);
    }

    /// The form in which an object is returned. `None` if its entry cannot be right.
    fn judge(&self, segment: &Segment, live: &IndexedObject) -> Option<RecoveredObject> {
        let end = live.entry.offset.checked_add(u64::from(live.entry.span))?;
        // A record beyond the end of the file, or a number that was never reserved, cannot be
        // right.
        if end > of(&segment.data_bytes) || live.entry.sequence >= self.sequence {
            add(&self.shared.counters.torn, 1);
            return None;
        }
        add(&segment.objects, 1);
        if let Some(position) = live.refreshed_at {
            let written = RefreshedIndex::Written { position, bytes: live.index.len() as u32 };
            segment.state().refreshed.insert(live.entry.offset, written);
        }
        Some(RecoveredObject {
            location: live.location(segment.id),
            index: live.index.clone(),
            sequence: live.entry.sequence,
            order: live.entry.order,
            proven: live.entry.sequence >= self.floor && self.shared.survived(live),
        })
    }
}

impl Iterator for Recovery {
    type Item = RecoveredObject;

    /// The next object, or `None` if there are no more.
    fn next(&mut self) -> Option<RecoveredObject> {
        loop {
            if let Some(mut current) = self.current.take() {
                let mut found = None;
                while let Some(live) = current.index.next_live() {
                    found = self.judge(&current.segment, &live);
                    if let Some(recovered) = &found {
                        current.sequence_min = current.sequence_min.min(recovered.sequence);
                        break;
                    }
                }
                self.current = Some(current);
                if found.is_some() {
                    return found;
                }
            }
            self.advance()?;
        }
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        self.shared.segments.pinned.store(0, Ordering::SeqCst);
    }
}
