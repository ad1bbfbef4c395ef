//! One origin: its address, its limit on concurrent requests, its breaker, and its connections.
//!
//! Invariant: every request sent to the origin holds a permit of the limit, until the edge gives it
//! up for a response that stays open. An origin is shared by all workers; state of one worker's
//! runtime is in the exchange.

use crate::breaker::BreakerLimits;
use crate::error::FetchError;
use crate::exchange::OriginExchange;
use crate::health::{Health, ProbeTurn, WatchedFetch};
use crate::limit::{FetchBounds, FetchLimit};
use crate::pool::IdlePool;
use crate::urgency::Urgency;
use address::OriginUrl;
use bytes::Bytes;
use clock::Clock;
use h1::BodyFraming;
use message::Method;
use net::{Network, Stream};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Limits of one origin. The settings table of `config` has their meanings and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait from the end of the request to the first byte of the response.
    pub first_byte_timeout: Duration,
    /// The longest pause inside a response, or while the origin reads a request.
    pub between_bytes_timeout: Duration,
    /// The largest size of response heads and trailers.
    pub response_limits: h1::Limits,
    /// The largest numbers of active and waiting requests.
    pub bounds: FetchBounds,
    /// The longest wait in the queue.
    pub queue_timeout: Duration,
    /// The largest number of idle connections that are kept.
    pub idle_connections_max: usize,
    /// The longest time that an idle connection is kept.
    pub idle_connection_timeout: Duration,
    /// When the breaker opens, and how it then probes the origin.
    pub breaker: BreakerLimits,
}

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The serialised head, including the empty line. Its fields announce `framing`.
    pub head: Bytes,
    /// The method in the head.
    pub method: Method,
    /// How the end of the content is determined. The content comes from an [`crate::Upload`] unless
    /// this is [`BodyFraming::Empty`].
    pub framing: BodyFraming,
    /// Whether the content waits for 100 (Continue). The head then has the field Expect.
    pub expect_continue: bool,
    /// Whether the head has a condition, so that 304 is a possible response.
    pub is_conditional: bool,
    /// Which clients wait for the response.
    pub urgency: Urgency,
    /// A digest of the page's cache key if the response may be shared. Only then does a missing
    /// first byte count for the breaker: a pass may be a long poll, or wait for its client.
    pub page: Option<u64>,
    /// The turn of a probe, if the caller claimed one.
    pub probe: Option<Arc<ProbeTurn>>,
}

/// The numbers of requests and connections of an origin at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// Active fetches.
    pub active: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Stalled fetches, which wait for a slow client.
    pub stalled: usize,
    /// Idle connections.
    pub idle: usize,
}

/// An origin with its limit, its breaker and its connections.
pub struct Origin {
    url: OriginUrl,
    settings: Settings,
    pub(crate) limit: FetchLimit,
    pub(crate) health: Health,
    pool: IdlePool,
    clock: Arc<dyn Clock>,
    network: Arc<dyn Network>,
}

impl FetchRequest {
    /// Whether the request can be repeated without harm: it is idempotent and has no content.
    pub(crate) fn is_replayable(&self) -> bool {
        self.method.is_idempotent() && self.framing.is_empty()
    }
}

impl Origin {
    /// Creates an origin at this address of `network`, without connections.
    pub fn new(url: OriginUrl, settings: Settings, clock: Arc<dyn Clock>, network: Arc<dyn Network>) -> Self {
        let limit = FetchLimit::new(settings.bounds, settings.queue_timeout);
        let pool = IdlePool::new(settings.idle_connections_max, settings.idle_connection_timeout);
        let health = Health::new(settings.breaker, Arc::clone(&clock));
        Self { url, settings, limit, health, pool, clock, network }
    }

    /// Waits for a permit and takes or makes a connection. The request itself is sent when the
    /// exchange is polled for its first event.
    ///
    /// Only a repeatable request uses an idle connection. An origin may close an idle connection at
    /// the moment of the next request, and a request that cannot be repeated would then be lost.
    /// # Errors
    /// [`FetchError`] if there is no permit or no connection in time, or if the breaker rejects the
    /// request.
    pub async fn fetch(self: &Arc<Self>, request: FetchRequest) -> Result<OriginExchange, FetchError> {
        let probe = self.admit(request.probe.clone())?;
        let permit = self.limit.acquire(&request.urgency, probe.is_some()).await?;
        // The origin may have become unreachable while the request waited.
        let probe = self.admit(probe)?;
        let mut watched = WatchedFetch::begin(self, request.page, probe.as_deref());
        let idle = if request.is_replayable() { self.pool.take(self.clock.monotonic()) } else { None };
        let (stream, reused) = match idle.map(net::IdleStream::into_stream) {
            Some(Ok(stream)) => (stream, true),
            Some(Err(_)) | None => (self.connect().await.inspect_err(|error| watched.failed(error))?, false),
        };
        Ok(OriginExchange::new(Arc::clone(self), permit, watched, request, (stream, reused)))
    }

    /// The origin's address.
    pub fn url(&self) -> &OriginUrl {
        &self.url
    }

    /// The current numbers of requests and connections.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            active: self.limit.active(),
            waiting: self.limit.waiting(),
            stalled: self.limit.stalled(),
            idle: self.pool.len(),
        }
    }

    /// Whether the origin has capacity for background fetches. It works on less than half of its
    /// limit, the queue is empty, and its breaker is closed or wants a probe.
    pub fn has_time(&self) -> bool {
        let answers = !self.is_open() || self.is_probe_due();
        let half = self.settings.bounds.fetches_max.div_ceil(2);
        answers && self.limit.waiting() == 0 && self.limit.active() < half
    }

    /// Closes connections that were idle for too long. Call it about once a second.
    pub fn sweep(&self) {
        self.pool.sweep(self.clock.monotonic());
    }

    /// The limits of this origin.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) async fn connect(&self) -> Result<Stream, FetchError> {
        let connecting = self.network.connect(self.url.address());
        match tokio::time::timeout(self.settings.connect_timeout, connecting).await {
            Ok(Ok(stream)) => {
                self.was_connected();
                Ok(stream)
            }
            Ok(Err(error)) => Err(FetchError::connecting(&error)),
            Err(_) => Err(FetchError::ConnectTimeout),
        }
    }

    /// Returns a connection to the pool after a complete response.
    pub(crate) fn keep(&self, stream: Stream) {
        // A connection that cannot be made idle is closed.
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
