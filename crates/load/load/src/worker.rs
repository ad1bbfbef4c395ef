//! One thread of a run: a poll, its connections, and the loop that starts requests and handles
//! events.
//!
//! Invariant: a connection is closed only while its own event is handled or between two polls. An
//! event therefore never reaches a connection that took over another's slot. In the steady state
//! the loop does not allocate. Its only system calls are one poll for many responses, and one read
//! and one write for each request.
//!
//! `worker/flow.rs` handles requests and connections with one request at a time.
//! `worker/carriers.rs` handles connections with several requests. A run uses only one of the two
//! kinds. Timeouts are checked when a poll returns, at least every [`TICK_MAX`]. Only moments at
//! which a request or user starts have a timer.

pub(crate) mod busy_wait;
mod carriers;
mod closing;
pub(crate) mod cpu;
mod flow;
mod waking;

use crate::LoadError;
use crate::ab_account::Counting;
use crate::account::State;
use crate::arrival::{Demand, Part};
use crate::connection::{Connection, Tools};
use crate::exchange::Exchange;
use crate::reader::{HeadMemo, Persistence};
use crate::recorder::{Recorder, Scope, micros};
use crate::schedule::{Due, Schedule};
use crate::shared::{Shared, Trend};
use crate::slots::{Bounds, SlotId, Slots};
use crate::streams::{Carrier, Several};
use crate::timer::Timer;
use crate::tls::Tls;
use crate::traffic::Arrival;
use crate::wire::Protocol;
use busy_wait::BusyWait;
use clock::Monotonic;
use cpu::CpuMeter;
pub(crate) use flow::PARTING_MAX;
use message::Method;
use mio::{Events, Poll, Token};
use net::StampClock;
use stats::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::time::Duration;
use waking::Waking;

/// A thread checks at least this often whether it should stop.
const TICK_MAX: Duration = Duration::from_millis(100);

/// The sweep and the end of a second are delayed if something starts within this time.
const SOON: Duration = Duration::from_millis(1);

/// The most requests started before other events are handled. More at once could overflow the
/// server's accept queue.
const STARTS_MAX: usize = 64;

/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Events taken from one poll.
const EVENTS_MAX: usize = 1024;

/// Interval at which the failure rate is checked.
const FAILING_EVERY: Duration = Duration::from_secs(1);

/// The timer's token. All other tokens are slots of connections.
const TIMER: Token = Token(usize::MAX);

/// When a pausing user continues, the state it paused in, and its connection.
type Wake = (Monotonic, State, Option<SlotId>);

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    tools: Tools<'a>,
    poll: Poll,
    timer: Timer,
    /// The moment the timer was set to, if it was set for the current poll.
    timer_at: Option<Monotonic>,
    waking: Waking,
    busy_wait: BusyWait,
    slots: Slots<Connection>,
    /// Connections whose last turn did not read all bytes.
    unread: Vec<SlotId>,
    /// Connections that carry several requests, if the plan asks for them.
    carriers: Slots<Carrier>,
    /// Slots of `carriers` with a pending event or a new request.
    stirred: Vec<usize>,
    /// Recycled buffer for `stirred`.
    spare: Vec<usize>,
    /// Requests whose response came or was read after the end of the run.
    too_late: Vec<Exchange>,
    has_carriers: bool,
    /// The most requests that each user has in flight at once.
    per_user: usize,
    /// The index of this thread, and the number of threads.
    place: (usize, usize),
    /// The current part of the course.
    part: Option<Part>,
    next_part: usize,
    /// No measured request is left to start.
    is_exhausted: bool,
    users: Users,
    /// Wake-up times of pausing users, earliest first.
    wakes: BinaryHeap<Reverse<Wake>>,
    schedule: Option<Schedule>,
    due: Option<Due>,
    /// Requests that wait for a connection, in order.
    waiting: VecDeque<Exchange>,
    /// Whether a waiting request may get a connection that it could not get before.
    is_freed: bool,
    /// Requests in flight, including those of the warm-up; then only measured ones.
    in_flight: usize,
    in_flight_measured: usize,
    /// Whether requests in flight are summed up over time. A closed loop is checked against its
    /// number of users instead.
    counts_in_flight: bool,
    /// The moment up to which requests in flight are part of the recorder's sum over time.
    counted_until: Monotonic,
    in_flight_max: usize,
    random: Random,
    /// Number of responses for which it was decided whether to compare the content.
    inspected: u64,
    /// Local addresses taken from [`Plan::source`](crate::Plan::source) so far.
    dialled: u64,
    /// When the last poll returned.
    woke: Monotonic,
    /// Connections that wait for the server's close.
    parting: usize,
    /// Requests ended and failed when progress was last published: measured requests, then all
    /// requests.
    published: [(u64, u64); 2],
}

