//! Reading what look-ups found on the disk.
//!
//! Invariant: no worker waits for the disk, and no request longer than `limits.disk_timeout`. However many requests
//! ask for one object, it is read once at a time. A body is read into memory if it finds room among the bodies outside
//! the store; else it is sent from the disk. Reading goes on when the visitor who asked first has left.

use crate::disk_threads;
use crate::room::Room;
use crate::shared::Shared;
use semantics::Moment;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Key, Shelved};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Objects and bodies that are read at the same time. Each takes a thread, which may take two mebibytes of its own from
/// the allocator.
const READS_MAX: usize = 8;

/// Parts of files that are brought into memory at the same time for downloads. Turns of their own, because a queue of
/// objects to be read would make a healthy disk look late to a download.
const READS_AHEAD_MAX: usize = 4;

/// What is being read.
#[derive(Debug)]
pub(crate) struct Loads {
    under_way: Mutex<HashMap<Shelved, watch::Receiver<()>>>,
    turns: Arc<Semaphore>,
    ahead: Arc<Semaphore>,
}

impl Default for Loads {
    fn default() -> Self {
        Self {
            under_way: Mutex::default(),
            turns: Arc::new(Semaphore::new(READS_MAX)),
            ahead: Arc::new(Semaphore::new(READS_AHEAD_MAX)),
        }
    }
}

impl Loads {
    fn under_way(&self) -> MutexGuard<'_, HashMap<Shelved, watch::Receiver<()>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn to read a body, to be dropped when the read has ended; `None` if none is free within `limits.disk_timeout`.
pub(crate) async fn turn(shared: &Shared) -> Option<OwnedSemaphorePermit> {
    turn_of(&shared.loads.turns, shared).await
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

/// Returns when what was found under `key` has been read, or could not be: to be looked up again. `false`: the disk
/// hangs, or has not answered within `limits.disk_timeout`; to be fetched.
pub(crate) async fn load(shared: &Arc<Shared>, key: &Key, shelved: Shelved) -> bool {
    if shared.persistence.is_hung() {
        return false;
    }
    let mut done = {
        let mut under_way = shared.loads.under_way();
        if let Some(others) = under_way.get(&shelved) {
            others.clone()
        } else {
            let (sender, receiver) = watch::channel(());
            under_way.insert(shelved, receiver.clone());
            tokio::spawn(read(Arc::clone(shared), key.detached(), shelved, sender));
            receiver
        }
    };
    // Nothing is ever sent: the end is that the sender is gone.
    tokio::time::timeout(shared.limits.disk_timeout, done.changed()).await.is_ok()
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

async fn read(shared: Arc<Shared>, key: Key, shelved: Shelved, _done: watch::Sender<()>) {
    // An error means that the semaphore was closed, which nobody does.
    let turn = shared.loads.turns.acquire().await;
    let reader = Arc::clone(&shared);
    let reading = disk_threads::begin(move || read_here(&reader, &key, shelved));
    // If it has panicked, it is looked up again, and at last fetched.
    let _ = reading.await;
    drop(turn);
    shared.loads.under_way().remove(&shelved);
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
