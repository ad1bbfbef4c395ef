//! One origin: its address, its limit on concurrent requests, its breaker, and its connections.
//!
//! Invariant: every request sent to the origin holds a permit of the limit, until the edge gives it
//! up for a response that stays open. An origin is shared by all workers; state of one worker's
//! runtime is in the exchange.

use crate::balance::Standing;
use crate::breaker::BreakerLimits;
use crate::error::FetchError;
use crate::exchange::OriginExchange;
use crate::health::{Health, ProbeTurn, WatchedFetch};
use crate::introduction::{self, FetchClient};
use crate::limit::{FetchBounds, FetchLimit, FetchPermit};
use crate::pool::IdlePool;
use crate::security::OriginTls;
use crate::service::Service;
use crate::tally::{OriginRecord, Tally};
use crate::urgency::Urgency;
use address::{Address, OriginUrl};
use bytes::Bytes;
use clock::{Clock, Monotonic};
use h1::BodyFraming;
use message::Method;
use net::{IdleStream, Network, Stream, TlsError};
use proxy_protocol::Version;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

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

/// The longest time for which a connection to a host name is used again. New connections resolve
/// the name, so Petasos follows a change of its addresses within this time.
const NAMED_CONNECTION_LASTS: Duration = Duration::from_secs(30);

/// An origin is busy after a request has waited so long in its queue, for this time.
const BUSY_WAIT: Duration = Duration::from_millis(500);
const BUSY_LASTS: Duration = Duration::from_secs(2);

/// A connection, ready for a request.
pub(crate) struct OriginConnection {
    pub stream: Stream,
    /// When it was made.
    pub made: Monotonic,
    /// Whether it carried a request before.
    pub is_reused: bool,
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
    /// The client of the request, for the PROXY protocol.
    pub client: FetchClient,
    /// A digest of the page's cache key if the response may be shared. Only then does a missing
    /// first byte count for the breaker: a pass may be a long poll, or wait for its client.
    pub page: Option<u64>,
    /// The turn of a probe, if the caller claimed one.
    pub probe: Option<Arc<ProbeTurn>>,
}

/// The times of a fetch until its request can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchTiming {
    /// How long the fetch waited for its turn.
    pub queue: Duration,
    /// How long it took to have a connection.
    pub connect: Duration,
    /// When it had the connection.
    pub connected: Monotonic,
}

/// The numbers of requests and connections of an origin at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// Fetches that may be active.
    pub limit: usize,
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
    pub(crate) service: Service,
    pub(crate) tally: Tally,
    /// Until when the origin counts as busy, by the monotonic clock; 0 if it never was.
    busy_until_nanos: AtomicU64,
    pool: IdlePool,
    pub(crate) clock: Arc<dyn Clock>,
    network: Arc<dyn Network>,
    /// `None` for an origin without TLS.
    tls: Option<OriginTls>,
    /// The version of the PROXY header with which connections begin; `None` without one.
    proxy_protocol: Option<Version>,
}

impl FetchRequest {
    /// A digest of the path. It distinguishes pages that differ in their cost; parameters seldom
    /// do.
    pub(crate) fn page_digest(&self) -> u64 {
        let target = self.head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        target.split(|byte| *byte == b'?').next().hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the request can be repeated without harm: it is idempotent and has no content.
    pub(crate) fn is_replayable(&self) -> bool {
        self.method.is_idempotent() && self.framing.is_empty()
    }
}

impl Origin {
    /// Creates an origin at this address of `network`, without connections.
    pub fn new(url: OriginUrl, settings: Settings, clock: Arc<dyn Clock>, network: Arc<dyn Network>) -> Self {
        let limit = FetchLimit::new(settings.bounds, settings.queue_timeout);
        // The name of an origin may get another address.
        let age_max = matches!(url.address(), Address::Host { .. }).then_some(NAMED_CONNECTION_LASTS);
        let pool = IdlePool::new(settings.idle_connections_max, settings.idle_connection_timeout, age_max);
        let health = Health::new(settings.breaker, Arc::clone(&clock));
        let tally = Tally::default();
        tally.stands(Standing::Well, clock.monotonic());
        Self {
            url,
            settings,
            limit,
            health,
            service: Service::default(),
            tally,
            busy_until_nanos: AtomicU64::new(0),
            pool,
            clock,
            network,
            tls: None,
            proxy_protocol: None,
        }
    }

