//! *leak guard*: compares some of the hits of visitors with cookies with the origin's response.
//!
//! Invariants: this is the only step that knows of the leak guard. A page that is withheld from
//! visitors with cookies goes to none of them, whatever the look-up would find. A check never costs
//! its client a response (see `leak_check`).

use crate::control::counters::Metric;
use crate::fetch::coalesced_fetch::StreamedResponse;
use crate::fetch::task;
use crate::memory::detection::InspectedRequest;
use crate::memory::distrust::Withheld;
use crate::memory::leak_guard::COMPARED_BYTES_MAX;
use crate::request::delivery::{ContentSource, Delivery, Watcher};
use crate::request::event_stream::is_event_stream;
use crate::request::forward;
use crate::request::guard::RequestSubject;
use crate::request::leak_check::{GuardedHit, LeakCheck};
use crate::request::lookup::{Decision, LookupResult, PageRequest, Touch};
use crate::request::refusal::Refusal;
use crate::request::respond::{self, ResponseAccount};
use crate::request::step::{PassRequest, Step};
use crate::request::visit::Visit;
use crate::shared::Shared;
use crate::upkeep::detection;
use message::{RequestHead, ResponseHead};
use origin::FetchError;
use semantics::{CacheStatusFacts, Moment, Reason, WithoutGzip, is_refusal, without_gzip};
use std::sync::Arc;

/// Why the leak guard withholds the page from the guarded client that sent `head`, although the
/// profile ignores its cookies. `None` if it does not.
pub(crate) fn withheld(
    shared: &Shared,
    page_request: &PageRequest<'_>,
    head: &RequestHead,
    now: Moment,
) -> Option<Withheld> {
    let policy = page_request.subject.site.policy();
    shared.leak_guard.withheld(&page_request.key, &head.fields, policy, now.monotonic)
}

