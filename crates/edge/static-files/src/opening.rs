//! Opens a file below a directory, and states the possible results.
//!
//! Invariant: the kernel resolves the name below the directory (`RESOLVE_BENEATH`), also while
//! others rename or link: a name that would leave it at any moment is refused. The file that a
//! symbolic link leads to must have a name that requests may have. With [`Mode::Cached`] nothing
//! here waits for a disk.

use crate::identity::{FileIdentity, Kind};
use crate::request_path::{PathRefusal, is_hidden};
use crate::rules::FileRules;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode as Permissions, OFlags, ResolveFlags, openat2, readlink};
use rustix::io::Errno;
use std::time::Duration;
use std::{io, thread};

/// How often a name is resolved again because someone renamed a directory meanwhile.
const RACES_MAX: u64 = 32;

/// Whether an operation may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It must not: only the kernel's memory is used.
    Cached,
    /// It may read from the disk.
    Waiting,
}

/// Why no file answers a request, for logs. To clients all reasons look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFoundReason {
    /// The path names no file, whatever the directory holds.
    #[error("{0}")]
    Refused(PathRefusal),
    /// The path is not below the prefix of the rules.
    #[error("the path is outside of the prefix")]
    OutsidePrefix,
    /// There is no such file.
    #[error("there is no such file")]
    Absent,
    /// There is a directory, without an index file.
    #[error("the directory has no index file")]
    NoIndex,
    /// A symbolic link leads out of the directory.
    #[error("a symbolic link leads out of the directory")]
    LinkOutside,
    /// The rules refuse files with this name.
    #[error("files with this name are refused")]
    RefusedName,
    /// A loop of symbolic links, or a link to a hidden or refused file.
    #[error("a symbolic link is refused")]
    LinkRefused,
    /// The process may not read it.
    #[error("the file is not readable")]
    Unreadable,
    /// A named pipe, socket or device.
    #[error("this is no regular file")]
    NotRegular,
}

/// Why a look-up has no result. The response is an error that must not be stored (503).
#[derive(Debug, thiserror::Error)]
pub enum SearchFailure {
    /// Too many look-ups wait for a disk.
    #[error("too many look-ups wait for the disk")]
    Busy,
    /// The system could not open a file that may exist.
    #[error("cannot open a file: {0}")]
    System(#[from] io::Error),
}

/// Why an operation has no result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It would have to wait for a disk.
    WouldWait,
    Failed(Errno),
}

/// A file that was opened.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) descriptor: OwnedFd,
    pub(crate) identity: FileIdentity,
}

/// The file or directory that a name leads to.
#[derive(Debug)]
pub(crate) enum Opened {
    File(OpenedFile),
    Directory,
    Nothing(NotFoundReason),
}

/// How names below a directory are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) mode: Mode,
    pub(crate) rules: &'a FileRules,
}

impl Opener<'_> {
    /// Opens `name`, which is relative to the directory.
    ///
    /// A named pipe or a device is opened too, without waiting for its other side, and closed
    /// again.
    pub(crate) fn open(&self, name: &[u8]) -> Result<Opened, Stop> {
        if self.rules.refuses(name) {
            return Ok(Opened::Nothing(NotFoundReason::RefusedName));
        }
        let (descriptor, has_links) = match self.open_at(name, ResolveFlags::NO_SYMLINKS)? {
            Err(Errno::LOOP) => (self.open_at(name, ResolveFlags::NO_MAGICLINKS)?, true),
            opened => (opened, false),
        };
        let descriptor = match descriptor {
            Ok(descriptor) => descriptor,
            Err(error) => return refused(error).map(Opened::Nothing),
        };
        Ok(match Kind::of(&descriptor).map_err(Stop::Failed)? {
            Kind::Regular(_) if has_links && !self.is_servable(&descriptor) => {
                Opened::Nothing(NotFoundReason::LinkRefused)
            }
            Kind::Regular(identity) => Opened::File(OpenedFile { descriptor, identity }),
            Kind::Directory => Opened::Directory,
            Kind::Other => Opened::Nothing(NotFoundReason::NotRegular),
        })
    }

    fn open_at(&self, name: &[u8], links: ResolveFlags) -> Result<Result<OwnedFd, Errno>, Stop> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut resolve = ResolveFlags::BENEATH | links;
        resolve.set(ResolveFlags::CACHED, self.mode == Mode::Cached);
        let mut races = 0;
        loop {
            match openat2(self.directory, name, flags, Permissions::empty(), resolve) {
                Err(Errno::AGAIN) if self.mode == Mode::Cached => return Err(Stop::WouldWait),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if races < RACES_MAX => {
                    // A program with a lease on the file needs time to give it back.
                    thread::sleep(Duration::from_millis(races));
                    races += 1;
                }
                opened => return Ok(opened),
            }
        }
    }

    /// Whether requests may name the file that a symbolic link has led to.
    fn is_servable(&self, file: &OwnedFd) -> bool {
        let (Ok(directory), Ok(file)) = (own_name(self.directory), own_name(file)) else { return false };
        let below = file.strip_prefix(&directory[..]).and_then(|below| below.strip_prefix(b"/"));
        below.is_some_and(|name| !is_hidden(name) && !self.rules.refuses(name))
    }
}

/// The path of an open file.
fn own_name(file: impl AsFd) -> Result<Vec<u8>, Errno> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(readlink(link, Vec::new())?.into_bytes())
}

/// The meaning of an error for the file; `Err` if it says nothing about it.
const fn refused(error: Errno) -> Result<NotFoundReason, Stop> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            Ok(NotFoundReason::Absent)
        }
        Errno::XDEV => Ok(NotFoundReason::LinkOutside),
        Errno::LOOP => Ok(NotFoundReason::LinkRefused),
        Errno::ACCESS | Errno::PERM => Ok(NotFoundReason::Unreadable),
        Errno::NXIO | Errno::NODEV => Ok(NotFoundReason::NotRegular),
        _ => Err(Stop::Failed(error)),
    }
}
