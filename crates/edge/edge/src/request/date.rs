//! The current second as text, formatted once a second per thread rather than for each response.
//!
//! Invariant: the text belongs to the wall time given; no clock is read here.

use bytes::Bytes;
use clock::Timestamp;
use std::cell::RefCell;

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

#[cfg(test)]
mod tests {
    use super::http_date;
    use clock::Timestamp;

    #[test]
    fn date_is_that_of_the_given_second() {
        let now = Timestamp::from_secs(784_111_777);
        assert_eq!(http_date(now), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(Timestamp::from_secs(784_111_778)), "Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
