//! When requests and users start: the current part of the course, its schedule, and the users who
//! begin, pause and leave.
//!
//! Invariant: a user starts its next request only after its last one has ended. A request of an
//! open loop starts when it is due, or is counted as not started.

use super::{LoadWorker, STARTS_MAX};
use crate::account::UserState;
use crate::arrival::{LoadPart, PartLoad};
use crate::exchange::ExchangeTimes;
use crate::recorder::micros;
use crate::schedule::{DueRequest, Schedule};
use crate::script::Script;
use crate::transport::Transport;
use clock::Monotonic;

/// Where a thread is in the course of the run.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// The current part of the course.
    pub(super) part: Option<LoadPart>,
    pub(super) next_part: usize,
    /// No measured request is left to start.
    pub(super) is_exhausted: bool,
    schedule: Option<Schedule>,
    /// The next request of the schedule.
    pub(super) due: Option<DueRequest>,
    /// The most requests in flight in an open loop.
    pub(super) in_flight_max: usize,
}

impl Agenda {
    pub(super) fn new(in_flight_max: usize) -> Self {
        Self { in_flight_max, ..Self::default() }
    }

    /// Whether the current part is over at `now`, or there is none.
    fn is_between_parts(&self, now: Monotonic) -> bool {
        self.part.is_none_or(|part| part.end.is_some_and(|end| now >= end))
    }

    /// The stage of the current part; `None` outside of the measured parts.
    fn stage(&self) -> Option<u16> {
        self.part.and_then(|part| part.stage)
    }

    /// Moves on to the next request of the schedule.
    fn next_due(&mut self) {
        self.due = self.schedule.as_mut().and_then(Schedule::next);
        if self.due.is_none() {
            self.schedule = None;
        }
    }
}

