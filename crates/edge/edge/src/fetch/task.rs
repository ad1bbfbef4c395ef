//! The task of one coalesced fetch: fetch -> judge -> { store and stream | stream only | confirm |
//! complete }.
//!
//! Invariants: a response is published to the store before its fetch leaves the table and, if it
//! stays in memory, before any reader sees its end. A fetch leaves the table earlier only if
//! nothing of it will be published. A body that did not end as its framing declared is neither
//! stored nor ended. An origin error never replaces an object that may be used stale. The task is
//! independent of its clients: it continues if they disconnect.

mod fill;
mod held;
#[cfg(test)]
#[cfg(feature = "model")]
mod model;
mod spilling;

use crate::control::counters::{Cells, Metric};
use crate::fetch::body_reservation::BodyReservation;
use crate::fetch::breaker;
use crate::fetch::coalesced_fetch::{
    CoalescedFetch, ConfirmedObject, FetchState, PrivateResponse, StreamedResponse,
};
use crate::fetch::selection::Selection;
use crate::fetch::stored::{joined_body, renewed_object, shareable, stored_object};
use crate::fetch::table_entry::TableEntry;
use crate::memory::detection::InspectedRequest;
use crate::request::event_stream::is_event_stream;
use crate::request::respond;
use crate::request::trace::{begin_of, failure_name, times_of};
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::detection;
use address::OriginUrl;
use clock::Monotonic;
use defects::{Defect, is_planted};
use h1::BodyFraming;
use message::{Fields, RequestHead, ResponseHead, Status};
use origin::{FetchError, FetchRequest, FetchTiming, NoUpload, OriginEvent, OriginExchange};
use profiles::{ClientAddress, Forwarding};
use request_log::otlp::{FetchSpan, push_fetch};
use request_log::{FetchPhases, SpanContext};
use semantics::{
    ContentRange, Directives, Freshness, Judgement, Moment, Reason, Reuse, Storable, VaryRule, combined_head,
    explain_refusal, is_maintenance, is_personal, is_refusal, is_server_error, joined_extent, judge_response,
    not_modified_speaks_of, reuse, reuse_on_error, selecting_rule, updated_head,
};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use store::{Body, Key, Lookup, Object};

/// Reasons why a response may not be shared at all, regardless of its freshness.
const FORBIDDING: [Reason; 6] = [
    Reason::StoreRefusedPrivate,
    Reason::StoreRefusedNoStore,
    Reason::StoreRefusedSetCookie,
    Reason::StoreRefusedUnmarked,
    Reason::StoreRefusedVaryStar,
    Reason::StoreRefusedVaryAddress,
];

/// Everything that the task of a fetch needs.
pub(crate) struct FetchTask {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) site: Arc<Site>,
    pub(crate) key: Key,
    /// The request as it is forwarded, without the conditions and ranges added for the fetch.
    pub(crate) head: RequestHead,
    pub(crate) request: FetchRequest,
    pub(crate) fetch: Arc<CoalescedFetch>,
    /// The fetch's place in the table. A body on its way to the disk holds it too.
    pub(crate) entry: Arc<TableEntry>,
    /// The stored object of the page, if there is one.
    pub(crate) base: Option<Arc<Object>>,
    /// Whether the origin is sent the placeholder address, which belongs to no client.
    pub(crate) impersonal: bool,
    /// The span of a trace that was begun for the fetch.
    pub(crate) trace: Option<SpanContext>,
}

/// The origin's response before it is judged.
struct OriginResponse<S> {
    head: ResponseHead,
    framing: BodyFraming,
    exchange: Box<S>,
    sent_at: Moment,
    received_at: Moment,
}

/// How a fetch ended: the status or the failure, its times, and the origin that responded.
type FetchEnd<'a> = (Result<u16, &'static str>, Option<FetchPhases>, Option<&'a OriginUrl>);

/// The source of a response's content: an exchange, or a script in the models.
trait ResponseSource: Send {
    /// The next event. Cancel-safe: dropping the future before it is ready loses nothing.
    fn next_event(&mut self) -> impl Future<Output = Result<OriginEvent, FetchError>> + Send;

    /// Lets another fetch begin, because this one waits for a slow reader.
    fn waits_for_reader(&mut self) {}
}

