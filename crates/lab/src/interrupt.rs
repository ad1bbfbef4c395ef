//! The wish to stop: set by a signal or by a caller, looked at by everything that waits.
//!
//! Invariant: nothing in the lab waits longer than [`SLICE`] without looking.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest time without a look at the flag.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// A flag that many hold and anybody may set. It is never taken back.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that SIGINT, SIGTERM and SIGHUP set, instead of ending the process.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn on_signals() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Sets the flag.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the flag is set.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Waits for a time, or less if the flag is set meanwhile.
    pub(crate) fn wait(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_requested() {
            let slice = left.min(SLICE);
            std::thread::sleep(slice);
            left -= slice;
        }
    }
}
