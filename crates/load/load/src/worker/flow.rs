//! Handles requests and connections, in the same way for every protocol.
//!
//! Invariant: a request that was sent is in flight until it is answered, has failed, or the run is
//! over. Each request ends in exactly one of these ways. A request uses a connection with room
//! before a new one is made. A user's next request uses the connection of its last response. It
//! uses another one if the request is for another host, or if other requests are waiting for a
//! connection. A user who thinks keeps its place on its connection.
//!
//! A result is handled when its connection has worked. If a request on another connection fails at
//! once, that connection has its turn later, so results are never handled within each other.

use super::LoadWorker;
use super::poller::TIMER;
use crate::LoadError;
use crate::account::UserState;
use crate::content::Inspection;
use crate::dial::{dial, is_redialled};
use crate::exchange::ExchangeTimes;
use crate::reader::ResponseSummary;
use crate::recorder::JudgedResponse;
use crate::script::Script;
use crate::slots::{Route, SlotId, SlotRole};
use crate::transport::{ConnectError, ConnectionState, PendingRequest, Readiness, Transport, TransportEvent};
use clock::Monotonic;
use mio::{Events, Interest, Token};
use record::{AbEnd, Close, Ended, FailureKind};
use std::io;
use std::time::Duration;

/// How long a user waits after a failed connection.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long the server may take to close a connection after its last response.
const PART_MAX: Duration = Duration::from_secs(1);

/// The most connections of one thread that may wait for the server's close at a time.
pub(crate) const PARTING_MAX: usize = 1024;

/// How long the first connection of a run may take before the target counts as unreachable.
const FIRST_CONNECT_MAX: Duration = Duration::from_secs(4);