impl ResponseSource for OriginExchange {
    async fn next_event(&mut self) -> Result<OriginEvent, FetchError> {
        self.next(&mut NoUpload).await
    }

    fn waits_for_reader(&mut self) {
        // If too many exchanges have given up their turns, this one keeps its own, so the result
        // does not matter.
        let _ = self.stall();
    }
}

/// Starts a fetch as a separate task. Its first poll happens here, so that the request leaves at
/// once. The scheduled task might run only after many requests for the same page.
pub(crate) fn start(task: FetchTask) {
    let mut fetch = Box::pin(run(task));
    // The task polls it again with the waker that counts.
    if fetch.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(fetch);
    }
}

/// Runs the fetch until its outcome is announced.
pub(crate) async fn run(task: FetchTask) {
    task.cells().count(Metric::FlightsStarted);
    let begun = Moment::read(&*task.shared.clock);
    let fetched = tokio::select! {
        // Polled first, so that a fetch which receives its permit from another one that was given
        // up does not reach the origin.
        biased;
        () = task.abandoned() => Err(FetchError::BreakerOpen),
        fetched = task.send() => fetched,
    };
    match fetched {
        Ok(answer) => task.receive(answer).await,
        Err(error) => {
            let now = task.shared.clock.monotonic();
            task.export_span(begun, begun.monotonic, now, (Err(failure_name(&error)), None, None));
            task.give_up(error);
        }
    }
}

/// The times of a fetch whose response's head was received at `received`.
pub(crate) fn phases_of(number: u64, timing: FetchTiming, received: Monotonic) -> FetchPhases {
    let FetchTiming { queue, connect, connected } = timing;
    FetchPhases { number, queue, connect, first_byte: received.since(connected), received, trace: None }
}

/// Counts why a fetch gave no response or an incomplete one.
pub(crate) fn count_failure(cells: &Cells, error: &FetchError) {
    match error {
        FetchError::BreakerOpen => cells.count(Metric::BreakerRefusals),
        FetchError::Busy(_) => cells.count(Metric::OriginBusy),
        FetchError::Refused | FetchError::Unreachable(_) | FetchError::Tls(_) => {
            cells.count(Metric::OriginRefusals);
        }
        FetchError::ConnectTimeout | FetchError::FirstByteTimeout | FetchError::BetweenBytesTimeout => {
            cells.count(Metric::OriginTimeouts);
        }
        FetchError::Closed
        | FetchError::BadHead(_)
        | FetchError::BadBody(_)
        | FetchError::TooManyInformational
        | FetchError::UnaskedSwitch
        | FetchError::UnaskedNotModified => cells.count(Metric::OriginFaults),
        // Counted where the client's connection is handled.
        FetchError::Upload(_) => {}
    }
}

/// However a fetch ends, even by a panic or before it began, it wakes its waiting requests. Then
/// its entry leaves the table.
impl Drop for FetchTask {
    fn drop(&mut self) {
        // Has no effect after an earlier announcement.
        self.fetch.announce(FetchState::Failed(FetchError::Closed));
    }
}

impl FetchTask {
    fn cells(&self) -> &Cells {
        self.shared.cells(self.worker)
    }

