//! The verifier thread: reads all objects on disk repeatedly, so that damage is found before a
//! client meets it.
//!
//! Invariants: the shutdown waits for it only a moment, whatever the disk does. It holds no
//! lock while it reads, and no reference to the edge between two steps.

use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use std::io;
use std::sync::Arc;
use store::Examination;

/// Maximum number of bytes read in one step.
const STEP_BYTES: usize = 256 << 10;

/// Nice value of the thread.
const GIVE_WAY_NICE: i32 = 10;

/// Starts the thread, if there is a disk and a verification rate. The thread is never joined,
/// because a hanging disk must not delay the end of the process.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let rate = shared.limits.disk_verify_rate;
    if rate == 0 || !shared.store.is_persistent() {
        return Ok(());
    }
    let (verifier, shared) = (Arc::clone(&shared.verifier), Arc::downgrade(shared.state()));
    // Restarted after a panic, from the first object: damage would go unnoticed without it.
    supervisor::start("petasos-verify", move || {
        threads::give_way(GIVE_WAY_NICE);
        let mut walk = Examination::default();
        while verifier.begin_step() {
            let rest = match shared.upgrade() {
                Some(shared) => verifier.count(walk.step(&shared.store, STEP_BYTES), rate),
                None => return ThreadEnd::Due,
            };
            verifier.end_step(rest);
        }
        // `begin_step` refuses only after the order to end.
        ThreadEnd::Due
    })?;
    Ok(())
}
