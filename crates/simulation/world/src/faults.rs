//! The kinds of faults of a world, and how often each has hit.
//!
//! Invariant: a fault is counted when it changes the result of an operation, not when it is
//! switched on.

use crate::pipe::locked;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// A kind of fault that a world can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A disk operation takes at least [`SLOW_MS`](crate::SLOW_MS) milliseconds.
    DiskSlow,
    /// A disk operation waits until the disk is thawed.
    DiskHangs,
    /// A writing disk operation waits until the disk is thawed; others do not.
    DiskHangsWriting,
    /// The closing of a file waits until the disk is thawed.
    DiskHangsClosing,
    /// A disk operation ends with an input/output error.
    DiskFails,
    /// A disk operation needs space, and there is none.
    DiskFull,
    /// A read or write transfers only a part.
    DiskShort,
    /// A read returns a wrong byte.
    DiskMisreads,
    /// Bytes of a stored file change.
    DiskDamage,
    /// The process is killed. Its written content stays.
    Kill,
    /// The process is killed in the middle of a disk operation.
    KillInOperation,
    /// The machine loses power. Content that was not synced may be lost.
    PowerCut,
    /// A connection is refused.
    ConnectRefused,
    /// Connecting does not end.
    ConnectHangs,
    /// Connecting takes its time.
    ConnectSlow,
    /// The wall clock jumps.
    ClockJump,
}

impl FaultKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 16] = [
        Self::DiskSlow,
        Self::DiskHangs,
        Self::DiskHangsWriting,
        Self::DiskHangsClosing,
        Self::DiskFails,
        Self::DiskFull,
        Self::DiskShort,
        Self::DiskMisreads,
        Self::DiskDamage,
        Self::Kill,
        Self::KillInOperation,
        Self::PowerCut,
        Self::ConnectRefused,
        Self::ConnectHangs,
        Self::ConnectSlow,
        Self::ClockJump,
    ];
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiskSlow => "slow disk",
            Self::DiskHangs => "hung disk",
            Self::DiskHangsWriting => "disk that hangs at writes",
            Self::DiskHangsClosing => "disk that hangs at closing files",
            Self::DiskFails => "disk error",
            Self::DiskFull => "full disk",
            Self::DiskShort => "partial transfer of the disk",
            Self::DiskMisreads => "misread of the disk",
            Self::DiskDamage => "damaged file",
            Self::Kill => "kill",
            Self::KillInOperation => "kill in a disk operation",
            Self::PowerCut => "power cut",
            Self::ConnectRefused => "refused connection",
            Self::ConnectHangs => "hung connection attempt",
            Self::ConnectSlow => "slow connection attempt",
            Self::ClockJump => "jump of the wall clock",
        })
    }
}

/// How often each kind of fault has hit. Clones are the same counts.
#[derive(Clone, Debug, Default)]
pub struct FaultCounts(Arc<Mutex<BTreeMap<FaultKind, u64>>>);

impl FaultCounts {
    /// Counts a hit of `kind`.
    pub fn hit(&self, kind: FaultKind) {
        *locked(&self.0).entry(kind).or_default() += 1;
    }

    /// How often `kind` has hit.
    pub fn of(&self, kind: FaultKind) -> u64 {
        locked(&self.0).get(&kind).copied().unwrap_or_default()
    }

    /// The kinds that have hit, and how often.
    pub fn all(&self) -> BTreeMap<FaultKind, u64> {
        locked(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultCounts, FaultKind};

    #[test]
    fn list_has_every_kind_with_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> = FaultKind::ALL.iter().map(FaultKind::to_string).collect();
        assert_eq!(texts.len(), FaultKind::ALL.len());
        assert_eq!(FaultKind::ALL.last(), Some(&FaultKind::ClockJump));
        assert!(FaultKind::ALL.is_sorted_by(|first, second| first < second));
        let last = FaultKind::ALL.map(|kind| kind as usize);
        assert!(last.iter().enumerate().all(|(index, number)| index == *number), "a kind is missing");
        let counts = FaultCounts::default();
        let same = counts.clone();
        same.hit(FaultKind::Kill);
        assert_eq!((counts.of(FaultKind::Kill), counts.of(FaultKind::PowerCut)), (1, 0));
    }
}
