//! A body that streams in, and its readers.
//!
//! Invariant: an octet that was pushed is in memory until it is in the file, so a reader finds it in one of the two.
//! Lock order: queue, then fill.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use platform::DiskFile;

use crate::figures::{FigureCounters, add};
use crate::piece::{self, Extent, PIECE_BYTES};
use crate::queue::{Answer, Command};
use crate::record::{HEAD_BYTES_MAX, INDEX_BYTES_MAX, Location};
use crate::shared::Shared;
use crate::{OffReason, ReadError};

/// What the owner, the writer and the readers of a fill share.
pub(crate) struct FillShared {
    state: Mutex<FillState>,
    counters: Arc<FigureCounters>,
}

#[derive(Default)]
struct FillState {
    pending: VecDeque<Bytes>,
    pending_bytes: u64,
    pushed: u64,
    written: u64,
    /// The file that it is written to, and where it begins there.
    place: Option<(Arc<dyn DiskFile>, u64)>,
    sums: Vec<u8>,
    failed: Option<OffReason>,
    /// The writer has a step of it to do.
    is_queued: bool,
}

impl FillShared {
    fn new(counters: Arc<FigureCounters>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), counters })
    }

    fn state(&self) -> MutexGuard<'_, FillState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pushed(&self) -> u64 {
        self.state().pushed
    }

    pub(crate) fn failed(&self) -> Option<OffReason> {
        self.state().failed
    }

    /// The checksums of all that is written.
    pub(crate) fn sums(&self) -> Vec<u8> {
        self.state().sums.clone()
    }

    pub(crate) fn begin_at(&self, file: Arc<dyn DiskFile>, start: u64) {
        self.state().place = Some((file, start));
    }

    /// What is to be written next, at most about `bytes_max`: whole pieces, and the rest too if it `is_last`.
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

    /// The next octets are in the file now. `true`: there are more whole pieces, and a step must follow.
    pub(crate) fn wrote(&self, octets: &[u8]) -> bool {
        let mut state = self.state();
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
        let must_follow = state.pending_bytes >= PIECE_BYTES as u64 && !state.is_queued;
        state.is_queued |= must_follow;
        must_follow
    }

    /// Nothing of it is written any more. Gives back how many octets waited, in bytes.
    pub(crate) fn fail(&self, reason: OffReason) -> u64 {
        let mut state = self.state();
        state.failed.get_or_insert(reason);
        state.pending.clear();
        std::mem::take(&mut state.pending_bytes)
    }

    fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        let state = self.state();
        if offset >= state.written {
            return state.read_pending(offset, bytes_max);
        }
        let (written, place) = (state.written, state.place.clone());
        let pieces = piece::pieces_of(offset, bytes_max, written);
        let sums = pieces.start as usize * 4..pieces.end as usize * 4;
        let sums = state.sums.get(sums).unwrap_or_default().to_vec();
        drop(state);
        let Some((file, start)) = place else { return Err(ReadError::Gone) };
        let extent = Extent { file: &*file, start, bytes: written };
        let read = extent.read_at(offset, bytes_max, &sums, pieces.start);
        read.inspect_err(|error| self.counters.count_read(error))
    }
}

impl FillState {
    fn read_pending(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        let mut skip = offset - self.written;
        for chunk in &self.pending {
            if skip < chunk.len() as u64 {
                let from = skip as usize;
                return Ok(chunk.slice(from..from.saturating_add(bytes_max).min(chunk.len())));
            }
            skip -= chunk.len() as u64;
        }
        // What failed cannot be read to where it was pushed.
        if offset < self.pushed { Err(ReadError::Gone) } else { Ok(Bytes::new()) }
    }
}

/// A body that streams in. Dropped before it is finished, it is forgotten.
pub struct Fill {
    shared: Arc<Shared>,
    fill: Arc<FillShared>,
    is_finished: bool,
}

