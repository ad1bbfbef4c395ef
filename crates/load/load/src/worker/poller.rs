//! Waits for events, and for moments at which something starts.
//!
//! Invariant: a timer alone is late by the wake-up latency. The thread is therefore awake before
//! such a moment, for as long as [`WakeLatency`] says.

use super::busy_wait::BusyWait;
use super::wake_latency::WakeLatency;
use crate::LoadError;
use crate::timer::Timer;
use clock::{Clock, Monotonic};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::time::Duration;

/// The timer's token. All other tokens are slots of connections.
pub(super) const TIMER: Token = Token(usize::MAX);

pub(super) struct Poller {
    poll: Poll,
    timer: Timer,
    /// The moment the timer was set to, if it was set for the current poll.
    timer_at: Option<Monotonic>,
    wake_latency: WakeLatency,
    busy_wait: BusyWait,
    /// When the last poll returned.
    pub(super) woke: Monotonic,
}

/// How long a poll may take.
pub(super) struct Wait {
    pub(super) time: Duration,
    /// When the next request or user starts.
    pub(super) next_start: Option<Monotonic>,
    /// Whether busy-waiting is of use: requests are in flight.
    pub(super) is_awaited: bool,
    /// Whether the time counts in the measured part.
    pub(super) is_measured: bool,
}

impl Poller {
    pub(super) fn new(busy_waits: bool) -> io::Result<Self> {
        let poll = Poll::new()?;
        Ok(Self {
            timer: Timer::new(poll.registry(), TIMER)?,
            poll,
            timer_at: None,
            wake_latency: WakeLatency::default(),
            busy_wait: BusyWait::new(busy_waits),
            woke: Monotonic::default(),
        })
    }

    pub(super) fn register(
        &self,
        stream: &mut TcpStream,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.poll.registry().register(stream, token, interest)
    }

    /// Waits for events, and sets [`Poller::woke`].
    pub(super) fn wait(
        &mut self,
        now: Monotonic,
        wait: &Wait,
        clock: &dyn Clock,
        events: &mut Events,
    ) -> Result<(), LoadError> {
        let mut time = wait.time;
        if let Some(moment) = wait.next_start {
            // After this the loop polls without waiting until `moment`.
            let early = moment.since(now).saturating_sub(self.wake_latency.before(moment));
            if early.is_zero() {
                time = Duration::ZERO;
            } else if early < time {
                let at = now.plus(early);
                self.timer.set(now, at).map_err(|error| LoadError::system("timerfd_settime", &error))?;
                self.timer_at = Some(at);
            }
        }
        let is_busy_wait = !time.is_zero() && wait.is_awaited && self.busy_wait.is_due(now);
        let time = if is_busy_wait { Duration::ZERO } else { time };
        let polled = self.poll.poll(events, Some(time));
        self.woke = clock.monotonic();
        if !events.is_empty() {
            self.busy_wait.woken(self.woke);
        }
        if is_busy_wait {
            self.busy_wait.polled(now, self.woke, wait.is_measured);
        }
        self.learn_waking(events);
        match polled {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                Err(LoadError::system("epoll_wait", &error))
            }
            _ => Ok(()),
        }
    }

    /// Measures the wake-up latency, if the timer woke this thread.
    fn learn_waking(&mut self, events: &Events) {
        let Some(at) = self.timer_at.take() else { return };
        if events.iter().next().is_some_and(|event| event.token() == TIMER) {
            self.wake_latency.woken(self.woke.since(at));
        }
    }

    /// Time spent busy-waiting in the measured part.
    pub(super) fn busy_wait(&self) -> Duration {
        self.busy_wait.spent()
    }
}
