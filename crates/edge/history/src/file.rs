//! The layout of the file: a header, and a place for each minute of 30 days.
//!
//! Invariants: a minute has one place, which it shares with the minutes that are a multiple of 30
//! days away. A record in another place is foreign and is ignored. A wrong clock therefore costs at
//! most one older minute for each minute in which it was wrong.

use crate::{MINUTES, RECORD_BYTES, Row};

/// The size of the header. It takes the place of one record.
pub const HEADER_BYTES: usize = RECORD_BYTES;

/// The size of a file whose last place was written.
pub const FILE_BYTES: u64 = (MINUTES + 1) * RECORD_BYTES as u64;

/// How the file begins.
const MAGIC: &[u8; 16] = b"petasos-minutes\n";

/// The version of the format. Files of another one are not read.
const VERSION: u32 = 1;

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFile {
    /// It has another version of the format.
    Version(u32),
    /// It is another kind of file, or its header is damaged.
    Unknown,
}

/// The header of a new file.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let numbers = [VERSION, RECORD_BYTES as u32, MINUTES as u32];
    let bytes = MAGIC.iter().copied().chain(numbers.into_iter().flat_map(u32::to_le_bytes));
    header.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    header
}

/// The place of a minute, in bytes from the beginning.
pub const fn offset_of(minute: u64) -> u64 {
    (minute % MINUTES + 1) * RECORD_BYTES as u64
}

/// The new row for a place of the file with these bytes; `None` if they stay. Two parts of a minute
/// become one row. A whole minute is written once, so that a clock that was set back does not
/// replace measured values.
pub fn updated(place: &[u8], row: &Row) -> Option<Row> {
    match Row::of_record(place).filter(|known| known.minute == row.minute) {
        Some(known) if known == *row => None,
        Some(known) => known.joined(row),
        None => Some(*row),
    }
}

/// The rows of a file, in the order of their minutes. A torn or foreign record is left out, and so
/// is a minute after `now` or one no longer kept.
///
/// # Errors
/// [`ForeignFile`], if the header is not that of this format.
pub fn read(content: &[u8], now: u64) -> Result<Vec<Row>, ForeignFile> {
    let (found, records) = content.split_at_checked(HEADER_BYTES).ok_or(ForeignFile::Unknown)?;
    if *found != header() {
        return Err(version_of(found).map_or(ForeignFile::Unknown, ForeignFile::Version));
    }
    let is_kept = |row: &Row| row.minute <= now && row.minute + MINUTES > now;
    let rows = (0..MINUTES).zip(records.chunks(RECORD_BYTES)).filter_map(|(place, record)| {
        Row::of_record(record).filter(|row| row.minute % MINUTES == place && is_kept(row))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable_by_key(|row| row.minute);
    Ok(rows)
}

/// The version that a header names, if it is another one.
fn version_of(header: &[u8]) -> Option<u32> {
    let version = header.strip_prefix(MAGIC)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*version)).filter(|version| *version != VERSION)
}

#[cfg(test)]
mod tests {
    use super::{FILE_BYTES, ForeignFile, HEADER_BYTES, header, offset_of, read, updated};
    use crate::{Figure, MINUTES, RECORD_BYTES, Row};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn row(minute: u64, value: f64) -> Row {
        let mut row = Row::new(minute);
        row.set(Figure::Requests, Some(value));
        row
    }

    /// Writes as the edge does.
    fn write(file: &mut Vec<u8>, row: &Row) {
        let at = offset_of(row.minute) as usize;
        file.resize(file.len().max(at + RECORD_BYTES), 0);
        let place = &mut file[at..at + RECORD_BYTES];
        if let Some(row) = updated(place, row) {
            place.copy_from_slice(&row.record());
        }
    }

    #[test]
    fn foreign_headers_are_told_apart() {
        let mut other = header();
        other[16] = 9;
        assert_eq!(read(&other, 0), Err(ForeignFile::Version(9)));
        other = header();
        other[20] ^= 1;
        for unknown in [&b""[..], &[0; 200], &other, &header()[..HEADER_BYTES - 1]] {
            assert_eq!(read(unknown, 0), Err(ForeignFile::Unknown));
        }
        assert_eq!(read(&header(), 7), Ok(Vec::new()));
        const { assert!(FILE_BYTES < 20_000_000) };
    }

    /// An event for the file: a minute is written, or a byte changes.
    #[derive(Clone, Debug)]
    enum Event {
        Minute(u64),
        Damage(usize, u8),
    }

    fn event() -> impl Strategy<Value = Event> {
        let base = 29_000_000;
        let far = prop_oneof![0..5_u64, MINUTES - 3..MINUTES + 3, 2 * MINUTES..2 * MINUTES + 5];
        prop_oneof![
            8 => far.prop_map(move |minute| Event::Minute(base + minute)),
            1 => (0..8 * RECORD_BYTES, 1_u8..).prop_map(|(at, change)| Event::Damage(at, change)),
        ]
    }

    proptest! {
        /// Compares with a model table that records the minute in each place.
        #[test]
        fn rows_are_those_that_were_written_last_and_not_damaged(
            events in prop::collection::vec(event(), 0..60),
            now in prop_oneof![29_000_000_u64..29_000_006, 29_000_000 + MINUTES..29_000_006 + MINUTES],
        ) {
            let (mut file, mut places) = (header().to_vec(), BTreeMap::new());
            for (number, event) in events.into_iter().enumerate() {
                match event {
                    Event::Minute(minute) => {
                        let new = row(minute, number as f64);
                        write(&mut file, &new);
                        let place = places.entry(minute % MINUTES).or_insert(new);
                        if place.minute != minute {
                            *place = new;
                        }
                    }
                    Event::Damage(at, change) => {
                        let at = offset_of(29_000_000) as usize + at;
                        let Some(byte) = file.get_mut(at) else { continue };
                        let (record, place) = (at / RECORD_BYTES * RECORD_BYTES, at / RECORD_BYTES - 1);
                        *byte ^= change;
                        // A second change could repair the first.
                        let damaged = Row::of_record(&file[record..record + RECORD_BYTES]);
                        prop_assert!(damaged.is_none());
                        file[record..record + RECORD_BYTES].fill(0);
                        places.remove(&(place as u64));
                    }
                }
            }
            let mut expected: Vec<_> = places
                .into_values()
                .filter(|row| row.minute <= now && now - row.minute < MINUTES)
                .collect();
            expected.sort_unstable_by_key(|row| row.minute);
            prop_assert_eq!(read(&file, now), Ok(expected));
        }

        #[test]
        fn any_bytes_after_the_header_are_read_without_a_row(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
            let file = [&header()[..], &bytes].concat();
            prop_assert_eq!(read(&file, u64::MAX / 2), Ok(Vec::new()));
        }
    }
}
