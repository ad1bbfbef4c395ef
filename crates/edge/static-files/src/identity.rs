//! The state of a file: the file system's numbers and times.
//!
//! Invariant: two states with equal identities have equal content, unless the later change came
//! within the file system's resolution of time. [`FileIdentity::is_settled`] is false for as long
//! as such a change may still come.

use clock::Timestamp;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::Errno;
use std::time::Duration;

/// The coarsest resolution of times that file systems in use have: two seconds (FAT).
const RESOLUTION: Duration = Duration::from_secs(2);

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: FileTime,
    /// When content or attributes changed last. No call can set it, so it also distinguishes a file
    /// from its replacement by a tool that copies the time of modification.
    pub(crate) changed: FileTime,
}

/// A time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileTime {
    pub(crate) secs: i64,
    pub(crate) nanos: u32,
}

impl FileTime {
    fn of(time: &StatxTimestamp) -> Self {
        Self { secs: time.tv_sec, nanos: time.tv_nsec }
    }

    /// The moment; times before 1970 become 1970.
    pub(crate) fn timestamp(self) -> Timestamp {
        let micros = u64::from(self.nanos) / 1000;
        u64::try_from(self.secs).map_or_else(
            |_| Timestamp::default(),
            |secs| Timestamp::from_micros(secs.saturating_mul(1_000_000).saturating_add(micros)),
        )
    }
}

/// The kind of file that a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Regular(FileIdentity),
    Directory,
    Other,
}

impl Kind {
    /// Asks for the kind of an open file. Does not wait for a remote server.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let state = statx(file, "", flags, StatxFlags::BASIC_STATS)?;
        Ok(match FileType::from_raw_mode(state.stx_mode.into()) {
            FileType::RegularFile => Self::Regular(FileIdentity::of(&state)),
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        })
    }
}

impl FileIdentity {
    fn of(state: &Statx) -> Self {
        Self {
            device: (state.stx_dev_major, state.stx_dev_minor),
            inode: state.stx_ino,
            bytes: state.stx_size,
            modified: FileTime::of(&state.stx_mtime),
            changed: FileTime::of(&state.stx_ctime),
        }
    }

    /// Whether two states of one open file have the same content, unless someone has set its time
    /// back.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        (self.bytes, self.modified) == (other.bytes, other.modified)
    }

    /// Whether a later change will show in the identity, seen at the wall time `now`.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        let changed = self.changed.timestamp();
        now.since(changed).max(changed.since(now)) > RESOLUTION
    }
}
