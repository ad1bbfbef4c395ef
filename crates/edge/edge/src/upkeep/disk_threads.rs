//! A pool of threads that may block on a disk, so that workers never do.
//!
//! Invariants: the pool has at most [`THREADS_MAX`] threads, and none is ever joined. A thread that
//! the kernel holds in disk sleep ends when the disk answers; neither a request nor the shutdown
//! waits for it.

use crate::upkeep::supervisor::{self, ThreadEnd};
use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of threads. At the same time, 8 may read stored responses, 4 read ahead for
/// downloads, 4 work on the spool and 4 write purges. Each of these uses finds a thread even if all
/// others hang.
const THREADS_MAX: usize = 22;

/// Maximum number of queued jobs; further ones are refused.
const WAITING_MAX: usize = 1024;

/// How long an idle thread is kept.
const IDLE: Duration = Duration::from_secs(10);

/// The name of each thread.
const THREAD: &str = "petasos-io";

type DiskJob = Box<dyn FnOnce() + Send>;

static THREADS: DiskThreads = DiskThreads { state: Mutex::new(ThreadsState::NEW), wake: Condvar::new() };

struct DiskThreads {
    state: Mutex<ThreadsState>,
    wake: Condvar,
}

struct ThreadsState {
    jobs: VecDeque<DiskJob>,
    threads: usize,
    idle: usize,
    /// Number of calls of `dismiss`.
    dismissals: u64,
}

/// Runs `work` on the pool. `None` if it does not finish `within` this time, or if it was refused.
/// Work that is late still runs, but its result is dropped.
pub(crate) async fn run<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = begin(work);
    tokio::time::timeout(within, done).await.ok()?.ok()
}

/// Queues `work` and returns a receiver for its result. The receiver fails if the work was refused.
pub(crate) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    THREADS.add(Box::new(move || {
        // The receiver may have been dropped, and then the result is not needed.
        let _ = sender.send(work());
    }));
    receiver
}

/// Ends the idle threads and thereby their heaps. Free pages go back to the system, and other
/// threads take over the rest.
pub(crate) fn dismiss() {
    THREADS.dismiss();
}

/// Blocking variant of [`run`].
pub(crate) fn run_here<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = sync_channel(1);
    THREADS.add(Box::new(move || {
        // The receiver may have been dropped, and then the result is not needed.
        let _ = sender.send(work());
    }));
    receiver.recv_timeout(within).ok()
}

impl ThreadsState {
    const NEW: Self = Self { jobs: VecDeque::new(), threads: 0, idle: 0, dismissals: 0 };

    /// Records that a thread could not be created. If none is left, returns the queued jobs so that
    /// they are refused, because no thread would run them.
    fn lose_thread(&mut self) -> VecDeque<DiskJob> {
        self.threads -= 1;
        if self.threads == 0 { std::mem::take(&mut self.jobs) } else { VecDeque::new() }
    }
}

impl DiskThreads {
    fn state(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dismiss(&self) {
        self.state().dismissals += 1;
        self.wake.notify_all();
    }

    /// Queues a job. A refused job is dropped, which closes its result channel.
    fn add(&'static self, job: DiskJob) {
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
            let work = move || {
                self.work();
                // It was idle or dismissed; the next job gets a new thread.
                ThreadEnd::Due
            };
            if supervisor::start(THREAD, work).is_err() {
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
                supervisor::survive(THREAD, job);
                state = self.state();
                continue;
            }
            state.idle += 1;
            let dismissals = state.dismissals;
            let stays = |state: &mut ThreadsState| state.jobs.is_empty() && state.dismissals == dismissals;
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
    use super::{DiskJob, DiskThreads, THREADS_MAX, ThreadsState, begin, run_here};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    #[test]
    fn queued_work_is_refused_if_there_is_no_thread() {
        let (heard, hears) = channel::<()>();
        let queued = || ThreadsState {
            threads: 2,
            jobs: [Box::new(move || drop(heard)) as DiskJob].into(),
            ..ThreadsState::NEW
        };
        let mut state = queued();
        assert!(state.lose_thread().is_empty() && state.jobs.len() == 1, "the other thread does it");
        drop(state.lose_thread());
        assert!(state.jobs.is_empty() && hears.recv().is_err(), "the caller learns of the refusal");
    }

    #[test]
    fn dismissed_threads_end_and_later_work_gets_new_ones() {
        static OWN: DiskThreads = DiskThreads { state: Mutex::new(ThreadsState::NEW), wake: Condvar::new() };
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
                    // Ends when the gate is dropped.
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
