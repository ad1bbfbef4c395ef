//! The outside world behind traits: time and files; and what the machine offers. Everything that needs a
//! clock or a disk takes one of these as a parameter, so that tests can turn time and break disks.
//!
//! Invariant: no other crate asks the system for the time. Sockets are not here: `net` has them.

mod clock;
mod disk;
mod machine;

pub use clock::{Clock, ManualClock, Monotonic, SystemClock, Timestamp};
pub use disk::{Disk, FaultyDisk, SystemDisk};
pub use machine::{Machine, resident_bytes};
