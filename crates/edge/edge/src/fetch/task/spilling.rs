//! Writes a body too large for memory to disk while its readers receive it.
//!
//! Invariants: `end` returns only a complete body. If the disk accepts no more of it, the body is
//! not stored, and nothing else happens. Neither readers nor the fetch wait for the disk longer
//! than `limits.disk_timeout`.

use crate::shared::Shared;
use bytes::Bytes;
use defects::{Defect, is_planted};
use std::future::poll_fn;
use store::Spill;

/// The writing of one body to disk.
pub(super) struct BodySpill<'a> {
    shared: &'a Shared,
    /// Whether the body may go to disk. Parts may not, because they are joined in memory.
    is_allowed: bool,
    spill: Option<Spill>,
    bytes: u64,
}

impl<'a> BodySpill<'a> {
    /// Prepares for a body that may go to disk if `is_allowed`.
    pub(super) const fn new(shared: &'a Shared, is_allowed: bool) -> Self {
        Self { shared, is_allowed, spill: None, bytes: 0 }
    }

    /// Starts writing the body to disk, if there is one. `expected` is its length in bytes, if
    /// known; `so_far` are the bytes that have already arrived.
    pub(super) async fn begin(&mut self, expected: Option<u64>, so_far: &[Bytes]) {
        if !self.is_allowed || expected.is_some_and(|bytes| bytes > self.bytes_max()) {
            return;
        }
        // Begins only once.
        self.is_allowed = false;
        self.spill = self.shared.store.spill(expected);
        for octets in so_far {
            self.push(octets).await;
        }
    }

    /// Whether the body is being written to disk.
    pub(super) const fn is_under_way(&self) -> bool {
        self.spill.is_some()
    }

    /// Writes the next bytes, once the disk has room for them. Gives up if that takes too long or
    /// the body is too large.
    pub(super) async fn push(&mut self, octets: &Bytes) {
        let Some(spill) = &mut self.spill else { return };
        self.bytes += octets.len() as u64;
        let fits = self.bytes <= self.shared.limits.disk_object_bytes_max;
        let ready = poll_fn(|context| spill.poll_ready(context));
        let within = self.shared.limits.disk_timeout;
        let is_unbounded = is_planted(Defect::SpillMemory);
        if fits && (is_unbounded || tokio::time::timeout(within, ready).await.unwrap_or(false)) {
            spill.push(octets.clone());
        } else {
            self.spill = None;
        }
    }

    /// The whole body and its length, if all of it was written.
    pub(super) fn end(self) -> Option<(Spill, u64)> {
        self.spill.map(|spill| (spill, self.bytes))
    }

    fn bytes_max(&self) -> u64 {
        self.shared.limits.disk_object_bytes_max
    }
}
