//! Starting threads, their names and their pauses.
//!
//! Invariant: in a simulation no system thread is started.

use crate::scheduler;
use std::any::Any;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often a simulated thread that joins another one looks whether that one has ended.
const TICK: Duration = Duration::from_millis(1);

/// How often a simulated thread looks into a channel of the standard library.
const RECEIVING_TICK: Duration = Duration::from_millis(100);

/// A thread that was started.
#[derive(Debug)]
pub struct JoinHandle<T>(Handle<T>);

#[derive(Debug)]
enum Handle<T> {
    System(thread::JoinHandle<T>),
    Simulated { name: String, result: Arc<SimulatedResult<T>> },
}

/// The end of a simulated thread.
#[derive(Debug)]
struct SimulatedResult<T> {
    has_ended: AtomicBool,
    value: std::sync::Mutex<Option<T>>,
}

/// Marks a simulated thread as ended, also when it panics.
struct EndOnDrop<T>(Arc<SimulatedResult<T>>);

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

/// The name of a thread, taken when it was running.
#[derive(Clone, Debug)]
pub struct ThreadName(Name);

#[derive(Clone, Debug)]
enum Name {
    System(Thread),
    Simulated(Arc<str>),
}

/// Starts a thread that runs `main`.
///
/// # Errors
/// If the system cannot create a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    main: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let Some(scheduler) = scheduler::current() else {
        let handle = thread::Builder::new().name(name.to_owned()).spawn(main)?;
        return Ok(JoinHandle(Handle::System(handle)));
    };
    let result =
        Arc::new(SimulatedResult { has_ended: AtomicBool::new(false), value: std::sync::Mutex::new(None) });
    let end = EndOnDrop(Arc::clone(&result));
    scheduler.spawn(
        name,
        Box::new(move || {
            let value = main();
            *end.0.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }),
    );
    Ok(JoinHandle(Handle::Simulated { name: name.to_owned(), result }))
}

impl<T> JoinHandle<T> {
    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::System(handle) => handle.is_finished(),
            Handle::Simulated { result, .. } => result.has_ended.load(Ordering::Relaxed),
        }
    }

    /// The name of the thread; `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Handle::System(handle) => handle.thread().name(),
            Handle::Simulated { name, .. } => Some(name),
        }
    }

    /// Waits for the end of the thread and returns its result.
    ///
    /// # Errors
    /// The value of the panic that ended the thread; in a simulation, a text instead.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        match self.0 {
            Handle::System(handle) => handle.join(),
            Handle::Simulated { result, .. } => loop {
                let value = result.value.lock().unwrap_or_else(PoisonError::into_inner).take();
                match value {
                    Some(value) => return Ok(value),
                    None if result.has_ended.load(Ordering::Relaxed) => {
                        return Err(Box::new("the simulated thread panicked"));
                    }
                    None => sleep(TICK),
                }
            },
        }
    }
}

impl ThreadName {
    /// The name; `None` if the thread has none.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Name::System(thread) => thread.name(),
            Name::Simulated(name) => Some(name),
        }
    }
}

/// The name of the calling thread. On the system this costs no copy.
pub fn current_name() -> ThreadName {
    let simulated = scheduler::current().and_then(|scheduler| scheduler.thread_name());
    ThreadName(simulated.map_or_else(|| Name::System(thread::current()), Name::Simulated))
}

/// Suspends the calling thread for `duration`.
pub fn sleep(duration: Duration) {
    match scheduler::current() {
        Some(scheduler) => {
            // Never ready, so it returns when the time is over.
            scheduler.wait(Some(duration), &mut |_| Poll::Pending);
        }
        None => thread::sleep(duration),
    }
}

/// Waits for the next value of a channel; `None` when all its senders are gone. The channel wakes
/// no simulated thread, which therefore looks from time to time.
pub fn receive<T>(values: &Receiver<T>) -> Option<T> {
    if scheduler::current().is_none() {
        return values.recv().ok();
    }
    loop {
        match values.try_recv() {
            Ok(value) => return Some(value),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => sleep(RECEIVING_TICK),
        }
    }
}

/// Raises the nice value of the calling thread to `nice`, so that others have priority. This needs
/// no privilege; if it fails, the thread keeps its priority.
pub fn give_way(nice: i32) {
    if scheduler::current().is_none() {
        // On Linux this affects only the calling thread.
        let _ = rustix::process::setpriority_process(None, nice);
    }
}

/// Runs work that would occupy a worker for too long on a thread for such work, and waits for its
/// result. `None` if it panicked or if no thread was available.
pub async fn run_aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if scheduler::current().is_none() {
        return tokio::task::spawn_blocking(work).await.ok();
    }
    let (done, result) = oneshot::channel();
    // The receiver may have been dropped, and then the result is not needed.
    spawn("aside", move || drop(done.send(work()))).ok()?;
    result.await.ok()
}

/// Blocks the calling thread until `future` is ready, at most `within`; `None` if it is late. The
/// future must not need an event loop.
pub fn wait_for<F: Future>(within: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut output = None;
    let mut poll =
        |context: &mut Context<'_>| future.as_mut().poll(context).map(|ready| output = Some(ready));
    match scheduler::current() {
        Some(scheduler) => {
            scheduler.wait(Some(within), &mut poll);
        }
        None => wait_on_system(within, &mut poll),
    }
    output
}

/// Wakes the system thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[expect(clippy::disallowed_methods, reason = "parking may end early, so the rest of its time is measured")]
fn wait_on_system(within: Duration, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let begun = Instant::now();
    while poll(&mut context).is_pending() {
        let Some(left) = within.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else { return };
        thread::park_timeout(left);
    }
}
