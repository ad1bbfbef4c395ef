//! The task of one flight: fetch -> judge -> { store and stream | stream only | confirm | complete }.
//!
//! Invariant: an answer is published to the store before its flight leaves the table and before any reader sees
//! its end; a body that did not end as its framing said is neither stored nor ended; an error of the origin never
//! takes the place of something that may be used stale. The task belongs to nobody: that a visitor leaves does not
//! touch it.

mod fill;
#[cfg(test)]
#[cfg(feature = "model")]
mod model;
mod spilling;

use crate::breaker;
use crate::counters::{Cells, Metric};
use crate::event_stream::is_event_stream;
use crate::flight::{Confirmed, Flight, Parcel, PrivateAnswer, State};
use crate::recognition::Sent;
use crate::respond;
use crate::room::Room;
use crate::selection::Selection;
use crate::shared::Shared;
use crate::sites::Site;
use crate::stored::{joined_body, shareable, stored_object};
use h1::BodyFraming;
use message::{Fields, RequestHead, ResponseHead, Status};
use origin::{Event, Exchange, FetchError, FetchRequest, NoUpload};
use semantics::{
    ClientAddress, ContentRange, Directives, Forwarding, Freshness, Judgement, Moment, Reason, Reuse,
    Storable, VaryRule, combined_head, explain_refusal, is_maintenance, is_personal, is_refusal,
    is_server_error, joined_extent, judge_response, not_modified_speaks_of, reuse, reuse_on_error,
    selecting_rule, updated_head,
};
use std::sync::Arc;
use std::task::{Context, Waker};
use store::{Body, Key, Lookup, Object};

/// Why an answer may not be shared at all, however long it is fresh.
const FORBIDDING: [Reason; 6] = [
    Reason::StoreRefusedPrivate,
    Reason::StoreRefusedNoStore,
    Reason::StoreRefusedSetCookie,
    Reason::StoreRefusedUnmarked,
    Reason::StoreRefusedVaryStar,
    Reason::StoreRefusedVaryAddress,
];

/// Everything a flight needs.
pub(crate) struct Departure {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) site: Arc<Site>,
    pub(crate) key: Key,
    /// The request as it is forwarded, without what is asked beside the page.
    pub(crate) head: RequestHead,
    pub(crate) request: FetchRequest,
    pub(crate) flight: Arc<Flight>,
    /// What is stored of the page, if anything is.
    pub(crate) base: Option<Arc<Object>>,
    /// Whether the origin is told the address that is no client's.
    pub(crate) impersonal: bool,
}

/// What the application answered, before it is judged.
struct Answer<S> {
    head: ResponseHead,
    framing: BodyFraming,
    exchange: Box<S>,
    asked: Moment,
    answered: Moment,
}

/// Where an answer's content comes from: an exchange, or a script in the models.
trait Source: Send {
    /// The next event. A future dropped before it is ready has lost nothing.
    fn next_event(&mut self) -> impl Future<Output = Result<Event, FetchError>> + Send;

    /// Lets another fetch begin, because this one waits for a slow reader.
    fn waits_for_reader(&mut self) {}
}

impl Source for Exchange {
    async fn next_event(&mut self) -> Result<Event, FetchError> {
        self.next(&mut NoUpload).await
    }

    fn waits_for_reader(&mut self) {
        // It keeps its turn where too many have given theirs up.
        let _ = self.stall();
    }
}

/// Starts a flight as a task of its own. Its request leaves now, not when the task has its turn: before that come all
/// who ask for the same page at the same moment.
pub(crate) fn depart(departure: Departure) {
    let mut flight = Box::pin(fly(departure));
    // The task polls it again, with the waker that counts.
    if flight.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(flight);
    }
}

