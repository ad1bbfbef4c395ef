//! The thread that closes spool files. Closing frees a file's blocks, which may block on the disk.
//!
//! Invariants: handing over a file never blocks, and each spool has one such thread. The queue is
//! bounded: no file is opened while [`CLOSING_MAX`] wait, so it holds at most those and the files
//! open by then. The thread is never joined; if the kernel holds it, the end of the process leaves
//! it behind. If the system cannot create the thread, no file is opened, and the next use tries
//! again.

use crate::upkeep::supervisor::{self, ThreadEnd};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use threads::{Condvar, Mutex, MutexGuard};

/// No file is opened while this many wait to be closed. A working disk closes a file much faster
/// than a body fills one, so more than a few wait only if the disk hangs.
const CLOSING_MAX: usize = 64;

/// The name of the thread.
const THREAD: &str = "petasos-close";

type CloseTask = Box<dyn FnOnce() + Send>;

/// The main function of the thread.
type ThreadMain = Box<dyn FnMut() -> ThreadEnd + Send>;

/// The queue of the thread, which starts with the first file and ends with the spool.
#[derive(Debug)]
pub(crate) struct Closer {
    /// Empty until a thread has started.
    queue: OnceLock<Arc<CloseQueue>>,
    /// Number of files that wait. Relaxed is enough: the queue's lock orders the files, and the
    /// number only limits them.
    waiting: Arc<AtomicUsize>,
    start: fn(ThreadMain) -> io::Result<()>,
}

/// The files to be closed.
#[derive(Default)]
struct CloseQueue {
    state: Mutex<CloseQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct CloseQueueState {
    tasks: VecDeque<CloseTask>,
    /// The spool is gone.
    is_ended: bool,
}

impl Default for Closer {
    fn default() -> Self {
        Self::with(start, Arc::default())
    }
}

impl Closer {
    fn with(start: fn(ThreadMain) -> io::Result<()>, waiting: Arc<AtomicUsize>) -> Self {
        Self { queue: OnceLock::new(), waiting, start }
    }

    /// Whether a file opened now can be closed later.
    pub(crate) fn keeps_up(&self) -> bool {
        self.queue().is_some() && self.waiting() < CLOSING_MAX
    }

    /// Number of files that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Queues the closing of a file.
    pub(crate) fn close(&self, close: impl FnOnce() + Send + 'static) {
        // There is always a queue here: each file was opened after `keeps_up`, and the queue lives
        // as long as the spool.
        if let Some(queue) = self.queue() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            queue.change(|state| state.tasks.push_back(Box::new(close)));
        }
    }

    fn queue(&self) -> Option<&CloseQueue> {
        if let Some(queue) = self.queue.get() {
            return Some(queue);
        }
        let queue = Arc::new(CloseQueue::default());
        let (closing, waiting) = (Arc::clone(&queue), Arc::clone(&self.waiting));
        (self.start)(Box::new(move || work(&closing, &waiting))).ok()?;
        if let Err(surplus) = self.queue.set(queue) {
            // Two threads were started concurrently.
            surplus.end();
        }
        self.queue.get().map(|queue| &**queue)
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            queue.end();
        }
    }
}

impl CloseQueue {
    fn state(&self) -> MutexGuard<'_, CloseQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut CloseQueueState)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn end(&self) {
        self.change(|state| state.is_ended = true);
    }

    /// Waits for the next file; `None` when all are closed and the spool is gone.
    fn next(&self) -> Option<CloseTask> {
        let idle = |state: &mut CloseQueueState| state.tasks.is_empty() && !state.is_ended;
        let waited = self.changed.wait_while(self.state(), idle);
        waited.unwrap_or_else(PoisonError::into_inner).tasks.pop_front()
    }
}

impl fmt::Debug for CloseQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseQueue").finish_non_exhaustive()
    }
}

fn start(work: ThreadMain) -> io::Result<()> {
    supervisor::start(THREAD, work).map(drop)
}

fn work(closing: &CloseQueue, waiting: &AtomicUsize) -> ThreadEnd {
    while let Some(close) = closing.next() {
        // The next files must be closed, and here: on a worker, closing could block.
        supervisor::survive(THREAD, close);
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
    // The spool is gone.
    ThreadEnd::Due
}

#[cfg(test)]
mod tests {
    use super::{Closer, ThreadMain, start};
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn thread_that_was_refused_is_started_by_the_next_use() {
        static STARTS: AtomicUsize = AtomicUsize::new(0);
        fn refused_twice(work: ThreadMain) -> io::Result<()> {
            if STARTS.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            start(work)
        }
        let closer = Closer::with(refused_twice, Arc::default());
        assert!(!closer.keeps_up() && !closer.keeps_up(), "no file begins that could not be closed");
        assert!(closer.keeps_up(), "the system has a thread again");
        let (sender, closed) = channel();
        closer.close(move || sender.send(()).unwrap());
        assert_eq!(closed.recv_timeout(testkit::PATIENCE), Ok(()));
        assert!(closer.keeps_up() && STARTS.load(Ordering::Relaxed) == 3, "one thread closes all files");
    }
}
