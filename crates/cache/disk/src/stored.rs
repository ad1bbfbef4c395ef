//! The format of a record in a segment: a header with the positions of its parts, the index entry,
//! the head and the checksums of the body. The body follows, or precedes the header if it was a
//! fill.
//!
//! Invariant: a header contains its own segment and offset, so that a record at a wrong place is
//! recognised as damage.

use std::fs::File;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use platform::DiskFile;

use crate::ReadError;
use crate::figures::FigureCounters;
use crate::frame::{u32_at, u64_at};
use crate::piece::{self, BodyExtent, PIECE_BYTES, read_exact};
use crate::record::{HEAD_BYTES_MAX, INDEX_BYTES_MAX, Location};

/// The length of a record's header, in bytes.
pub(crate) const HEADER_BYTES: usize = 64;

const MAGIC: u32 = 0x4f53_5450;

/// The size of the first read, in bytes. It covers most objects completely.
const FIRST_READ_BYTES: usize = 32 << 10;

/// The numbers in a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    pub(crate) index_bytes: u32,
    pub(crate) head_bytes: u32,
    pub(crate) body_offset: u64,
    pub(crate) body_bytes: u64,
    pub(crate) sequence: u64,
}

impl RecordHeader {
    /// The length of header, index entry, head and checksums together, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        HEADER_BYTES as u64
            + self.index_bytes as u64
            + self.head_bytes as u64
            + 4 * piece::count(self.body_bytes)
    }

    /// Appends the header, the index entry, the head and the checksums to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, index: &[u8], head: &[u8], sums: &[u8]) {
        let start = out.len();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.segment.to_le_bytes());
        out.extend_from_slice(&self.index_bytes.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.body_offset.to_le_bytes());
        out.extend_from_slice(&self.body_bytes.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.head_bytes.to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(index);
        out.extend_from_slice(head);
        out.extend_from_slice(sums);
        let sum = crc32fast::hash(out.get(start + 8..).unwrap_or_default());
        if let Some(place) = out.get_mut(start + 4..start + 8) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Decodes the header at the beginning of `octets` without checking its checksum.
    fn decode(octets: &[u8]) -> Option<Self> {
        if u32_at(octets, 0)? != MAGIC {
            return None;
        }
        let header = Self {
            segment: u32_at(octets, 8)?,
            index_bytes: u32_at(octets, 12)?,
            offset: u64_at(octets, 16)?,
            body_offset: u64_at(octets, 24)?,
            body_bytes: u64_at(octets, 32)?,
            sequence: u64_at(octets, 40)?,
            head_bytes: u32_at(octets, 48)?,
        };
        let is_sane = header.index_bytes as usize <= INDEX_BYTES_MAX
            && header.head_bytes as usize <= HEAD_BYTES_MAX
            && header.body_bytes < 1 << 48;
        is_sane.then_some(header)
    }
}

/// An object that was read.
pub struct StoredObject {
    /// The index entry it was written or last refreshed with.
    pub index: Bytes,
    /// Its head.
    pub head: Bytes,
    /// Its body, which has not been read yet.
    pub body: DiskBody,
}

impl StoredObject {
    /// Reads the record at `location` of a segment's file and checks everything except the body.
    pub(crate) fn read(
        file: Arc<dyn DiskFile>,
        location: Location,
        counters: Arc<FigureCounters>,
    ) -> Result<Self, ReadError> {
        let first = (location.span as usize).min(FIRST_READ_BYTES);
        let mut octets = BytesMut::zeroed(first);
        read_exact(&*file, &mut octets, location.offset)?;
        let header = RecordHeader::decode(&octets).ok_or(ReadError::Damaged)?;
        let bytes = usize::try_from(header.bytes()).map_err(|_| ReadError::Damaged)?;
        if bytes > location.span as usize {
            return Err(ReadError::Damaged);
        }
        if bytes > first {
            octets.resize(bytes, 0);
            let rest = octets.get_mut(first..).unwrap_or_default();
            read_exact(&*file, rest, location.offset + first as u64)?;
        }
        let mut octets = octets.freeze();
        let follows = octets.split_off(bytes);
        let is_whole = u32_at(&octets, 4) == octets.get(8..).map(crc32fast::hash);
        if !is_whole || (header.segment, header.offset) != (location.segment, location.offset) {
            return Err(ReadError::Damaged);
        }
        let mut parts = octets.split_off(HEADER_BYTES);
        let index = parts.split_to(header.index_bytes as usize);
        let head = parts.split_to(header.head_bytes as usize);
        let is_behind = header.body_offset == location.offset + bytes as u64;
        let is_whole = is_behind && follows.len() as u64 >= header.body_bytes;
        let prefetched = if is_whole { follows } else { Bytes::new() };
        // A copy, because a body may be kept for a long time and must not keep the whole read
        // buffer alive.
        let sums = Bytes::copy_from_slice(&parts);
        let start = header.body_offset;
        let bytes = header.body_bytes;
        let body = DiskBody { file, counters, start, bytes, sums, prefetched };
        Ok(Self { index, head, body })
    }
}

