//! *lookup*: what the store has for a request, and what is to be made of it.
//!
//! Invariant: nothing here has an effect beyond counting a use in the store, and [`Touch::No`] leaves out even that; so
//! the same decision can be asked for without being carried out.

use crate::asked_target::AskedTarget;
use crate::delivery::Delivery;
use crate::distrust::Kept;
use crate::guard::Subject;
use crate::leak_guard::is_guarded;
use crate::respond::Account;
use crate::shared::Shared;
use bytes::Bytes;
use message::{Fields, Method, RequestHead, ResponseHead, names};
use semantics::{
    CacheStatusFacts, Directives, Doubt, Forwarding, Freshness, LeftOut, Moment, Policy, Reason, Reuse,
    WithoutGzip, answer_range_from_part, is_personal, refuses_gzip, reuse, reuse_on_error, without_gzip,
};
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Lookup, Object, Shelved};
use tokio::time::Instant;

/// A look-up and what it is for.
pub(crate) struct Wanted<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) key: Key,
    /// What the client asked for, if the key is that of an equivalent target.
    pub(crate) asked_target: AskedTarget,
    pub(crate) directives: Directives,
    /// What of the request is not looked up by.
    pub(crate) left_out: LeftOut,
    /// The part of the content that is wanted, as `Range` says it.
    pub(crate) range: Option<Bytes>,
    /// Whether the request shares no fetch with others, whatever becomes of the answer.
    pub(crate) solo: bool,
    /// Whether the client must not be sent gzip.
    refuses_gzip: bool,
    /// Whether it is to be fetched, whatever is stored.
    pub(crate) fetches: bool,
    /// Flights that this request has taken part in.
    pub(crate) flights: u32,
    /// How often what was found had to be read from the disk.
    pub(crate) loads: u32,
    /// When waiting for others ends; set by the first wait.
    pub(crate) patience_ends: Option<Instant>,
}

/// What is read so often and has left memory each time before it was used is fetched instead.
pub(crate) const LOADS_MAX: u32 = 3;

/// What is stored of a page that is to be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) object: Arc<Object>,
    /// Why it cannot be used as it is, which decides what proves that it is still right.
    pub(crate) doubt: Doubt,
}

impl Base {
    /// What was found; `softened` or ordered anew, it was invalidated.
    pub(crate) fn new(object: Arc<Object>, invalidated: bool) -> Self {
        Self { object, doubt: if invalidated { Doubt::Invalidated } else { Doubt::Expired } }
    }
}

/// What the store has for a request.
pub(crate) enum Found {
    /// An answer.
    Deliver(Delivery),
    /// An answer that is stale; it is time to fetch a newer one meanwhile.
    Refresh(Delivery, Base),
    /// Something that is on the disk and must be read before it can be judged.
    Load(Shelved),
    /// Something that does not answer the request with the parts that its look-up leaves out, or with its own target.
    Unfit,
    /// Something that cannot be decoded for this client.
    Unusable,
    /// Nothing that may be used unasked, and why; with what a fetch may confirm or an error may fall back on.
    Fetch(Reason, Option<Base>),
}

/// What is to become of a look-up.
pub(crate) enum Decision {
    /// It is answered from the store.
    Deliver(Delivery),
    /// It is answered from the store, and a newer answer is fetched meanwhile.
    Refresh(Delivery, Base),
    /// It is answered at once from the store by what is stale, because the origin's breaker is open or the origin
    /// failed on the page a moment ago; a newer answer is fetched meanwhile if it is time for a probe.
    StandIn(Delivery, Base),
    /// What is stored is read from the disk; then it is looked up again.
    Load(Shelved),
    /// It wants a stored answer only, and there is none that it may have.
    OnlyIfCached,
    /// It goes to the application by itself.
    Alone(Reason),
    /// It joins a flight or starts one; `solo`: one that nobody else joins.
    Fly { reason: Reason, solo: bool },
}

/// Whether looking counts as a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Yes,
    No,
}

impl<'a> Wanted<'a> {
    /// Whether the site has gone over to other rules since the request was read.
    pub(crate) fn is_outdated(&self) -> bool {
        self.subject.rules != self.subject.site.rules()
    }

    /// What a request that was classified as a look-up wants.
    pub(crate) fn new(
        shared: &Shared,
        subject: Subject<'a>,
        head: &RequestHead,
        directives: Directives,
    ) -> Self {
        let range = head.fields.first(names::RANGE).filter(|_| head.method == Method::Get).cloned();
        let solo = is_personal(&head.fields, subject.site.policy());
        let refuses_gzip = refuses_gzip(&head.fields, subject.site.policy());
        let (key, asked_target) = AskedTarget::looked_up(shared, subject.key(), &head.fields);
        Self {
            subject,
            key,
            asked_target,
            directives,
            left_out: LeftOut::default(),
            range,
            solo,
            refuses_gzip,
            fetches: false,
            flights: 0,
            loads: 0,
            patience_ends: None,
        }
    }

