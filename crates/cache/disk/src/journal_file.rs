//! The file format of the journal of invalidations.
//!
//! Invariant: damage makes objects unproven. It never hides an invalidation from objects that count
//! as proven.

use bytes::Bytes;

use crate::frame::{Format, u64_at};
use crate::record::INVALIDATION_BYTES_MAX;

/// The magic bytes and the format.
pub(crate) const HEADER_BYTES: usize = 16;

pub(crate) const MAGIC: &[u8; 8] = b"PETASOSI";
const INVALIDATION: u8 = 1;
const CEILING: u8 = 2;
const FLOOR: u8 = 3;

const FORMAT: Format =
    Format { seed: 0x49, fixed_bytes: 8, kinds: INVALIDATION..=FLOOR, octets_max: INVALIDATION_BYTES_MAX };

/// The contents of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalFile {
    /// Invalidations with their numbers, sorted by number.
    pub(crate) invalidations: Vec<(u64, Bytes)>,
    /// Objects have numbers up to this one.
    pub(crate) ceiling: u64,
    /// Objects with lower numbers are unproven, because invalidations that apply to them may have
    /// been dropped.
    pub(crate) floor: u64,
}

/// The size in bytes of a journal without invalidations.
pub(crate) const EMPTY_BYTES: u64 = (HEADER_BYTES + 2 * (8 + 8)) as u64;

impl JournalFile {
    /// A journal that proves no object.
    pub(crate) const fn lost() -> Self {
        Self { invalidations: Vec::new(), ceiling: 0, floor: u64::MAX }
    }

    /// Parses a journal and returns whether it is damaged.
    ///
    /// The beginning of an entry at the end was left by a crash. Other invalid bytes are damage: no
    /// existing object is proven then.
    #[expect(clippy::expect_used, reason = "the fixed part of each frame is one number")]
    pub(crate) fn parse(octets: &Bytes) -> (Self, bool) {
        if !octets.starts_with(MAGIC) {
            return (Self::lost(), true);
        }
        let mut journal = Self::default();
        let mut position = HEADER_BYTES;
        let mut is_damaged = false;
        while position < octets.len() {
            let Some(frame) = FORMAT.read(octets, position) else {
                let next = FORMAT.next_after(octets, position);
                is_damaged |= next.is_some() || !FORMAT.is_torn(octets, position);
                let Some(next) = next else { break };
                position = next;
                continue;
            };
            let number = u64_at(frame.fixed, 0).expect("each entry has a number");
            match frame.kind {
                INVALIDATION => journal.invalidations.push((number, octets.slice(frame.octets.clone()))),
                CEILING => journal.ceiling = journal.ceiling.max(number),
                _ => journal.floor = journal.floor.max(number),
            }
            position = frame.octets.end;
        }
        // Concurrent callers may have written their entries in a different order.
        journal.invalidations.sort_by_key(|(number, _)| *number);
        if is_damaged {
            journal.floor = journal.floor.max(journal.next_sequence());
        }
        (journal, is_damaged)
    }

    /// A number above all numbers in the journal.
    pub(crate) fn next_sequence(&self) -> u64 {
        let last = self.invalidations.last().map_or(0, |(number, _)| *number);
        last.max(self.ceiling).saturating_add(1)
    }

    /// Drops invalidations that apply to no object numbered `horizon` or higher. Then drops the
    /// oldest until the rest takes at most `bytes_max` bytes. Objects with numbers below a dropped
    /// invalidation become unproven.
    pub(crate) fn compact(&mut self, horizon: u64, bytes_max: u64) {
        let bytes = |octets: &Bytes| FORMAT.bytes(octets.len()) as u64;
        let mut total: u64 =
            EMPTY_BYTES + self.invalidations.iter().map(|(_, octets)| bytes(octets)).sum::<u64>();
        let mut dropped = 0;
        for (number, octets) in &self.invalidations {
            if *number > horizon && total <= bytes_max {
                break;
            }
            total -= bytes(octets);
            self.floor = self.floor.max(*number);
            dropped += 1;
        }
        self.invalidations.drain(..dropped);
    }

    /// Encodes the whole file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&crate::mark::FORMAT.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        FORMAT.write(&mut out, FLOOR, &[&self.floor.to_le_bytes()], &[]);
        out.extend_from_slice(&ceiling(self.ceiling));
        for (number, octets) in &self.invalidations {
            out.extend_from_slice(&invalidation(*number, octets));
        }
        out
    }
}

/// Encodes an invalidation, to be appended to the file.
pub(crate) fn invalidation(sequence: u64, octets: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(FORMAT.bytes(octets.len()));
    FORMAT.write(&mut entry, INVALIDATION, &[&sequence.to_le_bytes()], octets);
    entry
}

/// Encodes a reservation, to be appended to the file: objects may have numbers up to `sequence`.
pub(crate) fn ceiling(sequence: u64) -> Vec<u8> {
    let mut entry = Vec::new();
    FORMAT.write(&mut entry, CEILING, &[&sequence.to_le_bytes()], &[]);
    entry
}

#[cfg(test)]
mod tests {
    use super::{EMPTY_BYTES, HEADER_BYTES, JournalFile, invalidation};
    use bytes::Bytes;

    fn journal() -> JournalFile {
        let invalidations = (1..=5).map(|number| (number * 10, Bytes::from(vec![number as u8; 9]))).collect();
        JournalFile { invalidations, ceiling: 42, floor: 3 }
    }

    fn parse(octets: Vec<u8>) -> (JournalFile, bool) {
        JournalFile::parse(&octets.into())
    }

    #[test]
    fn journal_round_trips() {
        assert_eq!(parse(journal().encode()), (journal(), false));
        assert_eq!(journal().next_sequence(), 51);
        assert_eq!(JournalFile::default().encode().len() as u64, EMPTY_BYTES);
    }

    #[test]
    fn torn_end_loses_no_acknowledged_invalidation() {
        let torn = invalidation(60, b"torn");
        for bytes in 0..torn.len() {
            let octets = [&journal().encode()[..], &torn[..bytes]].concat();
            assert_eq!(parse(octets), (journal(), false), "{bytes}");
        }
    }

    #[test]
    fn damage_leaves_no_object_proven() {
        let whole = journal().encode();
        let places = HEADER_BYTES..whole.len();
        for (place, bit) in places.flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            let (read, is_damaged) = parse(damaged);
            // An object with a number above all that can be read is not used.
            assert!(is_damaged && read.floor >= read.next_sequence(), "bit {bit} of {place}: {read:?}");
        }
    }

    #[test]
    fn file_of_another_format_proves_nothing() {
        assert_eq!(parse(b"something else".to_vec()).0.floor, u64::MAX);
    }

    #[test]
    fn compaction_drops_invalidations_that_no_object_needs() {
        let mut compacted = journal();
        compacted.compact(20, u64::MAX);
        assert_eq!(compacted.invalidations, journal().invalidations[2..]);
        assert_eq!(compacted.floor, 20, "an object with number 20 has met the invalidation 20");
    }

    #[test]
    fn compaction_above_the_limit_leaves_old_objects_unproven() {
        let mut compacted = journal();
        compacted.compact(0, EMPTY_BYTES + 60);
        assert_eq!(compacted.invalidations, journal().invalidations[3..]);
        assert_eq!(compacted.floor, 30);
    }
}
