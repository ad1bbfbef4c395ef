//! Fills, as the writer sees them: each has a segment to itself while it runs.
//!
//! Invariant: a segment has at most one fill at a time, at its end. An abandoned fill is truncated.

use std::sync::Arc;

use super::DiskWriter;
use crate::OffReason;
use crate::figures::{add, of};
use crate::fill_shared::FillShared;
use crate::open_segment::{OpenSegment, WRITE_BYTES};
use crate::queue::{Command, WriteCallback};
use crate::record::{Location, Record, RetentionPolicy};
use crate::status::TierFailure;

/// The most segments that are kept open for later fills; others are sealed.
const IDLE_MAX: usize = 4;

/// A running fill.
pub(super) struct RunningFill {
    fill: Arc<FillShared>,
    open: OpenSegment,
    start: u64,
}

impl DiskWriter {
    /// Writes the complete pieces that a fill has received.
    pub(super) fn fill(&mut self, keeper: &dyn RetentionPolicy, fill: &Arc<FillShared>) {
        // A step queued before the fill ended would open a segment that no step closes again.
        if fill.is_ended() {
            return;
        }
        if let Err(failure) = self.write_pieces(keeper, fill, false) {
            self.end_fill(fill, failure);
        }
    }

    /// Writes the rest of a body, and its index entry, head and checksums.
    #[expect(clippy::expect_used, reason = "writing the rest of a body begins its fill")]
    pub(super) fn finish(
        &mut self,
        keeper: &dyn RetentionPolicy,
        fill: &Arc<FillShared>,
        record: &Record,
        order: u64,
        answer: WriteCallback,
    ) {
        match self.try_finish(keeper, fill, record, order) {
            Ok(location) => {
                add(&self.shared.counters.written, 1);
                let filling = self.take_running(fill).expect("a finished fill has begun");
                self.park(filling.open);
                fill.end();
                answer.give(location);
            }
            Err(failure) => {
                add(&self.shared.counters.refused, 1);
                self.end_fill(fill, failure);
            }
        }
    }

    fn try_finish(
        &mut self,
        keeper: &dyn RetentionPolicy,
        fill: &Arc<FillShared>,
        record: &Record,
        order: u64,
    ) -> Result<Location, TierFailure> {
        self.write_pieces(keeper, fill, true)?;
        self.reserve(record.sequence)?;
        let sums = fill.sums();
        let bytes = (sums.len() + 2 * record.index.len() + record.head.len() + 128) as u64;
        let life = self.shared.mark.life;
        self.with_room(keeper, bytes, |writer| {
            let segment = writer.running(fill).open.segment.id;
            writer.dirty.insert(segment);
            let filling = writer.running(fill);
            let segments = &writer.shared.segments;
            let before = of(&filling.open.segment.data_bytes);
            let body = (filling.start, fill.pushed(), sums.as_slice());
            let put = filling.open.put_behind(segments, body, record, (order, life));
            put.inspect_err(|_| filling.open.cut(segments, before))
        })
    }

    /// Writes complete pieces; if `is_last` is set, also the shorter rest.
    fn write_pieces(
        &mut self,
        keeper: &dyn RetentionPolicy,
        fill: &Arc<FillShared>,
        is_last: bool,
    ) -> Result<(), TierFailure> {
        if let Some(reason) = fill.failed().or_else(|| self.shared.status.off()) {
            return Err(TierFailure::from(reason));
        }
        if fill.pushed() > self.shared.plan.object_bytes_max {
            return Err(TierFailure::NoRoom);
        }
        if self.position(fill).is_none() {
            self.begin_fill(keeper, fill)?;
        }
        loop {
            let octets = fill.next_pieces(WRITE_BYTES as usize, is_last);
            if octets.is_empty() {
                return Ok(());
            }
            self.with_room(keeper, octets.len() as u64, |writer| {
                let segment = writer.running(fill).open.segment.id;
                writer.dirty.insert(segment);
                writer.running(fill).open.append(&writer.shared.segments, &octets)
            })?;
            // The owner may fail the fill meanwhile, and has then released its bytes.
            let Some(must_follow) = fill.wrote(&octets) else { return Err(TierFailure::NoRoom) };
            self.shared.queue.release(octets.len() as u64);
            if !is_last {
                if must_follow {
                    // This fails only when the tier closes, which fails the fill as well.
                    let _ = self.shared.queue.add_step(Command::Fill(Arc::clone(fill)));
                }
                return Ok(());
            }
        }
    }

