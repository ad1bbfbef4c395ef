//! HTTP dates (RFC 9110 section 5.6.7): read in all three forms, written in the preferred one.

use bytes::Bytes;
use platform::Timestamp;

/// The moment an HTTP date names; `None` if it is none of the three forms, or before 1970.
///
/// Names of days, months and the zone are taken in any case, as other caches do. A year of two digits is one from
/// 1970 to 2069: never more than 50 years ahead, as the RFC demands, and the epoch, which says "expired long ago",
/// stays past.
pub fn parse_date(value: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(value).ok()?;
    let parsed = httpdate::parse_http_date(text).or_else(|_| httpdate::parse_http_date(&in_usual_case(text)));
    parsed.ok().filter(|_| separates_time(text.trim())).map(Timestamp::from_system_time)
}

/// Whether a space stands before the time in the forms that end in the zone. The parser takes any octet for it.
fn separates_time(text: &str) -> bool {
    const TIME_BYTES: usize = "08:49:37 GMT".len();
    let octets = text.as_bytes();
    let before_time = octets.len().checked_sub(TIME_BYTES + 1).and_then(|place| octets.get(place));
    octets.last().is_some_and(u8::is_ascii_digit) || before_time == Some(&b' ')
}

/// Every word with a capital and small letters, but for `GMT`.
fn in_usual_case(text: &str) -> String {
    let mut after_letter = false;
    let usual = text.chars().map(|char| {
        let changed = if after_letter { char.to_ascii_lowercase() } else { char.to_ascii_uppercase() };
        after_letter = char.is_ascii_alphabetic();
        changed
    });
    usual.collect::<String>().replace("Gmt", "GMT")
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
    fn names_are_taken_in_any_case() {
        for text in [
            "SUN, 06 NOV 1994 08:49:37 gmt",
            "sun, 06 nov 1994 08:49:37 gMT",
            "SUNDAY, 06-nov-94 08:49:37 Gmt",
            "SUN nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(EXAMPLE), "{text}");
        }
    }

    #[test]
    fn years_of_two_digits_are_near() {
        let secs = |text: &str| parse_date(text.as_bytes()).unwrap().as_secs();
        assert_eq!(secs("Thursday, 01-Jan-70 00:00:01 GMT"), 1);
        assert_eq!(secs("Thursday, 18-Aug-50 02:01:18 GMT"), secs("Thu, 18 Aug 2050 02:01:18 GMT"));
    }

    #[test]
    fn anything_else_is_no_date() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994",
            "1994-11-06",
            "\u{fc}",
            "Sunday, 06-Nov-94-08:49:37 GMT",
            "sunday, 06-nov-94%08:49:37 gmt",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }
}
