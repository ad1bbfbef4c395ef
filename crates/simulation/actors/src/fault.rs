//! Faults of the origin: their kinds, the shared switch, and what really happened.
//!
//! Invariant: whether a response suffers a fault follows from the random numbers of its connection
//! and from the switch. A fault is counted when it happens, not when it is drawn.

use crate::site::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use world::Random;

/// A misconduct of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginFault {
    /// The first byte comes late.
    SlowHead,
    /// The body comes in small pieces with pauses.
    SlowBody,
    /// No byte is ever sent.
    Hang,
    /// The body stops in the middle, and the connection stays open.
    HangInBody,
    /// The connection is closed in the middle of a body whose end is marked.
    Truncate,
    /// A close-delimited body ends early in an orderly way. Nobody can notice it.
    EarlyEnd,
    /// `Content-Length` is longer than the body.
    LongLength,
    /// `Content-Length` is shorter than the body. The content seems to end there.
    ShortLength,
    /// The connection is reset before the head or in the middle of the body.
    Reset,
    /// Status 500.
    Error500,
    /// Status 503.
    Error503,
    /// Bytes that are no head.
    Garbage,
    /// A 200 without content, to a POST before its body was read.
    EmptyOk,
    /// The connection is closed after a response that did not say so.
    CloseBetween,
    /// The response has tags of no page.
    WrongTags,
    /// The last byte of the body comes late, as from an application that works on after its output.
    LateEnd,
}

impl OriginFault {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::SlowHead,
        Self::SlowBody,
        Self::Hang,
        Self::HangInBody,
        Self::Truncate,
        Self::EarlyEnd,
        Self::LongLength,
        Self::ShortLength,
        Self::Reset,
        Self::Error500,
        Self::Error503,
        Self::Garbage,
        Self::EmptyOk,
        Self::CloseBetween,
        Self::WrongTags,
        Self::LateEnd,
    ];
}

impl fmt::Display for OriginFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::SlowHead => "slow first byte",
            Self::SlowBody => "slow body",
            Self::Hang => "no answer",
            Self::LateEnd => "late end of the body",
            Self::HangInBody => "hang within the body",
            Self::Truncate => "truncated body",
            Self::EarlyEnd => "early orderly end",
            Self::LongLength => "Content-Length too long",
            Self::ShortLength => "Content-Length too short",
            Self::Reset => "reset",
            Self::Error500 => "status 500",
            Self::Error503 => "status 503",
            Self::Garbage => "garbage",
            Self::EmptyOk => "empty 200",
            Self::CloseBetween => "closed between requests",
            Self::WrongTags => "wrong tags",
        })
    }
}

/// The switch of an origin's faults. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct OriginFaults(Arc<Mutex<FaultTable>>);

#[derive(Debug, Default)]
struct FaultTable {
    percent: BTreeMap<OriginFault, u64>,
    counts: BTreeMap<OriginFault, u64>,
}

impl OriginFaults {
    /// No fault.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on, `percent` of 100 responses suffer `fault`; 100 means all, 0 none.
    pub fn set(&self, fault: OriginFault, percent: u64) {
        lock(&self.0).percent.insert(fault, percent);
    }

    /// Switches all faults off.
    pub fn clear(&self) {
        lock(&self.0).percent.clear();
    }

    /// How often each fault has happened.
    pub fn counts(&self) -> BTreeMap<OriginFault, u64> {
        lock(&self.0).counts.clone()
    }

    /// Draws the fault of the next response among those that `applies` names.
    pub(crate) fn draw(
        &self,
        random: &mut Random,
        applies: impl Fn(OriginFault) -> bool,
    ) -> Option<OriginFault> {
        let table = lock(&self.0);
        // One number for each kind, so that switching one kind leaves the draws of the others.
        let drawn = OriginFault::ALL.map(|fault| (fault, random.below(100)));
        let hits = |fault: OriginFault, number| {
            table.percent.get(&fault).is_some_and(|percent| number < *percent) && applies(fault)
        };
        drawn.into_iter().find(|(fault, number)| hits(*fault, *number)).map(|(fault, _)| fault)
    }

    pub(crate) fn count(&self, fault: OriginFault) {
        *lock(&self.0).counts.entry(fault).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{OriginFault, OriginFaults};
    use world::Random;

    #[test]
    fn faults_are_drawn_as_often_as_they_are_switched_on() {
        let (faults, mut random) = (OriginFaults::new(), Random::new(1));
        let mut drawn = |faults: &OriginFaults| {
            (0..1000).filter_map(|_| faults.draw(&mut random, |_| true)).collect::<Vec<_>>()
        };
        assert!(drawn(&faults).is_empty());
        faults.set(OriginFault::Hang, 10);
        let hangs = drawn(&faults);
        assert!(hangs.len() > 60 && hangs.len() < 140, "{}", hangs.len());
        faults.set(OriginFault::Reset, 100);
        assert_eq!(drawn(&faults).len(), 1000);
        faults.clear();
        assert!(drawn(&faults).is_empty());
    }
}
