//! The index file of a segment. It has an entry for each put, refresh and removal of an object, and
//! one for each sync.
//!
//! Invariant: entries are only appended. The state of an object follows from all entries with its
//! offset.

use std::io;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use platform::{Disk, DiskFile, HashMap};

use crate::ReadError;
use crate::frame::{FileFrame, Format, u32_at, u64_at};
use crate::piece::read_exact;
use crate::record::{INDEX_BYTES_MAX, Location};

/// The magic bytes, the format and the segment's number.
pub(crate) const HEADER_BYTES: usize = 16;

const MAGIC: &[u8; 8] = b"PETASOSX";
// Kinds of entries: an object was written, got a new index entry, or was removed.
const PUT: u8 = 1;
const REFRESHED: u8 = 2;
const REMOVED: u8 = 3;
/// Earlier entries of the life are synced.
const SYNCED: u8 = 4;
/// As `PUT`, but the index entry differs from the one in the record itself.
const RESTATED: u8 = 5;

/// A life before the first life of any directory, so its objects are never proven.
const NEVER_PROVEN: u32 = 0;

/// The numbers of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Rises with every accepted operation, across lives.
    pub(crate) order: u64,
    /// The position of the record's header in the segment.
    pub(crate) offset: u64,
    pub(crate) sequence: u64,
    pub(crate) span: u32,
    /// The life in which it was written, or the life of the entry that it was copied from.
    pub(crate) life: u32,
}

/// Encodes entries of one segment.
pub(crate) struct IndexEncoder {
    segment: u32,
    format: Format,
}

impl IndexEncoder {
    pub(crate) const fn of(segment: u32) -> Self {
        let format =
            Format { seed: segment, fixed_bytes: 32, kinds: PUT..=RESTATED, octets_max: INDEX_BYTES_MAX };
        Self { segment, format }
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&crate::mark::FORMAT.to_le_bytes());
        header.extend_from_slice(&self.segment.to_le_bytes());
        header
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>, entry: IndexEntry, index: &[u8]) {
        self.write(out, PUT, entry, index);
    }

    /// Encodes the current state of an object in one entry.
    pub(crate) fn restate(&self, out: &mut Vec<u8>, life: u32, live: &IndexedObject) {
        let kind = if live.refreshed_at.is_some() { RESTATED } else { PUT };
        self.write(out, kind, IndexEntry { life, ..live.entry }, &live.index);
    }

    pub(crate) fn refreshed(&self, out: &mut Vec<u8>, entry: IndexEntry, index: &[u8]) {
        self.write(out, REFRESHED, entry, index);
    }

    pub(crate) fn removed(&self, out: &mut Vec<u8>, entry: IndexEntry) {
        self.write(out, REMOVED, entry, &[]);
    }

    /// Encodes that the segment is synced, together with all earlier entries of `life`.
    pub(crate) fn synced(&self, out: &mut Vec<u8>, life: u32) {
        self.write(out, SYNCED, IndexEntry { life, ..IndexEntry::default() }, &[]);
    }

    /// Reads an object's index entry of `bytes` bytes at `position` of the file again, and checks
    /// the frame that contains it.
    pub(crate) fn read_index(
        &self,
        file: &dyn DiskFile,
        offset: u64,
        (position, bytes): (u64, u32),
    ) -> Result<Bytes, ReadError> {
        let before = self.format.bytes(0);
        let start = position.checked_sub(before as u64).ok_or(ReadError::Damaged)?;
        let mut octets = BytesMut::zeroed(before + bytes as usize);
        read_exact(file, &mut octets, start)?;
        let octets = octets.freeze();
        let frame = self.format.read(&octets, 0).ok_or(ReadError::Damaged)?;
        let is_meant =
            frame.octets.end == octets.len() && entry_of(&frame).is_some_and(|entry| entry.offset == offset);
        if is_meant { Ok(octets.slice(before..)) } else { Err(ReadError::Damaged) }
    }

    fn write(&self, out: &mut Vec<u8>, kind: u8, entry: IndexEntry, index: &[u8]) {
        let fixed: [&[u8]; 5] = [
            &entry.order.to_le_bytes(),
            &entry.offset.to_le_bytes(),
            &entry.sequence.to_le_bytes(),
            &entry.span.to_le_bytes(),
            &entry.life.to_le_bytes(),
        ];
        self.format.write(out, kind, &fixed, index);
    }
}

