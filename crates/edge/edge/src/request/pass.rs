//! *pass*: sends a client's own request to the origin, and learns from the response about stored
//! pages.
//!
//! Invariant: the response goes to this client alone, because it depends on more than the cache
//! key. It is stored for nobody else, except for its own session as `private` permits, and for the
//! context of its visitor as `context` permits. The effects of a successful write, including those
//! that the profile declares, are applied to the store before its client receives the response.

use crate::control::counters::Metric;
use crate::control::purge_orders;
use crate::fetch::base::Base;
use crate::fetch::coalesced_fetch::{FetchDemand, StreamedResponse};
use crate::fetch::publish;
use crate::fetch::selection::Selection;
use crate::fetch::stored::{renewed_object, shareable};
use crate::fetch::table_entry::TableEntry;
use crate::fetch::task;
use crate::memory::detection::InspectedRequest;
use crate::request::client_address::client_of;
use crate::request::delivery::{ContentSource, Delivery};
use crate::request::event_stream::is_event_stream;
use crate::request::forward;
use crate::request::guard::RequestSubject;
use crate::request::lookup::PageRequest;
use crate::request::refusal::Refusal;
use crate::request::respond::{self, ResponseAccount};
use crate::request::step::{ContextPass, PassRequest, Step};
use crate::request::suspected_write::SuspectedWrite;
use crate::request::visit::Visit;
use crate::request::writes;
use crate::upkeep::detection;
use h1::{BodyFraming, Request, WriteError};
use message::{Method, RequestHead, ResponseHead, Status, names};
use origin::{FetchError, FetchRequest, OriginEvent, UploadError};
use profiles::Forwarding;
use semantics::{
    CacheStatusFacts, Doubt, FormReader, HeadComparison, Judgement, Moment, Reason, VaryRule, WithoutGzip,
    WriteEffect, explain_refusal, head_confirms, head_says, invalidated_targets, is_for_any_cookie,
    is_maintenance, is_refusal, is_robot, is_server_error, judge_response, may_need_content, may_write,
    selecting_rule, updated_head, without_gzip,
};
use std::sync::Arc;
use store::{Key, Lookup, Publication};

/// A HEAD request under way whose response may say something about a stored page. It is registered
/// in the table of coalesced fetches, so that an invalidation reaches it.
struct RegisteredHead {
    entry: Arc<TableEntry>,
    head: RequestHead,
}

