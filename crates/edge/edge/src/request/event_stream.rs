//! Server-sent events: responses that stay open as long as their client does.
//!
//! Invariant: after SIGTERM an event stream lasts at most `limits.drain_streams`, whatever the
//! source of its content.

use crate::control::counters::Cells;
use crate::shared::Shared;
use message::{ResponseHead, names};
use std::pin::Pin;

/// Whether a response is an event stream.
pub(crate) fn is_event_stream(head: &ResponseHead) -> bool {
    head.fields
        .first(names::CONTENT_TYPE)
        .and_then(|value| value.split(|&octet| octet == b';').next())
        .is_some_and(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

/// Runs `sending`, which sends the content of a response with this head. An event stream is ended
/// `limits.drain_streams` after the drain began; the result is then `None`.
///
/// The caller pins the work, because the future of a function that takes it by value stores it
/// twice.
pub(crate) async fn while_open<T>(
    shared: &Shared,
    cells: &Cells,
    head: &ResponseHead,
    sending: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    if is_event_stream(head) { shared.until_streams_end(cells, sending).await } else { Some(sending.await) }
}
