//! The outside world behind traits: time, files, and the properties of the machine. Code that needs
//! a clock or a disk takes one of these as a parameter, so that tests can control time and inject
//! disk faults.
//!
//! Invariant: no other crate asks the system for the time. Sockets are in `net`.

mod aside;
mod clock;
mod disk;
mod faulty_disk;
mod hanging_disk;
mod machine;
mod resident;
mod simulated_disk;
mod simulated_world;
mod sound;

pub use clock::{Clock, ManualClock, Monotonic, SystemClock, Timestamp};
pub use disk::{Access, Disk, DiskFile, DiskLock, Listed, SystemDisk};
pub use faulty_disk::FaultyDisk;
pub use hanging_disk::HangingDisk;
pub use machine::{Machine, resident_bytes, runtime_directory, spool_directory, state_directory};
pub use resident::{bring_into_memory, is_in_memory};
pub use simulated_disk::{Fault, SimulatedDisk};
pub use sound::sound;
