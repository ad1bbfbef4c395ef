//! Locks that order what requests and flights do to what they share, from the standard library; with the feature
//! `model` from the model checker, which runs the same code under many schedules.
//!
//! Invariant: whatever flights, their table and the publish step rest on is taken from here.

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, atomic::AtomicBool};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, atomic::AtomicBool};

pub(crate) use std::sync::PoisonError;
