//! *wait*: a request waits for a coalesced fetch until it has a response to deliver, or sends its
//! own request.
//!
//! Invariants: waiting for other requests' fetches is limited. A request receives no response that
//! may not be shared with it. If the origin fails or is slow, a stale response is delivered if the
//! rules allow it.

use crate::control::counters::Metric;
use crate::fetch::coalesced_fetch::{
    ConfirmedObject, FetchProgress, FetchState, PrivateResponse, SharedResponse,
};
use crate::request::delivery::{ContentSource, Delivery};
use crate::request::lookup::PageRequest;
use crate::request::refusal::Refusal;
use crate::request::respond::ResponseAccount;
use crate::request::step::{FetchWait, Step};
use crate::request::trace::failure_name;
use crate::request::visit::Visit;
use bytes::Bytes;
use defects::{Defect, is_planted};
use message::{ResponseHead, Status};
use origin::FetchError;
use profiles::Forwarding;
use semantics::{CacheStatusFacts, Reason, Reuse, early_hints, is_server_error, reuse};
use std::sync::Arc;
use store::FillingReader;
use tokio::time::Instant;

/// After this many fetches whose response was for another variant, a request sends its own.
pub(crate) const FETCHES_MAX: u32 = 3;

impl<'a> Visit<'a> {
    /// *wait*: waits until the fetch has a result, and passes on informational responses meanwhile.
    ///
    /// The leader waits as long as the origin may take. A follower waits for at most
    /// `limits.flight_wait` and then sends its own request. Neither waits longer than
    /// `limits.stale_wait` if a stale response can be delivered, or than `limits.flight_wait` if
    /// that was invalidated.
    pub(crate) async fn wait(&mut self, waiting: FetchWait<'a>) -> Step<'a> {
        let FetchWait { mut page_request, reason, mut receiver, leads } = waiting;
        self.notes.leads = leads;
        self.hint_at_stored(&page_request).await;
        let limits = &self.shared.limits;
        let own_end = *page_request.patience_ends.get_or_insert_with(|| Instant::now() + limits.flight_wait);
        // The time counts from the start of the fetch, so that a late fetch does not delay each new
        // request with a stale response. A reload gets the full time, because its client wants a
        // newer response than the stored one.
        let reloads = reason == Reason::MissReload;
        let patience = if reloads { limits.flight_wait } else { limits.stale_wait };
        let mut end = own_end.min(receiver.borrow().started_at + patience);
        if is_planted(Defect::HungOrigin) {
            end = far_away();
        }
        let (mut informed, mut is_silent) = (0, false);
        loop {
            let FetchProgress { hints, state, phases, .. } = receiver.borrow_and_update().clone();
            self.notes.fetch = phases;
            if leads && !matches!(state, FetchState::Waiting) && self.notes.trace.is_some() {
                self.note_led_fetch(page_request.key.target(), fetch_outcome(&state), phases);
            }
            for hint in hints.into_iter().skip(informed) {
                informed += 1;
                self.inform(hint).await;
            }
            match state {
                FetchState::Waiting => {}
                FetchState::Shared(answer) => return self.take_shared(page_request, reason, answer, leads),
                FetchState::Confirmed(confirmed) => {
                    return self.take_confirmed(page_request, reason, &confirmed, leads);
                }
                FetchState::Private(answer) if !leads && self.is_failure(&page_request, &answer) => {
                    return self.wait_out(page_request, reason).await;
                }
                FetchState::Private(answer) => {
                    return self.take_private(page_request, reason, &answer, leads);
                }
                FetchState::Denied => return page_request.pass(Reason::StoreRefusedDenied),
                FetchState::Void => return self.ask_again(page_request, reason),
                FetchState::Failed(error) => return self.fail(&page_request, &error),
            }
            let changed = tokio::select! {
                biased;
                changed = tokio::time::timeout_at(end, receiver.changed()) => changed,
                // Only while the origin is silent: if no connection can be made, the fetch fails by
                // itself soon.
                () = page_request.subject.site.origin.fallen_silent(), if !is_silent => {
                    is_silent = true;
                    match self.when_silent(&page_request) {
                        Some(delivery) => return Step::Deliver(delivery),
                        None => continue,
                    }
                }
            };
            match changed {
                Ok(Ok(())) => {}
                // The fetch never began.
                Ok(Err(_)) => return page_request.pass(reason),
                Err(_) => match self.when_late(&page_request, end == own_end) {
                    Some(delivery) => return Step::Deliver(delivery),
                    None if end < own_end => end = own_end,
                    None if leads => end = far_away(),
                    None => {
                        self.cells().count(Metric::FlightWaitTimeouts);
                        return page_request.pass(reason);
                    }
                },
            }
        }
    }

    /// Tells a browser which files the stored copy of the page needs, before the first wait for a
    /// newer one (setting `early_hints`).
    async fn hint_at_stored(&mut self, page_request: &PageRequest<'_>) {
        if !page_request.subject.site.plan.early_hints || page_request.fetches_joined > 1 {
            return;
        }
        let stored = page_request.stored_head(self.shared, self.head());
        if let Some(hints) = stored.and_then(|stored| early_hints(&self.request.head, &stored)) {
            self.cells().count(Metric::EarlyHints);
            self.inform(hints).await;
        }
    }

    /// The stale response for a request that waits when the origin falls silent.
    fn when_silent(&self, page_request: &PageRequest<'_>) -> Option<Delivery> {
        let mut delivery = self.when_late(page_request, false)?;
        delivery.account.reason = Reason::StaleBreakerOpen;
        self.cells().count(Metric::BreakerStale);
        Some(delivery)
    }

    /// The stale response for a request that has waited long enough. An invalidated one is returned
    /// only if its whole time `is_over`.
    pub(crate) fn when_late(&self, page_request: &PageRequest<'_>, is_over: bool) -> Option<Delivery> {
        if !is_over && page_request.is_invalidated(self.shared, self.head()) {
            return None;
        }
        let mut delivery = page_request.stale_instead(self.shared, self.head(), self.now())?;
        delivery.account.reason = Reason::StaleOriginSlow;
        Some(delivery)
    }

    /// Without a response from the origin: delivers a stale response, or else an error.
    pub(crate) fn fail(&self, page_request: &PageRequest<'_>, error: &FetchError) -> Step<'a> {
        // An invalidated response is sent only if the origin was asked and failed.
        let is_unasked = matches!(error, FetchError::BreakerOpen);
        let stale = if is_unasked && page_request.is_invalidated(self.shared, self.head()) {
            None
        } else {
            page_request.stale_instead(self.shared, self.head(), self.now())
        };
        match stale {
            Some(delivery) => Step::Deliver(delivery),
            None => {
                Step::Refuse(page_request.subject.site.refusal(|origin| Refusal::failed_fetch(error, origin)))
            }
        }
    }

    /// Whether a response is an origin error that no stale response can replace. If the fetch
    /// carried its client's fields, they may be the cause, so the error does not count for others.
    fn is_failure(&self, page_request: &PageRequest<'_>, answer: &PrivateResponse) -> bool {
        let alike = page_request.subject.site.policy().forwarding != Forwarding::Everything;
        is_server_error(answer.status)
            && answer.reason != Reason::StoreRefusedMaintenance
            && alike
            && page_request.stale_instead(self.shared, self.head(), self.now()).is_none()
    }

    /// After an origin error: pauses, then shares one new fetch with the other followers.
    async fn wait_out(&self, page_request: PageRequest<'a>, reason: Reason) -> Step<'a> {
        if page_request.fetches_joined >= FETCHES_MAX {
            return Step::Refuse(page_request.subject.site.refusal(Refusal::failing_origin));
        }
        self.cells().count(Metric::FailurePauses);
        tokio::time::sleep(self.shared.limits.failure_pause).await;
        self.join(page_request, reason)
    }

    /// A stale response to be delivered instead of an origin error, if there is one.
    pub(crate) fn instead_of_error(
        &self,
        page_request: &PageRequest<'_>,
        status: Status,
    ) -> Option<Delivery> {
        if !is_server_error(status) {
            return None;
        }
        let mut delivery = page_request.stale_instead(self.shared, self.head(), self.now())?;
        delivery.account.facts.forward_status = Some(status);
        Some(delivery)
    }

    /// Takes a shareable response: checks that it is the variant that this request selects and that
    /// the request may have it without validation.
    fn take_shared(
        &self,
        mut page_request: PageRequest<'a>,
        reason: Reason,
        answer: Arc<SharedResponse>,
        leads: bool,
    ) -> Step<'a> {
        let is_other = !answer.rule.matches(&self.head().fields, &answer.variant);
        if is_other && !is_planted(Defect::JoinOtherVariant) {
            return self.ask_again(page_request, Reason::MissVariant);
        }
        if !page_request.is_answered_by_head(&answer.head, self.head()) {
            return page_request.pass(reason);
        }
        if page_request.cannot_use(&answer.head.fields) {
            return page_request.pass(Reason::MissVariant);
        }
        if !leads && self.is_invalidated(&page_request, &answer.tags, answer.begun, &answer.head) {
            return self.ask_again(page_request, reason);
        }
        let policy = page_request.subject.site.policy();
        let usable = reuse(&answer.freshness, &page_request.directives, policy, self.now());
        if !leads && matches!(usable, Reuse::Revalidate(_)) {
            // Each request needs its own validation, and doing that one after another would only
            // take longer.
            page_request.exclusive = true;
            return self.join(page_request, reason);
        }
        match answer.filling.reader() {
            Some(reader) => {
                let reason = match leads {
                    true if answer.stored => reason,
                    true => Reason::StoreRefusedTooLarge,
                    false => Reason::MissCollapsed,
                };
                // A cookie that the response sets is only for a client without one.
                let own = leads && !page_request.left_out.has_cookies();
                Step::Deliver(self.shared_delivery(answer, reader, reason, own))
            }
            // The body has become too large to be kept, so no reader can join any more.
            None => page_request.pass(reason),
        }
    }

    /// Looks up or fetches again, because the result of the fetch does not fit this request: it is
    /// another variant, outdated or unusable. After [`FETCHES_MAX`] fetches the request is sent
    /// alone.
    fn ask_again(&self, page_request: PageRequest<'a>, reason: Reason) -> Step<'a> {
        if page_request.fetches_joined < FETCHES_MAX {
            self.join(page_request, reason)
        } else {
            page_request.pass(reason)
        }
    }

    /// Whether a response was invalidated after its fetch began. The leader is not concerned: it
    /// asked before that.
    pub(crate) fn is_invalidated(
        &self,
        page_request: &PageRequest<'_>,
        tags: &[Bytes],
        begun: u64,
        head: &ResponseHead,
    ) -> bool {
        !self.shared.store.may_join(begun, &page_request.key, tags, head)
            || self.shared.equivalents.is_outdated(&page_request.key, &head.fields, begun)
    }

    /// Takes a stored response that the origin has confirmed or completed.
    fn take_confirmed(
        &self,
        mut page_request: PageRequest<'a>,
        reason: Reason,
        confirmed: &ConfirmedObject,
        leads: bool,
    ) -> Step<'a> {
        if !confirmed.rule.matches(&self.head().fields, &confirmed.variant) {
            return self.ask_again(page_request, Reason::MissVariant);
        }
        if page_request.is_unusable(&confirmed.object) {
            return page_request.pass(Reason::MissVariant);
        }
        let (object, now) = (&confirmed.object, self.now());
        if !page_request.is_answered_by(object, self.head()) {
            return page_request.pass(reason);
        }
        if !leads && self.is_invalidated(&page_request, &confirmed.tags, confirmed.begun, &object.head()) {
            return self.ask_again(page_request, reason);
        }
        let usable =
            reuse(&object.freshness(), &page_request.directives, page_request.subject.site.policy(), now);
        if let Reuse::Revalidate(reason) = usable
            && !leads
        {
            page_request.exclusive = true;
            return self.join(page_request, reason);
        }
        let facts = CacheStatusFacts {
            ttl_secs: Some(object.freshness().ttl_secs(now)),
            forward_status: Some(confirmed.status),
            stored: true,
            collapsed: !leads,
        };
        let age_secs = Some(object.freshness().age(now).as_secs());
        let reason = match confirmed.status {
            Status::NOT_MODIFIED => Reason::HitRevalidated,
            _ if leads => reason,
            _ => Reason::MissCollapsed,
        };
        let account = ResponseAccount { reason, facts, age_secs };
        Step::Deliver(Delivery::stored(Arc::clone(object), account))
    }

    /// Takes a response that is for the leader only, because the fetch may have carried its fields.
    /// Followers send their own requests.
    fn take_private(
        &self,
        page_request: PageRequest<'a>,
        reason: Reason,
        answer: &PrivateResponse,
        leads: bool,
    ) -> Step<'a> {
        if answer.reason != Reason::StoreRefusedMaintenance
            && let Some(delivery) = self.instead_of_error(&page_request, answer.status)
        {
            return Step::Deliver(delivery);
        }
        // Otherwise the fetch ignored a part of the request that its response may depend on, or was
        // for another target.
        let is_whole = page_request.left_out.reason().is_none() && !page_request.own_target.is_another();
        let is_selected = answer.selection.includes(&self.head().fields);
        let claimed = if leads && is_whole && is_selected { answer.claim() } else { None };
        match claimed {
            Some(response) if !page_request.cannot_use(&response.head.fields) => {
                let facts = CacheStatusFacts {
                    forward_status: Some(response.head.status),
                    ..CacheStatusFacts::default()
                };
                let account = ResponseAccount { reason: answer.reason, facts, age_secs: None };
                Step::Deliver(Delivery { content: ContentSource::Claimed(response), account })
            }
            _ => page_request.pass(reason),
        }
    }

    /// Delivers a response whose body is arriving. `own` is true for the leader.
    pub(crate) fn shared_delivery(
        &self,
        answer: Arc<SharedResponse>,
        reader: FillingReader,
        reason: Reason,
        own: bool,
    ) -> Delivery {
        let now = self.now();
        let facts = CacheStatusFacts {
            ttl_secs: Some(answer.freshness.ttl_secs(now)),
            forward_status: Some(answer.head.status),
            stored: answer.stored,
            collapsed: !own,
        };
        let age_secs = Some(answer.freshness.age(now).as_secs());
        let content = ContentSource::Filling { answer, reader, own };
        Delivery { content, account: ResponseAccount { reason, facts, age_secs } }
    }
}

/// The status of the response to a fetch, or the kind of its failure.
fn fetch_outcome(state: &FetchState) -> Result<u16, &'static str> {
    match state {
        FetchState::Waiting => Err("waiting"),
        FetchState::Shared(answer) => Ok(answer.head.status.code()),
        FetchState::Confirmed(confirmed) => Ok(confirmed.status.code()),
        FetchState::Private(answer) => Ok(answer.status.code()),
        FetchState::Denied => Err("denied"),
        FetchState::Void => Err("unusable"),
        FetchState::Failed(error) => Err(failure_name(error)),
    }
}

/// A time that no request waits for.
fn far_away() -> Instant {
    Instant::now() + std::time::Duration::from_secs(86_400)
}
