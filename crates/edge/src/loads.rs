//! Reading what look-ups found on the disk.
//!
//! Invariant: no worker waits for the disk, and no request longer than `limits.disk_timeout`. However many requests
//! ask for one object, it is read once at a time, and the queue of objects is bounded. A body is read into memory if it
//! finds room among the bodies outside the store; else it is sent from the disk. Reading goes on when the visitor who
//! asked first has left.

use crate::backlog::Backlog;
use crate::disk_threads;
use crate::room::Room;
use crate::shared::Shared;
use semantics::Moment;
use std::io;
use std::sync::Arc;
use store::{Key, Shelved};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Objects and bodies that are read at the same time. Each takes a thread, which may take two mebibytes of its own from
/// the allocator.
const READS_MAX: usize = 8;

/// Parts of files that are brought into memory at the same time for downloads. Turns of their own, because a queue of
/// objects to be read would make a healthy disk look late to a download.
const READS_AHEAD_MAX: usize = 4;

/// Objects that are read or wait for it. One that waits takes about a kilobyte; a disk that answers reads far more than
/// this within `limits.disk_timeout`.
const WAITING_MAX: usize = 4096;

/// What is being read.
#[derive(Debug)]
pub(crate) struct Loads {
    objects: Arc<Backlog<Shelved>>,
    ahead: Arc<Semaphore>,
}

/// What became of an object that was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// It was read, or could not be: to be looked up again.
    Ended,
    /// The disk hangs, or has not answered within `limits.disk_timeout`; to be fetched.
    Late,
    /// Too many others are waiting to be read; to be fetched.
    Refused,
}

impl Default for Loads {
    fn default() -> Self {
        Self {
            objects: Arc::new(Backlog::new(READS_MAX, WAITING_MAX)),
            ahead: Arc::new(Semaphore::new(READS_AHEAD_MAX)),
        }
    }
}

/// A turn to read a body, to be dropped when the read has ended; `None` if none is free within `limits.disk_timeout`.
pub(crate) async fn turn(shared: &Shared) -> Option<OwnedSemaphorePermit> {
    turn_of(shared.loads.objects.turns(), shared).await
}

async fn turn_of(turns: &Arc<Semaphore>, shared: &Shared) -> Option<OwnedSemaphorePermit> {
    let turn = Arc::clone(turns).acquire_owned();
    tokio::time::timeout(shared.limits.disk_timeout, turn).await.ok()?.ok()
}

/// Has a part of a file read into memory, in a turn, so that however many clients download what is not there, threads
/// are left for purges; `false` if the disk failed, or if turn or disk were late.
pub(crate) async fn read_ahead(
    shared: &Shared,
    read: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> bool {
    let Some(turn) = turn_of(&shared.loads.ahead, shared).await else { return false };
    // The turn ends when the read has ended, also where its request has given up.
    let read = move || (read(), turn).0;
    matches!(disk_threads::run(shared.limits.disk_timeout, read).await, Some(Ok(())))
}

/// Has what was found under `key` read, and waits for that.
pub(crate) async fn load(shared: &Arc<Shared>, key: &Key, shelved: Shelved) -> Loaded {
    if shared.persistence.is_hung() {
        return Loaded::Late;
    }
    let (reader, own, within) = (Arc::clone(shared), key.detached(), shared.limits.disk_timeout);
    let read = move || read_here(&reader, &own, shelved);
    let Some(mut done) = shared.loads.objects.join(shelved, within, read) else { return Loaded::Refused };
    match tokio::time::timeout(within, done.changed()).await {
        Ok(Ok(())) => Loaded::Ended,
        // Whoever looks it up again would wait as long once more.
        Ok(Err(_)) | Err(_) => Loaded::Late,
    }
}

/// As [`load`], for a thread that may wait so long.
pub(crate) fn load_here(shared: &Arc<Shared>, key: &Key, shelved: Shelved) {
    if shared.persistence.is_hung() {
        return;
    }
    let (reader, key) = (Arc::clone(shared), key.detached());
    // What was not read in time is not in memory when it is looked up.
    let _ = disk_threads::run_here(shared.limits.disk_timeout, move || read_here(&reader, &key, shelved));
}

/// Reads what was found, within the memory that there is. Blocks.
fn read_here(shared: &Shared, key: &Key, shelved: Shelved) {
    let mut room = Room::new(shared);
    // It is read piece by piece and then gathered, so for a moment it is there twice.
    shared.store.load(key, shelved, |bytes| room.take(2 * bytes), Moment::read(&*shared.clock));
}

#[cfg(test)]
mod tests {
    use super::{READS_AHEAD_MAX, read_ahead, turn};
    use crate::shared::Shared;
    use config::Plan;
    use platform::SystemClock;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn shared(disk_timeout: Duration) -> Arc<Shared> {
        let mut plan = Plan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.disk_timeout = disk_timeout;
        Arc::new(Shared::new(plan, None, Arc::new(SystemClock::new())))
    }

    #[tokio::test]
    async fn reads_ahead_of_a_hung_disk_take_no_more_threads_than_turns() {
        let shared = shared(Duration::from_millis(20));
        let (release, gate) = channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let (begun, begins) = channel();
        for _ in 0..2 * READS_AHEAD_MAX {
            let (gate, begun) = (Arc::clone(&gate), begun.clone());
            let stuck = move || {
                let _ = begun.send(());
                // It ends when the gate is gone.
                drop(gate.lock().map(|gate| gate.recv()));
                Ok(())
            };
            assert!(!read_ahead(&shared, stuck).await, "the disk hangs");
        }
        assert_eq!(shared.loads.ahead.available_permits(), 0, "a read that is late keeps its turn");
        assert!(turn(&shared).await.is_some(), "objects are read all the same");
        drop((release, begun));
        assert!(begins.iter().count() <= READS_AHEAD_MAX);
        let patient = self::shared(testkit::PATIENCE);
        assert!(read_ahead(&patient, || Ok(())).await && turn(&patient).await.is_some());
    }
}
