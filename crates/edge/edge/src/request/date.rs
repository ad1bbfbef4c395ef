//! The current second as text, formatted once a second per thread rather than for each response.
//!
//! Invariant: the text belongs to the wall time given; no clock is read here.

use bytes::Bytes;
use clock::Timestamp;
use std::cell::RefCell;

/// Length of an HTTP date in bytes: `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

/// One second and its text.
#[derive(Clone, Debug)]
struct CachedDate {
    secs: u64,
    date: Bytes,
}

thread_local! {
    static SECOND: RefCell<CachedDate> = const { RefCell::new(CachedDate { secs: u64::MAX, date: Bytes::new() }) };
}

/// `now` for a `Date` field (RFC 9110 section 5.6.7).
pub(crate) fn http_date(now: Timestamp) -> Bytes {
    SECOND.with_borrow_mut(|second| {
        if second.secs != now.as_secs() {
            *second = CachedDate { secs: now.as_secs(), date: semantics::format_date(now) };
        }
        second.date.clone()
    })
}

/// Appends `now` in the format of access logs: `06/Nov/1994:08:49:37 +0000`.
pub(crate) fn push_log_date(line: &mut Vec<u8>, now: Timestamp) {
    let date = http_date(now);
    debug_assert_eq!(date.len(), DATE_BYTES, "dates have a fixed length");
    let part = |range: std::ops::Range<usize>| date.get(range).unwrap_or_default();
    for (octets, separator) in
        [(part(5..7), "/"), (part(8..11), "/"), (part(12..16), ":"), (part(17..25), " +0000")]
    {
        line.extend_from_slice(octets);
        line.extend_from_slice(separator.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{http_date, push_log_date};
    use clock::Timestamp;

    #[test]
    fn http_and_log_dates_show_the_same_second() {
        let now = Timestamp::from_secs(784_111_777);
        assert_eq!(http_date(now), "Sun, 06 Nov 1994 08:49:37 GMT");
        let mut line = Vec::new();
        push_log_date(&mut line, now);
        assert_eq!(line, b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(http_date(Timestamp::from_secs(784_111_778)), "Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
