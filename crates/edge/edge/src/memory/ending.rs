//! How far the shutdown has come.
//!
//! Invariant: the drain begins before, or together with, the end of open connections. Neither is
//! ever taken back, and neither is the hand-over to another process, which the drain follows.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// The state of the shutdown.
///
/// The flags are read with `Relaxed`, because no other memory depends on them. The channel wakes
/// the tasks that wait.
#[derive(Debug)]
pub(crate) struct Ending {
    /// No new connection is accepted. A flag beside the channel, because reading the channel takes
    /// a lock. Also set when the edge is gone.
    draining: Arc<AtomicBool>,
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
            draining: Arc::default(),
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

    /// Ready when the drain begins. A connection polls this with each request, and then the poll
    /// takes no lock.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        let (draining, drained) = (Arc::clone(&self.draining), happened(&self.announced));
        async move {
            let mut drained = pin!(drained);
            let mut waiting: Option<Waker> = None;
            poll_fn(|context| {
                // The flag is set before the channel wakes. While it is not, the waker of the last
                // poll still waits there.
                let is_waiting = waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
                if is_waiting && !draining.load(Ordering::Relaxed) {
                    return Poll::Pending;
                }
                waiting = Some(context.waker().clone());
                drained.as_mut().poll(context)
            })
            .await;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // The channel is closed after this, which wakes whoever waits for the drain.
        self.draining.store(true, Ordering::Relaxed);
    }
}

/// Ready when `event` has become true.
fn happened(event: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut event = event.subscribe();
    async move {
        // An error means that the edge is gone, which ends the wait as well.
        let _ = event.wait_for(|has_happened| has_happened.then_some(())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Ending;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake, Waker};

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn counted() -> (Arc<Counted>, Waker) {
        let counted = Arc::<Counted>::default();
        (Arc::clone(&counted), Waker::from(counted))
    }

    /// Polls the wait often, at last with another waker, which must be the one that `end` wakes.
    fn is_woken_by(end: impl FnOnce(Ending) -> Option<Ending>) {
        let (ending, first, second) = (Ending::default(), counted(), counted());
        let mut drained = pin!(ending.drained());
        for waker in [&first.1, &first.1, &second.1, &second.1] {
            assert!(drained.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        let _ending = end(ending);
        assert_eq!((first.0.0.load(Ordering::SeqCst), second.0.0.load(Ordering::SeqCst)), (0, 1));
        assert!(drained.as_mut().poll(&mut Context::from_waker(&second.1)).is_ready());
    }

    #[test]
    fn drain_wakes_the_last_waker_of_a_wait() {
        is_woken_by(|ending| {
            ending.drain();
            Some(ending)
        });
    }

    #[test]
    fn end_of_the_edge_wakes_the_last_waker_of_a_wait() {
        is_woken_by(|ending| {
            drop(ending);
            None
        });
    }
}
