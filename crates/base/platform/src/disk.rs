//! Files as a parameter: the few operations that results, journals, logs and the disk tier need. A
//! test can thus fill the disk, fail a write or cut the power at any moment.
//!
//! Invariants: `replace` is atomic. A reader sees the old content or the new content, never a part.
//! A user with write access to a directory cannot make this program write to a file elsewhere,
//! because no file is opened for writing through a symbolic link, except by `append`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::direct_file::DirectFile;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A file system. Paths and errors are the system's.
pub trait Disk: Send + Sync {
    /// The whole content of a file.
    ///
    /// # Errors
    /// As the system reports them; `NotFound` when there is no such file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Replaces the content of the file by `content`, atomically and durably.
    ///
    /// # Errors
    /// As the system reports them. The file then usually has the old content. If only the final
    /// sync of the directory failed, it has the new content, but not durably.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Appends `content` to the file and makes it durable. Creates the file if it does not exist.
    ///
    /// # Errors
    /// As the system reports them. A part of `content` may then be at the end of the file.
    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Creates a directory and its parents. It is no error if the directory exists.
    ///
    /// # Errors
    /// As the system reports them.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens a file. A path that ends in a symbolic link is an error.
    ///
    /// # Errors
    /// As the system reports them; `NotFound` if the file does not exist and is opened for reading
    /// only.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file without a name in `directory`, for reading and writing. The file disappears
    /// when it is closed, however the process ends.
    ///
    /// # Errors
    /// As the system reports them; `Unsupported` if the disk has no unnamed files.
    fn open_unnamed(&self, _directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The entries of a directory without subdirectories, in any order. A symbolic link, socket,
    /// pipe or device has no size.
    ///
    /// # Errors
    /// As the system reports them.
    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>>;

    /// Removes the name of a file. Open handles can still read the file.
    ///
    /// # Errors
    /// As the system reports them; `NotFound` if the file does not exist.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the system reports them.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Locks a file until the returned value is dropped or the process ends. Creates the file if it
    /// does not exist.
    ///
    /// # Errors
    /// `WouldBlock` if another holder has the lock; otherwise as the system reports them.
    fn lock(&self, path: &Path) -> io::Result<DiskLock>;

    /// An identifier of the machine's current run since boot. Content that was written during the
    /// same run is still there, even if it was not made durable.
    ///
    /// # Errors
    /// As the system reports them, if the identifier cannot be read.
    fn boot(&self) -> io::Result<String>;
}

/// The name of a directory's entry, and the size in bytes of a regular file.
pub type DirectoryEntry = (String, Option<u64>);

/// A lock. Dropping this value releases it.
pub type DiskLock = Box<dyn Send + Sync>;

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading. The file must exist.
    Read,
    /// For reading once, past the system's page cache if possible, so that the cache keeps content
    /// in demand. The file must exist.
    Aside,
    /// For reading and writing. The file is created if it does not exist.
    Write,
}

/// An open file. Any number of threads may read it while one thread writes.
pub trait DiskFile: Send + Sync {
    /// Reads from `offset` into `buffer` and returns the number of bytes, which may be less than
    /// the buffer's length. 0 means the end of the file.
    ///
    /// # Errors
    /// As the system reports them.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes `content` from `offset` on and returns the number of bytes written, which may be less
    /// than its length.
    ///
    /// # Errors
    /// As the system reports them.
    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize>;

    /// Shortens the file to `bytes` bytes.
    ///
    /// # Errors
    /// As the system reports them.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// Makes the content durable.
    ///
    /// # Errors
    /// As the system reports them. Content written since the last sync may then be lost.
    fn sync(&self) -> io::Result<()>;

