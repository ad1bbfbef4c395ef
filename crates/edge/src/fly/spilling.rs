//! A body that is too large for memory, on its way to the disk beside its readers.
//!
//! Invariant: what ends is the whole body; a disk that takes no more of it costs the storing and nothing else.
//! Neither readers nor the fetch wait for the disk longer than `limits.disk_timeout`.

use crate::shared::Shared;
use bytes::Bytes;
use std::future::poll_fn;
use store::Spill;

/// The way of one body to the disk.
pub(super) struct Spilling<'a> {
    shared: &'a Shared,
    /// Whether it may be stored there at all: parts are joined in memory.
    is_allowed: bool,
    spill: Option<Spill>,
    bytes: u64,
}

impl<'a> Spilling<'a> {
    /// For a body that may go to the disk if `is_allowed`.
    pub(super) const fn new(shared: &'a Shared, is_allowed: bool) -> Self {
        Self { shared, is_allowed, spill: None, bytes: 0 }
    }

    /// The body, of `expected` octets if that is known, goes to the disk from here on, where there is one; `so_far` is
    /// what has come of it.
    pub(super) async fn begin(&mut self, expected: Option<u64>, so_far: &[Bytes]) {
        if !self.is_allowed || expected.is_some_and(|bytes| bytes > self.bytes_max()) {
            return;
        }
        // Once.
        self.is_allowed = false;
        self.spill = self.shared.store.spill(expected);
        for octets in so_far {
            self.push(octets).await;
        }
    }

    /// Whether the body is going to the disk.
    pub(super) const fn is_under_way(&self) -> bool {
        self.spill.is_some()
    }

    /// Writes what comes next, when there is room for it.
    pub(super) async fn push(&mut self, octets: &Bytes) {
        let Some(spill) = &mut self.spill else { return };
        self.bytes += octets.len() as u64;
        let fits = self.bytes <= self.shared.limits.disk_object_bytes_max;
        let ready = poll_fn(|context| spill.poll_ready(context));
        let within = self.shared.limits.disk_timeout;
        if fits && tokio::time::timeout(within, ready).await.unwrap_or(false) {
            spill.push(octets.clone());
        } else {
            self.spill = None;
        }
    }

    /// The whole body and its length, if all of it went to the disk.
    pub(super) fn end(self) -> Option<(Spill, u64)> {
        self.spill.map(|spill| (spill, self.bytes))
    }

    fn bytes_max(&self) -> u64 {
        self.shared.limits.disk_object_bytes_max
    }
}
