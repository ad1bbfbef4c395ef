//! How far the shutdown has come.
//!
//! Invariant: the drain begins before, or together with, the end of open connections. Neither is
//! ever taken back, and neither is the hand-over to another process, which the drain follows.

use std::sync::Arc;
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
    /// Another process serves in place of this one. No request that begins from here on may be
    /// answered from the store.
    handed_over: AtomicBool,
    hand_over_announced: watch::Sender<bool>,
    /// The process that this one has taken over from may still pass on invalidations.
    has_predecessor: Arc<AtomicBool>,
}

/// Until its drop the edge has a predecessor.
#[derive(Debug)]
pub(crate) struct PredecessorMark(Arc<AtomicBool>);

impl Drop for PredecessorMark {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            draining: AtomicBool::new(false),
            quitting: AtomicBool::new(false),
            announced: watch::Sender::new(false),
            handed_over: AtomicBool::new(false),
            hand_over_announced: watch::Sender::new(false),
            has_predecessor: Arc::default(),
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

    /// Leaves all later requests to another process, and begins the drain.
    pub(crate) fn hand_over(&self) {
        // Ordered before the message that lets the other process answer its first purge.
        self.handed_over.store(true, Ordering::SeqCst);
        self.drain();
        self.hand_over_announced.send_replace(true);
    }

    /// Whether another process serves in place of this one.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::SeqCst)
    }

    /// Ready when another process serves in place of this one.
    pub(crate) fn handed_over(&self) -> impl Future<Output = ()> + Send + use<> {
        happened(&self.hand_over_announced)
    }

    /// Records a predecessor, which exists until the mark is dropped.
    pub(crate) fn follow(&self) -> PredecessorMark {
        self.has_predecessor.store(true, Ordering::SeqCst);
        PredecessorMark(Arc::clone(&self.has_predecessor))
    }

    /// Whether the predecessor may still pass on invalidations.
    pub(crate) fn has_predecessor(&self) -> bool {
        self.has_predecessor.load(Ordering::SeqCst)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn is_quitting(&self) -> bool {
        self.quitting.load(Ordering::Relaxed)
    }

    /// Ready when the drain begins.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        happened(&self.announced)
    }
}

/// Ready when `event` has become true.
fn happened(event: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut event = event.subscribe();
    async move {
        // An error means that the edge is gone, which ends the wait as well.
        let _ = event.wait_for(|has_happened| *has_happened).await;
    }
}
