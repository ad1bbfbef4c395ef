//! A request's life, as named steps with explicit outcomes.
//!
//! ```text
//!   receive -> guard -> key -> lookup -> { deliver | wait on a flight | pass | refuse }
//!              flight: fetch -> judge -> { store and stream | stream only }         (see `fly`)
//!              deliver -> send -> record
//! ```
//!
//! Invariant: every request takes this path once, ends in exactly one recorded outcome, and each step says what
//! comes next without doing it. A request that passes shares its fetch with nobody, and so carries what its
//! visitor sent.

use crate::client::Client;
use crate::conclude::{Content, Delivery};
use crate::counters::{Cells, Metric};
use crate::flight::{Flight, Joined, Parcel, PrivateAnswer, Progress, SharedAnswer, State};
use crate::fly::{self, Departure};
use crate::forward;
use crate::guard::{Subject, guard};
use crate::refusal::Refusal;
use crate::respond::{self, Account, Asker};
use crate::shared::Shared;
use bytes::BytesMut;
use h1::{BodyFraming, Request};
use message::{Method, ResponseHead, Status, Version};
use net::Stream;
use origin::{Event, FetchError};
use semantics::{
    CacheStatusFacts, Directives, Freshness, Judgement, Moment, Reason, RequestClass, Reuse, VaryRule,
    classify_request, judge_response, reuse,
};
use std::sync::Arc;
use store::{FillingReader, Key, Lookup};
use tokio::sync::watch;
use tokio::time::Instant;

/// How often a request may take part in a flight whose answer turns out to be for another variant than its own,
/// before it fetches by itself.
const FLIGHTS_MAX: u32 = 3;

/// What is to become of the connection.
#[derive(Debug)]
pub(crate) enum After {
    /// The next request.
    Keep,
    /// Nothing more; the response is whole, and the visitor knows that it is the last.
    Close,
    /// Nothing more; the response is whole, and the visitor may be sending still.
    Linger,
    /// Nothing more; the response is not whole, or the visitor is gone.
    Gone,
    /// Another protocol, with what the application sent early.
    Tunnel(Stream, BytesMut),
}

/// A step and what it needs from those before it.
enum Step<'a> {
    Guard,
    Key(Subject<'a>),
    Lookup(Wanted<'a>),
    Wait { wanted: Wanted<'a>, reason: Reason, receiver: watch::Receiver<Progress>, leads: bool },
    Pass(Passing<'a>),
    Deliver(Delivery),
    Refuse(Refusal),
}

/// A request for its visitor alone.
struct Passing<'a> {
    subject: Subject<'a>,
    reason: Reason,
    /// The page's key, if the request would have shared its answer: then the answer is judged for those to come.
    key: Option<Key>,
}

/// A look-up and what it is for.
struct Wanted<'a> {
    subject: Subject<'a>,
    key: Key,
    directives: Directives,
    /// Flights that this request has taken part in.
    flights: u32,
    /// When waiting for others ends; set by the first wait.
    patience_ends: Option<Instant>,
}

/// One request on its way through the steps.
pub(crate) struct Visit<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    worker: usize,
    pub(crate) client: &'a mut Client,
    pub(crate) request: &'a Request,
    pub(crate) begun: Moment,
    pub(crate) asker: Asker,
}

