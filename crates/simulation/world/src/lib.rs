//! A deterministic world for simulations: randomness, time, threads, connections and disks.
//!
//! Invariant: a world runs on one system thread, without sockets, files and real time. All events
//! in it follow from its seed.

mod clock;
mod coroutine;
mod direction;
mod disk;
mod disk_file;
mod disk_mode;
mod disk_operation;
mod faults;
mod memory_meter;
mod network;
mod pipe;
mod random;
mod threads;
mod trace;
mod violations;
mod world;

pub use crate::clock::{START_SECONDS, SimulatedClock};
pub use disk::WorldDisk;
pub use disk_mode::{DiskHang, DiskMode, SLOW_MS};
pub use faults::{FaultCounts, FaultKind};
pub use memory_meter::{CountedMemory, MemoryMeter};
pub use network::{ConnectMode, SimulatedNetwork};
pub use pipe::{OpenPipes, Pipe, PipeSettings, pipe};
pub use random::Random;
pub use threads::{SimulatedThreads, ThreadSettings};
pub use trace::Trace;
pub use violations::{VIOLATIONS_MAX, Violations};
pub use world::{Ended, World, WorldSettings};
