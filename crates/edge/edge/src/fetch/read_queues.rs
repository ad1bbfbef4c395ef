//! The queues of reads from the disk.
//!
//! Invariant: the number of reads, and of objects that wait for one, is bounded.

use crate::upkeep::backlog::Backlog;
use crate::upkeep::disk_threads::DiskThreads;
use std::sync::Arc;
use store::ShelvedObject;
use tokio::sync::Semaphore;

/// Maximum number of concurrent reads of objects and bodies. Each needs a thread, whose heap may
/// take 2 MiB.
const READS_MAX: usize = 8;

/// Maximum number of file parts that are read ahead for downloads at the same time. Separate from
/// `READS_MAX`, because a queue of objects would make a healthy disk look late to a download.
pub(crate) const READS_AHEAD_MAX: usize = 4;

/// Maximum number of objects that are read or wait for it. A waiting one takes about 1 kB, and a
/// working disk reads far more than this within `limits.disk_timeout`.
const WAITING_MAX: usize = 4096;

/// The reads under way.
#[derive(Debug)]
pub(crate) struct ReadQueues {
    pub(crate) objects: Arc<Backlog<ShelvedObject>>,
    pub(crate) ahead: Arc<Semaphore>,
}

impl ReadQueues {
    /// Queues whose reads run on `threads`.
    pub(crate) fn new(threads: DiskThreads) -> Self {
        Self {
            objects: Arc::new(Backlog::new(READS_MAX, WAITING_MAX, threads)),
            ahead: Arc::new(Semaphore::new(READS_AHEAD_MAX)),
        }
    }
}
