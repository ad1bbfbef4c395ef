//! Files with secrets: written as a whole, readable by their owner alone.
//!
//! Invariant: a file has its old or its new content, never a part of one, also after a crash. Its
//! permissions are in force before its first byte is written.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Permissions of a directory with secrets.
const DIRECTORY_MODE: u32 = 0o700;

/// Permissions of a file with a secret.
pub(crate) const SECRET: u32 = 0o600;

/// Permissions of a file that everybody may read.
pub(crate) const PUBLIC: u32 = 0o644;

/// Longest name made of a host name or a URL, in bytes.
const NAME_BYTES_MAX: usize = 120;

/// Why a file cannot be used. The message names it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The directory cannot be created.
    #[error("cannot create the directory {}: {error}; set `state_directory` to one that can be written", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The content of the file cannot be understood.
    #[error("{} cannot be used: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The reader's reason.
        reason: String,
    },
    /// A certificate or key cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Creates a directory that only its owner can enter, and the directories above it. The state
/// directory itself keeps its permissions if it exists.
pub(crate) fn create_directory(path: &Path) -> Result<(), FileError> {
    let created = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path);
    // An older directory may be open to others.
    let closed =
        created.and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)));
    closed.map_err(|error| FileError::Directory { path: path.to_owned(), error })
}

/// Replaces the content of a file.
pub(crate) fn write(path: &Path, content: &str, mode: u32) -> Result<(), FileError> {
    let new = path.with_extension("new");
    write_to(&new, path, content, mode).map_err(|error| FileError::Write { path: path.to_owned(), error })
}

fn write_to(new: &Path, path: &Path, content: &str, mode: u32) -> io::Result<()> {
    // A file that a crash left may have other permissions.
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(new)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(new, path)?;
    // The new name must survive a power cut too.
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// The content of a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::Read { path: path.to_owned(), error }),
    }
}

/// A file name derived from a text. It has no separator, and does not begin with a dot.
pub(crate) fn name_for(text: &str) -> String {
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    let kept = bare.chars().map(|letter| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => letter,
        _ => '_',
    });
    let name: String = kept.take(NAME_BYTES_MAX).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{PUBLIC, SECRET, create_directory, name_for, read, write};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_are_readable_by_their_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, mode) = (directory.path().join("state/acme"), |path: &std::path::Path| {
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        });
        create_directory(&inner).unwrap();
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o755)).unwrap();
        create_directory(&inner).unwrap();
        assert_eq!((mode(&inner), mode(inner.parent().unwrap())), (0o700, 0o700));
        let file = inner.join("key.pem");
        // A crash has left a file that everybody can read.
        std::fs::write(inner.join("key.new"), "old").unwrap();
        for content in ["first", "second"] {
            write(&file, content, SECRET).unwrap();
            assert_eq!((read(&file).unwrap().as_deref(), mode(&file)), (Some(content), 0o600));
        }
        write(&file, "public", PUBLIC).unwrap();
        assert_eq!(mode(&file) & 0o600, 0o600);
        assert!(!inner.join("key.new").exists());
        assert_eq!(read(&inner.join("none")).unwrap(), None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let blocked = directory.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let error = create_directory(&blocked.join("acme")).unwrap_err().to_string();
        assert!(error.contains("file/acme") && error.contains("state_directory"), "{error}");
        let error = write(&directory.path().join("none/key.pem"), "", SECRET).unwrap_err().to_string();
        assert!(error.contains("none/key.pem"), "{error}");
        assert!(read(directory.path()).unwrap_err().to_string().starts_with("cannot read"));
    }

    #[test]
    fn names_of_files_have_no_separator() {
        for (text, name) in [
            ("https://acme.test:14000/dir", "acme.test_14000_dir"),
            ("www.example.org", "www.example.org"),
            ("../../etc", "_._.._etc"),
        ] {
            assert_eq!(name_for(text), name);
        }
        assert_eq!(name_for(&"x".repeat(500)).len(), 120);
    }
}
