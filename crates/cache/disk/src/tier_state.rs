//! The state that the interface, the writer and the recovery of a tier share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clock::Clock;
use platform::{Disk, DiskLock};

use crate::figures::{FigureCounters, add};
use crate::fill_share::FillShare;
use crate::index_file::IndexedObject;
use crate::journal::Journal;
use crate::mark::DirectoryMark;
use crate::operation_watch::OperationWatch;
use crate::queue::WriteQueue;
use crate::record::Location;
use crate::segment::{IndexNote, ObjectChange, RefreshedIndex, Segments};
use crate::settings::TierPlan;
use crate::status::TierStatus;

/// The number of low bits of an order that count operations; the life is above them. A life with
/// more operations would have orders of the next life.
const ORDER_BITS: u32 = 40;

/// A tier.
pub(crate) struct TierState {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) plan: TierPlan,
    pub(crate) mark: DirectoryMark,
    pub(crate) segments: Arc<Segments>,
    pub(crate) queue: WriteQueue,
    pub(crate) journal: Journal,
    pub(crate) status: Arc<TierStatus>,
    pub(crate) watch: Arc<OperationWatch>,
    pub(crate) counters: Arc<FigureCounters>,
    /// The number of open [`Fill`](crate::Fill) handles.
    pub(crate) fills: AtomicU64,
    /// The disk space that fills may take together.
    pub(crate) fill_share: Arc<FillShare>,
    /// Held as long as any handle to the tier exists, or until another process is to have the
    /// directory.
    pub(crate) lock: Mutex<Option<DiskLock>>,
}

impl TierState {
    /// The order, across lives, of this life's operation `number`.
    pub(crate) const fn order(&self, number: u64) -> u64 {
        ((self.mark.life as u64) << ORDER_BITS) | number
    }

    /// The bytes of the files that the size limit applies to.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.segments.bytes() + self.journal.bytes()
    }

    /// Whether no power cut can have lost an entry about this object.
    pub(crate) const fn survived(&self, live: &IndexedObject) -> bool {
        live.entry.life > self.mark.suspect_until
            && (live.is_synced || live.entry.life > self.mark.unsynced_suspect_until)
    }

    /// Removes an object.
    pub(crate) fn remove(&self, location: Location) {
        if self.status.is_off_for_good() {
            return;
        }
        let Some(segment) = self.segments.of(location.segment) else { return };
        self.queue.note(location.segment, |number| {
            let mut state = segment.state();
            if state.is_gone {
                return;
            }
            state.refreshed.remove(&location.offset);
            let note = IndexNote {
                offset: location.offset,
                order: self.order(number),
                change: ObjectChange::Removed,
            };
            state.notes.push(note);
        });
        let less = |objects: u64| Some(objects.saturating_sub(1));
        // This cannot fail, because `less` always returns a value.
        let _ = segment.objects.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Replaces the index entry and the number of an object. Returns false if the change is refused
    /// or the segment is gone.
    pub(crate) fn refresh(&self, location: Location, index: Bytes, sequence: u64) -> bool {
        let Some(segment) = self.segments.of(location.segment) else { return false };
        let bytes = index.len() as u64;
        if self.status.is_off_for_good() || !self.queue.reserve(bytes) {
            add(&self.counters.refused, 1);
            return false;
        }
        let mut is_noted = false;
        self.queue.note(location.segment, |number| {
            let order = self.order(number);
            let mut state = segment.state();
            if state.is_gone {
                return;
            }
            is_noted = true;
            let queued = RefreshedIndex::Queued { index: index.clone(), sequence, order };
            state.refreshed.insert(location.offset, queued);
            let change = ObjectChange::Refreshed { index, sequence };
            state.notes.push(IndexNote { offset: location.offset, order, change });
        });
        if !is_noted {
            self.queue.release(bytes);
        }
        is_noted
    }
}
