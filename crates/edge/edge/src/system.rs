//! What the edge uses of the system that it runs on.
//!
//! Invariant: the edge reaches clocks, the files of its disk tier and its spool, and origins only
//! through this. A simulation replaces all of it.

use clock::Clock;
use net::{Network, SystemNetwork};
use platform::{Disk, SystemClock, SystemDisk};
use probe::ProcFs;
use std::fmt;
use std::sync::Arc;

/// The clock, the disk, the network and the processes around an edge.
#[derive(Clone)]
pub struct System {
    /// Wall time and monotonic time. Timers use the clock of tokio.
    pub clock: Arc<dyn Clock>,
    /// The file system of the disk tier and of the spool.
    pub disk: Arc<dyn Disk>,
    /// The network that the origins are in.
    pub network: Arc<dyn Network>,
    /// The processes of the machine, whose processor time the dashboard shows. `None`: it shows
    /// none.
    pub processes: Option<ProcFs>,
    /// The name of the machine, for traces.
    pub host: String,
    /// The identifier of the process, for traces.
    pub pid: u32,
}

impl System {
    /// The system of the machine that the process runs on.
    pub fn of_machine() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            disk: Arc::new(SystemDisk),
            network: Arc::new(SystemNetwork),
            processes: Some(ProcFs::system()),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
        }
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").finish_non_exhaustive()
    }
}
