//! What waits for the writer.
//!
//! Invariant: an operation gets its number under the lock under which it becomes visible to the writer, so that
//! whoever has processed everything that is visible has processed all numbers up to the last one given.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use crate::fill_shared::FillShared;
use crate::record::{Location, Record};

/// How often it is looked whether a writer that is to end still can.
const HOPE: Duration = Duration::from_millis(50);

/// Called once with where the object is, or `None` if it could not be written.
pub(crate) type Done = Box<dyn FnOnce(Option<Location>) + Send>;

/// The promise to call back, kept also when nobody comes to it.
pub(crate) struct Answer(Option<Done>);

impl Answer {
    pub(crate) const fn new(done: Done) -> Self {
        Self(Some(done))
    }

    pub(crate) fn give(mut self, location: Location) {
        if let Some(done) = self.0.take() {
            done(Some(location));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(None);
        }
    }
}

/// An operation for the writer.
pub(crate) enum Command {
    Write {
        record: Record,
        order: u64,
        done: Answer,
    },
    /// Octets of a body have come.
    Fill(Arc<FillShared>),
    /// A body is complete.
    Finish {
        fill: Arc<FillShared>,
        index: Bytes,
        head: Bytes,
        sequence: u64,
        order: u64,
        done: Answer,
    },
    /// A body is abandoned.
    Abandon(Arc<FillShared>),
}

/// What the writer takes at once.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    /// Segments with notes.
    pub(crate) noted: BTreeSet<u32>,
    /// With this batch everything up to this number is processed; `None`: nothing new.
    pub(crate) upto: Option<u64>,
    /// What the batch gives back to the queue when it is processed, in bytes.
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct State {
    commands: VecDeque<(Command, u64, Option<u64>)>,
    noted: BTreeSet<u32>,
    bytes: u64,
    accepted: u64,
    taken: u64,
    is_closing: bool,
    is_running: bool,
    is_finished: bool,
    waiting: Vec<Waker>,
}

/// The queue, bounded in bytes.
pub(crate) struct Queue {
    bytes_max: u64,
    state: Mutex<State>,
    wake: Condvar,
    finished: Condvar,
}

impl Queue {
    /// An empty queue with room for so many bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default(), wake: Condvar::new(), finished: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation that gets a number, with which `command` is called; not if there is no room or the tier is
    /// closed.
    pub(crate) fn add(&self, bytes: u64, command: impl FnOnce(u64) -> Command) -> bool {
        let mut state = self.state();
        if state.is_closing || state.bytes.saturating_add(bytes) > self.bytes_max {
            return false;
        }
        state.accepted += 1;
        state.bytes += bytes;
        let number = state.accepted;
        state.commands.push_back((command(number), bytes, Some(number)));
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Adds a step of a fill, which takes no room itself.
    pub(crate) fn add_step(&self, command: Command) -> bool {
        let mut state = self.state();
        if state.is_closing {
            return false;
        }
        state.commands.push_back((command, 0, None));
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Takes room for octets of a fill; `false`: there is none.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let has_room = !state.is_closing && state.bytes.saturating_add(bytes) <= self.bytes_max;
        if has_room {
            state.bytes += bytes;
        }
        has_room
    }

    /// Gives room back and lets those who wait for it look again.
    pub(crate) fn release(&self, bytes: u64) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether fills may go on; if not, `waker` is woken when the writer has taken something off.
    pub(crate) fn has_room_for_fills(&self, waker: &Waker, must_wait: impl FnOnce() -> bool) -> bool {
        let mut state = self.state();
        if !state.is_closing && (state.bytes > self.bytes_max / 2 || must_wait()) {
            if !state.waiting.iter().any(|known| known.will_wake(waker)) {
                state.waiting.push(waker.clone());
            }
            return false;
        }
        true
    }

    /// The next number, for something that the segment `id` will have noted before `note` returns.
    pub(crate) fn note(&self, id: u32, note: impl FnOnce(u64)) {
        let mut state = self.state();
        state.accepted += 1;
        note(state.accepted);
        state.noted.insert(id);
        drop(state);
        self.wake.notify_one();
    }

    /// Lets the writer look at a segment.
    pub(crate) fn look_at(&self, id: u32) {
        self.state().noted.insert(id);
        self.wake.notify_one();
    }

    /// Takes what has come, at least one operation and not many more than `bytes` of them. Never blocks.
    pub(crate) fn take(&self, bytes: u64) -> Batch {
        let mut state = self.state();
        let mut batch = Batch { noted: std::mem::take(&mut state.noted), ..Batch::default() };
        while batch.bytes < bytes {
            let Some((command, bytes, number)) = state.commands.pop_front() else { break };
            batch.commands.push(command);
            batch.bytes += bytes;
            state.taken = number.unwrap_or(state.taken);
        }
        let upto = if state.commands.is_empty() { state.accepted } else { state.taken };
        state.taken = upto;
        batch.upto = Some(upto).filter(|_| !batch.commands.is_empty() || !batch.noted.is_empty());
        batch
    }

    /// The last number given, and the room taken, in bytes.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let state = self.state();
        (state.accepted, state.bytes)
    }

    /// Blocks until there is something to do, at most for `duration`.
    pub(crate) fn wait(&self, duration: Duration) {
        let idle =
            |state: &mut State| state.commands.is_empty() && state.noted.is_empty() && !state.is_closing;
        let waited = self.wake.wait_timeout_while(self.state(), duration, idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Nothing is taken any more.
    pub(crate) fn close(&self) {
        self.state().is_closing = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state().is_closing
    }

    /// The writer runs on a thread, and will call [`Queue::finish`].
    pub(crate) fn begin(&self) {
        self.state().is_running = true;
    }

    /// The writer has ended.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.is_finished = true;
        state.is_closing = true;
        let waiting = std::mem::take(&mut state.waiting);
        let commands = std::mem::take(&mut state.commands);
        drop(state);
        // Whoever waits for an answer to these is told that there will be none.
        drop(commands);
        self.finished.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Blocks until a running writer has ended, or there is no more hope for it. `true`: it has ended.
    pub(crate) fn wait_finished(&self, has_hope: impl Fn() -> bool) -> bool {
        let busy = |state: &mut State| state.is_running && !state.is_finished;
        let mut state = self.state();
        while busy(&mut state) {
            if !has_hope() {
                return false;
            }
            let waited = self.finished.wait_timeout_while(state, HOPE, busy);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
