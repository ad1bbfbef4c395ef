//! Watches the host and groups of processes while something else happens, through /proc alone.
//!
//! Invariant: a file that cannot be read or parsed lowers what is known, never a number: figures that depend
//! on it are `None` or leave that process out. Nothing here changes what it watches, and nothing here decides
//! what the figures mean (`lab` does).
//!
//! The parsers take text and are pure; [`ProcFs`] reads the files; [`watch`] samples at 10 Hz from a thread.

mod environment;
mod host;
mod procfs;
mod stat;
mod watch;

pub use environment::{Environment, Limit};
pub use host::{CpuTimes, Link};
pub use procfs::ProcFs;
pub use stat::{ProcessStat, TaskState};
pub use watch::{Group, GroupWatch, HostWatch, SAMPLE_INTERVAL, Watch, watch};
