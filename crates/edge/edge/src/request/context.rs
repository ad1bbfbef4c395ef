//! *context*: learns the context of a visitor's session, and answers with a page that visitors with
//! the same context share (`logged_in = "context"`).
//!
//! Invariants: a page is kept from a session's own request, with all of its fields, and only if the
//! response permits sharing and depends on the context alone. The key of a page has the context.
//! Nobody shares a fetch, and nothing refreshes a page in the background. While a session writes,
//! and shortly after, it neither gets nor gives a page. Browsers keep nothing.

use crate::control::counters::Metric;
use crate::fetch::stored::private_object;
use crate::memory::context_copies::{ContextCopyLimits, ContextPlace};
use crate::memory::context_sessions::{ContextSession, KnownContext, PauseCause, WriteNumber};
use crate::memory::private_copies::{Digest, PrivateCopies, PrivateCopy};
use crate::request::client_address::client_of;
use crate::request::context_answer::{ContextQuestion, await_context, checked_context, session_limits};
use crate::request::delivery::{Delivery, Watcher};
use crate::request::guard::RequestSubject;
use crate::request::refusal::Refusal;
use crate::request::respond::ResponseAccount;
use crate::request::step::{ContextPass, PassRequest, Step};
use crate::request::visit::Visit;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use config::{ContextPlan, ContextSource};
use message::{Fields, Method, RequestHead, ResponseHead, Status, names};
use profiles::Policy;
use semantics::{
    CacheStatusFacts, ContextTerms, DirectiveScope, Directives, Freshness, Moment, Reason, Reuse,
    SessionChange, WithoutGzip, changed_sessions, context_cookies, context_fields, judge_context,
    private_request, reuse, session_cookies, without_gzip,
};
use std::sync::Arc;
use store::{Body, Key};

/// One page takes at most this part of the memory for all.
const PAGE_SHARE: u64 = 16;

/// A request that a page of its visitor's context may answer.
pub(crate) struct ContextRequest<'a> {
    pub(crate) subject: RequestSubject<'a>,
    plan: Arc<ContextPlan>,
    directives: Directives,
    pub(crate) session: ContextSession,
    /// The number of the last write before the session was looked at.
    since: WriteNumber,
}

/// A page for a context.
pub(crate) struct ContextPageRequest {
    place: ContextPlace,
    key: Key,
    directives: Directives,
}

/// A session's own request whose response may be kept for its context.
pub(crate) struct ContextFetch {
    plan: Arc<ContextPlan>,
    context: Bytes,
    place: ContextPlace,
    key: Key,
    session: ContextSession,
    since: WriteNumber,
    /// The number of the last invalidation when the fetch began.
    begun: u64,
}

/// A session that writes, until this is dropped.
pub(crate) struct ContextWrite {
    shared: Arc<Shared>,
    cookies: Vec<Digest>,
}

impl<'a> ContextRequest<'a> {
    /// `None` if the request passes for another `reason` than its session, or if its site shares no
    /// pages by contexts.
    pub(crate) fn of(
        shared: &Shared,
        subject: &RequestSubject<'a>,
        head: &RequestHead,
        reason: Reason,
    ) -> Option<Self> {
        let plan = Arc::clone(subject.site.plan.context.as_ref()?);
        // A process that has handed over does not hear of further purges.
        if reason != Reason::PassCookie || shared.is_handed_over() {
            return None;
        }
        let since = shared.context_sessions.write_number();
        let directives = private_request(head, subject.site.policy())?;
        let session = session_of(shared, subject, &plan, &head.fields)?;
        Some(Self { subject: subject.clone(), plan, directives, session, since })
    }

    /// Whether the session wrote or ended a short while ago.
    pub(crate) fn is_paused(&self, shared: &Shared) -> bool {
        shared.context_sessions.is_paused(&self.session.cookies)
    }

    /// The context, as far as it is known without the origin.
    pub(crate) fn known(
        &self,
        shared: &Shared,
        fields: &Fields,
        now: Moment,
    ) -> Option<Result<Bytes, Reason>> {
        match &self.plan.source {
            ContextSource::Answer(_) => shared.context_sessions.peek(&self.session),
            ContextSource::Cookie(name, key) => {
                let policy = self.subject.site.policy();
                Some(checked_context(fields, (name, key), policy, now.wall, &shared.limits))
            }
        }
    }

