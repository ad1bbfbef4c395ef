//! Making purges outlive the process without waiting for a disk that hangs.
//!
//! Invariant: a purge is in force in this process before anything here is asked; what is late is only whether a restart
//! knows it, and the caller is told so. What is late is made up for when the disk answers again, before it is used.

use crate::disk_threads;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Takes purged pages out of the static tree and writes purges down. `true`: both are done, within
    /// `limits.disk_timeout`.
    pub(crate) async fn persist_in_time(self: &Arc<Self>) -> bool {
        let within = self.limits.disk_timeout;
        let shared = Arc::clone(self);
        let is_lost =
            disk_threads::run(within, move || shared.static_tree.lose(&shared.store)).await.is_some();
        if self.persistence.is_hung() {
            return false;
        }
        let shared = Arc::clone(self);
        disk_threads::run(within, move || shared.store.persist()).await.is_some() && is_lost
    }

    /// Has written down what is not, on a thread that may wait for the disk. One such thread is enough.
    pub(crate) fn persist_aside(self: &Arc<Self>) {
        if self.persistence.is_stuck() || self.is_persisting.swap(true, Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(self);
        // Nothing waits for it.
        drop(disk_threads::begin(move || {
            shared.store.persist();
            shared.is_persisting.store(false, Ordering::SeqCst);
        }));
    }
}
