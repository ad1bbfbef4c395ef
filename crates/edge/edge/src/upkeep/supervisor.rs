//! Background threads and tasks that must live as long as the edge.
//!
//! Invariants: a thread or task that ends although nothing has told it to is counted, reported as
//! an error and started again after a pause. A thread is started again on the same system thread,
//! so a system that refuses new threads cannot prevent it. Whether the content of a lock may be
//! used after a panic is decided where the lock is taken.
//!
//! Tasks for a single connection, fetch or purge are not supervised: their panic costs what they
//! worked on, and the runtime goes on.

use crate::memory::ending::Ending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use threads::JoinHandle;
use tokio::task::{AbortHandle, JoinSet};

/// Pause before a thread or task is started again for the first time. It doubles each time, so that
/// one that always fails costs neither a core nor the log.
const PAUSE: Duration = Duration::from_millis(10);

/// Longest such pause. It is shorter than the time in which the shutdown waits for a thread.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Number of unexpected ends in this process.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Number of panics in this process, also those of tasks that nobody supervises.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How the work of a thread has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadEnd {
    /// The thread has finished its work, or another thread has ended it.
    Due,
    /// The thread is still needed.
    Early,
}

impl ThreadEnd {
    /// The end of work that is needed until the edge quits.
    pub(crate) fn of(ending: &Ending) -> Self {
        if ending.is_quitting() { Self::Due } else { Self::Early }
    }
}

/// Number of threads, tasks and jobs that have ended unexpectedly.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Counts a panic. The program's panic hook calls it.
pub fn count_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Number of panics in this process.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Starts a thread that does `work`, and does it again after each unexpected end.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(
    name: &str,
    work: impl FnMut() -> ThreadEnd + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let thread = name.to_owned();
    threads::spawn(name, move || keep(&thread, work))
}

/// Spawns a task that does `work` on `state` until the drain begins, and does it again after each
/// unexpected end. Aborting the returned handle ends the task at once. Must be called in the
/// context of a runtime.
pub(crate) fn start_task<S, F>(
    name: &'static str,
    state: &Arc<S>,
    mut work: impl FnMut(Arc<S>) -> F + Send + 'static,
) -> AbortHandle
where
    S: AsRef<Ending> + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let state = Arc::clone(state);
    let supervised = tokio::spawn(async move {
        let mut pause = PAUSE;
        loop {
            // The set aborts the work when it is dropped.
            let mut running = JoinSet::new();
            running.spawn(work(Arc::clone(&state)));
            match running.join_next().await {
                Some(Err(error)) if error.is_panic() => lose("task", name, "it panicked"),
                Some(Ok(())) if !(*state).as_ref().is_draining() => lose("task", name, "it ended early"),
                // The drain has begun, or the runtime is gone.
                Some(Ok(()) | Err(_)) | None => return,
            }
            tokio::time::sleep(pause).await;
            pause = longer(pause);
        }
    });
    supervised.abort_handle()
}

/// Does a job of the thread `name`, which survives a panic of the job.
pub(crate) fn survive(name: &str, job: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        lose("job of the thread", name, "it panicked");
    }
}

fn keep(name: &str, mut work: impl FnMut() -> ThreadEnd) {
    let mut pause = PAUSE;
    loop {
        match catch_unwind(AssertUnwindSafe(&mut work)) {
            Ok(ThreadEnd::Due) => return,
            Ok(ThreadEnd::Early) => lose("thread", name, "it ended early"),
            Err(_) => lose("thread", name, "it panicked"),
        }
        threads::sleep(pause);
        pause = longer(pause);
    }
}

fn longer(pause: Duration) -> Duration {
    (2 * pause).min(PAUSE_MAX)
}

/// Counts and reports an unexpected end. The panic's own message came before, from the panic hook.
fn lose(kind: &str, name: &str, why: &str) {
    LOST.fetch_add(1, Ordering::Relaxed);
    tracing::error!("the {kind} {name} has ended unexpectedly: {why}; please report this as a bug");
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, PAUSE_MAX, ThreadEnd, longer, lost, start, start_task, survive};
    use crate::shared::Shared;
    use crate::system::System;
    use config::EdgePlan;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn thread_that_panics_or_ends_early_is_counted_and_goes_on() {
        let before = lost();
        let (done, runs) = channel();
        let mut count = 0;
        let thread = start("petasos-test", move || {
            count += 1;
            done.send((count, std::thread::current().id())).unwrap();
            match count {
                1 => panic!("intended by the test"),
                2 => ThreadEnd::Early,
                _ => ThreadEnd::Due,
            }
        });
        thread.unwrap().join().unwrap();
        let runs: Vec<_> = runs.into_iter().collect();
        assert_eq!(runs.len(), 3, "the work ends when it was due");
        assert!(runs.iter().all(|(_, thread)| *thread == runs[0].1), "on one thread");
        assert!(lost() >= before + 2, "other tests count here too");
    }

    #[tokio::test]
    async fn panicking_task_is_counted_and_respawned_until_the_drain() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        let (before, runs) = (lost(), Arc::new(AtomicUsize::new(0)));
        let (ended, mut ends) = tokio::sync::mpsc::channel(1);
        let count = Arc::clone(&runs);
        start_task("test", &shared, move |shared| {
            let (run, ended) = (count.fetch_add(1, Ordering::SeqCst), ended.clone());
            async move {
                assert!(run > 0, "intended by the test");
                shared.drain();
                ended.send(()).await.unwrap();
            }
        });
        assert_eq!(tokio::time::timeout(testkit::PATIENCE, ends.recv()).await, Ok(Some(())));
        // The channel closes with the task, which is not started a third time.
        assert_eq!(tokio::time::timeout(testkit::PATIENCE, ends.recv()).await, Ok(None));
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        assert!(lost() > before);
    }

    #[test]
    fn panic_of_a_job_is_counted_and_survived() {
        let before = lost();
        survive("petasos-test", || panic!("intended by the test"));
        assert!(lost() > before);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses: Vec<_> =
            std::iter::successors(Some(PAUSE), |pause| Some(longer(*pause))).take(9).collect();
        assert!(pauses.is_sorted() && pauses[1] == 2 * PAUSE && pauses[8] == PAUSE_MAX);
    }
}
