//! A lock whose holder may wait.
//!
//! Invariant: it poisons like the standard library's lock. In a simulation, a simulated thread that
//! finds it taken is suspended and lets the others run.

use crate::scheduler;
use crate::waiters::Waiters;
use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};
use std::task::{Context, Poll};

/// A lock whose holder may wait. It has the interface of the standard library's.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    content: sync::Mutex<T>,
    waiters: Waiters,
}

/// The right to use the content of a [`Mutex`]. Dropping it releases the lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    pub(crate) lock: &'a Mutex<T>,
    /// Always present, except while the lock is being released.
    content: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A lock around `content`.
    pub const fn new(content: T) -> Self {
        Self { content: sync::Mutex::new(content), waiters: Waiters::new() }
    }

    /// Waits for the lock and takes it.
    ///
    /// # Errors
    /// If a thread panicked while it held the lock. The error contains the guard.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let Some(scheduler) = scheduler::current() else {
            return self.guarded(self.content.lock());
        };
        if let Some(taken) = self.try_take() {
            // Only in a thread. A task finds the lock poisoned at once, as on the system: tasks
            // that are dropped after all threads were cancelled take locks, but do not wait.
            if taken.is_err() && scheduler.thread_name().is_some() {
                // A cancelled thread ends here. That another one was cancelled too, and left its
                // content half changed, says nothing about the program.
                scheduler.wait(None, &mut |_| Poll::Ready(()));
            }
            return taken;
        }
        let mut taken = None;
        scheduler.wait(None, &mut |context| self.poll_lock(context).map(|locked| taken = Some(locked)));
        // A wait without a time limit ends only when the lock was taken.
        taken.unwrap_or_else(|| self.guarded(self.content.lock()))
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// `WouldBlock` if it is taken, or `Poisoned` if a thread panicked while it held the lock.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.try_take() {
            Some(taken) => taken.map_err(TryLockError::Poisoned),
            None => Err(TryLockError::WouldBlock),
        }
    }

    /// Takes the lock, or registers a simulated thread to be woken when it is released.
    pub(crate) fn poll_lock(&self, context: &Context<'_>) -> Poll<LockResult<MutexGuard<'_, T>>> {
        if let Some(taken) = self.try_take() {
            return Poll::Ready(taken);
        }
        self.waiters.add(context.waker());
        Poll::Pending
    }

    fn try_take(&self) -> Option<LockResult<MutexGuard<'_, T>>> {
        match self.content.try_lock() {
            Ok(content) => Some(self.guarded(Ok(content))),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.guarded(Err(poisoned))),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn guarded<'a>(
        &'a self,
        locked: LockResult<sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let guard = |content| MutexGuard { lock: self, content: Some(content) };
        locked.map(guard).map_err(|poisoned| PoisonError::new(guard(poisoned.into_inner())))
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// The guard of the standard library, for its condition variable.
    pub(crate) fn into_content(mut self) -> Option<sync::MutexGuard<'a, T>> {
        self.content.take()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "only `drop` and `into_content`, which take the guard, empty it")]
    fn deref(&self) -> &T {
        self.content.as_ref().expect("the guard holds the lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[expect(clippy::expect_used, reason = "only `drop` and `into_content`, which take the guard, empty it")]
    fn deref_mut(&mut self) -> &mut T {
        self.content.as_mut().expect("the guard holds the lock")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.content = None;
        self.lock.waiters.wake();
    }
}
