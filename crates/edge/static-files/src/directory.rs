//! The directory that requests are resolved below.
//!
//! Invariant: its own path is the operator's and may lead through links. It is opened again at most
//! once in each period, so a deployment that replaces the directory or a link to it takes effect
//! without a reload, and a directory missing at the start may come later.

use crate::opening::{Mode, Stop};
use clock::Monotonic;
use platform::sound;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode as Permissions, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A directory whose files are served.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    valid_for: Duration,
    current: Mutex<Option<OpenDirectory>>,
}

#[derive(Debug)]
struct OpenDirectory {
    descriptor: Arc<OwnedFd>,
    opened_at: Monotonic,
    /// Whether the kernel can open files without waiting for a disk (Linux 5.12).
    has_cached_opens: bool,
}

impl Directory {
    /// The directory with this path. A relative one begins at the working directory of now.
    pub(crate) fn new(path: &Path, valid_for: Duration) -> Self {
        // Fails only without a working directory, and then the path cannot be opened either.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, valid_for, current: Mutex::new(None) }
    }

    /// The present directory.
    pub(crate) fn current(&self, mode: Mode, now: Monotonic) -> Result<Arc<OwnedFd>, Stop> {
        let has_cached_opens = {
            let current = sound(self.current.lock());
            let known = current.as_ref();
            if mode == Mode::Cached && !known.is_some_and(|known| known.has_cached_opens) {
                return Err(Stop::WouldWait);
            }
            if let Some(known) = known.filter(|known| now.since(known.opened_at) < self.valid_for) {
                return Ok(Arc::clone(&known.descriptor));
            }
            known.map(|known| known.has_cached_opens)
        };
        let resolve = match mode {
            Mode::Cached => ResolveFlags::CACHED,
            Mode::Waiting => ResolveFlags::empty(),
        };
        let stop = |error| match error {
            Errno::AGAIN if mode == Mode::Cached => Stop::WouldWait,
            error => Stop::Failed(error),
        };
        let opened = open(&self.path, resolve).map_err(stop)?;
        // The descriptor alone is no permission to look names up.
        openat2(&opened, ".", OFlags::PATH | OFlags::CLOEXEC, Permissions::empty(), resolve).map_err(stop)?;
        let is_supported = || open(&self.path, ResolveFlags::CACHED).err() != Some(Errno::INVAL);
        let new = OpenDirectory {
            descriptor: Arc::new(opened),
            opened_at: now,
            has_cached_opens: has_cached_opens.unwrap_or_else(is_supported),
        };
        let opened = Arc::clone(&new.descriptor);
        // Closed without the lock.
        let before = sound(self.current.lock()).replace(new);
        drop(before);
        Ok(opened)
    }
}

fn open(path: &Path, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Permissions::empty(), resolve)
}
