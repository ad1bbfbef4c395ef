//! The values of one minute, and their record in the file.
//!
//! Invariant: a record is read only if its checksum is right, so a torn one is no record.

use crate::Figure;

/// The size of a record: the minute, places for values, four bytes that are not used, a checksum.
pub const RECORD_BYTES: usize = 128;

/// Places for values. Those beyond the figures hold none.
const PLACES: usize = 28;

/// Bytes before the checksum.
const CHECKED_BYTES: usize = RECORD_BYTES - 4;

/// The values of one minute.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The minute, in minutes since 1970.
    pub minute: u64,
    /// A value that does not exist is no number.
    values: [f32; PLACES],
}

impl Row {
    /// A minute without values.
    pub const fn new(minute: u64) -> Self {
        Self { minute, values: [f32::NAN; PLACES] }
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
        let bytes = self.minute.to_le_bytes().into_iter().chain(values);
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
        Some(row)
    }
}

/// Values that do not exist are equal.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        let bits = |row: &Self| row.values.map(f32::to_bits);
        self.minute == other.minute && bits(self) == bits(other)
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
        ) {
            let mut row = Row::new(minute);
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
    fn bytes_that_were_never_written_are_no_record() {
        assert_eq!(Row::of_record(&[0; RECORD_BYTES]), None);
        assert_eq!(Row::of_record(&[]), None);
    }
}
