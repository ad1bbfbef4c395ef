//! *lookup*: what the store has for a request, and what is to be made of it.
//!
//! Invariant: nothing here has an effect beyond counting a use in the store, and [`Touch::No`] leaves out even that; so
//! the same decision can be asked for without being carried out.

use crate::conclude::{Content, Delivery};
use crate::guard::Subject;
use crate::respond::Account;
use crate::shared::Shared;
use bytes::Bytes;
use message::{Method, RequestHead, names};
use semantics::{
    CacheStatusFacts, Directives, Forwarding, Freshness, Moment, Reason, Reuse, answer_range_from_part,
    is_personal, reuse, reuse_on_error,
};
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Lookup, Object};
use tokio::time::Instant;

/// A look-up and what it is for.
pub(crate) struct Wanted<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) key: Key,
    pub(crate) directives: Directives,
    /// The part of the content that is wanted, as `Range` says it.
    pub(crate) range: Option<Bytes>,
    /// Whether the request shares no fetch with others, whatever becomes of the answer.
    pub(crate) solo: bool,
    /// Flights that this request has taken part in.
    pub(crate) flights: u32,
    /// When waiting for others ends; set by the first wait.
    pub(crate) patience_ends: Option<Instant>,
}

/// What the store has for a request.
pub(crate) enum Found {
    /// An answer.
    Deliver(Delivery),
    /// An answer that is stale; it is time to fetch a newer one meanwhile.
    Refresh(Delivery, Arc<Object>),
    /// Nothing that may be used unasked, and why; with what a fetch may confirm or an error may fall back on.
    Fetch(Reason, Option<Arc<Object>>),
}

/// What is to become of a look-up.
pub(crate) enum Decision {
    /// It is answered from the store.
    Deliver(Delivery),
    /// It is answered from the store, and a newer answer is fetched meanwhile.
    Refresh(Delivery, Arc<Object>),
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
    /// What a request that was classified as a look-up wants.
    pub(crate) fn new(
        shared: &Shared,
        subject: Subject<'a>,
        head: &RequestHead,
        directives: Directives,
    ) -> Self {
        let range = head.fields.first(names::RANGE).filter(|_| head.method == Method::Get).cloned();
        let solo = is_personal(&head.fields, subject.site.policy());
        let own_key = subject.key();
        let key = shared.equivalents.find(&own_key).unwrap_or(own_key);
        Self { subject, key, directives, range, solo, flights: 0, patience_ends: None }
    }

    /// What is to become of the look-up.
    pub(crate) fn decide(&self, shared: &Shared, head: &RequestHead, touch: Touch, now: Moment) -> Decision {
        let (reason, base) = match self.find(shared, head, touch, now) {
            Found::Deliver(delivery) => return Decision::Deliver(delivery),
            Found::Refresh(delivery, object) => return Decision::Refresh(delivery, object),
            Found::Fetch(reason, base) => (reason, base),
        };
        if self.directives.only_if_cached {
            return Decision::OnlyIfCached;
        }
        if head.method == Method::Head {
            return Decision::Alone(reason);
        }
        let in_vain = shared.in_vain.reason(&self.key, now.monotonic).is_some();
        // What cannot be shared is fetched with all that its visitor sent, as it may depend on it.
        let everything = self.subject.site.policy().forwarding == Forwarding::Everything;
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
            Lookup::NoVariant => return Found::Fetch(Reason::MissVariant, None),
            Lookup::Absent => return Found::Fetch(Reason::MissAbsent, None),
        };
        if !self.is_served_by(&object, head) {
            return Found::Fetch(Reason::MissPart, Some(object));
        }
        match reuse(&freshness(&object, softened), &self.directives, self.subject.site.policy(), now) {
            Reuse::Fresh { age_secs, ttl_secs } => {
                Found::Deliver(stored(object, Reason::HitFresh, age_secs, ttl_secs))
            }
            Reuse::Stale { age_secs, ttl_secs, reason, refresh } => {
                let delivery = stored(Arc::clone(&object), reason, age_secs, ttl_secs);
                if refresh { Found::Refresh(delivery, object) } else { Found::Deliver(delivery) }
            }
            Reuse::Revalidate(_) if softened => Found::Fetch(Reason::MissInvalidated, Some(object)),
            Reuse::Revalidate(reason) => Found::Fetch(reason, Some(object)),
        }
    }

    /// A stored answer that may stand in for one that the origin does not give.
    pub(crate) fn stale_instead(&self, shared: &Shared, head: &RequestHead, now: Moment) -> Option<Delivery> {
        let Lookup::Found { object, softened } = shared.store.peek(&self.key, &head.fields) else {
            return None;
        };
        if !self.is_served_by(&object, head) {
            return None;
        }
        match reuse_on_error(
            &freshness(&object, softened),
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

/// The freshness of a stored response. One that was softly invalidated has been stale all its life.
pub(crate) fn freshness(object: &Object, softened: bool) -> Freshness {
    let freshness = object.freshness();
    if softened { Freshness { lifetime: Duration::ZERO, ..freshness } } else { freshness }
}

/// The delivery of a stored answer.
fn stored(object: Arc<Object>, reason: Reason, age_secs: u64, ttl_secs: i64) -> Delivery {
    let facts = CacheStatusFacts { ttl_secs: Some(ttl_secs), ..CacheStatusFacts::default() };
    let account = Account { reason, facts, age_secs: Some(age_secs) };
    Delivery { content: Content::Stored(object), account }
}
