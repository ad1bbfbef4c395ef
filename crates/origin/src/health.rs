//! The breaker of one origin at work: shared by all workers, fed by fetches, asked before them.
//!
//! Invariant: the fetch limit and the announcement of the state agree with the breaker's state, because they
//! change under its lock. Each fetch that was told to the breaker ends there once, however it ends. Lock order:
//! breaker, then the turns of the fetch limit.

use crate::breaker::{Begun, Breaker, BreakerChange, BreakerLimits, BreakerState, Failure};
use crate::error::FetchError;
use crate::limit::FetchLimit;
use crate::origin::Origin;
use platform::{Clock, Monotonic};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The breaker with its lock, its clock and those who follow its state.
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

    /// Tells the breaker something or asks it, and lets the limit follow: while the breaker is open, half of the
    /// fetches are for probes.
    fn with<T>(&self, limit: &FetchLimit, act: impl FnOnce(&mut Breaker, Monotonic) -> T) -> T {
        // The breaker is consistent after each event, so a panic elsewhere does not spoil it.
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        let result = act(&mut breaker, now);
        let state = breaker.state(now);
        if self.state.send_if_modified(|before| std::mem::replace(before, state) != state) {
            limit.halve(state != BreakerState::Closed);
        }
        result
    }
}

impl Origin {
    fn health<T>(&self, act: impl FnOnce(&mut Breaker, Monotonic) -> T) -> T {
        self.health.with(&self.limit, act)
    }

    /// What the breaker believes of the application now.
    pub fn breaker_state(&self) -> BreakerState {
        self.health(|breaker, now| breaker.state(now))
    }

    /// Whether the breaker is open: what may be served stale is served at once, and nothing is refreshed but by probes.
    pub fn is_open(&self) -> bool {
        self.breaker_state() != BreakerState::Closed
    }

    /// Whether the breaker is open and wants a request as its next probe.
    pub fn is_probe_due(&self) -> bool {
        self.health(|breaker, now| breaker.is_probe_due(now))
    }

    /// Takes the turn of the next probe, if one is due, for a fetch with it.
    pub fn claim_probe(self: &Arc<Self>) -> Option<Arc<ProbeTurn>> {
        self.health(Breaker::claim_probe).map(|number| self.probe_turn(number))
    }

    fn probe_turn(self: &Arc<Self>, number: u64) -> Arc<ProbeTurn> {
        Arc::new(ProbeTurn { origin: Arc::clone(self), number })
    }

    /// Changes of the breaker since the last call, oldest first; of too many, the latest.
    pub fn take_breaker_changes(&self) -> Vec<BreakerChange> {
        self.health(|breaker, now| {
            breaker.state(now);
            breaker.take_changes()
        })
    }

    /// How often the breaker has changed.
    pub fn breaker_changes(&self) -> u64 {
        self.health(|breaker, _| breaker.changes())
    }

    /// Ready when the breaker is open.
    pub async fn opened(&self) {
        self.comes_to(|state| *state != BreakerState::Closed).await;
    }

    /// Ready when the breaker is open because the application is silent.
    pub async fn fallen_silent(&self) {
        self.comes_to(|state| *state == BreakerState::Silent).await;
    }

    async fn comes_to(&self, is_awaited: impl FnMut(&BreakerState) -> bool) {
        let mut state = self.health.state.subscribe();
        // An error means that the origin is gone, and with it whatever waits here.
        let _ = state.wait_for(is_awaited).await;
    }

    /// Lets a fetch go to the application, with the turn that it has or takes if it is a probe. Where no connection can
    /// be made, only probes go.
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
        // Made without the lock, which a turn takes when it is dropped.
        Ok(claimed.map(|number| self.probe_turn(number)))
    }

    /// The application has accepted a connection.
    pub(crate) fn was_connected(&self) {
        self.health(Breaker::connected);
    }
}

/// The turn of one probe. If it is dropped before its fetch has begun, the next request gets it.
#[derive(Debug)]
pub struct ProbeTurn {
    origin: Arc<Origin>,
    number: u64,
}

impl Drop for ProbeTurn {
    fn drop(&mut self) {
        self.origin.health(|breaker, _| breaker.release_probe(self.number));
    }
}

/// One fetch under the eyes of the breaker, until its first byte or its end.
#[derive(Debug)]
pub(crate) struct Watched {
    origin: Arc<Origin>,
    begun: Begun,
    is_over: bool,
}

impl Watched {
    /// A fetch goes to the application. `page` is a digest of its key if its answer may be shared.
    pub(crate) fn begin(origin: &Arc<Origin>, page: Option<u64>, turn: Option<&ProbeTurn>) -> Self {
        let number = turn.map(|turn| turn.number);
        let begun = origin.health(|breaker, now| breaker.begin(page, number, now));
        Self { origin: Arc::clone(origin), begun, is_over: false }
    }

    /// The first byte has come; further calls have no effect.
    pub(crate) fn answered(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.origin.health(|breaker, now| breaker.answered(&self.begun, now));
        }
    }

    /// The fetch has failed. After the first byte that says nothing about whether the application answers.
    pub(crate) fn failed(&mut self, error: &FetchError) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.origin.health(|breaker, now| breaker.failed(&self.begun, Failure::of(error), now));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_over {
            self.origin.health(|breaker, now| breaker.dropped(&self.begun, now));
        }
    }
}
