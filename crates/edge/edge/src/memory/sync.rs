//! The locks that order accesses to state shared by requests and fetches. Normally they are the
//! standard library's. With the feature `model` they are those of the model checker, which runs the
//! same code under many schedules.
//!
//! Invariant: fetches, their table and the publish step take all their locks from here.

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, atomic::AtomicBool};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, atomic::AtomicBool};

pub(crate) use std::sync::PoisonError;
