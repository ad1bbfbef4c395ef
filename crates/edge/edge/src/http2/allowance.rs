//! The bytes that a client with HTTP/2 may send without a purpose: PING, SETTINGS, WINDOW_UPDATE,
//! empty DATA and unknown frames. Also the requests that it may reset before they begin.
//!
//! Invariant: a client that uses the connection for requests, contents or responses never exceeds
//! the allowance. A client that floods it with control frames exceeds it after a fixed number of
//! bytes, and one that resets all of its requests after a fixed number of them.

use std::time::Duration;

/// What every connection may send.
const BASE_BYTES: u64 = 256 * 1024;

/// What a request with content permits beside the content that it was read with: content that the
/// client had sent before it learned of an early response.
const PER_CONTENT_BYTES: u64 = 64 * 1024;

/// What each request permits beside its content: its head, a CONTINUATION, a reset, an update of
/// its window.
const PER_REQUEST_BYTES: u64 = 4 * 1024;

/// What each second permits: a connection with a tunnel may live for days and send a PING now and
/// then.
const PER_SECOND_BYTES: u64 = 1024;

/// One byte of control frames is permitted for this many bytes of responses. A client usually sends
/// 13 bytes of WINDOW_UPDATE for 16 KiB; for 100 bytes, if it updates at each small response.
const SENT_PER_BYTE: u64 = 4;

/// Requests that a client may reset before they begin, beside as many as its other requests.
const WITHDRAWN_MAX: u64 = 100;

/// What a connection has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Bytes that the client sent, of all frames.
    pub(crate) received_bytes: u64,
    /// Bytes that the edge sent.
    pub(crate) sent_bytes: u64,
    /// Bytes of content that requests were read with.
    pub(crate) content_bytes: u64,
    /// Bytes of the heads of requests.
    pub(crate) head_bytes: u64,
    pub(crate) requests: u64,
    /// Those with content.
    pub(crate) requests_with_content: u64,
    /// Requests that the client had reset when they were to begin.
    pub(crate) requests_withdrawn: u64,
    /// The largest window that the client was given, in bytes. A full window may wait to be read.
    pub(crate) window_bytes: u64,
    pub(crate) age: Duration,
}

impl Usage {
    /// Whether the client has sent more than its use of the connection explains.
    pub(crate) fn is_a_flood(&self) -> bool {
        // Padding may double the frames of a content.
        let content_bytes = self.content_bytes.saturating_mul(2);
        let allowed = BASE_BYTES
            .saturating_add(self.window_bytes)
            .saturating_add(self.requests.saturating_mul(PER_REQUEST_BYTES))
            .saturating_add(self.requests_with_content.saturating_mul(PER_CONTENT_BYTES))
            .saturating_add(self.head_bytes)
            .saturating_add(content_bytes)
            .saturating_add(self.sent_bytes / SENT_PER_BYTE)
            .saturating_add(self.age.as_secs().saturating_mul(PER_SECOND_BYTES));
        let others = self.requests.saturating_sub(self.requests_withdrawn);
        self.received_bytes > allowed || self.requests_withdrawn > others.saturating_add(WITHDRAWN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;
    use std::time::Duration;

    #[test]
    fn floods_of_control_frames_are_found() {
        // A PING has 17 bytes, and its answer as many.
        let pings =
            |count: u64| Usage { received_bytes: 17 * count, sent_bytes: 17 * count, ..Usage::default() };
        assert!(!pings(10_000).is_a_flood());
        assert!(pings(30_000).is_a_flood());
        // SETTINGS with one value has 15 bytes, its acknowledgement 9.
        let settings = Usage { received_bytes: 15 * 40_000, sent_bytes: 9 * 40_000, ..Usage::default() };
        assert!(settings.is_a_flood());
    }

    #[test]
    fn resets_of_most_requests_are_a_flood() {
        let resets = |requests, requests_withdrawn| {
            Usage { requests, requests_withdrawn, ..Usage::default() }.is_a_flood()
        };
        assert!(!resets(100, 100) && resets(101, 101));
        assert!(!resets(1_000, 550) && resets(1_000, 551));
    }

    #[test]
    fn use_of_the_connection_is_no_flood() {
        let uploads = Usage {
            received_bytes: 1_100_000_000,
            content_bytes: 1_000_000_000,
            requests: 1,
            ..Usage::default()
        };
        let downloads = Usage {
            received_bytes: 100 * 1_000_000 + 13 * 2_000_000,
            sent_bytes: 12_000 * 1_000_000,
            requests: 1_000_000,
            head_bytes: 100 * 1_000_000,
            ..Usage::default()
        };
        let tunnel = Usage {
            received_bytes: 17 * 86_400,
            sent_bytes: 17 * 86_400,
            age: Duration::from_secs(864_000),
            ..Usage::default()
        };
        // Content that the edge has not read yet, or never reads because its response is early.
        let waiting = Usage {
            received_bytes: 1_300_000,
            requests: 1,
            requests_with_content: 1,
            window_bytes: 1 << 20,
            ..Usage::default()
        };
        let early = Usage {
            received_bytes: 100 * 64 * 1024,
            requests: 100,
            requests_with_content: 100,
            ..Usage::default()
        };
        for usage in [uploads, downloads, tunnel, waiting, early] {
            assert!(!usage.is_a_flood(), "{usage:?}");
        }
    }
}
