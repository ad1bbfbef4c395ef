//! The outside world: the machine's clock and properties, and files behind a trait. Code that needs
//! a disk takes a [`Disk`] as a parameter, so that tests can inject faults.
//!
//! Invariant: no other crate reads the system's clock; timers use the clock of tokio. Sockets are
//! in the crate `net`.

mod direct_file;
mod disk;
mod faulty_disk;
mod hanging_disk;
mod hash_keys;
mod machine;
mod resident;
mod simulated_disk;
mod simulated_files;
mod sound;
mod system_clock;

pub use disk::{Access, DirectoryEntry, Disk, DiskFile, DiskLock, SystemDisk};
pub use faulty_disk::FaultyDisk;
pub use hanging_disk::HangingDisk;
pub use hash_keys::{HashKeys, HashMap, HashSet};
pub use machine::{cores, memory_bytes, resident_bytes, runtime_directory, spool_directory, state_directory};
pub use resident::{bring_into_memory, is_in_memory};
pub use simulated_disk::{DiskFault, SimulatedDisk};
pub use sound::{record_broken_invariants, sound};
pub use system_clock::SystemClock;
