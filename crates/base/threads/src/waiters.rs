//! The simulated threads that wait for a lock or a notification.
//!
//! Invariant: on the system the list is always empty, and looking at it costs one load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// Wakers of simulated threads.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Relaxed is enough: waiters exist only in a simulation, which is one system thread.
    any: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self { any: AtomicBool::new(false), wakers: Mutex::new(Vec::new()) }
    }

    /// Adds the waker of a thread about to wait.
    pub(crate) fn add(&self, waker: &Waker) {
        // The list is consistent after every operation.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker.clone());
        self.any.store(true, Ordering::Relaxed);
    }

    /// Wakes all threads in the list. Each of them looks again whether it must wait.
    pub(crate) fn wake(&self) {
        if self.any.load(Ordering::Relaxed) {
            self.any.store(false, Ordering::Relaxed);
            let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}
