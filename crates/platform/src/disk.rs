//! Files as a parameter: the few operations that results, journals, logs and the disk tier need, so that a test
//! can fill the disk, fail a write or cut the power at any moment.
//!
//! Invariant: `replace` is atomic; a reader sees the old content or the new, never a part.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::aside::AsideFile;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

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

    /// Opens a file.
    ///
    /// # Errors
    /// As the system reports them; `NotFound` when there is no such file and it is only to be read.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that has no name, in this directory, to be written and read. It is gone when it is closed, however
    /// the process ends.
    ///
    /// # Errors
    /// As the system reports them; `Unsupported` where the disk has no such files.
    fn open_unnamed(&self, _directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The files of a directory with their sizes in bytes, in any order; without directories in it.
    ///
    /// # Errors
    /// As the system reports them.
    fn list(&self, directory: &Path) -> io::Result<Vec<(String, u64)>>;

    /// Takes a file's name away. Whoever has the file open still reads it.
    ///
    /// # Errors
    /// As the system reports them; `NotFound` when there is no such file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names are in a directory.
    ///
    /// # Errors
    /// As the system reports them.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Locks a file, which is created if it does not exist, until what is given back is dropped or the process ends.
    ///
    /// # Errors
    /// `WouldBlock` when somebody else has it; otherwise as the system reports them.
    fn lock(&self, path: &Path) -> io::Result<DiskLock>;

    /// Names the time since the machine was started: what was written in it and not made durable is still there.
    ///
    /// # Errors
    /// As the system reports them, where it does not say.
    fn boot(&self) -> io::Result<String>;
}

/// A lock that lasts as long as this.
pub type DiskLock = Box<dyn Send + Sync>;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be read; it must exist.
    Read,
    /// To be read once, past the system's page cache where that can be, which keeps what is in demand; it must exist.
    Aside,
    /// To be read and written; it is created if it does not exist.
    Write,
}

/// An open file. Any number of threads may read it while one writes.
pub trait DiskFile: Send + Sync {
    /// Reads from `offset` into `buffer`, perhaps less than its length; 0 at the end of the file.
    ///
    /// # Errors
    /// As the system reports them.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes `content` from `offset` on, perhaps only a part, whose length is given back.
    ///
    /// # Errors
    /// As the system reports them.
    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts the file off after `bytes`.
    ///
    /// # Errors
    /// As the system reports them.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// Makes the content durable.
    ///
    /// # Errors
    /// As the system reports them; what was written since the last time may then be lost.
    fn sync(&self) -> io::Result<()>;

    /// The file for system calls that take one, such as sendfile; `None` if it is not the system's.
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
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
            // The error that matters is already on its way; a left-over file is only untidy.
            let _ = fs::remove_file(&temporary);
        })?;
        // The name points to the new content durably only once the directory is synced.
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
            return Ok(Arc::new(AsideFile::open(path)?));
        }
        let write = access == Access::Write;
        let file = OpenOptions::new().read(true).write(write).create(write).truncate(false).open(path)?;
        Ok(Arc::new(SystemFile { file: Arc::new(file) }))
    }

    fn open_unnamed(&self, directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(descriptor) => File::from(descriptor),
            // File systems such as NFS and overlays on old kernels have no files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => open_and_remove(directory)?,
            Err(error) => return Err(error.into()),
        };
        Ok(Arc::new(SystemFile { file: Arc::new(file) }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                files.push((entry.file_name().to_string_lossy().into_owned(), metadata.len()));
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
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
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

/// An open file of the machine.
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

/// A new file whose name is taken away at once. It never opens a file that exists already.
fn open_and_remove(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("petasos.{}.{number}.spool", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// The directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A name beside `path` for content that is not complete yet.
fn sibling(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::{Access, Disk, SystemDisk, open_and_remove};

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
    fn a_file_is_read_and_written_anywhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        assert!(SystemDisk.open(&path, Access::Read).is_err());
        let file = SystemDisk.open(&path, Access::Write).unwrap();
        assert_eq!(file.write_at(b"abcdef", 0).unwrap(), 6);
        file.truncate(4).unwrap();
        file.sync().unwrap();
        SystemDisk.sync_directory(directory.path()).unwrap();
        assert_eq!(SystemDisk.list(directory.path()).unwrap(), [("segment".to_owned(), 4)]);
        SystemDisk.remove(&path).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 3, "whoever has it open still reads it");
        assert_eq!(&buffer[..3], b"bcd");
    }

    #[test]
    fn an_unnamed_file_is_written_and_read_and_never_listed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("foreign"), b"content").unwrap();
        let file = SystemDisk.open_unnamed(directory.path()).unwrap();
        let removed = open_and_remove(directory.path()).unwrap();
        assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
        let mut buffer = [0; 8];
        assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 2);
        assert_eq!(&buffer[..2], b"bc");
        assert_eq!(SystemDisk.list(directory.path()).unwrap(), [("foreign".to_owned(), 7)]);
        drop(removed);
        assert!(SystemDisk.open_unnamed(&directory.path().join("missing")).is_err());
    }

    #[test]
    fn a_lock_is_held_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = SystemDisk.lock(&path).unwrap();
        assert_eq!(SystemDisk.lock(&path).err().unwrap().kind(), std::io::ErrorKind::WouldBlock);
        drop(held);
        assert!(SystemDisk.lock(&path).is_ok());
    }
}
