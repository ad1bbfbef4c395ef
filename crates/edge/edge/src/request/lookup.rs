//! *lookup*: finds the stored response for a request and decides the next step.
//!
//! Invariant: the only side effect of this module is counting a use in the store, and [`Touch::No`]
//! avoids that too. A decision can therefore be computed without being carried out.

use crate::fetch::base::Base;
use crate::request::delivery::Delivery;
use crate::request::guard::RequestSubject;
use crate::request::own_target::OwnTarget;
use crate::request::respond::ResponseAccount;
use crate::shared::Shared;
use bytes::Bytes;
use message::{Fields, Method, RequestHead, ResponseHead, names};
use profiles::{Forwarding, Policy};
use semantics::{
    AcceptedCodings, CacheStatusFacts, Directives, Doubt, Freshness, LeftOut, Moment, Reason, Reuse,
    WithoutGzip, answer_range_from_part, asks_for_newer, is_personal, refuses_gzip, reuse, reuse_on_error,
    wants_part_of_form, without_gzip,
};
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Lookup, Object, ShelvedObject};
use tokio::time::Instant;

/// A request whose response may be shared, as it is looked up.
pub(crate) struct PageRequest<'a> {
    pub(crate) subject: RequestSubject<'a>,
    pub(crate) key: Key,
    /// The client's own target, if the key is that of an equivalent target.
    pub(crate) own_target: OwnTarget,
    pub(crate) directives: Directives,
    /// The parts of the request that the look-up ignores.
    pub(crate) left_out: LeftOut,
    /// The value of `Range`, if a part of the content is wanted.
    pub(crate) range: Option<Bytes>,
    /// Whether the request shares no fetch with others, whatever the response is.
    pub(crate) exclusive: bool,
    /// The content codings that the client accepts.
    pub(crate) accepted: AcceptedCodings,
    /// Whether the client does not accept gzip, and must be given another form.
    refuses_gzip: bool,
    /// Why the page is fetched even if it is stored.
    pub(crate) must_fetch: Option<FetchOrder>,
    /// Number of coalesced fetches that this request has taken part in.
    pub(crate) fetches_joined: u32,
    /// Number of times that the stored object had to be read from disk.
    pub(crate) disk_reads: u32,
    /// When the request stops waiting for other requests' fetches; set by the first wait.
    pub(crate) patience_ends: Option<Instant>,
}

/// After this many disk reads whose result was evicted before use, the request goes to the origin.
pub(crate) const DISK_READS_MAX: u32 = 3;

/// The store's result for a request.
pub(crate) enum LookupResult {
    /// A response that may be delivered.
    Deliver(Delivery),
    /// A stale response that may be delivered while a newer one is fetched in the background.
    Refresh(Delivery, Base),
    /// An object on disk, which must be read before it can be judged.
    OnDisk(ShelvedObject),
    /// A response that may not be used because of the request's own target, or of a part that the
    /// look-up ignored.
    Unfit,
    /// A response whose coding this client refuses and that cannot be decoded.
    Unusable,
    /// No response that may be used without the origin, and why. The object, if there is one, may
    /// be confirmed by the fetch or delivered if the fetch fails.
    Fetch(Reason, Option<Base>),
}

/// The next step after a look-up.
pub(crate) enum Decision {
    /// Deliver the stored response.
    Deliver(Delivery),
    /// Deliver the stored response and fetch a newer one in the background.
    Refresh(Delivery, Base),
    /// Deliver a stale response at once, because the origin's breaker is open or its last fetch of
    /// the page has just failed. If a probe is due, it fetches a newer response in the background.
    StaleInstead(Delivery, Base),
    /// Read the object from disk, then look up again.
    Read(ShelvedObject),
    /// Refuse: the request has `only-if-cached`, and no stored response may be used.
    OnlyIfCached,
    /// Send the request to the origin, without sharing its response.
    Pass(Reason),
    /// Join a coalesced fetch or start one. If `exclusive`, no other request joins it.
    Fetch { reason: Reason, exclusive: bool },
}

/// Why a page is fetched even if it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchOrder {
    /// A client ordered it.
    Refresh,
    /// The disk did not give the stored response, so that the origin cannot confirm it.
    Unread,
}

/// Whether a look-up counts as a use of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Yes,
    No,
}

impl<'a> PageRequest<'a> {
    /// Whether the site's rules have changed since the request was read.
    pub(crate) fn is_outdated(&self) -> bool {
        self.subject.rules != self.subject.site.rules()
    }

