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
    /// A flag that SIGINT, SIGTERM and SIGHUP set, instead of ending the process. A signal that is ignored, as
    /// `nohup` arranges it for SIGHUP, stays ignored.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn on_signals() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let stop = Self::default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal, &status)) {
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

/// Whether a signal is ignored, from the content of /proc/PID/status: `SigIgn` is a mask whose lowest bit is
/// signal 1.
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::{Stop, is_ignored};
    use signal_hook::consts::{SIGHUP, SIGINT};
    use std::time::Duration;

    #[test]
    fn ignored_signals_are_seen_in_the_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tffff\n";
        assert!(is_ignored(SIGHUP, status) && !is_ignored(SIGINT, status));
        assert!(!is_ignored(SIGHUP, "") && !is_ignored(SIGHUP, "SigIgn:\tnonsense"));
    }

    #[test]
    fn a_wish_to_stop_ends_waiting() {
        let stop = Stop::default();
        let seen = stop.clone();
        stop.request();
        assert!(seen.is_requested());
        seen.wait(Duration::from_secs(3600));
    }
}
