//! The signals by which operators and their tools speak to the process.
//!
//! Invariant: from the start of [`crate::serve`] on, SIGHUP, SIGUSR1 and SIGUSR2 never end the process, whose default
//! action is to. SIGTERM and SIGINT end it, in two stages.

use crate::operator;
use crate::shared::Shared;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// What asks an edge to end.
pub(crate) enum Stops {
    Signals { terminate: Signal, interrupt: Signal },
    Channel(mpsc::Receiver<()>),
}

/// The signals that do not end the process.
pub(crate) struct Requests {
    hang_up: Signal,
    user_1: Signal,
    user_2: Signal,
}

impl Stops {
    /// SIGTERM and SIGINT. To be called in the context of a runtime.
    ///
    /// # Errors
    /// When the system gives no handler.
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
                // A sender that is gone asks for the end as well.
                let _ = receiver.recv().await;
            }
        }
    }
}

impl Requests {
    /// Takes the signals. To be called in the context of a runtime.
    ///
    /// # Errors
    /// When the system gives no handler.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Does what they ask for, for as long as the runtime lives.
    pub(crate) async fn obey(mut self, shared: &Shared) {
        loop {
            tokio::select! {
                _ = self.hang_up.recv() => {
                    shared.reopen_logs();
                    operator::say(format_args!("SIGHUP: the log is reopened; changed settings need a restart"));
                }
                _ = self.user_1.recv() => shared.reopen_logs(),
                // Kept free for the exchange of the binary.
                _ = self.user_2.recv() => {}
            }
        }
    }
}

impl Shared {
    /// Has the access log opened anew, as after a rotation.
    fn reopen_logs(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }
}
