//! Simulated threads: blocking code that takes turns on one system thread.
//!
//! Invariant: a thread runs only while its task is polled, and nothing else runs meanwhile. A
//! thread that waits is suspended, and its task is woken when the wait may be over. The order of
//! the turns follows from tokio's queue and from the given generator.

use crate::coroutine::{Coroutine, Resumed, suspend, unwind};
use crate::pipe::locked;
use crate::{Random, Trace, Violations};
use ::threads::Scheduler;
use std::any::Any;
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How often the destructors of a cancelled thread may wait, before it is unwound again. The number
/// plus 2 is prime, so a loop of waits is not always unwound at the wait that catches the panic.
const CANCELLED_WAITS_MAX: u64 = 99;

/// How the turns of threads vary.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadSettings {
    /// How often in 100 cases a thread that may continue lets the other ready ones run first.
    pub yield_percent: u64,
    /// How often in 100 cases a thread that may continue is delayed, as by a busy machine.
    pub delay_percent: u64,
    /// The longest of these delays in milliseconds.
    pub delay_ms_max: u64,
}

/// The threads of a simulated world. Clones are the same threads.
#[derive(Clone)]
pub struct SimulatedThreads {
    shared: Arc<Shared>,
}

struct Shared {
    settings: ThreadSettings,
    violations: Violations,
    trace: Trace,
    /// Decides about the turns.
    random: Mutex<Random>,
    /// Gives numbers to the simulated code.
    numbers: Mutex<Random>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the next thread.
    next: u64,
    running: Option<Arc<Thread>>,
    suspended: BTreeMap<u64, Suspended>,
    /// All threads that have not ended.
    live: BTreeMap<u64, Arc<Thread>>,
}

struct Suspended {
    thread: Arc<Thread>,
    coroutine: Coroutine,
}

struct Thread {
    number: u64,
    name: Arc<str>,
    is_cancelled: AtomicBool,
    /// How often it has waited since then.
    cancelled_waits: AtomicU64,
    /// Wakes the thread's task; `None` before its first turn.
    waker: Mutex<Option<Waker>>,
}

impl SimulatedThreads {
    /// Threads whose turns vary as `settings` says.
    pub fn new(settings: ThreadSettings, mut random: Random, violations: Violations, trace: Trace) -> Self {
        let numbers = Mutex::new(Random::new(random.number()));
        let (random, state) = (Mutex::new(random), Mutex::default());
        Self { shared: Arc::new(Shared { settings, violations, trace, random, numbers, state }) }
    }