/// An object that exists according to the index.
#[derive(Clone, Debug)]
pub(crate) struct IndexedObject {
    pub(crate) entry: IndexEntry,
    pub(crate) index: Bytes,
    /// The position of `index` in the file, if it differs from the one in the record.
    pub(crate) refreshed_at: Option<u64>,
    /// Whether the entry is known to have been synced.
    pub(crate) is_synced: bool,
}

impl IndexedObject {
    pub(crate) const fn location(&self, segment: u32) -> Location {
        Location { segment, span: self.entry.span, offset: self.entry.offset }
    }
}

enum IndexChange {
    Refreshed(usize),
    Removed,
}

/// An index file, read into memory.
pub(crate) struct IndexFile {
    format: Format,
    octets: Bytes,
    /// The length of the valid entries, header included.
    pub(crate) valid_bytes: u64,
    /// Whether valid entries follow an invalid one, which a crash cannot explain.
    pub(crate) is_damaged: bool,
    changes: HashMap<u64, IndexChange>,
    /// The position of the last sync entry of each life.
    syncs: HashMap<u32, usize>,
    cursor: usize,
}

impl IndexFile {
    /// Reads a segment's index. `None` if the file is not one.
    pub(crate) fn read(disk: &dyn Disk, path: &Path, segment: u32) -> io::Result<Option<Self>> {
        Ok(Self::parse(Bytes::from(disk.read(path)?), segment))
    }

    pub(crate) fn parse(octets: Bytes, segment: u32) -> Option<Self> {
        let entries = IndexEncoder::of(segment);
        if !octets.starts_with(&entries.header()) {
            return None;
        }
        let mut file = Self {
            format: entries.format,
            octets,
            valid_bytes: 0,
            is_damaged: false,
            changes: HashMap::default(),
            syncs: HashMap::default(),
            cursor: HEADER_BYTES,
        };
        file.survey();
        Some(file)
    }

    /// Collects removals, refreshes and syncs, and finds the end of the valid entries.
    fn survey(&mut self) {
        let mut position = HEADER_BYTES;
        while let Some(frame) = self.format.read(&self.octets, position) {
            let Some(entry) = entry_of(&frame) else { break };
            match frame.kind {
                REMOVED => {
                    self.changes.insert(entry.offset, IndexChange::Removed);
                }
                REFRESHED => {
                    let change = self.changes.entry(entry.offset).or_insert(IndexChange::Refreshed(position));
                    if let IndexChange::Refreshed(at) = change {
                        *at = position;
                    }
                }
                SYNCED => {
                    self.syncs.insert(entry.life, position);
                }
                _ => {}
            }
            position = frame.octets.end;
        }
        self.valid_bytes = position as u64;
        self.is_damaged =
            position < self.octets.len() && self.format.next_after(&self.octets, position).is_some();
    }

    /// Whether bytes follow the last valid entry.
    pub(crate) const fn is_torn(&self) -> bool {
        self.valid_bytes < self.octets.len() as u64
    }

    /// A valid index with the objects of a damaged one. They will never be proven, because the lost
    /// entries may have removed them.
    pub(crate) fn salvage(mut self, segment: u32) -> Vec<u8> {
        let entries = IndexEncoder::of(segment);
        let mut out = entries.header();
        while let Some(live) = self.next_live() {
            entries.restate(&mut out, NEVER_PROVEN, &live);
        }
        out
    }

    /// The next existing object, in the order in which they were put.
    pub(crate) fn next_live(&mut self) -> Option<IndexedObject> {
        while (self.cursor as u64) < self.valid_bytes {
            let position = self.cursor;
            let (kind, put, octets) = self.at(position);
            self.cursor = octets.end;
            if kind != PUT && kind != RESTATED {
                continue;
            }
            match self.changes.get(&put.offset) {
                Some(IndexChange::Removed) => {}
                Some(IndexChange::Refreshed(at)) => {
                    let (_, entry, octets) = self.at(*at);
                    return Some(self.live(*at, IndexEntry { span: put.span, ..entry }, octets, true));
                }
                None => return Some(self.live(position, put, octets, kind == RESTATED)),
            }
        }
        None
    }

