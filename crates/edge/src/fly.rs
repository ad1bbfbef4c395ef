//! The task of one flight: fetch -> judge -> { store and stream | stream only }.
//!
//! Invariant: an answer is published to the store before its flight leaves the table and before any reader sees
//! its end; a body that did not end as its framing said is neither stored nor ended. The task belongs to
//! nobody: that a visitor leaves does not touch it.

use crate::counters::{Cells, Metric};
use crate::flight::{Flight, Parcel, PrivateAnswer, SharedAnswer, State};
use crate::respond;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use h1::BodyFraming;
use message::{RequestHead, ResponseHead};
use origin::{Event, Exchange, FetchError, FetchRequest, NoUpload};
use semantics::{Freshness, Judgement, Moment, Reason, VaryRule, judge_response};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use store::{Abandoned, Filling, FillingWriter, Key, Object};

/// Octets that the slowest visitor may lag behind in a body that is not stored.
const WINDOW_BYTES: u64 = 256 * 1024;

/// A body up to this size is kept however much slow visitors hold. The system's buffers take it at once, so that a
/// slow visitor holds nothing of it; and pages must not be lost because somebody reads downloads slowly.
const SMALL_BYTES: u64 = 64 * 1024;

/// Everything a flight needs.
pub(crate) struct Departure {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) site: Arc<Site>,
    pub(crate) key: Key,
    /// The request as it is forwarded.
    pub(crate) head: RequestHead,
    pub(crate) request: FetchRequest,
    pub(crate) flight: Arc<Flight>,
}

/// What the application answered, before it is judged.
struct Answer {
    head: ResponseHead,
    framing: BodyFraming,
    exchange: Box<Exchange>,
    asked: Moment,
    answered: Moment,
}

/// Flies.
pub(crate) async fn fly(departure: Departure) {
    departure.cells().count(Metric::FlightsStarted);
    match departure.fetch().await {
        Ok(answer) => departure.land(answer).await,
        Err(error) => {
            count_failure(departure.cells(), &error);
            departure.flight.announce(State::Failed(error));
        }
    }
}

/// Counts why a fetch gave no response, or no whole one.
pub(crate) fn count_failure(cells: &Cells, error: &FetchError) {
    match error {
        FetchError::Busy(_) => cells.count(Metric::OriginBusy),
        FetchError::Refused | FetchError::Unreachable(_) => cells.count(Metric::OriginRefusals),
        FetchError::ConnectTimeout | FetchError::FirstByteTimeout | FetchError::BetweenBytesTimeout => {
            cells.count(Metric::OriginTimeouts);
        }
        FetchError::Closed
        | FetchError::BadHead(_)
        | FetchError::BadBody(_)
        | FetchError::TooManyInformational
        | FetchError::UnaskedSwitch => cells.count(Metric::OriginFaults),
        // Counted where the visitor's connection is.
        FetchError::Upload(_) => {}
    }
}

/// The memory that one body takes on its way into the store; given back when it is there, or not kept.
struct Room<'a> {
    shared: &'a Shared,
    bytes: u64,
}

impl Room<'_> {
    fn take(&mut self, octets: usize) -> bool {
        let octets = octets as u64;
        let small = self.bytes + octets <= SMALL_BYTES;
        let lingering = if small { 0 } else { self.shared.store.lingering_bytes() };
        let taken = self.shared.filling.take(octets, lingering);
        self.bytes += if taken { octets } else { 0 };
        taken
    }

    /// Gives back what is more than `bytes`.
    fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.shared.filling.give_back(surplus);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// However a flight ends, also by a panic or before it began: it leaves the table, and nobody waits in vain.
impl Drop for Departure {
    fn drop(&mut self) {
        // Without effect if there was an announcement.
        self.flight.announce(State::Failed(FetchError::Closed));
        self.leave_table();
    }
}

impl Departure {
    fn cells(&self) -> &Cells {
        self.shared.cells(self.worker)
    }

    fn leave_table(&self) {
        self.shared.flights.remove(&self.key, &self.flight);
    }

    /// *fetch*: sends the request and waits for the head of its answer.
    async fn fetch(&self) -> Result<Answer, FetchError> {
        let asked = Moment::read(&*self.shared.clock);
        let mut exchange = Box::new(self.site.origin.fetch(self.request.clone()).await?);
        self.cells().count(Metric::OriginFetches);
        loop {
            match exchange.next(&mut NoUpload).await? {
                // Nobody has anything to go on with: the request has no content.
                Event::Informational(head) if head.status.code() == 100 => {}
                Event::Informational(head) => self.flight.inform(head),
                Event::Head { head, .. } if head.status.code() == 101 => {
                    return Err(FetchError::UnaskedSwitch);
                }
                Event::Head { mut head, framing } => {
                    let answered = Moment::read(&*self.shared.clock);
                    respond::tidy(&mut head, answered.wall);
                    return Ok(Answer { head, framing, exchange, asked, answered });
                }
                // The exchange gives a head before anything of the content.
                Event::Data(_) | Event::End(_) => return Err(FetchError::Closed),
            }
        }
    }