/// The users of this thread. A user with several requests in flight is counted once for each of
/// them.
#[derive(Debug, Default)]
struct Users {
    /// How many there should be.
    wanted: usize,
    /// How many there are, in any state.
    present: usize,
    /// How many can start a request now.
    ready: usize,
    /// The index, over all threads, of this thread's next user to begin in the current part.
    next: usize,
}

/// The results that a thread returns at its end.
pub(crate) struct Report {
    pub(crate) recorder: Recorder,
    /// The first response head.
    pub(crate) first_head: Vec<u8>,
    /// Whether the thread ended because all requests had been started.
    pub(crate) is_exhausted: bool,
}

impl<'a> Worker<'a> {
    /// The worker at `place`: its index and the number of threads.
    pub(crate) fn new(shared: &'a Shared<'a>, place: (usize, usize)) -> Result<Self, LoadError> {
        let plan = shared.plan;
        let persistence = match (plan.keep_alive, plan.http) {
            (false, _) => Persistence::Never,
            (true, Protocol::Http10) => Persistence::IfSaid,
            (true, Protocol::Http11 | Protocol::H2) => Persistence::UnlessDenied,
        };
        let bound = |whole: Option<usize>| whole.map_or(usize::MAX, |whole| share(whole, place).max(1));
        let bounds = Bounds {
            host: bound(plan.connections_per_host_max),
            address: bound(plan.connections_per_address_max),
        };
        let tools = Tools {
            clock: shared.clock,
            stamp_clock: StampClock::compare(shared.clock),
            images: shared.images,
            tls: shared.tls.as_ref().map(Tls::for_thread),
            resendable: plan.method.is_idempotent() && plan.counting != Counting::AsAb,
            takes_ends: plan.counting == Counting::AsAb,
            goes_on: !plan.stop.at_first_receive_error,
            recorder: Recorder::new(&scope(shared, bounds)),
            memo: HeadMemo::new(plan.method == Method::Head, persistence),
            several: Several::of(plan, shared.routes)?,
            buffer: vec![0; BUFFER_BYTES],
        };
        let system = |error: io::Error| LoadError::limit("epoll_create", &error);
        let poll = Poll::new().map_err(system)?;
        let (hosts, addresses) = (shared.routes.hosts(), shared.routes.addresses().len());
        Ok(Self {
            shared,
            tools,
            timer: Timer::new(poll.registry(), TIMER).map_err(system)?,
            poll,
            timer_at: None,
            waking: Waking::default(),
            busy_wait: BusyWait::new(place.0 < shared.busy_waits),
            slots: Slots::new(hosts, addresses, bounds),
            unread: Vec::new(),
            carriers: Slots::new(hosts, addresses, bounds),
            stirred: Vec::new(),
            spare: Vec::new(),
            too_late: Vec::new(),
            has_carriers: plan.http == Protocol::H2 || plan.pipeline > 1,
            per_user: plan.pipeline,
            place,
            part: None,
            next_part: 0,
            is_exhausted: false,
            users: Users::default(),
            wakes: BinaryHeap::new(),
            schedule: None,
            due: None,
            waiting: VecDeque::new(),
            is_freed: false,
            in_flight: 0,
            in_flight_measured: 0,
            counts_in_flight: shared.course.user_time(Monotonic::default()).is_none(),
            counted_until: Monotonic::default(),
            in_flight_max: match plan.arrival {
                Arrival::Open { in_flight_max, .. } => share(in_flight_max, place).max(1),
                Arrival::Closed => share(crate::traffic::IN_FLIGHT_MAX_DEFAULT, place).max(1),
            },
            // Neighbouring seeds are mixed, so that threads do not choose the same URLs at the same
            // time.
            random: Random::from_seed(Random::from_seed(plan.seed.wrapping_add(place.0 as u64)).next_u64()),
            inspected: 0,
            dialled: 0,
            woke: Monotonic::default(),
            parting: 0,
            published: [(0, 0); 2],
        })
    }