    /// The look-up of a request that was classified as shareable.
    pub(crate) fn new(
        shared: &Shared,
        subject: RequestSubject<'a>,
        head: &RequestHead,
        directives: Directives,
    ) -> Self {
        let wants_part = head.method == Method::Get && !wants_part_of_form(&head.fields);
        // A part of a template is no part of its page.
        let may_want = |_: &&Bytes| wants_part && !subject.site.plan.esi;
        let range = head.fields.first(names::RANGE).filter(may_want).cloned();
        let exclusive = is_personal(&head.fields, subject.site.policy());
        let accepted = AcceptedCodings::of(&head.fields);
        let refuses_gzip = refuses_gzip(accepted, subject.site.policy());
        let (key, own_target) = OwnTarget::looked_up(shared, subject.key(), &head.fields);
        Self {
            subject,
            key,
            own_target,
            directives,
            left_out: LeftOut::default(),
            range,
            exclusive,
            accepted,
            refuses_gzip,
            must_fetch: None,
            fetches_joined: 0,
            disk_reads: 0,
            patience_ends: None,
        }
    }

    /// Decides the next step of the request.
    pub(crate) fn decide(&self, shared: &Shared, head: &RequestHead, touch: Touch, now: Moment) -> Decision {
        let (reason, base) = match self.find(shared, head, touch, now) {
            LookupResult::Deliver(delivery) => return Decision::Deliver(delivery),
            LookupResult::Refresh(delivery, base) => return Decision::Refresh(delivery, base),
            LookupResult::OnDisk(shelved) => return Decision::Read(shelved),
            LookupResult::Unfit => {
                return Decision::Pass(self.left_out.reason().unwrap_or(Reason::MissVariant));
            }
            LookupResult::Unusable if !self.directives.only_if_cached => {
                return Decision::Pass(Reason::MissVariant);
            }
            LookupResult::Unusable => return Decision::OnlyIfCached,
            LookupResult::Fetch(reason, base) => (reason, base),
        };
        if self.directives.only_if_cached {
            return Decision::OnlyIfCached;
        }
        if let Some(base) = &base
            && let Some(delivery) = self.stale_at_once(shared, head, (base, reason), now)
        {
            return Decision::StaleInstead(delivery, base.clone());
        }
        let remembered = shared.hit_for_miss.reason(&self.key, now.monotonic);
        if remembered == Some(Reason::StoreRefusedDenied) {
            return Decision::Pass(reason);
        }
        let hit_for_miss = remembered.is_some();
        // A response that cannot be shared may depend on anything its client sent, so it is fetched
        // with all of that.
        let everything = self.subject.site.policy().forwarding == Forwarding::Everything;
        // A HEAD request fetches the page for later requests, unless the page is known not to be
        // shareable. If an object is stored, the HEAD request's own response says whether it is
        // still current.
        if head.method == Method::Head && (hit_for_miss || everything || self.exclusive || base.is_some()) {
            return Decision::Pass(reason);
        }
        if hit_for_miss && !everything && base.is_none() {
            return Decision::Pass(reason);
        }
        Decision::Fetch { reason, exclusive: hit_for_miss }
    }