/// Flies.
pub(crate) async fn fly(departure: Departure) {
    departure.cells().count(Metric::FlightsStarted);
    let fetched = tokio::select! {
        // Asked first, so that a flight which gets its permit from another that was given up asks the origin nothing.
        biased;
        () = departure.forsaken() => Err(FetchError::BreakerOpen),
        fetched = departure.fetch() => fetched,
    };
    match fetched {
        Ok(answer) => departure.land(answer).await,
        Err(error) => {
            count_failure(departure.cells(), &error);
            match error {
                // The page is not the cause if the breaker is open.
                FetchError::BreakerOpen => {}
                // Nor is the origin if the client has too many fetches under way: the next one is asked.
                FetchError::Busy(_) => departure.ail(Reason::StoreRefusedStatus),
                _ => departure.ail(departure.failing()),
            }
            departure.flight.announce(State::Failed(error));
        }
    }
}

/// Counts why a fetch gave no response, or no whole one.
pub(crate) fn count_failure(cells: &Cells, error: &FetchError) {
    match error {
        FetchError::BreakerOpen => cells.count(Metric::BreakerRefusals),
        FetchError::Busy(_) => cells.count(Metric::OriginBusy),
        FetchError::Refused | FetchError::Unreachable(_) => cells.count(Metric::OriginRefusals),
        FetchError::ConnectTimeout | FetchError::FirstByteTimeout | FetchError::BetweenBytesTimeout => {
            cells.count(Metric::OriginTimeouts);
        }
        FetchError::Closed
        | FetchError::BadHead(_)
        | FetchError::BadBody(_)
        | FetchError::TooManyInformational
        | FetchError::UnaskedSwitch
        | FetchError::UnaskedNotModified => cells.count(Metric::OriginFaults),
        // Counted where the visitor's connection is.
        FetchError::Upload(_) => {}
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

    /// The request, as the application gets it.
    fn sent(&self) -> Sent<'_> {
        Sent::new(&self.head, self.key.target(), self.key.host())
    }

    fn leave_table(&self) {
        self.shared.flights.remove(&self.key, &self.flight);
    }

    /// Ready when the breaker of the origin is open and no client waits for the flight, which then gives its permit
    /// back. A probe goes on.
    async fn forsaken(&self) {
        if self.request.probe.is_some() {
            return std::future::pending().await;
        }
        loop {
            self.site.origin.opened().await;
            self.flight.unawaited().await;
            if !self.site.origin.is_open() {
                continue;
            }
            // A client that has joined in this moment is not let down; one that comes later leads a flight of its own.
            self.leave_table();
            if !self.flight.is_awaited() {
                return;
            }
        }
    }

    /// *fetch*: sends the request and waits for the head of its answer.
    async fn fetch(&self) -> Result<Answer<Exchange>, FetchError> {
        let (urgency, page) = (self.flight.urgency(), Some(breaker::digest(&self.key)));
        let request = FetchRequest { urgency, page, ..self.request.clone() };
        let mut exchange = Box::new(self.site.origin.fetch(request).await?);
        self.cells().count(Metric::OriginFetches);
        // It is sent now; that it waited for its turn makes no answer older.
        let asked = Moment::read(&*self.shared.clock);
        loop {
            match exchange.next_event().await? {
                // Nobody has anything to go on with: the request has no content.
                Event::Informational(head) if head.status.code() == 100 => {}
                Event::Informational(head) => self.flight.inform(head),
                Event::Head { head, .. } if head.status.code() == 101 => {
                    return Err(FetchError::UnaskedSwitch);
                }
                Event::Head { mut head, framing } => {
                    let answered = Moment::read(&*self.shared.clock);
                    if is_event_stream(&head) {
                        // It may go on for hours, and is no work for the application meanwhile.
                        exchange.release_turn();
                    }
                    respond::tidy(&mut head, answered.wall);
                    self.shared.look(&self.site, self.sent(), &head);
                    return Ok(Answer { head, framing, exchange, asked, answered });
                }
                // The exchange gives a head before anything of the content.
                Event::Data(_) | Event::End(_) => return Err(FetchError::Closed),
            }
        }
    }

    /// *judge*: may the answer be shared, and for how long?
    fn judge(
        &self,
        head: &ResponseHead,
        asked: Moment,
        answered: Moment,
    ) -> Result<(Storable, VaryRule), Reason> {
        let policy = self.site.policy();
        let selecting = selecting_rule(&self.head.fields, policy);
        let rule = VaryRule::from_response(&head.fields, policy).map(|rule| rule.union(&selecting));
        if self.site.tags_of(&self.key, &head.fields).is_err() {
            return Err(Reason::StoreRefusedTags);
        }
        match judge_response(&self.head, head, asked, answered, policy) {
            Judgement::Store(storable) => rule.map(|rule| (storable, self.flight.known().union(&rule))),
            Judgement::DoNotStore(reason) => Err(reason),
        }
    }

    async fn land(&self, answer: Answer<Exchange>) {
        let status = answer.head.status;
        if self.impersonal && is_refusal(status) {
            return self.deny(status);
        }
        if is_maintenance(&answer.head, self.site.policy()) {
            return self.close(answer);
        }
        if is_server_error(status) {
            self.ail(self.failing());
        } else if !is_refusal(status) && self.flight.range().is_none() {
            self.shared.ailing.forget(&self.key);
        }
        if let Some(base) = &self.base {
            match status {
                Status::NOT_MODIFIED => return self.confirm(answer, base).await,
                Status::PARTIAL_CONTENT if self.flight.range().is_none() && base.part().is_some() => {
                    return self.complete(answer, base).await;
                }
                Status::RANGE_NOT_SATISFIABLE if self.flight.range().is_none() => return self.give_up_base(),
                _ if is_server_error(status) && self.has_reserve(base, answer.answered) => {
                    return self.give_away(answer, Reason::StoreRefusedStatus);
                }
                _ => {}
            }
        }
        if status == Status::PARTIAL_CONTENT && self.flight.range().is_none() {
            return self.give_away(answer, Reason::StoreRefusedPartial);
        }
        match self.judge(&answer.head, answer.asked, answer.answered) {
            Ok((storable, rule)) => {
                self.remember_use(&storable.freshness, &answer.head.fields);
                self.store_and_stream(answer, storable, rule).await;
            }
            Err(reason) => {
                // An error is the origin's state of this moment, and a part says nothing about the whole.
                if !is_server_error(status) && self.flight.range().is_none() && self.speaks_for_clients() {
                    self.remember(reason, &answer);
                    self.outdate(status, reason);
                }
                self.give_away(answer, reason);
            }
        }
    }

    /// The application says that the site is closed: whoever waits is shown that. What is stored stays for the case
    /// that the application is gone, and does not stand in for this answer.
    fn close(&self, answer: Answer<Exchange>) {
        let reason = Reason::StoreRefusedMaintenance;
        self.ail(reason);
        if self.speaks_for_clients() {
            self.remember(reason, &answer);
        }
        self.give_away(answer, reason);
    }

    /// Remembers why the origin is left alone with the page for a moment. Only after [`Reason::OriginFailing`] a stale
    /// response stands in for the next one.
    fn ail(&self, reason: Reason) {
        self.shared.ailing.remember(&self.key, reason, None, self.shared.clock.monotonic());
    }

    /// Why the page is left alone after an error. A part says nothing about the page, and where a fetch carries what
    /// its client sent, that may have been the cause: then nothing stale stands in for the responses of others.
    fn failing(&self) -> Reason {
        let policy = self.site.policy();
        let is_of_client = policy.forwarding == Forwarding::Everything
            || is_personal(&self.head.fields, policy)
            || self.flight.range().is_some();
        if is_of_client { Reason::StoreRefusedStatus } else { Reason::OriginFailing }
    }

    /// Remembers why the answer is not for all.
    fn remember(&self, reason: Reason, answer: &Answer<Exchange>) {
        let culprit = explain_refusal(reason, &answer.head.fields, self.site.policy());
        self.shared.in_vain.remember(&self.key, reason, culprit, answer.answered.monotonic);
    }

    /// Remembers whether requests for the page need wait for one another: not where each has to ask for itself.
    fn remember_use(&self, freshness: &Freshness, fields: &Fields) {
        let (reason, now) = (freshness.validation_reason(), freshness.received);
        if self.needs_validation(freshness, now) {
            let culprit = explain_refusal(reason, fields, self.site.policy());
            self.shared.in_vain.remember(&self.key, reason, culprit, now.monotonic);
        } else {
            self.shared.in_vain.forget(&self.key);
        }
    }

    /// The origin refuses the address that is no client's, which says nothing about any client: each asks with its own.
    /// The page may be restricted now, so what is stored goes; a limit on the rate of requests says nothing of that.
    fn deny(&self, status: Status) {
        self.cells().count(Metric::FetchesDenied);
        let (policy, is_rate_limit) = (self.site.policy(), status.code() == 429);
        if self.speaks_for_clients() && !is_personal(&self.head.fields, policy) {
            let now = self.shared.clock.monotonic();
            self.shared.in_vain.remember(&self.key, Reason::StoreRefusedDenied, None, now);
            if !is_rate_limit {
                self.forget_base();
            }
        }
        if is_rate_limit {
            self.ail(Reason::StoreRefusedDenied);
        }
        self.part(State::Denied);
    }

    /// Whether the answer says something about what clients get: not if it depends on the client's address, and the
    /// fetch is for no client.
    fn speaks_for_clients(&self) -> bool {
        !self.impersonal || self.site.policy().client_address != ClientAddress::Leader
    }

    /// What is stored must not stand in for a page that is gone, or that is not for everybody any more. An answer to
    /// one visitor says nothing about what others would get, nor does a complaint about the request.
    fn outdate(&self, status: Status, reason: Reason) {
        let ends = match status.code() {
            404 | 410 => true,
            code => code < 400 && FORBIDDING.contains(&reason),
        };
        if ends && !is_personal(&self.head.fields, self.site.policy()) {
            self.forget_base();
        }
    }

    /// Removes what the flight began with, and the page's file.
    fn forget_base(&self) {
        if self.base.is_some() {
            self.forget_stored();
        }
        self.shared.static_tree.withdraw(&self.site, &self.key);
    }

    /// Removes what is stored. After an invalidation only newer things can be, which stay.
    fn forget_stored(&self) {
        self.flight.publish(|| {
            self.shared.store.remove(&self.key);
            self.shared.static_tree.withdraw(&self.site, &self.key);
        });
    }

    /// Whether a response can answer nobody but who asked for it without being confirmed.
    fn needs_validation(&self, freshness: &Freshness, now: Moment) -> bool {
        let reused = reuse(freshness, &Directives::default(), self.site.policy(), now);
        matches!(reused, Reuse::Revalidate(_))
    }

    /// Whether `base` may answer requests, stale or not, now that the origin fails.
    fn has_reserve(&self, base: &Object, now: Moment) -> bool {
        let freshness = base.freshness();
        !self.needs_validation(&freshness, now)
            || reuse_on_error(&freshness, &Directives::default(), self.site.policy(), now).is_some()
    }

    /// *stream only*: the answer is for the one who asked.
    fn give_away(&self, answer: Answer<Exchange>, reason: Reason) {
        let Answer { head, framing, exchange, .. } = answer;
        let selection = Selection::of(self.flight.known(), &self.head.fields, &head, self.site.policy());
        let parcel = Parcel { head, framing, exchange };
        self.part(State::Private(Arc::new(PrivateAnswer::new(reason, selection, parcel))));
    }

    /// Ends the sharing: from here on requests for the page fetch by themselves; only those that wait are told.
    fn part(&self, state: State) {
        self.leave_table();
        self.flight.announce(state);
    }

    /// *confirm*: a 304 says that `base` is still right.
    async fn confirm<S: Source>(&self, answer: Answer<S>, base: &Arc<Object>) {
        let Answer { head, exchange, asked, answered, .. } = answer;
        drain(*exchange).await;
        if base.part().is_none() && not_modified_speaks_of(&base.head(), &head) {
            let updated = updated_head(&base.head(), &head);
            if let Ok(judged) = self.judge(&updated, asked, answered) {
                return self.announce_stored(head.status, updated, base.body(), judged);
            }
        }
        // What is stored may not be used any more, or the answer spoke of something else.
        self.give_up_base();
    }

    /// *complete*: the part of the content that was missing of `base`.
    async fn complete<S: Source>(&self, answer: Answer<S>, base: &Arc<Object>) {
        let Answer { head, exchange, asked, answered, .. } = answer;
        let completed = match (base.part(), ContentRange::of(&head)) {
            (Some(part), Some(extent)) => joined_extent((&base.head(), part.extent), (&head, extent))
                .filter(ContentRange::is_whole)
                .map(|whole| (part.extent, extent, whole)),
            _ => None,
        };
        if let Some((stored, missing, whole)) = completed
            && let Some(content) = self.gather(*exchange, missing.bytes()).await
        {
            let combined = combined_head(&base.head(), &head, whole);
            if let Ok(judged) = self.judge(&combined, asked, answered) {
                let body = joined_body((&base.body(), stored), (&content, missing));
                return self.announce_stored(head.status, combined, body, judged);
            }
        }
        // A part that cannot be completed would only be tried again.
        self.give_up_base();
    }

    /// Neither the answer nor what was stored is of use.
    fn give_up_base(&self) {
        self.forget_stored();
        self.flight.announce(State::Void);
    }

    /// Publishes a complete response that an answer with `status` has renewed, and gives it to all who wait.
    fn announce_stored(
        &self,
        status: Status,
        head: ResponseHead,
        body: Body,
        (storable, rule): (Storable, VaryRule),
    ) {
        let (head, _) = shareable(head, &storable.withheld, self.site.policy());
        let variant = rule.stored_key(&self.head.fields, &head.fields);
        let object = Arc::new(stored_object(&head, body, storable.freshness, self.site.policy()));
        let tags = self.tags(&head.fields);
        self.remember_use(&storable.freshness, &head.fields);
        if !self.is_base_replaced() {
            self.publish_object(rule.clone(), variant.clone(), Arc::clone(&object), &tags);
        }
        let begun = self.flight.begun();
        let confirmed = Confirmed { status, object, rule, variant, tags, begun };
        self.flight.announce(State::Confirmed(Arc::new(confirmed)));
    }

    /// Whether another flight has replaced what this one began with, or removed it because it may not be used any
    /// more. A late answer that renews it must not bring it back. A part stands in the way of nothing.
    fn is_base_replaced(&self) -> bool {
        match (self.stored(), &self.base) {
            (Some((stored, _)), Some(base)) => !Arc::ptr_eq(&stored, base) && stored.part().is_none(),
            (None, Some(base)) => base.part().is_none(),
            (_, None) => false,
        }
    }

    /// What is stored for the request, and whether it was softly invalidated.
    fn stored(&self) -> Option<(Arc<Object>, bool)> {
        match self.shared.store.peek(&self.key, &self.head.fields) {
            Lookup::Found { object, softened } => Some((object, softened)),
            // What has left memory meanwhile is not what the answer is about.
            Lookup::Shelved(_) | Lookup::NoVariant | Lookup::Absent => None,
        }
    }

    /// The whole content of an answer that has `bytes`; `None` if it has not, or there is no room for it.
    async fn gather(&self, mut exchange: impl Source, bytes: u64) -> Option<Body> {
        let mut room = Room::new(&self.shared);
        let mut pieces = Vec::new();
        if bytes > self.shared.limits.object_bytes_max || !room.take(bytes) {
            return None;
        }
        loop {
            match exchange.next_event().await {
                Ok(Event::Data(octets)) => pieces.push(octets),
                Ok(Event::End(_)) => break,
                Ok(Event::Informational(_) | Event::Head { .. }) => {}
                Err(error) => {
                    count_failure(self.cells(), &error);
                    return None;
                }
            }
            if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() > bytes {
                return None;
            }
        }
        let body = Body::gathered(&pieces);
        (body.len() == bytes).then_some(body)
    }
}

/// Reads an answer without content to its end, so that its connection can be used again.
async fn drain(mut exchange: impl Source) {
    while matches!(exchange.next_event().await, Ok(Event::Data(_) | Event::Informational(_))) {}
}
