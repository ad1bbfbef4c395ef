//! Handles requests, and the connections that carry one request at a time.
//!
//! Invariant: a request that was sent is in flight until it is answered, has failed, or the run is
//! over. Each request ends in exactly one of these ways. A user keeps its connection while it
//! thinks. Without think time, a user continues on the connection of its last response. The user
//! takes another one if the request is for another host, or if other requests are waiting for a
//! connection.

use super::{TIMER, Worker};
use crate::LoadError;
use crate::account::State;
use crate::connection::{Connection, Readiness, Turn};
use crate::content::Inspection;
use crate::dial::{dial, is_redialled};
use crate::exchange::Exchange;
use crate::reader::Answer;
use crate::recorder::Received;
use crate::shared::connect_failure_kind;
use crate::slots::{Role, Route, SlotId};
use clock::Monotonic;
use mio::{Events, Token};
use record::{AbEnd, Close, Ended, FailureKind};
use std::cmp::Reverse;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// How long a user waits after a failed connection.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long the server may take to close a connection after its last response.
const PART_MAX: Duration = Duration::from_secs(1);

/// The most connections of one thread that may wait for the server's close at a time.
pub(crate) const PARTING_MAX: usize = 1024;

/// How long the first connection of a run may take before the target counts as unreachable.
pub(super) const FIRST_CONNECT_MAX: Duration = Duration::from_secs(4);

/// The smallest maximum segment size to expect on a path, less the longest TCP options.
const SEGMENT_BYTES_MIN: usize = 1200;

/// Idle connections have no deadline: they wait for their next request or the server's close.
const FOREVER: Monotonic = Monotonic::from_nanos(u64::MAX);

