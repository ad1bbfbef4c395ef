//! Copies of pages for one session (`logged_in = "private"`): looks for the copy of a request,
//! keeps the response to a session's own request, and ends sessions.
//!
//! Invariants: a response is kept only for the session whose own request, with all of its fields,
//! was answered by it. Nobody shares its fetch, and nothing refreshes a copy in the background.
//! Other caches and browsers learn that the response is private.

use crate::control::counters::Metric;
use crate::fetch::stored::private_object;
use crate::memory::private_copies::{Digest, PrivateCopy, PrivateFetch, PrivateLimits, Session};
use crate::request::client_address::client_of;
use crate::request::context::{ContextRequest, has_session};
use crate::request::delivery::{Delivery, Watcher};
use crate::request::guard::RequestSubject;
use crate::request::respond::ResponseAccount;
use crate::request::session_write::SessionWrite;
use crate::request::step::{PassRequest, Step};
use crate::request::visit::Visit;
use crate::shared::Shared;
use bytes::Bytes;
use config::LoggedIn;
use message::{Method, RequestHead, ResponseHead, names};
use profiles::Policy;
use semantics::{
    CacheStatusFacts, DirectiveScope, Directives, Moment, Reason, Reuse, WithoutGzip, cookie_pairs,
    is_html_type, judge_private, keyed_fields, may_change_pages, private_request, reuse, session_cookies,
    sets_session, without_gzip,
};
use std::sync::Arc;
use store::{Body, Key};

/// A request that a copy of its session may answer.
pub(crate) struct PrivateRequest {
    directives: Directives,
    session: Session,
    page: Digest,
    key: Key,
}

impl PrivateRequest {
    /// `None` if the request passes for another `reason` than its session, or if its site keeps no
    /// copies for sessions.
    pub(crate) fn of(
        shared: &Shared,
        subject: &RequestSubject<'_>,
        head: &RequestHead,
        reason: Reason,
    ) -> Option<Self> {
        // A process that has handed over does not hear of further purges.
        if subject.site.plan.logged_in != LoggedIn::Private
            || reason != Reason::PassCookie
            || shared.is_handed_over()
        {
            return None;
        }
        let policy = subject.site.policy();
        let directives = private_request(head, policy)?;
        let cookies = session_cookies(&head.fields, policy);
        if cookies.session.is_empty() {
            return None;
        }
        let (copies, key) = (&shared.private_copies, subject.key());
        // The origin may tie a session to the address of its client.
        let client = client_of(shared, subject, &head.fields).map(|address| address.to_string());
        let (site, scheme) = (key.site().0.to_le_bytes(), [u8::from(key.is_https())]);
        let mut parts: Vec<&[u8]> = vec![&site[..], &scheme[..], key.host(), key.target()];
        // Pairs of a name and a value follow. A question to `why` has no connection, and names the
        // address in the field.
        let forwarded = names::X_FORWARDED_FOR;
        match &client {
            Some(client) => parts.extend([forwarded.as_bytes(), client.as_bytes()]),
            None => parts.extend(head.fields.all(forwarded).flat_map(|value| [forwarded.as_bytes(), value])),
        }
        let keyed = keyed_fields(&head.fields);
        parts.extend(keyed.iter().flat_map(|(name, value)| [&name[..], *value]));
        parts.extend(cookies.others.iter().flat_map(|cookie| [names::COOKIE.as_bytes(), *cookie]));
        let page = copies.digest(parts);
        Some(Self { directives, session: copies.session(&cookies.session), page, key })
    }

    /// The session's own copy, if it is fresh. `touch`: this is a use.
    pub(crate) fn find(
        &self,
        shared: &Shared,
        policy: &Policy,
        now: Moment,
        touch: bool,
    ) -> Option<Delivery> {
        // A visitor who reloads a page of their own wants to see it anew.
        let reloads =
            self.directives.no_cache != DirectiveScope::Nothing || self.directives.max_age_secs == Some(0);
        let is_fresh = |copy: &PrivateCopy| {
            let head = copy.object.head();
            !copy.object.freshness().must_be_validated(now)
                && shared.store.may_join(copy.begun, &copy.key, &copy.tags, &head)
        };
        let object = shared.private_copies.find(&self.session, &self.page, touch, is_fresh)?;
        match reuse(&object.freshness(), &self.directives, policy, now) {
            Reuse::Fresh { age_secs, ttl_secs } if !reloads => {
                let facts = CacheStatusFacts { ttl_secs: Some(ttl_secs), ..CacheStatusFacts::default() };
                let account = ResponseAccount { reason: Reason::HitPrivate, facts, age_secs: Some(age_secs) };
                Some(Delivery::stored(object, account))
            }
            _ => None,
        }
    }

