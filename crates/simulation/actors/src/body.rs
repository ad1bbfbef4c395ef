//! A body that an actor receives, with its memory counted.
//!
//! Invariant: the body is counted until its last holder drops it.

use bytes::Bytes;
use world::{CountedMemory, MemoryMeter};

/// A body that arrives piece by piece.
pub(crate) struct CountedBody {
    octets: Vec<u8>,
    memory: CountedMemory,
}

impl CountedBody {
    pub(crate) fn new(meter: &MemoryMeter) -> Self {
        Self { octets: Vec::new(), memory: meter.holder() }
    }

    pub(crate) fn push(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
        self.memory.set(self.octets.capacity());
    }

    pub(crate) const fn octets(&self) -> &[u8] {
        self.octets.as_slice()
    }

    /// The body as shared bytes, which are counted like it.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::CountedBody;
    use world::MemoryMeter;

    #[test]
    fn body_is_counted_until_its_last_holder_drops_it() {
        let meter = MemoryMeter::default();
        let mut body = CountedBody::new(&meter);
        body.push(&[7; 1000]);
        let whole = body.freeze();
        let part = whole.slice(10..20);
        drop(whole);
        assert!(part == [7; 10][..] && meter.bytes() >= 1000);
        drop(part);
        assert_eq!(meter.bytes(), 0);
    }
}
