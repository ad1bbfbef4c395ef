//! The breaker of one origin, shared by all workers: fetches report to it and consult it.
//!
//! Invariant: the fetch limit and the published state agree with the breaker's state, because all
//! change under the breaker's lock. Each fetch reported as begun is reported as ended exactly once,
//! however it ends.
//!
//! Lock order: breaker, then the lock of the fetch limit.

use crate::balance::Standing;
use crate::breaker::{BegunFetch, Breaker, BreakerChange, BreakerLimits, BreakerState, OriginFailure};
use crate::error::FetchError;
use crate::limit::FetchLimit;
use crate::origin::{FetchRequest, Origin};
use crate::service::Service;
use crate::tally::Tally;
use clock::{Clock, Monotonic};
use std::sync::{Arc, Mutex, PoisonError};

/// The breaker with its lock, its clock, and the channel that publishes its state.
pub(crate) struct Health {
    breaker: Mutex<Breaker>,
    state: watch::Sender<BreakerState>,
    clock: Arc<dyn Clock>,
}

impl Health {
    pub(crate) fn new(limits: BreakerLimits, clock: Arc<dyn Clock>) -> Self {
        let breaker = Mutex::new(Breaker::new(limits, clock.monotonic()));
        Self { breaker, state: watch::Sender::new(BreakerState::Closed), clock }
    }

    /// Runs `act` on the breaker, and then adapts the fetch limit to the breaker's state. While the
    /// breaker is open, half of the permits are reserved for probes.
    fn with<T>(
        &self,
        (limit, service, tally): (&FetchLimit, &Service, &Tally),
        act: impl FnOnce(&mut Breaker, Monotonic) -> T,
    ) -> T {
        // Poison is ignored: the breaker is consistent after each event, so it is usable after a
        // panic under the lock.
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        let result = act(&mut breaker, now);
        let state = breaker.state(now);
        if self.state.send_if_modified(|before| std::mem::replace(before, state) != state) {
            limit.halve(state != BreakerState::Closed);
            tally.stands(Standing::of(state), now);
            if state == BreakerState::Closed {
                service.is_back(now);
            }
        }
        result
    }
}

impl Origin {
    fn health<T>(&self, act: impl FnOnce(&mut Breaker, Monotonic) -> T) -> T {
        self.health.with((&self.limit, &self.service, &self.tally), act)
    }

    /// The breaker's state now.
    pub fn breaker_state(&self) -> BreakerState {
        self.health(|breaker, now| breaker.state(now))
    }

    /// Whether the breaker is open. The edge then serves stale responses at once, and only probes
    /// refresh them.
    pub fn is_open(&self) -> bool {
        self.breaker_state() != BreakerState::Closed
    }

    /// Whether the last responses for three different pages each took longer than a request with a
    /// stale response may wait.
    pub fn is_slow(&self) -> bool {
        self.health(|breaker, now| breaker.is_slow(now))
    }

    /// Whether the breaker is open and a request may be its next probe.
    pub fn is_probe_due(&self) -> bool {
        self.health(|breaker, now| breaker.is_probe_due(now))
    }

    /// Claims the turn of the next probe for a fetch; `None` if no probe is due.
    pub fn claim_probe(self: &Arc<Self>) -> Option<Arc<ProbeTurn>> {
        self.health(Breaker::claim_probe).map(|number| self.probe_turn(number))
    }

    fn probe_turn(self: &Arc<Self>, number: u64) -> Arc<ProbeTurn> {
        Arc::new(ProbeTurn { origin: Arc::clone(self), number })
    }

    /// Takes the breaker's changes since the last call, oldest first. If there were too many, only
    /// the latest are returned.
    pub fn take_breaker_changes(&self) -> Vec<BreakerChange> {
        self.health(|breaker, now| {
            breaker.state(now);
            breaker.take_changes()
        })
    }

