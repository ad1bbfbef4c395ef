//! Joins the coalesced fetch that serves a request, or starts one.
//!
//! Invariant: a request that finds neither a response nor a fetch starts one. A background refresh
//! starts only if no equal fetch is under way.

use crate::control::counters::Metric;
use crate::fetch::base::Base;
use crate::fetch::coalesced_fetch::{CoalescedFetch, FetchDemand, SharedResponse};
use crate::fetch::fetch_table::JoinResult;
use crate::fetch::table_entry::TableEntry;
use crate::fetch::task::{self, FetchTask};
use crate::request::client_address::client_of;
use crate::request::forward;
use crate::request::lookup::{LookupResult, PageRequest, Touch};
use crate::request::refusal::Refusal;
use crate::request::step::{FetchWait, Step};
use crate::request::visit::Visit;
use crate::shared::Shared;
use message::{Fields, Method, RequestHead};
use origin::{FetchRequest, ProbeTurn};
use semantics::{Moment, Reason, Reuse, VaryRule, is_robot, reuse, selecting_rule};
use std::sync::Arc;
use store::{ContentPart, Object};

impl<'a> Visit<'a> {
    pub(crate) fn find(&self, page_request: &PageRequest<'_>, touch: Touch, now: Moment) -> LookupResult {
        page_request.find(self.shared, self.head(), touch, now)
    }

    /// Joins the fetch for the requested page, or starts it.
    pub(crate) fn join(&self, mut page_request: PageRequest<'a>, reason: Reason) -> Step<'a> {
        let mut base = None;
        let find = || match self.find(&page_request, Touch::No, self.now()) {
            LookupResult::Deliver(delivery) | LookupResult::Refresh(delivery, _) => Some(delivery),
            // It was in memory a moment ago, and was evicted or replaced since.
            LookupResult::OnDisk(_) | LookupResult::Unfit | LookupResult::Unusable => None,
            LookupResult::Fetch(_, stored) => {
                base = stored;
                None
            }
        };
        let joined =
            page_request.join_fetch(self.shared, self.head(), &self.request.head.fields, self.now(), find);
        match joined {
            JoinResult::Found(delivery) => Step::Deliver(delivery),
            JoinResult::Filling(answer, _)
                if !page_request.is_answered_by_head(&answer.head, self.head()) =>
            {
                page_request.pass(reason)
            }
            JoinResult::Filling(answer, _) if page_request.cannot_use(&answer.head.fields) => {
                page_request.pass(Reason::MissVariant)
            }
            JoinResult::Filling(answer, reader) => {
                self.cells().count(Metric::FlightWaits);
                Step::Deliver(self.shared_delivery(answer, reader, Reason::MissCollapsed, false))
            }
            JoinResult::Waiter(receiver) => {
                self.cells().count(Metric::FlightWaits);
                page_request.fetches_joined += 1;
                Step::Wait(FetchWait { page_request, reason, receiver, leads: false })
            }
            JoinResult::Leader(fetch) => {
                // Checked after the fetch has its sequence number: a later change of the site's
                // rules then invalidates the response.
                if page_request.is_outdated() {
                    self.shared.fetches.remove(&page_request.key, &fetch);
                    return Step::Guard;
                }
                if let Some(refusal) = self.refused_origin_work() {
                    self.shared.fetches.remove(&page_request.key, &fetch);
                    return Step::Refuse(refusal);
                }
                page_request.fetches_joined += 1;
                let receiver = fetch.subscribe();
                match self.start(&page_request, fetch, base, None) {
                    Ok(()) => Step::Wait(FetchWait { page_request, reason, receiver, leads: true }),
                    Err(refusal) => Step::Refuse(refusal),
                }
            }
        }
    }

    /// Starts a background fetch that replaces a stale response, unless one is under way. While the
    /// origin's breaker is open, only the next probe is sent.
    pub(crate) fn refresh_in_background(&self, page_request: &PageRequest<'_>, stale: Base) {
        let origin = &page_request.subject.site.origin;
        let is_probe = origin.is_open();
        let is_paused = if is_probe {
            !origin.is_probe_due()
        } else {
            self.shared.recently_failed.reason(&page_request.key, self.begun.monotonic).is_some()
        };
        if is_paused {
            self.cells().count(Metric::RefreshesPaused);
            return;
        }
        let Some(fetch) = page_request.renew(self.shared, self.head(), &stale.object, self.now()) else {
            return;
        };
        // The probe is claimed only now: a page already being fetched would waste it.
        let probe = if is_probe { origin.claim_probe() } else { None };
        if is_probe && probe.is_none() {
            self.shared.fetches.remove(&page_request.key, &fetch);
            return;
        }
        self.cells().count(Metric::BackgroundRefreshes);
        // A request that cannot be written was refused to clients before its response was ever
        // stored.
        let _ = self.start(page_request, fetch, Some(stale), probe);
    }

    /// Starts a fetch as a separate task. `base` is the stored response that the origin may
    /// confirm.
    fn start(
        &self,
        page_request: &PageRequest<'_>,
        fetch: Arc<CoalescedFetch>,
        base: Option<Base>,
        probe: Option<Arc<ProbeTurn>>,
    ) -> Result<(), Refusal> {
        let (subject, key) = (&page_request.subject, &page_request.key);
        let completable = |part: &ContentPart| {
            part.extent.complete.is_none_or(|bytes| bytes <= self.shared.limits.object_bytes_max)
        };
        // A stored part is not completed if the whole is too large to be stored.
        let base = base.filter(|base| fetch.range().is_some() || base.object.part().is_none_or(completable));
        let head = forward::shared_head(
            subject,
            &self.shared.loop_mark,
            key,
            Method::Get,
            &self.head().fields,
            fetch.known(),
        );
        let policy = subject.site.policy();
        let mut asks = forward::fetch_fields(fetch.range(), base.as_ref(), &self.head().fields, policy);
        let trace = forward::begin_trace(self.shared, &mut asks);
        let Ok(request) = forward::without_content(&forward::with_fields(&head, asks)) else {
            self.shared.fetches.remove(key, &fetch);
            return Err(Refusal::unwritable());
        };
        task::start(FetchTask {
            shared: Arc::clone(self.shared),
            worker: self.worker,
            site: Arc::clone(subject.site),
            key: key.clone(),
            head,
            request: FetchRequest { probe, ..request },
            entry: TableEntry::of(self.shared, key, &fetch),
            fetch,
            base: base.map(|base| base.object),
            impersonal: forward::is_impersonal(subject),
            trace,
        });
        Ok(())
    }
}

impl PageRequest<'_> {
    /// The fields that stored responses for the key vary on, and those by which the request itself
    /// selects.
    fn known_rule(&self, shared: &Shared, head: &RequestHead) -> VaryRule {
        shared.store.known_rule(&self.key).union(&selecting_rule(&head.fields, self.subject.site.policy()))
    }

