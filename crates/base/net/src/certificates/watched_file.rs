//! Tells whether the files of a certificate have changed.
//!
//! Invariant: a change counts once, and only after two looks in a row have found the same state.

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
}

/// What tells one version of a file from another. `None`: there is no file, or it cannot be looked
/// at.
type FileState = Option<(SystemTime, u64, u64)>;

impl WatchedFiles {
    pub(super) fn of(files: &CertificateFiles) -> Self {
        Self { read: states(files), seen: None, files: files.clone() }
    }

    pub(super) const fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// Whether the files have changed and stay the same since the last call, or, with `at_once`,
    /// have changed at all.
    pub(super) fn have_changed(&mut self, at_once: bool) -> bool {
        let found = states(&self.files);
        if found == self.read {
            self.seen = None;
            return false;
        }
        let counts = at_once || self.seen == Some(found);
        self.seen = (!counts).then_some(found);
        if counts {
            self.read = found;
        }
        counts
    }
}

fn states(files: &CertificateFiles) -> [FileState; 2] {
    [state(&files.chain), state(&files.key)]
}

/// A link is followed, because renewal tools replace the link.
fn state(path: &Path) -> FileState {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
