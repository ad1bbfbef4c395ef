//! The locks and counters that order the store's threads, from the standard library. With the
//! feature `model` they come from the model checker, which runs the same code under many schedules.
//!
//! Invariant: every lock and atomic that the purge barrier depends on is taken from here, and
//! [`sound`] guards the locks.

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU64,
};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU64};

/// A lock whose holder waits for the disk. The models have no disk that waits.
#[cfg(feature = "model")]
pub(crate) use shuttle::sync::Mutex as DiskMutex;
#[cfg(not(feature = "model"))]
pub(crate) use threads::Mutex as DiskMutex;

pub(crate) use platform::sound;
