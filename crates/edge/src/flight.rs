//! One flight: a fetch whose answer any number of requests wait for and share.
//!
//! ```text
//!   Waiting ──> Shared     the response may be shared: requests stream its body while it fills
//!          ├──> Confirmed  what was stored is as good as new, or whole now
//!          ├──> Private    it may not be shared: who leads gets it, the others go on by themselves
//!          ├──> Denied     the origin refuses the address that is no client's: each asks for itself
//!          ├──> Void       the answer is of no use to anybody, and nor is what was stored: all ask again
//!          └──> Failed     there is none: everybody gets what is stale, or the edge's explanation
//! ```
//!
//! Invariant: a flight's end, however it comes, is announced once; and nothing is published by a flight that was
//! revoked before. A flight is owned by no visitor: it is a task (see `fly`). Which flights there are is `flights`.

use crate::flights::Joined;
use crate::selection::Selection;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use message::{Fields, ResponseHead, Status, names};
use origin::{Exchange, FetchError, Urgency};
use semantics::{Freshness, Reason, VariantKey, VaryRule};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use store::{Filling, Object, Part};
use tokio::sync::watch;
use tokio::time::Instant;

/// One fetch on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What answers of the key were known to vary on when it was sent.
    known: VaryRule,
    /// The variant it asks for under that rule.
    variant: VariantKey,
    /// The part of the content it asks for, as `Range` says it.
    range: Option<Vec<u8>>,
    /// The state of the content that it wants the part of, as `If-Range` says it.
    if_range: Option<Vec<u8>>,
    /// Whether it is for one request alone as long as its answer is not known.
    solo: bool,
    /// When it began, in the order of invalidations.
    begun: u64,
    /// Whether a person waits for it.
    urgency: Urgency,
    /// Set by an invalidation. Whoever publishes holds the lock, so the two are in one order.
    revoked: Mutex<bool>,
    progress: watch::Sender<Progress>,
}

/// What a flight has brought so far.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) departed: Instant,
    /// Informational responses.
    pub(crate) hints: Vec<ResponseHead>,
    pub(crate) state: State,
}

/// How far a flight is.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Waiting,
    Shared(Arc<SharedAnswer>),
    Confirmed(Arc<Confirmed>),
    Private(Arc<PrivateAnswer>),
    Denied,
    Void,
    Failed(FetchError),
}

/// A response that may be shared, while its body arrives.
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    /// Tidy, and without what only the one who asked may see.
    pub(crate) head: ResponseHead,
    /// The same with everything, for the one who asked; `None` where there is no difference.
    pub(crate) own_head: Option<ResponseHead>,
    pub(crate) framing: h1::BodyFraming,
    pub(crate) freshness: Freshness,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    /// Which part of the content it is; `None` for the whole.
    pub(crate) part: Option<Part>,
    /// Its tags, and when its fetch began in the order of invalidations.
    pub(crate) tags: Vec<Bytes>,
    pub(crate) begun: u64,
    /// Whether it is on its way into the store; false if it is known to be too large.
    pub(crate) stored: bool,
    pub(crate) filling: Arc<Filling>,
    /// What the store got. Held here, the store knows that the body stays in memory until its last reader is done.
    pub(crate) object: OnceLock<Arc<Object>>,
}

/// A stored response that the origin has confirmed or completed, with what its answer brought.
#[derive(Debug)]
pub(crate) struct Confirmed {
    /// The status of that answer.
    pub(crate) status: Status,
    pub(crate) object: Arc<Object>,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    /// Its tags, and when its fetch began in the order of invalidations.
    pub(crate) tags: Vec<Bytes>,
    pub(crate) begun: u64,
}

/// A response for one visitor.
#[derive(Debug)]
pub(crate) struct PrivateAnswer {
    pub(crate) reason: Reason,
    pub(crate) status: Status,
    /// The clients that it is for.
    pub(crate) selection: Selection,
    parcel: Mutex<Option<Parcel>>,
}

/// A response whose content its receiver reads itself.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// Tidy.
    pub(crate) head: ResponseHead,
    pub(crate) framing: h1::BodyFraming,
    pub(crate) exchange: Box<Exchange>,
}

/// What a request asks of a flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) fields: &'a Fields,
    /// The value of `Range`, for requests that want a part.
    pub(crate) range: Option<&'a [u8]>,
    /// Whether the request shares no fetch with others.
    pub(crate) solo: bool,
    /// Whether a robot asks, by the fields that it sent: `fields` may have a constant in place of its name.
    pub(crate) is_robot: bool,
    /// Whose request it is, if that is known.
    pub(crate) client: Option<IpAddr>,
}