/// A range of a file, for sendfile.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file, which stays open as long as this does.
    pub file: Arc<File>,
    /// The position of the range in the file.
    pub offset: u64,
    /// The length of the range.
    pub bytes: u64,
}

/// The body of an object on the disk. It keeps its file open, so that it can be read to its end
/// even if its segment is evicted.
#[derive(Clone)]
pub struct DiskBody {
    file: Arc<dyn DiskFile>,
    counters: Arc<FigureCounters>,
    start: u64,
    bytes: u64,
    sums: Bytes,
    /// The part of the body that was read together with the head. It is not checked yet.
    prefetched: Bytes,
}

impl DiskBody {
    /// The length in bytes.
    pub const fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the length is zero.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The same body without the prefetched bytes. Only its checksums stay in memory.
    #[must_use]
    pub fn without_octets(self) -> Self {
        Self { prefetched: Bytes::new(), ..self }
    }

    /// The bytes of memory that its checksums occupy.
    pub const fn sums_bytes(&self) -> usize {
        self.sums.len()
    }

    /// Reads at most `bytes_max` bytes from `offset` on, and at most 1 MiB at once, and checks them
    /// against their checksums. The result is empty only at the end. Blocks.
    ///
    /// # Errors
    /// As described for [`ReadError`].
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        if self.prefetched.len() as u64 >= self.bytes && self.bytes <= PIECE_BYTES as u64 {
            return self.read_prefetched(offset, bytes_max).inspect_err(|error| self.count(error));
        }
        let extent = BodyExtent { file: &*self.file, start: self.start, bytes: self.bytes };
        extent.read_at(offset, bytes_max, &self.sums, 0).inspect_err(|error| self.count(error))
    }

    /// Checks at most `bytes_max` bytes from `offset` on, and at most 1 MiB at once, without
    /// keeping them. Returns the number of bytes checked, zero only at the end. Blocks.
    ///
    /// # Errors
    /// As described for [`ReadError`].
    pub fn check(&self, offset: u64, bytes_max: usize) -> Result<u64, ReadError> {
        let extent = BodyExtent { file: &*self.file, start: self.start, bytes: self.bytes };
        extent.check(offset, bytes_max, &self.sums).inspect_err(|error| self.count(error))
    }

    fn read_prefetched(&self, offset: u64, bytes_max: usize) -> Result<Bytes, ReadError> {
        let bytes = self.bytes as usize;
        let octets = self.prefetched.slice(..bytes);
        if !octets.is_empty() && u32_at(&self.sums, 0) != Some(crc32fast::hash(&octets)) {
            return Err(ReadError::Damaged);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes);
        Ok(octets.slice(from..from.saturating_add(bytes_max).min(bytes)))
    }

    fn count(&self, error: &ReadError) {
        self.counters.count_read(error);
    }

    /// Reads and checks the whole body. Blocks.
    ///
    /// # Errors
    /// As described for [`ReadError`].
    pub fn verify(&self) -> Result<(), ReadError> {
        let mut offset = 0;
        while offset < self.bytes {
            offset += self.read_at(offset, usize::MAX)?.len() as u64;
        }
        Ok(())
    }

    /// The range of the file that holds the body, or `None` if it is not a file of the system.
    /// Bytes that are sent from it are not checked; use [`DiskBody::check`] or [`DiskBody::verify`]
    /// first.
    pub fn pieces(&self) -> Option<FileRange> {
        let file = self.file.system_file()?;
        Some(FileRange { file, offset: self.start, bytes: self.bytes })
    }
}
