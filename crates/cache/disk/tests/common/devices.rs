//! A machine with several devices: the tier's, and those of the state and runtime directories.

use std::io;
use std::path::Path;
use std::sync::Arc;

use petasos_disk::{Durability, TierSettings};
use platform::{Access, DirectoryEntry, Disk, DiskFile, DiskLock, SimulatedDisk};

use super::settings;

/// Three devices that fail independently. Clones refer to the same devices.
#[derive(Clone)]
pub(crate) struct Devices {
    pub(crate) tier: SimulatedDisk,
    pub(crate) state: SimulatedDisk,
    pub(crate) runtime: SimulatedDisk,
}

impl Devices {
    pub(crate) fn new() -> Self {
        Self { tier: SimulatedDisk::new(1), state: SimulatedDisk::new(2), runtime: SimulatedDisk::new(3) }
    }

    pub(crate) fn settings(durability: Durability) -> TierSettings {
        TierSettings {
            state_directory: Some("/state".into()),
            runtime_directory: Some("/run".into()),
            durability,
            ..settings()
        }
    }

    /// Ends the process.
    pub(crate) fn kill(&self) {
        [&self.tier, &self.state, &self.runtime].into_iter().for_each(SimulatedDisk::kill);
    }

    /// Ends the process and restarts the machine. The runtime directory is in memory and therefore
    /// lost.
    pub(crate) fn reboot(&mut self) {
        self.tier.power_cut();
        self.state.power_cut();
        self.runtime = SimulatedDisk::new(3);
    }

    fn of(&self, path: &Path) -> &SimulatedDisk {
        if path.starts_with("/state") {
            &self.state
        } else if path.starts_with("/run") {
            &self.runtime
        } else {
            &self.tier
        }
    }
}

impl Disk for Devices {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.of(path).read(path)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.of(path).replace(path, content)
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.of(path).append(path, content)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.of(path).create_directory(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.of(path).open(path, access)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.of(directory).list(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.of(path).remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.of(directory).sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        self.of(path).lock(path)
    }

    fn boot(&self) -> io::Result<String> {
        self.tier.boot()
    }
}
