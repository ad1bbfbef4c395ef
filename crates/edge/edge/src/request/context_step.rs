//! *context*: learns the context of a visitor's session, and answers with a page that visitors with
//! the same context share.

use crate::control::counters::Metric;
use crate::fetch::stored::private_object;
use crate::memory::context_sessions::{ContextSessionLimits, KnownContext, PauseCause};
use crate::memory::private_copies::PrivateCopy;
use crate::request::context::{ContextFetch, ContextPageRequest, ContextRequest};
use crate::request::context_answer::{ContextQuestion, await_context};
use crate::request::delivery::Watcher;
use crate::request::guard::RequestSubject;
use crate::request::refusal::Refusal;
use crate::request::step::{ContextPass, PassRequest, Step};
use crate::request::visit::Visit;
use bytes::Bytes;
use config::ContextSource;
use message::{Method, ResponseHead, Status};
use profiles::Policy;
use semantics::{
    ContextTerms, Moment, Reason, SessionChange, WithoutGzip, changed_sessions, judge_context, without_gzip,
};
use std::sync::Arc;
use store::Body;

/// One page takes at most this part of the memory for all.
const PAGE_SHARE: u64 = 16;

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
        let receiver =
            match self.shared.context_sessions.find(&request.session, ContextSessionLimits::of(limits)) {
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
            let limits = ContextSessionLimits::of(&self.shared.limits);
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
        let limits = ContextSessionLimits::of(&self.shared.limits);
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