impl<T: Transport, S: Script> LoadWorker<'_, T, S> {
    /// Sends a request on an available connection, or queues it.
    pub(super) fn send(&mut self, exchange: ExchangeTimes) {
        if self.pool.waiting.is_empty() && self.can_send(self.shared.routes.route(exchange.url)) {
            self.meter.start(&exchange, &mut self.tools.recorder);
            self.dispatch(exchange);
        } else {
            self.pool.waiting.push_back(exchange);
            self.pool.is_freed = true;
        }
    }

    /// Sends queued requests that can have a connection now.
    pub(super) fn start_waiting(&mut self) {
        if !std::mem::take(&mut self.pool.is_freed) {
            return;
        }
        for _ in 0..self.pool.waiting.len() {
            let Some(exchange) = self.pool.waiting.pop_front() else { return };
            if self.can_send(self.shared.routes.route(exchange.url)) {
                let exchange = exchange.started_at(self.tools.clock.monotonic());
                self.meter.start(&exchange, &mut self.tools.recorder);
                self.dispatch(exchange);
            } else if self.shared.routes.hosts() == 1 {
                self.pool.waiting.push_front(exchange);
                return;
            } else {
                self.pool.waiting.push_back(exchange);
            }
        }
    }

    /// Whether a connection with room is available or may be made. May close an unused connection
    /// to another host at the same address to make room.
    fn can_send(&mut self, route: Route) -> bool {
        let slots = &mut self.pool.slots;
        if slots.has_idle(route.host) {
            return true;
        }
        if !slots.host_has_room(route) {
            return false;
        }
        if slots.address_has_room(route) {
            return true;
        }
        // An idle connection of this host would have been found above, so this one leads to another
        // host at the same address.
        match slots.idle_at_address(route.address, |place| place.load() == 0) {
            Some(slot) => {
                self.remove(slot);
                true
            }
            None => false,
        }
    }

    /// Sends a request, which already counts as in flight, on a connection with room or on a new
    /// one.
    fn dispatch(&mut self, exchange: ExchangeTimes) {
        let route = self.shared.routes.route(exchange.url);
        match self.pool.slots.take_idle(route.host) {
            Some(slot) => self.ask(slot, exchange),
            None => self.open(route, exchange),
        }
    }

    /// Opens a connection for a request.
    fn open(&mut self, route: Route, exchange: ExchangeTimes) {
        match self.connect(route, &exchange) {
            Ok(slot) => {
                self.tools.recorder.connections += u64::from(exchange.measured);
                self.ask(slot, exchange);
            }
            Err(error) => {
                self.note_end(&exchange);
                self.connect_failed([exchange], &ConnectError::Tcp(error));
            }
        }
    }

    fn connect(&mut self, route: Route, exchange: &ExchangeTimes) -> io::Result<usize> {
        let address = self.shared.routes.address(route.address);
        if let Some((slot, mut connection)) = self.pool.slots.revive(route.address) {
            let renewed = connection.renew(address, exchange, &self.tools);
            self.pool.slots.put(slot, renewed.is_ok().then_some(connection), route);
            return renewed.map(|()| slot);
        }
        let local = self.pool.local(self.shared.plan.source, self.place);
        let mut stream = dial(address, local, self.shared.plan.socket_buffer_bytes)?;
        let token = Token(self.pool.slots.next_slot());
        if let Err(error) = self.poller.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)
        {
            self.shared.fail(LoadError::system("epoll_ctl", &error));
            return Err(error);
        }
        Ok(self.pool.slots.insert(T::open(stream, address, exchange, &self.tools), route))
    }

    /// Gives a request to a connection. If it fails at once, the connection has a turn later.
    #[inline]
    fn ask(&mut self, slot: usize, exchange: ExchangeTimes) {
        let inspection = self.script.inspect(exchange.url);
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        let was_proven = place.connection.is_proven();
        place.connection.ask(PendingRequest { exchange, inspection }, &mut self.tools);
        if !was_proven && place.connection.is_proven() {
            self.shared.alive(exchange.started);
        }
        let has_work = place.connection.has_work();
        let role = if place.load() < self.pool.capacity { SlotRole::Idle } else { SlotRole::Busy };
        self.pool.slots.set_role(slot, role);
        if has_work {
            self.pool.mark(slot);
        }
    }

    /// Handles the events of one poll.
    pub(super) fn handle(&mut self, events: &Events) {
        for event in events.iter().filter(|event| event.token() != TIMER) {
            let Token(slot) = event.token();
            let ready = Readiness {
                readable: event.is_readable() || event.is_error(),
                closed: event.is_read_closed(),
            };
            self.turn(slot, ready);
        }
        self.turn_marked();
    }

    /// Goes on with connections whose last turn did not read all bytes.
    pub(super) fn read_on(&mut self) {
        for id in std::mem::take(&mut self.pool.unread) {
            if let Some(place) = self.pool.slots.remembered(id) {
                place.is_unread = false;
                self.turn(id.slot, Readiness { readable: true, closed: false });
            }
        }
    }

    /// Works on connections that got requests. Connections that get requests meanwhile wait for the
    /// next time, so that other work has its turn.
    pub(super) fn turn_marked(&mut self) {
        let mut marked = self.pool.take_marked();
        for slot in marked.drain(..) {
            if let Some(place) = self.pool.slots.get_mut(slot) {
                place.is_marked = false;
                self.turn(slot, Readiness::default());
            }
        }
        self.pool.recycle(marked);
    }

    /// Works on a connection, and acts on the results.
    fn turn(&mut self, slot: usize, ready: Readiness) {
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        let was_proven = place.connection.is_proven();
        let is_unread = place.connection.turn(ready, &mut self.tools);
        if !was_proven && place.connection.is_proven() {
            self.shared.alive(self.poller.woke);
        }
        if is_unread {
            self.pool.note_unread(slot);
        }
        self.settle(slot);
    }

    /// Acts on the results of a connection.
    fn settle(&mut self, slot: usize) {
        while let Some(event) = self.pool.slots.get_mut(slot).and_then(|place| place.connection.next_event())
        {
            match event {
                TransportEvent::Answered(pending, answer, end) => self.answered(slot, pending, answer, end),
                TransportEvent::Failed(pending, kind, is_broken) => {
                    self.failed(slot, &pending, kind, is_broken)
                }
                TransportEvent::Returned(pending) => self.returned(slot, &pending),
                TransportEvent::Unconnected(error) => self.unconnected(slot, &error),
            }
        }
        self.release(slot);
    }

    /// Records a complete response and lets its user continue.
    fn answered(&mut self, slot: usize, pending: PendingRequest, answer: ResponseSummary, end: Monotonic) {
        let PendingRequest { exchange, inspection } = pending;
        if self.shared.course.is_over(end) {
            // The response was read after the end of the run, so it stays unfinished.
            self.meter.too_late.push(exchange);
            return;
        }
        if exchange.measured
            && let Some(place) = self.pool.slots.get_mut(slot)
        {
            place.served += 1;
            self.shared.ab_end(|| place.connection.ab_end(Some(answer.status), false));
        }
        self.note_answer(&exchange, answer, end, inspection);
        if !exchange.of_user {
            return;
        }
        if let Some(time) = self.script.think() {
            return self.thinks(slot, end, time);
        }
        // Judging took time that belongs to the generator and not to the next request.
        let now = self.tools.clock.monotonic();
        match self.next(UserState::Processing, now) {
            Some(next) => self.go_on_with(slot, next),
            None => self.user_left(slot),
        }
    }

    /// Sends a user's next request on the connection it had, or on another.
    #[inline]
    fn go_on_with(&mut self, slot: usize, next: ExchangeTimes) {
        if self.pool.waiting.is_empty() && self.pool.has_room(slot, self.shared.routes.route(next.url).host) {
            self.meter.start(&next, &mut self.tools.recorder);
            self.ask(slot, next);
        } else {
            self.release(slot);
            self.send(next);
        }
    }

    /// Lets a user think. If its connection stays open, the user keeps its place on it.
    fn thinks(&mut self, slot: usize, now: Monotonic, time: Duration) {
        let kept = self.pool.hold(slot);
        self.tools.recorder.ledger.pass(UserState::Processing, UserState::Thinking, now);
        self.users.pause(now.plus(time), UserState::Thinking, kept);
    }

    /// Lets a user with a place on a connection continue after thinking.
    pub(super) fn go_on(&mut self, id: SlotId) {
        let now = self.tools.clock.monotonic();
        let is_there = self.pool.unhold(id);
        match self.next(UserState::Late, now) {
            Some(next) if is_there => self.go_on_with(id.slot, next),
            Some(next) => self.send(next),
            None if is_there => self.user_left(id.slot),
            None => {}
        }
    }

    /// Handles a user that left a connection. The server would keep the connection open, but if no
    /// request waits and it is unused, it is dropped.
    fn user_left(&mut self, slot: usize) {
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        let is_unused = place.load() == 0 && place.connection.state() == ConnectionState::Open;
        if is_unused && self.pool.waiting.is_empty() {
            self.remove(slot);
        } else {
            self.release(slot);
        }
    }

    /// Offers free room on a connection to other requests. A connection that takes no more requests
    /// is retired when its last one has ended.
    fn release(&mut self, slot: usize) {
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        let state = place.connection.state();
        let is_retired = matches!(place.role, SlotRole::Lingering | SlotRole::Parting);
        match state {
            ConnectionState::Open if is_retired => {}
            ConnectionState::Open if place.load() < self.pool.capacity => {
                self.pool.is_freed |= !self.pool.waiting.is_empty();
                self.pool.slots.set_role(slot, SlotRole::Idle);
            }
            _ if place.connection.load() > 0 || state == ConnectionState::Open => {
                self.pool.slots.set_role(slot, SlotRole::Busy);
            }
            ConnectionState::Broken => drop(self.remove(slot)),
            ConnectionState::Closed => self.leave(slot),
            _ if is_retired => {}
            _ => self.part(slot, state),
        }
    }

    /// Retires a connection after its last response. A server that closes is given time to do so
    /// first, because the side that closes first has to keep the port in TIME_WAIT.
    fn part(&mut self, slot: usize, state: ConnectionState) {
        let now = self.tools.clock.monotonic();
        let linger = self.shared.plan.linger;
        if !linger.is_zero() {
            self.pool.retire_until(slot, SlotRole::Lingering, now.plus(linger));
        } else if state == ConnectionState::Done {
            self.remove(slot);
        } else if self.pool.parting < PARTING_MAX {
            self.pool.parting += 1;
            self.pool.retire_until(slot, SlotRole::Parting, now.plus(PART_MAX));
        } else {
            self.close(slot);
        }
        self.pool.is_freed |= !self.pool.waiting.is_empty();
    }

    /// Removes a connection that the server has closed, or keeps its socket for reuse.
    fn leave(&mut self, slot: usize) {
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        let is_redialled = self.shared.plan.close == Close::Rst
            && is_redialled(self.shared.routes.address(place.route.address));
        if !is_redialled {
            // Dropping the connection closes it: our FIN follows the server's.
            self.remove(slot);
            return;
        }
        let (served, role) = (place.served, place.role);
        self.pool.slots.retire(slot);
        self.note_removed(served, role);
    }

    /// Closes a connection that the server should have closed.
    fn close(&mut self, slot: usize) {
        if let Some(is_measured) = self.remove(slot) {
            self.tools.recorder.closed_by_us += u64::from(is_measured);
        }
    }

    /// Removes a connection from the table; dropping it closes it. Returns whether its last
    /// response belongs to the measured part.
    fn remove(&mut self, slot: usize) -> Option<bool> {
        let removed = self.pool.slots.remove(slot)?;
        self.note_removed(removed.served, removed.role);
        Some(removed.served > 0)
    }

    fn note_removed(&mut self, served: u64, role: SlotRole) {
        self.pool.parting -= usize::from(role == SlotRole::Parting);
        self.pool.is_freed |= !self.pool.waiting.is_empty();
        self.tools.recorder.connection_over(served);
    }

    /// Records a request that failed without a complete response; its user continues with a new
    /// one.
    fn failed(&mut self, slot: usize, pending: &PendingRequest, kind: FailureKind, is_broken: bool) {
        let PendingRequest { exchange, inspection } = pending;
        self.script.give_up(exchange.url, inspection);
        self.note_end(exchange);
        if exchange.measured {
            match kind {
                FailureKind::Receive | FailureKind::Malformed => {
                    if let Some(place) = self.pool.slots.get_mut(slot) {
                        self.shared.ab_end(|| place.connection.ab_end(None, is_broken));
                    }
                }
                FailureKind::Timeout => self.shared.with_ab(|account| account.silent += 1),
                _ => {}
            }
        }
        self.tools.recorder.failure(exchange, self.tools.clock.monotonic(), kind);
        self.users.ready += usize::from(exchange.of_user);
        if is_broken && self.shared.plan.stop.at_first_receive_error && exchange.measured {
            self.shared.end(Ended::ReceiveError);
        }
    }

    /// Sends a request that its connection did not process on another connection.
    fn returned(&mut self, slot: usize, pending: &PendingRequest) {
        let exchange = pending.exchange;
        self.script.give_up(exchange.url, &pending.inspection);
        if exchange.measured {
            self.tools.recorder.resent += 1;
            self.shared.ab_end(|| Some(AbEnd::default()));
        }
        self.release(slot);
        if self.can_send(self.shared.routes.route(exchange.url)) {
            return self.dispatch(exchange);
        }
        self.note_end(&exchange);
        self.pool.waiting.push_front(ExchangeTimes { is_returned: true, ..exchange });
        self.pool.is_freed = true;
    }

    /// Drops a connection that could not be established, and fails its requests.
    fn unconnected(&mut self, slot: usize, error: &ConnectError) {
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        let requests = place.connection.give_up();
        self.remove(slot);
        let now = self.tools.clock.monotonic();
        for PendingRequest { exchange, inspection } in &requests {
            self.script.give_up(exchange.url, inspection);
            self.meter.end(exchange, now, &mut self.tools.recorder);
        }
        self.connect_failed(requests.into_iter().map(|pending| pending.exchange), error);
    }

    /// Handles a failed connection; the users of its requests try again after [`RETRY_AFTER`].
    fn connect_failed(&mut self, requests: impl IntoIterator<Item = ExchangeTimes>, error: &ConnectError) {
        let Some(kind) = error.kind() else {
            return self.shared.fail(LoadError::limit("socket", &io::Error::other(error.to_string())));
        };
        let now = self.tools.clock.monotonic();
        let mut url = 0;
        for exchange in requests {
            url = exchange.url;
            self.not_connected(&exchange, now, kind);
        }
        self.shared.connect_failed(now, url, kind, &error.to_string());
    }

    /// Records a request whose connection could not be made.
    fn not_connected(&mut self, exchange: &ExchangeTimes, now: Monotonic, kind: FailureKind) {
        self.tools.recorder.failure(exchange, now, kind);
        if exchange.measured {
            self.shared.with_ab(|account| account.refused += 1);
        }
        if exchange.of_user {
            let until = now.plus(RETRY_AFTER);
            if exchange.measured {
                self.tools.recorder.pauses.add(now, until);
            }
            self.users.pause(until, UserState::Connecting, None);
        }
    }

    /// Fails requests that took too long, and closes connections whose time is up.
    pub(super) fn sweep(&mut self, now: Monotonic) {
        for slot in 0..self.pool.slots.len() {
            let Some(place) = self.pool.slots.get_mut(slot) else { continue };
            let is_due = place.until <= now;
            match place.role {
                SlotRole::Parting if is_due => self.close(slot),
                SlotRole::Lingering if is_due => drop(self.remove(slot)),
                SlotRole::Busy | SlotRole::Idle => self.expire(slot, now),
                SlotRole::Parting | SlotRole::Lingering => {}
            }
        }
        let timeout = self.shared.plan.timeout;
        while let Some(late) = self.pool.waiting.pop_front_if(|first| now.since(first.intended) >= timeout) {
            self.tools.recorder.never_sent(&late, now);
            self.users.ready += usize::from(late.of_user);
        }
    }

    /// Fails the requests of a connection that took too long.
    fn expire(&mut self, slot: usize, now: Monotonic) {
        let timeout = self.shared.plan.timeout;
        let Some(place) = self.pool.slots.get_mut(slot) else { return };
        if place.connection.is_connected() {
            place.connection.expire(now, timeout, &self.tools);
            if place.connection.has_work() {
                self.settle(slot);
            }
            return;
        }
        let Some(first) = place.connection.under_way().next().copied() else { return };
        let age = now.since(first.started);
        if age >= timeout.min(FIRST_CONNECT_MAX) && !self.shared.was_alive() {
            let reason = "no response to the connection attempt";
            self.shared.unreachable(first.url, FailureKind::Connect, reason);
        } else if age >= timeout {
            self.unconnected(slot, &ConnectError::Tcp(io::ErrorKind::TimedOut.into()));
        }
    }

    /// Judges and records a complete response.
    fn note_answer(
        &mut self,
        exchange: &ExchangeTimes,
        answer: ResponseSummary,
        end: Monotonic,
        inspection: Inspection,
    ) {
        let judgement = self.script.judge(exchange.url, &answer, inspection);
        if self.tools.recorder.second_is_over(end) {
            self.end_seconds(end);
        }
        let received = JudgedResponse {
            status: answer.status,
            verdict: answer.verdict,
            kept: answer.persistent,
            length_known: answer.length_known,
            judgement,
            content_bytes: answer.content_bytes,
            readable_since: self.poller.woke,
        };
        self.tools.recorder.answer(exchange, end, received);
        self.meter.end(exchange, end, &mut self.tools.recorder);
    }

    /// Records that a request is no longer in flight.
    fn note_end(&mut self, exchange: &ExchangeTimes) {
        self.meter.end(exchange, self.tools.clock.monotonic(), &mut self.tools.recorder);
    }
}
