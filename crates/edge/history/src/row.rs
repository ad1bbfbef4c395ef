//! The values of one minute, and their record in the file.
//!
//! Invariant: a record is read only if its checksum is right, so a torn one is no record.

use crate::Figure;
use crate::figure::Combination;

/// The size of a record: the minute, places for values, the seconds, a checksum.
pub const RECORD_BYTES: usize = 128;

/// Places for values. Those beyond the figures hold none.
const PLACES: usize = 28;

/// The seconds of a whole minute. The record has 0 for them, as records without this number do.
pub(crate) const MINUTE_SECS: u32 = 60;

/// Bytes before the checksum.
const CHECKED_BYTES: usize = RECORD_BYTES - 4;

/// The values of one minute.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The minute, in minutes since 1970.
    pub minute: u64,
    /// The seconds that the values are of: 60, or fewer in a minute in which a process has begun
    /// or ended.
    pub secs: u32,
    /// A value that does not exist is no number.
    values: [f32; PLACES],
}

impl Row {
    /// A whole minute without values.
    pub const fn new(minute: u64) -> Self {
        Self { minute, secs: MINUTE_SECS, values: [f32::NAN; PLACES] }
    }

    /// The same row, whose values are of this number of seconds.
    #[must_use]
    pub fn lasting(self, secs: u32) -> Self {
        Self { secs: secs.clamp(1, MINUTE_SECS), ..self }
    }

    /// The value of a figure.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.values.get(figure as usize).map(|value| f64::from(*value)).filter(|value| value.is_finite())
    }

    /// Sets the value of a figure.
    pub fn set(&mut self, figure: Figure, value: Option<f64>) {
        if let Some(place) = self.values.get_mut(figure as usize) {
            *place = value.map_or(f32::NAN, |value| value as f32);
        }
    }

    /// The record.
    pub fn record(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        let values = self.values.iter().flat_map(|value| value.to_le_bytes());
        let secs = if self.secs == MINUTE_SECS { 0 } else { self.secs };
        let bytes = self.minute.to_le_bytes().into_iter().chain(values).chain(secs.to_le_bytes());
        record.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        let (checked, sum) = record.split_at_mut(CHECKED_BYTES);
        sum.copy_from_slice(&crc32fast::hash(checked).to_le_bytes());
        record
    }

    /// The row of a record; `None` if it was not written completely, or is damaged.
    pub fn of_record(record: &[u8]) -> Option<Self> {
        let (checked, sum) = record.split_at_checked(CHECKED_BYTES)?;
        if crc32fast::hash(checked).to_le_bytes() != sum {
            return None;
        }
        let (minute, values) = checked.split_first_chunk::<8>()?;
        let mut row = Self::new(u64::from_le_bytes(*minute));
        let (values, _) = values.as_chunks::<4>();
        row.values.iter_mut().zip(values).for_each(|(place, bytes)| *place = f32::from_le_bytes(*bytes));
        let secs = values.get(PLACES).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        row.secs = if (1..MINUTE_SECS).contains(&secs) { secs } else { MINUTE_SECS };
        Some(row)
    }

    /// One row of two parts of the same minute, which two processes have measured; `None` if they
    /// are more than the minute. Levels, such as connections, are those of `later`.
    pub fn joined(&self, later: &Self) -> Option<Self> {
        let secs = self.secs.checked_add(later.secs).filter(|secs| *secs <= MINUTE_SECS)?;
        let mut row = Self { secs, ..*later };
        for figure in Figure::ALL {
            let value = match figure {
                Figure::Connections | Figure::StoreBytes | Figure::DiskBytes => later.get(*figure),
                Figure::Reloads | Figure::Purges => {
                    Some(self.get(*figure).unwrap_or(0.0) + later.get(*figure).unwrap_or(0.0))
                }
                _ => combined(*figure, &[*self, *later]),
            };
            row.set(*figure, value);
        }
        Some(row)
    }
}

