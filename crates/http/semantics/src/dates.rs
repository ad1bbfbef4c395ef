//! HTTP dates (RFC 9110 section 5.6.7): read in all three forms, written in the preferred one.
//!
//! Invariant: a date is accepted only if it has exactly one of the three forms and its day exists.
//! Two deviations are allowed, as in other caches: names in any case, and a wrong day of the week.
//! The rest of the date is unambiguous without the day of the week.

use bytes::Bytes;
use clock::Timestamp;

/// The moment that an HTTP date names; `None` if `value` has none of the three forms or is before
/// 1970.
///
/// A year of two digits is between 1970 and 2069. It is therefore never more than 50 years ahead,
/// as RFC 9110 requires, and the epoch, which means "expired long ago", stays in the past.
pub fn parse_date(value: &[u8]) -> Option<Timestamp> {
    let value = value.trim_ascii();
    imf_fixdate(value).or_else(|| rfc850_date(value)).or_else(|| asctime_date(value))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(value: &[u8]) -> Option<Timestamp> {
    let rest =
        after_name(value, &WEEKDAYS.map(|name| name.get(..3).unwrap_or_default()))?.strip_prefix(b", ")?;
    let day = number(rest, 2)?;
    let rest = rest.get(2..)?;
    let (month, rest) = month(rest.strip_prefix(b" ")?)?;
    let rest = rest.strip_prefix(b" ")?;
    let year = number(rest, 4)?;
    let rest = rest.get(4..)?;
    timestamp(year, month, day, in_gmt(rest.strip_prefix(b" ")?)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850_date(value: &[u8]) -> Option<Timestamp> {
    let rest = after_name(value, &WEEKDAYS)?.strip_prefix(b", ")?;
    let day = number(rest, 2)?;
    let rest = rest.get(2..)?;
    let (month, rest) = month(rest.strip_prefix(b"-")?)?;
    let rest = rest.strip_prefix(b"-")?;
    let year = number(rest, 2)?;
    let rest = rest.get(2..)?;
    let century = if year < 70 { 2000 } else { 1900 };
    timestamp(century + year, month, day, in_gmt(rest.strip_prefix(b" ")?)?)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime_date(value: &[u8]) -> Option<Timestamp> {
    let rest =
        after_name(value, &WEEKDAYS.map(|name| name.get(..3).unwrap_or_default()))?.strip_prefix(b" ")?;
    let (month, rest) = month(rest)?;
    let rest = rest.strip_prefix(b" ")?;
    let day = match rest.strip_prefix(b" ") {
        Some(digit) => number(digit, 1)?,
        None => number(rest, 2)?,
    };
    let rest = rest.get(2..)?.strip_prefix(b" ")?;
    let (time, rest) = rest.split_at_checked(8)?;
    let year = rest.strip_prefix(b" ").filter(|year| year.len() == 4)?;
    timestamp(number(year, 4)?, month, day, time_of_day(time)?)
}

/// Days of the week in full; the short form is the first three letters.
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The text after one of `names`. None of the names may be the prefix of another.
fn after_name<'a>(value: &'a [u8], names: &[&str]) -> Option<&'a [u8]> {
    names.iter().find_map(|name| {
        let (start, rest) = value.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name.as_bytes()).then_some(rest)
    })
}

/// The month, from 1 to 12, and the text after it.
fn month(value: &[u8]) -> Option<(u64, &[u8])> {
    let (name, rest) = value.split_at_checked(3)?;
    let index = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month.as_bytes()))?;
    Some((index as u64 + 1, rest))
}

/// The number that the first `count` bytes form.
fn number(value: &[u8], count: usize) -> Option<u64> {
    value
        .get(..count)?
        .iter()
        .try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
}

/// The second of the day for a text such as `08:49:37 GMT`.
fn in_gmt(value: &[u8]) -> Option<u64> {
    let (time, zone) = value.split_at_checked(8)?;
    zone.eq_ignore_ascii_case(b" GMT").then(|| time_of_day(time))?
}

/// The second of the day for a text such as `08:49:37`. A leap second counts as the second after
/// it.
fn time_of_day(value: &[u8]) -> Option<u64> {
    let [_, _, b':', _, _, b':', _, _] = value else { return None };
    let (hour, minute, second) =
        (number(value, 2)?, number(value.get(3..)?, 2)?, number(value.get(6..)?, 2)?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// The moment; `None` if the day does not exist or the year is before 1970.
fn timestamp(year: u64, month: u64, day: u64, second_of_day: u64) -> Option<Timestamp> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last_day = match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year < 1970 || !(1..=last_day).contains(&day) {
        return None;
    }
    // The year starts with March here, so that the leap day is its last day and needs no special
    // case.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let moment = Timestamp::from_secs((days - DAYS_TO_EPOCH) * 86_400 + second_of_day);
    // A leap second at the end of 9999 would fall into the year 10000, which the form cannot
    // express.
    Some(moment.min(LAST_MOMENT))
}

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_EPOCH: u64 = 719_468;

/// The moment as an IMF-fixdate in whole seconds. A moment after the year 9999 becomes the last
/// second of 9999.
pub fn format_date(moment: Timestamp) -> Bytes {
    Bytes::from(httpdate::fmt_http_date(moment.min(LAST_MOMENT).to_system_time()))
}

/// The last second of the year 9999.
const LAST_MOMENT: Timestamp = Timestamp::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    use super::{format_date, parse_date};
    use clock::Timestamp;

    const EXAMPLE: Timestamp = Timestamp::from_secs(784_111_777);

    #[test]
    fn all_three_forms_are_read() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(text.as_bytes()), Some(EXAMPLE), "{text}");
        }
        assert_eq!(format_date(EXAMPLE), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(format_date(Timestamp::from_micros(u64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn names_are_read_in_any_case() {
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
    fn the_day_of_the_week_is_not_needed() {
        assert_eq!(parse_date(b"Mon, 06 Nov 1994 08:49:37 GMT"), Some(EXAMPLE));
        assert_eq!(parse_date(b"Thu Aug  8 02:01:18 2050").map(Timestamp::as_secs), Some(2_543_536_878));
        assert_eq!(parse_date(b"Xxx, 06 Nov 1994 08:49:37 GMT"), None);
    }

    #[test]
    fn only_days_that_exist_are_read() {
        let secs = |text: &str| parse_date(text.as_bytes()).map(Timestamp::as_secs);
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 29 Feb 2000 23:59:59 GMT", Some(951_868_799)),
            ("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
            ("Fri, 31 Dec 9999 23:59:60 GMT", Some(253_402_300_799)),
            ("Wed, 31 Dec 1969 23:59:59 GMT", None),
            ("Thu, 29 Feb 1900 00:00:00 GMT", None),
            ("Mon, 29 Feb 2100 00:00:00 GMT", None),
            ("Tue, 31 Apr 2026 00:00:00 GMT", None),
            ("Tue, 00 Apr 2026 00:00:00 GMT", None),
            ("Tue, 01 Apr 2026 00:60:00 GMT", None),
            ("Tue, 01 Apr 2026 00:00:61 GMT", None),
        ] {
            assert_eq!(secs(text), expected, "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_between_1970_and_2069() {
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
            "Sun, 06 Nov 1994 08:49:37 GMTx",
            "Sun Nov  6 08:49:37 19945",
            "Sun Nov   6 08:49:37 1994",
            "\u{fc}",
            "Sunday, 06-Nov-94-08:49:37 GMT",
            "sunday, 06-nov-94%08:49:37 gmt",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }
}