impl<T: Transport, S: Script> LoadWorker<'_, T, S> {
    /// Moves on to the part of the course that contains `now`.
    pub(super) fn advance(&mut self, now: Monotonic) {
        self.begin_users(now);
        while !self.agenda.is_exhausted {
            let is_over = |part: LoadPart| part.end.is_some_and(|end| now >= end);
            if self.agenda.part.is_some_and(|part| !is_over(part)) || self.agenda.due.is_some() {
                return;
            }
            self.agenda.part = None;
            match self.shared.course.part(self.agenda.next_part).copied() {
                Some(next) if next.begin <= now => self.enter(next),
                _ => break,
            }
        }
        self.want_users(0, now);
    }

    fn enter(&mut self, part: LoadPart) {
        self.agenda.next_part += 1;
        self.agenda.part = Some(part);
        match part.load {
            PartLoad::Users(users) => {
                let (thread, threads) = self.place;
                let begins_at_once =
                    |&index: &usize| self.shared.course.user_begin(part, index, users) == part.begin;
                let begun = (thread..users).step_by(threads).take_while(begins_at_once).count();
                self.users.next = thread + begun * threads;
                self.want_users(begun * self.pool.capacity, part.begin);
            }
            PartLoad::Open(open) => {
                self.want_users(0, part.begin);
                let seed = self.shared.plan.seed.wrapping_add(self.agenda.next_part as u64);
                self.agenda.schedule = Some(Schedule::new(open, part.begin, part.length(), seed, self.place));
                self.agenda.next_due();
            }
        }
    }

    /// When the next user begins in the current part.
    fn next_user(&self) -> Option<Monotonic> {
        let part = self.agenda.part.filter(|_| !self.agenda.is_exhausted)?;
        let PartLoad::Users(users) = part.load else { return None };
        let index = self.users.next;
        let begin = (index < users).then(|| self.shared.course.user_begin(part, index, users))?;
        part.end.is_none_or(|end| begin < end).then_some(begin)
    }

    /// Lets the users begin whose turn in the ramp-up has come.
    fn begin_users(&mut self, now: Monotonic) {
        while let Some(begin) = self.next_user().filter(|&begin| begin <= now) {
            self.users.next += self.place.1;
            self.want_users(self.users.wanted + self.pool.capacity, begin);
        }
    }

    /// How many users had begun by `moment` and are still here.
    pub(super) fn users_at(&self, moment: Monotonic) -> usize {
        let present = self.users.present.div_ceil(self.pool.capacity);
        let Some(part @ LoadPart { load: PartLoad::Users(users), .. }) = self.agenda.part else {
            return present;
        };
        let (thread, threads) = self.place;
        let begun = (thread..self.users.next.min(users)).step_by(threads).rev();
        let began_later = |&index: &usize| self.shared.course.user_begin(part, index, users) > moment;
        present.saturating_sub(begun.take_while(began_later).count())
    }

    /// Sets the number of users to `wanted`. New users can start at once. Surplus users leave when
    /// they have no request in flight.
    fn want_users(&mut self, wanted: usize, at: Monotonic) {
        let users = &mut self.users;
        users.wanted = wanted;
        if wanted > users.present {
            (users.present..wanted).for_each(|_| self.tools.recorder.ledger.enter(UserState::Late, at));
            users.ready += wanted - users.present;
            users.present = wanted;
        } else {
            let leaving = users.ready.min(users.present - wanted);
            // Some users became ready after `at`, and a state must not be left before it was
            // entered.
            let now = self.tools.clock.monotonic();
            (0..leaving).for_each(|_| self.tools.recorder.ledger.leave(UserState::Late, now));
            users.ready -= leaving;
            users.present -= leaving;
        }
    }

    /// Starts the requests and users that are due, a limited number at once.
    pub(super) fn start(&mut self, now: Monotonic) {
        while let Some((moment, paused, kept)) = self.users.wake(now) {
            self.tools.recorder.ledger.pass(paused, UserState::Late, moment);
            match kept {
                None => self.users.ready += 1,
                Some(id) => self.go_on(id),
            }
        }
        for _ in 0..STARTS_MAX {
            // `next` makes all ready users leave when no request is left, so the count is read anew
            // each time.
            let Some(ready) = self.users.ready.checked_sub(1) else { break };
            self.users.ready = ready;
            let now = self.tools.clock.monotonic();
            if let Some(exchange) = self.next(UserState::Late, now) {
                self.send(exchange);
            }
        }
        self.start_due();
        self.start_waiting();
        self.turn_marked();
    }

    /// Starts requests of an open loop that have fallen due.
    fn start_due(&mut self) {
        for _ in 0..STARTS_MAX {
            let now = self.tools.clock.monotonic();
            let Some(due) = self.agenda.due.filter(|due| due.at <= now) else { return };
            let exchange = self.due_exchange(due).started_at(now);
            if exchange.measured {
                if !self.shared.course.take() {
                    self.agenda.due = None;
                    self.agenda.schedule = None;
                    self.agenda.is_exhausted = true;
                    return;
                }
                self.tools.recorder.schedule_lag.record(micros(due.at, now));
            }
            if self.meter.in_flight + self.pool.waiting.len() < self.agenda.in_flight_max {
                self.tools.recorder.ledger.enter(UserState::Late, due.at);
                self.tools.recorder.ledger.pass(UserState::Late, UserState::Connecting, now);
                self.send(exchange);
            } else {
                self.tools.recorder.not_started(&exchange);
            }
            self.agenda.next_due();
        }
    }

    fn due_exchange(&self, due: DueRequest) -> ExchangeTimes {
        let stage = self.agenda.stage();
        ExchangeTimes {
            of_user: false,
            stage: stage.unwrap_or_default(),
            url: self.script.numbered(due.number),
            ..ExchangeTimes::starting(due.at, stage.is_some())
        }
    }

    /// The next request of a user that was in state `from`. If there is none, the user leaves and
    /// the result is `None`.
    pub(super) fn next(&mut self, from: UserState, now: Monotonic) -> Option<ExchangeTimes> {
        if self.agenda.is_between_parts(now) {
            self.advance(now);
        }
        if self.users.present > self.users.wanted {
            self.tools.recorder.ledger.leave(from, now);
            self.users.present -= 1;
            return None;
        }
        let stage = self.agenda.stage();
        if stage.is_some() && !self.shared.course.take() {
            self.agenda.is_exhausted = true;
            self.tools.recorder.ledger.leave(from, now);
            self.users.present -= 1;
            self.want_users(0, now);
            return None;
        }
        let url = self.script.next();
        self.tools.recorder.ledger.pass(from, UserState::Connecting, now);
        Some(ExchangeTimes {
            stage: stage.unwrap_or_default(),
            url,
            ..ExchangeTimes::starting(now, stage.is_some())
        })
    }

    /// When the next start is due: of a user, a part of the course, or a request of the schedule.
    pub(super) fn next_start(&self) -> Option<Monotonic> {
        let wake = self.users.next_wake();
        let begin = self.shared.course.part(self.agenda.next_part).map(|part| part.begin);
        let due = self.agenda.due.map(|due| due.at);
        [wake, self.next_user(), begin, due].into_iter().flatten().min()
    }
}
