//! Counts the bytes received on an HTTP/2 connection by stream. Only frame headers are parsed
//! (RFC 9113 section 4.1).
//!
//! Invariant: the count of a stream is kept until it is taken. Frames of the connection itself
//! (stream 0) are not counted.

use std::collections::HashMap;

/// Length of a frame header in bytes.
const HEAD_BYTES: usize = 9;

/// Counts the bytes of each stream.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The current frame header, and how many of its bytes have arrived.
    head: [u8; HEAD_BYTES],
    filled: usize,
    /// How many bytes of the payload are still to come, and the stream of the frame.
    rest: usize,
    stream: u32,
    by_stream: HashMap<u32, u64>,
}

impl Frames {
    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, mut octets: &[u8]) {
        while let Some((&first, behind)) = octets.split_first() {
            if self.rest > 0 {
                let taken = self.rest.min(octets.len());
                self.rest -= taken;
                self.count(taken);
                octets = octets.get(taken..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.filled) {
                *place = first;
            }
            self.filled += 1;
            octets = behind;
            if self.filled == HEAD_BYTES {
                self.begin();
            }
        }
    }

    /// Parses a complete frame header.
    fn begin(&mut self) {
        let [high, middle, low, _, _, stream @ ..] = self.head;
        self.filled = 0;
        self.rest = u32::from_be_bytes([0, high, middle, low]) as usize;
        // The first bit is reserved.
        self.stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        self.count(HEAD_BYTES);
    }

    fn count(&mut self, bytes: usize) {
        if self.stream != 0 {
            *self.by_stream.entry(self.stream).or_default() += bytes as u64;
        }
    }

    /// Returns the number of bytes received for a stream, and resets it.
    pub(crate) fn take(&mut self, stream: u32) -> u64 {
        self.by_stream.remove(&stream).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Frames;

    fn frame(stream: u32, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        let mut frame = length.get(1..).unwrap().to_vec();
        frame.extend([0, 0]);
        frame.extend((stream | 0x8000_0000).to_be_bytes());
        frame.extend(vec![7; bytes]);
        frame
    }

    #[test]
    fn bytes_are_counted_by_stream_for_any_split_into_reads() {
        let parts = [(0, 6), (1, 100), (3, 0), (1, 70_000), (0, 4), (3, 5)];
        let octets: Vec<u8> = parts.iter().flat_map(|&(stream, bytes)| frame(stream, bytes)).collect();
        for size in [1, 7, 4_096, octets.len()] {
            let mut frames = Frames::default();
            octets.chunks(size).for_each(|piece| frames.feed(piece));
            assert_eq!([frames.take(1), frames.take(3), frames.take(1)], [70_118, 23, 0], "pieces of {size}");
            assert_eq!((frames.take(0), frames.rest), (0, 0));
        }
    }
}
