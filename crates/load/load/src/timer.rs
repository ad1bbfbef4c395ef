//! A timer that wakes a poll with a finer resolution than the milliseconds of the poll's own
//! timeout.
//!
//! Invariant: the timer is set at most once for the same moment; a moment that has passed wakes the
//! poll at once.

use clock::Monotonic;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

/// A kernel timer that a poll watches.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    set_for: Option<Monotonic>,
}

impl Timer {
    /// A disarmed timer whose events carry `token`.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // The registration is edge-triggered, so expirations need not be read: setting the timer
        // again clears them.
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd, set_for: None })
    }

    /// Sets the timer to `moment`, seen from `now`.
    pub(crate) fn set(&mut self, now: Monotonic, moment: Monotonic) -> io::Result<()> {
        if self.set_for == Some(moment) {
            return Ok(());
        }
        self.set_for = Some(moment);
        // A value of zero would disarm the timer.
        let wait = moment.since(now).max(Duration::from_nanos(1));
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: once, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}