    /// A fill that has begun and not ended.
    #[expect(clippy::expect_used, reason = "a fill begins before its first bytes are written")]
    fn running(&self, fill: &Arc<FillShared>) -> &RunningFill {
        let found = self.filling.iter().find(|running| Arc::ptr_eq(&running.fill, fill));
        found.expect("a fill begins before its first bytes are written")
    }

    fn position(&self, fill: &Arc<FillShared>) -> Option<usize> {
        self.filling.iter().position(|running| Arc::ptr_eq(&running.fill, fill))
    }

    fn take_running(&mut self, fill: &Arc<FillShared>) -> Option<RunningFill> {
        self.position(fill).map(|position| self.filling.remove(position))
    }

    fn begin_fill(
        &mut self,
        keeper: &dyn RetentionPolicy,
        fill: &Arc<FillShared>,
    ) -> Result<(), TierFailure> {
        let fits = |open: &OpenSegment| fill.reserve_before(of(&open.segment.data_bytes));
        let open = match self.idle.iter().position(fits).map(|place| self.idle.remove(place)) {
            Some(open) => open,
            None => self.with_room(keeper, 128, Self::create)?,
        };
        let start = of(&open.segment.data_bytes);
        fill.begin_at(Arc::clone(&open.data), start);
        self.filling.push(RunningFill { fill: Arc::clone(fill), open, start });
        Ok(())
    }

    /// Ends a fill that its owner has dropped.
    pub(super) fn abandon(&mut self, fill: &Arc<FillShared>) {
        self.drop_fill(fill, OffReason::TooLarge);
    }

    fn end_fill(&mut self, fill: &Arc<FillShared>, failure: TierFailure) {
        self.drop_fill(fill, failure.reason());
        if self.shared.status.off().is_none() {
            self.meet(failure);
        }
    }

    fn drop_fill(&mut self, fill: &Arc<FillShared>, reason: OffReason) {
        let waiting = fill.fail(reason);
        self.shared.queue.release(waiting);
        if let Some(RunningFill { open, start, .. }) = self.take_running(fill) {
            open.cut(&self.shared.segments, start);
            self.park(open);
        }
        fill.end();
    }

    /// The bytes of segments that cannot be evicted while the current fills run.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.filling.iter().map(|filling| filling.open.segment.bytes()).sum()
    }

    /// Ends all fills, because the tier closes.
    pub(super) fn fail_fills(&mut self, reason: OffReason) {
        let fills: Vec<_> = self.filling.iter().map(|filling| Arc::clone(&filling.fill)).collect();
        fills.iter().for_each(|fill| self.drop_fill(fill, reason));
    }

    /// Keeps a segment for the next fill, or seals it.
    fn park(&mut self, open: OpenSegment) {
        if self.idle.len() < IDLE_MAX && !open.is_full(self.shared.plan.segment_bytes) {
            self.idle.push(open);
        } else {
            self.seal(open);
        }
    }
}

impl From<OffReason> for TierFailure {
    fn from(reason: OffReason) -> Self {
        match reason {
            OffReason::Io { operation, kind } => Self::Io { operation, kind },
            OffReason::Full => Self::Full,
            OffReason::Closed | OffReason::Hung | OffReason::Crowded | OffReason::TooLarge => Self::NoRoom,
        }
    }
}
