//! A condition variable for [`Mutex`](crate::Mutex).
//!
//! Invariant: a notification that comes after the lock was released is not missed.

use crate::mutex::MutexGuard;
use crate::scheduler::{self, Scheduler};
use crate::waiters::Waiters;
use std::sync::{self, LockResult, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

/// A condition variable. It has the interface of the standard library's, except that a wait with a
/// time limit returns whether its time is over.
#[derive(Debug, Default)]
pub struct Condvar {
    changed: sync::Condvar,
    waiters: Waiters,
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self { changed: sync::Condvar::new(), waiters: Waiters::new() }
    }

    /// Wakes one waiting thread; in a simulation all of them, which may always happen.
    pub fn notify_one(&self) {
        self.changed.notify_one();
        self.waiters.wake();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.changed.notify_all();
        self.waiters.wake();
    }

    /// Releases the lock and waits as long as `waits` returns true, which is asked at once and
    /// after each notification.
    ///
    /// # Errors
    /// If a thread panicked while it held the lock. The error contains the guard.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let Some(scheduler) = scheduler::current() else {
            let lock = guard.lock;
            let waited = match guard.into_content() {
                Some(content) => self.changed.wait_while(content, waits),
                None => return lock.lock(),
            };
            return lock.guarded(waited);
        };
        let waited = self.wait_simulated(&*scheduler, guard, None, waits);
        waited.map(|(guard, _)| guard).map_err(|poisoned| PoisonError::new(poisoned.into_inner().0))
    }

    /// Same as [`Condvar::wait_while`], but waits at most `within`. Also returns whether this time
    /// is over and `waits` still true.
    ///
    /// # Errors
    /// If a thread panicked while it held the lock. The error contains the guard.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        within: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let Some(scheduler) = scheduler::current() else {
            let lock = guard.lock;
            let Some(content) = guard.into_content() else {
                return with(lock.lock(), false);
            };
            let waited = self.changed.wait_timeout_while(content, within, waits);
            return match waited {
                Ok((content, timeout)) => with(lock.guarded(Ok(content)), timeout.timed_out()),
                Err(poisoned) => {
                    let (content, timeout) = poisoned.into_inner();
                    with(lock.guarded(Err(PoisonError::new(content))), timeout.timed_out())
                }
            };
        };
        self.wait_simulated(&*scheduler, guard, Some(within), waits)
    }

    fn wait_simulated<'a, T>(
        &self,
        scheduler: &dyn Scheduler,
        guard: MutexGuard<'a, T>,
        within: Option<Duration>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let lock = guard.lock;
        let mut held = Some(guard);
        let mut is_poisoned = false;
        let is_ready = scheduler.wait(within, &mut |context| {
            let mut guard = match held.take() {
                Some(guard) => guard,
                None => ready!(lock.poll_lock(context)).unwrap_or_else(|poisoned| {
                    is_poisoned = true;
                    poisoned.into_inner()
                }),
            };
            if !waits(&mut guard) {
                held = Some(guard);
                return Poll::Ready(());
            }
            self.waiters.add(context.waker());
            Poll::Pending
        });
        let guard = held.map_or_else(|| lock.lock(), Ok);
        match guard {
            Ok(guard) if is_poisoned => Err(PoisonError::new((guard, !is_ready))),
            guard => with(guard, !is_ready),
        }
    }
}

/// Adds a value to a guard, poisoned or not.
fn with<T, V>(locked: LockResult<T>, value: V) -> LockResult<(T, V)> {
    match locked {
        Ok(guard) => Ok((guard, value)),
        Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), value))),
    }
}
