//! The state that the owner, the writer and the readers of a fill share: its bytes on their way to
//! the file.
//!
//! Invariant: a pushed byte is in memory until it is in the file, so a reader finds it in one of
//! both. Callers manage the room in the queue and the writer's steps; nothing is queued here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use platform::{DiskFile, sound};

use crate::figures::{FigureCounters, add};
use crate::fill_share::{FillReservation, FillShare};
use crate::piece::{self, BodyExtent, PIECE_BYTES};
use crate::{OffReason, ReadError};

/// The state that the owner, the writer and the readers of a fill share.
pub(crate) struct FillShared {
    state: Mutex<FillState>,
    counters: Arc<FigureCounters>,
}

struct FillState {
    /// Pushed bytes that are not in the file yet.
    pending: VecDeque<Bytes>,
    pending_bytes: u64,
    pushed: u64,
    written: u64,
    /// The file that it is written to, and its position there.
    place: Option<(Arc<dyn DiskFile>, u64)>,
    /// The checksums of the written pieces, four bytes each.
    sums: Vec<u8>,
    failed: Option<OffReason>,
    /// Whether the writer has a step of this fill in its queue.
    is_queued: bool,
    /// Whether it is complete or abandoned.
    is_ended: bool,
    /// The disk space reserved for it: for its body, and for the bytes that precede it in its
    /// segment.
    reservation: FillReservation,
    /// The part of the reservation for the body, in bytes.
    expected: u64,
}

impl FillShared {
    /// A fill of `expected` bytes, or of unknown length. `None` if the share of all fills has no
    /// room for it.
    pub(crate) fn new(
        counters: Arc<FigureCounters>,
        share: &Arc<FillShare>,
        expected: Option<u64>,
    ) -> Option<Arc<Self>> {
        let mut reservation = FillReservation::empty(Arc::clone(share));
        let expected = expected.unwrap_or(0);
        if share.is_used_up() || !reservation.add(expected) {
            add(&counters.fills_unshared, 1);
            return None;
        }
        let state = FillState {
            pending: VecDeque::new(),
            pending_bytes: 0,
            pushed: 0,
            written: 0,
            place: None,
            sums: Vec::new(),
            failed: None,
            is_queued: false,
            is_ended: false,
            reservation,
            expected,
        };
        Some(Arc::new(Self { state: Mutex::new(state), counters }))
    }

