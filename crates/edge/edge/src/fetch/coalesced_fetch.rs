//! One coalesced fetch: all requests that wait for it share its response.
//!
//! ```text
//!   Waiting ──> Shared     shareable: requests stream the body while it fills
//!          ├──> Confirmed  the stored object was confirmed, or completed
//!          ├──> Private    not shareable: the leader gets it, followers send their own
//!          ├──> Denied     the origin refused the placeholder address: each sends its own
//!          ├──> Void       response and stored object are both unusable: all look up again
//!          └──> Failed     no response: each receives a stale object or an error
//! ```
//!
//! Invariants: the end of a fetch is announced exactly once. Nothing of a fetch is published
//! after it was revoked. A fetch belongs to no client: it runs as a task (see `task`). The table
//! of fetches under way is in `fetch_table`.

use crate::fetch::fetch_table::JoinResult;
use crate::fetch::selection::Selection;
use crate::memory::sync::{AtomicBool, Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use defects::{Defect, is_planted};
use message::{Fields, ResponseHead, Status, names};
use origin::{FetchError, OriginExchange, Urgency};
use request_log::FetchPhases;
use semantics::{Freshness, Reason, VariantKey, VaryRule};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use store::{ContentPart, Filling, Object};
use tokio::time::Instant;

/// A coalesced fetch under way.
#[derive(Debug)]
pub(crate) struct CoalescedFetch {
    /// The fields that responses of the key were known to vary on when it was sent.
    known: VaryRule,
    /// The variant that it requests under that rule.
    variant: VariantKey,
    /// The value of its `Range`, if it requests a part of the content.
    range: Option<Vec<u8>>,
    /// The value of its `If-Range`, if it requests a part.
    if_range: Option<Vec<u8>>,
    /// Whether no other request may join it before its response is known.
    exclusive: bool,
    /// The number of the last invalidation when it began, which orders it among invalidations.
    begun: u64,
    /// Priority in the origin's queue: whether a person waits for it.
    urgency: Urgency,
    /// Set by an invalidation. `publish` runs under this lock, so an invalidation comes before or
    /// after it.
    revoked: Mutex<bool>,
    /// Whether no further request may join it; see [`CoalescedFetch::close`].
    closed: AtomicBool,
    /// Whether its page was written to since it began; see [`CoalescedFetch::overtake`].
    overtaken: AtomicBool,
    progress: watch::Sender<FetchProgress>,
}

/// The progress of a fetch, as its waiting requests see it.
#[derive(Clone, Debug)]
pub(crate) struct FetchProgress {
    pub(crate) started_at: Instant,
    /// The times of the fetch, once the head of its response has arrived.
    pub(crate) phases: Option<FetchPhases>,
    /// Informational responses received so far.
    pub(crate) hints: Vec<ResponseHead>,
    pub(crate) state: FetchState,
}

/// The state of a fetch; all except `Waiting` are final.
#[derive(Clone, Debug)]
pub(crate) enum FetchState {
    Waiting,
    Shared(Arc<SharedResponse>),
    Confirmed(Arc<ConfirmedObject>),
    Private(Arc<PrivateResponse>),
    Denied,
    Void,
    Failed(FetchError),
}

/// A shareable response whose body is still arriving.
#[derive(Debug)]
pub(crate) struct SharedResponse {
    /// Without hop-by-hop fields, and without fields that only the leader may see.
    pub(crate) head: ResponseHead,
    /// The head with those fields, for the leader; `None` if there are none.
    pub(crate) own_head: Option<ResponseHead>,
    pub(crate) framing: h1::BodyFraming,
    /// The lifetime in browsers that it gets because it states none.
    pub(crate) browser_lifetime: Option<&'static str>,
    pub(crate) freshness: Freshness,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    /// The part of the content that it is; `None` for the whole.
    pub(crate) part: Option<ContentPart>,
    /// Its tags, and the sequence number at which its fetch began.
    pub(crate) tags: Vec<Bytes>,
    pub(crate) begun: u64,
    /// The times of its fetch.
    pub(crate) phases: Option<FetchPhases>,
    /// Whether it will be stored; false if it is known to be too large.
    pub(crate) stored: bool,
    pub(crate) filling: Arc<Filling>,
    /// The stored object. While it is held here, the store knows that the body stays in memory
    /// until its last reader is done.
    pub(crate) object: OnceLock<Arc<Object>>,
}

/// A stored response that the origin has confirmed or completed.
#[derive(Debug)]
pub(crate) struct ConfirmedObject {
    /// The status of the origin's response.
    pub(crate) status: Status,
    pub(crate) object: Arc<Object>,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    /// Its tags, and the sequence number at which its fetch began.
    pub(crate) tags: Vec<Bytes>,
    pub(crate) begun: u64,
}

/// A response for one client.
#[derive(Debug)]
pub(crate) struct PrivateResponse {
    pub(crate) reason: Reason,
    pub(crate) status: Status,
    /// The clients that the response is for.
    pub(crate) selection: Selection,
    response: Mutex<Option<StreamedResponse>>,
}

/// A response whose receiver reads the content from the exchange itself.
#[derive(Debug)]
pub(crate) struct StreamedResponse {
    /// Without hop-by-hop fields.
    pub(crate) head: ResponseHead,
    pub(crate) framing: h1::BodyFraming,
    pub(crate) exchange: Box<OriginExchange>,
}

/// The properties of a request that decide which fetch it may join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchDemand<'a> {
    pub(crate) fields: &'a Fields,
    /// The value of `Range`, if the request wants a part.
    pub(crate) range: Option<&'a [u8]>,
    /// Whether the request shares no fetch with others.
    pub(crate) exclusive: bool,
    /// Whether the client is a robot, judged by the fields that it sent. `fields` may contain a
    /// constant User-Agent instead.
    pub(crate) is_robot: bool,
    /// The client's address, if it is known.
    pub(crate) client: Option<IpAddr>,
}

