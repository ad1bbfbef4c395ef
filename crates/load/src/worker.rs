//! One thread of a run: a poll, a slab of connections, and the loop that keeps its users busy.
//!
//! Invariant: a connection is closed only while its own event is handled or between two polls, so an event
//! never reaches a connection that took over the slot of another. In the steady state the loop allocates
//! nothing, and asks the system for nothing but one poll for many answers, one read and one write.
//!
//! There are no timers: time limits are looked at when a poll returns, at least every [`TICK_MAX`].

use crate::LoadError;
use crate::arrival::Next;
use crate::connection::{Connection, Readiness, Tools, Turn};
use crate::outcome::{Ended, FailureKind};
use crate::reader::{Answer, HeadMemo, Persistence};
use crate::recorder::{Exchange, Received, Recorder};
use crate::shared::{Shared, connect_failure_kind};
use message::{Method, Version};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use platform::Monotonic;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// A thread looks at least this often whether it should stop.
const TICK_MAX: Duration = Duration::from_millis(100);

/// How long a user waits after a connection that could not be made.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long the server may take to close a connection after its last answer.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// So many new connections are begun before the events of the others are looked at, lest the accept queue of
/// the server overflows.
const STARTS_MAX: usize = 64;

/// Octets read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Events taken from one poll.
const EVENTS_MAX: usize = 1024;

/// How long the first connection of a run may take before the target counts as unreachable.
const FIRST_CONNECT_MAX: Duration = Duration::from_secs(4);

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    tools: Tools<'a>,
    poll: Poll,
    slots: Slots,
    /// Users that can start at once.
    ready: usize,
    /// When users that had no connection try again, in order.
    retries: VecDeque<Monotonic>,
    /// Users that have not finished.
    users: usize,
    /// When the last poll returned.
    woke: Monotonic,
    /// Connections that wait for the server's close.
    draining: usize,
    /// Requests ended and failed when progress was last published.
    published: (u64, u64),
}

impl<'a> Worker<'a> {
    /// A worker for so many users.
    pub(crate) fn new(shared: &'a Shared<'a>, users: usize) -> io::Result<Self> {
        // Any thread may turn out to have answered all requests.
        let samples_max = shared.plan.samples_max as usize;
        let persistence = match (shared.plan.keep_alive, shared.plan.version) {
            (false, _) => Persistence::Never,
            (true, Version::Http10) => Persistence::IfSaid,
            (true, Version::Http11) => Persistence::UnlessDenied,
        };
        let tools = Tools {
            clock: shared.clock,
            image: shared.image,
            resendable: shared.plan.method.is_idempotent(),
            recorder: Recorder::new(shared.closed_loop.measuring_since(), samples_max),
            memo: HeadMemo::new(shared.plan.method == Method::Head, persistence),
            buffer: vec![0; BUFFER_BYTES],
        };
        Ok(Self {
            shared,
            tools,
            poll: Poll::new()?,
            slots: Slots::default(),
            ready: users,
            retries: VecDeque::with_capacity(users),
            users,
            woke: Monotonic::default(),
            draining: 0,
            published: (0, 0),
        })
    }