    /// Works until the run is over.
    pub(crate) fn run(mut self) -> Report {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let sweep_every = (self.shared.plan.timeout / 16).clamp(Duration::from_millis(1), TICK_MAX);
        let mut cpu = CpuMeter::new(self.shared.course.measuring_since());
        let mut now = self.tools.clock.monotonic();
        let (mut next_sweep, mut latest_sweep) = (now.plus(sweep_every), now.plus(sweep_every * 2));
        let (mut trend, mut next_trend) = (Trend::default(), now.plus(FAILING_EVERY));
        self.advance(now);
        while !self.shared.is_over(now) && !self.is_done() {
            cpu.observe(now);
            self.start(now);
            if let Err(error) = self.wait(now, next_sweep, &mut events) {
                self.shared.fail(error);
                break;
            }
            now = self.woke;
            self.learn_waking(&events);
            if !events.is_empty() || !self.unread.is_empty() {
                self.read_on();
                self.handle(&events);
                now = self.tools.clock.monotonic();
                self.publish(now);
            }
            let starts_soon = self.next_start().is_some_and(|start| start.since(now) < SOON);
            if starts_soon && now < latest_sweep {
                // A sweep now would delay the start by the time it takes.
                next_sweep = next_sweep.max(now.plus(SOON));
            } else if now >= next_sweep {
                self.tools.stamp_clock = StampClock::compare(self.tools.clock);
                self.sweep(now);
                self.end_seconds(now);
                (next_sweep, latest_sweep) = (now.plus(sweep_every), now.plus(sweep_every * 2));
            }
            if now >= next_trend {
                self.shared.end_if_failing(std::mem::replace(&mut trend, self.shared.trend()));
                next_trend = now.plus(FAILING_EVERY);
            }
            self.advance(now);
        }
        self.finish(now, &cpu)
    }

    /// Whether no work is left. Users that pause would find no request to send, so the run does not
    /// wait for them.
    fn is_done(&self) -> bool {
        let is_past_last =
            self.part.is_none() && self.due.is_none() && self.shared.course.part(self.next_part).is_none();
        (is_past_last || self.starts_nothing())
            && self.in_flight == 0
            && self.waiting.is_empty()
            && self.users.present == self.wakes.len()
    }

    /// Whether all measured requests have been started, by this thread and the others.
    fn starts_nothing(&self) -> bool {
        self.is_exhausted || self.shared.course.is_exhausted()
    }

