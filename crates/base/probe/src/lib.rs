//! Watches the host and groups of processes during a measurement, through /proc and /sys only.
//!
//! Invariant: a file that cannot be read or parsed never produces a wrong number. Figures that
//! depend on it are `None`, or they leave out that process. Watching does not change the watched
//! processes. The meaning of the figures is decided elsewhere (`ladder`).
//!
//! The parsers take text and are pure. [`ProcFs`] reads the files. [`watch`] samples at 10 Hz from
//! a separate thread.

mod environment;
mod host;
mod procfs;
mod stat;
mod watch;

pub use environment::{Environment, MachineLimit};
pub use host::{CpuTimes, InterfaceTraffic};
pub use procfs::ProcFs;
pub use stat::{ProcessStat, TaskState};
pub use watch::{GroupFigures, HostFigures, ProcessGroup, SAMPLE_INTERVAL, WatchFigures, watch};