impl CoalescedFetch {
    /// A fetch that meets `demand` under the rule `known`, begun at sequence number `begun`.
    /// No request waits for it yet.
    pub(crate) fn new(known: VaryRule, demand: FetchDemand<'_>, begun: u64) -> Arc<Self> {
        let variant = known.key(demand.fields);
        let progress = FetchProgress {
            started_at: Instant::now(),
            phases: None,
            hints: Vec::new(),
            state: FetchState::Waiting,
        };
        Arc::new(Self {
            known,
            variant,
            range: demand.range.map(<[u8]>::to_vec),
            if_range: demand.if_range().map(<[u8]>::to_vec),
            exclusive: demand.exclusive,
            begun,
            urgency: Urgency::default(),
            revoked: Mutex::new(false),
            closed: AtomicBool::new(false),
            overtaken: AtomicBool::new(false),
            progress: watch::Sender::new(progress),
        })
    }

    pub(crate) fn known(&self) -> &VaryRule {
        &self.known
    }

    pub(crate) fn range(&self) -> Option<&[u8]> {
        self.range.as_deref()
    }

    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Tells the origin's queue whether a person waits.
    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency.clone()
    }

    /// Records that this request waits for the fetch.
    pub(crate) fn is_awaited_by(&self, demand: FetchDemand<'_>) {
        self.urgency.is_wanted_by(demand.client);
        if !demand.is_robot {
            self.urgency.rise();
        }
    }

    /// When the fetch began.
    pub(crate) fn started_at(&self) -> Instant {
        self.progress.borrow().started_at
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<FetchProgress> {
        self.progress.subscribe()
    }

    /// The rule that the fetch's response has stated, once it is known to be shareable.
    pub(crate) fn rule_so_far(&self) -> Option<VaryRule> {
        match &self.progress.borrow().state {
            FetchState::Shared(answer) => Some(answer.rule.clone()),
            _ => None,
        }
    }

    /// Whether the fetch gave no response.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.progress.borrow().state, FetchState::Failed(_))
    }

    /// Announces a state to all waiting requests. After a final state it has no effect.
    pub(crate) fn announce(&self, state: FetchState) {
        self.progress.send_if_modified(|progress| {
            let changes = matches!(progress.state, FetchState::Waiting);
            if changes {
                progress.state = state;
            }
            changes
        });
    }

    /// Ready when no request waits: each has used the announced state or is gone.
    pub(crate) async fn unawaited(&self) {
        self.progress.closed().await;
    }

    /// Whether any request waits for the fetch.
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress.receiver_count() > 0
    }

    /// Records the times of the fetch, for the records of the requests that wait for it. They learn
    /// them with the state that is announced next.
    pub(crate) fn note_phases(&self, phases: FetchPhases) {
        self.progress.send_if_modified(|progress| {
            progress.phases = Some(phases);
            false
        });
    }

    /// The times of the fetch, once the head of its response has arrived.
    pub(crate) fn phases(&self) -> Option<FetchPhases> {
        self.progress.borrow().phases
    }

    /// Passes an informational response to all waiting requests. Its cookies are removed, because
    /// they would be one client's own.
    pub(crate) fn inform(&self, mut head: ResponseHead) {
        head.fields.remove(names::SET_COOKIE);
        self.progress.send_modify(|progress| progress.hints.push(head));
    }

    /// Lets no further request join. Only for the table, which calls it under its lock, as it does
    /// joins.
    pub(crate) fn close(&self) {
        // Relaxed is enough: the lock of the table orders all accesses.
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether no further request may join; called under the lock of the table.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Records that its page was written to, and that its response may be published all the same.
    /// Only for the table, which calls it under its lock.
    pub(crate) fn overtake(&self) {
        // Relaxed is enough: it is set and read under the lock of the table.
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Whether its page was written to since it began; read under the lock of the table.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// From now on nothing of the fetch is published.
    pub(crate) fn revoke(&self) {
        *self.gate() = true;
    }

    /// Runs `publish` unless the fetch was revoked. An invalidation comes before or after it,
    /// never in between.
    ///
    /// Lock order: the gate, then the lock of the equivalent targets, then a shard of the store.
    pub(crate) fn publish(&self, publish: impl FnOnce()) {
        let revoked = self.gate();
        if !*revoked || is_planted(Defect::PublishAfterPurge) {
            publish();
        }
    }

    fn gate(&self) -> MutexGuard<'_, bool> {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it requests the same part of the same variant, and further requests may join it.
    pub(crate) fn is_alike(&self, demand: FetchDemand<'_>) -> bool {
        !self.is_closed() && self.is_same_part(demand) && self.known.matches(demand.fields, &self.variant)
    }

    fn is_variant_of(&self, demand: FetchDemand<'_>) -> bool {
        is_planted(Defect::JoinOtherVariant) || self.known.matches(demand.fields, &self.variant)
    }

    fn is_same_part(&self, demand: FetchDemand<'_>) -> bool {
        self.range.as_deref() == demand.range && self.if_range.as_deref() == demand.if_range()
    }

    /// Joins this fetch if it serves the request. `usable` says whether the request may have a
    /// response that has already begun.
    pub(crate) fn join<T>(
        &self,
        demand: FetchDemand<'_>,
        usable: impl FnOnce(&SharedResponse) -> bool,
    ) -> Option<JoinResult<T>> {
        if demand.exclusive || self.is_closed() || !self.is_same_part(demand) {
            return None;
        }
        // Cloned, because `borrow` holds the lock that announcements need, and `reader` takes a
        // further lock.
        let state = self.progress.borrow().state.clone();
        match state {
            FetchState::Waiting if !self.exclusive && self.is_variant_of(demand) => {
                self.is_awaited_by(demand);
                Some(JoinResult::Waiter(self.subscribe()))
            }
            FetchState::Shared(answer)
                if answer.rule.matches(demand.fields, &answer.variant) && usable(&answer) =>
            {
                let reader = answer.filling.reader()?;
                Some(JoinResult::Filling(answer, reader))
            }
            _ => None,
        }
    }
}

impl<'a> FetchDemand<'a> {
    /// The value of `If-Range`, which has no meaning without `Range`.
    fn if_range(self) -> Option<&'a [u8]> {
        self.range.and_then(|_| self.fields.first(names::IF_RANGE)).map(|validator| &validator[..])
    }
}

impl PrivateResponse {
    pub(crate) fn new(reason: Reason, selection: Selection, response: StreamedResponse) -> Self {
        Self { reason, status: response.head.status, selection, response: Mutex::new(Some(response)) }
    }

    /// Takes the response; only the first call returns it.
    pub(crate) fn claim(&self) -> Option<StreamedResponse> {
        self.response.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
