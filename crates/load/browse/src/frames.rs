//! Counts the bytes received on an HTTP/2 connection by stream. Only frame headers are parsed
//! (RFC 9113 section 4.1).
//!
//! Invariant: a stream is counted from its announcement until its count is taken. Other frames are
//! not counted: a server can send frames such as PRIORITY for any stream, so a count for each
//! stream that it names would have no limit.

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
    /// The counts of the announced streams.
    by_stream: HashMap<u32, u64>,
}

impl Frames {
    /// Counts the bytes of a stream from now on.
    pub(crate) fn announce(&mut self, stream: u32) {
        self.by_stream.insert(stream, 0);
    }

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
        if let Some(count) = self.by_stream.get_mut(&self.stream) {
            *count += bytes as u64;
        }
    }

    /// Ends the count of a stream. Returns the number of bytes received for it.
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
            [1, 3].into_iter().for_each(|stream| frames.announce(stream));
            octets.chunks(size).for_each(|piece| frames.feed(piece));
            assert_eq!([frames.take(1), frames.take(3), frames.take(1)], [70_118, 23, 0], "pieces of {size}");
            assert_eq!((frames.take(0), frames.rest), (0, 0));
        }
    }

    #[test]
    fn frames_of_streams_without_a_request_take_no_memory() {
        let mut frames = Frames::default();
        frames.announce(1);
        for stream in 0..100_000 {
            frames.feed(&frame(stream, 5));
        }
        assert_eq!((frames.by_stream.len(), frames.take(1)), (1, 14));
        frames.feed(&frame(1, 5));
        assert!(frames.by_stream.is_empty());
    }
}
