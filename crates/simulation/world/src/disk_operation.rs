//! The operations of a disk, and which faults they can meet.
//!
//! Invariant: an operation meets only faults that the same operation of a system meets.

use crate::{DiskHang, FaultKind};

/// The operations of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Replace,
    Append,
    CreateDirectory,
    Open,
    OpenUnnamed,
    List,
    Remove,
    SyncDirectory,
    Lock,
    ReadAt,
    WriteAt,
    Truncate,
    Sync,
    Close,
}

impl Operation {
    /// Whether it needs space.
    pub(crate) const fn fills(self) -> bool {
        matches!(self, Self::Replace | Self::Append | Self::WriteAt | Self::OpenUnnamed)
    }

    /// Whether it changes the disk.
    pub(crate) const fn changes(self) -> bool {
        let other = matches!(self, Self::Truncate | Self::Sync | Self::SyncDirectory | Self::Remove);
        self.fills() || other
    }

    /// Whether it transfers any number of bytes.
    pub(crate) const fn transfers(self) -> bool {
        matches!(self, Self::ReadAt | Self::WriteAt)
    }

    /// The fault that this operation meets while `hang` lasts.
    pub(crate) const fn hangs(self, hang: DiskHang) -> Option<FaultKind> {
        match hang {
            DiskHang::Closing if matches!(self, Self::Close) => Some(FaultKind::DiskHangsClosing),
            DiskHang::Everything if !matches!(self, Self::Close) => Some(FaultKind::DiskHangs),
            DiskHang::Writing if self.changes() => Some(FaultKind::DiskHangsWriting),
            _ => None,
        }
    }
}