    /// *judge*: may the answer be shared, and for how long? A HEAD says nothing about the page's GET.
    fn judge(&self, answer: &Answer) -> Result<(Freshness, VaryRule), Reason> {
        let policy = self.site.policy();
        let rule = VaryRule::from_response(&answer.head.fields, policy);
        match judge_response(&self.head, &answer.head, answer.asked, answer.answered, policy) {
            Judgement::Store(storable) => rule.map(|rule| (storable.freshness, self.flight.known().union(&rule))),
            Judgement::DoNotStore(reason) => Err(reason),
        }
    }

    async fn land(&self, answer: Answer) {
        match self.judge(&answer) {
            Ok((freshness, rule)) => {
                self.shared.flights.forget_in_vain(&self.key);
                self.store_and_stream(answer, freshness, rule).await;
            }
            Err(reason) => {
                if reason != Reason::StoreRefusedMethod {
                    self.shared.flights.remember_in_vain(&self.key, answer.answered.monotonic);
                }
                // From here on requests for the page fetch by themselves; only those that wait are told.
                self.leave_table();
                let Answer { head, framing, exchange, .. } = answer;
                let parcel = Parcel { head, framing, exchange };
                self.flight.announce(State::Private(Arc::new(PrivateAnswer::new(reason, parcel))));
            }
        }
    }

    /// *store and stream*: whoever waits reads the body while it fills; the store gets it when it is whole.
    async fn store_and_stream(&self, answer: Answer, freshness: Freshness, rule: VaryRule) {
        let Answer { head, framing, exchange, .. } = answer;
        let too_large =
            matches!(framing, BodyFraming::Length(bytes) if bytes > self.shared.limits.object_bytes_max);
        let keep_bytes_max = if too_large { 0 } else { self.shared.limits.object_bytes_max };
        let (writer, filling) = Filling::start(keep_bytes_max);
        let variant = rule.key(&self.head.fields);
        let object = OnceLock::new();
        let shared_answer =
            Arc::new(SharedAnswer { head, framing, freshness, rule, variant, filling, object });
        self.flight.announce(State::Shared(Arc::clone(&shared_answer)));
        if let Err(error) = self.fill(*exchange, writer, &shared_answer).await {
            count_failure(self.cells(), &error);
        }
    }

    /// Moves the body from the application to its readers and, when it is whole, into the store.
    async fn fill(
        &self,
        mut exchange: Exchange,
        mut writer: FillingWriter,
        answer: &SharedAnswer,
    ) -> Result<(), FetchError> {
        // The last octets are held back until it is known whether they are the last, as the store must have
        // the body before a reader has all of it.
        let (mut held, mut nothing) = (Bytes::new(), NoUpload);
        let mut room = Room { shared: &self.shared, bytes: 0 };
        loop {
            let event = tokio::select! {
                biased;
                event = exchange.next(&mut nothing) => event,
                () = std::future::ready(()), if !held.is_empty() => {
                    writer.push(std::mem::take(&mut held));
                    continue;
                }
            };
            match event {
                Ok(Event::Data(octets)) => {
                    if !writer.is_kept() {
                        // A slow reader may still hold what was kept.
                        room.shrink_to(answer.filling.held_bytes());
                    } else if !room.take(octets.len()) {
                        self.cells().count(Metric::FillingsUnkept);
                        writer.stop_keeping();
                    }
                    writer.push(std::mem::replace(&mut held, octets));
                    if self.make_room(&mut writer).await.is_err() {
                        // A window without readers: nobody wants the rest.
                        return Ok(());
                    }
                }
                Ok(Event::End(_)) => {
                    writer.finish_with(held, |body| self.publish(answer, body));
                    return Ok(());
                }
                Ok(Event::Informational(_) | Event::Head { .. }) => {}
                Err(error) => {
                    writer.push(held);
                    writer.abort(Reason::OriginTruncated);
                    return Err(error);
                }
            }
        }
    }

    /// Waits until the slowest reader has taken enough. A window that is full before anybody reads it may be one
    /// that nobody wants, as when the visitors selected other variants: that is known once all have decided.
    async fn make_room(&self, writer: &mut FillingWriter) -> Result<(), Abandoned> {
        tokio::select! {
            biased;
            ready = poll_fn(|context| writer.poll_ready(context, WINDOW_BYTES)) => return ready,
            () = self.flight.unawaited() => {}
        }
        // Who comes now starts a flight of its own, or has taken a reader before.
        self.leave_table();
        writer.close();
        poll_fn(|context| writer.poll_ready(context, WINDOW_BYTES)).await
    }

    fn publish(&self, answer: &SharedAnswer, body: store::Body) {
        let prebuilt = respond::prebuilt(&answer.head, body.len());
        let made = || Arc::new(Object::new(&answer.head, &prebuilt, body, answer.freshness));
        let object = Arc::clone(answer.object.get_or_init(made));
        // An object too large for the store was streamed all the same.
        let _ = self.shared.store.publish(&self.key, answer.rule.clone(), answer.variant.clone(), object);
    }
}
