//! A pool of threads that may block on a disk or compute for long, so that workers never do.
//!
//! Invariants: the pool has at most [`THREADS_MAX`] threads, and none is ever joined. A thread that
//! the kernel holds in disk sleep ends when the disk answers; neither a request nor the shutdown
//! waits for it.

use crate::upkeep::supervisor::{self, ThreadEnd};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use threads::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Maximum number of threads. At the same time, 8 may read stored responses, 4 read ahead for
/// downloads, 4 work on the spool, 4 write purges, 2 check passwords, and 3 read and write the
/// values of minutes and the weekly summary. Each of these uses finds a thread even if all others
/// hang.
const THREADS_MAX: usize = 27;

/// Maximum number of queued jobs; further ones are refused.
const WAITING_MAX: usize = 1024;

/// How long an idle thread is kept.
const IDLE: Duration = Duration::from_secs(10);

/// The name of each thread.
const THREAD: &str = "petasos-io";

type DiskJob = Box<dyn FnOnce() + Send>;

/// The pool of an edge. Clones are the same pool.
#[derive(Clone, Default)]
pub(crate) struct DiskThreads(Arc<DiskPool>);

#[derive(Default)]
struct DiskPool {
    state: Mutex<ThreadsState>,
    wake: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    jobs: VecDeque<DiskJob>,
    threads: usize,
    idle: usize,
    /// Number of calls of `dismiss`.
    dismissals: u64,
}

impl DiskThreads {
    /// Runs `work` on the pool. `None` if it does not finish `within` this time, or if it was
    /// refused. Work that is late still runs, but its result is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let done = self.begin(work);
        tokio::time::timeout(within, done).await.ok()?.ok()
    }

    /// Queues `work` and returns a receiver for its result. The receiver fails if the work was
    /// refused.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.add(Box::new(move || {
            // The receiver may have been dropped, and then the result is not needed.
            let _ = sender.send(work());
        }));
        receiver
    }

    /// Blocking variant of [`DiskThreads::run`].
    pub(crate) fn run_here<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        threads::wait_for(within, self.begin(work))?.ok()
    }

    /// Drops the queued jobs, which may hold the state that holds the pool.
    pub(crate) fn abandon(&self) {
        // They are dropped without the lock, because a drop may queue another job.
        let jobs = std::mem::take(&mut self.0.state().jobs);
        drop(jobs);
    }

    /// Ends the threads and thereby their heaps: idle ones now, busy ones after their job, unless
    /// another job waits. Free pages go back to the system, and other threads take over the rest.
    pub(crate) fn dismiss(&self) {
        self.0.state().dismissals += 1;
        self.0.wake.notify_all();
    }
}

impl fmt::Debug for DiskThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskThreads").finish_non_exhaustive()
    }
}

impl ThreadsState {
    /// Records that a thread could not be created. If none is left, returns the queued jobs so that
    /// they are refused, because no thread would run them.
    fn lose_thread(&mut self) -> VecDeque<DiskJob> {
        self.threads -= 1;
        if self.threads == 0 { std::mem::take(&mut self.jobs) } else { VecDeque::new() }
    }
}

impl DiskPool {
    fn state(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job. A refused job is dropped, which closes its result channel.
    fn add(self: &Arc<Self>, job: DiskJob) {
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
            let pool = Arc::clone(self);
            let work = move || {
                pool.work();
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
            let dismissals = state.dismissals;
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                supervisor::survive(THREAD, job);
                state = self.state();
                // The end of an edge dismisses also a thread that a hanging disk holds.
                if state.dismissals != dismissals && state.jobs.is_empty() {
                    state.threads -= 1;
                    return;
                }
                continue;
            }
            state.idle += 1;
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
    use super::{DiskJob, DiskThreads, IDLE, THREADS_MAX, ThreadsState};
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn queued_work_is_refused_if_there_is_no_thread() {
        let (heard, hears) = channel::<()>();
        let queued = || ThreadsState {
            threads: 2,
            jobs: [Box::new(move || drop(heard)) as DiskJob].into(),
            ..ThreadsState::default()
        };
        let mut state = queued();
        assert!(state.lose_thread().is_empty() && state.jobs.len() == 1, "the other thread does it");
        drop(state.lose_thread());
        assert!(state.jobs.is_empty() && hears.recv().is_err(), "the caller learns of the refusal");
    }

    #[test]
    fn dismissed_threads_end_and_later_work_gets_new_ones() {
        let pool = DiskThreads::default();
        let (done, results) = channel();
        for number in 0..2 {
            let done = done.clone();
            drop(pool.begin(move || done.send(number).unwrap()));
            assert_eq!(results.recv(), Ok(number));
            testkit::eventually("an idle thread", || pool.0.state().idle == 1);
            pool.dismiss();
            testkit::eventually("no thread", || pool.0.state().threads == 0);
        }
    }

    #[test]
    fn thread_dismissed_during_its_job_ends_after_it() {
        let pool = DiskThreads::default();
        let (release, gate) = channel::<()>();
        let (begin, begun) = channel();
        let job = pool.begin(move || {
            begin.send(()).unwrap();
            // Ends when `release` is dropped.
            let _ = gate.recv();
        });
        begun.recv().unwrap();
        pool.dismiss();
        let released = Instant::now();
        drop(release);
        testkit::eventually("no thread", || pool.0.state().threads == 0);
        assert!(released.elapsed() < IDLE, "it did not wait for another job");
        drop(job);
    }

    #[test]
    fn stuck_work_is_bounded_and_given_up_in_time() {
        let pool = DiskThreads::default();
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let begun = Arc::new(AtomicUsize::new(0));
        let stuck: Vec<_> = (0..2 * THREADS_MAX)
            .map(|_| {
                let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
                pool.begin(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    // Ends when the gate is dropped.
                    drop(gate.lock().map(|gate| gate.recv()));
                })
            })
            .collect();
        assert_eq!(pool.run_here(Duration::from_millis(20), || 1), None, "no thread is free");
        assert!(begun.load(Ordering::SeqCst) <= THREADS_MAX);
        drop(release);
        assert_eq!(pool.run_here(Duration::from_secs(60), || 2), Some(2), "the threads work on");
        drop(stuck);
    }
}
