//! The scheduler of a simulation, and which scheduler the calling code runs under.
//!
//! Invariant: the threads of a simulation all run on the system thread that created its
//! [`Simulation`]. Other system threads are not affected.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

thread_local! {
    static SCHEDULER: RefCell<Option<Rc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// Runs the threads of a simulation, one at a time.
pub trait Scheduler {
    /// Starts a simulated thread with this name. It may run first when the caller waits.
    fn spawn(&self, name: &str, main: Box<dyn FnOnce() + Send>);

    /// Suspends the running simulated thread until `poll` is ready, or until `within` has passed in
    /// simulated time. Returns whether it became ready. `poll` is called at once, and again after
    /// each wake-up through its context.
    ///
    /// Code that runs in no simulated thread must not wait. The implementation decides how such a
    /// call fails; it is a defect of the caller.
    fn wait(&self, within: Option<Duration>, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) -> bool;

    /// The name of the running simulated thread; `None` outside of all.
    fn thread_name(&self) -> Option<Arc<str>>;

    /// The next random number of the simulation, for the keys of hash tables and for names.
    fn random(&self) -> u64;
}

/// The current scheduler of this system thread; `None` on the system.
pub(crate) fn current() -> Option<Rc<dyn Scheduler>> {
    SCHEDULER.with_borrow(Clone::clone)
}

/// A number that takes the place of the system's randomness; `None` outside of simulations.
pub fn simulated_seed() -> Option<u64> {
    current().map(|scheduler| scheduler.random())
}

/// Whether the calling code runs in a simulation, where nothing may open an event loop of its own.
pub fn is_simulated() -> bool {
    SCHEDULER.with_borrow(Option::is_some)
}

/// Puts this system thread under a scheduler until it is dropped.
#[derive(Debug)]
pub struct Simulation {
    /// The scheduler belongs to this system thread.
    _not_send: std::marker::PhantomData<Rc<()>>,
}

impl Simulation {
    /// Puts this system thread under `scheduler`.
    ///
    /// # Panics
    /// If it is under a scheduler already.
    pub fn enter(scheduler: Rc<dyn Scheduler>) -> Self {
        let before = SCHEDULER.replace(Some(scheduler));
        assert!(before.is_none(), "a system thread runs one simulation at a time");
        Self { _not_send: std::marker::PhantomData }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        SCHEDULER.set(None);
    }
}
