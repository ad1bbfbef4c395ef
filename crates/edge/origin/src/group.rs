//! The origins of a site: one application server, or several with the same application.
//!
//! Invariant: a group has at least one origin. A request goes to another origin only if the first
//! one has seen nothing of it, or if the request may be repeated and had no byte of a response.

use crate::balance::{Balancer, Candidate, RetryBudget, Standing};
use crate::breaker::BreakerState;
use crate::error::FetchError;
use crate::exchange::OriginExchange;
use crate::health::ProbeTurn;
use crate::origin::{FetchRequest, Gauges, Origin};
use crate::service::FULL_SHARE;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Several origins with the same application, or one.
#[derive(Debug)]
pub struct OriginGroup {
    members: Vec<GroupMember>,
    state: Mutex<GroupState>,
    /// Requests that were sent to a second origin.
    retries: AtomicU64,
}

/// An origin with its weight.
#[derive(Clone, Debug)]
pub struct GroupMember {
    /// The origin.
    pub origin: Arc<Origin>,
    /// Its share of the requests, relative to the others' weights. 0 counts as 1.
    pub weight: u32,
}

#[derive(Debug)]
struct GroupState {
    balancer: Balancer,
    budget: RetryBudget,
}

/// Where a request may go if its origin fails before the response.
#[derive(Debug)]
pub(crate) struct Alternatives {
    group: Arc<OriginGroup>,
    tried: Vec<usize>,
}

impl OriginGroup {
    /// A group of these origins, which have the same settings.
    ///
    /// # Panics
    /// Without any origin.
    pub fn new(members: Vec<GroupMember>) -> Self {
        assert!(!members.is_empty(), "a group has an origin");
        let state = GroupState { balancer: Balancer::new(members.len()), budget: RetryBudget::full() };
        Self { members, state: Mutex::new(state), retries: AtomicU64::new(0) }
    }

    /// The origins, in the order of the configuration.
    pub fn origins(&self) -> impl Iterator<Item = &Arc<Origin>> {
        self.members.iter().map(|member| &member.origin)
    }

    /// Whether there are several origins.
    pub fn is_plural(&self) -> bool {
        self.members.len() > 1
    }

    /// Chooses an origin, waits for its permit and a connection. If the origin cannot be reached,
    /// the request goes to the next one.
    ///
    /// # Errors
    /// As for [`Origin::fetch`], from the last origin that was asked.
    pub async fn fetch(self: &Arc<Self>, request: FetchRequest) -> Result<OriginExchange, FetchError> {
        match &self.members[..] {
            [only] => only.origin.fetch(request).await,
            _ => self.fetch_from_any(request).await,
        }
    }

    async fn fetch_from_any(self: &Arc<Self>, request: FetchRequest) -> Result<OriginExchange, FetchError> {
        self.state().budget.earn();
        let alternatives = Alternatives { group: Arc::clone(self), tried: Vec::new() };
        if let Some(turn) = &request.probe {
            return Arc::clone(turn.origin()).fetch(request).await;
        }
        alternatives.fetch(request, FetchError::BreakerOpen).await
    }