impl Worker<'_> {
    /// Sends a request on an available connection, or queues it.
    pub(super) fn send(&mut self, exchange: Exchange) {
        if self.waiting.is_empty() && self.can_send(self.shared.routes.route(exchange.url)) {
            self.send_now(exchange);
        } else {
            self.waiting.push_back(exchange);
            self.is_freed = true;
        }
    }

    /// Sends queued requests that can have a connection now.
    pub(super) fn start_waiting(&mut self) {
        if !std::mem::take(&mut self.is_freed) {
            return;
        }
        for _ in 0..self.waiting.len() {
            let Some(exchange) = self.waiting.pop_front() else { return };
            if self.can_send(self.shared.routes.route(exchange.url)) {
                let now = self.tools.clock.monotonic();
                self.send_now(exchange.started_at(now));
            } else if self.shared.routes.hosts() == 1 {
                self.waiting.push_front(exchange);
                return;
            } else {
                self.waiting.push_back(exchange);
            }
        }
    }

    /// Whether a connection is available or may be made. May close an idle connection to another
    /// host at the same address to make room.
    fn can_send(&mut self, route: Route) -> bool {
        if self.has_carriers {
            return self.can_carry(route);
        }
        if self.slots.has_idle(route.host) {
            return true;
        }
        if !self.slots.host_has_room(route) {
            return false;
        }
        if self.slots.address_has_room(route) {
            return true;
        }
        // An idle connection of this host would have been taken above, so this one leads to another
        // host at the same address.
        match self.slots.idle_at_address(route.address, |_| true) {
            Some(slot) => {
                self.remove(slot);
                true
            }
            None => false,
        }
    }

    fn send_now(&mut self, exchange: Exchange) {
        self.note_start(&exchange);
        if self.has_carriers {
            return self.carry(exchange);
        }
        let host = self.shared.routes.route(exchange.url).host;
        match self.slots.take_idle(host) {
            Some(slot) => self.use_again(slot, exchange),
            None => self.open(exchange),
        }
    }

    /// Sends a request on an idle or kept connection.
    fn use_again(&mut self, slot: usize, exchange: Exchange) {
        self.slots.set_role(slot, Role::Busy);
        if let Some(turn) = self.begin(slot, exchange) {
            self.settle(slot, turn);
        }
    }

    pub(super) fn note_start(&mut self, exchange: &Exchange) {
        self.count_in_flight(exchange.started);
        self.in_flight += 1;
        if exchange.measured {
            self.in_flight_measured += 1;
            self.tools.recorder.counters.started += u64::from(!exchange.is_returned);
        }
    }

    /// Records that a request is no longer in flight from `now` on.
    pub(super) fn note_end(&mut self, exchange: &Exchange, now: Monotonic) {
        self.count_in_flight(now);
        self.in_flight -= 1;
        self.in_flight_measured -= usize::from(exchange.measured);
    }

    /// Updates the integral of requests in flight over time, which is checked against the times of
    /// the requests.
    pub(super) fn count_in_flight(&mut self, now: Monotonic) {
        if !self.counts_in_flight {
            return;
        }
        let time = now.since(self.counted_until);
        self.counted_until = self.counted_until.max(now);
        self.tools.recorder.in_flight_area_ns += self.in_flight_measured as u128 * time.as_nanos();
    }

    /// Sends a request on an established connection, and returns the result.
    fn begin(&mut self, slot: usize, exchange: Exchange) -> Option<Turn> {
        let inspection = self.inspection(&exchange);
        let place = self.slots.get_mut(slot)?;
        place.connection.inspect(inspection);
        Some(place.connection.begin(exchange, &mut self.tools))
    }

    /// How to inspect the content of the response to a request.
    pub(super) fn inspection(&mut self, exchange: &Exchange) -> Inspection {
        self.inspected += 1;
        self.shared.contents.inspect(exchange.url, self.inspected, self.shared.expect(exchange.url))
    }

    /// Opens a connection for a request, and sends the request if that is possible at once.
    fn open(&mut self, exchange: Exchange) {
        let route = self.shared.routes.route(exchange.url);
        let address = self.shared.routes.address(route.address);
        let slot = match self.connect(route, exchange) {
            Ok(slot) => slot,
            Err(error) => {
                self.note_end(&exchange, self.tools.clock.monotonic());
                return self.connect_failed(&exchange, FailureKind::Connect, &error);
            }
        };
        if exchange.measured {
            self.tools.recorder.connections += 1;
        }
        let inspection = self.inspection(&exchange);
        let Some(place) = self.slots.get_mut(slot) else { return };
        place.connection.inspect(inspection);
        if let Err(error) = place.connection.register(self.poll.registry(), Token(slot)) {
            return self.shared.fail(LoadError::system("epoll_ctl", &error));
        }
        // Nagle's algorithm only delays a request that does not fit one segment.
        if self.tools.image(&exchange).len() > SEGMENT_BYTES_MIN {
            // The error is ignored: with Nagle's algorithm a run is slower, not wrong.
            let _ = place.connection.set_nodelay();
        }
        // On the loopback interface a connection is established as soon as it is requested.
        if address.ip().is_loopback() {
            let now = self.tools.clock.monotonic();
            let turn = place.connection.write(now, &mut self.tools);
            if place.connection.is_connected() {
                self.shared.alive(now);
            }
            self.settle(slot, turn);
        }
    }

    fn connect(&mut self, route: Route, exchange: Exchange) -> io::Result<usize> {
        let address = self.shared.routes.address(route.address);
        match self.slots.revive(route.address) {
            Some((slot, mut connection)) => {
                let renewed = connection.renew(address, exchange, &self.tools);
                self.slots.put(slot, renewed.is_ok().then_some(connection), route);
                renewed.map(|()| slot)
            }
            None => dial(address, self.local(), self.shared.plan.socket_buffer_bytes)
                .map(|stream| self.slots.insert(Connection::new(stream, exchange, &self.tools), route)),
        }
    }

    /// The local address of the next connection, if the plan restricts local addresses.
    pub(super) fn local(&mut self) -> Option<IpAddr> {
        let source = self.shared.plan.source?;
        let (thread, threads) = self.place;
        let index = self.dialled * threads as u64 + thread as u64;
        self.dialled += 1;
        Some(source.address(index))
    }

    pub(super) fn handle(&mut self, events: &Events) {
        for event in events.iter().filter(|event| event.token() != TIMER) {
            let Token(slot) = event.token();
            if self.has_carriers {
                self.stir(slot);
                continue;
            }
            let Some(place) = self.slots.get_mut(slot) else { continue };
            let ready = Readiness {
                readable: event.is_readable() || event.is_error(),
                closed: event.is_read_closed(),
            };
            let was_connected = place.connection.is_connected();
            let turn = place.connection.turn(ready, &mut self.tools);
            if !was_connected && place.connection.is_connected() {
                self.shared.alive(self.woke);
            }
            self.settle(slot, turn);
        }
        self.turn_carriers();
    }

    /// Goes on with connections whose last turn did not read all bytes.
    pub(super) fn read_on(&mut self) {
        for id in std::mem::take(&mut self.unread) {
            let Some(place) = self.slots.remembered(id) else { continue };
            let ready = Readiness { readable: true, closed: false };
            let turn = place.connection.turn(ready, &mut self.tools);
            self.settle(id.slot, turn);
        }
    }

    /// Acts on the result of a connection.
    fn settle(&mut self, slot: usize, mut turn: Turn) {
        loop {
            turn = match turn {
                Turn::Waiting => return,
                Turn::Unread => {
                    let id = self.slots.id(slot).filter(|id| !self.unread.contains(id));
                    return self.unread.extend(id);
                }
                Turn::Drained => return self.leave(slot),
                Turn::Answered { answer, end, reusable } => {
                    match self.answered(slot, answer, end, reusable) {
                        Some(turn) => turn,
                        None => return,
                    }
                }
                Turn::Stale => {
                    let Some(mut removed) = self.remove(slot) else { return };
                    let exchange = *removed.exchange();
                    self.shared.contents.give_up(exchange.url, &removed.take_inspection());
                    self.tools.recorder.resent += u64::from(exchange.measured);
                    if exchange.measured {
                        self.shared.ab_end(AbEnd::default);
                    }
                    return self.open(exchange);
                }
                Turn::Failed(kind, reason) => return self.failed(slot, kind, reason),
            };
        }
    }

    /// Records a complete response and lets its user continue. If the next request uses the same
    /// connection, returns its result.
    fn answered(&mut self, slot: usize, answer: Answer, end: Monotonic, reusable: bool) -> Option<Turn> {
        if self.shared.course.is_over(end) {
            // The response was read after the end of the run, so it stays unfinished.
            let removed = self.remove(slot)?;
            self.too_late.push(*removed.exchange());
            return None;
        }
        let place = self.slots.get_mut(slot)?;
        let exchange = *place.connection.exchange();
        place.served += u64::from(exchange.measured);
        if exchange.measured {
            self.shared.ab_end(|| place.connection.ab_end(Some(answer.status), false));
        }
        let route = place.route;
        let inspection = place.connection.take_inspection();
        self.note_answer(&exchange, Answer { persistent: reusable, ..answer }, end, inspection);
        if exchange.of_user && !self.shared.plan.think.is_none() {
            self.thinks(slot, end, reusable);
            return None;
        }
        // Judging took time that belongs to the generator and not to the next request.
        let now = self.tools.clock.monotonic();
        let next = if exchange.of_user { self.next(State::Processing, now) } else { None };
        match next {
            Some(exchange)
                if reusable
                    && self.waiting.is_empty()
                    && self.shared.routes.route(exchange.url).host == route.host =>
            {
                self.note_start(&exchange);
                return self.begin(slot, exchange);
            }
            Some(exchange) => {
                self.release(slot, end, reusable);
                self.send(exchange);
            }
            // The server would keep this connection open, but no request needs it any more.
            None if reusable && exchange.of_user && self.waiting.is_empty() => drop(self.remove(slot)),
            None => self.release(slot, end, reusable),
        }
        None
    }

    /// Judges and records a complete response.
    pub(super) fn note_answer(
        &mut self,
        exchange: &Exchange,
        answer: Answer,
        end: Monotonic,
        inspection: Inspection,
    ) {
        let expect = self.shared.expect(exchange.url);
        let judgement = self.shared.contents.judge(expect, exchange.url, &answer, inspection);
        if self.tools.recorder.second_is_over(end) {
            self.end_seconds(end);
        }
        let received = Received {
            status: answer.status,
            verdict: answer.verdict,
            kept: answer.persistent,
            length_known: answer.length_known,
            judgement,
            content_bytes: answer.content_bytes,
            readable_since: self.woke,
        };
        self.tools.recorder.answer(exchange, end, received);
        self.note_end(exchange, end);
    }

    /// Lets the user of a connection think, and reserves the connection for it if it is reusable.
    fn thinks(&mut self, slot: usize, now: Monotonic, reusable: bool) {
        let time = self.think();
        let mut kept = None;
        if reusable {
            self.slots.set_role(slot, Role::Kept);
            kept = self.slots.id(slot);
            if let Some(place) = self.slots.get_mut(slot) {
                place.connection.drain_until(FOREVER);
            }
        } else {
            self.part(slot, now);
        }
        self.tools.recorder.ledger.pass(State::Processing, State::Thinking, now);
        self.wakes.push(Reverse((now.plus(time), State::Thinking, kept)));
    }

    /// Lets a user with a reserved connection continue after thinking.
    pub(super) fn go_on(&mut self, id: SlotId) {
        if self.has_carriers {
            return self.go_on_carrier(id);
        }
        let now = self.tools.clock.monotonic();
        let next = self.next(State::Late, now);
        let kept = self.slots.find(id, Role::Kept);
        match (next, kept) {
            (Some(exchange), Some(slot)) => {
                let route = self.slots.get_mut(slot).map(|place| place.route);
                if route.is_some_and(|route| route.host == self.shared.routes.route(exchange.url).host) {
                    self.note_start(&exchange);
                    self.use_again(slot, exchange);
                } else {
                    self.release(slot, now, true);
                    self.send(exchange);
                }
            }
            (Some(exchange), None) => self.send(exchange),
            (None, Some(slot)) => drop(self.remove(slot)),
            (None, None) => {}
        }
    }

    /// Frees a connection after a response.
    fn release(&mut self, slot: usize, now: Monotonic, reusable: bool) {
        if !reusable {
            return self.part(slot, now);
        }
        self.is_freed |= !self.waiting.is_empty();
        self.slots.set_role(slot, Role::Idle);
        if let Some(place) = self.slots.get_mut(slot) {
            place.connection.drain_until(FOREVER);
        }
    }

    /// Retires a connection after its last response. The server is given time to close first,
    /// because the side that closes first has to keep the port in TIME_WAIT.
    fn part(&mut self, slot: usize, now: Monotonic) {
        let linger = self.shared.plan.linger;
        let Some(place) = self.slots.get_mut(slot) else { return };
        if place.connection.is_closed() {
            return self.leave(slot);
        }
        if !linger.is_zero() {
            place.connection.drain_until(now.plus(linger));
            self.slots.set_role(slot, Role::Lingering);
        } else if self.parting < PARTING_MAX {
            place.connection.drain_until(now.plus(PART_MAX));
            self.slots.set_role(slot, Role::Parting);
            self.parting += 1;
        } else {
            self.close(slot);
        }
        self.is_freed |= !self.waiting.is_empty();
    }

    /// Removes a connection that the server has closed, or keeps its socket for reuse.
    fn leave(&mut self, slot: usize) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        let (served, role, route) = (place.served, place.role, place.route);
        let is_redialled =
            self.shared.plan.close == Close::Rst && is_redialled(self.shared.routes.address(route.address));
        if !is_redialled {
            // Dropping the connection closes it: our FIN follows the server's.
            self.remove(slot);
            return;
        }
        self.parting -= usize::from(role == Role::Parting);
        self.slots.retire(slot);
        self.tools.recorder.connection_over(served);
        self.is_freed |= !self.waiting.is_empty();
    }

    /// Closes a connection that the server should have closed.
    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.remove(slot) {
            self.tools.recorder.closed_by_us += u64::from(connection.exchange().measured);
        }
    }

    /// Removes a connection from the table; dropping it closes it.
    fn remove(&mut self, slot: usize) -> Option<Connection> {
        let removed = self.slots.remove(slot)?;
        self.parting -= usize::from(removed.role == Role::Parting);
        self.tools.recorder.connection_over(removed.served);
        self.is_freed |= !self.waiting.is_empty();
        Some(removed.connection)
    }

    /// Records a request that failed without a complete response; its user continues with a new
    /// one.
    fn failed(&mut self, slot: usize, kind: FailureKind, reason: Option<io::Error>) {
        let Some(mut removed) = self.remove(slot) else { return };
        let exchange = *removed.exchange();
        self.shared.contents.give_up(exchange.url, &removed.take_inspection());
        self.note_end(&exchange, self.tools.clock.monotonic());
        let is_broken = kind == FailureKind::Receive && reason.is_some();
        if exchange.measured {
            match kind {
                FailureKind::Receive | FailureKind::Malformed => {
                    self.shared.ab_end(|| removed.ab_end(None, is_broken));
                }
                FailureKind::Timeout => self.shared.with_ab(|account| account.silent += 1),
                _ => {}
            }
        }
        if matches!(kind, FailureKind::Connect | FailureKind::Tls) {
            let reason = reason.unwrap_or_else(|| io::ErrorKind::TimedOut.into());
            return self.connect_failed(&exchange, kind, &reason);
        }
        self.note_failure(&exchange, kind);
        if is_broken && self.shared.plan.stop.at_first_receive_error && exchange.measured {
            self.shared.end(Ended::ReceiveError);
        }
    }

    /// Records a failure of a request that had a connection; its user continues with a new one.
    pub(super) fn note_failure(&mut self, exchange: &Exchange, kind: FailureKind) {
        self.tools.recorder.failure(exchange, self.tools.clock.monotonic(), kind);
        self.users.ready += usize::from(exchange.of_user);
    }

    /// Handles a failed connection; its user tries again after [`RETRY_AFTER`].
    pub(super) fn connect_failed(&mut self, exchange: &Exchange, kind: FailureKind, error: &io::Error) {
        let kind = match (kind, connect_failure_kind(error)) {
            (FailureKind::Connect, Some(kind)) => kind,
            (FailureKind::Connect, None) => return self.shared.fail(LoadError::limit("socket", error)),
            (kind, _) => kind,
        };
        let now = self.tools.clock.monotonic();
        self.not_connected(exchange, now, kind);
        self.shared.connect_failed(now, exchange.url, kind, &error.to_string());
    }

    /// Records a request whose connection could not be made.
    pub(super) fn not_connected(&mut self, exchange: &Exchange, now: Monotonic, kind: FailureKind) {
        self.tools.recorder.failure(exchange, now, kind);
        if exchange.measured {
            self.shared.with_ab(|account| account.refused += 1);
        }
        if exchange.of_user {
            let until = now.plus(RETRY_AFTER);
            if exchange.measured {
                self.tools.recorder.pauses.add(now, until);
            }
            self.wakes.push(Reverse((until, State::Connecting, None)));
        }
    }

    /// Fails requests that took too long, and closes connections whose time is up.
    pub(super) fn sweep(&mut self, now: Monotonic) {
        let timeout = self.shared.plan.timeout;
        for slot in 0..self.slots.len() {
            let Some(place) = self.slots.get_mut(slot) else { continue };
            let (connection, exchange) = (&place.connection, *place.connection.exchange());
            let is_due = connection.drains_until().is_some_and(|until| until <= now);
            match place.role {
                Role::Parting if is_due => self.close(slot),
                Role::Lingering if is_due => drop(self.remove(slot)),
                Role::Busy => {
                    let (age, is_connected) = (now.since(exchange.started), connection.is_connected());
                    if !is_connected && age >= timeout.min(FIRST_CONNECT_MAX) && !self.shared.was_alive() {
                        let reason = "no response to the connection attempt";
                        self.shared.unreachable(exchange.url, FailureKind::Connect, reason);
                    } else if age >= timeout {
                        let kind = if is_connected { FailureKind::Timeout } else { FailureKind::Connect };
                        self.failed(slot, kind, None);
                    }
                }
                _ => {}
            }
        }
        self.sweep_carriers(now);
        while let Some(late) = self.waiting.pop_front_if(|first| now.since(first.intended) >= timeout) {
            self.tools.recorder.never_sent(&late, now);
            self.users.ready += usize::from(late.of_user);
        }
    }
}
