//! The table of disk operations in progress, with their start times.
//!
//! Invariant: every operation on the tier's files is in the table from before the system is called
//! until it has answered. So threads that do not touch the disk themselves can notice that it
//! hangs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use clock::{Clock, Monotonic};
use platform::sound;
use threads::ThreadName;

use crate::figures::{FigureCounters, add};

/// An operation that the disk has not answered in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckOperation {
    /// The name of the thread that waits.
    pub thread: String,
    /// The operation that it waits for.
    pub operation: &'static str,
}

/// The operations in progress.
pub(crate) struct OperationWatch {
    clock: Arc<dyn Clock>,
    timeout: Duration,
    counters: Arc<FigureCounters>,
    is_hung: AtomicBool,
    running: Mutex<RunningOperations>,
}

#[derive(Default)]
struct RunningOperations {
    last: u64,
    operations: BTreeMap<u64, RunningOperation>,
}

struct RunningOperation {
    name: &'static str,
    thread: ThreadName,
    since: Monotonic,
}

impl OperationWatch {
    pub(crate) fn new(clock: Arc<dyn Clock>, timeout: Duration, counters: Arc<FigureCounters>) -> Self {
        Self { clock, timeout, counters, is_hung: AtomicBool::new(false), running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, RunningOperations> {
        sound(self.running.lock())
    }

    /// Runs `work`, an operation on the disk, with an entry in the table.
    pub(crate) fn during<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let operation =
            RunningOperation { name, thread: threads::current_name(), since: self.clock.monotonic() };
        let mut running = self.running();
        running.last += 1;
        let number = running.last;
        running.operations.insert(number, operation);
        drop(running);
        let _entry = WatchGuard { watch: self, number };
        work()
    }

    /// The operations that have taken longer than the timeout.
    pub(crate) fn stuck(&self) -> Vec<StuckOperation> {
        let now = self.clock.monotonic();
        let running = self.running();
        let late = running.operations.values().filter(|operation| now.since(operation.since) >= self.timeout);
        late.map(|operation| StuckOperation {
            thread: operation.thread.as_str().unwrap_or("without a name").to_owned(),
            operation: operation.name,
        })
        .collect()
    }

    /// Whether the disk is considered hung.
    pub(crate) fn is_hung(&self) -> bool {
        self.is_hung.load(Ordering::SeqCst)
    }

    /// Checks whether an operation is late. A disk that has hung stays hung until no operation is
    /// late and `may_return` is set. Returns true if the disk has just begun to hang.
    pub(crate) fn look(&self, may_return: bool) -> bool {
        let is_stuck = !self.stuck().is_empty();
        if !is_stuck {
            if may_return {
                self.is_hung.store(false, Ordering::SeqCst);
            }
            return false;
        }
        let begins = !self.is_hung.swap(true, Ordering::SeqCst);
        add(&self.counters.hangs, u64::from(begins));
        begins
    }
}

/// An entry of the table, which is removed when this is dropped.
struct WatchGuard<'a> {
    watch: &'a OperationWatch,
    number: u64,
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        self.watch.running().operations.remove(&self.number);
    }
}