    /// Finds the stored response for the request and judges it.
    pub(crate) fn find(
        &self,
        shared: &Shared,
        head: &RequestHead,
        touch: Touch,
        now: Moment,
    ) -> LookupResult {
        let looked_up = match touch {
            Touch::Yes => shared.store.lookup(&self.key, &head.fields),
            Touch::No => shared.store.peek(&self.key, &head.fields),
        };
        let (object, softened) = match looked_up {
            Lookup::Found { object, softened } => (object, softened),
            Lookup::Shelved(shelved) if self.disk_reads < DISK_READS_MAX => {
                return LookupResult::OnDisk(shelved);
            }
            Lookup::Shelved(_) => return LookupResult::Fetch(Reason::MissAbsent, None),
            Lookup::NoVariant => return LookupResult::Fetch(Reason::MissVariant, None),
            Lookup::Absent => return LookupResult::Fetch(Reason::MissAbsent, None),
        };
        if !self.is_answered_by(&object, head) {
            return LookupResult::Unfit;
        }
        if self.is_unusable(&object) {
            return LookupResult::Unusable;
        }
        match self.must_fetch {
            None => {}
            Some(FetchOrder::Refresh) => {
                return LookupResult::Fetch(Reason::MissRefresh, Some(Base::new(object, true)));
            }
            Some(FetchOrder::Unread) => return LookupResult::Fetch(Reason::MissAbsent, None),
        }
        if !self.is_served_by(&object, head) {
            return LookupResult::Fetch(Reason::MissPart, Some(Base::new(object, softened)));
        }
        let policy = self.subject.site.policy();
        match reuse(&freshness(&object, softened, policy), &self.directives, policy, now) {
            Reuse::Fresh { age_secs, ttl_secs } => {
                let received = object.freshness().received.monotonic;
                if self.subject.site.writes.is_to_be_refreshed(received, now.monotonic)
                    || shared.page_refreshes.is_due(&self.key, received, now.monotonic)
                {
                    let reason = Reason::StaleWhileRevalidate;
                    let delivery = stored(Arc::clone(&object), reason, age_secs, ttl_secs);
                    // A write has changed the page, so the object counts as invalidated: its
                    // validators must prove more than those of an expired one.
                    return LookupResult::Refresh(delivery, Base::new(object, true));
                }
                LookupResult::Deliver(stored(object, Reason::HitFresh, age_secs, ttl_secs))
            }
            Reuse::Stale { refresh: true, .. } if self.is_closed(shared, now) => {
                LookupResult::Fetch(Reason::MissExpired, Some(Base::new(object, softened)))
            }
            Reuse::Stale { age_secs, ttl_secs, reason, refresh } => {
                let delivery = stored(Arc::clone(&object), reason, age_secs, ttl_secs);
                if refresh {
                    LookupResult::Refresh(delivery, Base::new(object, softened))
                } else {
                    LookupResult::Deliver(delivery)
                }
            }
            Reuse::Revalidate(reason) => {
                let reason = if softened { Reason::MissInvalidated } else { reason };
                LookupResult::Fetch(reason, Some(Base::new(object, softened)))
            }
        }
    }

    /// Whether the origin reported maintenance mode a short while ago.
    fn is_closed(&self, shared: &Shared, now: Moment) -> bool {
        shared.hit_for_miss.reason(&self.key, now.monotonic) == Some(Reason::StoreRefusedMaintenance)
    }

    /// The stale response sent at once because the origin's breaker is open, because requests wait
    /// long in its queue, because it failed on the page less than `limits.failure_pause` ago, or
    /// because the response is expected later than the request may wait (`limits.stale_wait`). An
    /// invalidated response is not sent here: it is sent only after the origin was asked for this
    /// request and failed. A reload waits for a slow origin, and so does each request under a
    /// policy to the letter: RFC 5861 permits the response after an error, not before it.
    fn stale_at_once(
        &self,
        shared: &Shared,
        head: &RequestHead,
        (base, why): (&Base, Reason),
        now: Moment,
    ) -> Option<Delivery> {
        if base.doubt == Doubt::Invalidated {
            return None;
        }
        let origin = &self.subject.site.origin;
        let is_open = origin.is_open();
        let has_failed =
            || shared.recently_failed.reason(&self.key, now.monotonic) == Some(Reason::OriginFailing);
        // Visitors see a page about maintenance instead of stale ones.
        let is_busy = shared.plan.guard.stale_when_busy && origin.is_busy() && !self.is_closed(shared, now);
        let is_late = || {
            let reloads =
                why == Reason::MissReload || asks_for_newer(&base.object.freshness(), &self.directives, now);
            let may_expect = !reloads && self.subject.site.policy().forwarding != Forwarding::Everything;
            let is_page_late = || shared.late_pages.reason(&self.key, now.monotonic).is_some();
            may_expect && !self.is_closed(shared, now) && (origin.is_slow() || is_page_late())
        };
        let because = match () {
            () if is_open => Some(Reason::StaleBreakerOpen),
            () if is_busy => Some(Reason::StaleOriginBusy),
            () if has_failed() => None,
            () if is_late() => Some(Reason::StaleOriginSlow),
            () => return None,
        };
        let mut delivery = self.stale_instead(shared, head, now)?;
        if delivery.account.reason != Reason::HitFresh {
            delivery.account.reason = because.unwrap_or(delivery.account.reason);
        }
        Some(delivery)
    }