    /// The page for a context.
    pub(crate) fn page(&self, shared: &Shared, fields: &Fields, context: &[u8]) -> ContextPageRequest {
        let (key, policy) = (self.subject.key(), self.subject.site.policy());
        let digests = &shared.private_copies;
        let (site, scheme) = (key.site().0.to_le_bytes(), [u8::from(key.is_https())]);
        let url = [&b"context"[..], &site, &scheme, key.host(), key.target()];
        // What the settings say is a part, because a reload may change it.
        let (source, signed) = match &self.plan.source {
            ContextSource::Answer(path) => (path, None),
            ContextSource::Cookie(name, _) => (name, Some(name.as_str())),
        };
        let kind = [u8::from(signed.is_some()), u8::from(self.plan.is_declared)];
        let mut parts: Vec<&[u8]> = url.to_vec();
        parts.extend([&kind[..], source.as_bytes(), self.plan.names.field.as_bytes(), context]);
        // Pairs of a name and a value follow.
        let keyed = context_fields(fields, policy);
        parts.extend(keyed.iter().flat_map(|(name, value)| [&name[..], *value]));
        let cookies = context_cookies(fields, signed, policy);
        parts.extend(cookies.iter().flat_map(|cookie| [names::COOKIE.as_bytes(), *cookie]));
        let place = ContextPlace {
            page: digests.digest(parts),
            url: digests.digest(url),
            site: key.site(),
            context: digests.digest([context]),
        };
        ContextPageRequest { place, key, directives: self.directives.clone() }
    }
}

/// The session of a request: everything that its context may depend on. `None` without a session
/// cookie.
fn session_of(
    shared: &Shared,
    subject: &RequestSubject<'_>,
    plan: &ContextPlan,
    fields: &Fields,
) -> Option<ContextSession> {
    let cookies = session_cookies(fields, subject.site.policy());
    if cookies.session.is_empty() {
        return None;
    }
    let (digests, key) = (&shared.private_copies, subject.key());
    // The origin may tie a session to the address and the browser of its client.
    let client = client_of(shared, subject, fields).map(|address| address.to_string());
    let (site, scheme) = (key.site().0.to_le_bytes(), [u8::from(key.is_https())]);
    let source = match &plan.source {
        ContextSource::Answer(path) => path,
        ContextSource::Cookie(name, _) => name,
    };
    let mut parts: Vec<&[u8]> = vec![&b"session"[..], &site[..], &scheme[..], key.host(), source.as_bytes()];
    parts.extend([plan.names.field.as_bytes(), plan.names.media_type.as_bytes()]);
    // Pairs of a name and a value follow. A question to `why` has no connection, and names the
    // address in the field.
    let forwarded = names::X_FORWARDED_FOR;
    match &client {
        Some(client) => parts.extend([forwarded.as_bytes(), client.as_bytes()]),
        None => parts.extend(fields.all(forwarded).flat_map(|value| [forwarded.as_bytes(), value])),
    }
    let agent = names::USER_AGENT;
    parts.extend(fields.all(agent).flat_map(|value| [agent.as_bytes(), value]));
    let all = cookies.session.iter().chain(&cookies.others);
    parts.extend(all.flat_map(|cookie| [names::COOKIE.as_bytes(), *cookie]));
    let id = digests.digest(parts);
    let cookies = cookies.session.iter().map(|cookie| digests.digest([*cookie])).collect();
    Some(ContextSession { id, cookies })
}

/// Whether a request has a session cookie.
pub(crate) fn has_session(fields: &Fields, policy: &Policy) -> bool {
    !session_cookies(fields, policy).session.is_empty()
}

