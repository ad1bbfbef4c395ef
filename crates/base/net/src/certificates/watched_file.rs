//! Detects changes in the files of a certificate.
//!
//! Invariant: a change counts once, and, except with `at_once`, only after two looks in a row have
//! found the same states. Files that could not be read are to be read again after each look,
//! because the obstacle may go away without a change in their states.

use super::CertificateFiles;
use std::path::Path;
use std::time::SystemTime;

/// The files of one certificate and their states.
#[derive(Debug)]
pub(super) struct WatchedFiles {
    files: CertificateFiles,
    /// The states of chain and key when they were read last.
    read: [FileState; 2],
    /// The states at the last look, if they differed from `read`.
    seen: Option<[FileState; 2]>,
    /// Whether the last attempt to read the files failed.
    is_unread: bool,
}

/// The outcome of a look at the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The files need not be read: no change counts yet.
    Unchanged,
    /// The files have changed and are to be read.
    Changed,
    /// The files have not changed since an attempt to read them failed. They are to be read again.
    Again,
}

/// The attributes that distinguish two versions of a file: modification time, length, inode and
/// time of the last status change. `None`: there is no file, or its metadata cannot be read.
type FileState = Option<(SystemTime, u64, u64, (i64, i64))>;

impl WatchedFiles {
    pub(super) fn of(files: &CertificateFiles) -> Self {
        Self { read: states(files), seen: None, is_unread: false, files: files.clone() }
    }

    pub(super) const fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// Compares the files with their states when they were read last. A change counts when the
    /// previous call found the same states; with `at_once` it counts immediately.
    pub(super) fn look(&mut self, at_once: bool) -> Look {
        let found = states(&self.files);
        if found == self.read {
            self.seen = None;
            return if self.is_unread { Look::Again } else { Look::Unchanged };
        }
        if !at_once && self.seen != Some(found) {
            self.seen = Some(found);
            return Look::Unchanged;
        }
        (self.seen, self.read) = (None, found);
        Look::Changed
    }

    /// Records whether the files could be read.
    pub(super) const fn were_read(&mut self, were_read: bool) {
        self.is_unread = !were_read;
    }
}

fn states(files: &CertificateFiles) -> [FileState; 2] {
    [state(&files.chain), state(&files.key)]
}

/// A link is followed, because renewal tools replace the link.
fn state(path: &Path) -> FileState {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    // The time of the last change of the owner or the permissions counts too.
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino(), changed))
}
