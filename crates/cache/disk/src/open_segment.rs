//! A segment that the writer appends to, and the objects that it appends.
//!
//! Invariant: bytes are only appended. The remains of a failed write are truncated, or overwritten
//! before an index entry refers to them.

use std::io;
use std::sync::Arc;

use platform::DiskFile;

use crate::figures::{add, of};
use crate::index_file::{IndexEncoder, IndexEntry};
use crate::piece::{self, write_all};
use crate::record::{Location, Record};
use crate::segment::{IndexNote, ObjectChange, Segment, Segments};
use crate::status::TierFailure;
use crate::stored::RecordHeader;

/// The approximate size of one write, in bytes.
pub(crate) const WRITE_BYTES: u64 = 1 << 20;

/// A segment that the writer appends to.
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) data: Arc<dyn DiskFile>,
    entries: IndexEncoder,
}

impl OpenSegment {
    pub(crate) fn create(segments: &Segments) -> Result<Self, TierFailure> {
        let created = segments.create().map_err(|error| TierFailure::of("create a segment", &error));
        let (segment, data) = created?;
        let entries = IndexEncoder::of(segment.id);
        let begun = segments.append_index(&segment, &entries.header());
        begun.inspect_err(|_| {
            // An error may be ignored: the segment is empty, and the next start removes remaining
            // files.
            drop(segments.forget(segment.id));
        })?;
        Ok(Self { segment, data, entries })
    }

    /// Whether a new segment should be started.
    pub(crate) fn is_full(&self, segment_bytes: u64) -> bool {
        of(&self.segment.data_bytes) >= segment_bytes || of(&self.segment.index_bytes) >= segment_bytes / 4
    }

    /// Appends objects and their index entries: all of them, or none after an error.
    pub(crate) fn put(
        &self,
        segments: &Segments,
        records: &[PendingObject],
    ) -> Result<Vec<Location>, TierFailure> {
        let start = of(&self.segment.data_bytes);
        let outcome = self.try_put(segments, records);
        if outcome.is_err() {
            self.cut(segments, start);
        }
        outcome
    }

    fn try_put(&self, segments: &Segments, records: &[PendingObject]) -> Result<Vec<Location>, TierFailure> {
        let mut offset = of(&self.segment.data_bytes);
        let mut data = Vec::new();
        let mut index = Vec::new();
        let mut locations = Vec::with_capacity(records.len());
        for PendingObject { record, order, life } in records {
            let (header, sums) = self.header(offset, record);
            let bytes = header.bytes() + header.body_bytes;
            let span = u32::try_from(bytes).unwrap_or_else(|_| header.bytes() as u32);
            header.encode(&mut data, &record.index, &record.head, &sums);
            for piece in &record.body {
                data.extend_from_slice(piece);
                if data.len() as u64 >= WRITE_BYTES {
                    self.append(segments, &data)?;
                    data.clear();
                }
            }
            let entry = IndexEntry { order: *order, offset, sequence: record.sequence, span, life: *life };
            self.entries.put(&mut index, entry, &record.index);
            locations.push(Location { segment: self.segment.id, span, offset });
            offset += bytes;
        }
        self.append(segments, &data)?;
        let sequence_min = records.iter().map(|incoming| incoming.record.sequence).min();
        self.segment.lower_sequence_min(sequence_min.unwrap_or(u64::MAX));
        segments.append_index(&self.segment, &index)?;
        add(&self.segment.objects, records.len() as u64);
        Ok(locations)
    }

    /// The header and the body checksums of an object to be appended at `offset`.
    fn header(&self, offset: u64, record: &Record) -> (RecordHeader, Vec<u8>) {
        let mut header = RecordHeader {
            segment: self.segment.id,
            offset,
            index_bytes: record.index.len() as u32,
            head_bytes: record.head.len() as u32,
            body_offset: 0,
            body_bytes: record.body.iter().map(|piece| piece.len() as u64).sum(),
            sequence: record.sequence,
        };
        header.body_offset = offset + header.bytes();
        (header, piece::sums(&record.body))
    }