    fn finish(mut self, now: Monotonic, cpu: &CpuMeter) -> Report {
        let is_exhausted = self.starts_nothing();
        self.publish(now);
        self.count_in_flight(now);
        self.close_account(now);
        self.end_seconds(now);
        if !self.tools.recorder.second_is_empty() && now > self.shared.course.measuring_since() {
            self.end_second();
        }
        let recorder = &mut self.tools.recorder;
        let on_carriers = self.carriers.iter().flat_map(|slot| slot.connection.under_way());
        let in_flight = self.slots.in_flight().chain(on_carriers).chain(&self.too_late);
        for exchange in in_flight.filter(|exchange| exchange.measured) {
            recorder.unfinished += 1;
            // These requests were counted while they were in flight, so their time counts as well.
            recorder.unfinished_ns += now.since(exchange.started).as_nanos();
        }
        recorder.unfinished += self.waiting.iter().filter(|exchange| exchange.measured).count() as u64;
        self.slots.iter().for_each(|slot| recorder.connection_over(slot.served));
        self.carriers.iter().for_each(|slot| recorder.connection_over(slot.served));
        recorder.cpu.push(cpu.used().saturating_sub(self.busy_wait.spent()));
        recorder.busy_wait += self.busy_wait.spent();
        recorder.core_wait = cpu.waited();
        let first_head = match self.tools.several.first_head {
            head if head.is_empty() => self.tools.memo.first,
            head => head,
        };
        Report { recorder: self.tools.recorder, first_head, is_exhausted }
    }

    /// Moves on to the part of the course that contains `now`.
    fn advance(&mut self, now: Monotonic) {
        self.begin_users(now);
        while !self.is_exhausted {
            let is_over = |part: Part| part.end.is_some_and(|end| now >= end);
            if self.part.is_some_and(|part| !is_over(part)) || self.due.is_some() {
                return;
            }
            self.part = None;
            match self.shared.course.part(self.next_part).copied() {
                Some(next) if next.begin <= now => self.enter(next),
                _ => break,
            }
        }
        self.want_users(0, now);
    }

    fn enter(&mut self, part: Part) {
        self.next_part += 1;
        self.part = Some(part);
        match part.demand {
            Demand::Users(users) => {
                let (thread, threads) = self.place;
                let begins_at_once =
                    |&index: &usize| self.shared.course.user_begin(part, index, users) == part.begin;
                let begun = (thread..users).step_by(threads).take_while(begins_at_once).count();
                self.users.next = thread + begun * threads;
                self.want_users(begun * self.per_user, part.begin);
            }
            Demand::Open(open) => {
                self.want_users(0, part.begin);
                let seed = self.shared.plan.seed.wrapping_add(self.next_part as u64);
                self.schedule = Some(Schedule::new(open, part.begin, part.length(), seed, self.place));
                self.next_due();
            }
        }
    }

    /// When the next user begins in the current part.
    fn next_user(&self) -> Option<Monotonic> {
        let part = self.part.filter(|_| !self.is_exhausted)?;
        let Demand::Users(users) = part.demand else { return None };
        let index = self.users.next;
        let begin = (index < users).then(|| self.shared.course.user_begin(part, index, users))?;
        part.end.is_none_or(|end| begin < end).then_some(begin)
    }

    /// Lets the users begin whose turn in the ramp-up has come.
    fn begin_users(&mut self, now: Monotonic) {
        while let Some(begin) = self.next_user().filter(|&begin| begin <= now) {
            self.users.next += self.place.1;
            self.want_users(self.users.wanted + self.per_user, begin);
        }
    }

