//! One thread of a run: a poll, its connections, and the loop that starts requests and handles
//! events.
//!
//! | part | contents |
//! |---|---|
//! | `agenda` | the current part of the course, and the schedule of an open loop |
//! | `users` | the users of a closed loop |
//! | `script` | what users request, and what responses mean to them |
//! | `pool` | connections, and requests that wait for one |
//! | `meter` | requests in flight, and the progress that others see |
//! | `poller` | the poll, its timer, and when to busy-wait |
//! | `tools` | what connections need: the recorder, the buffer, the requests |
//!
//! Invariant: a connection is closed only while its own event is handled or between two polls. An
//! event therefore never reaches a connection that took over another's slot. In the steady state
//! with one request at a time the loop does not allocate. Its only system calls are one poll for
//! many responses, and one read and one write for each request.
//!
//! Timeouts are checked when a poll returns, at least every [`TICK_MAX`]. Only moments at which a
//! request or user starts have a timer.

mod agenda;
pub(crate) mod busy_wait;
mod closing;
pub(crate) mod cpu;
mod flow;
mod meter;
mod poller;
mod pool;
mod users;
mod wake_latency;

use crate::LoadError;
use crate::reader::{HeadMemo, KeepAliveRule};
use crate::recorder::{Recorder, RecorderSettings};
use crate::script::Script;
use crate::shared::LoadContext;
use crate::slots::{ConnectionBounds, Slots};
use crate::tls::Tls;
use crate::transport::http2::Http2Requests;
use crate::transport::{Tools, Transport};
use crate::trend::{FAILING_EVERY, Trend};
use agenda::Agenda;
use clock::Monotonic;
use cpu::CpuMeter;
pub(crate) use flow::PARTING_MAX;
use message::Method;
use meter::InFlightMeter;
use mio::Events;
use net::StampClock;
use poller::{Poller, Wait};
use pool::Pool;
use record::{Arrival, Counting, Protocol};
use std::time::Duration;
use users::Users;

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

pub(crate) struct LoadWorker<'a, T, S> {
    shared: &'a LoadContext<'a>,
    tools: Tools<'a>,
    /// The index of this thread, and the number of threads.
    place: (usize, usize),
    agenda: Agenda,
    users: Users,
    pool: Pool<T>,
    meter: InFlightMeter,
    poller: Poller,
    script: S,
}

/// The results that a thread returns at its end.
pub(crate) struct Report {
    pub(crate) recorder: Recorder,
    /// The first response head.
    pub(crate) first_head: Vec<u8>,
    /// Whether the thread ended because all requests had been started.
    pub(crate) is_exhausted: bool,
}

