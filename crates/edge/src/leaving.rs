//! Threads at the end of an edge: joined if they end, named and left behind if they do not.
//!
//! Invariant: the end never waits for a thread that the kernel holds in disk sleep.

use crate::operator;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked whether a thread has ended.
const TICK: Duration = Duration::from_millis(5);

/// How many times: a thread has two seconds to end once it was told to.
const TICKS_MAX: u32 = 400;

/// What a thread has given; `None` if it did not end in time, which standard error is told.
pub(crate) fn join_in_time<T>(thread: JoinHandle<T>) -> Option<std::thread::Result<T>> {
    for _ in 0..TICKS_MAX {
        if thread.is_finished() {
            return Some(thread.join());
        }
        std::thread::sleep(TICK);
    }
    let name = thread.thread().name().unwrap_or("without a name");
    operator::say(format_args!("the thread {name} does not end and is left behind"));
    None
}
