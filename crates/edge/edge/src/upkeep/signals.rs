//! The signals that control the process.
//!
//! Invariant: from the start of [`crate::serve`] on, SIGHUP, SIGUSR1 and SIGUSR2 never end the
//! process, which is their default action. SIGTERM and SIGINT end it in two stages.

use crate::shared::{Shared, SuccessorStart};
use crate::upkeep::certificates;
use crate::upkeep::reload::reload;
use crate::upkeep::successor;
use std::io;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The source of requests to stop an edge.
pub(crate) enum Stops {
    Signals { terminate: Signal, interrupt: Signal },
    Channel(mpsc::Receiver<()>),
}

/// The signals that do not end the process.
pub(crate) struct OperatorSignals {
    hang_up: Signal,
    user_1: Signal,
    user_2: Signal,
    start_successor: SuccessorStart,
}

impl Stops {
    /// Installs handlers for SIGTERM and SIGINT. Must be called in the context of a runtime.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub(crate) fn signals() -> io::Result<Self> {
        Ok(Self::Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next stop.
    pub(crate) async fn next(&mut self) {
        match self {
            Self::Signals { terminate, interrupt } => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            Self::Channel(receiver) => {
                // A dropped sender is a request to stop as well.
                let _ = receiver.recv().await;
            }
        }
    }
}

impl OperatorSignals {
    /// Installs the handlers. Must be called in the context of a runtime.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub(crate) fn take(start_successor: SuccessorStart) -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
            start_successor,
        })
    }

    /// Handles the signals for as long as the runtime exists.
    pub(crate) async fn obey(&mut self, shared: &Arc<Shared>) {
        loop {
            tokio::select! {
                _ = self.hang_up.recv() => {
                    tracing::info!("SIGHUP: the log is reopened, and settings and certificates are read again");
                    reopen_log(shared);
                    let own = Arc::clone(shared);
                    // A disk that hangs must not hold up other signals.
                    let reading = threads::run_aside(move || {
                        // It reports its outcome itself.
                        let _ = reload(&own);
                        certificates::refresh(&own.current(), true);
                    });
                    let _ = tokio::time::timeout(shared.limits.disk_timeout, reading).await;
                }
                _ = self.user_1.recv() => reopen_log(shared),
                _ = self.user_2.recv() => successor::start(shared, &self.start_successor),
            }
        }
    }
}

/// Reopens the access log, for example after a rotation.
fn reopen_log(shared: &Shared) {
    if let Some(log) = &shared.log {
        log.reopen();
    }
}