    fn live(
        &self,
        position: usize,
        entry: IndexEntry,
        octets: std::ops::Range<usize>,
        is_refresh: bool,
    ) -> IndexedObject {
        IndexedObject {
            entry,
            refreshed_at: is_refresh.then_some(octets.start as u64),
            index: self.octets.slice(octets),
            is_synced: self.syncs.get(&entry.life).is_some_and(|at| *at > position),
        }
    }

    /// The entry at a position that the survey found valid.
    #[expect(clippy::expect_used, reason = "the survey has read the same bytes")]
    fn at(&self, position: usize) -> (u8, IndexEntry, std::ops::Range<usize>) {
        self.entry_at(position).expect("the survey found the entry valid")
    }

    fn entry_at(&self, position: usize) -> Option<(u8, IndexEntry, std::ops::Range<usize>)> {
        // The length has three bytes. The fourth byte is the kind.
        let length = (u32_at(&self.octets, position + 4)? & 0xff_ffff) as usize;
        let start = position + self.format.bytes(0);
        let fixed = self.octets.get(position + 8..start)?;
        let kind = *self.octets.get(position + 7)?;
        let frame = FileFrame { kind, fixed, octets: start..start + length };
        Some((kind, entry_of(&frame)?, frame.octets))
    }
}

fn entry_of(frame: &FileFrame<'_>) -> Option<IndexEntry> {
    Some(IndexEntry {
        order: u64_at(frame.fixed, 0)?,
        offset: u64_at(frame.fixed, 8)?,
        sequence: u64_at(frame.fixed, 16)?,
        span: u32_at(frame.fixed, 24)?,
        life: u32_at(frame.fixed, 28)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{IndexEncoder, IndexEntry, IndexFile};
    use bytes::Bytes;

    fn entry(offset: u64, life: u32) -> IndexEntry {
        IndexEntry { order: offset, offset, sequence: 1, span: 8, life }
    }

    fn file() -> Vec<u8> {
        let entries = IndexEncoder::of(3);
        let mut out = entries.header();
        entries.put(&mut out, entry(10, 1), b"ten");
        entries.put(&mut out, entry(20, 1), b"twenty");
        entries.put(&mut out, entry(30, 1), b"thirty");
        entries.synced(&mut out, 1);
        entries.removed(&mut out, entry(20, 1));
        entries.refreshed(&mut out, entry(30, 2), b"again");
        out
    }

    fn standing(octets: Vec<u8>) -> Vec<(u64, Bytes, bool)> {
        let mut file = IndexFile::parse(octets.into(), 3).unwrap();
        std::iter::from_fn(|| file.next_live()).map(|l| (l.entry.offset, l.index, l.is_synced)).collect()
    }

    #[test]
    fn last_entry_about_an_object_decides() {
        let stands = standing(file());
        assert_eq!(stands, [(10, "ten".into(), true), (30, "again".into(), false)]);
    }

    #[test]
    fn sync_of_another_life_proves_nothing() {
        let mut octets = file();
        IndexEncoder::of(3).synced(&mut octets, 3);
        assert!(!standing(octets.clone())[1].2);
        IndexEncoder::of(3).synced(&mut octets, 2);
        assert!(standing(octets)[1].2);
    }

    #[test]
    fn torn_end_is_cut_and_damaged_middle_is_detected() {
        let whole = file();
        let mut torn = whole.clone();
        torn.truncate(whole.len() - 1);
        let read = IndexFile::parse(torn.into(), 3).unwrap();
        assert!(read.is_torn() && !read.is_damaged);
        let mut damaged = whole;
        damaged[20] ^= 1;
        let read = IndexFile::parse(damaged.into(), 3).unwrap();
        assert!(read.is_damaged);
        assert_eq!(read.valid_bytes, 16);
    }

    #[test]
    fn index_of_another_segment_is_rejected() {
        assert!(IndexFile::parse(file().into(), 4).is_none());
    }
}
