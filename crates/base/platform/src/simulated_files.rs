//! The state of a simulated disk: names and contents, as the process sees them and as a power cut
//! leaves them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::simulated_disk::DiskFault;

/// The unit in bytes that a power cut keeps or loses.
const BLOCK_BYTES: usize = 512;

#[derive(Default)]
pub(crate) struct SimulatedFiles {
    pub(crate) random: u64,
    /// The number of the current process. Open files and locks of earlier processes are invalid.
    pub(crate) life: u64,
    pub(crate) killed: bool,
    pub(crate) boot: u64,
    pub(crate) operations: u64,
    pub(crate) faults: BTreeMap<u64, DiskFault>,
    /// Every operation fails with this error.
    pub(crate) broken: Option<io::ErrorKind>,
    pub(crate) room_bytes: Option<u64>,
    pub(crate) names: BTreeMap<PathBuf, usize>,
    pub(crate) names_durable: BTreeMap<PathBuf, usize>,
    /// Changes of names that are not durable yet, in order: a path and its new inode, if it has
    /// one.
    pub(crate) renames: Vec<(PathBuf, Option<usize>)>,
    pub(crate) locks: BTreeSet<PathBuf>,
    /// The open files without names.
    pub(crate) unnamed: BTreeSet<usize>,
    pub(crate) inodes: Vec<Inode>,
}

#[derive(Clone, Default)]
pub(crate) struct Inode {
    pub(crate) cached: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    pub(crate) pending: Vec<UnsyncedChange>,
}

#[derive(Clone)]
pub(crate) enum UnsyncedChange {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Inode {
    fn memory_bytes(&self) -> u64 {
        let pending = self.pending.iter().map(|change| match change {
            UnsyncedChange::Write(_, octets) => octets.capacity(),
            UnsyncedChange::Truncate(_) => 0,
        });
        let list = self.pending.capacity() * size_of::<UnsyncedChange>();
        (self.cached.capacity() + self.durable.capacity() + list + pending.sum::<usize>()) as u64
    }
}

impl SimulatedFiles {
    pub(crate) fn chance(&mut self, of: u64) -> u64 {
        // A xorshift generator. Only a spread of values is needed.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % of.max(1)
    }

    pub(crate) fn bytes(&self) -> u64 {
        let ids = self.names.values().chain(&self.unnamed);
        ids.filter_map(|id| self.inodes.get(*id)).map(|inode| inode.cached.len() as u64).sum()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.inodes.iter().map(Inode::memory_bytes).sum()
    }

    /// Counts an operation. Returns its fault, or the error with which it ends at once.
    pub(crate) fn begin(&mut self, life: u64) -> io::Result<Option<DiskFault>> {
        if self.killed || life != self.life {
            return Err(io::Error::other("the process has ended"));
        }
        self.operations += 1;
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        match self.faults.remove(&self.operations) {
            Some(DiskFault::Io) => Err(io::Error::other("the device failed")),
            Some(DiskFault::Kill) => {
                self.killed = true;
                Ok(Some(DiskFault::Kill))
            }
            fault => Ok(fault),
        }
    }

    /// The same as [`SimulatedFiles::begin`], for an operation done completely or not at all.
    pub(crate) fn begin_whole(&mut self, life: u64) -> io::Result<()> {
        match self.begin(life)? {
            Some(DiskFault::Kill) if self.chance(2) == 0 => Err(io::Error::other("the process has ended")),
            _ => Ok(()),
        }
    }

    /// How many of `wanted` additional bytes fit.
    pub(crate) fn room(&self, wanted: usize) -> usize {
        let left = self.room_bytes.map_or(u64::MAX, |room| room.saturating_sub(self.bytes()));
        wanted.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    pub(crate) fn set_name(&mut self, path: &Path, inode: Option<usize>) {
        match inode {
            Some(inode) => self.names.insert(path.to_owned(), inode),
            None => self.names.remove(path),
        };
        self.renames.push((path.to_owned(), inode));
    }

    pub(crate) fn create(&mut self, path: &Path, content: Vec<u8>) -> usize {
        self.inodes.push(Inode { cached: content.clone(), durable: content, pending: Vec::new() });
        self.set_name(path, Some(self.inodes.len() - 1));
        self.inodes.len() - 1
    }

    /// Creates a file without a name.
    pub(crate) fn create_unnamed(&mut self) -> usize {
        self.inodes.push(Inode::default());
        self.unnamed.insert(self.inodes.len() - 1);
        self.inodes.len() - 1
    }

    /// Frees the content of a file without a name.
    pub(crate) fn remove_unnamed(&mut self, id: usize) {
        if self.unnamed.remove(&id)
            && let Some(inode) = self.inodes.get_mut(id)
        {
            *inode = Inode::default();
        }
    }

    pub(crate) fn inode(&mut self, id: usize) -> io::Result<&mut Inode> {
        self.inodes.get_mut(id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn named(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn sync_names(&mut self) {
        self.renames.clear();
        self.names_durable.clone_from(&self.names);
    }

    /// Applies a power cut: keeps the first few changes of names, and a random selection of each
    /// file's unsynced blocks.
    pub(crate) fn lose(&mut self) {
        let kept = self.chance(self.renames.len() as u64 + 1) as usize;
        let renames = std::mem::take(&mut self.renames);
        for (path, inode) in renames.into_iter().take(kept) {
            match inode {
                Some(inode) => self.names_durable.insert(path, inode),
                None => self.names_durable.remove(&path),
            };
        }
        self.names.clone_from(&self.names_durable);
        for id in 0..self.inodes.len() {
            let Some(mut inode) = self.inodes.get_mut(id).map(std::mem::take) else { continue };
            for change in std::mem::take(&mut inode.pending) {
                match change {
                    UnsyncedChange::Truncate(bytes) if self.chance(2) == 0 => inode.durable.truncate(bytes),
                    UnsyncedChange::Truncate(_) => {}
                    UnsyncedChange::Write(offset, octets) => {
                        self.keep_blocks(&mut inode.durable, offset, &octets)
                    }
                }
            }
            inode.cached.clone_from(&inode.durable);
            if let Some(place) = self.inodes.get_mut(id) {
                *place = inode;
            }
        }
    }

    pub(crate) fn keep_blocks(&mut self, durable: &mut Vec<u8>, offset: usize, octets: &[u8]) {
        for (block, octets) in octets.chunks(BLOCK_BYTES).enumerate() {
            if self.chance(2) == 0 {
                put(durable, offset + block * BLOCK_BYTES, octets);
            }
        }
    }
}

/// Writes bytes at an offset. A gap after the present end becomes zero.
pub(crate) fn put(content: &mut Vec<u8>, offset: usize, octets: &[u8]) {
    if content.len() < offset + octets.len() {
        content.resize(offset + octets.len(), 0);
    }
    if let Some(place) = content.get_mut(offset..offset + octets.len()) {
        place.copy_from_slice(octets);
    }
}