    /// Why this visitor does not get the page from the store, although its cookies mean nothing by the profile: what is
    /// known of the page says otherwise.
    pub(crate) fn kept_back(&self, shared: &Shared, head: &RequestHead, now: Moment) -> Option<Kept> {
        let policy = self.subject.site.policy();
        if !is_guarded(&head.fields, policy) {
            return None;
        }
        shared.leak_guard.kept_back(&self.key, &head.fields, policy, now.monotonic)
    }

    /// What is to become of the look-up.
    pub(crate) fn decide(&self, shared: &Shared, head: &RequestHead, touch: Touch, now: Moment) -> Decision {
        let (reason, base) = match self.find(shared, head, touch, now) {
            Found::Deliver(delivery) => return Decision::Deliver(delivery),
            Found::Refresh(delivery, base) => return Decision::Refresh(delivery, base),
            Found::Load(shelved) => return Decision::Load(shelved),
            Found::Unfit => return Decision::Alone(self.left_out.reason().unwrap_or(Reason::MissVariant)),
            Found::Unusable if !self.directives.only_if_cached => {
                return Decision::Alone(Reason::MissVariant);
            }
            Found::Unusable => return Decision::OnlyIfCached,
            Found::Fetch(reason, base) => (reason, base),
        };
        if self.directives.only_if_cached {
            return Decision::OnlyIfCached;
        }
        if let Some(base) = &base
            && let Some(delivery) = self.stand_in(shared, head, base, now)
        {
            return Decision::StandIn(delivery, base.clone());
        }
        let remembered = shared.in_vain.reason(&self.key, now.monotonic);
        if remembered == Some(Reason::StoreRefusedDenied) {
            return Decision::Alone(reason);
        }
        let in_vain = remembered.is_some();
        // What cannot be shared is fetched with all that its visitor sent, as it may depend on it.
        let everything = self.subject.site.policy().forwarding == Forwarding::Everything;
        // A HEAD fetches the page for those to come, unless the page is known not to be shared. Where something is
        // stored, its own answer says whether that is still right.
        if head.method == Method::Head && (in_vain || everything || self.solo || base.is_some()) {
            return Decision::Alone(reason);
        }
        if in_vain && !everything && base.is_none() {
            return Decision::Alone(reason);
        }
        Decision::Fly { reason, solo: in_vain }
    }

    /// What the store has for the request.
    pub(crate) fn find(&self, shared: &Shared, head: &RequestHead, touch: Touch, now: Moment) -> Found {
        let looked_up = match touch {
            Touch::Yes => shared.store.lookup(&self.key, &head.fields),
            Touch::No => shared.store.peek(&self.key, &head.fields),
        };
        let (object, softened) = match looked_up {
            Lookup::Found { object, softened } => (object, softened),
            Lookup::Shelved(shelved) if self.loads < LOADS_MAX => return Found::Load(shelved),
            Lookup::Shelved(_) => return Found::Fetch(Reason::MissAbsent, None),
            Lookup::NoVariant => return Found::Fetch(Reason::MissVariant, None),
            Lookup::Absent => return Found::Fetch(Reason::MissAbsent, None),
        };
        if !self.is_answered_by(&object, head) {
            return Found::Unfit;
        }
        if self.is_unusable(&object) {
            return Found::Unusable;
        }
        if self.fetches {
            return Found::Fetch(Reason::MissRefresh, Some(Base::new(object, true)));
        }
        if !self.is_served_by(&object, head) {
            return Found::Fetch(Reason::MissPart, Some(Base::new(object, softened)));
        }
        let policy = self.subject.site.policy();
        match reuse(&freshness(&object, softened, policy), &self.directives, policy, now) {
            Reuse::Fresh { age_secs, ttl_secs } => {
                let received = object.freshness().received.monotonic;
                if self.subject.site.writes.is_to_be_refreshed(received, now.monotonic) {
                    let reason = Reason::StaleWhileRevalidate;
                    let delivery = stored(Arc::clone(&object), reason, age_secs, ttl_secs);
                    // A write has changed the page, so its validators must prove more than after its lifetime.
                    return Found::Refresh(delivery, Base::new(object, true));
                }
                Found::Deliver(stored(object, Reason::HitFresh, age_secs, ttl_secs))
            }
            Reuse::Stale { refresh: true, .. } if self.is_closed(shared, now) => {
                Found::Fetch(Reason::MissExpired, Some(Base::new(object, softened)))
            }
            Reuse::Stale { age_secs, ttl_secs, reason, refresh } => {
                let delivery = stored(Arc::clone(&object), reason, age_secs, ttl_secs);
                if refresh {
                    Found::Refresh(delivery, Base::new(object, softened))
                } else {
                    Found::Deliver(delivery)
                }
            }
            Reuse::Revalidate(reason) => {
                let reason = if softened { Reason::MissInvalidated } else { reason };
                Found::Fetch(reason, Some(Base::new(object, softened)))
            }
        }
    }