/// The value of a figure over several rows; `None` if no row has one.
pub(crate) fn combined(figure: Figure, rows: &[Row]) -> Option<f64> {
    let combination = figure.combination();
    let known = || rows.iter().filter_map(|row| Some((row, row.get(figure)?)));
    let mean = |weight: fn(&Row) -> f64| {
        let weights: f64 = known().map(|(row, _)| weight(row)).sum();
        let sum: f64 = known().map(|(row, value)| weight(row) * value).sum();
        (weights > 0.0).then(|| sum / weights)
    };
    let over_time = || mean(|row| f64::from(row.secs));
    match combination {
        Combination::Time => over_time(),
        Combination::Requests => mean(Row::requests).or_else(over_time),
        Combination::Pages => mean(Row::pages).or_else(over_time),
        Combination::Most => known().map(|(_, value)| value).reduce(f64::max),
    }
}

impl Row {
    /// The total of a figure that counts per second.
    pub(crate) fn count(&self, figure: Figure) -> f64 {
        f64::from(self.secs) * self.get(figure).unwrap_or(0.0)
    }

    fn requests(&self) -> f64 {
        self.count(Figure::Requests)
    }

    fn pages(&self) -> f64 {
        [Figure::Hits, Figure::Misses, Figure::Passes].map(|figure| self.count(figure)).iter().sum()
    }
}

/// Values that do not exist are equal.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        let bits = |row: &Self| row.values.map(f32::to_bits);
        (self.minute, self.secs) == (other.minute, other.secs) && bits(self) == bits(other)
    }
}

#[cfg(test)]
mod tests {
    use super::{RECORD_BYTES, Row};
    use crate::Figure;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn record_gives_its_row_and_no_other(
            minute: u64,
            values in prop::collection::vec(prop::option::of(-1e9..1e12_f64), Figure::ALL.len()),
            (at, bit) in (0..RECORD_BYTES, 0_u8..8),
            length in 0..RECORD_BYTES,
            secs in 1..=60_u32,
        ) {
            let mut row = Row::new(minute).lasting(secs);
            for (figure, value) in Figure::ALL.iter().zip(&values) {
                row.set(*figure, *value);
                prop_assert_eq!(row.get(*figure), value.map(|value| f64::from(value as f32)));
            }
            let mut record = row.record();
            prop_assert_eq!(Row::of_record(&record), Some(row));
            prop_assert_eq!(Row::of_record(&record[..length]), None);
            record[at] ^= 1 << bit;
            prop_assert_eq!(Row::of_record(&record), None);
        }
    }

    #[test]
    fn record_without_seconds_is_a_whole_minute() {
        let mut row = Row::new(29_000_000);
        row.set(Figure::Purges, Some(3.0));
        // As the first version wrote it: four zeros between the values and the checksum.
        assert_eq!(row.record()[120..124], [0; 4]);
        assert_eq!(Row::of_record(&row.record()).unwrap().secs, 60);
    }

    #[test]
    fn two_parts_of_a_minute_are_joined() {
        let part = |secs, requests, p95, connections| {
            let mut row = Row::new(5).lasting(secs);
            for (figure, value) in [
                (Figure::Requests, requests),
                (Figure::P95, p95),
                (Figure::P99, p95),
                (Figure::Connections, connections),
                (Figure::Reloads, 1.0),
            ] {
                row.set(figure, Some(value));
            }
            row
        };
        let joined = part(20, 30.0, 8.0, 7.0).joined(&part(40, 0.0, 2.0, 9.0)).unwrap();
        let found = [Figure::Requests, Figure::P95, Figure::P99, Figure::Connections, Figure::Reloads];
        assert_eq!(found.map(|figure| joined.get(figure).unwrap()), [10.0, 8.0, 8.0, 9.0, 2.0]);
        assert_eq!((joined.minute, joined.secs, joined.get(Figure::Hits)), (5, 60, None));
        assert_eq!(part(21, 1.0, 1.0, 1.0).joined(&part(40, 1.0, 1.0, 1.0)), None);
    }

    #[test]
    fn bytes_that_were_never_written_are_no_record() {
        assert_eq!(Row::of_record(&[0; RECORD_BYTES]), None);
        assert_eq!(Row::of_record(&[]), None);
    }
}
