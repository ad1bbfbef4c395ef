//! Room for what a connection reads next.
//!
//! Invariant: bytes that were read are not moved while somebody holds them, and small reads share a buffer. A slice
//! of a buffer keeps the whole buffer in memory, so a buffer for each read would make a body that comes in pieces of
//! a few kilobytes occupy many times its length.

use bytes::BytesMut;

/// A buffer is read into until less than this part of the bytes that a read may bring is left of it.
const LEAST_PART: usize = 4;

/// Makes room behind what `input` holds: for `read_bytes`, or for a quarter of them where its buffer has that left.
pub fn make_room(input: &mut BytesMut, read_bytes: usize) {
    if input.capacity() - input.len() < read_bytes.div_ceil(LEAST_PART) {
        input.reserve(read_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::make_room;
    use bytes::{Bytes, BytesMut};

    /// Reads pieces of this length, of which each is held.
    fn read(piece_bytes: usize, pieces: usize) -> Vec<Bytes> {
        let mut input = BytesMut::new();
        let read = |number: usize| {
            make_room(&mut input, 64 * 1024);
            assert!(input.capacity() - input.len() >= 16 * 1024, "room for a read");
            input.extend_from_slice(&vec![number as u8; piece_bytes]);
            input.split().freeze()
        };
        (0..pieces).map(read).collect()
    }

    #[test]
    fn small_reads_share_a_buffer() {
        for (piece_bytes, buffers_max) in [(100, 3), (1_400, 4), (9_000, 17), (16_000, 25)] {
            let pieces = read(piece_bytes, 100);
            let follows =
                |two: &&[Bytes]| matches!(two, [one, other] if one.as_ptr_range().end == other.as_ptr());
            let buffers = pieces.len() - pieces.windows(2).filter(follows).count();
            assert!(buffers <= buffers_max, "{buffers} buffers for 100 pieces of {piece_bytes}");
            assert!(
                pieces
                    .iter()
                    .enumerate()
                    .all(|(number, piece)| piece.iter().all(|byte| *byte == number as u8))
            );
        }
    }
}