    /// Whether the application said a short while ago that the site is closed.
    fn is_closed(&self, shared: &Shared, now: Moment) -> bool {
        shared.in_vain.reason(&self.key, now.monotonic) == Some(Reason::StoreRefusedMaintenance)
    }

    /// The stale answer that is sent at once because the breaker of the origin is open, or because the origin failed on
    /// the page less than `limits.failure_pause` ago. What was invalidated is sent only if the origin was asked for
    /// this request and has failed.
    fn stand_in(&self, shared: &Shared, head: &RequestHead, base: &Base, now: Moment) -> Option<Delivery> {
        if base.doubt == Doubt::Invalidated {
            return None;
        }
        let is_open = self.subject.site.origin.is_open();
        let has_failed = || shared.ailing.reason(&self.key, now.monotonic) == Some(Reason::OriginFailing);
        if !is_open && !has_failed() {
            return None;
        }
        let mut delivery = self.stale_instead(shared, head, now)?;
        if is_open && delivery.account.reason != Reason::HitFresh {
            delivery.account.reason = Reason::StaleBreakerOpen;
        }
        Some(delivery)
    }

    /// A stored answer that may stand in for one that the origin does not give.
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

    /// Whether the object answers the request with its own target and the parts that its look-up leaves out.
    pub(crate) fn is_answered_by(&self, object: &Object, head: &RequestHead) -> bool {
        let concerns = |name: &[u8]| LeftOut::concerns(name) || AskedTarget::concerns(name);
        let is_looked_up_whole = self.left_out.reason().is_none() && !self.asked_target.is_another();
        is_looked_up_whole || self.is_answered_by_head(&object.head_of(concerns), head)
    }

    /// The same of a response of which the content is still to come.
    pub(crate) fn is_answered_by_head(&self, response: &ResponseHead, head: &RequestHead) -> bool {
        let (target, policy) = (&self.subject.target, self.subject.site.policy());
        self.asked_target.is_answered(&self.key, &response.fields)
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

    /// Whether what is stored for the request was invalidated, also by the request itself.
    pub(crate) fn is_invalidated(&self, shared: &Shared, head: &RequestHead) -> bool {
        self.fetches
            || matches!(shared.store.peek(&self.key, &head.fields), Lookup::Found { softened: true, .. })
    }

    /// Whether the object holds what the request wants of the content.
    fn is_served_by(&self, object: &Object, head: &RequestHead) -> bool {
        let Some(part) = object.part() else { return true };
        let Some(range) = &self.range else { return false };
        let same_question =
            !part.asked.is_empty() && *range == part.asked && !head.fields.has(names::IF_RANGE);
        same_question
            || answer_range_from_part(&head.method, &head.fields, &object.head(), part.extent).is_some()
    }
}

/// What a client that refuses gzip gets of a stored response. Most have no coding, and then no head is read.
pub(crate) fn stored_without_gzip(object: &Object) -> WithoutGzip {
    if object.is_coded() { without_gzip(&object.head().fields) } else { WithoutGzip::AsIs }
}

/// The freshness of a stored response. One that was softly invalidated has been stale all its life.
pub(crate) fn freshness(object: &Object, softened: bool, policy: &Policy) -> Freshness {
    let freshness = object.freshness();
    if !softened {
        return freshness;
    }
    // What the policy gave was for a page that nobody said had changed.
    let given = freshness.while_revalidate <= policy.grace;
    let while_revalidate = if given { Duration::ZERO } else { freshness.while_revalidate };
    Freshness { lifetime: Duration::ZERO, while_revalidate, ..freshness }
}

/// The delivery of a stored answer.
fn stored(object: Arc<Object>, reason: Reason, age_secs: u64, ttl_secs: i64) -> Delivery {
    let facts = CacheStatusFacts { ttl_secs: Some(ttl_secs), ..CacheStatusFacts::default() };
    let account = Account { reason, facts, age_secs: Some(age_secs) };
    Delivery::stored(object, account)
}
