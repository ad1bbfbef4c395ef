//! A disk for tests that stops responding and resumes later, as a frozen file system does.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::disk::{Access, DirectoryEntry, Disk, DiskFile, DiskLock};

/// A disk for tests whose operations block while it is frozen. Clones are the same disk.
#[derive(Clone)]
pub struct HangingDisk {
    disk: Arc<dyn Disk>,
    gate: Arc<FreezeGate>,
    closing: Arc<FreezeGate>,
}

#[derive(Default)]
struct FreezeGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_frozen: bool,
    waiting: usize,
}

impl FreezeGate {
    fn set(&self, is_frozen: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_frozen = is_frozen;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_while(state, |state| state.is_frozen);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    fn await_waiting(&self, count: usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(state, |state| state.waiting < count);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl HangingDisk {
    /// A disk that behaves like `disk` until it is frozen.
    pub fn new(disk: impl Disk + 'static) -> Self {
        Self { disk: Arc::new(disk), gate: Arc::default(), closing: Arc::default() }
    }

    /// From now on every operation blocks, except [`Disk::boot`] and closing a file.
    pub fn freeze(&self) {
        self.gate.set(true);
    }

    /// From now on closing a file blocks. Other operations do not.
    pub fn freeze_closing(&self) {
        self.closing.set(true);
    }

    /// Lets all blocked operations continue.
    pub fn thaw(&self) {
        self.gate.set(false);
        self.closing.set(false);
    }

    /// Blocks until at least `count` operations are blocked. Closing a file does not count.
    pub fn await_waiting(&self, count: usize) {
        self.gate.await_waiting(count);
    }

    /// Blocks until the closing of a file is blocked.
    pub fn await_closing(&self) {
        self.closing.await_waiting(1);
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let gate = Arc::clone(&self.gate);
        let closing = Arc::clone(&self.closing);
        Arc::new(HangingFile { file, gate, closing })
    }
}

impl Disk for HangingDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.gate.pass();
        self.disk.read(path)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.gate.pass();
        self.disk.replace(path, content)
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.gate.pass();
        self.disk.append(path, content)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.gate.pass();
        self.disk.create_directory(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.gate.pass();
        Ok(self.file(self.disk.open(path, access)?))
    }

    fn open_unnamed(&self, directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.gate.pass();
        Ok(self.file(self.disk.open_unnamed(directory)?))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.gate.pass();
        self.disk.list(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.gate.pass();
        self.disk.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.gate.pass();
        self.disk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        self.gate.pass();
        self.disk.lock(path)
    }

    fn boot(&self) -> io::Result<String> {
        self.disk.boot()
    }
}

/// An open file of a disk that can be frozen.
struct HangingFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<FreezeGate>,
    closing: Arc<FreezeGate>,
}

impl Drop for HangingFile {
    fn drop(&mut self) {
        self.closing.pass();
    }
}

impl DiskFile for HangingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.gate.pass();
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        self.gate.pass();
        self.file.write_at(content, offset)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.gate.pass();
        self.file.truncate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn system_file(&self) -> Option<Arc<File>> {
        self.file.system_file()
    }
}
