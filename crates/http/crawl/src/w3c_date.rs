//! Dates of sitemaps and feeds: the W3C profile of ISO 8601, and the dates of RFC 822 with a zone.
//!
//! Invariant: the dates only order pages. A date with a syntax error counts as missing.

use clock::Timestamp;
use semantics::parse_date;

/// Seconds of a day.
const DAY_SECS: i64 = 86_400;

/// The moment that `text` names, such as `2024-05-31`, `2024-05-31T10:00:00+02:00` or
/// `Fri, 31 May 2024 10:00:00 +0200`. A missing part is its first value. `None` before 1970 and
/// after 9999.
pub(crate) fn date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    w3c_date(text).or_else(|| mail_date(text))
}

fn w3c_date(text: &str) -> Option<Timestamp> {
    let (day, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let mut parts = day.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    let day = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * DAY_SECS + time_of_day(time)?;
    Some(Timestamp::from_secs(u64::try_from(seconds).ok()?))
}

/// Seconds since midnight in UTC of `hh:mm[:ss[.fraction]][zone]`; zero if `text` is empty.
fn time_of_day(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let zone_at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(zone_at);
    let mut parts = time.split(':');
    let hours = digits(parts.next()?, 2)?;
    let minutes = digits(parts.next()?, 2)?;
    let seconds = parts.next().map_or(Some(0), |part| digits(part.split('.').next()?, 2))?;
    let is_time = hours < 24 && minutes < 60 && seconds <= 60;
    is_time.then_some(hours * 3_600 + minutes * 60 + seconds - offset(zone)?)
}

/// Seconds east of UTC: of `Z`, `+02:00` or `+0200`.
fn offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let rest = rest.replace(':', "");
    let (hours, minutes) = rest.split_at_checked(2)?;
    Some(sign * (digits(hours, 2)? * 3_600 + digits(minutes, 2)? * 60))
}

/// A date as in mail. HTTP's dates are the same, always in GMT.
fn mail_date(text: &str) -> Option<Timestamp> {
    let (moment, zone) = text.rsplit_once(' ')?;
    let shift = if zone.starts_with(['+', '-']) { offset(zone)? } else { 0 };
    let in_gmt = parse_date(format!("{moment} GMT").as_bytes())?;
    let seconds = i64::try_from(in_gmt.as_secs()).ok()? - shift;
    Some(Timestamp::from_secs(u64::try_from(seconds).ok()?))
}

/// A number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. The year is counted from March, so that
/// the leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Days from 0000-03-01 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - EPOCH
}

#[cfg(test)]
mod tests {
    use super::{date, days_since_1970};
    use proptest::prelude::{any, proptest};

    #[test]
    fn dates_of_sitemaps_and_feeds_are_read() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("2024", Some(1_704_067_200)),
            ("2024-05", Some(1_714_521_600)),
            ("2024-05-31", Some(1_717_113_600)),
            ("2024-05-31T10:00:00Z", Some(1_717_149_600)),
            ("2024-05-31T10:00:00.123+02:00", Some(1_717_142_400)),
            ("2024-05-31T10:00-0130", Some(1_717_155_000)),
            (" 2024-05-31 10:00:00 ", Some(1_717_149_600)),
            ("Fri, 31 May 2024 10:00:00 GMT", Some(1_717_149_600)),
            ("Fri, 31 May 2024 10:00:00 +0200", Some(1_717_142_400)),
            ("1969-12-31", None),
            ("2024-13-01", None),
            ("2024-5-1", None),
            ("2024-05-31T25:00", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(date(text).map(|moment| moment.as_secs()), expected, "{text}");
        }
    }

    #[test]
    fn days_are_counted_as_by_a_slow_calendar() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut days = 0;
        for year in 1970..2110 {
            let february = if is_leap(year) { 29 } else { 28 };
            for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                assert_eq!(days_since_1970(year, month, 1), days, "{year}-{month}");
                days += length;
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in any::<String>()) {
            date(&text);
        }

        #[test]
        fn anything_like_a_date_is_read(text in "[0-9TZ:+. -]{0,30}") {
            date(&text);
        }
    }
}
