//! What all workers share, made once from the plan.
//!
//! Invariant: everything here can be used from any worker at any time; a hit takes no lock of it but one shard
//! of the store.

use crate::access_log::AccessLog;
use crate::counters::{Cells, Counters};
use crate::flight::Flights;
use crate::sites::Sites;
use config::{Limits, Plan};
use platform::Clock;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use store::{Store, StoreLimits};
use tokio::sync::watch;

/// The parts of a running edge.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) limits: Arc<Limits>,
    pub(crate) sites: Sites,
    pub(crate) store: Store,
    pub(crate) flights: Flights,
    pub(crate) counters: Arc<Counters>,
    pub(crate) log: Option<AccessLog>,
    pub(crate) clock: Arc<dyn Clock>,
    /// True from the moment on that no new connections are taken.
    pub(crate) draining: watch::Sender<bool>,
    connections: AtomicUsize,
    quitting: AtomicBool,
}

/// One of the permitted connections; its place is free again when this is dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
}

impl Shared {
    pub(crate) fn new(plan: Plan, log: Option<AccessLog>, clock: Arc<dyn Clock>) -> Self {
        let store_limits = StoreLimits {
            memory_bytes_max: plan.memory_bytes,
            object_bytes_max: plan.limits.object_bytes_max,
            ..StoreLimits::default()
        };
        // The standard library's hasher is keyed at random for each process, and needs no crate of its own.
        let seed = RandomState::new().hash_one("store");
        Self {
            limits: Arc::new(plan.limits.clone()),
            sites: Sites::new(&plan, &clock),
            store: Store::new(store_limits, seed),
            flights: Flights::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            counters: Arc::new(Counters::new(plan.workers)),
            log,
            clock,
            draining: watch::Sender::new(false),
            connections: AtomicUsize::new(0),
            quitting: AtomicBool::new(false),
            plan,
        }
    }

    /// The cells that a worker counts in.
    pub(crate) fn cells(&self, worker: usize) -> &Cells {
        self.counters.worker(worker)
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Whether open connections are to be given up.
    pub(crate) fn is_quitting(&self) -> bool {
        self.quitting.load(Ordering::Relaxed)
    }

    pub(crate) fn quit(&self) {
        self.quitting.store(true, Ordering::Relaxed);
        self.draining.send_replace(true);
    }

    /// A place for one more connection, if the limit leaves one.
    pub(crate) fn take_place(self: &Arc<Self>) -> Option<Place> {
        self.connections
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < self.limits.connections_max).then_some(open + 1)
            })
            .ok()
            .map(|_| Place { shared: Arc::clone(self) })
    }

    /// Connections that are open now.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}