    /// Asks the table of coalesced fetches for one that serves the request, unless `find` now finds
    /// a stored response. Otherwise returns a new fetch, which the caller must start. `head` is the
    /// request as it was looked up, `sent` are the client's own fields.
    pub(crate) fn join_fetch<T>(
        &self,
        shared: &Shared,
        head: &RequestHead,
        sent: &Fields,
        now: Moment,
        find: impl FnOnce() -> Option<T>,
    ) -> JoinResult<T> {
        let usable = |answer: &SharedResponse| {
            let reused = reuse(&answer.freshness, &self.directives, self.subject.site.policy(), now);
            let current = shared.store.may_join(answer.begun, &self.key, &answer.tags, &answer.head);
            current && !matches!(reused, Reuse::Revalidate(_))
        };
        let client = client_of(shared, &self.subject, &head.fields);
        let (range, exclusive, is_robot) = (self.range.as_deref(), self.exclusive, is_robot(sent));
        let demand = FetchDemand { fields: &head.fields, range, exclusive, is_robot, client };
        let (known, begun) = (|| self.known_rule(shared, head), || shared.store.sequence());
        shared.fetches.join(&self.key, demand, known, begun, find, usable)
    }

    /// A fetch that renews a stale response, or `None` if one is under way or the stored response
    /// is fresh again. A response that is stored whole is renewed whole, even if the client wanted
    /// a part.
    pub(crate) fn renew(
        &self,
        shared: &Shared,
        head: &RequestHead,
        stale: &Object,
        now: Moment,
    ) -> Option<Arc<CoalescedFetch>> {
        let range = self.range.as_deref().filter(|_| stale.part().is_some());
        let demand = FetchDemand {
            fields: &head.fields,
            range,
            exclusive: self.exclusive,
            is_robot: true,
            client: None,
        };
        let (known, begun) = (|| self.known_rule(shared, head), || shared.store.sequence());
        let is_renewed = || matches!(self.find(shared, head, Touch::No, now), LookupResult::Deliver(_));
        shared.fetches.renew(&self.key, demand, known, begun, is_renewed)
    }
}