    /// Works until the run is over, then gives what was recorded and the first head that was seen.
    pub(crate) fn run(mut self) -> (Recorder, Vec<u8>) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let sweep_every = (self.shared.plan.timeout / 16).clamp(Duration::from_millis(1), TICK_MAX);
        let mut cpu = CpuMeter::new(self.shared.closed_loop.measuring_since());
        let mut now = self.tools.clock.monotonic();
        let mut next_sweep = now.plus(sweep_every);
        while self.users > 0 && !self.shared.is_over(now) {
            cpu.observe(now);
            self.start_users(now);
            let wait = self.wait(now, next_sweep);
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    self.shared.fail(LoadError::system("epoll_wait", &error));
                    break;
                }
                _ => {}
            }
            now = self.tools.clock.monotonic();
            if !events.is_empty() {
                self.woke = now;
                self.handle(&events);
                now = self.tools.clock.monotonic();
                self.publish(now);
            }
            if now >= next_sweep {
                self.sweep(now);
                next_sweep = now.plus(sweep_every);
            }
        }
        self.publish(now);
        let recorder = &mut self.tools.recorder;
        recorder.unfinished += self.slots.in_flight().filter(|exchange| exchange.measured).count() as u64;
        recorder.cpu.push(cpu.used());
        (self.tools.recorder, self.tools.memo.first)
    }

    /// How long the next poll may take.
    fn wait(&self, now: Monotonic, next_sweep: Monotonic) -> Duration {
        if self.ready > 0 {
            return Duration::ZERO;
        }
        let moments = [Some(next_sweep), self.retries.front().copied(), self.shared.closed_loop.deadline()];
        moments.into_iter().flatten().map(|moment| moment.since(now)).fold(TICK_MAX, Duration::min)
    }

    /// Starts users that are ready, a limited number at once.
    fn start_users(&mut self, now: Monotonic) {
        while self.retries.front().is_some_and(|&moment| moment <= now) {
            self.retries.pop_front();
            self.ready += 1;
        }
        for _ in 0..self.ready.min(STARTS_MAX) {
            self.ready -= 1;
            let now = self.tools.clock.monotonic();
            if let Some(exchange) = self.next(now) {
                self.open(exchange);
            }
        }
    }

    /// The next request of a user that has time; without one the user has finished.
    fn next(&mut self, now: Monotonic) -> Option<Exchange> {
        match self.shared.closed_loop.next(now) {
            Next::Measured => Some(Exchange::starting(now, true)),
            Next::Warmup => Some(Exchange::starting(now, false)),
            Next::Done => {
                self.users -= 1;
                None
            }
        }
    }

    /// Opens a connection for a request and sends it if that is possible at once.
    fn open(&mut self, exchange: Exchange) {
        let stream = match TcpStream::connect(self.shared.address) {
            Ok(stream) => stream,
            Err(error) => return self.connect_failed(&exchange, &error),
        };
        if exchange.measured {
            self.tools.recorder.connections += 1;
        }
        let connection = Connection::new(stream, exchange);
        let slot = self.slots.insert(connection);
        let Some(connection) = self.slots.get_mut(slot) else { return };
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(connection.stream_mut(), Token(slot), both) {
            return self.shared.fail(LoadError::system("epoll_ctl", &error));
        }
        // Nagle's algorithm only delays a request that does not fit one segment.
        if self.shared.image.len() > SEGMENT_BYTES_MIN {
            // Without it the run is slower, not wrong.
            let _ = connection.stream_mut().set_nodelay(true);
        }
        // On the loopback interface a connection stands as soon as it is asked for.
        if self.shared.address.ip().is_loopback() {
            let now = self.tools.clock.monotonic();
            let turn = connection.write(now, &mut self.tools);
            if connection.is_connected() {
                self.shared.alive(now);
            }
            self.settle(slot, turn);
        }
    }

    fn handle(&mut self, events: &Events) {
        for event in events {
            let Token(slot) = event.token();
            let Some(connection) = self.slots.get_mut(slot) else { continue };
            let ready = Readiness {
                readable: event.is_readable() || event.is_error(),
                closed: event.is_read_closed(),
            };
            let was_connected = connection.is_connected();
            let turn = connection.turn(ready, &mut self.tools);
            if !was_connected && connection.is_connected() {
                self.shared.alive(self.woke);
            }
            self.settle(slot, turn);
        }
    }

    /// Draws the consequences of what came of a connection.
    fn settle(&mut self, slot: usize, mut turn: Turn) {
        loop {
            turn = match turn {
                Turn::Waiting => return,
                Turn::Drained => {
                    self.draining -= 1;
                    self.slots.remove(slot);
                    return;
                }
                Turn::Answered { answer, end, reusable } => {
                    match self.answered(slot, answer, end, reusable) {
                        Some(turn) => turn,
                        None => return,
                    }
                }
                Turn::Stale => {
                    let Some(connection) = self.slots.remove(slot) else { return };
                    let exchange = *connection.exchange();
                    self.tools.recorder.resent += u64::from(exchange.measured);
                    return self.open(exchange);
                }
                Turn::Failed(kind, reason) => return self.failed(slot, kind, reason),
            };
        }
    }

    /// Takes note of a complete answer and lets its user go on. Gives what came of that if it was on the same
    /// connection.
    fn answered(&mut self, slot: usize, answer: Answer, end: Monotonic, reusable: bool) -> Option<Turn> {
        if self.shared.closed_loop.is_over(end) {
            // It came after the end of the run: it stays among those in flight.
            return None;
        }
        let judgement = self.shared.judge(&answer);
        let connection = self.slots.get_mut(slot)?;
        self.tools.recorder.answer(
            connection.exchange(),
            end,
            Received {
                status: answer.status,
                verdict: answer.verdict,
                kept: reusable,
                judgement,
                readable_since: self.woke,
            },
        );
        match self.next(end) {
            Some(exchange) if reusable => {
                let connection = self.slots.get_mut(slot)?;
                return Some(connection.begin(exchange, &mut self.tools));
            }
            Some(exchange) => {
                self.part(slot, end);
                self.open(exchange);
            }
            // The server would keep this connection open; nobody needs it any more.
            None if reusable => drop(self.slots.remove(slot)),
            None => self.part(slot, end),
        }
        None
    }

    /// Leaves a connection after its last answer. The server closes first if it will, because the side that
    /// closes first has to keep the port.
    fn part(&mut self, slot: usize, now: Monotonic) {
        let Some(connection) = self.slots.get_mut(slot) else { return };
        if connection.is_closed() {
            self.slots.remove(slot);
        } else if self.draining < DRAINING_MAX {
            connection.drain_until(now.plus(DRAIN_MAX));
            self.draining += 1;
        } else {
            self.close(slot);
        }
    }

    /// Closes a connection that the server should have closed.
    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.slots.remove(slot) {
            self.tools.recorder.closed_by_us += u64::from(connection.exchange().measured);
        }
    }

    /// Takes note of a request that failed without a complete answer; its user starts anew.
    fn failed(&mut self, slot: usize, kind: FailureKind, reason: Option<io::Error>) {
        let Some(connection) = self.slots.remove(slot) else { return };
        let exchange = *connection.exchange();
        if kind == FailureKind::Connect {
            let reason = reason.unwrap_or_else(|| io::ErrorKind::TimedOut.into());
            return self.connect_failed(&exchange, &reason);
        }
        self.tools.recorder.failure(&exchange, self.tools.clock.monotonic(), kind);
        if kind == FailureKind::Receive && self.shared.plan.stop.at_first_receive_error && exchange.measured {
            self.shared.end(Ended::ReceiveError);
        }
        self.ready += 1;
    }

    /// Takes note of a connection that could not be made; its user tries again a little later.
    fn connect_failed(&mut self, exchange: &Exchange, error: &io::Error) {
        let Some(kind) = connect_failure_kind(error) else {
            return self.shared.fail(LoadError::system("socket", error));
        };
        let now = self.tools.clock.monotonic();
        self.tools.recorder.failure(exchange, now, kind);
        self.shared.connect_failed(now, kind, &error.to_string());
        self.retries.push_back(now.plus(RETRY_AFTER));
    }

    /// Looks for requests that took too long and for connections that the server does not close.
    fn sweep(&mut self, now: Monotonic) {
        let timeout = self.shared.plan.timeout;
        let first_connect_max = timeout.min(FIRST_CONNECT_MAX);
        for slot in 0..self.slots.len() {
            let Some(connection) = self.slots.get_mut(slot) else { continue };
            let age = now.since(connection.exchange().started);
            match connection.drains_until() {
                Some(until) if until > now => {}
                Some(_) => {
                    self.draining -= 1;
                    self.close(slot);
                }
                None if !connection.is_connected()
                    && age >= first_connect_max
                    && !self.shared.was_alive() =>
                {
                    self.shared.unreachable(FailureKind::Connect, "no answer to the connection attempt");
                }
                None if age >= timeout => {
                    let kind =
                        if connection.is_connected() { FailureKind::Timeout } else { FailureKind::Connect };
                    self.failed(slot, kind, None);
                }
                None => {}
            }
        }
    }

    /// Tells the watcher how far this thread is.
    fn publish(&mut self, now: Monotonic) {
        let recorder = &self.tools.recorder;
        let (done, failed) = (recorder.requests(), recorder.failures.total());
        let (done_before, failed_before) = std::mem::replace(&mut self.published, (done, failed));
        if done > done_before {
            self.shared.control.add(done - done_before, failed - failed_before);
        }
        if recorder.complete > 0 && done - done_before > failed - failed_before {
            self.shared.alive(now);
        }
    }
}

