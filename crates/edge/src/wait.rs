//! *wait*: a request takes part in a flight until it has something to deliver, or goes on by itself.
//!
//! Invariant: waiting for others is limited; what may not be shared with this request is not delivered to it; and
//! where the origin fails or is slow, a stale answer that may be used is used.

use crate::counters::Metric;
use crate::delivery::{Content, Delivery};
use crate::flight::{Confirmed, PrivateAnswer, Progress, SharedAnswer, State};
use crate::lookup::Wanted;
use crate::pipeline::{Step, Visit, Waiting};
use crate::refusal::Refusal;
use crate::respond::Account;
use bytes::Bytes;
use message::{ResponseHead, Status};
use origin::FetchError;
use semantics::{CacheStatusFacts, Forwarding, Reason, Reuse, is_server_error, reuse};
use std::sync::Arc;
use store::FillingReader;
use tokio::time::Instant;

/// How often a request may take part in a flight whose answer turns out to be for another variant than its own,
/// before it fetches by itself.
pub(crate) const FLIGHTS_MAX: u32 = 3;

impl<'a> Visit<'a> {
    /// *wait*: until the flight has an answer, passing on what it is told before. Who leads waits as long as the
    /// application may take; who follows has a limit, after which it goes to the application by itself. Neither waits
    /// longer than `limits.stale_wait` while a stale answer lies ready, or than `limits.flight_wait` if that was
    /// invalidated.
    pub(crate) async fn wait(&mut self, waiting: Waiting<'a>) -> Step<'a> {
        let Waiting { mut wanted, reason, mut receiver, leads } = waiting;
        let limits = &self.shared.limits;
        let own_end = *wanted.patience_ends.get_or_insert_with(|| Instant::now() + limits.flight_wait);
        // A flight that is late already is not waited for again by everybody who could have something stale.
        // Who asked for a newer answer than the stored one is given the time to get it.
        let reloads = reason == Reason::MissReload;
        let patience = if reloads { limits.flight_wait } else { limits.stale_wait };
        let mut end = own_end.min(receiver.borrow().departed + patience);
        let (mut informed, mut is_silent) = (0, false);
        loop {
            let Progress { hints, state, .. } = receiver.borrow_and_update().clone();
            for hint in hints.into_iter().skip(informed) {
                informed += 1;
                self.inform(hint).await;
            }
            match state {
                State::Waiting => {}
                State::Shared(answer) => return self.take_shared(wanted, reason, answer, leads),
                State::Confirmed(confirmed) => return self.take_confirmed(wanted, reason, &confirmed, leads),
                State::Private(answer) if !leads && self.is_failure(&wanted, &answer) => {
                    return self.wait_out(wanted, reason).await;
                }
                State::Private(answer) => return self.take_private(wanted, reason, &answer, leads),
                State::Denied => return wanted.pass(Reason::StoreRefusedDenied),
                State::Void => return self.ask_again(wanted, reason),
                State::Failed(error) => return self.fail(&wanted, &error),
            }
            let changed = tokio::select! {
                changed = tokio::time::timeout_at(end, receiver.changed()) => changed,
                // Where no connection can be made, the flight fails by itself in a moment.
                () = wanted.subject.site.origin.fallen_silent(), if !is_silent => {
                    is_silent = true;
                    match self.when_silent(&wanted) {
                        Some(delivery) => return Step::Deliver(delivery),
                        None => continue,
                    }
                }
            };
            match changed {
                Ok(Ok(())) => {}
                // The flight never began.
                Ok(Err(_)) => return wanted.pass(reason),
                Err(_) => match self.when_late(&wanted, end == own_end) {
                    Some(delivery) => return Step::Deliver(delivery),
                    None if end < own_end => end = own_end,
                    None if leads => end = far_away(),
                    None => {
                        self.cells().count(Metric::FlightWaitTimeouts);
                        return wanted.pass(reason);
                    }
                },
            }
        }
    }

    /// The stale answer for a visitor that waits when the origin falls silent.
    fn when_silent(&self, wanted: &Wanted<'_>) -> Option<Delivery> {
        let mut delivery = self.when_late(wanted, false)?;
        delivery.account.reason = Reason::StaleBreakerOpen;
        self.cells().count(Metric::BreakerStale);
        Some(delivery)
    }

    /// The stale answer for a visitor that has waited long enough; after all of its patience also one that was
    /// invalidated.
    pub(crate) fn when_late(&self, wanted: &Wanted<'_>, is_over: bool) -> Option<Delivery> {
        if !is_over && wanted.is_invalidated(self.shared, self.head()) {
            return None;
        }
        let mut delivery = wanted.stale_instead(self.shared, self.head(), self.now())?;
        delivery.account.reason = Reason::StaleOriginSlow;
        Some(delivery)
    }

    /// There is no answer from the origin: a stale one, or the explanation.
    pub(crate) fn fail(&self, wanted: &Wanted<'_>, error: &FetchError) -> Step<'a> {
        // What was invalidated is sent only if the origin was asked and has failed.
        let is_unasked = matches!(error, FetchError::BreakerOpen);
        let stale = if is_unasked && wanted.is_invalidated(self.shared, self.head()) {
            None
        } else {
            wanted.stale_instead(self.shared, self.head(), self.now())
        };
        match stale {
            Some(delivery) => Step::Deliver(delivery),
            None => Step::Refuse(wanted.subject.site.refusal(|origin| Refusal::failed_fetch(error, origin))),
        }
    }

    /// Whether an answer says that the origin fails on the page, and nothing can stand in for it. Where a fetch carries
    /// what its visitor sent, that may have been the cause.
    fn is_failure(&self, wanted: &Wanted<'_>, answer: &PrivateAnswer) -> bool {
        let alike = wanted.subject.site.policy().forwarding != Forwarding::Everything;
        is_server_error(answer.status)
            && answer.reason != Reason::StoreRefusedMaintenance
            && alike
            && wanted.stale_instead(self.shared, self.head(), self.now()).is_none()
    }

    /// The origin has failed on the page: it is left alone for a moment, and then asked by one for all who wait.
    async fn wait_out(&self, wanted: Wanted<'a>, reason: Reason) -> Step<'a> {
        if wanted.flights >= FLIGHTS_MAX {
            return Step::Refuse(wanted.subject.site.refusal(Refusal::failing_origin));
        }
        self.cells().count(Metric::FailurePauses);
        tokio::time::sleep(self.shared.limits.failure_pause).await;
        self.join(wanted, reason)
    }

    /// A stale answer in place of one that tells of an error of the origin, if there is one.
    pub(crate) fn instead_of_error(&self, wanted: &Wanted<'_>, status: Status) -> Option<Delivery> {
        if !is_server_error(status) {
            return None;
        }
        let mut delivery = wanted.stale_instead(self.shared, self.head(), self.now())?;
        delivery.account.facts.forward_status = Some(status);
        Some(delivery)
    }

    /// A flight's answer may be shared: is it the variant that this request selects, and may it have it unasked?
    fn take_shared(
        &self,
        mut wanted: Wanted<'a>,
        reason: Reason,
        answer: Arc<SharedAnswer>,
        leads: bool,
    ) -> Step<'a> {
        if !answer.rule.matches(&self.head().fields, &answer.variant) {
            return self.ask_again(wanted, Reason::MissVariant);
        }
        if !wanted.is_answered_by_head(&answer.head, self.head()) {
            return wanted.pass(reason);
        }
        if wanted.cannot_use(&answer.head.fields) {
            return wanted.pass(Reason::MissVariant);
        }
        if !leads && self.is_invalidated(&wanted, &answer.tags, answer.begun, &answer.head) {
            return self.ask_again(wanted, reason);
        }
        let policy = wanted.subject.site.policy();
        let usable = reuse(&answer.freshness, &wanted.directives, policy, self.now());
        if !leads && matches!(usable, Reuse::Revalidate(_)) {
            // Each must ask for itself; asking one after the other would only take longer.
            wanted.solo = true;
            return self.join(wanted, reason);
        }
        match answer.filling.reader() {
            Some(reader) => {
                let reason = match leads {
                    true if answer.stored => reason,
                    true => Reason::StoreRefusedTooLarge,
                    false => Reason::MissCollapsed,
                };
                // A cookie that the response sets is for a visitor without one.
                let own = leads && !wanted.left_out.has_cookies();
                Step::Deliver(self.shared_delivery(answer, reader, reason, own))
            }
            // It has become too large to be kept, and nobody can join any more.
            None => wanted.pass(reason),
        }
    }

    /// The flight's answer is not for this request: it is for another variant, the request's own is fetched with the
    /// rule known; or out of date; or of no use. If that goes on, it goes to the application by itself.
    fn ask_again(&self, wanted: Wanted<'a>, reason: Reason) -> Step<'a> {
        if wanted.flights < FLIGHTS_MAX { self.join(wanted, reason) } else { wanted.pass(reason) }
    }

    /// Whether an answer was invalidated after its fetch began. Who leads asked before that.
    pub(crate) fn is_invalidated(
        &self,
        wanted: &Wanted<'_>,
        tags: &[Bytes],
        begun: u64,
        head: &ResponseHead,
    ) -> bool {
        !self.shared.store.may_join(begun, &wanted.key, tags, head)
            || self.shared.equivalents.is_outdated(&wanted.key, &head.fields, begun)
    }

    /// The origin has confirmed what is stored, or completed it.
    fn take_confirmed(
        &self,
        mut wanted: Wanted<'a>,
        reason: Reason,
        confirmed: &Confirmed,
        leads: bool,
    ) -> Step<'a> {
        if !confirmed.rule.matches(&self.head().fields, &confirmed.variant) {
            return self.ask_again(wanted, Reason::MissVariant);
        }
        if wanted.is_unusable(&confirmed.object) {
            return wanted.pass(Reason::MissVariant);
        }
        let (object, now) = (&confirmed.object, self.now());
        if !wanted.is_answered_by(object, self.head()) {
            return wanted.pass(reason);
        }
        if !leads && self.is_invalidated(&wanted, &confirmed.tags, confirmed.begun, &object.head()) {
            return self.ask_again(wanted, reason);
        }
        let usable = reuse(&object.freshness(), &wanted.directives, wanted.subject.site.policy(), now);
        if let Reuse::Revalidate(reason) = usable
            && !leads
        {
            wanted.solo = true;
            return self.join(wanted, reason);
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
        let account = Account { reason, facts, age_secs };
        Step::Deliver(Delivery::stored(Arc::clone(object), account))
    }

    /// A flight's answer is for the visitor who leads, as the fetch may have carried what that one sent. The others go
    /// to the application by themselves.
    fn take_private(
        &self,
        wanted: Wanted<'a>,
        reason: Reason,
        answer: &PrivateAnswer,
        leads: bool,
    ) -> Step<'a> {
        if answer.reason != Reason::StoreRefusedMaintenance
            && let Some(delivery) = self.instead_of_error(&wanted, answer.status)
        {
            return Step::Deliver(delivery);
        }
        // Else the fetch has left out what the request's own may depend on, or was for another target.
        let is_whole = wanted.left_out.reason().is_none() && !wanted.asked_target.is_another();
        let is_selected = answer.selection.includes(&self.head().fields);
        let claimed = if leads && is_whole && is_selected { answer.claim() } else { None };
        match claimed {
            Some(parcel) if !wanted.cannot_use(&parcel.head.fields) => {
                let facts = CacheStatusFacts {
                    forward_status: Some(parcel.head.status),
                    ..CacheStatusFacts::default()
                };
                let account = Account { reason: answer.reason, facts, age_secs: None };
                Step::Deliver(Delivery { content: Content::Claimed(parcel), account })
            }
            _ => wanted.pass(reason),
        }
    }

    /// A response that fills, for this request; `own` says that it is the one that asked for it.
    pub(crate) fn shared_delivery(
        &self,
        answer: Arc<SharedAnswer>,
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
        let content = Content::Filling { answer, reader, own };
        Delivery { content, account: Account { reason, facts, age_secs } }
    }
}

/// A moment that no request waits for.
fn far_away() -> Instant {
    Instant::now() + std::time::Duration::from_secs(86_400)
}
