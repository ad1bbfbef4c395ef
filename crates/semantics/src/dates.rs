//! HTTP dates (RFC 9110 section 5.6.7): read in all three forms, written in the preferred one.

use bytes::Bytes;
use platform::Timestamp;

/// The moment an HTTP date names; `None` if it is none of the three forms, or before 1970.
pub fn parse_date(value: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(value).ok()?;
    httpdate::parse_http_date(text).ok().map(Timestamp::from_system_time)
}

/// The moment as an IMF-fixdate, whole seconds.
pub fn format_date(moment: Timestamp) -> Bytes {
    Bytes::from(httpdate::fmt_http_date(moment.to_system_time()))
}

#[cfg(test)]
mod tests {
    use super::{format_date, parse_date};
    use platform::Timestamp;

    const EXAMPLE: Timestamp = Timestamp::from_secs(784_111_777);

    #[test]
    fn all_three_forms_are_read() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(text.as_bytes()), Some(EXAMPLE), "{text}");
        }
        assert_eq!(format_date(EXAMPLE), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn anything_else_is_no_date() {
        for text in
            ["", "0", "-1", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994", "1994-11-06", "\u{fc}"]
        {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }
}
