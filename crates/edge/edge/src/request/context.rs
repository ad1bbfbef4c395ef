//! Pages that visitors with the same context share (`logged_in = "context"`).
//!
//! Invariants: a page is kept from a session's own request, with all of its fields, and only if the
//! response permits sharing and depends on the context alone. The key of a page has the context.
//! Nobody shares a fetch, and nothing refreshes a page in the background. While a session writes,
//! and shortly after, it neither gets nor gives a page. Browsers keep nothing.

use crate::control::counters::Metric;
use crate::memory::context_copies::{ContextCopyLimits, ContextPlace};
use crate::memory::context_sessions::{ContextSession, ContextSessionLimits, WriteNumber};
use crate::memory::private_copies::{PrivateCopies, PrivateCopy};
use crate::request::client_address::client_of;
use crate::request::context_answer::{ContextQuestion, checked_context};
use crate::request::delivery::Delivery;
use crate::request::guard::RequestSubject;
use crate::request::respond::ResponseAccount;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use config::{ContextPlan, ContextSource};
use message::{Fields, RequestHead, names};
use profiles::Policy;
use semantics::{
    CacheStatusFacts, DirectiveScope, Directives, Freshness, Moment, Reason, Reuse, context_cookies,
    context_fields, private_request, reuse, session_cookies,
};
use std::sync::Arc;
use store::Key;

/// A request that a page of its visitor's context may answer.
pub(crate) struct ContextRequest<'a> {
    pub(crate) subject: RequestSubject<'a>,
    pub(crate) plan: Arc<ContextPlan>,
    directives: Directives,
    pub(crate) session: ContextSession,
    /// The number of the last write before the session was looked at.
    pub(crate) since: WriteNumber,
}

/// A page for a context.
pub(crate) struct ContextPageRequest {
    pub(crate) place: ContextPlace,
    pub(crate) key: Key,
    directives: Directives,
}

/// A session's own request whose response may be kept for its context.
pub(crate) struct ContextFetch {
    pub(crate) plan: Arc<ContextPlan>,
    pub(crate) context: Bytes,
    pub(crate) place: ContextPlace,
    pub(crate) key: Key,
    pub(crate) session: ContextSession,
    pub(crate) since: WriteNumber,
    /// The number of the last invalidation when the fetch began.
    pub(crate) begun: u64,
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
    pub(crate) fn keep(&self, shared: &Shared, worker: usize, copy: PrivateCopy) {
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
    pub(crate) fn keep_if_confirmed(
        self: Arc<Self>,
        shared: Arc<Shared>,
        worker: usize,
        question: ContextQuestion,
        copy: PrivateCopy,
    ) {
        let turn = shared.context_sessions.confirm(&self.session, ContextSessionLimits::of(&shared.limits));
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