    /// Runs blocking code in a new thread.
    ///
    /// # Panics
    /// The returned future panics if `work` panics or is cancelled.
    #[expect(clippy::panic, reason = "there is no result, and the caller cannot continue without it")]
    pub fn run<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        name: &str,
        work: F,
    ) -> impl Future<Output = T> + Send + use<T, F> {
        let result = self.try_run(name, work);
        let name = name.to_owned();
        async move {
            let result = result.await;
            result.unwrap_or_else(|| panic!("the simulated thread `{name}` ended without a result"))
        }
    }

    /// Same as [`SimulatedThreads::run`], with `None` if `work` panics or is cancelled.
    pub fn try_run<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        name: &str,
        work: F,
    ) -> impl Future<Output = Option<T>> + Send + use<T, F> {
        let (done, result) = oneshot::channel();
        // The receiver may have been dropped, and then the result is not needed.
        self.spawn(name, Box::new(move || drop(done.send(work()))));
        async move { result.await.ok() }
    }

    /// The names of the threads that have not ended, in the order of their starts.
    pub fn names(&self) -> Vec<Arc<str>> {
        locked(&self.shared.state).live.values().map(|thread| Arc::clone(&thread.name)).collect()
    }

    /// Whether the calling code runs in a simulated thread.
    pub fn is_inside(&self) -> bool {
        locked(&self.shared.state).running.is_some()
    }

    /// Whether the running thread is being unwound. It must not wait without a time limit then.
    pub(crate) fn is_cancelled(&self) -> bool {
        let state = locked(&self.shared.state);
        state.running.as_ref().is_some_and(|thread| thread.is_cancelled.load(Ordering::Relaxed))
    }

    /// Unwinds the stacks of all suspended threads, which end by this. Their waits without a time
    /// limit are still waited for, their other waits end at once.
    pub fn cancel_all(&self) {
        while self.cancel_first() {}
    }

    /// Cancels the suspended thread that started first. Returns whether there was one.
    fn cancel_first(&self) -> bool {
        let first = locked(&self.shared.state).suspended.pop_first();
        let Some((_, Suspended { thread, mut coroutine })) = first else { return false };
        thread.is_cancelled.store(true, Ordering::Relaxed);
        let before = locked(&self.shared.state).running.replace(Arc::clone(&thread));
        coroutine.cancel();
        let mut state = locked(&self.shared.state);
        state.running = before;
        state.live.remove(&thread.number);
        drop(state);
        coroutine.recycle();
        // The task finds that its thread has ended.
        let waker = locked(&thread.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Gives a thread its turn. Returns whether it has ended.
    fn resume(&self, number: u64, waker: &Waker) -> bool {
        let mut state = locked(&self.shared.state);
        let Some(Suspended { thread, mut coroutine }) = state.suspended.remove(&number) else { return true };
        let before = state.running.replace(Arc::clone(&thread));
        drop(state);
        locked(&thread.waker).get_or_insert_with(|| waker.clone()).clone_from(waker);
        self.shared.trace.event("turn", number, || thread.name.to_string());
        let resumed = coroutine.resume();
        let mut state = locked(&self.shared.state);
        state.running = before;
        match resumed {
            Resumed::Suspended => {
                state.suspended.insert(number, Suspended { thread, coroutine });
                false
            }
            Resumed::Ended(panic) => {
                state.live.remove(&number);
                drop(state);
                coroutine.recycle();
                if let Some(panic) = panic {
                    let text = panic_text(&*panic);
                    let violation = format!("the thread `{}` ended with a panic: {text}", thread.name);
                    self.shared.violations.record(violation);
                }
                true
            }
        }
    }

    /// The running thread.
    ///
    /// # Panics
    /// Outside of all threads.
    #[expect(clippy::panic, reason = "a wait that blocks all workers cannot be simulated")]
    fn running(&self) -> Arc<Thread> {
        let running = locked(&self.shared.state).running.clone();
        running.unwrap_or_else(|| {
            let text = "a task of a worker waits for a lock, a notification or a time as a thread does";
            self.shared.violations.record(text);
            panic!("{text}")
        })
    }

    /// A wait of a thread during its unwinding, or of one whose code is dropped before its first
    /// turn. Code that has caught the panic is unwound again.
    #[expect(clippy::panic, reason = "two cancelled threads wait for each other, so neither can be unwound")]
    fn wait_cancelled(
        &self,
        thread: &Thread,
        is_limited: bool,
        poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let is_over = poll(&mut context).is_ready();
        let has_begun = locked(&thread.waker).is_some();
        // Also if the wait is over, because its result may be a lock that another cancelled thread
        // has poisoned, which ends the process.
        if has_begun && !std::thread::panicking() {
            unwind();
        }
        if is_over {
            return true;
        }
        // During the unwinding of another thread it is unknown whether this one unwinds too. A wait
        // must not panic then, but a loop around waits must end.
        let waits = thread.cancelled_waits.fetch_add(1, Ordering::Relaxed);
        if has_begun && waits > CANCELLED_WAITS_MAX {
            thread.cancelled_waits.store(0, Ordering::Relaxed);
            unwind();
        }
        if is_limited {
            return false;
        }
        // Another suspended thread holds the lock. It releases it when it is unwound.
        while self.cancel_first() {
            if poll(&mut context).is_ready() {
                return true;
            }
        }
        panic!("a cancelled thread waits for what no other thread can give it")
    }
}

impl Scheduler for SimulatedThreads {
    fn spawn(&self, name: &str, main: Box<dyn FnOnce() + Send>) {
        let coroutine = Coroutine::new(main);
        let mut state = locked(&self.shared.state);
        let number = state.next;
        state.next += 1;
        let thread = Arc::new(Thread {
            number,
            name: name.into(),
            is_cancelled: AtomicBool::new(false),
            cancelled_waits: AtomicU64::new(0),
            waker: Mutex::default(),
        });
        state.live.insert(number, Arc::clone(&thread));
        state.suspended.insert(number, Suspended { thread, coroutine });
        drop(state);
        self.shared.trace.event("start of thread", number, || name.to_owned());
        tokio::spawn(Turns { threads: self.clone(), number, delay: Delay::Undecided });
    }

    fn wait(&self, within: Option<Duration>, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) -> bool {
        let thread = self.running();
        // A moment that cannot be represented never comes.
        let deadline = within.and_then(|within| Instant::now().checked_add(within));
        let mut time = pin!(deadline.map(sleep_until));
        loop {
            if thread.is_cancelled.load(Ordering::Relaxed) {
                return self.wait_cancelled(&thread, within.is_some(), poll);
            }
            let waker = locked(&thread.waker).clone().unwrap_or_else(|| Waker::noop().clone());
            let mut context = Context::from_waker(&waker);
            if poll(&mut context).is_ready() {
                return true;
            }
            // Other threads must not see that this one panics, so it does not wait for a time.
            let is_over = |moment| Instant::now() >= moment || std::thread::panicking();
            if deadline.is_some_and(is_over) {
                return false;
            }
            if let Some(time) = time.as_mut().as_pin_mut()
                && time.poll(&mut context).is_ready()
            {
                return false;
            }
            suspend();
        }
    }

    fn thread_name(&self) -> Option<Arc<str>> {
        locked(&self.shared.state).running.as_ref().map(|thread| Arc::clone(&thread.name))
    }

    fn random(&self) -> u64 {
        locked(&self.shared.numbers).number()
    }
}

impl std::fmt::Debug for SimulatedThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The task of a thread. It gives the thread a turn whenever it is woken.
struct Turns {
    threads: SimulatedThreads,
    number: u64,
    delay: Delay,
}

/// The delay before a ready thread continues.
enum Delay {
    /// It was just woken.
    Undecided,
    /// The other ready tasks run first.
    Yields,
    /// A time.
    Sleeps(Pin<Box<Sleep>>),
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Delay::Undecided = self.delay {
            let settings = self.threads.shared.settings;
            let mut random = locked(&self.threads.shared.random);
            let delay = if random.percent(settings.delay_percent) {
                Delay::Sleeps(Box::pin(sleep(random.millis(0, settings.delay_ms_max))))
            } else if random.percent(settings.yield_percent) {
                Delay::Yields
            } else {
                Delay::Undecided
            };
            drop(random);
            self.delay = delay;
            if let Delay::Yields = self.delay {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if let Delay::Sleeps(time) = &mut self.delay {
            ready!(time.as_mut().poll(context));
        }
        self.delay = Delay::Undecided;
        if self.threads.resume(self.number, context.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

#[cfg(test)]
mod tests;
