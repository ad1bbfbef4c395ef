//! The files of the tree, in a directory that belongs to it alone.
//!
//! Invariants:
//!
//! - Each file appears by a rename, so a reader never sees part of one.
//! - The plain file of a page is created last and removed first. Web servers use a coded file only
//!   beside it.
//! - All files of one page have the same modification time.
//! - `.petasos` is never served.
//! - Only files that the manifest lists, and empty directories, are removed.
//! - Nothing is written or removed behind a symbolic link.

use crate::content::PageContent;
use crate::layout::FilePath;
use crate::manifest::Manifest;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Directory for the tree's own data: manifest, lock and staged files. Web servers must not serve
/// it.
const OWN: &str = ".petasos";

/// Suffixes of coded files.
const GZIP: &str = ".gz";
const BROTLI: &str = ".br";

/// Reasons why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It contains a file that the tree did not write.
    #[error(
        "{} has {} in it, which is not of the static tree; give static_tree.directory a directory of its own, or empty it",
        directory.display(),
        found.display()
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The first such file.
        found: PathBuf,
    },
    /// Another process uses it.
    #[error("{} belongs to another running edge; give static_tree.directory a directory of its own", .0.display())]
    Busy(PathBuf),
    /// The system refused an operation.
    #[error("cannot use {}: {error}; see that static_tree.directory can be written", path.display())]
    System {
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// An opened directory.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    /// The locked file. Held until the process no longer uses the directory.
    lock: File,
}

impl Files {
    /// Opens a directory. Creates it if it does not exist, and removes the pages that an earlier
    /// process left in it.
    pub(crate) fn open(root: &Path) -> Result<(Self, Manifest), DirectoryError> {
        let own = root.join(OWN);
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |error| DirectoryError::System { path, error }
        };
        std::fs::create_dir_all(root).map_err(fault(root))?;
        let list = own.join("manifest");
        if !list.exists()
            && let Some(found) = names(root).map_err(fault(root))?.into_iter().find(|path| *path != own)
        {
            return Err(DirectoryError::Foreign { directory: root.to_owned(), found });
        }
        std::fs::create_dir_all(&own).map_err(fault(&own))?;
        let lock = own.join("lock");
        let lock_file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&lock).map_err(fault(&lock))?;
        match lock_file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(DirectoryError::Busy(root.to_owned())),
            Err(TryLockError::Error(error)) => return Err(fault(&lock)(error)),
            Ok(()) => {}
        }
        // The path to the directory is the operator's and may contain links; resolve them once, so
        // that `is_inside` reports only links within the tree.
        let real = root.canonicalize().map_err(fault(root))?;
        let files = Self { root: real, lock: lock_file };
        for place in Manifest::read(&list).map_err(fault(&list))? {
            files.remove(&place).map_err(fault(root))?;
        }
        if let Some(found) = foreign(root, &own).map_err(fault(root))? {
            return Err(DirectoryError::Foreign { directory: root.to_owned(), found });
        }
        let manifest = Manifest::create(list.clone()).map_err(fault(&list))?;
        Ok((files, manifest))
    }

    /// Lets another process open the directory. Nothing may be written or removed from here on.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        self.lock.unlock()
    }

    /// Writes a content to the staging files for [`Files::commit`]. There is one set of staging
    /// files, so only one page may be staged at a time.
    pub(crate) fn stage(&self, content: &PageContent, changed: SystemTime) -> io::Result<()> {
        let write = |ending: &str, octets: Option<&[u8]>| {
            let path = self.staged(ending);
            let Some(octets) = octets else { return absent(std::fs::remove_file(path)) };
            let written = File::create(&path).and_then(|mut file| {
                file.write_all(octets)?;
                file.set_modified(changed)
            });
            written.map_err(|error| of(&path, error))
        };
        write("", Some(&content.plain))?;
        write(GZIP, content.gzip.as_deref())?;
        write(BROTLI, content.brotli.as_deref())
    }

    /// Renames the staged files to a place.
    pub(crate) fn commit(&self, place: &FilePath) -> io::Result<()> {
        let plain = self.path(place, "");
        let of = |error| of(&plain, error);
        is_inside(&plain)?;
        if let Some(directory) = plain.parent() {
            std::fs::create_dir_all(directory).map_err(of)?;
        }
        // The plain file comes last, because servers use coded files only beside it.
        for ending in [GZIP, BROTLI] {
            let staged = self.staged(ending);
            let path = self.path(place, ending);
            match std::fs::rename(staged, &path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    absent(std::fs::remove_file(path)).map_err(of)?;
                }
                renamed => renamed.map_err(of)?,
            }
        }
        std::fs::rename(self.staged(""), &plain).map_err(of)
    }

    /// Removes the files at a place, and the directories that become empty by that.
    pub(crate) fn remove(&self, place: &FilePath) -> io::Result<()> {
        let plain = self.path(place, "");
        is_inside(&plain)?;
        for ending in ["", GZIP, BROTLI] {
            absent(std::fs::remove_file(self.path(place, ending))).map_err(|error| of(&plain, error))?;
        }
        for directory in plain.ancestors().skip(1).take_while(|directory| *directory != self.root) {
            // A directory that is not empty stays, and with it those above.
            if absent(std::fs::remove_dir(directory)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn path(&self, place: &FilePath, ending: &str) -> PathBuf {
        self.root.join(format!("{place}{ending}"))
    }

    fn staged(&self, ending: &str) -> PathBuf {
        self.root.join(OWN).join(format!("page{ending}"))
    }
}

/// Refuses a path that leads through a symbolic link: the nearest existing directory above it must
/// be its own canonical path.
fn is_inside(plain: &Path) -> io::Result<()> {
    let existing = plain.ancestors().skip(1).find(|directory| std::fs::symlink_metadata(directory).is_ok());
    let Some(directory) = existing else { return Ok(()) };
    if directory.canonicalize().is_ok_and(|real| real == directory) {
        return Ok(());
    }
    Err(of(directory, io::Error::other("a symbolic link leads out of the static tree; remove it")))
}

/// Treats a file that does not exist as removed.
fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}

/// Adds the path to an error's message.
fn of(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn names(directory: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// Finds a file or link below a directory that should contain only directories. Skips `own`.
fn foreign(directory: &Path, own: &Path) -> io::Result<Option<PathBuf>> {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in names(&directory)?.into_iter().filter(|path| path != own) {
            // Links are reported and never followed.
            if !std::fs::symlink_metadata(&path)?.is_dir() {
                return Ok(Some(path));
            }
            directories.push(path);
        }
    }
    Ok(None)
}
