//! The budget of memory and spool for bodies that wait between a client and an origin.
//!
//! Invariant: beyond a small allowance for each, all buffers together stay within a share of
//! `memory`, and on disk within `spool_size`.

use crate::memory::buffer::Buffer;
use crate::memory::spool::{Spool, SpoolFile};
use crate::upkeep::disk_threads::DiskThreads;
use config::EdgePlan;
use platform::Disk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of a response buffer that needs no budget: one read from the origin, so that every
/// response makes progress.
const RESPONSE_ALLOWANCE_BYTES: u64 = 64 * 1024;

/// Memory of a request buffer that needs no budget: more than a login or comment form needs.
const REQUEST_ALLOWANCE_BYTES: u64 = 16 * 1024;

/// The budget that all buffers share.
pub(crate) struct Buffers {
    bytes: AtomicU64,
    bytes_max: u64,
    request_bytes_max: u64,
    response_bytes_max: u64,
    pub(crate) spool: Arc<Spool>,
}

impl Buffers {
    /// The budget of a plan, with its spool on this disk, which `threads` wait for.
    pub(crate) fn new(plan: &EdgePlan, disk: Arc<dyn Disk>, threads: DiskThreads) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            bytes_max: Self::share_of(plan),
            request_bytes_max: plan.limits.request_buffer_bytes_max,
            response_bytes_max: plan.limits.response_buffer_bytes_max,
            spool: Arc::new(Spool::new(plan, disk, threads)),
        }
    }

    /// The memory of a plan that buffers may take, in bytes.
    pub(crate) fn share_of(plan: &EdgePlan) -> u64 {
        plan.memory_bytes / 100 * plan.limits.buffer_memory_percent as u64
    }

    /// A buffer for the content of a request, and the maximum number of bytes to buffer.
    pub(crate) fn for_request(self: &Arc<Self>) -> (Buffer, u64) {
        (self.buffer(REQUEST_ALLOWANCE_BYTES, self.request_bytes_max), self.request_bytes_max)
    }

    /// A buffer for the content of a response.
    pub(crate) fn for_response(self: &Arc<Self>) -> Buffer {
        self.buffer(RESPONSE_ALLOWANCE_BYTES, self.response_bytes_max)
    }

    fn buffer(self: &Arc<Self>, allowance_bytes: u64, bytes_max: u64) -> Buffer {
        let file = SpoolFile::new(Arc::clone(&self.spool));
        Buffer::new(Arc::clone(self), file, allowance_bytes, bytes_max)
    }

    /// Bytes of memory that buffers have taken beyond their allowances.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes memory from the budget; false if there is not enough.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= self.bytes_max)
        });
        taken.is_ok()
    }

    /// Returns memory to the budget.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
