//! The budget of memory and spool for bodies that wait between a client and an origin.
//!
//! Invariant: beyond a small allowance for each, all buffers together stay within a share of
//! `memory`, and on disk within `spool_size`.

use crate::memory::budget::MemoryShare;
use crate::memory::buffer::Buffer;
use crate::memory::grant::Grant;
use crate::memory::spool::{Spool, SpoolFile};
use crate::upkeep::disk_threads::DiskThreads;
use config::EdgePlan;
use platform::Disk;
use std::sync::Arc;

/// Memory of a response buffer that needs no budget: the first read from the origin, so that every
/// response makes progress.
const RESPONSE_ALLOWANCE_BYTES: u64 = 16 * 1024;

/// Memory of a request buffer that needs no budget: more than a login or comment form needs.
const REQUEST_ALLOWANCE_BYTES: u64 = 16 * 1024;

/// Maximum memory of one buffer, including its allowance. Further bytes go to the spool.
const BUFFER_BYTES_MAX: u64 = 1024 * 1024;

/// The budget that all buffers share.
pub(crate) struct Buffers {
    memory: Arc<MemoryShare>,
    request_bytes_max: u64,
    response_bytes_max: u64,
    pub(crate) spool: Arc<Spool>,
}

impl Buffers {
    /// The budget of a plan, with its spool on this disk, which `threads` wait for.
    pub(crate) fn new(plan: &EdgePlan, disk: Arc<dyn Disk>, threads: DiskThreads) -> Self {
        Self {
            memory: MemoryShare::new(Self::share_of(plan)),
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
    pub(crate) fn for_request(&self) -> (Buffer, u64) {
        (self.buffer(REQUEST_ALLOWANCE_BYTES, self.request_bytes_max), self.request_bytes_max)
    }

    /// A buffer for the content of a response.
    pub(crate) fn for_response(&self) -> Buffer {
        self.buffer(RESPONSE_ALLOWANCE_BYTES, self.response_bytes_max)
    }

    fn buffer(&self, allowance_bytes: u64, bytes_max: u64) -> Buffer {
        let file = SpoolFile::new(Arc::clone(&self.spool));
        Buffer::new(Grant::new(&self.memory, allowance_bytes, BUFFER_BYTES_MAX), file, bytes_max)
    }

    /// The memory that buffers take beyond their allowances.
    pub(crate) const fn memory(&self) -> &Arc<MemoryShare> {
        &self.memory
    }
}
