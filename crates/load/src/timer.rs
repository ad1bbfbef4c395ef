//! A timer that wakes a poll at a moment, finer than the milliseconds that a poll's own time limit knows.
//!
//! Invariant: it is set at most once for a moment; a moment that has passed wakes the poll at once.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use platform::Monotonic;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

/// A timer of the kernel's that a poll watches.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    set_for: Option<Monotonic>,
}

impl Timer {
    /// A timer that is not set, whose events carry `token`.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // Edge-triggered: setting it again forgets an expiration that nobody has read.
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd, set_for: None })
    }

    /// Makes it go off at `moment`, seen from `now`.
    pub(crate) fn set(&mut self, now: Monotonic, moment: Monotonic) -> io::Result<()> {
        if self.set_for == Some(moment) {
            return Ok(());
        }
        self.set_for = Some(moment);
        // Zero would switch it off.
        let wait = moment.since(now).max(Duration::from_nanos(1));
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: once, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}