impl Fill {
    /// Begins a fill if there is room for one more.
    pub(crate) fn begin(shared: &Arc<Shared>, expected: Option<u64>) -> Option<Self> {
        let is_off = shared.status.off().is_some() || shared.queue.is_closing();
        let is_too_large = expected.is_some_and(|bytes| bytes > shared.plan.object_bytes_max);
        if is_off || is_too_large || shared.fills.fetch_add(1, Ordering::SeqCst) >= shared.plan.fills_max {
            if !is_off && !is_too_large {
                shared.fills.fetch_sub(1, Ordering::SeqCst);
            }
            add(&shared.counters.refused, 1);
            return None;
        }
        let fill = FillShared::new(Arc::clone(&shared.counters));
        Some(Self { shared: Arc::clone(shared), fill, is_finished: false })
    }

    /// Adds octets to the body. Ask [`Fill::poll_ready`] before: what finds no room at all ends the fill.
    pub fn push(&mut self, octets: Bytes) {
        if octets.is_empty() {
            return;
        }
        let bytes = octets.len() as u64;
        if !self.shared.queue.reserve(bytes) {
            let unused = self.fill.fail(self.shared.status.off().unwrap_or(OffReason::TooLarge));
            self.shared.queue.release(unused);
            return;
        }
        let mut state = self.fill.state();
        if state.failed.is_some() {
            drop(state);
            self.shared.queue.release(bytes);
            return;
        }
        state.pending.push_back(octets);
        state.pending_bytes += bytes;
        state.pushed += bytes;
        let must_follow = state.pending_bytes >= PIECE_BYTES as u64 && !state.is_queued;
        state.is_queued |= must_follow;
        drop(state);
        if must_follow {
            // Refused only when the tier closes, which the writer then tells this fill.
            let _ = self.shared.queue.add_step(Command::Fill(Arc::clone(&self.fill)));
        }
    }

    /// Waits until there is room for more.
    ///
    /// # Errors
    /// The body cannot be written any more.
    pub fn poll_ready(&self, cx: &Context<'_>) -> Poll<Result<(), OffReason>> {
        let is_behind = || {
            let state = self.fill.state();
            state.failed.is_none() && state.pending_bytes >= self.shared.plan.fill_window_bytes
        };
        if let Some(reason) = self.fill.failed().or_else(|| self.shared.status.off()) {
            return Poll::Ready(Err(reason));
        }
        if !self.shared.queue.has_room_for_fills(cx.waker(), is_behind) {
            return Poll::Pending;
        }
        if self.shared.queue.is_closing() {
            return Poll::Ready(Err(OffReason::Closed));
        }
        Poll::Ready(Ok(()))
    }

    /// For readers of what has come so far.
    pub fn view(&self) -> FillView {
        FillView { fill: Arc::clone(&self.fill) }
    }

    /// The body is complete. `done` is called with its place once it is written, or with `None`.
    pub fn finish(
        mut self,
        index: Bytes,
        head: Bytes,
        sequence: u64,
        done: impl FnOnce(Option<Location>) + Send + 'static,
    ) {
        let done = Answer::new(Box::new(done));
        if index.len() > INDEX_BYTES_MAX || head.len() > HEAD_BYTES_MAX {
            add(&self.shared.counters.refused, 1);
            return;
        }
        let (fill, shared) = (Arc::clone(&self.fill), Arc::clone(&self.shared));
        let bytes = (index.len() + head.len()) as u64;
        self.is_finished = shared.queue.add(bytes, |number| Command::Finish {
            fill,
            index,
            head,
            sequence,
            order: shared.order(number),
            done,
        });
        if !self.is_finished {
            add(&shared.counters.refused, 1);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.shared.fills.fetch_sub(1, Ordering::SeqCst);
        if !self.is_finished {
            // Refused only when the tier closes, and then nothing of it is left anyway.
            let _ = self.shared.queue.add_step(Command::Abandon(Arc::clone(&self.fill)));
        }
    }
}

/// What has come so far of a body that streams in. Good also after it was finished or evicted; of one that was
/// abandoned or failed, what is not in memory any more reads as an error.
#[derive(Clone)]
pub struct FillView {
    fill: Arc<FillShared>,
}

impl FillView {
    /// The octets that can be read: all that were pushed.
    pub fn len(&self) -> u64 {
        self.fill.pushed()
    }

    /// Whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `bytes_max` octets from `offset`, at most 1 MiB at once; none only at the end of what has come.
    /// Checked by checksums. May block.
    ///
    /// # Errors
    /// As [`ReadError`] says.
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.fill.read_at(offset, bytes_max)
    }
}