impl Flight {
    /// A flight for what `asked` says, under the rule `known`, that begins at `begun`. Nobody waits for it yet.
    pub(crate) fn new(known: VaryRule, asked: Asked<'_>, begun: u64) -> Arc<Self> {
        let variant = known.key(asked.fields);
        let progress = Progress { departed: Instant::now(), hints: Vec::new(), state: State::Waiting };
        Arc::new(Self {
            known,
            variant,
            range: asked.range.map(<[u8]>::to_vec),
            if_range: asked.if_range().map(<[u8]>::to_vec),
            solo: asked.solo,
            begun,
            urgency: Urgency::default(),
            revoked: Mutex::new(false),
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

    /// Whether a person waits for it, as the origin's queue is told.
    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency.clone()
    }

    /// Who asks waits for it from now on.
    pub(crate) fn is_awaited_by(&self, asked: Asked<'_>) {
        self.urgency.is_wanted_by(asked.client);
        if !asked.is_robot {
            self.urgency.rise();
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// What answers are known to vary on since this flight's answer has come.
    pub(crate) fn rule_so_far(&self) -> Option<VaryRule> {
        match &self.progress.borrow().state {
            State::Shared(answer) => Some(answer.rule.clone()),
            _ => None,
        }
    }

    /// Announces how far the flight is. What was final stays.
    pub(crate) fn announce(&self, state: State) {
        self.progress.send_if_modified(|progress| {
            let changes = matches!(progress.state, State::Waiting);
            if changes {
                progress.state = state;
            }
            changes
        });
    }

    /// Ready when nobody waits for the flight: whoever did has made something of its answer, or has gone.
    pub(crate) async fn unawaited(&self) {
        self.progress.closed().await;
    }

    /// Whether a client waits for the flight.
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress.receiver_count() > 0
    }

    /// Passes on an informational response to everybody who waits; a cookie in it would be one visitor's own.
    pub(crate) fn inform(&self, mut head: ResponseHead) {
        head.fields.remove(names::SET_COOKIE);
        self.progress.send_modify(|progress| progress.hints.push(head));
    }

    /// From now on nothing of the flight is published.
    pub(crate) fn revoke(&self) {
        *self.gate() = true;
    }

    /// Runs `publish` unless the flight was revoked; an invalidation comes before it or after it, never between.
    pub(crate) fn publish(&self, publish: impl FnOnce()) {
        let revoked = self.gate();
        if !*revoked {
            publish();
        }
    }

    fn gate(&self) -> MutexGuard<'_, bool> {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it asks for the same part of the same variant, whoever it is for.
    pub(crate) fn is_alike(&self, asked: Asked<'_>) -> bool {
        self.is_same_part(asked) && self.known.matches(asked.fields, &self.variant)
    }

    fn is_same_part(&self, asked: Asked<'_>) -> bool {
        self.range.as_deref() == asked.range && self.if_range.as_deref() == asked.if_range()
    }

    /// What a request can do with this flight; `usable` says whether it may have an answer that is there already.
    pub(crate) fn join<T>(
        &self,
        asked: Asked<'_>,
        usable: impl FnOnce(&SharedAnswer) -> bool,
    ) -> Option<Joined<T>> {
        if asked.solo || !self.is_same_part(asked) {
            return None;
        }
        // A copy, because announcements need the lock, and taking a reader another one.
        let state = self.progress.borrow().state.clone();
        match state {
            State::Waiting if !self.solo && self.known.matches(asked.fields, &self.variant) => {
                self.is_awaited_by(asked);
                Some(Joined::Waiter(self.subscribe()))
            }
            State::Shared(answer)
                if answer.rule.matches(asked.fields, &answer.variant) && usable(&answer) =>
            {
                let reader = answer.filling.reader()?;
                Some(Joined::Filling(answer, reader))
            }
            _ => None,
        }
    }
}

impl<'a> Asked<'a> {
    /// What a wanted part is to be a part of. Without `Range` it means nothing.
    fn if_range(self) -> Option<&'a [u8]> {
        self.range.and_then(|_| self.fields.first(names::IF_RANGE)).map(|validator| &validator[..])
    }
}

impl PrivateAnswer {
    pub(crate) fn new(reason: Reason, selection: Selection, parcel: Parcel) -> Self {
        Self { reason, status: parcel.head.status, selection, parcel: Mutex::new(Some(parcel)) }
    }

    /// The response, once.
    pub(crate) fn claim(&self) -> Option<Parcel> {
        self.parcel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
