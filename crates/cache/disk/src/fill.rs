//! A fill (a body written while it is being received), for its owner and its readers.
//!
//! Invariant: pushed bytes have room in the queue, and release it when they are written or dropped.
//! Lock order: queue, then fill.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::figures::add;
use crate::fill_shared::FillShared;
use crate::queue::{Command, WriteCallback};
use crate::record::{HEAD_BYTES_MAX, INDEX_BYTES_MAX, Location};
use crate::tier_state::TierState;
use crate::{OffReason, ReadError};

/// A body written while it is being received. Dropping it before it is finished discards it.
pub struct Fill {
    shared: Arc<TierState>,
    fill: Arc<FillShared>,
    is_finished: bool,
}

impl Fill {
    /// Starts a fill if there is room for one more.
    pub(crate) fn begin(shared: &Arc<TierState>, expected: Option<u64>) -> Option<Self> {
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

    /// Adds bytes to the body. Call [`Fill::poll_ready`] first: bytes without any room in the queue
    /// end the fill.
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
            // This fails only when the tier closes. The writer then fails the fill.
            let _ = self.shared.queue.add_step(Command::Fill(Arc::clone(&self.fill)));
        }
    }

    /// Checks that `bytes` more are within the limits of one body and of all fills together.
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

    /// Ready when there is room for more bytes.
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

    /// A view for readers of the bytes pushed so far.
    pub fn view(&self) -> FillView {
        FillView { fill: Arc::clone(&self.fill) }
    }

    /// Completes the body. `done` is called with its location once it is written, or with `None`.
    pub fn finish(
        mut self,
        index: Bytes,
        head: Bytes,
        sequence: u64,
        done: impl FnOnce(Option<Location>) + Send + 'static,
    ) {
        let done = WriteCallback::new(Box::new(done));
        if index.len() > INDEX_BYTES_MAX || head.len() > HEAD_BYTES_MAX {
            add(&self.shared.counters.refused, 1);
            return;
        }
        let fill = Arc::clone(&self.fill);
        let shared = Arc::clone(&self.shared);
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
            // This fails only when the tier closes, and then nothing of the fill remains.
            let _ = self.shared.queue.add_step(Command::Abandon(Arc::clone(&self.fill)));
        }
    }
}

/// The bytes of a fill that have been pushed so far. It stays readable after the fill was finished
/// or its segment evicted. After a fill has failed, bytes that were never written read as errors.
#[derive(Clone)]
pub struct FillView {
    fill: Arc<FillShared>,
}

impl FillView {
    /// The number of readable bytes: all that were pushed.
    pub fn len(&self) -> u64 {
        self.fill.pushed()
    }

    /// Whether nothing has been pushed yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads at most `bytes_max` bytes from `offset` on, and at most 1 MiB at once, and checks what
    /// comes from the disk. The result is empty only at the end of the pushed bytes. May block.
    ///
    /// # Errors
    /// As described for [`ReadError`].
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.fill.read_at(offset, bytes_max)
    }
}