    /// The same origin with these settings for TLS. An https origin without them cannot be reached.
    #[must_use]
    pub fn secured_by(self, tls: Option<OriginTls>) -> Self {
        Self { tls, ..self }
    }

    /// The same origin, whose connections begin with a PROXY header of this version.
    #[must_use]
    pub fn introduced_by(self, proxy_protocol: Option<Version>) -> Self {
        Self { proxy_protocol, ..self }
    }

    /// Waits for a permit and takes or makes a connection. The request itself is sent when the
    /// exchange is polled for its first event.
    ///
    /// Only a repeatable request uses an idle connection. An origin may close an idle connection at
    /// the moment of the next request, and a request that cannot be repeated would then be lost.
    ///
    /// # Errors
    /// [`FetchError`] if there is no permit or no connection in time, or if the breaker rejects the
    /// request.
    pub async fn fetch(self: &Arc<Self>, request: FetchRequest) -> Result<OriginExchange, FetchError> {
        let begun = self.clock.monotonic();
        let probe = self.admit(request.probe.clone())?;
        let (permit, permitted) = self.turn(&request.urgency, probe.is_some(), begun).await?;
        // The origin may have become unreachable while the request waited.
        let probe = self.admit(probe)?;
        self.tally.request();
        let mut watched = WatchedFetch::begin(self, request.page, probe.as_deref());
        let idle = if request.is_replayable() { self.take_idle(request.client) } else { None };
        let idle = idle.and_then(|(stream, made)| Some((stream.into_stream().ok()?, made)));
        let connection = match idle {
            Some((stream, made)) => OriginConnection { stream, made, is_reused: true },
            None => {
                let connected = self.connect(request.client).await;
                connected.inspect_err(|error| {
                    watched.failed(error, &request);
                    self.tally.failed(error);
                })?
            }
        };
        let connected = self.clock.monotonic();
        let timing =
            FetchTiming { queue: permitted.since(begun), connect: connected.since(permitted), connected };
        Ok(OriginExchange::new(Arc::clone(self), Some(permit), watched, request, connection, timing))
    }

    /// Sends a request beside the limit, on a new connection: a health check, which must not wait
    /// behind the requests that it is about.
    ///
    /// # Errors
    /// As for [`Origin::fetch`], except that the origin is never busy.
    pub(crate) async fn fetch_aside(
        self: &Arc<Self>,
        request: FetchRequest,
    ) -> Result<OriginExchange, FetchError> {
        let begun = self.clock.monotonic();
        let probe = self.admit(request.probe.clone())?;
        let mut watched = WatchedFetch::begin(self, request.page, probe.as_deref());
        let connection =
            self.connect(request.client).await.inspect_err(|error| watched.failed(error, &request))?;
        let connected = self.clock.monotonic();
        let timing = FetchTiming { queue: Duration::ZERO, connect: connected.since(begun), connected };
        Ok(OriginExchange::new(Arc::clone(self), None, watched, request, connection, timing))
    }

    /// Waits for a permit since `begun`, and notes whether requests wait long for it. Returns the
    /// time at which it came, too.
    async fn turn(
        &self,
        urgency: &Urgency,
        is_probe: bool,
        begun: Monotonic,
    ) -> Result<(FetchPermit, Monotonic), FetchError> {
        let permit = self.limit.acquire(urgency, is_probe).await;
        let now = self.clock.monotonic();
        // A client that waits for its own share does not make the origin busy for the others.
        if (permit.is_err() || now.since(begun) >= BUSY_WAIT) && self.limit.is_full() {
            self.busy_until_nanos.store(now.plus(BUSY_LASTS).as_nanos(), Ordering::Relaxed);
        }
        Ok((permit?, now))
    }