/// A short name of a context, which tells nothing about it.
pub(crate) fn short_form(digests: &PrivateCopies, context: &[u8]) -> String {
    let digest = digests.digest([context]);
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl ContextPageRequest {
    /// The page, if it is fresh. `touch`: this is a use.
    pub(crate) fn find(&self, shared: &Shared, site: &Site, now: Moment, touch: bool) -> Option<Delivery> {
        // As for anonymous visitors, a page goes out once more after a write that changed it, and
        // is then fetched anew; here nothing would do so in the background.
        let is_written = |freshness: &Freshness| {
            let received = freshness.received.monotonic;
            site.writes.is_to_be_refreshed(received, now.monotonic)
                || shared.page_refreshes.is_due(&self.key, received, now.monotonic)
        };
        let is_current = |copy: &PrivateCopy| {
            let freshness = copy.object.freshness();
            !freshness.must_be_validated(now)
                && !is_written(&freshness)
                && shared.store.may_join(copy.begun, &copy.key, &copy.tags, &copy.object.head())
        };
        let object = shared.context_copies.find(&self.place.page, touch, is_current)?;
        // A visitor who reloads a page wants to see it anew.
        let reloads =
            self.directives.no_cache != DirectiveScope::Nothing || self.directives.max_age_secs == Some(0);
        match reuse(&object.freshness(), &self.directives, site.policy(), now) {
            Reuse::Fresh { age_secs, ttl_secs } if !reloads => {
                let facts = CacheStatusFacts { ttl_secs: Some(ttl_secs), ..CacheStatusFacts::default() };
                let account = ResponseAccount { reason: Reason::HitContext, facts, age_secs: Some(age_secs) };
                Some(Delivery::stored(object, account))
            }
            _ => None,
        }
    }
}

impl ContextFetch {
    /// Sets the field by which the origin learns the context.
    pub(crate) fn name_context(&self, fields: &mut Fields) {
        let field = &self.plan.names.field;
        fields.remove(field);
        fields.push(field.clone(), self.context.clone());
    }

    /// Keeps the page, unless the session has written or ended since its fetch began.
    fn keep(&self, shared: &Shared, worker: usize, copy: PrivateCopy) {
        let limits = &shared.limits;
        let limits = ContextCopyLimits {
            copies_max: limits.context_copies_max,
            contexts_max: limits.contexts_max,
            bytes_max: limits.context_bytes_max,
        };
        if shared.context_sessions.is_unchanged(&self.session.cookies, self.since)
            && shared.context_copies.keep(self.place, copy, limits)
        {
            shared.cells(worker).count(Metric::ContextStored);
        }
    }

    /// Keeps the page if the visitor still has the context, of which the origin is asked: somebody
    /// may have changed the visitor's rights before the page was made.
    fn keep_if_confirmed(
        self: Arc<Self>,
        shared: Arc<Shared>,
        worker: usize,
        question: ContextQuestion,
        copy: PrivateCopy,
    ) {
        let turn = shared.context_sessions.confirm(&self.session, session_limits(&shared.limits));
        let Some(turn) = turn else { return };
        // Ends with `limits.context_timeout`, so nothing needs to supervise it.
        tokio::spawn(async move {
            let (outcome, lifetime) = question.ask().await;
            turn.finish(&outcome, lifetime);
            match outcome {
                Ok(context) if context == self.context => self.keep(&shared, worker, copy),
                _ => shared.cells(worker).count(Metric::ContextChanged),
            }
        });
    }
}

impl ContextWrite {
    /// The write of a session with these cookies.
    pub(crate) fn begin(shared: &Arc<Shared>, fields: &Fields, policy: &Policy) -> Self {
        let cookies = session_cookies(fields, policy).session;
        let cookies = cookies.iter().map(|cookie| shared.private_copies.digest([*cookie])).collect();
        let writing = Self { shared: Arc::clone(shared), cookies };
        writing.pause(PauseCause::WriteBegun);
        writing
    }

    fn pause(&self, cause: PauseCause) {
        let limits = session_limits(&self.shared.limits);
        self.shared.context_sessions.pause(&self.cookies, cause, limits);
    }
}

impl Drop for ContextWrite {
    fn drop(&mut self) {
        self.pause(PauseCause::WriteEnded);
    }
}

impl<'a> Visit<'a> {
    /// *context*: answers with a page of the visitor's context, or sends the visitor's own request.
    pub(crate) async fn context(&self, request: ContextRequest<'a>) -> Step<'a> {
        let fields = &self.request.head.fields;
        let learnt = match self.learn_context(&request).await {
            Ok(learnt) => learnt,
            Err(refusal) => return Step::Refuse(refusal),
        };
        let subject = request.subject.clone();
        let pass = |context| {
            let context = Some(context);
            Step::Pass(PassRequest { context, ..PassRequest::alone(subject.clone(), Reason::PassCookie) })
        };
        let context = match learnt {
            Ok(context) => context,
            Err(reason) => return pass(ContextPass::Without(reason)),
        };
        let page = request.page(self.shared, fields, &context);
        let found =
            page.find(self.shared, subject.site, self.now(), true).filter(|_| self.must_fetch.is_none());
        if let Some(delivery) = found {
            return Step::Deliver(delivery);
        }
        let ContextPageRequest { place, key, .. } = page;
        let ContextRequest { plan, session, since, .. } = request;
        let begun = self.shared.store.sequence();
        // Checked after the fetch has its number: a later change of the rules then ends the page.
        if subject.rules != subject.site.rules() {
            return Step::Guard;
        }
        pass(ContextPass::Fetch(Arc::new(ContextFetch { plan, context, place, key, session, since, begun })))
    }

    /// The context of the session, or the reason why it has none. The origin is asked if need be.
    async fn learn_context(&self, request: &ContextRequest<'a>) -> Result<Result<Bytes, Reason>, Refusal> {
        self.shared.context_sessions.begin_use();
        if request.is_paused(self.shared) {
            return Ok(Err(Reason::PassContextPaused));
        }
        let fields = &self.request.head.fields;
        if let Some(known) = request.known(self.shared, fields, self.now()) {
            return Ok(known);
        }
        let ContextSource::Answer(path) = &request.plan.source else {
            return Ok(Err(Reason::PassContextMissing));
        };
        let limits = &self.shared.limits;
        let receiver = match self.shared.context_sessions.find(&request.session, session_limits(limits)) {
            KnownContext::Here(outcome) => return Ok(outcome),
            KnownContext::Asked(receiver) => receiver,
            KnownContext::Ask(turn, receiver) => {
                if let Some(refusal) = self.refused_origin_work() {
                    return Err(refusal);
                }
                let edge = (self.shared, self.worker);
                let question = ContextQuestion::of(edge, &request.subject, &request.plan, path, fields);
                let Ok(question) = question else { return Err(Refusal::unwritable()) };
                question.ask_for(turn);
                receiver
            }
        };
        Ok(await_context(receiver, limits).await)
    }

    /// Takes a copy of the response for the context, if it may be kept; otherwise says why not.
    pub(crate) fn watch_context(
        &self,
        passing: &PassRequest<'_>,
        sent_at: Moment,
        head: &ResponseHead,
    ) -> Result<Option<Watcher>, Reason> {
        let Some(ContextPass::Fetch(fetch)) = &passing.context else { return Ok(None) };
        let is_usable = !self.refuses_gzip() || without_gzip(&head.fields) == WithoutGzip::AsIs;
        let is_whole = self.request.head.method == Method::Get && head.status != Status::NOT_MODIFIED;
        if !is_whole || !is_usable {
            return Ok(None);
        }
        let (subject, plan) = (&passing.subject, &fetch.plan);
        let is_signed = matches!(plan.source, ContextSource::Cookie(..));
        let terms = ContextTerms {
            names: &plan.names,
            context: &fetch.context,
            is_declared: plan.is_declared,
            is_signed,
            assembles: subject.site.plan.esi,
        };
        let judged = judge_context(head, (sent_at, self.now()), terms, subject.site.policy());
        if judged == Err(Reason::StoreRefusedContextChanged) {
            let limits = session_limits(&self.shared.limits);
            self.shared.context_sessions.pause(&fetch.session.cookies, PauseCause::Renewed, limits);
            self.cells().count(Metric::ContextChanged);
        }
        let judged = judged?;
        let tags = subject.site.tags_of(&fetch.key, &head.fields).map_err(|_| Reason::StoreRefusedTags)?;
        let question = match &plan.source {
            ContextSource::Answer(path) if !judged.is_stated => {
                let edge = (self.shared, self.worker);
                let fields = &self.request.head.fields;
                let Ok(question) = ContextQuestion::of(edge, subject, plan, path, fields) else {
                    return Ok(None);
                };
                Some(question)
            }
            _ => None,
        };
        let (fetch, site) = (Arc::clone(fetch), Arc::clone(subject.site));
        let (shared, worker) = (Arc::clone(self.shared), self.worker);
        let bytes_max = shared.limits.context_bytes_max / PAGE_SHARE;
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let observer = Box::new(move |head: &ResponseHead, content: Vec<u8>| {
            let body = Body::gathered(&[Bytes::from(content)]);
            let object = private_object(head, fetch.key.target(), body, judged.freshness, site.policy());
            let object = if site.plan.esi { object.as_template(site.plan.esi_undeclared) } else { object };
            let (key, begun) = (fetch.key.detached(), fetch.begun);
            let copy = PrivateCopy { object: Arc::new(object), key, tags, begun };
            match question {
                Some(question) => fetch.keep_if_confirmed(shared, worker, question, copy),
                None => fetch.keep(&shared, worker, copy),
            }
        });
        Ok(Some(Watcher { bytes_max, observer }))
    }

    /// Whether the session of a request may have a context now, or get one.
    pub(crate) fn may_have_contexts(&self, subject: &RequestSubject<'_>) -> bool {
        self.shared.context_sessions.is_used() || !subject.site.plan.refused_claims.is_empty()
    }

    /// Ends the contexts of a session whose cookie the response sets, renews or deletes.
    pub(crate) fn end_contexts(&self, policy: &Policy, answer: &ResponseHead) {
        let limits = session_limits(&self.shared.limits);
        for (cookie, change) in changed_sessions(&self.request.head.fields, &answer.fields, policy) {
            let cause = match change {
                SessionChange::Renewed => PauseCause::Renewed,
                SessionChange::Replaced => PauseCause::Ended,
            };
            let cookie = self.shared.private_copies.digest([cookie]);
            self.shared.context_sessions.pause(&[cookie], cause, limits);
        }
    }
}
