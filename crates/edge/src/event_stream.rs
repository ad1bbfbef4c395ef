//! Server-sent events: responses that stay open for as long as their client does.
//!
//! Invariant: after SIGTERM none of them lasts longer than `limits.drain_streams`, whichever way its content takes.

use crate::counters::Cells;
use crate::shared::Shared;
use message::{ResponseHead, names};

/// Whether a response stays open for as long as its client does.
pub(crate) fn is_event_stream(head: &ResponseHead) -> bool {
    head.fields
        .first(names::CONTENT_TYPE)
        .and_then(|value| value.split(|&octet| octet == b';').next())
        .is_some_and(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

/// Does what sends the content of a response with this head, but an event stream no longer than
/// `limits.drain_streams` after the drain began; `None` if it ended so.
pub(crate) async fn while_open<T>(
    shared: &Shared,
    cells: &Cells,
    head: &ResponseHead,
    sending: impl Future<Output = T>,
) -> Option<T> {
    if is_event_stream(head) { shared.until_streams_end(cells, sending).await } else { Some(sending.await) }
}
