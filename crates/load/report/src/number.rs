//! Formats numbers for tables and charts: mostly three significant digits, and always with unit.

use std::time::Duration;

/// Formats a number with three significant digits below 1,000 and as a grouped whole number from
/// there on: `0.831`, `7.31`, `73.1`, `731`, `7,310`, `73,100`. Below 1 there are at most three
/// decimals.
pub fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 999.5 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(magnitude.round() as u64));
    }
    let decimals = match magnitude {
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.0005 => 3,
        _ => return "0".to_owned(),
    };
    format!("{value:.decimals$}")
}

/// Formats a whole number with a comma before every third digit from the right.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number for narrow places: `7.31`, `731`, `7.3k`, `731k`.
pub fn compact(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{}M", one_decimal_below_ten(v / 1e6)),
        v if v >= 999.5 => format!("{}k", one_decimal_below_ten(v / 1e3)),
        v => three_digits(v),
    }
}

fn one_decimal_below_ten(value: f64) -> String {
    let text = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    text.trim_end_matches(".0").to_owned()
}

/// Formats a time given in milliseconds: `6,880 ms`, `37.2 ms`, `0.420 ms`, `45.0 µs`.
pub fn milliseconds(ms: f64) -> String {
    if ms.abs() < 0.0995 && ms != 0.0 {
        format!("{} µs", three_digits((ms * 1000.0).round()))
    } else {
        format!("{} ms", three_digits(ms))
    }
}

/// Formats a mean with its standard deviation, both in milliseconds.
pub fn mean_and_deviation(mean_ms: f64, sd_ms: f64) -> String {
    format!("{} ± {} ms", three_digits(mean_ms), three_digits(sd_ms))
}

/// Formats a rate per second without its unit: `0.830`, `322`, `12,400`.
pub fn rate(per_second: f64) -> String {
    three_digits(per_second)
}

/// Formats a mean number of tasks: `3.5`, `12.0`, `0.04`, `0`.
pub fn load(tasks: f64) -> String {
    match tasks {
        0.0 => "0".to_owned(),
        t if t < 0.095 => format!("{t:.2}"),
        t => format!("{t:.1}"),
    }
}

/// Formats a factor for tables: `1.3×`, `94×`, `2,150×`.
pub fn times(factor: f64) -> String {
    match factor {
        f if f >= 9.95 => format!("{}×", grouped(f.round() as u64)),
        f if f >= 0.095 => format!("{f:.1}×"),
        f => format!("{f:.2}×"),
    }
}

/// Formats a factor with two decimals below 100 and as a whole number above: `13.22`, `0.87`,
/// `546`.
pub fn factor(factor: f64) -> String {
    if factor >= 99.995 { grouped(factor.round() as u64) } else { format!("{factor:.2}") }
}

/// Formats a factor as a gain or loss in percent: `+1222%`, `-67%`.
pub fn change(factor: f64) -> String {
    format!("{:+.0}%", (factor - 1.0) * 100.0)
}

/// Formats a number of bytes in binary units: `512 B`, `45.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{} {unit}", three_digits(bytes as f64 / size as f64)),
        None => format!("{bytes} B"),
    }
}

/// Formats a share (0 to 1) as a percentage: `97%`.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Formats a duration in whole seconds: `2 min 40 s`, `9 s`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Formats seconds since 1970-01-01 as UTC, `2012-06-30 23:59:59 UTC` (conversion of days to a date
/// after Hinnant 2013).
pub fn moment(seconds: u64) -> String {
    let days = seconds / 86_400;
    let second = seconds % 86_400;
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let hour = second / 3600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::{
        bytes, change, compact, factor, grouped, load, mean_and_deviation, milliseconds, moment, percent,
        three_digits, time, times,
    };
    use std::time::Duration;

    #[test]
    fn factors_are_shown_as_multiples_and_as_percentages() {
        let told = |value: f64| format!("{} times, {}", factor(value), change(value));
        assert_eq!(told(135.24 / 10.23), "13.22 times, +1222%");
        assert_eq!((told(0.334), told(1.0)), ("0.33 times, -67%".to_owned(), "1.00 times, +0%".to_owned()));
        assert_eq!(told(2_150.4), "2,150 times, +214940%");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let cases = [(0.0, "0"), (0.000_4, "0"), (0.0312, "0.031"), (0.83, "0.830"), (9.994, "9.99")];
        let more = [
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1869.4, "1,869"),
            (-12.34, "-12.3"),
            (22_874.4, "22,874"),
        ];
        for (value, text) in cases.into_iter().chain(more) {
            assert_eq!(three_digits(value), text, "{value}");
        }
    }

    #[test]
    fn compact_numbers_use_k_and_m() {
        let numbers = [0.5, 7.314, 731.0, 1000.0, 7314.0, 21_800.0, 1e6].map(compact);
        assert_eq!(numbers, ["0.500", "7.31", "731", "1k", "7.3k", "22k", "1M"]);
        assert_eq!([999, 1000, 1_234_567].map(grouped), ["999", "1,000", "1,234,567"]);
    }

    #[test]
    fn values_carry_their_units() {
        assert_eq!(
            [milliseconds(6880.3), milliseconds(37.25), milliseconds(0.0453)],
            ["6,880 ms", "37.2 ms", "45.0 µs"]
        );
        assert_eq!(mean_and_deviation(3.0, 0.25), "3.00 ± 0.250 ms");
        assert_eq!([load(3.49), load(0.04), load(0.0)], ["3.5", "0.04", "0"]);
        assert_eq!([times(1.25), times(94.2), times(0.04)], ["1.2×", "94×", "0.04×"]);
        assert_eq!([bytes(512), bytes(47_500_000), bytes(3 << 30)], ["512 B", "45.3 MiB", "3.00 GiB"]);
        assert_eq!(percent(0.967), "97%");
        assert_eq!(
            [time(Duration::from_millis(159_700)), time(Duration::from_secs(9))],
            ["2 min 40 s", "9 s"]
        );
    }

    #[test]
    fn moments_are_formatted_as_utc() {
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(moment(1_341_100_799), "2012-06-30 23:59:59 UTC");
        assert_eq!(moment(4_102_444_800), "2100-01-01 00:00:00 UTC");
    }
}
