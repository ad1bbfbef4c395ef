//! A message channel within one process: a simulation gives its ends to two processes that it
//! simulates.
//!
//! Invariants: messages arrive in the order in which they were sent. A dropped end closes both
//! directions: the other end still receives the messages sent before, and then the end.

use crate::message_channel::{MessageChannel, Passed, Received};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use threads::{Condvar, Mutex, MutexGuard};

/// One end.
#[derive(Debug)]
pub(crate) struct MemoryChannel {
    incoming: Arc<Direction>,
    outgoing: Arc<Direction>,
    /// The longest wait for a message; `None` without a limit.
    within: Mutex<Option<Duration>>,
}

#[derive(Debug, Default)]
struct Direction {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<(Vec<u8>, Option<MessageChannel>)>,
    is_closed: bool,
}

impl MemoryChannel {
    /// Two connected ends.
    pub(crate) fn pair() -> (Self, Self) {
        let (one, other) = (Arc::<Direction>::default(), Arc::<Direction>::default());
        let end = |incoming: &Arc<Direction>, outgoing: &Arc<Direction>| Self {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            within: Mutex::new(None),
        };
        (end(&one, &other), end(&other, &one))
    }

    /// Limits the time of each later call.
    pub(crate) fn limit_time(&self, time: Duration) {
        *lock(&self.within) = Some(time);
    }

    /// Sends a message, and another channel with it.
    ///
    /// # Errors
    /// `BrokenPipe` if the other end is closed.
    pub(crate) fn send(&self, message: &[u8], passed: Option<MessageChannel>) -> io::Result<()> {
        let mut state = lock(&self.outgoing.state);
        if state.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.messages.push_back((message.to_vec(), passed));
        drop(state);
        self.outgoing.changed.notify_all();
        Ok(())
    }

    /// Waits for the next message. `None`: the other end is closed.
    ///
    /// # Errors
    /// `WouldBlock` if none arrives within the limit, as a socket reports it.
    pub(crate) fn receive(&self) -> io::Result<Option<Received>> {
        let within = *lock(&self.within);
        let state = lock(&self.incoming.state);
        let waits = |state: &mut State| state.messages.is_empty() && !state.is_closed;
        let mut state = match within {
            None => self.incoming.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner),
            Some(within) => {
                let waited = self.incoming.changed.wait_timeout_while(state, within, waits);
                let (state, is_late) = waited.unwrap_or_else(PoisonError::into_inner);
                if is_late {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                state
            }
        };
        let received = state.messages.pop_front();
        Ok(received.map(|(message, passed)| (message, passed.map(Passed::Channel))))
    }
}

impl Drop for MemoryChannel {
    fn drop(&mut self) {
        for direction in [&self.incoming, &self.outgoing] {
            lock(&direction.state).is_closed = true;
            direction.changed.notify_all();
        }
        // The messages have no receiver any more, and a peer may wait for the end of a channel
        // among them.
        let unread = std::mem::take(&mut lock(&self.incoming.state).messages);
        drop(unread);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