impl<'a> Visit<'a> {
    /// *pass*: sends this client's own request. If a stored response could replace the answer, as
    /// for a HEAD request, the origin gets no more time than in *wait*.
    pub(crate) async fn pass(&mut self, passing: PassRequest<'a>) -> Step<'a> {
        if let Some(refusal) = self.refused_origin_work() {
            return Step::Refuse(refusal);
        }
        let limits = &self.shared.limits;
        let late = |is_over| passing.page_request.as_ref().and_then(|page| self.when_late(page, is_over));
        // An invalidated response is delivered only after the whole time, as to a request that
        // waits for a fetch.
        let (instead, patience) = match late(false) {
            Some(instead) => (Some(instead), limits.stale_wait.min(limits.flight_wait)),
            None => (late(true), limits.flight_wait),
        };
        let Some(instead) = instead else { return self.ask(passing).await };
        tokio::time::timeout(patience, self.ask(passing)).await.unwrap_or(Step::Deliver(instead))
    }

    /// Sends the request to the origin and waits for the head of the response. The content of the
    /// request has been read in advance, or is uploaded meanwhile.
    async fn ask(&mut self, passing: PassRequest<'a>) -> Step<'a> {
        let registered = self.register(&passing);
        self.begin_writing(&passing);
        self.read_form_of_write(&passing.subject);
        let framing = match self.read_ahead().await {
            Ok(framing) => framing,
            Err(error) => return self.fail_passing(&passing, &error.into()),
        };
        let traceparent = self.begin_own_fetch();
        let Ok(request) = self.own_request(&passing, registered.as_ref(), framing, traceparent) else {
            return Step::Refuse(Refusal::unwritable());
        };
        let has_session = matches!(passing.reason, Reason::PassCookie | Reason::PassAuthorization);
        if has_session && !is_robot(&self.request.head.fields) {
            request.urgency.rise_for_session();
        }
        let exchanged = self.exchange(&passing.subject, request).await;
        self.end_session(&passing.subject, exchanged.as_ref().ok().map(|(_, response)| &response.head));
        match exchanged {
            Ok((sent_at, response)) => {
                self.take_passed(&passing, sent_at, response, registered.as_ref()).await
            }
            Err(error) => self.fail_passing(&passing, &error),
        }
    }

    /// Keeps the form in the content of a request that may be a write, which may name the pages
    /// that it changes.
    pub(crate) fn read_form_of_write(&mut self, subject: &RequestSubject<'_>) {
        if may_write(&self.request.head, subject.site.policy()) {
            let content_type = self.request.head.fields.first(names::CONTENT_TYPE).map(|value| &value[..]);
            self.client.read_form(FormReader::of_type(content_type));
        }
    }

    /// Sends a request for this client alone, and waits for the head of the response. Returns the
    /// time at which the request left, too.
    pub(crate) async fn exchange(
        &mut self,
        subject: &RequestSubject<'_>,
        request: FetchRequest,
    ) -> Result<(Moment, StreamedResponse), FetchError> {
        self.begin_own_fetch();
        let exchanged = self.exchange_untraced(subject, request).await;
        // The head of a response has ended it.
        if let Err(error) = &exchanged {
            self.end_own_fetch(Err(error), None);
        }
        exchanged
    }

    async fn exchange_untraced(
        &mut self,
        subject: &RequestSubject<'_>,
        request: FetchRequest,
    ) -> Result<(Moment, StreamedResponse), FetchError> {
        let client = client_of(self.shared, subject, &self.request.head.fields);
        request.urgency.is_wanted_by(client);
        // The urgency is set here, because requests of the leak guard and of HEAD are built from
        // the look-up, which does not identify the client.
        if !is_robot(&self.request.head.fields) {
            request.urgency.rise();
        }
        let mut exchange = Box::new(subject.site.origin.fetch(request).await?);
        self.cells().count(Metric::OriginFetches);
        let sent_at = self.now();
        loop {
            match exchange.next(self.client).await? {
                OriginEvent::Informational(head) if head.status.code() != 100 => self.inform(head).await,
                OriginEvent::Head { head, .. }
                    if head.status.code() == 101
                        && forward::tunnelled_protocols(self.request).next().is_none() =>
                {
                    return Err(FetchError::UnaskedSwitch);
                }
                OriginEvent::Head { head, framing } => {
                    self.note_own_fetch(&exchange, head.status);
                    return Ok((sent_at, StreamedResponse { head, framing, exchange }));
                }
                OriginEvent::Informational(_) | OriginEvent::Data(_) | OriginEvent::End(_) => {}
            }
        }
    }

    /// Reads the content of the request before it takes a turn at the origin. Content that must be
    /// streamed, or whose length exceeds the limit, is not read. Returns its framing for the
    /// origin.
    async fn read_ahead(&mut self) -> Result<BodyFraming, UploadError> {
        let framing = self.request.framing;
        if matches!(framing, BodyFraming::Empty | BodyFraming::Length(0)) {
            return Ok(framing);
        }
        let (buffer, bytes_max) = self.shared.buffers.for_request();
        let is_small = !matches!(framing, BodyFraming::Length(bytes) if bytes > bytes_max);
        let whole = if is_small && bytes_max > 0 && !must_stream(self.request) {
            self.client.read_ahead((buffer, bytes_max)).await?
        } else {
            None
        };
        if whole.is_none() {
            self.cells().count(Metric::RequestsStreamed);
        }
        Ok(whole.unwrap_or(framing))
    }

    /// Registers a HEAD request like a fetch whose response may be shared, because the response may
    /// change the stored page. A request for an equivalent target is not registered: the response
    /// may no longer state the rule that makes them equivalent.
    fn register(&self, passing: &PassRequest<'_>) -> Option<RegisteredHead> {
        let page_request =
            passing.page_request.as_ref().filter(|_| self.request.head.method == Method::Head)?;
        if page_request.own_target.is_another() {
            return None;
        }
        if self.is_denied(&page_request.key) {
            return None;
        }
        let (shared, key, fields) = (self.shared, &page_request.key, &self.head().fields);
        let selecting = selecting_rule(fields, page_request.subject.site.policy());
        let known = shared.store.known_rule(key).union(&selecting);
        let head =
            forward::shared_head(&page_request.subject, &shared.loop_mark, key, Method::Head, fields, &known);
        let demand = FetchDemand { fields, range: None, exclusive: true, is_robot: true, client: None };
        let fetch = shared.fetches.register(key, demand, known, || shared.store.sequence());
        Some(RegisteredHead { entry: TableEntry::of(shared, key, &fetch), head })
    }

    /// Whether the origin refused the shared fetch of the page a short while ago.
    fn is_denied(&self, key: &Key) -> bool {
        self.shared.hit_for_miss.reason(key, self.now().monotonic) == Some(Reason::StoreRefusedDenied)
    }

    /// If the origin refused a request that carried the placeholder address, the next step is the
    /// client's own request.
    fn after_denial(
        &self,
        passing: &PassRequest<'a>,
        status: Status,
        registered: Option<&RegisteredHead>,
    ) -> Option<Step<'a>> {
        let RegisteredHead { entry, .. } = registered?;
        if !is_refusal(status) || !forward::is_impersonal(&passing.subject) {
            return None;
        }
        self.cells().count(Metric::FetchesDenied);
        let now = self.now().monotonic;
        self.shared.hit_for_miss.remember(&entry.key, Reason::StoreRefusedDenied, None, now);
        Some(Step::Pass(PassRequest::alone(passing.subject.clone(), passing.reason)))
    }

    fn own_request(
        &self,
        passing: &PassRequest<'_>,
        registered: Option<&RegisteredHead>,
        framing: BodyFraming,
        traceparent: Option<String>,
    ) -> Result<FetchRequest, WriteError> {
        if let Some(registered) = registered {
            return forward::without_content(&registered.head);
        }
        let PassRequest { subject, .. } = passing;
        let passed = |request| forward::passed(subject, &self.shared.loop_mark, request, framing);
        let is_read = may_need_content(&self.request.head, &subject.target, subject.site.policy());
        let context = match &passing.context {
            Some(ContextPass::Fetch(fetch)) => Some(fetch),
            Some(ContextPass::Without(_)) | None => None,
        };
        if !is_read && traceparent.is_none() && context.is_none() {
            return passed(self.request);
        }
        let mut request = self.request.clone();
        if is_read {
            // The response's content is read while it is streamed, so it must not be coded.
            request.head.fields.set(names::ACCEPT_ENCODING, "identity");
        }
        if let Some(traceparent) = traceparent {
            forward::continue_trace(&mut request.head.fields, traceparent);
        }
        if let Some(context) = context {
            context.name_context(&mut request.head.fields);
        }
        passed(&request)
    }

    fn fail_passing(&self, passing: &PassRequest<'a>, error: &FetchError) -> Step<'a> {
        task::count_failure(self.cells(), error);
        if matches!(error, FetchError::Upload(UploadError::TooSlow)) {
            self.cells().count(Metric::VisitorsTooSlow);
        }
        match &passing.page_request {
            Some(page_request) => self.fail(page_request, error),
            None => Step::Refuse(passing.subject.site.refusal(|origin| Refusal::failed_fetch(error, origin))),
        }
    }

    async fn take_passed(
        &self,
        passing: &PassRequest<'a>,
        sent_at: Moment,
        response: StreamedResponse,
        registered: Option<&RegisteredHead>,
    ) -> Step<'a> {
        let StreamedResponse { mut head, framing, mut exchange } = response;
        let is_page = is_maintenance(&head, passing.subject.site.policy());
        if let Some(page_request) = passing.page_request.as_ref().filter(|_| !is_page)
            && let Some(stale) = self.instead_of_error(page_request, head.status)
        {
            return Step::Deliver(stale);
        }
        if let Some(step) = self.after_denial(passing, head.status, registered) {
            return step;
        }
        let is_selected = |registered: &RegisteredHead| {
            let policy = passing.subject.site.policy();
            Selection::of(registered.entry.fetch.known(), &registered.head.fields, &head, policy)
                .includes(&self.head().fields)
        };
        let cannot_be_used = registered.is_some()
            && self.refuses_gzip()
            && without_gzip(&head.fields) == WithoutGzip::Unusable;
        if cannot_be_used || !registered.is_none_or(is_selected) {
            return Step::Pass(PassRequest::alone(passing.subject.clone(), passing.reason));
        }
        let subject = &passing.subject;
        let sent = InspectedRequest::new(&self.request.head, &subject.target, &subject.host);
        detection::inspect_head(self.shared, subject.site, sent, &head);
        let suspected = self.invalidate(subject, &head, framing).await;
        let facts = CacheStatusFacts { forward_status: Some(head.status), ..CacheStatusFacts::default() };
        if head.status.code() == 101 {
            let account = ResponseAccount { reason: passing.reason, facts, age_secs: None };
            return Step::Deliver(Delivery { content: ContentSource::Switch(head, exchange), account });
        }
        if is_event_stream(&head) {
            exchange.release_turn();
        }
        respond::tidy(&mut head, self.shared.clock.now());
        self.learn_file(passing, &head);
        let judged = match (&passing.page_request, registered) {
            (Some(page_request), Some(registered)) => {
                self.learn_from_head(page_request, registered, sent_at, &head)
            }
            (Some(page_request), None) => self.learn(page_request, sent_at, &head),
            (None, _) => {
                self.learn_mark(passing, sent_at, &head);
                None
            }
        };
        let (kept, refused) = match self.watch_context(passing, sent_at, &head) {
            Ok(watcher) => (watcher.or_else(|| self.watch_private(passing, sent_at, &head)), None),
            Err(reason) => (None, Some(reason)),
        };
        let reason = judged.or(refused).unwrap_or_else(|| passing.shown_reason());
        let account = ResponseAccount { reason, facts, age_secs: None };
        if let Some(plan) = &passing.subject.site.plan.context {
            // It is between the origin and the edge.
            head.fields.remove(&plan.names.field);
        }
        let response = StreamedResponse { head, framing, exchange };
        // The conditions of a HEAD request were not forwarded, so they are evaluated here.
        let content = match (registered, suspected, kept) {
            (Some(_), ..) => ContentSource::Claimed(response),
            (None, Some(suspected), _) => ContentSource::SuspectedWrite(response, suspected),
            (None, None, Some(watcher)) => ContentSource::Watched(response, watcher),
            (None, None, None) => ContentSource::Own(response),
        };
        Step::Deliver(Delivery { content, account })
    }

    /// Invalidates the pages that a write has changed (RFC 9111 section 4.4, RFC 9875 section 3),
    /// as far as the head of its response shows. Returns a [`SuspectedWrite`] if the content of the
    /// response must be read to learn the rest.
    pub(crate) async fn invalidate(
        &self,
        subject: &RequestSubject<'_>,
        answer: &ResponseHead,
        framing: BodyFraming,
    ) -> Option<SuspectedWrite> {
        let method = &self.request.head.method;
        let RequestSubject { site, host, target, .. } = subject;
        let targets = invalidated_targets(method, subject.https, host, target, answer);
        let pages = targets.iter().map(|target| subject.key_of(target)).collect();
        let pages = writes::within_rate(self.shared, self.cells(), site, pages);
        let key = subject.key();
        let suspected = SuspectedWrite {
            site: Arc::clone(site),
            host: host.clone(),
            target: target.clone(),
            key: key.clone(),
        };
        // A response without content is complete with its head.
        let is_empty = matches!(framing, BodyFraming::Empty | BodyFraming::Length(0));
        let written = self.written(&suspected, answer, is_empty.then_some(&[]));
        let stale = match &written {
            WriteEffect::Changed(changed) => writes::settle(
                self.shared,
                self.cells(),
                site,
                &key,
                changed.clone(),
                answer,
                self.begun.monotonic,
            ),
            WriteEffect::Nothing | WriteEffect::Unread => Vec::new(),
        };
        purge_orders::obey(self.shared, self.cells(), method, answer, &key, pages, stale).await;
        (written == WriteEffect::Unread).then_some(suspected)
    }

    /// Records that a request which passed because of its cookies was answered with a static file.
    /// The next such request is fetched without cookies, and that response decides.
    fn learn_file(&self, passing: &PassRequest<'_>, head: &ResponseHead) {
        let PassRequest { subject, reason, .. } = passing;
        let policy = subject.site.policy();
        let is_by_cookie = matches!(reason, Reason::PassCookie | Reason::PassUnknownCookie);
        if is_by_cookie && is_for_any_cookie(&subject.target, head.status, &head.fields, policy) {
            self.shared.files.remember(&subject.key(), *reason, None, self.now().monotonic);
        }
    }

    /// Learns from the response to one client whether responses for the page could be shared.
    /// Returns the reason if not.
    fn learn(&self, page_request: &PageRequest<'_>, sent_at: Moment, head: &ResponseHead) -> Option<Reason> {
        let is_of_another = page_request.own_target.is_another();
        let is_partial = head.status == Status::NOT_MODIFIED || page_request.range.is_some();
        if is_of_another || is_partial || is_server_error(head.status) {
            // The response depends on a copy or range of this client, is an origin error, or
            // belongs to another target. It says nothing about the responses to other clients.
            return None;
        }
        if self.is_denied(&page_request.key) {
            // This client's response says nothing about others; the next shared fetch does.
            return Some(Reason::StoreRefusedDenied);
        }
        if is_refusal(head.status) {
            return Some(Reason::StoreRefusedStatus);
        }
        if head.status == Status::PARTIAL_CONTENT {
            return Some(Reason::StoreRefusedPartial);
        }
        let (policy, received_at) = (page_request.subject.site.policy(), self.now());
        let judgement = judge_response(&self.request.head, head, sent_at, received_at, policy);
        let refusal = match (judgement, VaryRule::from_response(&head.fields, policy)) {
            (Judgement::Store(_), Ok(_)) => None,
            (Judgement::DoNotStore(reason), _) | (_, Err(reason)) => Some(reason),
        };
        match refusal {
            None => self.shared.hit_for_miss.forget(&page_request.key),
            Some(reason) => {
                let culprit = explain_refusal(reason, &head.fields, policy);
                self.shared.hit_for_miss.remember(&page_request.key, reason, culprit, received_at.monotonic);
            }
        }
        refusal
    }

    /// Records that the response is marked as shareable, if the profile relies on that mark.
    fn learn_mark(&self, passing: &PassRequest<'_>, sent_at: Moment, head: &ResponseHead) {
        if passing.reason != Reason::PassUnmarked {
            return;
        }
        let policy = passing.subject.site.policy();
        let judgement = judge_response(&self.request.head, head, sent_at, self.now(), policy);
        if matches!(judgement, Judgement::Store(_)) && VaryRule::from_response(&head.fields, policy).is_ok() {
            self.shared.mark(&passing.subject.key());
        }
    }

    /// Learns from the response to a HEAD request about the stored page (RFC 9111 section 4.3.5).
    fn learn_from_head(
        &self,
        page_request: &PageRequest<'_>,
        registered: &RegisteredHead,
        sent_at: Moment,
        head: &ResponseHead,
    ) -> Option<Reason> {
        let subject = &page_request.subject;
        let (store, fields) = (&self.shared.store, &registered.head.fields);
        let Lookup::Found { object, softened } = store.peek(&registered.entry.key, fields) else {
            return None;
        };
        if object.part().is_some() || head.status != object.status() {
            return None;
        }
        let policy = subject.site.policy();
        // Servers often code the response to HEAD in another way or not at all. It then says
        // nothing about the stored form, so a GET refreshes the page.
        let coding = |head: &ResponseHead| head.fields.first(names::CONTENT_ENCODING).cloned();
        if policy.forwarding == Forwarding::Keyed && coding(&object.head()) != coding(head) {
            self.shared.fetches.remove(&registered.entry.key, &registered.entry.fetch);
            self.refresh_in_background(page_request, Base::new(object, softened));
            return None;
        }
        if head_says(&object.head(), object.content_bytes(), head) == HeadComparison::Differs {
            registered.entry.fetch.publish(|| {
                store.remove(&registered.entry.key);
                self.shared.static_tree.withdraw(subject.site, &registered.entry.key);
            });
            return None;
        }
        let doubt = if softened { Doubt::Invalidated } else { Doubt::Expired };
        if !head_confirms(&object.head(), head, doubt, policy) {
            if policy.forwarding == Forwarding::Keyed {
                // Without this, a client that sends only HEAD requests would find the page expired
                // each time. The HEAD itself is removed from the table, where it would count as the
                // fetch that renews the page.
                self.shared.fetches.remove(&registered.entry.key, &registered.entry.fetch);
                self.refresh_in_background(page_request, Base::new(object, softened));
            }
            return None;
        }
        let updated = updated_head(&object.head(), head);
        let get = RequestHead { method: Method::Get, ..registered.head.clone() };
        let received_at = self.now();
        let judgement = judge_response(&get, &updated, sent_at, received_at, policy);
        let rule = VaryRule::from_response(&updated.fields, policy);
        let (Judgement::Store(storable), Ok(rule)) = (judgement, rule) else {
            registered.entry.fetch.publish(|| {
                store.remove(&registered.entry.key);
                self.shared.static_tree.withdraw(subject.site, &registered.entry.key);
            });
            return None;
        };
        let Ok(tags) = subject.site.tags_of(&registered.entry.key, &updated.fields) else {
            return None;
        };
        let rule = registered.entry.fetch.known().union(&rule);
        let (updated, _) = shareable(updated, &storable.withheld, policy);
        let target = registered.entry.key.target();
        let renewed = renewed_object(&updated, target, &object, storable.freshness, subject.site);
        let variant = rule.stored_key(fields, &updated.fields);
        registered.entry.fetch.publish(|| {
            // The size is not checked: the body was stored before.
            let (key, begun) = (&registered.entry.key, registered.entry.fetch.begun());
            // An object that was stored since is newer than the one that the response was compared
            // with.
            let is_same = matches!(store.peek(key, fields), Lookup::Found { object: now, .. } if Arc::ptr_eq(&now, &object));
            if !is_same {
                return;
            }
            let object = Arc::new(renewed);
            publish::learn_equivalents(self.shared, key, &updated, begun, || {
                let publication = Publication { key, rule, variant, object, tags: &tags, begun };
                publish::publish(self.shared, subject.site, publication);
            });
        });
        None
    }
}

/// Whether the content must be streamed, because origin and client communicate while it is sent:
/// with `Expect: 100-continue`, a protocol switch, or gRPC.
fn must_stream(request: &Request) -> bool {
    let content_type = request.head.fields.first(names::CONTENT_TYPE).map_or(&[][..], |value| &value[..]);
    let is_grpc = content_type.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC));
    request.expect_continue || is_grpc || forward::tunnelled_protocols(request).next().is_some()
}

/// The beginning of gRPC's media types.
const GRPC: &[u8] = b"application/grpc";
