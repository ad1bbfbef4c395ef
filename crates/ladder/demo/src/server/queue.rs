//! A bounded queue between the front and its workers.
//!
//! Invariant: every accepted item is handed out, even if the queue is closed before.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A bounded queue.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    max: usize,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    /// A queue for at most `max` waiting items.
    pub(super) fn new(max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), max }
    }

    /// Adds an item. Returns the item if the queue is full or closed.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed || state.waiting.len() >= self.max {
            return Err(item);
        }
        state.waiting.push_back(item);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for the next item. `None` if the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.waiting.pop_front() {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue for new items, and wakes all waiting threads.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Ignoring poison is safe, because no code can panic between two changes of the state.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    #[test]
    fn full_or_closed_queue_refuses_and_is_still_emptied() {
        let queue = Queue::new(2);
        assert_eq!((queue.push(1), queue.push(2), queue.push(3)), (Ok(()), Ok(()), Err(3)));
        queue.close();
        assert_eq!(queue.push(4), Err(4));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(1), Some(2), None));
    }

    #[test]
    fn waiting_worker_is_woken() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| (queue.pop(), queue.pop()));
            queue.push(7).unwrap();
            queue.close();
            assert_eq!(worker.join().unwrap(), (Some(7), None));
        });
    }
}
