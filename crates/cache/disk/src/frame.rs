//! Frames: consecutive checksummed entries, as in the index of a segment and in the journal of
//! invalidations.
//!
//! Invariant: a frame is read as it was written or not at all. An invalid frame at the end may have
//! been torn by a crash. An invalid frame that valid ones follow was damaged later.

use std::ops::{Range, RangeInclusive};

use crc32fast::Hasher;

/// The checksum, and one number for the kind and the length.
const PREFIX_BYTES: usize = 8;

/// The format of the frames of a file.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// The start value of each checksum, so that a frame of another file is not accepted.
    pub(crate) seed: u32,
    /// The length of the fixed part of each frame.
    pub(crate) fixed_bytes: usize,
    /// The valid kinds.
    pub(crate) kinds: RangeInclusive<u8>,
    /// The most bytes that may follow the fixed part.
    pub(crate) octets_max: usize,
}

/// A frame that was read.
#[derive(Clone, Debug)]
pub(crate) struct FileFrame<'a> {
    pub(crate) kind: u8,
    pub(crate) fixed: &'a [u8],
    /// The range of its variable part in the file.
    pub(crate) octets: Range<usize>,
}

impl Format {
    /// Appends a frame to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, kind: u8, fixed: &[&[u8]], octets: &[u8]) {
        let kind_and_length = (u32::from(kind) << 24) | (octets.len() as u32 & 0xff_ffff);
        let mut hasher = Hasher::new_with_initial(self.seed);
        hasher.update(&kind_and_length.to_le_bytes());
        fixed.iter().for_each(|part| hasher.update(part));
        hasher.update(octets);
        out.extend_from_slice(&hasher.finalize().to_le_bytes());
        out.extend_from_slice(&kind_and_length.to_le_bytes());
        fixed.iter().for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(octets);
    }

    /// The size of a frame whose variable part has `octets` bytes.
    pub(crate) const fn bytes(&self, octets: usize) -> usize {
        PREFIX_BYTES + self.fixed_bytes + octets
    }

    /// The frame at `position`, or `None` if it is not valid.
    pub(crate) fn read<'a>(&self, file: &'a [u8], position: usize) -> Option<FileFrame<'a>> {
        let kind_and_length = u32_at(file, position + 4)?;
        let kind = (kind_and_length >> 24) as u8;
        let length = (kind_and_length & 0xff_ffff) as usize;
        if !self.kinds.contains(&kind) || length > self.octets_max {
            return None;
        }
        let start = position + PREFIX_BYTES + self.fixed_bytes;
        let checked = file.get(position + 4..start + length)?;
        let mut hasher = Hasher::new_with_initial(self.seed);
        hasher.update(checked);
        if hasher.finalize() != u32_at(file, position)? {
            return None;
        }
        Some(FileFrame {
            kind,
            fixed: file.get(position + PREFIX_BYTES..start)?,
            octets: start..start + length,
        })
    }

    /// Whether the bytes from `position` to the end can be the beginning of a frame that was never
    /// written to its end. They cannot if the frame is whole and only its length has changed.
    pub(crate) fn is_torn(&self, file: &[u8], position: usize) -> bool {
        let Some(kind_and_length) = u32_at(file, position + 4) else { return true };
        let kind = (kind_and_length >> 24) as u8;
        let length = (kind_and_length & 0xff_ffff) as usize;
        let is_cut = position + self.bytes(length) > file.len();
        let is_whole = || {
            let content = file.get(position + PREFIX_BYTES..)?.split_at_checked(self.fixed_bytes)?;
            let mut whole = Vec::new();
            self.write(&mut whole, kind, &[content.0], content.1);
            Some(u32_at(&whole, 0) == u32_at(file, position))
        };
        self.kinds.contains(&kind) && length <= self.octets_max && is_cut && is_whole() != Some(true)
    }

    /// The position of the next valid frame after `position`, at any offset.
    pub(crate) fn next_after(&self, file: &[u8], position: usize) -> Option<usize> {
        (position + 1..file.len()).find(|position| self.read(file, *position).is_some())
    }
}

/// The number at `offset`, lowest byte first.
pub(crate) fn u32_at(octets: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*octets.get(offset..)?.first_chunk()?))
}

/// The number at `offset`, lowest byte first.
pub(crate) fn u64_at(octets: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*octets.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::Format;
    use proptest::prelude::*;

    fn format() -> Format {
        Format { seed: 7, fixed_bytes: 2, kinds: 1..=3, octets_max: 100 }
    }

    #[test]
    fn frame_of_another_file_is_rejected() {
        let mut file = Vec::new();
        format().write(&mut file, 1, &[b"ab"], b"octets");
        assert!(format().read(&file, 0).is_some());
        assert!(Format { seed: 8, ..format() }.read(&file, 0).is_none());
    }

    proptest! {
        #[test]
        fn frames_round_trip_and_changed_ones_are_rejected(
            octets in proptest::collection::vec(any::<u8>(), 0..100), kind in 1u8..=3,
            place in any::<proptest::sample::Index>(), flip in 1u8..,
        ) {
            let mut file = b"before".to_vec();
            format().write(&mut file, kind, &[b"a", b"b"], &octets);
            let frame = format().read(&file, 6).unwrap();
            prop_assert_eq!((frame.kind, frame.fixed), (kind, &b"ab"[..]));
            prop_assert_eq!(&file[frame.octets.clone()], &octets[..]);
            prop_assert_eq!(frame.octets.end, file.len());
            prop_assert_eq!(format().next_after(&file, 0), Some(6));
            let place = 6 + place.index(file.len() - 6);
            file[place] ^= flip;
            prop_assert!(format().read(&file, 6).is_none());
        }
    }
}
