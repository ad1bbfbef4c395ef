//! Handles requests on connections that carry several at once, and these connections.
//!
//! Invariant: a request uses a connection with room before a new one is made. A user's next request
//! uses the connection of its last response. It uses another one if the request is for another
//! host, or if other requests are waiting for a connection. A user who thinks keeps its place.
//! Connections are processed between two polls, never while a result is being handled.

use super::Worker;
use super::flow::FIRST_CONNECT_MAX;
use crate::LoadError;
use crate::account::State;
use crate::content::Inspection;
use crate::dial::dial;
use crate::exchange::Exchange;
use crate::reader::Answer;
use crate::shared::connect_failure_kind;
use crate::slots::{Role, Route, Slot, SlotId};
use crate::streams::{Asked, Came, Carrier, ConnectError};
use clock::Monotonic;
use mio::{Interest, Token};
use record::FailureKind;
use std::cmp::Reverse;
use std::io;

impl Worker<'_> {
    /// Whether a connection with room is available or may be made. May close an unused connection
    /// to another host at the same address to make room.
    pub(super) fn can_carry(&mut self, route: Route) -> bool {
        if self.carriers.has_idle(route.host) {
            return true;
        }
        if !self.carriers.host_has_room(route) {
            return false;
        }
        if self.carriers.address_has_room(route) {
            return true;
        }
        match self.carriers.idle_at_address(route.address, |carrier| carrier.load() == 0) {
            Some(slot) => {
                self.drop_carrier(slot);
                true
            }
            None => false,
        }
    }

    /// Sends a request, which already counts as in flight, on a connection with room or on a new
    /// one.
    pub(super) fn carry(&mut self, exchange: Exchange) {
        let route = self.shared.routes.route(exchange.url);
        let slot = match self.carriers.take_idle(route.host) {
            Some(slot) => slot,
            None => match self.dial_carrier(route, &exchange) {
                Ok(slot) => slot,
                Err(error) => {
                    self.note_end(&exchange, self.tools.clock.monotonic());
                    return self.connect_failed(&exchange, FailureKind::Connect, &error);
                }
            },
        };
        self.ask(slot, exchange);
    }

    fn dial_carrier(&mut self, route: Route, exchange: &Exchange) -> io::Result<usize> {
        let address = self.shared.routes.address(route.address);
        let mut stream = dial(address, self.local(), self.shared.plan.socket_buffer_bytes)?;
        if exchange.measured {
            self.tools.recorder.connections += 1;
        }
        let token = Token(self.carriers.next_slot());
        self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(self.carriers.insert(Carrier::new(stream, exchange, &self.tools), route))
    }

    /// Gives a request to a connection.
    fn ask(&mut self, slot: usize, exchange: Exchange) {
        let inspection = self.inspection(&exchange);
        let Some(place) = self.carriers.get_mut(slot) else { return };
        place.connection.ask(Asked { exchange, inspection });
        let has_room = place.connection.load() < self.per_user;
        self.carriers.set_role(slot, if has_room { Role::Idle } else { Role::Busy });
        self.stir(slot);
    }

    /// Marks a connection for processing.
    pub(super) fn stir(&mut self, slot: usize) {
        let Some(place) = self.carriers.get_mut(slot) else { return };
        if !std::mem::replace(&mut place.connection.is_stirred, true) {
            self.stirred.push(slot);
        }
    }

    /// Processes the marked connections. A second pass sends the requests that responses of the
    /// first pass led to. Results of the second pass wait for the next poll, so that other work has
    /// its turn.
    pub(super) fn turn_carriers(&mut self) {
        for _ in 0..2 {
            let spare = std::mem::take(&mut self.spare);
            let mut stirred = std::mem::replace(&mut self.stirred, spare);
            stirred.drain(..).for_each(|slot| self.turn_carrier(slot));
            self.spare = stirred;
        }
    }

    fn turn_carrier(&mut self, slot: usize) {
        let Some(place) = self.carriers.get_mut(slot) else { return };
        place.connection.is_stirred = false;
        let was_proven = place.connection.is_proven();
        let turned = place.connection.turn(&mut self.tools);
        let is_unread = place.connection.is_unread();
        if !was_proven && place.connection.is_proven() {
            let now = self.tools.clock.monotonic();
            self.shared.alive(now);
        }
        if let Err(error) = turned {
            return self.carrier_failed(slot, &error);
        }
        while let Some(came) = self.carriers.get_mut(slot).and_then(|place| place.connection.next_came()) {
            match came {
                Came::Answered(asked, answer, end) => self.carried(slot, asked, answer, end),
                Came::Failed(Asked { exchange, inspection }, kind) => {
                    self.shared.contents.give_up(exchange.url, &inspection);
                    self.note_end(&exchange, self.tools.clock.monotonic());
                    self.note_failure(&exchange, kind);
                }
                Came::Unseen(Asked { exchange, inspection }) => {
                    self.shared.contents.give_up(exchange.url, &inspection);
                    self.tools.recorder.resent += u64::from(exchange.measured);
                    self.carry_again(slot, exchange);
                }
            }
        }
        self.leave_room(slot);
        if is_unread {
            self.stir(slot);
        }
    }

    /// Handles a connection that could not be made.
    fn carrier_failed(&mut self, slot: usize, error: &ConnectError) {
        let kind = match error {
            ConnectError::Tcp(error) => match connect_failure_kind(error) {
                Some(kind) => kind,
                None => return self.shared.fail(LoadError::limit("socket", error)),
            },
            ConnectError::Tls(_) | ConnectError::Protocol(_) => FailureKind::Tls,
        };
        let now = self.tools.clock.monotonic();
        let url = self.give_up_waiting(slot, now, kind);
        self.shared.connect_failed(now, url, kind, &error.to_string());
    }

    /// Fails the requests that wait for a connection that cannot be made, and drops the connection.
    /// Returns the index of the last request's URL.
    fn give_up_waiting(&mut self, slot: usize, now: Monotonic, kind: FailureKind) -> u32 {
        let waiting = self.carriers.get_mut(slot).map(|place| place.connection.take_waiting());
        let mut url = 0;
        for Asked { exchange, inspection } in waiting.unwrap_or_default() {
            url = exchange.url;
            self.shared.contents.give_up(url, &inspection);
            self.note_end(&exchange, now);
            self.not_connected(&exchange, now, kind);
        }
        self.drop_carrier(slot);
        url
    }

    /// Records a complete response and lets its user continue.
    fn carried(&mut self, slot: usize, asked: Asked, answer: Answer, end: Monotonic) {
        let Asked { exchange, inspection } = asked;
        if self.shared.course.is_over(end) {
            // The response came after the end of the run, so it stays unfinished.
            self.too_late.push(exchange);
            return;
        }
        let keeps = self.shared.plan.keep_alive;
        self.note_carried(slot, &exchange, answer, end, inspection);
        if !keeps {
            self.part_carrier(slot, end);
        }
        if !exchange.of_user {
            return;
        }
        if !self.shared.plan.think.is_none() {
            return self.thinks_on_carrier(slot, end);
        }
        let now = self.tools.clock.monotonic();
        match self.next(State::Processing, now) {
            Some(next) => self.go_on_with(slot, next),
            None => self.user_left(slot),
        }
    }

    fn note_carried(
        &mut self,
        slot: usize,
        exchange: &Exchange,
        answer: Answer,
        end: Monotonic,
        inspection: Inspection,
    ) {
        if let Some(place) = self.carriers.get_mut(slot) {
            place.served += u64::from(exchange.measured);
        }
        self.note_answer(exchange, answer, end, inspection);
    }

    /// Sends a user's next request on the connection it had, or on another.
    fn go_on_with(&mut self, slot: usize, next: Exchange) {
        let host = self.shared.routes.route(next.url).host;
        let can_have = |place: &mut Slot<Carrier>| {
            place.connection.is_open()
                && place.route.host == host
                && place.connection.load() < self.per_user
                && matches!(place.role, Role::Busy | Role::Idle)
        };
        if self.waiting.is_empty() && self.carriers.get_mut(slot).is_some_and(can_have) {
            self.note_start(&next);
            self.ask(slot, next);
        } else {
            self.leave_room(slot);
            self.send(next);
        }
    }

    /// Sends a request that its connection did not process on another connection.
    fn carry_again(&mut self, slot: usize, exchange: Exchange) {
        self.leave_room(slot);
        if self.can_carry(self.shared.routes.route(exchange.url)) {
            return self.carry(exchange);
        }
        self.note_end(&exchange, self.tools.clock.monotonic());
        self.waiting.push_front(Exchange { is_returned: true, ..exchange });
        self.is_freed = true;
    }

    /// Lets a user think. If the connection stays open, the user keeps its place on it.
    fn thinks_on_carrier(&mut self, slot: usize, now: Monotonic) {
        let time = self.think();
        let id = self.carriers.id(slot);
        let place = self.carriers.get_mut(slot).filter(|place| place.connection.is_open());
        let kept = place.and_then(|place| {
            place.connection.held += 1;
            id
        });
        self.tools.recorder.ledger.pass(State::Processing, State::Thinking, now);
        self.wakes.push(Reverse((now.plus(time), State::Thinking, kept)));
    }

    /// Lets a user with a place on a connection continue after thinking.
    pub(super) fn go_on_carrier(&mut self, id: SlotId) {
        let now = self.tools.clock.monotonic();
        if let Some(place) = self.carriers.remembered(id) {
            place.connection.held -= 1;
        }
        let is_there = self.carriers.remembered(id).is_some();
        match self.next(State::Late, now) {
            Some(next) if is_there => self.go_on_with(id.slot, next),
            Some(next) => self.send(next),
            None if is_there => self.user_left(id.slot),
            None => {}
        }
    }

    /// Offers free room on a connection to other requests. A closed connection without requests is
    /// dropped.
    fn leave_room(&mut self, slot: usize) {
        let Some(place) = self.carriers.get_mut(slot).filter(|place| place.role != Role::Lingering) else {
            return;
        };
        let (load, is_open) = (place.connection.load(), place.connection.is_open());
        match is_open {
            true if load < self.per_user => {
                self.is_freed |= !self.waiting.is_empty();
                self.carriers.set_role(slot, Role::Idle);
            }
            false if load == 0 => self.drop_carrier(slot),
            _ => self.carriers.set_role(slot, Role::Busy),
        }
    }

    /// Handles a user that left a connection. The server would keep the connection open, but if no
    /// request waits and it is unused, it is dropped.
    fn user_left(&mut self, slot: usize) {
        let is_unused =
            |place: &mut Slot<Carrier>| place.connection.load() == 0 && place.role != Role::Lingering;
        if self.waiting.is_empty() && self.carriers.get_mut(slot).is_some_and(is_unused) {
            self.drop_carrier(slot);
        } else {
            self.leave_room(slot);
        }
    }

    /// Retires a connection after its only response, at once or after the plan's linger time.
    fn part_carrier(&mut self, slot: usize, now: Monotonic) {
        let linger = self.shared.plan.linger;
        let Some(place) = self.carriers.get_mut(slot) else { return };
        place.connection.close();
        if linger.is_zero() {
            return self.drop_carrier(slot);
        }
        place.connection.lingers_until = Some(now.plus(linger));
        self.carriers.set_role(slot, Role::Lingering);
        self.is_freed |= !self.waiting.is_empty();
    }

    /// Removes a connection from the table; dropping it closes it.
    fn drop_carrier(&mut self, slot: usize) {
        if let Some(removed) = self.carriers.remove(slot) {
            self.tools.recorder.connection_over(removed.served);
            self.is_freed |= !self.waiting.is_empty();
        }
    }

    /// Fails requests that took too long, and drops connections whose time is up.
    pub(super) fn sweep_carriers(&mut self, now: Monotonic) {
        let timeout = self.shared.plan.timeout;
        for slot in 0..self.carriers.len() {
            let Some(place) = self.carriers.get_mut(slot) else { continue };
            if let Some(until) = place.connection.lingers_until {
                if until <= now {
                    self.drop_carrier(slot);
                }
                continue;
            }
            if place.connection.is_connected() {
                if place.connection.expire(now, timeout, &self.tools) {
                    self.stir(slot);
                }
                continue;
            }
            let Some(first) = place.connection.under_way().next().copied() else { continue };
            let age = now.since(first.started);
            if age >= timeout.min(FIRST_CONNECT_MAX) && !self.shared.was_alive() {
                let reason = "no response to the connection attempt";
                self.shared.unreachable(first.url, FailureKind::Connect, reason);
            } else if age >= timeout {
                self.give_up_waiting(slot, now, FailureKind::Connect);
            }
        }
        self.turn_carriers();
    }
}
