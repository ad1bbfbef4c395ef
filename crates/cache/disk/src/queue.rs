//! The queue of operations for the writer.
//!
//! Invariant: an operation becomes visible to the writer under the same lock under which it gets
//! its number. So when the writer has processed all visible operations, it has processed all
//! numbers assigned so far.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use platform::sound;
use threads::{Condvar, Mutex, MutexGuard};

use crate::fill_shared::FillShared;
use crate::record::{Location, Record};

/// The interval at which a caller that waits for the writer's end checks whether the disk hangs.
const HOPE: Duration = Duration::from_millis(50);

/// Called once, with the object's location or with `None` if it could not be written.
pub(crate) type Done = Box<dyn FnOnce(Option<Location>) + Send>;

/// A pending callback. If it is dropped without an answer, it is called with `None`.
pub(crate) struct WriteCallback(Option<Done>);

impl WriteCallback {
    pub(crate) const fn new(done: Done) -> Self {
        Self(Some(done))
    }

    pub(crate) fn give(mut self, location: Location) {
        if let Some(done) = self.0.take() {
            done(Some(location));
        }
    }
}

impl Drop for WriteCallback {
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
        done: WriteCallback,
    },
    /// A fill has received bytes.
    Fill(Arc<FillShared>),
    /// A fill is complete.
    Finish {
        fill: Arc<FillShared>,
        index: Bytes,
        head: Bytes,
        sequence: u64,
        order: u64,
        done: WriteCallback,
    },
    /// A fill was abandoned by its owner.
    Abandon(Arc<FillShared>),
}

/// The operations that the writer takes at once.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    /// Segments with notes.
    pub(crate) noted: BTreeSet<u32>,
    /// After this batch all operations up to this number are processed. `None` if there is nothing
    /// new.
    pub(crate) upto: Option<u64>,
    /// The bytes of queue space to release when the batch is processed.
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct QueueState {
    commands: VecDeque<(Command, u64, Option<u64>)>,
    noted: BTreeSet<u32>,
    bytes: u64,
    /// The last assigned number.
    accepted: u64,
    /// The last number that the writer has taken.
    taken: u64,
    is_closing: bool,
    is_running: bool,
    is_finished: bool,
    /// Fills that wait for room.
    waiting: Vec<Waker>,
}

/// The queue, limited by its size in bytes.
pub(crate) struct WriteQueue {
    bytes_max: u64,
    state: Mutex<QueueState>,
    wake: Condvar,
    finished: Condvar,
}

impl WriteQueue {
    /// An empty queue with room for `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default(), wake: Condvar::new(), finished: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        sound(self.state.lock())
    }

    /// Assigns a number to an operation and queues it. `command` is called with the number. Returns
    /// false if there is no room or the tier is closed.
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

    /// Queues a step of a fill, which takes no room itself. Returns false if the tier is closed.
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

    /// Takes room for bytes of a fill. Returns false if there is none.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let has_room = !state.is_closing && state.bytes.saturating_add(bytes) <= self.bytes_max;
        if has_room {
            state.bytes += bytes;
        }
        has_room
    }

    /// Releases room and wakes the fills that wait for it.
    pub(crate) fn release(&self, bytes: u64) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether fills may go on. If not, `waker` is woken when the writer has released some room.
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

    /// Assigns a number and calls `note` with it, under the lock. `note` must add a note to the
    /// segment `id`. Lock order: queue, then segment.
    pub(crate) fn note(&self, id: u32, note: impl FnOnce(u64)) {
        let mut state = self.state();
        state.accepted += 1;
        note(state.accepted);
        state.noted.insert(id);
        drop(state);
        self.wake.notify_one();
    }

    /// Makes the writer look at a segment.
    pub(crate) fn look_at(&self, id: u32) {
        self.state().noted.insert(id);
        self.wake.notify_one();
    }

    /// Takes pending operations: at least one if there is any, and little more than `bytes` bytes.
    /// Never blocks.
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
        if !batch.commands.is_empty() || !batch.noted.is_empty() {
            batch.upto = Some(upto);
        }
        batch
    }

    /// The last assigned number, and the bytes in use.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let state = self.state();
        (state.accepted, state.bytes)
    }

    /// Blocks until there is something to do, at most for `duration`.
    pub(crate) fn wait(&self, duration: Duration) {
        let idle =
            |state: &mut QueueState| state.commands.is_empty() && state.noted.is_empty() && !state.is_closing;
        let waited = self.wake.wait_timeout_while(self.state(), duration, idle);
        drop(sound(waited));
    }

    /// Closes the queue: no operation is accepted any more.
    pub(crate) fn close(&self) {
        self.state().is_closing = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state().is_closing
    }

    /// Notes that the writer runs on a thread, which will call [`WriteQueue::finish`].
    pub(crate) fn begin(&self) {
        self.state().is_running = true;
    }

    /// Notes that the writer has ended.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.is_finished = true;
        state.is_closing = true;
        let waiting = std::mem::take(&mut state.waiting);
        let commands = std::mem::take(&mut state.commands);
        drop(state);
        // This answers the callers of these operations with `None`. It happens without the lock,
        // because they may use the queue.
        drop(commands);
        self.finished.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Blocks until a running writer has ended, and returns true; or until `has_hope` returns
    /// false, and returns false.
    pub(crate) fn wait_finished(&self, has_hope: impl Fn() -> bool) -> bool {
        let busy = |state: &mut QueueState| state.is_running && !state.is_finished;
        let mut state = self.state();
        while busy(&mut state) {
            if !has_hope() {
                return false;
            }
            let waited = self.finished.wait_timeout_while(state, HOPE, busy);
            state = sound(waited).0;
        }
        true
    }
}