    /// A stored response that may replace one that the origin fails to give.
    pub(crate) fn stale_instead(&self, shared: &Shared, head: &RequestHead, now: Moment) -> Option<Delivery> {
        let Lookup::Found { object, softened } = shared.store.peek(&self.key, &head.fields) else {
            return None;
        };
        if !self.is_served_by(&object, head)
            || !self.is_answered_by(&object, head)
            || self.is_unusable(&object)
        {
            return None;
        }
        match reuse_on_error(
            &freshness(&object, softened, self.subject.site.policy()),
            &self.directives,
            self.subject.site.policy(),
            now,
        )? {
            Reuse::Fresh { age_secs, ttl_secs } => Some(stored(object, Reason::HitFresh, age_secs, ttl_secs)),
            Reuse::Stale { age_secs, ttl_secs, reason, .. } => {
                Some(stored(object, reason, age_secs, ttl_secs))
            }
            Reuse::Revalidate(_) => None,
        }
    }

    /// The head of the stored response that the request selects, however old it is. `None` if no
    /// response in memory is for this request.
    pub(crate) fn stored_head(&self, shared: &Shared, head: &RequestHead) -> Option<ResponseHead> {
        // After a soft purge the origin may no longer give the page to this client.
        let Lookup::Found { object, softened: false } = shared.store.peek(&self.key, &head.fields) else {
            return None;
        };
        self.is_answered_by(&object, head).then(|| object.head())
    }

    /// Whether the object answers the request with its own target and with the parts that the
    /// look-up ignored.
    pub(crate) fn is_answered_by(&self, object: &Object, head: &RequestHead) -> bool {
        let concerns = |name: &[u8]| LeftOut::concerns(name) || OwnTarget::concerns(name);
        let is_looked_up_whole = self.left_out.reason().is_none() && !self.own_target.is_another();
        is_looked_up_whole || self.is_answered_by_head(&object.head_of(concerns), head)
    }

    /// As [`PageRequest::is_answered_by`], for a response whose content has not arrived yet.
    pub(crate) fn is_answered_by_head(&self, response: &ResponseHead, head: &RequestHead) -> bool {
        let (target, policy) = (&self.subject.target, self.subject.site.policy());
        self.own_target.is_answered(&self.key, &response.fields)
            && self.left_out.permits(target, &head.fields, response, policy)
    }

    /// Whether a stored response cannot be decoded for this client.
    pub(crate) fn is_unusable(&self, object: &Object) -> bool {
        self.refuses_gzip && stored_without_gzip(object) == WithoutGzip::Unusable
    }

    /// Whether a response with these fields cannot be decoded for this client.
    pub(crate) fn cannot_use(&self, fields: &Fields) -> bool {
        self.refuses_gzip && without_gzip(fields) == WithoutGzip::Unusable
    }

    /// Whether the stored response counts as invalidated, by a purge or by the request itself.
    pub(crate) fn is_invalidated(&self, shared: &Shared, head: &RequestHead) -> bool {
        self.must_fetch.is_some()
            || matches!(shared.store.peek(&self.key, &head.fields), Lookup::Found { softened: true, .. })
    }

    /// Whether the object holds the part of the content that the request wants.
    fn is_served_by(&self, object: &Object, head: &RequestHead) -> bool {
        let Some(part) = object.part() else { return true };
        let Some(range) = &self.range else { return false };
        let same_question =
            !part.asked.is_empty() && *range == part.asked && !head.fields.has(names::IF_RANGE);
        same_question
            || answer_range_from_part(&head.method, &head.fields, &object.head(), part.extent).is_some()
    }
}

/// The form of a stored response for a client that refuses gzip. Most responses have no coding, and
/// then their head is not parsed.
pub(crate) fn stored_without_gzip(object: &Object) -> WithoutGzip {
    if object.is_coded() { without_gzip(&object.head().fields) } else { WithoutGzip::AsIs }
}

/// The freshness of a stored response. A softly purged one counts as stale from the start.
pub(crate) fn freshness(object: &Object, softened: bool, policy: &Policy) -> Freshness {
    let freshness = object.freshness();
    if !softened {
        return freshness;
    }
    // A grace period from the policy is for pages that were not reported as changed, so it ends
    // here.
    let given = freshness.while_revalidate <= policy.grace;
    let while_revalidate = if given { Duration::ZERO } else { freshness.while_revalidate };
    Freshness { lifetime: Duration::ZERO, while_revalidate, ..freshness }
}

/// The delivery of a stored response.
fn stored(object: Arc<Object>, reason: Reason, age_secs: u64, ttl_secs: i64) -> Delivery {
    let facts = CacheStatusFacts { ttl_secs: Some(ttl_secs), ..CacheStatusFacts::default() };
    let account = ResponseAccount { reason, facts, age_secs: Some(age_secs) };
    Delivery::stored(object, account)
}
