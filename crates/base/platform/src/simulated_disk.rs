//! A disk in memory for crash tests. It distinguishes written content from durable content.
//!
//! Invariant: after `kill` every completed write is there. After `power_cut` all synced data is
//! there, and a random selection of the other blocks. All random decisions come from one seed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Access, DirectoryEntry, Disk, DiskFile, DiskLock};
use crate::simulated_files::{SimulatedFiles, UnsyncedChange, put};

/// A fault of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The process ends in the middle of the operation. A write is done in part, and every later
    /// operation fails.
    Kill,
    /// A read or write is done only in part, which is no error.
    Short,
    /// The disk is full for this operation, if it needs space.
    Full,
    /// The device fails with an input/output error.
    Io,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    files: Arc<Mutex<SimulatedFiles>>,
}

impl SimulatedDisk {
    /// An empty disk whose random decisions follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { files: Arc::new(Mutex::new(SimulatedFiles { random: seed | 1, ..SimulatedFiles::default() })) }
    }

    /// The number of operations so far. Faults are addressed by this number.
    pub fn operations(&self) -> u64 {
        self.files().operations
    }

    /// Applies `fault` to the operation with this number. The first operation has the number 1.
    pub fn fail_at(&self, operation: u64, fault: DiskFault) {
        self.files().faults.insert(operation, fault);
    }

    /// From now on every operation fails with this error, also after [`SimulatedDisk::kill`]. With
    /// `None` the disk works again.
    pub fn set_broken(&self, kind: Option<io::ErrorKind>) {
        self.files().broken = kind;
    }

    /// Limits the total size of all files in bytes. `None` removes the limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.files().room_bytes = bytes;
    }

    /// The total size in bytes of all files with names, and of the open ones without.
    pub fn bytes(&self) -> u64 {
        self.files().bytes()
    }

    /// The memory in bytes that the simulation takes for contents, also of changes that are not
    /// durable yet and of files that were removed.
    pub fn memory_bytes(&self) -> u64 {
        self.files().memory_bytes()
    }

    /// The paths of all files with names, in order.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files().names.keys().cloned().collect()
    }

    /// The paths of all files with names, in order, and their sizes in bytes.
    pub fn sizes(&self) -> Vec<(PathBuf, u64)> {
        let files = self.files();
        let bytes = |id: &usize| files.inodes.get(*id).map_or(0, |inode| inode.cached.len() as u64);
        files.names.iter().map(|(path, id)| (path.clone(), bytes(id))).collect()
    }

    /// Whether a [`DiskFault::Kill`] has happened since the last [`SimulatedDisk::kill`].
    pub fn is_killed(&self) -> bool {
        self.files().killed
    }

    /// Changes bytes of a file without a disk operation, as a worn medium does.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut files = self.files();
        let Some(inode) = files.names.get(path).copied().and_then(|id| files.inodes.get_mut(id)) else {
            return;
        };
        change(&mut inode.cached);
        inode.durable.clone_from(&inode.cached);
        inode.pending.clear();
    }

    /// Ends the process. Its open files and locks become invalid and faults are removed, but its
    /// written content stays.
    pub fn kill(&self) {
        let mut files = self.files();
        files.life += 1;
        files.killed = false;
        files.locks.clear();
        files.faults.clear();
        while let Some(id) = files.unnamed.first().copied() {
            files.remove_unnamed(id);
        }
    }

    /// Ends the process and restarts the machine. Only synced content is sure to stay.
    pub fn power_cut(&self) {
        self.kill();
        let mut files = self.files();
        files.boot += 1;
        files.lose();
    }

    fn files(&self) -> MutexGuard<'_, SimulatedFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimulatedDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut files = self.files();
        let life = files.life;
        files.begin_whole(life)?;
        let id = files.named(path)?;
        Ok(files.inode(id)?.cached.clone())
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut files = self.files();
        let life = files.life;
        let fault = files.begin(life)?;
        if fault == Some(DiskFault::Full) || files.room(content.len()) < content.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if fault == Some(DiskFault::Kill) && files.chance(2) == 0 {
            return Err(io::Error::other("the process has ended"));
        }
        files.create(path, content.to_vec());
        files.sync_names();
        Ok(())
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let file = self.open(path, Access::Write)?;
        let mut offset = self.list_one(path)?;
        let mut rest = content;
        while !rest.is_empty() {
            let written = file.write_at(rest, offset)?;
            offset += written as u64;
            rest = rest.get(written..).unwrap_or_default();
        }
        file.sync()
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        let mut files = self.files();
        let life = files.life;
        files.begin_whole(life)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.files();
        let life = files.life;
        let fault = files.begin(life)?;
        let inode = match (files.named(path), access) {
            (Ok(inode), _) => inode,
            (Err(error), Access::Read | Access::Aside) => return Err(error),
            (Err(_), Access::Write) if fault == Some(DiskFault::Full) => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            (Err(_), Access::Write) => files.create(path, Vec::new()),
        };
        if fault == Some(DiskFault::Kill) {
            return Err(io::Error::other("the process has ended"));
        }
        Ok(Arc::new(SimulatedFile { disk: self.clone(), inode, life }))
    }

    fn open_unnamed(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.files();
        let life = files.life;
        match files.begin(life)? {
            Some(DiskFault::Full) => return Err(io::ErrorKind::StorageFull.into()),
            Some(DiskFault::Kill) => return Err(io::Error::other("the process has ended")),
            _ => {}
        }
        let inode = files.create_unnamed();
        Ok(Arc::new(UnnamedFile(SimulatedFile { disk: self.clone(), inode, life })))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut files = self.files();
        let life = files.life;
        files.begin_whole(life)?;
        let names = files.names.iter().filter(|(path, _)| path.parent() == Some(directory));
        let named = names.filter_map(|(path, id)| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, Some(files.inodes.get(*id)?.cached.len() as u64)))
        });
        Ok(named.collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut files = self.files();
        let life = files.life;
        files.begin_whole(life)?;
        files.named(path)?;
        files.set_name(path, None);
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let mut files = self.files();
        let life = files.life;
        files.begin_whole(life)?;
        files.sync_names();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        let mut files = self.files();
        let life = files.life;
        files.begin_whole(life)?;
        if !files.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimulatedLock { disk: self.clone(), path: path.to_owned(), life }))
    }

    fn boot(&self) -> io::Result<String> {
        Ok(format!("boot-{}", self.files().boot))
    }
}

