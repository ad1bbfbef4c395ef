//! The thread that closes files of the spool, which frees their blocks and so may wait for the disk.
//!
//! Invariant: handing over a file never waits, and all files of one spool take one thread. The queue is bounded,
//! because no file begins while [`CLOSING_MAX`] wait, so it is no longer than that and the files that were open by
//! then. The thread is never joined: where the kernel holds it, the end of the process leaves it behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

/// No file begins while this many wait to be closed. A disk that answers closes a file in far less time than a body
/// takes to fill it, so more than a few wait only where it hangs.
const CLOSING_MAX: usize = 64;

type Close = Box<dyn FnOnce() + Send>;

/// Hands files over to the thread, which starts with the first file and ends with the spool.
#[derive(Debug, Default)]
pub(crate) struct Closer {
    /// `None`: there is no thread to be had.
    queue: OnceLock<Option<Sender<Close>>>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// Whether a file that begins now can be closed.
    pub(crate) fn keeps_up(&self) -> bool {
        self.queue().is_some() && self.waiting() < CLOSING_MAX
    }

    /// Files that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Has a file closed.
    pub(crate) fn close(&self, close: impl FnOnce() + Send + 'static) {
        // Each file was begun when there was a queue, which lasts as long as the spool.
        if let Some(queue) = self.queue() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _ = queue.send(Box::new(close));
        }
    }

    fn queue(&self) -> Option<&Sender<Close>> {
        let start = || {
            let (queue, closing) = channel();
            let waiting = Arc::clone(&self.waiting);
            let thread = Builder::new().name("petasos-close".to_owned());
            thread.spawn(move || work(&closing, &waiting)).is_ok().then_some(queue)
        };
        self.queue.get_or_init(start).as_ref()
    }
}

fn work(closing: &Receiver<Close>, waiting: &AtomicUsize) {
    for close in closing {
        close();
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
