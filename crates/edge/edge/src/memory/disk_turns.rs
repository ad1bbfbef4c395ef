//! Permits for purges that wait for a disk.
//!
//! Invariant: purges that wait for one hanging disk hold a bounded number of threads.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Maximum number of purges that wait for each disk at the same time. The disks are those of the
/// journal, the static tree, and the state and runtime directories. Each purge holds a thread. Two
/// are enough, because one write covers all purges in force.
const WAITING_MAX: usize = 2;

/// Permits for purges that are in force and wait for a disk.
#[derive(Debug)]
pub(crate) struct DiskTurns {
    pub(crate) journal: Arc<Semaphore>,
    pub(crate) tree: Arc<Semaphore>,
    pub(crate) set_aside: Arc<Semaphore>,
}

impl Default for DiskTurns {
    fn default() -> Self {
        let turns = || Arc::new(Semaphore::new(WAITING_MAX));
        Self { journal: turns(), tree: turns(), set_aside: turns() }
    }
}