impl SimulatedDisk {
    fn list_one(&self, path: &Path) -> io::Result<u64> {
        let mut files = self.files();
        let id = files.named(path)?;
        Ok(files.inode(id)?.cached.len() as u64)
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
    life: u64,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut files = self.disk.files();
        if files.life == self.life {
            files.locks.remove(&self.path);
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
    life: u64,
}

impl SimulatedFile {
    /// The number of bytes out of `wanted` that an operation with this fault transfers.
    fn part(files: &mut SimulatedFiles, fault: Option<DiskFault>, wanted: usize) -> usize {
        match fault {
            Some(DiskFault::Short | DiskFault::Kill) if wanted > 1 => {
                1 + files.chance(wanted as u64 - 1) as usize
            }
            _ => wanted,
        }
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut files = self.disk.files();
        let fault = files.begin(self.life)?;
        let wanted = Self::part(&mut files, fault, buffer.len());
        let inode = files.inode(self.inode)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(inode.cached.len());
        let end = start.saturating_add(wanted).min(inode.cached.len());
        let octets = inode.cached.get(start..end).unwrap_or_default();
        if let Some(place) = buffer.get_mut(..octets.len()) {
            place.copy_from_slice(octets);
        }
        Ok(octets.len())
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        let mut files = self.disk.files();
        let fault = files.begin(self.life)?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let grown = (start + content.len()).saturating_sub(files.inode(self.inode)?.cached.len());
        let room = if fault == Some(DiskFault::Full) { 0 } else { files.room(grown) };
        let wanted = content.len() - (grown - room).min(content.len());
        if wanted == 0 && !content.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let octets = content.get(..Self::part(&mut files, fault, wanted)).unwrap_or(content);
        let inode = files.inode(self.inode)?;
        put(&mut inode.cached, start, octets);
        inode.pending.push(UnsyncedChange::Write(start, octets.to_vec()));
        if fault == Some(DiskFault::Kill) {
            return Err(io::Error::other("the process has ended"));
        }
        Ok(octets.len())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut files = self.disk.files();
        files.begin_whole(self.life)?;
        let inode = files.inode(self.inode)?;
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        inode.cached.truncate(bytes);
        inode.pending.push(UnsyncedChange::Truncate(bytes));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut files = self.disk.files();
        files.begin_whole(self.life)?;
        let inode = files.inode(self.inode)?;
        inode.pending.clear();
        inode.durable.clone_from(&inode.cached);
        Ok(())
    }

    fn system_file(&self) -> Option<Arc<File>> {
        None
    }
}

/// An open file without a name. Its content is gone when it is closed.
struct UnnamedFile(SimulatedFile);

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        let mut files = self.0.disk.files();
        if files.life == self.0.life {
            files.remove_unnamed(self.0.inode);
        }
    }
}