    /// Extends the reservation so that it covers `bytes` more. Returns false if there is no room.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let missing = (state.pushed + bytes).saturating_sub(state.expected);
        let is_reserved = state.reservation.add(missing);
        state.expected += if is_reserved { missing } else { 0 };
        is_reserved
    }

    /// Reserves the bytes that precede the fill in its segment, because they cannot be evicted
    /// either.
    pub(crate) fn reserve_before(&self, bytes: u64) -> bool {
        self.state().reservation.add(bytes)
    }

    /// Ends the fill. Steps of it that are still queued will not open a segment.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.reservation.release();
        state.is_ended = true;
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state().is_ended
    }

    fn state(&self) -> MutexGuard<'_, FillState> {
        sound(self.state.lock())
    }

    pub(crate) fn pushed(&self) -> u64 {
        self.state().pushed
    }

    pub(crate) fn failed(&self) -> Option<OffReason> {
        self.state().failed
    }

    /// The checksums of all written pieces.
    pub(crate) fn sums(&self) -> Vec<u8> {
        self.state().sums.clone()
    }

    /// Adds bytes. Returns true if there are complete pieces, so that the caller must queue a step.
    ///
    /// # Errors
    /// The fill has failed, and nothing was added.
    pub(crate) fn push(&self, octets: Bytes) -> Result<bool, OffReason> {
        let mut state = self.state();
        if let Some(reason) = state.failed {
            return Err(reason);
        }
        state.pending_bytes += octets.len() as u64;
        state.pushed += octets.len() as u64;
        state.pending.push_back(octets);
        state.count_waiting();
        Ok(state.must_follow())
    }

    /// Whether the owner must wait, because too many bytes wait to be written.
    pub(crate) fn is_behind(&self, window_bytes: u64) -> bool {
        let state = self.state();
        state.failed.is_none() && state.pending_bytes >= window_bytes
    }

    /// Sets the file and the position that it is written to.
    pub(crate) fn begin_at(&self, file: Arc<dyn DiskFile>, start: u64) {
        self.state().place = Some((file, start));
    }

    /// A copy of the bytes to write next, about `bytes_max` at most: complete pieces. If `is_last`
    /// is set and no complete piece is left, the shorter rest.
    pub(crate) fn next_pieces(&self, bytes_max: usize, is_last: bool) -> Vec<u8> {
        let mut state = self.state();
        state.is_queued = false;
        let whole = (state.pending_bytes as usize).min(bytes_max) / PIECE_BYTES * PIECE_BYTES;
        let bytes = if is_last && whole == 0 { state.pending_bytes as usize } else { whole };
        let mut octets = Vec::with_capacity(bytes);
        for chunk in &state.pending {
            let left = bytes - octets.len();
            if left == 0 {
                break;
            }
            octets.extend_from_slice(chunk.get(..left).unwrap_or(chunk));
        }
        octets
    }

    /// Records that these bytes are in the file. Returns whether there are more complete pieces,
    /// so that the caller must queue a step. `None` if the fill has failed since its owner pushed
    /// them: they count as waiting no more.
    pub(crate) fn wrote(&self, octets: &[u8]) -> Option<bool> {
        let mut state = self.state();
        if state.failed.is_some() {
            return None;
        }
        for piece in octets.chunks(PIECE_BYTES) {
            state.sums.extend_from_slice(&crc32fast::hash(piece).to_le_bytes());
        }
        let mut left = octets.len();
        while let Some(mut chunk) = state.pending.pop_front() {
            if chunk.len() > left {
                state.pending.push_front(chunk.split_off(left));
                break;
            }
            left -= chunk.len();
        }
        state.pending_bytes -= octets.len() as u64;
        state.written += octets.len() as u64;
        state.count_waiting();
        Some(state.must_follow())
    }

    /// Fails the fill: nothing more is written. Returns the number of bytes that were waiting.
    pub(crate) fn fail(&self, reason: OffReason) -> u64 {
        let mut state = self.state();
        state.failed.get_or_insert(reason);
        state.pending.clear();
        let waiting = std::mem::take(&mut state.pending_bytes);
        state.count_waiting();
        waiting
    }

    /// Reads at most `bytes_max` bytes from `offset` on, from the file or from the bytes that wait
    /// for it.
    pub(crate) fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        let state = self.state();
        if offset >= state.written {
            return state.read_pending(offset, bytes_max);
        }
        let written = state.written;
        let place = state.place.clone();
        let pieces = piece::pieces_of(offset, bytes_max, written);
        let sums = pieces.start as usize * 4..pieces.end as usize * 4;
        let sums = state.sums.get(sums).unwrap_or_default().to_vec();
        drop(state);
        let Some((file, start)) = place else { return Err(ReadError::Gone) };
        let extent = BodyExtent { file: &*file, start, bytes: written };
        let read = extent.read_at(offset, bytes_max, &sums, pieces.start);
        read.inspect_err(|error| self.counters.count_read(error))
    }
}

impl FillState {
    fn count_waiting(&mut self) {
        self.reservation.count_waiting(self.pending_bytes);
    }

    /// Whether there are complete pieces without a queued step. The caller must then queue one.
    fn must_follow(&mut self) -> bool {
        let must_follow = self.pending_bytes >= PIECE_BYTES as u64 && !self.is_queued;
        self.is_queued |= must_follow;
        must_follow
    }

    fn read_pending(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        let mut skip = offset - self.written;
        for chunk in &self.pending {
            if skip < chunk.len() as u64 {
                let from = skip as usize;
                return Ok(chunk.slice(from..from.saturating_add(bytes_max).min(chunk.len())));
            }
            skip -= chunk.len() as u64;
        }
        // The bytes of a failed fill that were pushed but not written are lost.
        if offset < self.pushed { Err(ReadError::Gone) } else { Ok(Bytes::new()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{FillShared, PIECE_BYTES};
    use crate::OffReason;
    use crate::fill_share::FillShare;
    use std::sync::Arc;

    #[test]
    fn fill_that_fails_while_it_is_written_counts_its_bytes_once() {
        let share = FillShare::new(1 << 20);
        let fill = FillShared::new(Arc::default(), &share, None).unwrap();
        assert_eq!(fill.push(vec![1; PIECE_BYTES + 5].into()), Ok(true));
        let octets = fill.next_pieces(PIECE_BYTES, false);
        assert_eq!(share.waiting(), PIECE_BYTES as u64 + 5);
        assert_eq!(fill.fail(OffReason::TooLarge), PIECE_BYTES as u64 + 5);
        assert_eq!(fill.wrote(&octets), None, "the bytes are released already");
        assert_eq!((fill.fail(OffReason::TooLarge), share.waiting()), (0, 0));
    }
}