    /// Whether requests wait long in the queue, or find it full.
    pub fn is_busy(&self) -> bool {
        // Relaxed is enough: the value orders no other memory. A late look sees the state of a
        // moment ago.
        let until = self.busy_until_nanos.load(Ordering::Relaxed);
        until > 0 && self.clock.monotonic().as_nanos() < until
    }

    /// Makes a connection without a request, to test whether the origin accepts one. Only a success
    /// is reported to the breaker.
    ///
    /// # Errors
    /// [`FetchError`] if there is no connection.
    pub async fn try_connect(&self, client: FetchClient) -> Result<(), FetchError> {
        self.connect(client).await.map(drop)
    }

    /// The origin's address.
    pub fn url(&self) -> &OriginUrl {
        &self.url
    }

    /// The current numbers of requests and connections.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            limit: self.limit.limit(),
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
        let half = self.limit.limit().div_ceil(2);
        answers && self.limit.waiting() == 0 && self.limit.active() < half
    }

    /// Closes the idle connections, and keeps no others: no new request goes to this origin.
    pub fn retire(&self) {
        self.pool.retire();
    }

    /// The origin's record up to now.
    pub fn record(&self) -> OriginRecord {
        self.tally.record(self.clock.monotonic())
    }

    /// Closes connections that were idle for too long, and notes the origin's state. Call it about
    /// once a second.
    pub fn sweep(&self) {
        let now = self.clock.monotonic();
        self.pool.sweep(now);
        self.tally.stands(self.standing(), now);
    }

    /// The limits of this origin.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes a connection ready for a request. The time limit includes the TLS handshake.
    pub(crate) async fn connect(&self, client: FetchClient) -> Result<OriginConnection, FetchError> {
        let connected = tokio::time::timeout(self.settings.connect_timeout, self.open(client)).await;
        let stream = connected.map_err(|_| FetchError::ConnectTimeout)??;
        self.was_connected();
        Ok(OriginConnection { stream, made: self.clock.monotonic(), is_reused: false })
    }

    async fn open(&self, client: FetchClient) -> Result<Stream, FetchError> {
        let connected = self.network.connect(self.url.address()).await;
        let mut stream = connected.map_err(|error| FetchError::connecting(&error))?;
        if let Some(version) = self.proxy_protocol {
            // It comes before the handshake: the TLS session is inside the proxied connection.
            let header = introduction::header(version, client, &self.url);
            let written = stream.write_all(&header).await;
            written.map_err(|error| FetchError::connecting(&error))?;
        }
        if !self.url.is_https() {
            return Ok(stream);
        }
        let tls = self.tls.as_ref().ok_or(TlsError::NoAuthorities(Vec::new()))?;
        // Boxed, because most fetches need no memory for a handshake.
        Ok(Box::pin(tls.secure(stream)).await?)
    }

    /// TLS' reason for an error of the system on a connection; `None` if TLS is not the reason.
    pub(crate) fn tls_error(&self, error: &io::Error) -> Option<TlsError> {
        TlsError::inside(error, self.tls.as_ref()?.name())
    }

    /// An idle connection for a request of this client.
    fn take_idle(&self, client: FetchClient) -> Option<(IdleStream, Monotonic)> {
        if !self.is_shared(client) {
            return None;
        }
        self.pool.take(self.named(client), self.clock.monotonic())
    }

    /// Returns a connection, made at `made`, to the pool after a complete response to a request of
    /// this client.
    pub(crate) fn keep(&self, (stream, made): (Stream, Monotonic), client: FetchClient) {
        // A connection that names one client is closed, and one that cannot be made idle.
        if self.is_shared(client)
            && let Ok(idle) = stream.into_idle()
        {
            self.pool.put((idle, made), self.named(client), self.clock.monotonic());
        }
    }

    /// Whether the connection of a request may carry requests of other clients.
    fn is_shared(&self, client: FetchClient) -> bool {
        self.proxy_protocol.is_none() || client.shared().is_some()
    }

    /// The address that such a connection names; `None` without a PROXY header.
    fn named(&self, client: FetchClient) -> Option<IpAddr> {
        self.proxy_protocol.and_then(|_| client.shared())
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