    /// The request as the origin receives it.
    fn sent(&self) -> InspectedRequest<'_> {
        InspectedRequest::new(&self.head, self.key.target(), self.key.host())
    }

    /// Announces that the fetch gave no response.
    fn give_up(&self, error: FetchError) {
        count_failure(self.cells(), &error);
        match error {
            // The failure is not the page's if the breaker is open.
            FetchError::BreakerOpen => {}
            // The failure is not the origin's if the client has too many fetches under way, so the
            // next request is sent.
            FetchError::Busy(_) => self.note_failure(Reason::StoreRefusedStatus),
            _ => self.note_failure(self.failing()),
        }
        self.fetch.announce(FetchState::Failed(error));
    }

    /// Leaves the table early. Nothing of the fetch may be published afterwards.
    fn leave_table(&self) {
        self.shared.fetches.remove(&self.key, &self.fetch);
    }

    /// Ready when the origin's breaker is open and no client waits for the fetch, so that it can
    /// return its permit. Never ready for a probe.
    async fn abandoned(&self) {
        if self.request.probe.is_some() {
            return std::future::pending().await;
        }
        loop {
            self.site.origin.opened().await;
            self.fetch.unawaited().await;
            if !self.site.origin.is_open() {
                continue;
            }
            // If a client has joined at this moment, the fetch continues for it. A client that
            // comes later leads a new fetch.
            self.shared.fetches.close(&self.fetch);
            if !self.fetch.is_awaited() {
                return;
            }
        }
    }

    /// *fetch*: sends the request and waits for the head of the response.
    async fn send(&self) -> Result<OriginResponse<OriginExchange>, FetchError> {
        let (urgency, page) = (self.fetch.urgency(), Some(breaker::digest(&self.key)));
        let request = FetchRequest { urgency, page, ..self.request.clone() };
        let mut exchange = Box::new(self.site.origin.fetch(request).await?);
        self.cells().count(Metric::OriginFetches);
        // The request leaves only now; waiting for a turn must not make the response older.
        let sent_at = Moment::read(&*self.shared.clock);
        loop {
            match exchange.next_event().await? {
                // The request has no content, so 100 (Continue) means nothing to it.
                OriginEvent::Informational(head) if head.status.code() == 100 => {}
                OriginEvent::Informational(head) => self.fetch.inform(head),
                OriginEvent::Head { head, .. } if head.status.code() == 101 => {
                    return Err(FetchError::UnaskedSwitch);
                }
                OriginEvent::Head { mut head, framing } => {
                    let received_at = Moment::read(&*self.shared.clock);
                    let number = self.shared.next_fetch();
                    let phases = phases_of(number, exchange.timing(), received_at.monotonic);
                    self.shared.origin_work.count(self.worker, phases.connect + phases.first_byte);
                    let phases = FetchPhases { trace: self.trace, ..phases };
                    self.fetch.note_phases(phases);
                    let outcome = (Ok(head.status.code()), Some(phases), Some(exchange.origin_url()));
                    self.export_span(received_at, begin_of(&phases), phases.received, outcome);
                    if is_event_stream(&head) {
                        // An event stream may last for hours and costs the origin little, so it
                        // returns its turn.
                        exchange.release_turn();
                    }
                    respond::tidy(&mut head, received_at.wall);
                    detection::inspect_head(&self.shared, &self.site, self.sent(), &head);
                    return Ok(OriginResponse { head, framing, exchange, sent_at, received_at });
                }
                // An exchange never yields content before a head.
                OriginEvent::Data(_) | OriginEvent::End(_) => return Err(FetchError::Closed),
            }
        }
    }

    /// Exports the span of the fetch, if it has a sampled trace of its own. `known` relates the
    /// times to the wall clock.
    fn export_span(&self, known: Moment, begun: Monotonic, ended: Monotonic, end: FetchEnd<'_>) {
        let Some(context) = self.trace.filter(SpanContext::is_sampled) else { return };
        let Some(export) = &self.shared.traces else { return };
        let (outcome, phases, origin) = end;
        let span = FetchSpan {
            context,
            parent: None,
            times: times_of(known, begun, ended),
            method: &self.head.method,
            origin,
            target: self.key.target(),
            outcome,
            phases,
        };
        let mut out = Vec::new();
        push_fetch(&mut out, &span);
        export.push(&out, 1);
    }

    /// *judge*: decides whether the response may be shared, and for how long.
    fn judge(
        &self,
        head: &ResponseHead,
        sent_at: Moment,
        received_at: Moment,
    ) -> Result<(Storable, VaryRule), Reason> {
        let policy = self.site.policy();
        let selecting = selecting_rule(&self.head.fields, policy);
        let rule = VaryRule::from_response(&head.fields, policy).map(|rule| rule.union(&selecting));
        if self.site.tags_of(&self.key, &head.fields).is_err() {
            return Err(Reason::StoreRefusedTags);
        }
        match judge_response(&self.head, head, sent_at, received_at, policy) {
            Judgement::Store(storable) => rule.map(|rule| (storable, self.fetch.known().union(&rule))),
            Judgement::DoNotStore(reason) => Err(reason),
        }
    }

    async fn receive(&self, answer: OriginResponse<OriginExchange>) {
        let status = answer.head.status;
        self.note_lateness(answer.received_at.monotonic.since(answer.sent_at.monotonic));
        if self.impersonal && is_refusal(status) {
            return self.deny(status);
        }
        if is_maintenance(&answer.head, self.site.policy()) {
            return self.close(answer);
        }
        if is_server_error(status) {
            self.note_failure(self.failing());
        } else if !is_refusal(status) && self.fetch.range().is_none() {
            self.shared.recently_failed.forget(&self.key);
        }
        if let Some(base) = &self.base {
            match status {
                Status::NOT_MODIFIED => return self.confirm(answer, base).await,
                Status::PARTIAL_CONTENT if self.fetch.range().is_none() && base.part().is_some() => {
                    return self.complete(answer, base).await;
                }
                Status::RANGE_NOT_SATISFIABLE if self.fetch.range().is_none() => return self.give_up_base(),
                _ if is_server_error(status) && self.has_reserve(base, answer.received_at) => {
                    return self.hand_to_leader(answer, Reason::StoreRefusedStatus);
                }
                _ => {}
            }
        }
        if status == Status::PARTIAL_CONTENT && self.fetch.range().is_none() {
            return self.hand_to_leader(answer, Reason::StoreRefusedPartial);
        }
        match self.judge(&answer.head, answer.sent_at, answer.received_at) {
            Ok((storable, rule)) => {
                let OriginResponse { head, framing, exchange, sent_at, received_at } = answer;
                let exchange = match self.held(exchange, received_at).await {
                    Ok(held) => Box::new(held),
                    Err(error) => return self.give_up(error),
                };
                self.remember_use(&storable.freshness, &head.fields);
                let answer = OriginResponse { head, framing, exchange, sent_at, received_at };
                self.store_and_stream(answer, storable, rule).await;
            }
            Err(reason) => {
                // A server error is only the origin's current state, and a part says nothing about
                // the whole.
                if !is_server_error(status) && self.fetch.range().is_none() && self.speaks_for_clients() {
                    self.remember(reason, &answer);
                    self.outdate(status, reason);
                }
                self.hand_to_leader(answer, reason);
            }
        }
    }

    /// Handles a response that the site is closed for maintenance: it goes to all waiting requests.
    /// The stored object stays for the case that the origin becomes unreachable, but does not
    /// replace this response.
    fn close(&self, answer: OriginResponse<OriginExchange>) {
        let reason = Reason::StoreRefusedMaintenance;
        self.note_failure(reason);
        if self.speaks_for_clients() {
            self.remember(reason, &answer);
        }
        self.hand_to_leader(answer, reason);
    }

    /// Records why the origin gets no further fetch of the page for a moment. A stale response
    /// replaces the next one only if the reason is [`Reason::OriginFailing`].
    fn note_failure(&self, reason: Reason) {
        self.shared.recently_failed.remember(&self.key, reason, None, self.shared.clock.monotonic());
    }

    /// Records whether the response came later than a request with a stale response may wait. A
    /// part says nothing about the page, nor does a response to one client's fields.
    fn note_lateness(&self, wait: Duration) {
        if self.failing() != Reason::OriginFailing {
            return;
        }
        if wait >= self.shared.limits.stale_wait {
            let (reason, now) = (Reason::StaleOriginSlow, self.shared.clock.monotonic());
            self.shared.late_pages.remember(&self.key, reason, None, now);
        } else {
            self.shared.late_pages.forget(&self.key);
        }
    }

    /// The reason recorded after an error. A part says nothing about the page. If the fetch carries
    /// fields of its client, they may be the cause, so other clients get no stale response instead.
    fn failing(&self) -> Reason {
        let policy = self.site.policy();
        let is_of_client = policy.forwarding == Forwarding::Everything
            || is_personal(&self.head.fields, policy)
            || self.fetch.range().is_some();
        if is_of_client { Reason::StoreRefusedStatus } else { Reason::OriginFailing }
    }

    /// Records why the response is not for everyone.
    fn remember(&self, reason: Reason, answer: &OriginResponse<OriginExchange>) {
        let culprit = explain_refusal(reason, &answer.head.fields, self.site.policy());
        self.shared.hit_for_miss.remember(&self.key, reason, culprit, answer.received_at.monotonic);
    }

    /// Records whether requests for the page should wait for one another. They should not if each
    /// must be validated anyway.
    fn remember_use(&self, freshness: &Freshness, fields: &Fields) {
        let (reason, now) = (freshness.validation_reason(), freshness.received);
        if self.needs_validation(freshness, now) {
            let culprit = explain_refusal(reason, fields, self.site.policy());
            self.shared.hit_for_miss.remember(&self.key, reason, culprit, now.monotonic);
        } else {
            self.shared.hit_for_miss.forget(&self.key);
        }
    }

    /// Handles a refusal of the placeholder address. It says nothing about any client, so each one
    /// sends its own request. The page may have become restricted, so the stored object is removed,
    /// unless the refusal is a rate limit (429).
    fn deny(&self, status: Status) {
        self.cells().count(Metric::FetchesDenied);
        let (policy, is_rate_limit) = (self.site.policy(), status.code() == 429);
        if self.speaks_for_clients() && !is_personal(&self.head.fields, policy) {
            let now = self.shared.clock.monotonic();
            self.shared.hit_for_miss.remember(&self.key, Reason::StoreRefusedDenied, None, now);
            if !is_rate_limit {
                self.forget_base();
            }
        }
        if is_rate_limit {
            self.note_failure(Reason::StoreRefusedDenied);
        }
        self.end_sharing(FetchState::Denied);
    }

    /// Whether the response says something about what clients receive. It does not if responses
    /// depend on the client's address and the fetch carried the placeholder.
    fn speaks_for_clients(&self) -> bool {
        !self.impersonal || self.site.policy().client_address != ClientAddress::Leader
    }

    /// Removes the stored page if it no longer exists or is no longer for everyone. The response to
    /// one client's own fetch says nothing about others, nor does a 4xx about the request.
    fn outdate(&self, status: Status, reason: Reason) {
        let ends = match status.code() {
            404 | 410 => true,
            code => code < 400 && FORBIDDING.contains(&reason),
        };
        if ends && !is_personal(&self.head.fields, self.site.policy()) {
            self.forget_base();
        }
    }

    /// Removes the object that the fetch started with, and the page's static file.
    fn forget_base(&self) {
        if self.base.is_some() {
            self.forget_stored();
        }
        self.shared.static_tree.withdraw(&self.site, &self.key);
    }

    /// Removes the stored objects of the page. After an invalidation `publish` does nothing:
    /// whatever is stored then is newer and stays.
    fn forget_stored(&self) {
        self.fetch.publish(|| {
            self.shared.store.remove(&self.key);
            self.shared.static_tree.withdraw(&self.site, &self.key);
        });
    }

    /// Whether a stored response would have to be validated for every further request.
    fn needs_validation(&self, freshness: &Freshness, now: Moment) -> bool {
        let reused = reuse(freshness, &Directives::default(), self.site.policy(), now);
        matches!(reused, Reuse::Revalidate(_))
    }

    /// Whether `base` may answer requests, stale or not, while the origin fails.
    fn has_reserve(&self, base: &Object, now: Moment) -> bool {
        let freshness = base.freshness();
        !self.needs_validation(&freshness, now)
            || reuse_on_error(&freshness, &Directives::default(), self.site.policy(), now).is_some()
    }

    /// *stream only*: the response goes to the leader only.
    fn hand_to_leader(&self, answer: OriginResponse<OriginExchange>, reason: Reason) {
        let OriginResponse { head, framing, exchange, .. } = answer;
        let selection = Selection::of(self.fetch.known(), &self.head.fields, &head, self.site.policy());
        let response = StreamedResponse { head, framing, exchange };
        self.end_sharing(FetchState::Private(Arc::new(PrivateResponse::new(reason, selection, response))));
    }

    /// Ends the sharing: later requests for the page start their own fetch, and only the requests
    /// that already wait learn of this.
    fn end_sharing(&self, state: FetchState) {
        self.leave_table();
        self.fetch.announce(state);
    }

    /// *confirm*: handles a 304 response, which says that `base` is still current.
    async fn confirm<S: ResponseSource>(&self, answer: OriginResponse<S>, base: &Arc<Object>) {
        let OriginResponse { head, exchange, sent_at, received_at, .. } = answer;
        drain(*exchange).await;
        if base.part().is_none() && not_modified_speaks_of(&base.head(), &head) {
            let updated = updated_head(&base.head(), &head);
            if let Ok(judged) = self.judge(&updated, sent_at, received_at) {
                return self.announce_stored(head.status, updated, (base, None), judged);
            }
        }
        // The stored object may no longer be used, or the 304 was about another response.
        self.give_up_base();
    }

    /// *complete*: joins `base` with the missing part of its content.
    async fn complete<S: ResponseSource>(&self, answer: OriginResponse<S>, base: &Arc<Object>) {
        let OriginResponse { head, exchange, sent_at, received_at, .. } = answer;
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
            if let Ok(judged) = self.judge(&combined, sent_at, received_at) {
                let body = joined_body((&base.body(), stored), (&content, missing));
                return self.announce_stored(head.status, combined, (base, Some(body)), judged);
            }
        }
        // A part that cannot be completed would only be tried again, so it is removed.
        self.give_up_base();
    }

    /// Neither the response nor the stored object can be used.
    fn give_up_base(&self) {
        self.forget_stored();
        self.fetch.announce(FetchState::Void);
    }

    /// Publishes a complete response that was renewed by a response with `status`, and hands it to
    /// all waiting requests. Its content is `body`, or that of `base` if there is none.
    fn announce_stored(
        &self,
        status: Status,
        head: ResponseHead,
        (base, body): (&Arc<Object>, Option<Body>),
        (storable, rule): (Storable, VaryRule),
    ) {
        let (head, _) = shareable(head, &storable.withheld, self.site.policy());
        let variant = rule.stored_key(&self.head.fields, &head.fields);
        let (freshness, site) = (storable.freshness, &self.site);
        let object = Arc::new(match body {
            Some(body) => stored_object(&head, self.key.target(), body, freshness, site),
            None => renewed_object(&head, self.key.target(), base, freshness, site),
        });
        let tags = match &self.base {
            Some(base) if is_planted(Defect::TagsOfFirstResponse) => self.tags(&base.head().fields),
            _ => self.tags(&head.fields),
        };
        self.remember_use(&storable.freshness, &head.fields);
        if !self.is_base_replaced() {
            self.publish_object(rule.clone(), variant.clone(), Arc::clone(&object), &tags);
        }
        let begun = self.fetch.begun();
        let confirmed = ConfirmedObject { status, object, rule, variant, tags, begun };
        self.fetch.announce(FetchState::Confirmed(Arc::new(confirmed)));
    }

    /// Whether another fetch has replaced the object that this one began with, or removed it
    /// because it may not be used. A late renewal must not bring it back. A partial object never
    /// blocks a renewal.
    fn is_base_replaced(&self) -> bool {
        match (self.stored(), &self.base) {
            (Some((stored, _)), Some(base)) => !Arc::ptr_eq(&stored, base) && stored.part().is_none(),
            (None, Some(base)) => base.part().is_none(),
            (_, None) => false,
        }
    }

    /// The stored object for the request, and whether it was softly purged.
    fn stored(&self) -> Option<(Arc<Object>, bool)> {
        match self.shared.store.peek(&self.key, &self.head.fields) {
            Lookup::Found { object, softened } => Some((object, softened)),
            // An object that has left memory since then is not the one that the response is about.
            Lookup::Shelved(_) | Lookup::NoVariant | Lookup::Absent => None,
        }
    }

    /// The whole content of a response, which must have `bytes` bytes. `None` if it has not, or if
    /// memory is short.
    async fn gather(&self, mut exchange: impl ResponseSource, bytes: u64) -> Option<Body> {
        let mut reservation = BodyReservation::new(&self.shared);
        let mut pieces = Vec::new();
        if bytes > self.shared.limits.object_bytes_max || !reservation.take(bytes) {
            return None;
        }
        loop {
            match exchange.next_event().await {
                Ok(OriginEvent::Data(octets)) => pieces.push(octets),
                Ok(OriginEvent::End(_)) => break,
                Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => {}
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

/// Reads a response without content to its end, so that its connection can be reused.
async fn drain(mut exchange: impl ResponseSource) {
    while matches!(exchange.next_event().await, Ok(OriginEvent::Data(_) | OriginEvent::Informational(_))) {}
}
