//! Wall time as text, for lines of logs.
//!
//! Invariant: times are UTC. A year above 9999 is written with all its digits.

use crate::decimal::push_padded;
use clock::Timestamp;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Day {
    year: u64,
    /// 1 to 12.
    month: u64,
    /// 1 to 31.
    day: u64,
}

/// Appends a time in the format of access logs: `06/Nov/1994:08:49:37 +0000`.
pub(crate) fn push_log_date(line: &mut Vec<u8>, at: Timestamp) {
    let (Day { year, month, day }, (hour, minute, second)) = parts(at);
    push_padded(line, day, 2);
    line.push(b'/');
    line.extend_from_slice(name_of(month).as_bytes());
    for (separator, part, width) in [(b'/', year, 4), (b':', hour, 2), (b':', minute, 2), (b':', second, 2)] {
        line.push(separator);
        push_padded(line, part, width);
    }
    line.extend_from_slice(b" +0000");
}

/// Appends a time as syslog daemons of this machine read it: `Nov  6 08:49:37`.
pub(crate) fn push_syslog_date(line: &mut Vec<u8>, at: Timestamp) {
    let (Day { month, day, .. }, (hour, minute, second)) = parts(at);
    line.extend_from_slice(name_of(month).as_bytes());
    line.extend_from_slice(if day < 10 { b"  " } else { b" " });
    push_padded(line, day, 1);
    for (separator, part) in [(b' ', hour), (b':', minute), (b':', second)] {
        line.push(separator);
        push_padded(line, part, 2);
    }
}

/// The name of a month from 1 to 12.
fn name_of(month: u64) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or_default()
}

/// Appends a time as RFC 3339 writes it, with microseconds: `1994-11-06T08:49:37.000042Z`.
pub fn push_rfc3339(line: &mut Vec<u8>, at: Timestamp) {
    let (Day { year, month, day }, (hour, minute, second)) = parts(at);
    let micros = at.as_micros() % 1_000_000;
    push_padded(line, year, 4);
    for (separator, part, width) in [
        (b'-', month, 2),
        (b'-', day, 2),
        (b'T', hour, 2),
        (b':', minute, 2),
        (b':', second, 2),
        (b'.', micros, 6),
    ] {
        line.push(separator);
        push_padded(line, part, width);
    }
    line.push(b'Z');
}

fn parts(at: Timestamp) -> (Day, (u64, u64, u64)) {
    let secs = at.as_secs();
    (day_of(secs / 86_400), (secs / 3600 % 24, secs / 60 % 60, secs % 60))
}

/// The day with this number since 1970. Years begin in March here, so that the leap day is their
/// last one.
fn day_of(days: u64) -> Day {
    // 1 March of the year 0 is 719468 days before 1970. 400 years have 146097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // The lengths of the months from March on repeat every five months, with 153 days.
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    Day { year: era * 400 + year_of_era + u64::from(month <= 2), month, day }
}

#[cfg(test)]
mod tests {
    use super::{Day, day_of, push_log_date, push_rfc3339};
    use clock::Timestamp;

    #[test]
    fn dates_of_logs_have_their_formats() {
        let at = Timestamp::from_micros(784_111_777_000_042);
        let (mut combined, mut rfc3339) = (Vec::new(), Vec::new());
        push_log_date(&mut combined, at);
        push_rfc3339(&mut rfc3339, at);
        assert_eq!(combined, b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(rfc3339, b"1994-11-06T08:49:37.000042Z");
    }

    #[test]
    fn days_of_800_years_follow_each_other() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut expected = Day { year: 1970, month: 1, day: 1 };
        for number in 0..292_200 {
            assert_eq!(day_of(number), expected);
            let length = match expected.month {
                2 => 28 + u64::from(is_leap(expected.year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected.day += 1;
            if expected.day > length {
                (expected.day, expected.month) = (1, expected.month + 1);
            }
            if expected.month > 12 {
                (expected.month, expected.year) = (1, expected.year + 1);
            }
        }
    }
}
