//! The mark of a directory: its format, the current life and the machine's boot, the witnesses that
//! must agree, and whether it was closed cleanly.
//!
//! Invariant: without a mark nothing in the directory is used, so removing the mark invalidates
//! everything at once.

use crate::Durability;
use crate::frame::{u32_at, u64_at};

/// The format that this program writes, and the only one whose contents it uses.
pub(crate) const FORMAT: u32 = 2;

pub(crate) const MAGIC: &[u8; 8] = b"PETASOSD";

/// The contents of the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryMark {
    /// The number of times that the directory has been opened.
    pub(crate) life: u32,
    /// A random number for each life. The witnesses of the life contain it too.
    pub(crate) number: u64,
    /// The witnesses that must contain the number, as bits; see [`crate::witness`].
    pub(crate) witnesses: u8,
    /// Objects written up to this life are unproven.
    pub(crate) suspect_until: u32,
    /// Objects written up to this life are proven only if they are known to have been synced.
    pub(crate) unsynced_suspect_until: u32,
    /// Whether everything was synced and nothing has been written since.
    pub(crate) is_clean: bool,
    pub(crate) durability: Durability,
    /// The machine's boot in which the directory was opened.
    pub(crate) boot: String,
}

/// The result of reading a mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MarkReading {
    Mark(DirectoryMark),
    /// A mark of a later version, with its format.
    Newer(u32),
    Nothing,
}

impl DirectoryMark {
    /// The mark of a directory that was never used.
    pub(crate) const fn fresh(durability: Durability) -> Self {
        Self {
            life: 0,
            number: 0,
            witnesses: 0,
            suspect_until: 0,
            unsynced_suspect_until: 0,
            is_clean: true,
            durability,
            boot: String::new(),
        }
    }

    /// The mark of the next life. `boot` identifies the machine's boot; an unknown one counts as
    /// different.
    pub(crate) fn next(&self, boot: Option<String>, durability: Durability) -> Self {
        let is_same_boot = boot.as_ref().is_some_and(|boot| *boot == self.boot);
        let mut next =
            Self { life: self.life.saturating_add(1), is_clean: false, durability, ..self.clone() };
        next.boot = boot.unwrap_or_default();
        if !self.is_clean && !is_same_boot {
            match self.durability {
                Durability::Process => next.suspect_until = self.life,
                Durability::Power => next.unsynced_suspect_until = self.life,
            }
        }
        next
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        rest.extend_from_slice(&self.life.to_le_bytes());
        rest.extend_from_slice(&self.number.to_le_bytes());
        rest.push(self.witnesses);
        rest.extend_from_slice(&self.suspect_until.to_le_bytes());
        rest.extend_from_slice(&self.unsynced_suspect_until.to_le_bytes());
        rest.push(u8::from(self.is_clean));
        rest.push(u8::from(self.durability == Durability::Power));
        rest.extend_from_slice(self.boot.as_bytes());
        let mut mark = MAGIC.to_vec();
        mark.extend_from_slice(&FORMAT.to_le_bytes());
        mark.extend_from_slice(&crc32fast::hash(&rest).to_le_bytes());
        mark.extend_from_slice(&rest);
        mark
    }

    pub(crate) fn decode(octets: &[u8]) -> MarkReading {
        let Some(format) = octets.strip_prefix(MAGIC).and_then(|rest| u32_at(rest, 0)) else {
            return MarkReading::Nothing;
        };
        if format > FORMAT {
            return MarkReading::Newer(format);
        }
        if format != FORMAT {
            return MarkReading::Nothing;
        }
        Self::decode_fields(octets).map_or(MarkReading::Nothing, MarkReading::Mark)
    }

    fn decode_fields(octets: &[u8]) -> Option<Self> {
        let rest = octets.get(16..)?;
        if u32_at(octets, 12)? != crc32fast::hash(rest) {
            return None;
        }
        Some(Self {
            life: u32_at(rest, 0)?,
            number: u64_at(rest, 4)?,
            witnesses: *rest.get(12)?,
            suspect_until: u32_at(rest, 13)?,
            unsynced_suspect_until: u32_at(rest, 17)?,
            is_clean: *rest.get(21)? == 1,
            durability: if *rest.get(22)? == 1 { Durability::Power } else { Durability::Process },
            boot: String::from_utf8(rest.get(23..)?.to_vec()).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DirectoryMark, MarkReading};
    use crate::Durability;

    fn mark() -> DirectoryMark {
        DirectoryMark {
            life: 7,
            number: 0x1234_5678_9abc_def0,
            witnesses: 3,
            suspect_until: 2,
            unsynced_suspect_until: 3,
            is_clean: false,
            durability: Durability::Power,
            boot: "a".into(),
        }
    }

    #[test]
    fn mark_round_trips_and_damage_is_rejected() {
        let octets = mark().encode();
        assert_eq!(DirectoryMark::decode(&octets), MarkReading::Mark(mark()));
        for place in 0..octets.len() {
            let mut damaged = octets.clone();
            damaged[place] ^= 1;
            assert_ne!(DirectoryMark::decode(&damaged), MarkReading::Mark(mark()), "{place}");
        }
        assert_eq!(DirectoryMark::decode(&[]), MarkReading::Nothing);
    }

    #[test]
    fn later_format_of_the_mark_is_reported() {
        let mut octets = mark().encode();
        octets[8] = 9;
        assert_eq!(DirectoryMark::decode(&octets), MarkReading::Newer(9));
    }

    #[test]
    fn unclean_mark_of_another_boot_means_a_power_cut() {
        let next = mark().next(Some("a".into()), Durability::Process);
        assert_eq!((next.life, next.suspect_until, next.unsynced_suspect_until), (8, 2, 3));
        let next = mark().next(Some("b".into()), Durability::Process);
        assert_eq!((next.suspect_until, next.unsynced_suspect_until), (2, 7), "the last life was durable");
        let next = DirectoryMark { durability: Durability::Process, ..mark() }.next(None, Durability::Power);
        assert_eq!((next.suspect_until, next.unsynced_suspect_until), (7, 3));
        let next = DirectoryMark { is_clean: true, ..mark() }.next(Some("b".into()), Durability::Power);
        assert_eq!((next.suspect_until, next.unsynced_suspect_until), (2, 3));
    }
}
