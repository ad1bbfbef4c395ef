//! Figures as text.

/// A whole number with a comma before every third digit from the right.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with about three digits: `0.42`, `4.2`, `42`, `4,200`.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "?".to_owned(),
        v if v >= 99.95 => grouped(v.round() as u64),
        v if v >= 9.95 => trimmed(format!("{v:.1}")),
        v if v >= 0.005 => trimmed(format!("{v:.2}")),
        _ => "0".to_owned(),
    }
}

/// Without zeros at the end of the decimals.
fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A size in binary units: `512 B`, `45.3 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{} {unit}", short(bytes as f64 / size as f64)),
        None => format!("{bytes} B"),
    }
}

/// A time in microseconds: `45 µs`, `12.3 ms`, `2.4 s`, `1 min 20 s`.
pub(crate) fn micros(micros: u64) -> String {
    match micros {
        m if m >= 60_000_000 => span(m / 1_000_000),
        m if m >= 1_000_000 => format!("{} s", short(m as f64 / 1e6)),
        m if m >= 1_000 => format!("{} ms", short(m as f64 / 1e3)),
        m => format!("{m} µs"),
    }
}

/// A share of 0 to 1: `97.3%`. Only all is 100%, and only nothing is 0%.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p > 99.9 && share < 1.0 => "99.9%".to_owned(),
        p if p > 0.0 && p < 0.1 => "0.1%".to_owned(),
        p => format!("{}%", trimmed(format!("{p:.1}"))),
    }
}

/// A part of a whole as a share; `None` of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part.min(whole) as f64 / whole as f64)
}

/// A duration in its two largest units: `9 s`, `2 min 40 s`, `3 h 5 min`, `12 d 4 h`.
pub(crate) fn span(seconds: u64) -> String {
    let two = |large, large_unit: &str, small, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        s if s >= 86_400 => two(s / 86_400, "d", s / 3600 % 24, "h"),
        s if s >= 3600 => two(s / 3600, "h", s / 60 % 60, "min"),
        s if s >= 60 => two(s / 60, "min", s % 60, "s"),
        s => format!("{s} s"),
    }
}

/// A moment in UTC: `2026-11-29 19:10:06`.
pub(crate) fn utc(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02} {}", utc_time(seconds))
}

/// The time of day of a moment in UTC: `19:10:06`.
fn utc_time(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// A label of a time axis, for a minute since 1970: the time of day, or the day.
pub(crate) fn tick(minute: u64, is_day: bool) -> String {
    if is_day {
        let (_, month, day) = civil(minute / 1440);
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let index = usize::try_from(month - 1).unwrap_or(0);
        return format!("{day} {}", names.get(index).copied().unwrap_or_default());
    }
    format!("{:02}:{:02}", minute / 60 % 24, minute % 60)
}

/// Year, month and day of a day since 1970 in the Gregorian calendar. Years begin in March here,
/// so that the leap day is the last of its year.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day.min(3_000_000) + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// A text as the value of a parameter in a link.
pub(crate) fn parameter(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{bytes, civil, grouped, micros, parameter, percent, short, span, tick, utc};

    #[test]
    fn figures_have_few_digits_and_their_unit() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 0.004, 0.5, 4.25, 42.04, 1234.5].map(short),
            ["0", "0", "0.5", "4.25", "42", "1,235"]
        );
        assert_eq!([7, 1536, 5 << 20].map(bytes), ["7 B", "1.5 KiB", "5 MiB"]);
        assert_eq!(
            [45, 12_345, 2_400_000, 80_000_000].map(micros),
            ["45 µs", "12.3 ms", "2.4 s", "1 min 20 s"]
        );
        assert_eq!(
            [0.0, 0.0001, 0.5, 0.973, 0.99999, 1.0].map(percent),
            ["0%", "0.1%", "50%", "97.3%", "99.9%", "100%"]
        );
        assert_eq!([9, 160, 11_100, 1_051_200].map(span), ["9 s", "2 min 40 s", "3 h 5 min", "12 d 4 h"]);
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(utc(784_111_777), "1994-11-06 08:49:37");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00");
        assert_eq!([0, 59, 60, 365].map(civil), [(1970, 1, 1), (1970, 3, 1), (1970, 3, 2), (1971, 1, 1)]);
        assert_eq!(
            (tick(784_111_777 / 60, false), tick(784_111_777 / 60, true)),
            ("08:49".into(), "6 Nov".into())
        );
    }

    #[test]
    fn parameters_have_no_sign_of_their_own() {
        assert_eq!(parameter("http://a/?b=1&c#d e\"é"), "http%3A%2F%2Fa%2F%3Fb%3D1%26c%23d%20e%22%C3%A9");
    }
}
