//! The input buffer of a connection: space for the next read, and reading into it.
//!
//! Invariant: bytes that were read are not moved while a slice of them exists, and small reads
//! share a buffer. A slice keeps its whole buffer in memory. With one buffer per read, a body that
//! arrives in pieces of a few kilobytes would occupy many times its length.

use bytes::BytesMut;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A buffer is used until less than this fraction of `read_bytes` is free: 4 means a quarter.
const LEAST_PART: usize = 4;

/// Ensures space after the content of `input`: `read_bytes` bytes, or at least a quarter of them if
/// the buffer has that much left.
pub fn make_room(input: &mut BytesMut, read_bytes: usize) {
    if input.capacity() - input.len() < read_bytes.div_ceil(LEAST_PART) {
        input.reserve(read_bytes);
    }
}

/// Reads more bytes into `input`, which gets space for `read_bytes`. Returns 0 at the end.
///
/// Many servers end TLS without a closing alert, so that counts as an end too. The framing of a
/// message decides whether it is complete.
///
/// # Errors
/// As the stream reports them.
pub async fn read_more(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    read_bytes: usize,
) -> io::Result<usize> {
    input.reserve(read_bytes);
    match stream.read_buf(input).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::make_room;
    use bytes::{Bytes, BytesMut};

    /// Reads `pieces` pieces of `piece_bytes` bytes each and keeps them all.
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
