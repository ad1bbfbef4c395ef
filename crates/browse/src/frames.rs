//! Octets that come on a connection of HTTP/2, by the stream that they are for: frames are told apart by their heads
//! (RFC 9113 section 4.1), nothing else in them is looked at.
//!
//! Invariant: octets of a stream are kept until somebody takes them; what is for the connection itself is nobody's.

use std::collections::HashMap;

/// Octets before each frame's payload.
const HEAD_BYTES: usize = 9;

/// Counts the octets of each stream.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The head that is coming, and how much of it has.
    head: [u8; HEAD_BYTES],
    filled: usize,
    /// What is to come of the payload, and for which stream.
    rest: usize,
    stream: u32,
    by_stream: HashMap<u32, u64>,
}

impl Frames {
    /// Takes the next octets.
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

    /// A head is whole.
    fn begin(&mut self) {
        let [high, middle, low, _, _, stream @ ..] = self.head;
        self.filled = 0;
        self.rest = u32::from_be_bytes([0, high, middle, low]) as usize;
        // The first bit says nothing.
        self.stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        self.count(HEAD_BYTES);
    }

    fn count(&mut self, bytes: usize) {
        if self.stream != 0 {
            *self.by_stream.entry(self.stream).or_default() += bytes as u64;
        }
    }

    /// Takes the octets that have come for a stream.
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
    fn octets_belong_to_their_streams_however_they_are_cut() {
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
