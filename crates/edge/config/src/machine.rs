//! The machine as the defaults of settings see it.
//!
//! Invariant: these are plain values. The caller reads them from the system.

use std::path::PathBuf;

/// The resources and directories that defaults are derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processor cores that this process may use, at least 1.
    pub cores: usize,
    /// Memory in bytes: the machine's, or the control group's limit if the limit is smaller.
    pub memory_bytes: u64,
    /// The default of `state_directory`. `None`: there is no such directory.
    pub state_directory: Option<PathBuf>,
    /// The default of `runtime_directory`. `None`: there is no such directory.
    pub runtime_directory: Option<PathBuf>,
    /// The default of `spool_directory`.
    pub spool_directory: PathBuf,
}

impl Machine {
    /// A machine of this size, with temporary files in `/var/tmp` and no other directory.
    pub(crate) fn of_size(cores: usize, memory_bytes: u64) -> Self {
        Self {
            cores,
            memory_bytes,
            state_directory: None,
            runtime_directory: None,
            spool_directory: PathBuf::from("/var/tmp"),
        }
    }
}