impl<'a> Visit<'a> {
    /// *leak guard*: looks a request with cookies up, and sends it to the origin if the page is
    /// withheld or the hit is sampled.
    pub(crate) async fn leak_guard(&mut self, page_request: PageRequest<'a>) -> Step<'a> {
        let check =
            if let Some(withheld) = withheld(self.shared, &page_request, &self.request.head, self.begun) {
                let Some(check) = self.renewed_check(&page_request, &withheld) else {
                    return alone(&page_request.subject);
                };
                check
            } else {
                let decision = page_request.decide(self.shared, self.head(), Touch::Yes, self.begun);
                let Some(check) = self.sampled_check(&page_request, &decision) else {
                    return self.follow(page_request, decision);
                };
                self.note(&page_request);
                check
            };
        self.compare(&page_request.subject, check).await
    }

    /// The check of a page withheld from this client, if one is due.
    fn renewed_check(&self, page_request: &PageRequest<'a>, withheld: &Withheld) -> Option<Arc<LeakCheck>> {
        if !withheld.may_look || page_request.subject.site.origin.is_open() {
            return None;
        }
        let LookupResult::Deliver(delivery) = self.find(page_request, Touch::No, self.begun) else {
            return None;
        };
        LeakCheck::again(self.shared, self.guarded_hit(page_request, &delivery)?, self.begun)
    }

    /// The check of a hit, if the hit is sampled. An origin that does not answer is not asked.
    fn sampled_check(&self, page_request: &PageRequest<'a>, decision: &Decision) -> Option<Arc<LeakCheck>> {
        let Decision::Deliver(delivery) = decision else { return None };
        let hit = self.guarded_hit(page_request, delivery)?;
        let check = LeakCheck::draw(self.shared, self.worker, hit, delivery.account)?;
        if page_request.subject.site.origin.is_open() { None } else { Some(check) }
    }

    fn guarded_hit<'v>(
        &'v self,
        page_request: &'v PageRequest<'a>,
        delivery: &'v Delivery,
    ) -> Option<GuardedHit<'v>> {
        let ContentSource::Stored(stored) = &delivery.content else { return None };
        let (site, key) = (page_request.subject.site, &page_request.key);
        let is_file = page_request.left_out.has_cookies();
        Some(GuardedHit { site, key, sent: &self.request.head, looked_up: self.head(), stored, is_file })
    }

    /// Sends the request with the client's cookies. The origin gets no more time than in *wait* if
    /// the client may have the stored response.
    async fn compare(&mut self, subject: &RequestSubject<'a>, check: Arc<LeakCheck>) -> Step<'a> {
        let Some((stored, account)) = check.instead() else {
            return self.ask_with_cookies(subject, check).await;
        };
        let instead = Delivery::stored(stored, account);
        let limits = &self.shared.limits;
        let within = limits.stale_wait.min(limits.flight_wait);
        let asking = tokio::time::timeout(within, self.ask_with_cookies(subject, check));
        asking.await.unwrap_or(Step::Deliver(instead))
    }

    async fn ask_with_cookies(&mut self, subject: &RequestSubject<'a>, check: Arc<LeakCheck>) -> Step<'a> {
        self.read_form_of_write(subject);
        let head = check.request(self.shared, subject, self.head(), &self.request.head.fields);
        let Ok(request) = forward::without_content(&head) else {
            return Step::Refuse(Refusal::unwritable());
        };
        match self.exchange(subject, request).await {
            Ok((_, response)) => self.take_compared(subject, check, response).await,
            Err(error) => self.fail_comparison(subject, &check, &error),
        }
    }

    fn fail_comparison(
        &self,
        subject: &RequestSubject<'a>,
        check: &LeakCheck,
        error: &FetchError,
    ) -> Step<'a> {
        task::count_failure(self.cells(), error);
        match check.instead() {
            Some((stored, account)) => Step::Deliver(Delivery::stored(stored, account)),
            None => Step::Refuse(subject.site.refusal(|origin| Refusal::failed_fetch(error, origin))),
        }
    }

    /// Delivers the origin's response, and has it compared with the stored one.
    async fn take_compared(
        &self,
        subject: &RequestSubject<'a>,
        check: Arc<LeakCheck>,
        response: StreamedResponse,
    ) -> Step<'a> {
        let StreamedResponse { mut head, framing, mut exchange } = response;
        if let Some((stored, account)) = check.instead_of(head.status) {
            return Step::Deliver(Delivery::stored(stored, account));
        }
        if is_refusal(head.status) && forward::is_impersonal(subject) {
            self.cells().count(Metric::FetchesDenied);
            return alone(subject);
        }
        if self.refuses_gzip() && without_gzip(&head.fields) == WithoutGzip::Unusable {
            return alone(subject);
        }
        let sent = InspectedRequest::new(&self.request.head, &subject.target, &subject.host);
        detection::inspect_head(self.shared, subject.site, sent, &head);
        // The request is no write, so its content need not be read for further pages.
        let _ = self.invalidate(subject, &head, framing).await;
        if is_event_stream(&head) {
            exchange.release_turn();
        }
        respond::tidy(&mut head, self.shared.clock.now());
        let facts = CacheStatusFacts { forward_status: Some(head.status), ..CacheStatusFacts::default() };
        let account = ResponseAccount { reason: Reason::PassLeakGuard, facts, age_secs: None };
        let (shared, worker) = (Arc::clone(self.shared), self.worker);
        let observer =
            Box::new(move |head: &ResponseHead, content| check.begin(&shared, worker, head, content));
        let watcher = Watcher { bytes_max: COMPARED_BYTES_MAX, observer };
        let content = ContentSource::Watched(StreamedResponse { head, framing, exchange }, watcher);
        Step::Deliver(Delivery { content, account })
    }
}

/// Sends the client's own request instead.
fn alone<'a>(subject: &RequestSubject<'a>) -> Step<'a> {
    Step::Pass(PassRequest::alone(subject.clone(), Reason::PassLeakGuard))
}
