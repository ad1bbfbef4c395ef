//! Locks and counters that order what threads do to the store, from the standard library; with the feature `model`
//! from the model checker, which runs the same code under many schedules.
//!
//! Invariant: whatever the purge barrier rests on is taken from here.

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU64,
};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU64};

pub(crate) use std::sync::PoisonError;