    /// Appends the header, index entry, head and checksums of a fill. Its body of `body_bytes`
    /// bytes is already in the segment at `body_offset`.
    pub(crate) fn put_behind(
        &self,
        segments: &Segments,
        (body_offset, body_bytes, sums): (u64, u64, &[u8]),
        record: &Record,
        (order, life): (u64, u32),
    ) -> Result<Location, TierFailure> {
        let offset = of(&self.segment.data_bytes);
        let (header, _) = self.header(offset, record);
        let header = RecordHeader { body_offset, body_bytes, ..header };
        let span = header.bytes() as u32;
        let mut data = Vec::new();
        header.encode(&mut data, &record.index, &record.head, sums);
        self.append(segments, &data)?;
        let mut index = Vec::new();
        let entry = IndexEntry { order, offset, sequence: record.sequence, span, life };
        self.entries.put(&mut index, entry, &record.index);
        self.segment.lower_sequence_min(record.sequence);
        segments.append_index(&self.segment, &index)?;
        add(&self.segment.objects, 1);
        Ok(Location { segment: self.segment.id, span, offset })
    }

    /// Appends bytes to the records.
    pub(crate) fn append(&self, segments: &Segments, octets: &[u8]) -> Result<(), TierFailure> {
        let offset = of(&self.segment.data_bytes);
        write_all(&*self.data, octets, offset).map_err(|error| TierFailure::of("write a segment", &error))?;
        segments.resize(&self.segment, offset + octets.len() as u64, of(&self.segment.index_bytes));
        Ok(())
    }

    /// Removes everything from position `bytes` on. No caller knows a location there.
    pub(crate) fn cut(&self, segments: &Segments, bytes: u64) {
        // An error may be ignored: no index entry refers to these bytes, and the next write
        // overwrites them.
        let _ = self.data.truncate(bytes);
        segments.resize(&self.segment, bytes, of(&self.segment.index_bytes));
    }
}

/// An object to append.
pub(crate) struct PendingObject {
    pub(crate) record: Record,
    pub(crate) order: u64,
    pub(crate) life: u32,
}

impl PendingObject {
    /// The most bytes that it takes in a segment and its index.
    pub(crate) fn bytes(record: &Record) -> u64 {
        let body: u64 = record.body.iter().map(|piece| piece.len() as u64).sum();
        // The header and the fixed part of the index entry together take less than 128 bytes.
        body + 4 * piece::count(body) + (2 * record.index.len() + record.head.len()) as u64 + 128
    }
}

impl IndexNote {
    /// The bytes of the index entry that the note holds.
    pub(crate) const fn index_bytes(&self) -> u64 {
        match &self.change {
            ObjectChange::Removed => 0,
            ObjectChange::Refreshed { index, .. } => index.len() as u64,
        }
    }
}

impl Segments {
    /// Appends entries to the index of a segment. Returns the position of the first one.
    pub(crate) fn append_index(&self, segment: &Segment, entries: &[u8]) -> Result<u64, TierFailure> {
        let failure = |error: io::Error| TierFailure::of("write an index", &error);
        let file = self.index_to_write(segment).map_err(failure)?;
        let offset = of(&segment.index_bytes);
        if let Err(error) = write_all(&*file, entries, offset) {
            // Remove a partial write, so that later entries do not follow invalid bytes.
            if file.truncate(offset).is_err() {
                segment.state().cut_at = Some(offset);
            }
            return Err(failure(error));
        }
        self.resize(segment, of(&segment.data_bytes), offset + entries.len() as u64);
        Ok(offset)
    }

    /// Syncs both files of a segment.
    pub(crate) fn sync(&self, segment: &Segment) -> io::Result<()> {
        self.data(segment)?.sync()?;
        self.sync_index(segment)
    }

    pub(crate) fn sync_index(&self, segment: &Segment) -> io::Result<()> {
        self.index_to_write(segment)?.sync()
    }
}