    /// Begins the session's own fetch of the page. `None` if the site's rules have changed since
    /// the request was read.
    fn begin(self, shared: &Shared, subject: &RequestSubject<'_>) -> Option<Arc<PrivateFetch>> {
        let Self { session, page, key, .. } = self;
        let fetch = shared.private_copies.begin(session, page, key, || shared.store.sequence());
        (subject.rules == subject.site.rules()).then(|| Arc::new(fetch))
    }
}

impl<'a> Visit<'a> {
    /// The step of a request that shares no response with all: a copy of its session, a page of its
    /// context, or its own fetch.
    pub(crate) fn pass_or_private(&mut self, subject: RequestSubject<'a>, reason: Reason) -> Step<'a> {
        let head = &self.request.head;
        if subject.site.plan.context.is_some() && has_session(&head.fields, subject.site.policy()) {
            // The response may permit sharing by contexts, of which browsers and other caches know
            // nothing.
            (self.recipient.is_private, self.recipient.is_unstored) = (true, true);
        }
        if let Some(request) = ContextRequest::of(self.shared, &subject, head, reason) {
            return Step::Context(Box::new(request));
        }
        let Some(private) = PrivateRequest::of(self.shared, &subject, head, reason) else {
            return Step::Pass(PassRequest::alone(subject, reason));
        };
        self.recipient.is_private = true;
        let policy = subject.site.policy();
        let found = if self.must_fetch.is_some() {
            None
        } else {
            private.find(self.shared, policy, self.begun, true)
        };
        if let Some(delivery) = found {
            return Step::Deliver(delivery);
        }
        let fetch = private.begin(self.shared, &subject);
        Step::Pass(PassRequest { private: fetch, ..PassRequest::alone(subject, reason) })
    }

    /// Ends the session of a request that may change its pages, until the request has ended.
    pub(crate) fn begin_writing(&mut self, passing: &PassRequest<'_>) {
        let (head, subject) = (&self.request.head, &passing.subject);
        let copies = &self.shared.private_copies;
        let is_private = copies.is_used() || subject.site.plan.logged_in == LoggedIn::Private;
        if !is_private && !self.may_have_contexts(subject) {
            return;
        }
        let writes = may_change_pages(head, &subject.target, subject.site.policy())
            || matches!(passing.reason, Reason::PassMethodOverride | Reason::PassRequestBody);
        if !writes {
            return;
        }
        self.writing = Some(Box::new(SessionWrite::begin(self.shared, &head.fields, subject.site.policy())));
    }

    /// Ends the session if its request has written, or if the response begins or ends a session.
    /// This happens before the client receives the response.
    pub(crate) fn end_session(&self, subject: &RequestSubject<'_>, answer: Option<&ResponseHead>) {
        let (copies, policy) = (&self.shared.private_copies, subject.site.policy());
        if let Some(answer) = answer.filter(|_| self.may_have_contexts(subject)) {
            self.end_contexts(policy, answer);
        }
        if let Some(writing) = &self.writing {
            return writing.end();
        }
        let changes = |answer: &ResponseHead| sets_session(&answer.fields, policy);
        if copies.is_used() && answer.is_some_and(changes) {
            let cookies: Vec<_> =
                cookie_pairs(&self.request.head.fields).map(|cookie| copies.digest([cookie])).collect();
            copies.end(&cookies);
        }
    }

    /// Takes a copy of the response for the session, if it may be kept.
    pub(crate) fn watch_private(
        &self,
        passing: &PassRequest<'_>,
        sent_at: Moment,
        head: &ResponseHead,
    ) -> Option<Watcher> {
        let fetch = Arc::clone(passing.private.as_ref()?);
        let site = Arc::clone(passing.subject.site);
        let is_usable = !self.refuses_gzip() || without_gzip(&head.fields) == WithoutGzip::AsIs;
        if self.request.head.method != Method::Get || !is_usable {
            return None;
        }
        let moments = (sent_at, self.now());
        // It may be a template, and a copy is not assembled.
        let is_html = || head.fields.first(names::CONTENT_TYPE).is_some_and(|value| is_html_type(value));
        if site.plan.esi_undeclared && is_html() {
            return None;
        }
        let freshness = judge_private(head, moments, site.plan.private_ttl, site.policy()).ok()?;
        let tags = site.tags_of(&fetch.key, &head.fields).ok()?;
        let (shared, worker, edge) = (Arc::clone(self.shared), self.worker, &self.shared.limits);
        let limits = PrivateLimits {
            session_bytes_max: edge.private_session_bytes_max,
            bytes_max: edge.private_bytes_max,
        };
        let observer = Box::new(move |head: &ResponseHead, content: Vec<u8>| {
            let body = Body::gathered(&[Bytes::from(content)]);
            let object = private_object(head, fetch.key.target(), body, freshness, site.policy());
            if fetch.keep(Arc::new(object), tags, limits) {
                shared.cells(worker).count(Metric::PrivateStored);
            }
        });
        let bytes_max = usize::try_from(limits.session_bytes_max.min(limits.bytes_max)).unwrap_or(usize::MAX);
        Some(Watcher { bytes_max, observer })
    }
}