/// The smallest maximum segment a path can be expected to have, less the longest options.
const SEGMENT_BYTES_MIN: usize = 1200;

/// Connections of one thread that may wait for the server's close at a time.
pub(crate) const DRAINING_MAX: usize = 1024;

/// Connections by slot. Freed slots are used again, so that in the steady state nothing grows.
#[derive(Debug, Default)]
struct Slots {
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
}

impl Slots {
    fn insert(&mut self, connection: Connection) -> usize {
        let slot = self.free.pop().unwrap_or(self.connections.len());
        match self.connections.get_mut(slot) {
            Some(place) => *place = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        slot
    }

    fn get_mut(&mut self, slot: usize) -> Option<&mut Connection> {
        self.connections.get_mut(slot)?.as_mut()
    }

    fn remove(&mut self, slot: usize) -> Option<Connection> {
        let connection = self.connections.get_mut(slot)?.take();
        if connection.is_some() {
            self.free.push(slot);
        }
        connection
    }

    fn len(&self) -> usize {
        self.connections.len()
    }

    /// The requests that are in flight.
    fn in_flight(&self) -> impl Iterator<Item = &Exchange> {
        let connections = self.connections.iter().flatten();
        connections.filter(|connection| connection.drains_until().is_none()).map(Connection::exchange)
    }
}

/// CPU time of this thread from the beginning of the measured part on.
struct CpuMeter {
    since: Monotonic,
    at_start: Option<Duration>,
}

impl CpuMeter {
    fn new(since: Monotonic) -> Self {
        Self { since, at_start: None }
    }

    fn observe(&mut self, now: Monotonic) {
        if self.at_start.is_none() && now >= self.since {
            self.at_start = Some(thread_cpu());
        }
    }

    fn used(&self) -> Duration {
        self.at_start.map(|at_start| thread_cpu().saturating_sub(at_start)).unwrap_or_default()
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
