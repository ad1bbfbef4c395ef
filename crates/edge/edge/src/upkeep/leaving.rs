//! Joins threads at the end of an edge; a thread that does not end is reported and left behind.
//!
//! Invariant: the shutdown never waits for a thread that the kernel holds in disk sleep.

use std::any::Any;
use std::time::Duration;
use threads::JoinHandle;

/// How often the thread is checked.
const TICK: Duration = Duration::from_millis(5);

/// Number of checks: a thread has two seconds to end.
const TICKS_MAX: u32 = 400;

/// The result of a thread; `None`, and a message on standard error, if it did not end in time.
pub(crate) fn join_in_time<T>(thread: JoinHandle<T>) -> Option<Result<T, Box<dyn Any + Send>>> {
    for _ in 0..TICKS_MAX {
        if thread.is_finished() {
            return Some(thread.join());
        }
        threads::sleep(TICK);
    }
    let name = thread.name().unwrap_or("without a name");
    tracing::warn!("the thread {name} does not end; Petasos exits without it");
    None
}
