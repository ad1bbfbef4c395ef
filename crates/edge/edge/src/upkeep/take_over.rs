//! Takes over the objects of the previous process.
//!
//! Invariant: an object is taken over only if its page was not invalidated since it was stored.

use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use disk::Recovery;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long the edge waits for the objects of the previous process before it accepts its first
/// connection. The rest is taken over while it serves.
const TAKE_OVER_MAX: Duration = Duration::from_secs(1);

/// Takes over the objects of the previous process in a separate thread. Waits for it, but at most
/// [`TAKE_OVER_MAX`].
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn take_over(shared: &Arc<Shared>, recovery: Recovery) -> io::Result<()> {
    let (done, waits): (_, Receiver<()>) = channel();
    let shared = Arc::clone(shared);
    let mut recovery = Some(recovery);
    let work = move || {
        // The thread drops the sender at its end, which tells the receiver.
        let _done = &done;
        // After a panic the rest is not adopted, because the same record could panic again. The
        // pages that are missing are fetched.
        for recovered in recovery.take().into_iter().flatten() {
            if shared.is_quitting() {
                return ThreadEnd::Due;
            }
            shared.store.adopt(&recovered, |returning, adopt| {
                shared.equivalents.learn_returning(returning, adopt);
            });
        }
        shared.store.end_adoption();
        ThreadEnd::Due
    };
    supervisor::start("petasos-recovery", work)?;
    match waits.recv_timeout(TAKE_OVER_MAX) {
        Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => Ok(()),
    }
}
