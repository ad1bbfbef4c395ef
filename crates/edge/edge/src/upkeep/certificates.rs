//! The thread that reads changed certificates again.
//!
//! Invariant: whatever the files hold, the listeners go on with a usable certificate. The
//! operator learns of each change and of each file that cannot be used, once.

use crate::control::counters::Metric;
use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use net::Refreshed;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use threads::JoinHandle;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the thread looks whether the edge quits.
const TICK: Duration = Duration::from_millis(50);

/// Starts the thread, if a listener has certificates.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    if !shared.listeners.has_tls() {
        return Ok(None);
    }
    let shared = Arc::clone(shared);
    let told = tell_faults(&shared, 0);
    let thread = supervisor::start("petasos-certificates", move || {
        let (mut rested, mut told) = (Duration::ZERO, told);
        while !shared.is_quitting() {
            threads::sleep(TICK);
            rested += TICK;
            if rested >= LOOK_EVERY {
                rested = Duration::ZERO;
                let shared = shared.current();
                refresh(&shared, false);
                told = tell_faults(&shared, told);
            }
        }
        ThreadEnd::of(&shared.ending)
    });
    thread.map(Some)
}

/// Reports certificates that are not valid, if there are more than `told` of them. Returns their
/// number.
fn tell_faults(shared: &Shared, told: usize) -> usize {
    let faults = shared.listeners.faults(shared.clock.now());
    if faults.len() > told {
        for fault in &faults {
            tracing::error!("{fault}; browsers refuse the site until the certificate is renewed");
        }
    }
    faults.len()
}

/// Reads the files that have changed, and reports the outcome. Blocks.
pub(crate) fn refresh(shared: &Shared, at_once: bool) {
    for refreshed in shared.listeners.refresh(shared.clock.now(), at_once) {
        match refreshed {
            Refreshed::Replaced(certificate) => {
                let (file, names) = (certificate.files().chain.display(), certificate.names().join(", "));
                tracing::info!("the certificate {file} for {names} was replaced");
                shared.cells(0).count(Metric::CertificatesReplaced);
            }
            Refreshed::Kept(error) => {
                tracing::error!("{error}; the certificate in use stays until the file is mended");
                shared.cells(0).count(Metric::CertificatesRefused);
            }
        }
    }
}
