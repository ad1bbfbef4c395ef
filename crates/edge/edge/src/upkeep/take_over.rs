//! Takes over the objects of the previous process.
//!
//! Invariant: an object is taken over only if its page was not invalidated since it was stored.

use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use disk::Recovery;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the edge waits for the objects of the previous process before it accepts its first
/// connection. The rest is taken over while it serves.
const TAKE_OVER_MAX: Duration = Duration::from_secs(1);

/// Takes over the objects of the previous process in a separate thread. Waits for it, but at most
/// [`TAKE_OVER_MAX`].
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn take_over(shared: &Arc<Shared>, recovery: Recovery) -> io::Result<()> {
    let (done, waits) = oneshot::channel::<()>();
    let mut done = Some(done);
    let shared = Arc::clone(shared);
    let mut recovery = Some(recovery);
    let work = move || {
        // Dropping the sender at the end, also after a panic, tells the receiver.
        let _done = done.take();
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
    // The result says only whether the thread was in time.
    let _ = threads::wait_for(TAKE_OVER_MAX, waits);
    Ok(())
}
