//! Durations and sizes as people write them: `10s`, `500ms`, `1h`, `512MiB`, `32KiB`.
//!
//! Invariant: parsing a formatted value returns the same value. A number without a unit is refused,
//! because `10` could be seconds or milliseconds.

use std::time::Duration;

/// Units of duration and their lengths in nanoseconds, longest first.
const DURATION_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Units of size and their lengths in bytes, largest first.
const SIZE_UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads a duration: a decimal number followed by `ns`, `us`, `ms`, `s`, `m`, `h` or `d`. Spaces
/// before the unit are allowed.
///
/// # Errors
/// A sentence that names the expected form, also when the duration exceeds 2^64 - 1 nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let fault =
        || format!("`{text}` is not a duration: write a number with a unit, such as 500ms, 10s, 5m or 1h");
    scaled(text, &DURATION_UNITS).map(Duration::from_nanos).ok_or_else(fault)
}

/// Reads a size in bytes: a decimal number followed by `B`, `kB`, `MB`, `GB`, `KiB`, `MiB`, `GiB`
/// or `TiB`. Spaces before the unit are allowed.
///
/// # Errors
/// A sentence that names the expected form, also when the size exceeds 2^64 - 1 bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let fault =
        || format!("`{text}` is not a size: write a number with a unit, such as 32KiB, 512MiB or 10GB");
    scaled(text, &SIZE_UNITS).ok_or_else(fault)
}

/// Writes a duration in the largest unit that divides it. Durations above 2^64 - 1 nanoseconds
/// become that.
pub fn format_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 { "0s".to_owned() } else { in_largest_unit(nanos, &DURATION_UNITS) }
}

/// Writes a size, given in bytes, in the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    in_largest_unit(bytes, &SIZE_UNITS)
}

/// Reads `text` as a number and a unit. Returns the value in the smallest unit, rounded down, or
/// `None` if `text` is not a quantity. At most nine digits may follow the point.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let (number, unit) = text.split_at(digits);
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if fraction.is_empty() {
        return if number.ends_with('.') { None } else { Some(whole) };
    }
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 9)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / 10_u128.pow(places);
    whole.checked_add(u64::try_from(part).ok()?)
}

fn in_largest_unit(value: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{}{name}", value / factor),
        None => format!("0{}", units.last().map_or("", |(name, _)| name)),
    }
}

#[cfg(test)]
mod tests {
    use super::{format_duration, format_size, parse_duration, parse_size};
    use std::time::Duration;

    #[test]
    fn durations_as_people_write_them() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("500 ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "10", "s", "-1s", "1.s", "1e3s", "10 parsecs", "99999999999999999999s", "1.2.3s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1.5kB"), Ok(1500));
        assert!(parse_size("1024").is_err());
    }

    #[test]
    fn formatting_and_parsing_agree() {
        for seconds in [0, 1, 59, 60, 61, 3600, 86_400, 90_061] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        for bytes in [0, 1, 1000, 1024, 1_000_000, 32 << 10, (1 << 30) + 1] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