    /// How many users had begun by `moment` and are still here.
    fn users_at(&self, moment: Monotonic) -> usize {
        let present = self.users.present.div_ceil(self.per_user);
        let Some(part @ Part { demand: Demand::Users(users), .. }) = self.part else { return present };
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
            (users.present..wanted).for_each(|_| self.tools.recorder.ledger.enter(State::Late, at));
            users.ready += wanted - users.present;
            users.present = wanted;
        } else {
            let leaving = users.ready.min(users.present - wanted);
            // Some users became ready after `at`, and a state must not be left before it was
            // entered.
            let now = self.tools.clock.monotonic();
            (0..leaving).for_each(|_| self.tools.recorder.ledger.leave(State::Late, now));
            users.ready -= leaving;
            users.present -= leaving;
        }
    }

    /// Moves on to the next request of the schedule.
    fn next_due(&mut self) {
        self.due = self.schedule.as_mut().and_then(Schedule::next);
        if self.due.is_none() {
            self.schedule = None;
        }
    }

    /// Starts the requests and users that are due, a limited number at once.
    fn start(&mut self, now: Monotonic) {
        while self.wakes.peek().is_some_and(|Reverse((moment, ..))| *moment <= now) {
            let Some(Reverse((moment, paused, kept))) = self.wakes.pop() else { break };
            self.tools.recorder.ledger.pass(paused, State::Late, moment);
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
            if let Some(exchange) = self.next(State::Late, now) {
                self.send(exchange);
            }
        }
        self.start_due();
        self.start_waiting();
        self.turn_carriers();
    }

    /// Starts requests of an open loop that have fallen due.
    fn start_due(&mut self) {
        for _ in 0..STARTS_MAX {
            let now = self.tools.clock.monotonic();
            let Some(due) = self.due.filter(|due| due.at <= now) else { return };
            let exchange = self.due_exchange(due).started_at(now);
            if exchange.measured {
                if !self.shared.course.take() {
                    (self.due, self.schedule, self.is_exhausted) = (None, None, true);
                    return;
                }
                self.tools.recorder.schedule_lag.record(micros(due.at, now));
            }
            if self.in_flight + self.waiting.len() < self.in_flight_max {
                self.tools.recorder.ledger.enter(State::Late, due.at);
                self.tools.recorder.ledger.pass(State::Late, State::Connecting, now);
                self.send(exchange);
            } else {
                self.tools.recorder.not_started(&exchange);
            }
            self.next_due();
        }
    }

    fn due_exchange(&self, due: Due) -> Exchange {
        let stage = self.part.and_then(|part| part.stage);
        // The choice depends only on the request's number, not on the thread that sends it.
        let lot = Random::from_seed(self.shared.plan.seed ^ (due.number << 8)).next_u64();
        Exchange {
            of_user: false,
            stage: stage.unwrap_or_default(),
            url: self.shared.routes.choose(lot),
            ..Exchange::starting(due.at, stage.is_some())
        }
    }

    /// The next request of a user that was in state `from`. If there is none, the user leaves and
    /// the result is `None`.
    fn next(&mut self, from: State, now: Monotonic) -> Option<Exchange> {
        if self.part.is_none_or(|part| part.end.is_some_and(|end| now >= end)) {
            self.advance(now);
        }
        if self.users.present > self.users.wanted {
            self.tools.recorder.ledger.leave(from, now);
            self.users.present -= 1;
            return None;
        }
        let stage = self.part.and_then(|part| part.stage);
        if stage.is_some() && !self.shared.course.take() {
            self.is_exhausted = true;
            self.tools.recorder.ledger.leave(from, now);
            self.users.present -= 1;
            self.want_users(0, now);
            return None;
        }
        let url = if self.shared.routes.urls.len() > 1 {
            self.shared.routes.choose(self.random.next_u64())
        } else {
            0
        };
        self.tools.recorder.ledger.pass(from, State::Connecting, now);
        Some(Exchange { stage: stage.unwrap_or_default(), url, ..Exchange::starting(now, stage.is_some()) })
    }

    /// Draws a think time.
    fn think(&mut self) -> Duration {
        self.shared.plan.think.draw(&mut self.random)
    }

    /// When the next start is due: of a user, a part of the course, or a request of the schedule.
    fn next_start(&self) -> Option<Monotonic> {
        let wake = self.wakes.peek().map(|Reverse((moment, ..))| *moment);
        let begin = self.shared.course.part(self.next_part).map(|part| part.begin);
        let due = self.due.map(|due| due.at);
        [wake, self.next_user(), begin, due].into_iter().flatten().min()
    }

    /// Waits for events, at most until other work is due, and sets [`Worker::woke`].
    fn wait(&mut self, now: Monotonic, next_sweep: Monotonic, events: &mut Events) -> Result<(), LoadError> {
        let mut wait = next_sweep.since(now).min(TICK_MAX);
        if let Some(end) = self.shared.course.cut_off() {
            wait = wait.min(end.since(now));
        }
        if let Some(moment) = self.next_start() {
            // After this the loop polls without waiting until `moment`, because a timer alone is
            // late by the wake-up latency.
            let early = moment.since(now).saturating_sub(self.waking.before(moment));
            if early.is_zero() {
                wait = Duration::ZERO;
            } else if early < wait {
                let at = now.plus(early);
                self.timer.set(now, at).map_err(|error| LoadError::system("timerfd_settime", &error))?;
                self.timer_at = Some(at);
            }
        }
        if self.users.ready > 0 || self.is_freed || !self.stirred.is_empty() || !self.unread.is_empty() {
            wait = Duration::ZERO;
        }
        let is_busy_wait = !wait.is_zero() && self.in_flight > 0 && self.busy_wait.is_due(now);
        let wait = if is_busy_wait { Duration::ZERO } else { wait };
        let polled = self.poll.poll(events, Some(wait));
        self.woke = self.tools.clock.monotonic();
        if !events.is_empty() {
            self.busy_wait.woken(self.woke);
        }
        if is_busy_wait {
            let is_measured = now >= self.shared.course.measuring_since();
            self.busy_wait.polled(now, self.woke, is_measured);
        }
        match polled {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                Err(LoadError::system("epoll_wait", &error))
            }
            _ => Ok(()),
        }
    }

    /// Measures the wake-up latency, if the timer was what woke this thread.
    fn learn_waking(&mut self, events: &Events) {
        let Some(at) = self.timer_at.take() else { return };
        if events.iter().next().is_some_and(|event| event.token() == TIMER) {
            self.waking.woken(self.woke.since(at));
        }
    }

    /// Publishes the seconds that are over.
    fn end_seconds(&mut self, now: Monotonic) {
        while self.tools.recorder.second_is_over(now) {
            self.end_second();
        }
    }

    fn end_second(&mut self) {
        let (control, thread) = (self.shared.control, self.place.0);
        let users = self.users_at(self.tools.recorder.second_end()) as u64;
        self.tools
            .recorder
            .end_second(users, |second, latencies| control.series.hand_in(thread, second, latencies));
    }

    /// Publishes how many requests this thread has finished.
    fn publish(&mut self, now: Monotonic) {
        let recorder = &self.tools.recorder;
        let measured = (recorder.requests(), recorder.counters.failures.total());
        let all = (measured.0 + recorder.warmup.0, measured.1 + recorder.warmup.1);
        let [measured_before, all_before] = std::mem::replace(&mut self.published, [measured, all]);
        if all.0 > all_before.0 {
            self.shared.control.add(measured.0 - measured_before.0, measured.1 - measured_before.1);
            self.shared.count(all.0 - all_before.0, all.1 - all_before.1);
            if all.0 - all_before.0 > all.1 - all_before.1 {
                self.shared.alive(now);
            }
        }
    }
}

/// The parameters of a worker's recorder.
fn scope(shared: &Shared<'_>, bounds: Bounds) -> Scope {
    let (plan, course) = (shared.plan, &shared.course);
    let is_open = plan.arrival != Arrival::Closed || course.user_time(Monotonic::default()).is_none();
    Scope {
        measuring_since: course.measuring_since(),
        measuring_until: course.cut_off(),
        stage_ends: course.stage_ends().collect(),
        urls: shared.routes.urls.len(),
        // One thread may turn out to handle all requests.
        samples_max: plan.samples_max as usize,
        tells_latency: is_open || bounds.host.min(bounds.address) < usize::MAX,
        has_tls: shared.tls.is_some(),
    }
}

/// The share of `whole` for one of several places. Shares differ by at most one and add up to
/// `whole`.
pub(crate) fn share(whole: usize, (place, places): (usize, usize)) -> usize {
    whole / places + usize::from(place < whole % places)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_differ_by_at_most_one_and_add_up() {
        assert_eq!([0, 1, 2].map(|place| share(8, (place, 3))), [3, 3, 2]);
        assert_eq!([0, 1].map(|place| share(1, (place, 2))), [1, 0]);
    }
}
