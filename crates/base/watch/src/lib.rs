//! A value that one sender changes and many receivers watch.
//!
//! Invariants: a change wakes all receivers that wait, in the order in which they began to wait. No
//! receiver misses a change: one that comes after its look at the value, and before its wait, ends
//! the wait at once.
//!
//! The channel of tokio with the same operations spreads its waiting receivers at random over eight
//! lists. The order in which it wakes them follows from no seed, so that a simulation cannot be
//! repeated.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The side that changes the value. Dropping it closes the channel.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// A side that watches the value. A clone has seen the same changes.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of changes that it has seen.
    seen: u64,
}

/// The value, under the lock of the channel. Other accesses wait until it is dropped, so the task
/// that holds it must not use the channel.
#[derive(Debug)]
pub struct Ref<'a, T>(MutexGuard<'a, State<T>>);

/// The sender is gone, so that the value changes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Wakes the receivers, after a change and after the end of the sender.
    changed: Notify,
    /// Wakes the sender after the end of the last receiver.
    unwatched: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// The number of changes so far.
    changes: u64,
    is_closed: bool,
    receivers: usize,
}

/// Makes a channel with its first receiver, which has seen `value`.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// The sender of a channel that has no receiver yet.
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, changes: 0, is_closed: false, receivers: 0 });
        Self { shared: Arc::new(Shared { state, changed: Notify::new(), unwatched: Notify::new() }) }
    }

    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.state())
    }

    /// A new receiver, which has seen the value as it is now.
    pub fn subscribe(&self) -> Receiver<T> {
        let mut state = self.shared.state();
        state.receivers += 1;
        Receiver { shared: Arc::clone(&self.shared), seen: state.changes }
    }

    /// Replaces the value, announces that, and returns the value before.
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|before| std::mem::swap(before, &mut value));
        value
    }

    /// Lets `modify` change the value, and announces that. `modify` runs under the lock of the
    /// channel, so it must not use the channel.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Same as [`Sender::send_modify`], but announces nothing if `modify` returns false. Returns
    /// what `modify` returned.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut state = self.shared.state();
        let is_modified = modify(&mut state.value);
        if is_modified {
            state.changes += 1;
            // Released first, because a woken receiver takes it.
            drop(state);
            self.shared.changed.notify_waiters();
        }
        is_modified
    }

    /// The number of receivers that exist.
    pub fn receiver_count(&self) -> usize {
        self.shared.state().receivers
    }

    /// Ready when no receiver exists.
    pub async fn closed(&self) {
        self.shared.find(&self.shared.unwatched, |state| (state.receivers == 0).then_some(())).await;
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_waiters();
    }
}

impl<T> Receiver<T> {
    /// The value. A change of it still counts as unseen.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.state())
    }

    /// The value, whose changes count as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.state();
        self.seen = state.changes;
        Ref(state)
    }

    /// Whether the sender is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.state().is_closed
    }

    /// Ready when there is a change that this receiver has not seen, which then counts as seen.
    ///
    /// # Errors
    /// [`Closed`] if the sender is gone and all changes were seen.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let Self { shared, seen } = self;
        let look = |state: &State<T>| {
            if *seen != state.changes {
                *seen = state.changes;
                return Some(Ok(()));
            }
            state.is_closed.then_some(Err(Closed))
        };
        shared.find(&shared.changed, look).await
    }

    /// Shows the value to `find`, and again after each change, until it returns something. All
    /// changes until then count as seen. `find` runs under the lock of the channel, so it must not
    /// use the channel.
    ///
    /// # Errors
    /// [`Closed`] if the sender is gone and `find` returns nothing for the last value.
    pub async fn wait_for<F>(&mut self, mut find: impl FnMut(&T) -> Option<F>) -> Result<F, Closed> {
        let Self { shared, seen } = self;
        let look = |state: &State<T>| {
            *seen = state.changes;
            find(&state.value).map(Ok).or(state.is_closed.then_some(Err(Closed)))
        };
        shared.find(&shared.changed, look).await
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.state().receivers += 1;
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.receivers -= 1;
        if state.receivers == 0 {
            drop(state);
            self.shared.unwatched.notify_waiters();
        }
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the sender is gone")
    }
}

impl std::error::Error for Closed {}

impl<T> Shared<T> {
    /// Poison is ignored: the numbers are consistent after each operation, and a value that a panic
    /// left half changed was not announced.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the state to `look`, and again after each notification, until it returns something.
    async fn find<F>(&self, event: &Notify, mut look: impl FnMut(&State<T>) -> Option<F>) -> F {
        loop {
            // Made before the look: it also receives a notification that comes after the look and
            // before its first poll. That poll puts it at the end of the queue.
            let notified = event.notified();
            let found = look(&self.state());
            if let Some(found) = found {
                return found;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests;
