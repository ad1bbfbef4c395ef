//! SIGINT and SIGTERM during loads.
//!
//! Invariant: a command registers its handlers once, and all its runs share one flag. The first
//! signal sets the flag, also between two runs, and keeps the measurements. A second one ends the
//! process.

use super::measure::EXIT_FAILED;
use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a signal has interrupted the command.
#[derive(Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Registers the handlers. A command does this once, before its first run. Until then a signal
    /// ends the process.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        Self::ending_with(EXIT_FAILED)
    }

    /// As [`Self::on_signals`], for a command whose exit code after an interruption is `exit`.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn ending_with(exit: u8) -> anyhow::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal must find the flag unset before it sets it.
            register_conditional_shutdown(signal, exit.into(), interrupt.flag())
                .and_then(|_| register(signal, interrupt.flag()))
                .context("cannot watch for signals")?;
        }
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed is enough: the flag guards no other data.
        self.0.load(Ordering::Relaxed)
    }

    /// The flag that the first signal sets, which ends the current run.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