    /// The best origin that was not tried; `None` if all were.
    fn choose(&self, tried: &[usize]) -> Option<(usize, &Arc<Origin>)> {
        let now = self.members.first()?.origin.clock.monotonic();
        let untried = self.members.iter().enumerate().filter(|(place, _)| !tried.contains(place));
        let candidates: Vec<_> = untried
            .map(|(place, member)| {
                let gauges = member.origin.gauges();
                Candidate {
                    place,
                    standing: member.origin.standing(),
                    is_full: gauges.active >= gauges.limit,
                    weight: u64::from(member.weight.max(1)) * member.origin.service.share(now),
                    // A full share is the unit, so that weights stay whole numbers.
                    outstanding: (gauges.active + gauges.waiting) as u64 * FULL_SHARE,
                }
            })
            .collect();
        let place = self.state().balancer.choose(&candidates)?;
        self.members.get(place).map(|member| (place, &member.origin))
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        // Poison is ignored: both parts are consistent after each call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the best breaker.
    pub fn breaker_state(&self) -> BreakerState {
        let states = self.origins().map(|origin| origin.breaker_state());
        states.min_by_key(|state| Standing::of(*state)).unwrap_or(BreakerState::Closed)
    }

    /// Whether the breakers of all origins are open.
    pub fn is_open(&self) -> bool {
        self.origins().all(|origin| origin.is_open())
    }

    /// Whether a request may be the next probe of an origin. No request is while an origin answers;
    /// the others have health checks then.
    pub fn is_probe_due(&self) -> bool {
        self.is_open() && self.origins().any(|origin| origin.is_probe_due())
    }

    /// Claims the turn of the next probe of an origin; `None` if no request may be one.
    pub fn claim_probe(&self) -> Option<Arc<ProbeTurn>> {
        if self.is_open() { self.origins().find_map(Origin::claim_probe) } else { None }
    }

    /// Waits until the breakers of all origins are open.
    pub async fn opened(&self) {
        while let Some(closed) = self.origins().find(|origin| !origin.is_open()) {
            closed.opened().await;
        }
    }

    /// Waits until the breakers of all origins are open, and that of one because it is silent.
    pub async fn fallen_silent(&self) {
        if let [only] = &self.members[..] {
            return only.origin.fallen_silent().await;
        }
        self.opened().await;
        if self.breaker_state() != BreakerState::Silent {
            // All are unreachable, so the fetch fails by itself soon.
            std::future::pending::<()>().await;
        }
    }

    /// Whether requests wait long in the queues of all origins that get them, or find them full.
    pub fn is_busy(&self) -> bool {
        self.best().all(|origin| origin.is_busy())
    }

    /// Whether the last responses of all origins that get requests came late.
    pub fn is_slow(&self) -> bool {
        self.best().all(|origin| origin.is_slow())
    }

    /// Whether an origin that gets requests has capacity for background fetches.
    pub fn has_time(&self) -> bool {
        self.best().any(|origin| origin.has_time())
    }

    /// The origins of the best standing, which get the requests.
    fn best(&self) -> impl Iterator<Item = &Arc<Origin>> {
        let standing =
            |origin: &Arc<Origin>| if self.is_plural() { origin.standing() } else { Standing::Well };
        let best = self.origins().map(standing).min();
        self.origins().filter(move |origin| Some(standing(origin)) == best)
    }

    /// The numbers of requests and connections of all origins.
    pub fn gauges(&self) -> Gauges {
        let none = Gauges { limit: 0, active: 0, waiting: 0, stalled: 0, idle: 0 };
        self.origins().map(|origin| origin.gauges()).fold(none, |sum, one| Gauges {
            limit: sum.limit + one.limit,
            active: sum.active + one.active,
            waiting: sum.waiting + one.waiting,
            stalled: sum.stalled + one.stalled,
            idle: sum.idle + one.idle,
        })
    }

    /// Requests that were sent to a second origin, because the first did not answer them.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }
}

impl Alternatives {
    /// Asks the best origin that was not tried, and then the next one if it cannot be reached.
    /// `error` is the error if all were tried.
    ///
    /// # Errors
    /// As for [`Origin::fetch`], from the last origin that was asked.
    pub(crate) async fn fetch(
        mut self,
        request: FetchRequest,
        mut error: FetchError,
    ) -> Result<OriginExchange, FetchError> {
        let group = Arc::clone(&self.group);
        while let Some((place, origin)) = group.choose(&self.tried) {
            if !self.tried.is_empty() && error != FetchError::BreakerOpen {
                if !group.state().budget.spend() {
                    break;
                }
                group.retries.fetch_add(1, Ordering::Relaxed);
            }
            self.tried.push(place);
            match origin.fetch(request.clone()).await {
                Ok(exchange) => return Ok(exchange.with_alternatives(self)),
                // The error of an origin that received the request says more than an open breaker.
                Err(FetchError::BreakerOpen) => {}
                Err(unsent) if is_unsent(&unsent) => error = unsent,
                Err(other) => return Err(other),
            }
        }
        Err(error)
    }
}

/// Whether the origin has seen nothing of a request whose fetch ended in this way.
pub(crate) fn is_unsent(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::BreakerOpen
            | FetchError::Refused
            | FetchError::Unreachable(_)
            | FetchError::ConnectTimeout
            | FetchError::Tls(_)
    )
}

impl Standing {
    pub(crate) const fn of(state: BreakerState) -> Self {
        match state {
            BreakerState::Closed => Self::Well,
            BreakerState::Silent => Self::Silent,
            BreakerState::Unreachable => Self::Unreachable,
        }
    }
}

impl Origin {
    /// How far the origin can be expected to answer.
    pub fn standing(&self) -> Standing {
        let standing = Standing::of(self.breaker_state());
        let is_failing = standing == Standing::Well && self.service.is_failing(self.clock.monotonic());
        if is_failing { Standing::Failing } else { standing }
    }
}
