//! How far the shutdown has come.
//!
//! Invariant: the drain begins before, or together with, the end of open connections, and neither
//! is ever taken back.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// The state of the shutdown.
///
/// The flags are read with `Relaxed`, because no other memory depends on them. The channel wakes
/// the tasks that wait.
#[derive(Debug)]
pub(crate) struct Ending {
    /// No new connection is accepted. A flag beside the channel, because reading the channel takes
    /// a lock.
    draining: AtomicBool,
    /// Open connections are closed.
    quitting: AtomicBool,
    announced: watch::Sender<bool>,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            draining: AtomicBool::new(false),
            quitting: AtomicBool::new(false),
            announced: watch::Sender::new(false),
        }
    }
}

impl Ending {
    /// Stops accepting connections.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.announced.send_replace(true);
    }

    /// Closes the connections that are open.
    pub(crate) fn quit(&self) {
        self.quitting.store(true, Ordering::Relaxed);
        self.drain();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn is_quitting(&self) -> bool {
        self.quitting.load(Ordering::Relaxed)
    }

    /// Ready when the drain begins.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut announced = self.announced.subscribe();
        async move {
            // An error means that the edge is gone, which ends the wait as well.
            let _ = announced.wait_for(|draining| *draining).await;
        }
    }
}