impl DiskFile for UnnamedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, content: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(content, offset)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn system_file(&self) -> Option<Arc<File>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskFault, SimulatedDisk};
    use crate::{Access, Disk};
    use std::io::ErrorKind;
    use std::path::Path;

    fn path() -> &'static Path {
        Path::new("/cache/file")
    }

    #[test]
    fn memory_counts_what_is_not_durable_and_what_is_removed() {
        let disk = SimulatedDisk::new(1);
        let file = disk.open(path(), Access::Write).unwrap();
        file.write_at(&[7; 1000], 0).unwrap();
        // The cached and the unsynced bytes. The vectors may have room for more.
        assert!((2000..4000).contains(&disk.memory_bytes()), "{}", disk.memory_bytes());
        disk.remove(path()).unwrap();
        assert!(disk.memory_bytes() >= 2000);
        assert_eq!(disk.bytes(), 0);
    }

    #[test]
    fn killed_process_leaves_its_writes() {
        let disk = SimulatedDisk::new(1);
        let file = disk.open(path(), Access::Write).unwrap();
        assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
        disk.kill();
        assert!(file.write_at(b"d", 3).is_err(), "the process has ended");
        assert_eq!(disk.read(path()).unwrap(), b"abc");
    }

    #[test]
    fn power_cut_leaves_synced_content() {
        let mut lost = 0;
        for seed in 1..50 {
            let disk = SimulatedDisk::new(seed);
            let file = disk.open(path(), Access::Write).unwrap();
            file.write_at(b"abc", 0).unwrap();
            file.sync().unwrap();
            disk.sync_directory(Path::new("/cache")).unwrap();
            file.write_at(b"def", 3).unwrap();
            let boot = disk.boot().unwrap();
            disk.power_cut();
            assert_ne!(disk.boot().unwrap(), boot);
            let left = disk.read(path()).unwrap();
            assert!(left.starts_with(b"abc"));
            lost += usize::from(left.len() == 3);
        }
        assert!(lost > 5 && lost < 45, "chance decides about the rest: {lost}");
    }

    #[test]
    fn unnamed_file_takes_room_until_closed_or_its_process_ends() {
        let disk = SimulatedDisk::new(1);
        for is_killed in [false, true] {
            let file = disk.open_unnamed(Path::new("/spool")).unwrap();
            assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
            assert_eq!((disk.bytes(), disk.paths().len()), (3, 0));
            let mut read = [0; 3];
            assert_eq!((file.read_at(&mut read, 0).unwrap(), &read), (3, b"abc"));
            if is_killed {
                disk.kill();
                assert_eq!(disk.bytes(), 0);
                assert!(file.read_at(&mut read, 0).is_err());
            }
            drop(file);
            assert_eq!(disk.bytes(), 0);
        }
    }

    #[test]
    fn full_disk_accepts_a_part_and_then_nothing() {
        let disk = SimulatedDisk::new(1);
        disk.set_room(Some(4));
        let file = disk.open(path(), Access::Write).unwrap();
        assert_eq!(file.write_at(b"abcdef", 0).unwrap(), 4);
        assert_eq!(file.write_at(b"ef", 4).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(disk.replace(path(), b"g").unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn faults_happen_at_their_operations() {
        let disk = SimulatedDisk::new(1);
        let file = disk.open(path(), Access::Write).unwrap();
        disk.fail_at(disk.operations() + 1, DiskFault::Io);
        assert!(file.sync().is_err());
        disk.fail_at(disk.operations() + 1, DiskFault::Short);
        assert!(file.write_at(&[1; 100], 0).unwrap() < 100);
        disk.fail_at(disk.operations() + 1, DiskFault::Kill);
        assert!(file.write_at(&[1; 100], 0).is_err());
        assert!(disk.is_killed() && file.sync().is_err());
        let locked = disk.lock(path());
        assert!(locked.is_err(), "nothing works until the next life");
        disk.kill();
        let held = disk.lock(path()).unwrap();
        assert_eq!(disk.lock(path()).err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(held);
    }
}
