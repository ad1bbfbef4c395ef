//! What the face, the writer and the recovery of a tier have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use platform::{Clock, Disk, DiskLock};

use crate::figures::{FigureCounters, add};
use crate::fill_share::FillShare;
use crate::index_file::Live;
use crate::journal::Journal;
use crate::mark::Mark;
use crate::queue::Queue;
use crate::record::Location;
use crate::segment::{Note, Noted, Refreshed, Segments};
use crate::settings::Plan;
use crate::status::Status;
use crate::watch::Watch;

/// How many operations a life may have before orders of two lives could meet.
const ORDER_BITS: u32 = 40;

/// A tier.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) plan: Plan,
    pub(crate) mark: Mark,
    pub(crate) segments: Arc<Segments>,
    pub(crate) queue: Queue,
    pub(crate) journal: Journal,
    pub(crate) status: Arc<Status>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counters: Arc<FigureCounters>,
    /// Fills that have begun and not ended.
    pub(crate) fills: AtomicU64,
    /// What they may take together.
    pub(crate) fill_share: Arc<FillShare>,
    /// Held as long as anybody holds the tier.
    pub(crate) _lock: DiskLock,
}

impl Shared {
    /// The order over all lives of this life's operation with a number.
    pub(crate) const fn order(&self, number: u64) -> u64 {
        ((self.mark.life as u64) << ORDER_BITS) | number
    }

    /// What the files take that count against the bound, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.segments.bytes() + self.journal.bytes()
    }

    /// Whether no power cut can have taken away what concerns this object.
    pub(crate) const fn survived(&self, live: &Live) -> bool {
        live.entry.life > self.mark.suspect_until
            && (live.is_synced || live.entry.life > self.mark.unsynced_suspect_until)
    }

    /// Forgets an object.
    pub(crate) fn remove(&self, location: Location) {
        if self.status.is_off_for_good() {
            return;
        }
        let Some(segment) = self.segments.of(location.segment) else { return };
        self.queue.note(location.segment, |number| {
            let mut state = segment.state();
            state.refreshed.remove(&location.offset);
            let note = Note { offset: location.offset, order: self.order(number), change: Noted::Removed };
            state.notes.push(note);
        });
        let less = |objects: u64| Some(objects.saturating_sub(1));
        // It always succeeds: there is a new value for each old one.
        let _ = segment.objects.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Gives an object a new index and number; `false`: refused, or it is gone.
    pub(crate) fn refresh(&self, location: Location, index: Bytes, sequence: u64) -> bool {
        let Some(segment) = self.segments.of(location.segment) else { return false };
        if self.status.is_off_for_good() || !self.queue.reserve(index.len() as u64) {
            add(&self.counters.refused, 1);
            return false;
        }
        self.queue.note(location.segment, |number| {
            let order = self.order(number);
            let mut state = segment.state();
            let queued = Refreshed::Queued { index: index.clone(), sequence, order };
            state.refreshed.insert(location.offset, queued);
            let change = Noted::Refreshed { index, sequence };
            state.notes.push(Note { offset: location.offset, order, change });
        });
        true
    }
}