impl<'a, T: Transport, S: Script> LoadWorker<'a, T, S> {
    /// The worker at `place`: its index and the number of threads. Its users follow `script`.
    pub(crate) fn new(
        shared: &'a LoadContext<'a>,
        place: (usize, usize),
        script: S,
    ) -> Result<Self, LoadError> {
        let plan = shared.plan;
        let keep_alive_rule = match (plan.keep_alive, plan.http) {
            (false, _) => KeepAliveRule::Never,
            (true, Protocol::Http10) => KeepAliveRule::IfSaid,
            (true, Protocol::Http11 | Protocol::H2) => KeepAliveRule::UnlessDenied,
        };
        let bounds = pool::bounds(plan.connections_per_host_max, plan.connections_per_address_max, place);
        let tools = Tools {
            clock: shared.clock,
            stamp_clock: StampClock::compare(shared.clock),
            images: shared.images,
            tls: shared.tls.as_ref().map(Tls::for_thread),
            resendable: plan.method.is_idempotent() && plan.counting != Counting::AsAb,
            takes_ends: plan.counting == Counting::AsAb,
            goes_on: !plan.stop.at_first_receive_error,
            recorder: Recorder::new(&recorder_settings(shared, bounds)),
            memo: HeadMemo::new(plan.method == Method::Head, keep_alive_rule),
            http2: Http2Requests::of(plan, shared.routes)?,
            buffer: vec![0; BUFFER_BYTES],
        };
        let poller = Poller::new(place.0 < shared.busy_waits)
            .map_err(|error| LoadError::limit("epoll_create", &error))?;
        let (hosts, addresses) = (shared.routes.hosts(), shared.routes.addresses().len());
        let in_flight_max = match plan.arrival {
            Arrival::Open { in_flight_max, .. } => in_flight_max,
            Arrival::Closed => record::IN_FLIGHT_MAX_DEFAULT,
        };
        Ok(Self {
            shared,
            tools,
            place,
            agenda: Agenda::new(share(in_flight_max, place).max(1)),
            users: Users::default(),
            pool: Pool::new(Slots::new(hosts, addresses, bounds), plan.pipeline),
            meter: InFlightMeter::new(shared.course.user_time(Monotonic::default()).is_none()),
            poller,
            script,
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
            now = self.poller.woke;
            if !events.is_empty() || !self.pool.unread.is_empty() {
                self.read_on();
                self.handle(&events);
                now = self.tools.clock.monotonic();
                self.meter.publish(now, &self.tools.recorder, self.shared);
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
                trend = self.shared.end_if_failing(trend);
                next_trend = now.plus(FAILING_EVERY);
            }
            self.advance(now);
        }
        self.finish(now, &cpu)
    }

    /// Whether no work is left. Users that pause would find no request to send, so the run does not
    /// wait for them.
    fn is_done(&self) -> bool {
        let is_past_last = self.agenda.part.is_none()
            && self.agenda.due.is_none()
            && self.shared.course.part(self.agenda.next_part).is_none();
        (is_past_last || self.starts_nothing())
            && self.meter.in_flight == 0
            && self.pool.waiting.is_empty()
            && self.users.all_pause()
    }

    /// Whether all measured requests have been started, by this thread and the others.
    fn starts_nothing(&self) -> bool {
        self.agenda.is_exhausted || self.shared.course.is_exhausted()
    }

    fn finish(mut self, now: Monotonic, cpu: &CpuMeter) -> Report {
        let is_exhausted = self.starts_nothing();
        self.meter.publish(now, &self.tools.recorder, self.shared);
        self.meter.count_in_flight(now, &mut self.tools.recorder);
        self.close_account(now);
        self.end_seconds(now);
        if !self.tools.recorder.second_is_empty() && now > self.shared.course.measuring_since() {
            self.end_second();
        }
        let recorder = &mut self.tools.recorder;
        let in_flight = self.pool.slots.iter().flat_map(|slot| slot.connection.under_way());
        for exchange in in_flight.chain(&self.meter.too_late).filter(|exchange| exchange.measured) {
            recorder.unfinished += 1;
            // These requests were counted while they were in flight, so their time counts as well.
            recorder.unfinished_ns += now.since(exchange.started).as_nanos();
        }
        recorder.unfinished += self.pool.waiting.iter().filter(|exchange| exchange.measured).count() as u64;
        self.pool.slots.iter().for_each(|slot| recorder.connection_over(slot.served));
        let busy_wait = self.poller.busy_wait();
        recorder.cpu.push(cpu.used().saturating_sub(busy_wait));
        recorder.busy_wait += busy_wait;
        recorder.core_wait = cpu.waited();
        let (recorder, first_head) = self.tools.into_records();
        Report { recorder, first_head, is_exhausted }
    }

    /// Waits for events, at most until other work is due.
    fn wait(&mut self, now: Monotonic, next_sweep: Monotonic, events: &mut Events) -> Result<(), LoadError> {
        let mut time = next_sweep.since(now).min(TICK_MAX);
        if let Some(end) = self.shared.course.cut_off() {
            time = time.min(end.since(now));
        }
        if self.users.ready > 0 || self.pool.has_work() {
            time = Duration::ZERO;
        }
        let wait = Wait {
            time,
            next_start: self.next_start(),
            is_awaited: self.meter.in_flight > 0,
            is_measured: now >= self.shared.course.measuring_since(),
        };
        self.poller.wait(now, &wait, self.tools.clock, events)
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
}

/// The parameters of a worker's recorder.
fn recorder_settings(shared: &LoadContext<'_>, bounds: ConnectionBounds) -> RecorderSettings {
    let (plan, course) = (shared.plan, &shared.course);
    let is_open = plan.arrival != Arrival::Closed || course.user_time(Monotonic::default()).is_none();
    RecorderSettings {
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
