//! Threads that may block: starting them, their pauses, and the locks that they hold while they
//! wait. On the system these are those of the standard library. In a simulation a [`Scheduler`]
//! runs all threads in turns on one system thread, with simulated time.
//!
//! Invariant: production and simulation run the same code between two waits. Only the wait itself
//! is replaced, so a program pays for the simulation only where it waits anyway.
//!
//! A lock belongs here if its holder may wait: for a disk, for a time or for another lock of this
//! crate. All other locks may be the standard library's, because in a simulation no other thread
//! runs before its holder releases it.

mod condvar;
mod mutex;
mod scheduler;
mod thread;
mod waiters;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use scheduler::{Scheduler, Simulation, is_simulated, simulated_seed};
pub use thread::{
    JoinHandle, ThreadName, current_name, give_way, receive, run_aside, sleep, spawn, wait_for,
};