impl<'a> Visit<'a> {
    /// A request that was just received.
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        worker: usize,
        client: &'a mut Client,
        request: &'a Request,
    ) -> Self {
        let persistent = request.persistent && !shared.is_draining();
        let asker = Asker::new(&request.head.method, request.head.version, persistent);
        Self { shared, worker, client, request, begun: Moment::read(&*shared.clock), asker }
    }

    /// Takes the request through its steps.
    pub(crate) async fn run(mut self) -> After {
        let mut step = Step::Guard;
        let outcome = loop {
            step = match step {
                Step::Guard => self.guard(),
                Step::Key(subject) => self.key(subject),
                Step::Lookup(wanted) => self.lookup(wanted),
                Step::Wait { wanted, reason, receiver, leads } => {
                    self.wait(wanted, reason, receiver, leads).await
                }
                Step::Pass(passing) => self.pass(passing).await,
                Step::Deliver(delivery) => break self.deliver(delivery).await,
                Step::Refuse(refusal) => break self.refuse(refusal).await,
            };
        };
        self.record(&outcome);
        outcome.after
    }

    pub(crate) fn cells(&self) -> &'a Cells {
        self.shared.cells(self.worker)
    }

    /// *guard*: limits, method, host.
    fn guard(&self) -> Step<'a> {
        match guard(self.shared, self.client.peer(), self.request) {
            Ok(subject) => Step::Key(subject),
            Err(refusal) => Step::Refuse(refusal),
        }
    }

    /// *key*: what identifies the page, if the request may share one at all.
    fn key(&self, subject: Subject<'a>) -> Step<'a> {
        let has_content = self.request.framing != BodyFraming::Empty;
        match classify_request(&self.request.head, has_content, subject.site.policy()) {
            RequestClass::Pass(reason) => Step::Pass(Passing { subject, reason, key: None }),
            RequestClass::Lookup(directives) => {
                let key = subject.key();
                Step::Lookup(Wanted { subject, key, directives, flights: 0, patience_ends: None })
            }
        }
    }

    /// *lookup*: a stored answer that this request may have, or a flight for it.
    fn lookup(&self, wanted: Wanted<'a>) -> Step<'a> {
        let reason = match self.find(&wanted, self.begun) {
            Ok(delivery) => return Step::Deliver(delivery),
            Err(reason) => reason,
        };
        if wanted.directives.only_if_cached {
            return Step::Refuse(Refusal::only_if_cached());
        }
        let alone = self.request.head.method == Method::Head
            || self.shared.flights.was_in_vain(&wanted.key, self.begun.monotonic);
        if alone {
            return wanted.pass(reason);
        }
        self.join(wanted, reason)
    }

    /// A stored answer that this request may have, or why it must be fetched.
    fn find(&self, wanted: &Wanted<'_>, now: Moment) -> Result<Delivery, Reason> {
        let object = match self.shared.store.lookup(&wanted.key, &self.request.head.fields) {
            Lookup::Found(object) => object,
            Lookup::NoVariant => return Err(Reason::MissVariant),
            Lookup::Absent => return Err(Reason::MissAbsent),
        };
        let policy = wanted.subject.site.policy();
        let (age_secs, ttl_secs, reason) = match reuse(object.freshness(), &wanted.directives, policy, now) {
            Reuse::Fresh { age_secs, ttl_secs } => (age_secs, ttl_secs, Reason::HitFresh),
            Reuse::Stale { age_secs, ttl_secs, reason, .. } => (age_secs, ttl_secs, reason),
            Reuse::Revalidate(reason) => return Err(reason),
        };
        let facts = CacheStatusFacts { ttl_secs: Some(ttl_secs), ..CacheStatusFacts::default() };
        let account = Account { reason, facts, age_secs: Some(age_secs) };
        Ok(Delivery { content: Content::Stored(object), account })
    }

    /// Joins the flight for the wanted page, or starts it.
    fn join(&self, mut wanted: Wanted<'a>, reason: Reason) -> Step<'a> {
        let (policy, now) = (wanted.subject.site.policy(), Moment::read(&*self.shared.clock));
        let usable = |freshness: &Freshness| {
            !matches!(reuse(freshness, &wanted.directives, policy, now), Reuse::Revalidate(_))
        };
        let known = self.shared.store.known_rule(&wanted.key);
        let fields = &self.request.head.fields;
        let find = || self.find(&wanted, now).ok();
        match self.shared.flights.join(&wanted.key, fields, known, find, usable) {
            Joined::Found(delivery) => Step::Deliver(delivery),
            Joined::Filling(answer, reader) => {
                self.cells().count(Metric::FlightWaits);
                Step::Deliver(self.shared_delivery(answer, reader, Reason::MissCollapsed))
            }
            Joined::Waiter(receiver) => {
                self.cells().count(Metric::FlightWaits);
                wanted.flights += 1;
                Step::Wait { wanted, reason, receiver, leads: false }
            }
            Joined::Leader(flight) => {
                wanted.flights += 1;
                self.depart(wanted, reason, flight)
            }
        }
    }

    /// Starts a flight as a task of its own and waits for it.
    fn depart(&self, wanted: Wanted<'a>, reason: Reason, flight: Arc<Flight>) -> Step<'a> {
        let (subject, key) = (&wanted.subject, &wanted.key);
        let method = self.request.head.method.clone();
        let head = forward::shared_head(
            subject,
            &self.shared.loop_mark,
            key,
            method,
            &self.request.head.fields,
            flight.known(),
        );
        let Ok(request) = forward::without_content(&head) else {
            self.shared.flights.remove(key, &flight);
            return Step::Refuse(Refusal::unwritable());
        };
        let receiver = flight.subscribe();
        tokio::spawn(fly::fly(Departure {
            shared: Arc::clone(self.shared),
            worker: self.worker,
            site: Arc::clone(subject.site),
            key: key.clone(),
            head,
            request,
            flight,
        }));
        Step::Wait { wanted, reason, receiver, leads: true }
    }

    /// *wait*: until the flight has an answer, passing on what it is told before. Who leads waits as long as the
    /// application may take; who follows has a limit, after which it goes to the application by itself.
    async fn wait(
        &mut self,
        mut wanted: Wanted<'a>,
        reason: Reason,
        mut receiver: watch::Receiver<Progress>,
        leads: bool,
    ) -> Step<'a> {
        let limit = self.shared.limits.flight_wait;
        let end = *wanted.patience_ends.get_or_insert_with(|| Instant::now() + limit);
        let mut informed = 0;
        loop {
            let Progress { hints, state } = receiver.borrow_and_update().clone();
            for hint in hints.into_iter().skip(informed) {
                informed += 1;
                self.inform(hint).await;
            }
            match state {
                State::Waiting => {}
                State::Shared(answer) => return self.take_shared(wanted, reason, answer, leads),
                State::Private(answer) => return self.take_private(wanted, reason, &answer),
                State::Failed(error) => {
                    return Step::Refuse(Refusal::failed_fetch(&error, wanted.subject.site.origin.url()));
                }
            }
            let changed = receiver.changed();
            let limited =
                async { if leads { Ok(changed.await) } else { tokio::time::timeout_at(end, changed).await } };
            match limited.await {
                Ok(Ok(())) => {}
                // The flight never began.
                Ok(Err(_)) => return wanted.pass(reason),
                Err(_) => {
                    self.cells().count(Metric::FlightWaitTimeouts);
                    return wanted.pass(reason);
                }
            }
        }
    }

    /// A flight's answer may be shared: is it the variant that this request selects?
    fn take_shared(
        &self,
        wanted: Wanted<'a>,
        reason: Reason,
        answer: Arc<SharedAnswer>,
        leads: bool,
    ) -> Step<'a> {
        if !answer.rule.matches(&self.request.head.fields, &answer.variant) {
            return self.take_other_variant(wanted);
        }
        match answer.filling.reader() {
            Some(reader) => {
                let reason = if leads { reason } else { Reason::MissCollapsed };
                Step::Deliver(self.shared_delivery(answer, reader, reason))
            }
            // It has become too large to be kept, and nobody can join any more.
            None => wanted.pass(reason),
        }
    }

    /// The answer is for another variant. The request's own is fetched with the rule known; if the answers go on
    /// varying on something else each time, it goes to the application by itself.
    fn take_other_variant(&self, wanted: Wanted<'a>) -> Step<'a> {
        if wanted.flights < FLIGHTS_MAX {
            return self.join(wanted, Reason::MissVariant);
        }
        wanted.pass(Reason::MissVariant)
    }

    /// A flight's answer is for one visitor: the first who claims it. The others go to the application by themselves.
    fn take_private(&self, wanted: Wanted<'a>, reason: Reason, answer: &PrivateAnswer) -> Step<'a> {
        match answer.claim() {
            Some(parcel) => {
                let facts = CacheStatusFacts {
                    forward_status: Some(parcel.head.status),
                    ..CacheStatusFacts::default()
                };
                let account = Account { reason: answer.reason, facts, age_secs: None };
                Step::Deliver(Delivery { content: Content::Claimed(parcel), account })
            }
            None => wanted.pass(reason),
        }
    }

    fn shared_delivery(&self, answer: Arc<SharedAnswer>, reader: FillingReader, reason: Reason) -> Delivery {
        let now = Moment::read(&*self.shared.clock);
        let facts = CacheStatusFacts {
            ttl_secs: Some(answer.freshness.ttl_secs(now)),
            forward_status: Some(answer.head.status),
            stored: true,
            collapsed: reason == Reason::MissCollapsed,
        };
        let age_secs = Some(answer.freshness.age(now).as_secs());
        Delivery { content: Content::Filling(answer, reader), account: Account { reason, facts, age_secs } }
    }

    /// *pass*: this visitor's own request, with its content streaming up.
    async fn pass(&mut self, passing: Passing<'a>) -> Step<'a> {
        let subject = &passing.subject;
        let failed = |cells: &Cells, error: &FetchError| {
            fly::count_failure(cells, error);
            Step::Refuse(Refusal::failed_fetch(error, subject.site.origin.url()))
        };
        let asked = Moment::read(&*self.shared.clock);
        let Ok(request) = forward::passed(subject, &self.shared.loop_mark, self.client.peer(), self.request)
        else {
            return Step::Refuse(Refusal::unwritable());
        };
        let mut exchange = match subject.site.origin.fetch(request).await {
            Ok(exchange) => Box::new(exchange),
            Err(error) => return failed(self.cells(), &error),
        };
        self.cells().count(Metric::OriginFetches);
        loop {
            match exchange.next(self.client).await {
                Ok(Event::Informational(head)) if head.status.code() != 100 => self.inform(head).await,
                Ok(Event::Head { head, .. })
                    if head.status.code() == 101
                        && forward::tunnelled_protocols(self.request).next().is_none() =>
                {
                    return failed(self.cells(), &FetchError::UnaskedSwitch);
                }
                Ok(Event::Head { head, framing }) => {
                    return self.take_passed(&passing, asked, Parcel { head, framing, exchange });
                }
                Ok(Event::Informational(_) | Event::Data(_) | Event::End(_)) => {}
                Err(error) => return failed(self.cells(), &error),
            }
        }
    }

    fn take_passed(&self, passing: &Passing<'a>, asked: Moment, parcel: Parcel) -> Step<'a> {
        let Parcel { mut head, framing, mut exchange } = parcel;
        let judged = passing.key.as_ref().and_then(|key| self.learn(&passing.subject, key, asked, &head));
        let reason = judged.unwrap_or(passing.reason);
        let facts = CacheStatusFacts { forward_status: Some(head.status), ..CacheStatusFacts::default() };
        let account = Account { reason, facts, age_secs: None };
        if head.status.code() == 101 {
            return Step::Deliver(Delivery { content: Content::Switch(head, exchange), account });
        }
        if is_event_stream(&head) {
            exchange.release_turn();
        }
        respond::tidy(&mut head, self.shared.clock.now());
        Step::Deliver(Delivery { content: Content::Own(Parcel { head, framing, exchange }), account })
    }

    /// Learns from the answer to one visitor whether answers for the page could be shared; gives the reason if not.
    /// The answer itself is not stored, as more than the key went into it.
    fn learn(&self, subject: &Subject<'_>, key: &Key, asked: Moment, head: &ResponseHead) -> Option<Reason> {
        if head.status == Status::NOT_MODIFIED {
            // It says what the visitor has, not what others would get.
            return None;
        }
        let (policy, answered) = (subject.site.policy(), Moment::read(&*self.shared.clock));
        let judgement = judge_response(&self.request.head, head, asked, answered, policy);
        let refusal = match (judgement, VaryRule::from_response(&head.fields, policy)) {
            (Judgement::Store(_), Ok(_)) => None,
            (Judgement::DoNotStore(reason), _) | (_, Err(reason)) => Some(reason),
        };
        match refusal {
            None => self.shared.flights.forget_in_vain(key),
            Some(Reason::StoreRefusedMethod) => {}
            Some(_) => self.shared.flights.remember_in_vain(key, answered.monotonic),
        }
        refusal
    }

    /// Passes on an informational response to visitors that understand it. One that cannot be sent is found out
    /// by the response itself.
    async fn inform(&mut self, head: ResponseHead) {
        if self.request.head.version == Version::Http11 {
            self.client.push(respond::write_informational(head));
            let _ = self.client.flush().await;
        }
    }
}

impl<'a> Wanted<'a> {
    /// To the application alone, after all.
    fn pass(self, reason: Reason) -> Step<'a> {
        Step::Pass(Passing { subject: self.subject, reason, key: Some(self.key) })
    }
}

/// Whether a response stays open for as long as its visitor does (server-sent events).
fn is_event_stream(head: &ResponseHead) -> bool {
    head.fields
        .first(message::names::CONTENT_TYPE)
        .and_then(|value| value.split(|&octet| octet == b';').next())
        .is_some_and(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}
