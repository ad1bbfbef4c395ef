//! A body that streams in, for its owner, and what readers see of it meanwhile.
//!
//! Invariant: what is pushed has room in the queue, and gives it back when it is written or given up. Lock order:
//! queue, then fill.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::figures::add;
use crate::fill_shared::FillShared;
use crate::queue::{Answer, Command};
use crate::record::{HEAD_BYTES_MAX, INDEX_BYTES_MAX, Location};
use crate::shared::Shared;
use crate::{OffReason, ReadError};

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
        let Some(fill) = FillShared::new(Arc::clone(&shared.counters), &shared.fill_share, expected) else {
            shared.fills.fetch_sub(1, Ordering::SeqCst);
            add(&shared.counters.refused, 1);
            return None;
        };
        Some(Self { shared: Arc::clone(shared), fill, is_finished: false })
    }

    /// Adds octets to the body. Ask [`Fill::poll_ready`] before: what finds no room at all ends the fill.
    pub fn push(&mut self, octets: Bytes) {
        if octets.is_empty() {
            return;
        }
        let bytes = octets.len() as u64;
        if self.fill.failed().is_some() {
            return;
        }
        if let Err(reason) = self.admit(bytes) {
            let unused = self.fill.fail(reason);
            self.shared.queue.release(unused);
            return;
        }
        if !self.shared.queue.reserve(bytes) {
            let unused = self.fill.fail(self.shared.status.off().unwrap_or(OffReason::TooLarge));
            self.shared.queue.release(unused);
            return;
        }
        let Ok(must_follow) = self.fill.push(octets) else {
            self.shared.queue.release(bytes);
            return;
        };
        if must_follow {
            // Refused only when the tier closes, which the writer then tells this fill.
            let _ = self.shared.queue.add_step(Command::Fill(Arc::clone(&self.fill)));
        }
    }

    /// Whether so many more octets are within what one body, and all that stream in together, may take.
    fn admit(&self, bytes: u64) -> Result<(), OffReason> {
        if self.fill.pushed() + bytes > self.shared.plan.object_bytes_max {
            return Err(OffReason::TooLarge);
        }
        if !self.fill.reserve(bytes) {
            add(&self.shared.counters.fills_unshared, 1);
            return Err(OffReason::Crowded);
        }
        Ok(())
    }

    /// Waits until there is room for more.
    ///
    /// # Errors
    /// The body cannot be written any more.
    pub fn poll_ready(&self, cx: &Context<'_>) -> Poll<Result<(), OffReason>> {
        let is_behind = || self.fill.is_behind(self.shared.plan.fill_window_bytes);
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
