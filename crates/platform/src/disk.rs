//! Files as a parameter: the few operations that results, journals and logs need, so that a test can fill
//! the disk or fail a write at any moment.
//!
//! Invariant: `replace` is atomic; a reader sees the old content or the new, never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where files are kept. Paths are the system's own; errors are the system's own.
pub trait Disk: Send + Sync {
    /// The whole content of a file.
    ///
    /// # Errors
    /// As the system reports them; `NotFound` when there is no such file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Puts `content` in place of the file's content, atomically and durably.
    ///
    /// # Errors
    /// As the system reports them; the old content then stands.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Adds `content` at the end of the file, which is created if it does not exist, and makes it durable.
    ///
    /// # Errors
    /// As the system reports them; a part of `content` may then stand at the end.
    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Creates a directory and its parents; no error if it exists.
    ///
    /// # Errors
    /// As the system reports them.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
}

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = sibling(path);
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
            // The error that matters is already on its way; a left-over file is only untidy.
            let _ = fs::remove_file(&temporary);
        })
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(content)?;
        file.sync_data()
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }
}

/// A name beside `path` for content that is not complete yet.
fn sibling(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// A disk for tests on which a budget of bytes can be written; after that it is full.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    bytes_left: Arc<AtomicU64>,
}

impl FaultyDisk {
    /// A disk with room for `bytes` more bytes. Clones share the room.
    pub fn with_room(bytes: u64) -> Self {
        Self { bytes_left: Arc::new(AtomicU64::new(bytes)) }
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        self.bytes_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(bytes as u64))
            .map(|_| ())
            .map_err(|_| io::ErrorKind::StorageFull.into())
    }
}

impl Disk for FaultyDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        SystemDisk.read(path)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.take(content.len())?;
        SystemDisk.replace(path, content)
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.take(content.len())?;
        SystemDisk.append(path, content)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        SystemDisk.create_directory(path)
    }
}

#[cfg(test)]
mod tests {
    use super::{Disk, FaultyDisk, SystemDisk};

    #[test]
    fn replace_leaves_nothing_but_the_new_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        SystemDisk.replace(&path, b"old").unwrap();
        SystemDisk.replace(&path, b"new").unwrap();
        assert_eq!(SystemDisk.read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn append_adds_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        SystemDisk.append(&path, b"a").unwrap();
        SystemDisk.append(&path, b"b").unwrap();
        assert_eq!(SystemDisk.read(&path).unwrap(), b"ab");
    }

    #[test]
    fn a_full_disk_keeps_the_old_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        let disk = FaultyDisk::with_room(3);
        disk.replace(&path, b"old").unwrap();
        assert!(disk.replace(&path, b"new").is_err());
        assert_eq!(disk.read(&path).unwrap(), b"old");
    }
}
