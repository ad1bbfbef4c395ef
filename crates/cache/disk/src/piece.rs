//! Checksums of a body: one for each piece of 64 KiB, so that a part can be checked without the
//! rest.

use std::io;

use bytes::{Bytes, BytesMut};
use defects::{Defect, is_planted};
use platform::DiskFile;

use crate::ReadError;
use crate::frame::u32_at;

/// The length of a piece, in bytes. The last piece of a body may be shorter.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The most pieces that one read covers.
const PIECES_AT_ONCE: u64 = 16;

/// The number of pieces of a body with this length.
pub(crate) const fn count(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(PIECE_BYTES as u64)
}

/// The checksums of a body in memory.
pub(crate) fn sums(body: &[Bytes]) -> Vec<u8> {
    let mut sums = Vec::new();
    let mut hasher = crc32fast::Hasher::new();
    let mut filled = 0;
    for octets in body {
        let mut rest = &octets[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PIECE_BYTES - filled));
            hasher.update(now);
            filled += now.len();
            rest = later;
            if filled == PIECE_BYTES {
                sums.extend_from_slice(&std::mem::take(&mut hasher).finalize().to_le_bytes());
                filled = 0;
            }
        }
    }
    if filled > 0 {
        sums.extend_from_slice(&hasher.finalize().to_le_bytes());
    }
    sums
}

/// The position of a body in a file.
#[derive(Clone, Copy)]
pub(crate) struct BodyExtent<'a> {
    pub(crate) file: &'a dyn DiskFile,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl BodyExtent<'_> {
    /// Reads at most `bytes_max` bytes from `offset` on. `sums` are the checksums from the piece
    /// `sums_from` on.
    pub(crate) fn read_at(
        &self,
        offset: u64,
        bytes_max: usize,
        sums: &[u8],
        sums_from: u64,
    ) -> Result<Bytes, ReadError> {
        let pieces = pieces_of(offset, bytes_max, self.bytes);
        if pieces.is_empty() {
            return Ok(Bytes::new());
        }
        let piece_bytes = PIECE_BYTES as u64;
        let start = pieces.start * piece_bytes;
        let end = (pieces.end * piece_bytes).min(self.bytes);
        let mut octets = BytesMut::zeroed((end - start) as usize);
        read_exact(self.file, &mut octets, self.start + start)?;
        for (piece, index) in octets.chunks(PIECE_BYTES).zip(pieces) {
            let at = (index - sums_from) as usize * 4;
            if u32_at(sums, at) != Some(crc32fast::hash(piece)) && !is_planted(Defect::UncheckedBodies) {
                return Err(ReadError::Damaged);
            }
        }
        let octets = octets.freeze();
        let from = (offset - start) as usize;
        let to = from.saturating_add(bytes_max).min(octets.len());
        let part = octets.slice(from..to);
        // A slice keeps whole pieces in memory, and slow clients hold it.
        Ok(if part.len() < octets.len() { Bytes::copy_from_slice(&part) } else { part })
    }
}

impl BodyExtent<'_> {
    /// Checks at most `bytes_max` bytes from `offset` on, one piece after the other in one buffer.
    /// `sums` are the checksums of all pieces. Returns the number of bytes checked.
    pub(crate) fn check(&self, offset: u64, bytes_max: usize, sums: &[u8]) -> Result<u64, ReadError> {
        let pieces = pieces_of(offset, bytes_max, self.bytes);
        let piece_bytes = PIECE_BYTES as u64;
        let end = (pieces.end * piece_bytes).min(self.bytes).min(offset.saturating_add(bytes_max as u64));
        let mut buffer = vec![0; PIECE_BYTES.min(usize::try_from(self.bytes).unwrap_or(PIECE_BYTES))];
        for piece in pieces {
            let start = piece * piece_bytes;
            // At most PIECE_BYTES, so the cast loses nothing.
            let bytes = (self.bytes - start).min(piece_bytes) as usize;
            let octets = buffer.get_mut(..bytes).unwrap_or_default();
            read_exact(self.file, octets, self.start + start)?;
            let is_whole = u32_at(sums, piece as usize * 4) == Some(crc32fast::hash(octets));
            if !is_whole && !is_planted(Defect::UncheckedBodies) {
                return Err(ReadError::Damaged);
            }
        }
        Ok(end.saturating_sub(offset))
    }
}

/// The pieces to read for at most `bytes_max` bytes from `offset` of a body.
pub(crate) fn pieces_of(offset: u64, bytes_max: usize, body_bytes: u64) -> std::ops::Range<u64> {
    if offset >= body_bytes || bytes_max == 0 {
        return 0..0;
    }
    let first = offset / PIECE_BYTES as u64;
    let end = offset.saturating_add(bytes_max as u64).min(body_bytes);
    first..count(end).min(first + PIECES_AT_ONCE)
}

/// Fills `buffer` from `offset` on. A file that ends too early counts as damaged.
pub(crate) fn read_exact(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => return Err(ReadError::Damaged),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes all of `content` from `offset` on.
pub(crate) fn write_all(file: &dyn DiskFile, content: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = content.get(done..).filter(|rest| !rest.is_empty()) {
        match file.write_at(rest, offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, count, pieces_of, sums};
    use bytes::Bytes;

    #[test]
    fn checksums_do_not_depend_on_chunk_boundaries() {
        let body: Vec<u8> = (0..PIECE_BYTES * 2 + 5).map(|at| (at * 7 % 251) as u8).collect();
        let whole = sums(&[Bytes::from(body.clone())]);
        let cut: Vec<Bytes> = body.chunks(1000).map(Bytes::copy_from_slice).collect();
        assert_eq!(sums(&cut), whole);
        assert_eq!(whole.len() as u64, count(body.len() as u64) * 4);
        assert_eq!(sums(&[]), Vec::<u8>::new());
    }

    #[test]
    fn only_requested_pieces_are_read() {
        let piece = PIECE_BYTES as u64;
        assert_eq!(pieces_of(0, 1, 10 * piece), 0..1);
        assert_eq!(pieces_of(piece - 1, 2, 10 * piece), 0..2);
        assert_eq!(pieces_of(piece, PIECE_BYTES, 10 * piece), 1..2);
        assert_eq!(pieces_of(0, usize::MAX, 100 * piece), 0..16);
        assert!(pieces_of(5, 1, 5).is_empty());
    }
}
