//! Threads of the process that may wait for a disk, so that workers never do.
//!
//! Invariant: there are at most [`THREADS_MAX`] of them, and none is ever joined: a thread that the kernel holds in
//! disk sleep ends when the disk answers, and neither a request nor the end of the edge waits for that.

use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The most threads. More than may read stored responses (8), read ahead for downloads (4), work on the spool (4) and
/// write purges down (4) at a time, so that each of these finds one while the others hang.
const THREADS_MAX: usize = 22;

/// The most pieces of work that wait for a thread; further ones are refused.
const WAITING_MAX: usize = 1024;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

static THREADS: DiskThreads = DiskThreads { state: Mutex::new(State::NEW), wake: Condvar::new() };

struct DiskThreads {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// How often idle threads were dismissed.
    dismissals: u64,
}

/// Has `work` done; `None` if it is not done `within` this time, or there was no thread for it. Then it may be done
/// later, unheard.
pub(crate) async fn run<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = begin(work);
    tokio::time::timeout(within, done).await.ok()?.ok()
}

/// Has `work` done, and gives what comes of it once it is done, however long that takes.
pub(crate) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    THREADS.add(Box::new(move || {
        // An asker that has given up does not want to know.
        let _ = sender.send(work());
    }));
    receiver
}

/// Ends the threads that have no work, and with them their heaps: pages that are free become the system's, and other
/// threads take over the rest.
pub(crate) fn dismiss() {
    THREADS.dismiss();
}

/// As [`run`] for a thread that may wait so long.
pub(crate) fn run_here<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = sync_channel(1);
    THREADS.add(Box::new(move || {
        // An asker that has given up does not want to know.
        let _ = sender.send(work());
    }));
    receiver.recv_timeout(within).ok()
}

impl State {
    const NEW: Self = Self { jobs: VecDeque::new(), threads: 0, idle: 0, dismissals: 0 };

    /// There is a thread less, because the system had none. Without any the queued work is refused: nothing would
    /// begin it.
    fn lose_thread(&mut self) -> VecDeque<Job> {
        self.threads -= 1;
        if self.threads == 0 { std::mem::take(&mut self.jobs) } else { VecDeque::new() }
    }
}

impl DiskThreads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dismiss(&self) {
        self.state().dismissals += 1;
        self.wake.notify_all();
    }

    /// Work that is refused is dropped, and with it whatever tells its asker.
    fn add(&'static self, job: Job) {
        let mut state = self.state();
        if state.jobs.len() >= WAITING_MAX {
            return;
        }
        state.jobs.push_back(job);
        let is_wanting = state.idle < state.jobs.len() && state.threads < THREADS_MAX;
        state.threads += usize::from(is_wanting);
        drop(state);
        self.wake.notify_one();
        if is_wanting {
            let thread = std::thread::Builder::new().name("petasos-io".to_owned());
            if thread.spawn(move || self.work()).is_err() {
                let refused = self.state().lose_thread();
                drop(refused);
            }
        }
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // What has panicked says so by itself, and must not cost the thread its place.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                state = self.state();
                continue;
            }
            state.idle += 1;
            let dismissals = state.dismissals;
            let stays = |state: &mut State| state.jobs.is_empty() && state.dismissals == dismissals;
            let waited = self.wake.wait_timeout_while(state, IDLE, stays);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
            if state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskThreads, Job, State, THREADS_MAX, begin, run_here};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    #[test]
    fn work_without_any_thread_is_refused() {
        let (heard, hears) = channel::<()>();
        let queued =
            || State { threads: 2, jobs: [Box::new(move || drop(heard)) as Job].into(), ..State::NEW };
        let mut state = queued();
        assert!(state.lose_thread().is_empty() && state.jobs.len() == 1, "the other thread does it");
        drop(state.lose_thread());
        assert!(state.jobs.is_empty() && hears.recv().is_err(), "its asker is told");
    }

    #[test]
    fn dismissed_threads_end_and_later_work_gets_new_ones() {
        static OWN: DiskThreads = DiskThreads { state: Mutex::new(State::NEW), wake: Condvar::new() };
        let (done, results) = channel();
        for number in 0..2 {
            let done = done.clone();
            OWN.add(Box::new(move || done.send(number).unwrap()));
            assert_eq!(results.recv(), Ok(number));
            testkit::eventually("an idle thread", || OWN.state().idle == 1);
            OWN.dismiss();
            testkit::eventually("no thread", || OWN.state().threads == 0);
        }
    }

    #[test]
    fn stuck_work_is_bounded_and_given_up_in_time() {
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let begun = Arc::new(AtomicUsize::new(0));
        let stuck: Vec<_> = (0..2 * THREADS_MAX)
            .map(|_| {
                let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
                begin(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    // It ends when the gate is gone.
                    drop(gate.lock().map(|gate| gate.recv()));
                })
            })
            .collect();
        assert_eq!(run_here(Duration::from_millis(20), || 1), None, "no thread is free");
        assert!(begun.load(Ordering::SeqCst) <= THREADS_MAX);
        drop(release);
        assert_eq!(run_here(Duration::from_secs(60), || 2), Some(2), "the threads work on");
        drop(stuck);
    }
}
