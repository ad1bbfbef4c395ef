//! One application: where it is, how many requests it gets at a time, its breaker, and its connections.
//!
//! Invariant: every request sent to an application holds a permit of its limit. Shared by all workers; what
//! belongs to a worker's runtime is in the exchange.

use crate::breaker::BreakerLimits;
use crate::error::FetchError;
use crate::exchange::Exchange;
use crate::health::{Health, ProbeTurn, Watched};
use crate::limit::{Bounds, FetchLimit};
use crate::pool::Pool;
use crate::urgency::Urgency;
use bytes::Bytes;
use h1::BodyFraming;
use message::Method;
use net::{OriginUrl, Stream};
use platform::Clock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Limits of one origin; the settings table of `config` has their meaning and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// To connect.
    pub connect_timeout: Duration,
    /// From the end of a request to the first octet of its response.
    pub first_byte_timeout: Duration,
    /// Longest pause inside a response, or inside the application's reading of a request.
    pub between_bytes_timeout: Duration,
    /// Size of response heads and trailers.
    pub response_limits: h1::Limits,
    /// Requests under way and waiting at a time.
    pub bounds: Bounds,
    /// Longest wait for a turn.
    pub queue_timeout: Duration,
    /// Unused connections kept.
    pub idle_connections_max: usize,
    /// How long one is kept.
    pub idle_connection_timeout: Duration,
    /// When its breaker opens, and how it is probed then.
    pub breaker: BreakerLimits,
}

/// A request ready to be sent.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The head as it stands on the wire, its empty line included; it announces `framing`.
    pub head: Bytes,
    /// The method in it.
    pub method: Method,
    /// How the end of the content is recognised; content comes from an [`crate::Upload`] unless it is
    /// [`BodyFraming::Empty`].
    pub framing: BodyFraming,
    /// Whether the content waits for 100 (Continue); the head then has the field Expect.
    pub expect_continue: bool,
    /// Whether the head has a condition that can be answered 304.
    pub is_conditional: bool,
    /// Who waits for it.
    pub urgency: Urgency,
    /// A digest of the page's key if the answer may be shared. Only then a missing first byte tells the breaker
    /// something: a pass may be a long poll, or wait for its client.
    pub page: Option<u64>,
    /// Its turn, if the breaker wants it as a probe.
    pub probe: Option<Arc<ProbeTurn>>,
}

/// What goes on at an origin right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// Requests under way.
    pub active: usize,
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Fetches that wait for a slow client.
    pub stalled: usize,
    /// Unused connections.
    pub idle: usize,
}

/// An application with its limit and its connections.
pub struct Origin {
    url: OriginUrl,
    settings: Settings,
    pub(crate) limit: FetchLimit,
    pub(crate) health: Health,
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl FetchRequest {
    /// Whether sending it twice does no harm and is possible: idempotent and without content.
    pub(crate) fn is_replayable(&self) -> bool {
        self.method.is_idempotent() && self.framing.is_empty()
    }
}

impl Origin {
    /// An application at this address.
    pub fn new(url: OriginUrl, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let limit = FetchLimit::new(settings.bounds, settings.queue_timeout);
        let pool = Pool::new(settings.idle_connections_max, settings.idle_connection_timeout);
        let health = Health::new(settings.breaker, Arc::clone(&clock));
        Self { url, settings, limit, health, pool, clock }
    }

    /// Waits for the request's turn and finds a connection for it. The request is sent when the exchange is
    /// asked for its first event.
    ///
    /// Only a request that may be repeated is sent on a connection that was used before: an application may
    /// close an idle connection at the moment of the next request, and what was not repeatable would be lost.
    ///
    /// # Errors
    /// [`FetchError`] when there is no turn or no connection in time, or when the breaker lets it not go.
    pub async fn fetch(self: &Arc<Self>, request: FetchRequest) -> Result<Exchange, FetchError> {
        let probe = self.admit(request.probe.clone())?;
        let permit = self.limit.acquire(&request.urgency, probe.is_some()).await?;
        // The application may have gone while the request waited.
        let probe = self.admit(probe)?;
        let mut watched = Watched::begin(self, request.page, probe.as_deref());
        let idle = if request.is_replayable() { self.pool.take(self.clock.monotonic()) } else { None };
        let (stream, reused) = match idle.map(net::IdleStream::into_stream) {
            Some(Ok(stream)) => (stream, true),
            Some(Err(_)) | None => (self.connect().await.inspect_err(|error| watched.failed(error))?, false),
        };
        Ok(Exchange::new(Arc::clone(self), permit, watched, request, (stream, reused)))
    }

    /// Where the application is.
    pub fn url(&self) -> &OriginUrl {
        &self.url
    }

    /// What goes on right now.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            active: self.limit.active(),
            waiting: self.limit.waiting(),
            stalled: self.limit.stalled(),
            idle: self.pool.len(),
        }
    }

    /// Whether it works on less than half of what it may get, nothing waits for it, and its breaker is closed or wants
    /// a probe.
    pub fn has_time(&self) -> bool {
        let answers = !self.is_open() || self.is_probe_due();
        let half = self.settings.bounds.fetches_max.div_ceil(2);
        answers && self.limit.waiting() == 0 && self.limit.active() < half
    }

    /// Closes connections that were idle for too long; to be called every second or so.
    pub fn sweep(&self) {
        self.pool.sweep(self.clock.monotonic());
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) async fn connect(&self) -> Result<Stream, FetchError> {
        match tokio::time::timeout(self.settings.connect_timeout, Stream::connect(self.url.address())).await {
            Ok(Ok(stream)) => {
                self.was_connected();
                Ok(stream)
            }
            Ok(Err(error)) => Err(FetchError::connecting(&error)),
            Err(_) => Err(FetchError::ConnectTimeout),
        }
    }

    /// Takes back a connection whose last response is complete.
    pub(crate) fn keep(&self, stream: Stream) {
        if let Ok(idle) = stream.into_idle() {
            self.pool.put(idle, self.clock.monotonic());
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("url", &self.url)
            .field("gauges", &self.gauges())
            .finish_non_exhaustive()
    }
}
