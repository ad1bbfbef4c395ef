//! A disk for tests that becomes full.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{Access, DirectoryEntry, Disk, DiskFile, DiskLock, SystemDisk};

/// A disk for tests that accepts a limited number of bytes and is full after that.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    bytes_left: Arc<AtomicU64>,
}

impl FaultyDisk {
    /// A disk that accepts `bytes` more bytes. Clones share this limit.
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

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(FaultyFile { file: SystemDisk.open(path, access)?, disk: self.clone() }))
    }

    fn open_unnamed(&self, directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(FaultyFile { file: SystemDisk.open_unnamed(directory)?, disk: self.clone() }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        SystemDisk.list(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        SystemDisk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        SystemDisk.lock(path)
    }

    fn boot(&self) -> io::Result<String> {
        SystemDisk.boot()
    }
}

/// An open file whose writes count towards the limit of its disk.
struct FaultyFile {
    file: Arc<dyn DiskFile>,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.take(content.len())?;
        self.file.write_at(content, offset)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn system_file(&self) -> Option<Arc<File>> {
        self.file.system_file()
    }
}

#[cfg(test)]
mod tests {
    use super::FaultyDisk;
    use crate::{Access, Disk};

    #[test]
    fn full_disk_keeps_the_old_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        let disk = FaultyDisk::with_room(3);
        disk.replace(&path, b"old").unwrap();
        assert!(disk.replace(&path, b"new").is_err());
        assert_eq!(disk.read(&path).unwrap(), b"old");
    }

    #[test]
    fn open_files_share_the_limit_of_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::with_room(3);
        let file = disk.open(&directory.path().join("segment"), Access::Write).unwrap();
        assert_eq!(file.write_at(b"ab", 0).unwrap(), 2);
        assert_eq!(file.write_at(b"cd", 2).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }
}