    /// The system's file, for system calls such as sendfile; `None` if there is none.
    fn system_file(&self) -> Option<Arc<File>>;
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
        let created = open_no_link(OpenOptions::new().write(true).create(true).truncate(true), &temporary);
        let written = created.and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
            // The caller receives the error that matters. A left-over temporary file is only
            // untidy.
            let _ = fs::remove_file(&temporary);
        })?;
        // The new name is durable only after the directory is synced.
        self.sync_directory(directory_of(path))
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(content)?;
        file.sync_data()
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        if access == Access::Aside {
            return Ok(Arc::new(DirectFile::open(path)?));
        }
        let write = access == Access::Write;
        let file =
            open_no_link(OpenOptions::new().read(true).write(write).create(write).truncate(false), path)?;
        Ok(Arc::new(SystemFile { file: Arc::new(file) }))
    }

    fn open_unnamed(&self, directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(descriptor) => File::from(descriptor),
            // NFS, and overlay file systems on old kernels, do not support unnamed files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => open_and_remove(directory)?,
            Err(error) => return Err(error.into()),
        };
        Ok(Arc::new(SystemFile { file: Arc::new(file) }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            // This is the metadata of a link itself.
            let metadata = entry.metadata()?;
            if !metadata.is_dir() {
                let bytes = metadata.is_file().then_some(metadata.len());
                files.push((entry.file_name().to_string_lossy().into_owned(), bytes));
            }
        }
        Ok(files)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        let file = open_no_link(OpenOptions::new().write(true).create(true).truncate(false), path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn boot(&self) -> io::Result<String> {
        Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
    }
}

/// An open file of the system's.
struct SystemFile {
    file: Arc<File>,
}

impl DiskFile for SystemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(content, offset)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn system_file(&self) -> Option<Arc<File>> {
        Some(Arc::clone(&self.file))
    }
}

/// Opens a file, unless its name is a symbolic link.
pub(crate) fn open_no_link(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// Creates a file and removes its name at once. It never opens an existing file.
fn open_and_remove(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Relaxed is enough: the numbers must only differ.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("petasos.{}.{number}.spool", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// The directory that contains a file.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A name in the same directory as `path` for incomplete content.
fn sibling(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::{Access, Disk, SystemDisk, open_and_remove};

    #[test]
    fn replace_leaves_only_the_new_content() {
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
    fn file_is_read_and_written_at_any_offset() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        assert!(SystemDisk.open(&path, Access::Read).is_err());
        let file = SystemDisk.open(&path, Access::Write).unwrap();
        assert_eq!(file.write_at(b"abcdef", 0).unwrap(), 6);
        file.truncate(4).unwrap();
        file.sync().unwrap();
        SystemDisk.sync_directory(directory.path()).unwrap();
        assert_eq!(SystemDisk.list(directory.path()).unwrap(), [("segment".to_owned(), Some(4))]);
        SystemDisk.remove(&path).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 3, "an open handle still reads the file");
        assert_eq!(&buffer[..3], b"bcd");
    }

    #[test]
    fn unnamed_file_is_never_listed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("foreign"), b"content").unwrap();
        let file = SystemDisk.open_unnamed(directory.path()).unwrap();
        let removed = open_and_remove(directory.path()).unwrap();
        assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
        let mut buffer = [0; 8];
        assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 2);
        assert_eq!(&buffer[..2], b"bc");
        assert_eq!(SystemDisk.list(directory.path()).unwrap(), [("foreign".to_owned(), Some(7))]);
        drop(removed);
        assert!(SystemDisk.open_unnamed(&directory.path().join("missing")).is_err());
    }

    #[test]
    fn link_is_listed_without_a_size_and_never_opened() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(elsewhere.path(), "precious").unwrap();
        let link = directory.path().join("segment");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        assert_eq!(SystemDisk.list(directory.path()).unwrap(), [("segment".to_owned(), None)]);
        for access in [Access::Read, Access::Aside, Access::Write] {
            assert!(SystemDisk.open(&link, access).is_err(), "{access:?}");
        }
        assert!(SystemDisk.lock(&link).is_err());
        let path = directory.path().join("mark");
        std::os::unix::fs::symlink(elsewhere.path(), super::sibling(&path)).unwrap();
        assert!(SystemDisk.replace(&path, b"overwritten").is_err());
        SystemDisk.replace(&link, b"in place of the link").unwrap();
        assert_eq!(std::fs::read(elsewhere.path()).unwrap(), b"precious");
    }

    #[test]
    fn lock_is_held_only_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = SystemDisk.lock(&path).unwrap();
        assert_eq!(SystemDisk.lock(&path).err().unwrap().kind(), std::io::ErrorKind::WouldBlock);
        drop(held);
        assert!(SystemDisk.lock(&path).is_ok());
    }
}
