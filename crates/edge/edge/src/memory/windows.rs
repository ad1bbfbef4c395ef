//! The memory of a connection with HTTP/2 for contents of requests that have arrived and were not
//! taken yet: its flow-control window (RFC 9113 section 5.2).
//!
//! Invariant: the window of a connection grows beyond its first size only by bytes that the budget
//! of the buffers granted. They are returned when the connection ends, because a client keeps the
//! window that it was given.

use crate::memory::budget::{MemoryShare, Reservation};
use h1::BodyFraming;
use std::sync::Arc;

/// The window of one connection.
pub(crate) struct Windows {
    granted: Reservation,
}

impl Windows {
    /// The first window of a connection. RFC 9113 section 6.9.2 permits no smaller one, so it
    /// counts in no budget.
    const FIRST_BYTES: u32 = 65_535;

    /// The window of a connection with a long upload: enough for 80 Mbit/s at 100 ms.
    pub(crate) const GROWN_BYTES: u32 = 1 << 20;

    /// The window of one stream. That of the connection limits it.
    pub(crate) const STREAM_BYTES: u32 = Self::GROWN_BYTES;

    pub(crate) fn new(share: &Arc<MemoryShare>) -> Self {
        Self { granted: Reservation::empty(share) }
    }

    /// Whether the window grows for a request with content in this framing.
    pub(crate) fn grow(&mut self, framing: BodyFraming) -> bool {
        let is_short = matches!(framing, BodyFraming::Length(bytes) if bytes <= Self::FIRST_BYTES.into());
        let more_bytes = u64::from(Self::GROWN_BYTES - Self::FIRST_BYTES);
        !is_short && self.granted.bytes() == 0 && self.granted.add(more_bytes, 0)
    }
}
