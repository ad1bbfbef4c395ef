//! An open file of a world's disk.
//!
//! Invariant: its operations take time and meet faults as those of its disk. It is counted as open
//! until it is dropped.

use crate::WorldDisk;
use crate::disk_operation::Operation;
use platform::DiskFile;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// An open file.
pub(crate) struct WorldFile {
    disk: WorldDisk,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    is_unnamed: bool,
}

impl WorldFile {
    pub(crate) fn new(disk: WorldDisk, path: PathBuf, file: Arc<dyn DiskFile>) -> Self {
        disk.count_open();
        Self { disk, path, file, is_unnamed: false }
    }

    /// A file without a name in the directory at `path`.
    pub(crate) fn unnamed(disk: WorldDisk, path: PathBuf, file: Arc<dyn DiskFile>) -> Self {
        disk.count_open();
        Self { disk, path, file, is_unnamed: true }
    }
}

impl Drop for WorldFile {
    fn drop(&mut self) {
        self.disk.close();
    }
}

impl DiskFile for WorldFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.disk.operate(Operation::ReadAt, &self.path, |_| self.file.read_at(buffer, offset))?;
        // Files without names live for seconds, so that the system has them in memory. The edge
        // reads them without checksums, as every program does.
        if !self.is_unnamed {
            self.disk.misread(buffer.get_mut(..read).unwrap_or_default());
        }
        Ok(read)
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.operate(Operation::WriteAt, &self.path, |_| self.file.write_at(content, offset))
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.operate(Operation::Truncate, &self.path, |_| self.file.truncate(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.operate(Operation::Sync, &self.path, |_| self.file.sync())
    }

    fn system_file(&self) -> Option<Arc<File>> {
        None
    }
}

/// A file to whose end is written.
pub(crate) struct WorldLog {
    disk: WorldDisk,
    path: PathBuf,
    log: Box<dyn Write + Send>,
}

impl WorldLog {
    pub(crate) fn new(disk: WorldDisk, path: PathBuf, log: Box<dyn Write + Send>) -> Self {
        disk.count_open();
        Self { disk, path, log }
    }
}

impl Drop for WorldLog {
    fn drop(&mut self) {
        self.disk.close();
    }
}

impl Write for WorldLog {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.disk.operate(Operation::WriteAt, &self.path, |_| self.log.write(octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
