//! A disk that enters every operation into the tier's [`OperationWatch`].

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use platform::{Access, DirectoryEntry, Disk, DiskFile, DiskLock};

use crate::operation_watch::OperationWatch;

/// A disk whose operations are watched.
pub(crate) struct WatchedDisk {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) watch: Arc<OperationWatch>,
}

impl Disk for WatchedDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.watch.during("read a file", || self.disk.read(path))
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.watch.during("replace a file", || self.disk.replace(path, content))
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.watch.during("append to a file", || self.disk.append(path, content))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.watch.during("create a directory", || self.disk.create_directory(path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.watch.during("open a file", || self.disk.open(path, access))?;
        Ok(Arc::new(WatchedFile { file, watch: Arc::clone(&self.watch) }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.watch.during("list a directory", || self.disk.list(directory))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.watch.during("remove a file", || self.disk.remove(path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.watch.during("sync a directory", || self.disk.sync_directory(directory))
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        self.watch.during("lock a file", || self.disk.lock(path))
    }

    fn boot(&self) -> io::Result<String> {
        self.disk.boot()
    }
}

/// An open file whose operations are watched.
struct WatchedFile {
    file: Arc<dyn DiskFile>,
    watch: Arc<OperationWatch>,
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.watch.during("read", || self.file.read_at(buffer, offset))
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        self.watch.during("write", || self.file.write_at(content, offset))
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.watch.during("truncate", || self.file.truncate(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.watch.during("sync", || self.file.sync())
    }

    fn system_file(&self) -> Option<Arc<File>> {
        self.file.system_file()
    }
}