    /// The number of changes of the breaker's state so far.
    pub fn breaker_changes(&self) -> u64 {
        self.health(|breaker, _| breaker.changes())
    }

    /// Waits until the breaker is open.
    pub async fn opened(&self) {
        self.comes_to(|state| *state != BreakerState::Closed).await;
    }

    /// Waits until the breaker is open because the origin is silent.
    pub async fn fallen_silent(&self) {
        self.comes_to(|state| *state == BreakerState::Silent).await;
    }

    async fn comes_to(&self, is_awaited: impl Fn(&BreakerState) -> bool) {
        let mut state = self.health.state.subscribe();
        // The only error is a dropped sender. The sender belongs to `self`, so it outlives this
        // wait.
        let _ = state.wait_for(|state| is_awaited(state).then_some(())).await;
    }

    /// Decides whether a fetch may go to the origin. While the origin is unreachable, only probes
    /// may.
    ///
    /// Returns the turn if the fetch is a probe: the given one or a newly claimed one.
    pub(crate) fn admit(
        self: &Arc<Self>,
        turn: Option<Arc<ProbeTurn>>,
    ) -> Result<Option<Arc<ProbeTurn>>, FetchError> {
        if turn.is_some() {
            return Ok(turn);
        }
        let claimed = self.health(|breaker, now| match breaker.state(now) {
            BreakerState::Closed | BreakerState::Silent => Ok(None),
            BreakerState::Unreachable => breaker.claim_probe(now).map(Some).ok_or(FetchError::BreakerOpen),
        })?;
        // Created after the lock is released, because dropping a turn takes the lock.
        Ok(claimed.map(|number| self.probe_turn(number)))
    }

    /// Reports that the origin accepted a connection.
    pub(crate) fn was_connected(&self) {
        self.health(Breaker::connected);
    }
}

/// The turn of one probe. If it is dropped before its fetch has begun, the turn is free again.
#[derive(Debug)]
pub struct ProbeTurn {
    origin: Arc<Origin>,
    number: u64,
}

impl ProbeTurn {
    /// The origin to probe.
    pub(crate) const fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }
}

impl Drop for ProbeTurn {
    fn drop(&mut self) {
        self.origin.health(|breaker, _| breaker.release_probe(self.number));
    }
}

/// One fetch that the breaker watches, until its first byte or its end.
#[derive(Debug)]
pub(crate) struct WatchedFetch {
    origin: Arc<Origin>,
    begun: BegunFetch,
    is_over: bool,
}

impl WatchedFetch {
    /// Reports a fetch sent to the origin. `page` is a digest of its cache key if the
    /// response may be shared.
    pub(crate) fn begin(origin: &Arc<Origin>, page: Option<u64>, turn: Option<&ProbeTurn>) -> Self {
        let number = turn.map(|turn| turn.number);
        let begun = origin.health(|breaker, now| breaker.begin(page, number, now));
        Self { origin: Arc::clone(origin), begun, is_over: false }
    }

    /// Reports the first byte of the response; further calls have no effect.
    pub(crate) fn answered(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.origin.health(|breaker, now| breaker.answered(&self.begun, now));
        }
    }

    /// Reports that the fetch failed. After the first byte this has no effect, because the origin
    /// did answer.
    pub(crate) fn failed(&mut self, error: &FetchError, request: &FetchRequest) {
        if !std::mem::replace(&mut self.is_over, true) {
            // Passes give the breaker no evidence of silence, but no client causes these.
            if matches!(error, FetchError::Closed | FetchError::ConnectTimeout | FetchError::Unreachable(_)) {
                self.origin.service.failed(request.page_digest(), self.origin.clock.monotonic());
            }
            self.origin.health(|breaker, now| breaker.failed(&self.begun, OriginFailure::of(error), now));
        }
    }
}

impl Drop for WatchedFetch {
    fn drop(&mut self) {
        if !self.is_over {
            self.origin.health(|breaker, now| breaker.dropped(&self.begun, now));
        }
    }
}
