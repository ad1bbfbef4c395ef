//! The plan of a run: targets, users, requests, stop conditions and expectations.
//!
//! Invariant: a plan that passes [`Plan::check`] can be run; an error names the wrong part. A plan
//! is plain data: it opens no sockets and resolves no names.

use crate::ab_account::Counting;
use crate::expect::Expect;
use crate::traffic::{Arrival, RATE_MAX, RATE_MIN, Rate, STAGES_MAX, Stage, StageLoad, Think};
use crate::wire::{Close, Protocol, SourceNet, TlsOptions};
use address::HttpUrl;
use bytes::Bytes;
use message::Method;
use std::time::Duration;

/// The most users a run may have. One machine has neither ports nor descriptors for more.
pub const USERS_MAX: usize = 200_000;

/// The most URLs a run may have.
pub const URLS_MAX: usize = 100_000;

/// The most worker threads a run may have.
pub const THREADS_MAX: usize = 256;

/// The most responses a run keeps one by one for export.
pub const SAMPLES_MAX: u64 = 4_000_000;

/// The longest request head in bytes. The limit keeps a mistake in a script from sending megabytes
/// of header fields.
pub const REQUEST_HEAD_BYTES_MAX: usize = 64 * 1024;

/// The largest socket buffer that can be requested, in bytes. The kernel doubles the value for its
/// own overhead.
pub const SOCKET_BUFFER_BYTES_MAX: u32 = 1 << 30;

/// The default of [`Plan::timeout`].
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// One measured load.
///
/// By default it is a closed loop of [`Plan::users`]. Each user sends a request, waits for the
/// whole response, and sends the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the requests go, unless [`Plan::targets`] is given.
    pub target: HttpUrl,
    /// Several URLs. Each request picks one at random, in proportion to the weights. If the list is
    /// empty, all requests go to [`Plan::target`]. Otherwise the report shows [`Plan::target`] as
    /// the place the load went to.
    pub targets: Vec<WeightedTarget>,
    /// Number of users, 1 to [`USERS_MAX`]. Each has one request in flight at most, or
    /// [`Plan::pipeline`] of them. An open loop and stages ignore this field.
    pub users: usize,
    /// When requests are meant to start.
    pub arrival: Arrival,
    /// Consecutive parts of the run, each with its own load. If empty, the run has one part,
    /// described by `users`, `arrival` and `stop`.
    pub stages: Vec<Stage>,
    /// Time between two stages in which no request starts.
    pub cooldown: Duration,
    /// Think time: the pause of a closed-loop user between a response and its next request.
    pub think: Think,
    /// How long a connection stays open and unused after its last response, as in browsers, while
    /// its user makes a new one. Zero switches this off. Only allowed without [`Plan::keep_alive`].
    pub linger: Duration,
    /// Ramp-up: the time over which the load grows to its full size, from the beginning of the
    /// warm-up or of the first part. It may span several parts. The users of each part begin evenly
    /// spread over it; constant rates grow linearly.
    pub ramp: Duration,
    /// Without a ramp-up, the users of the first part begin at random moments within this time.
    /// Users who begin together stay together if every response takes the same time, and then each
    /// waits until the generator has handled the others. See [`spread`].
    pub spread: Duration,
    /// Seed of everything random: the choice of URLs, think times, Poisson gaps, the moments within
    /// the spread.
    pub seed: u64,
    /// The most connections to one host (name and port) at a time. Further requests wait for a
    /// connection.
    pub connections_per_host_max: Option<usize>,
    /// The most connections to one address (IP and port) at a time. Further requests wait for a
    /// connection.
    pub connections_per_address_max: Option<usize>,
    /// Worker threads; 0 means one for each core. A run never has more threads than connections.
    pub threads: usize,
    /// Whether the worker threads ask for real-time priority, for a server on the same host.
    /// [`crate::RunOutcome::is_real_time`] says whether the kernel allowed it; if not, the load
    /// runs like any other program.
    pub real_time: bool,
    /// When the run ends.
    pub stop: Stop,
    /// Time of load before the measured part. The requests of the warm-up are sent as usual but not
    /// counted.
    pub warmup: Duration,
    /// Whether connections are kept open between a user's requests.
    pub keep_alive: bool,
    /// How a connection that the server has closed is closed on this side.
    pub close: Close,
    /// The most requests a connection may have in flight at once; 1 means no pipelining. With
    /// HTTP/2 these are streams.
    pub pipeline: usize,
    /// The HTTP version of the requests.
    pub http: Protocol,
    /// TLS settings.
    pub tls: TlsOptions,
    /// The local addresses that connections are made from. With `None` the system chooses.
    pub source: Option<SourceNet>,
    /// The size of each connection's kernel buffers, in bytes, for each direction: 1 to
    /// [`SOCKET_BUFFER_BYTES_MAX`]. The system limits it as well. With `None` the system chooses.
    pub socket_buffer_bytes: Option<u32>,
    /// The proxy that receives all requests, each with the whole URL in its request line (RFC 9112
    /// section 3.2.2). The path of this target is ignored. If a URL uses TLS, the handshake is made
    /// with the proxy.
    pub proxy: Option<HttpUrl>,
    /// Credentials as `user:password` for the proxy (RFC 9110 section 11.7.2), sent with every
    /// request.
    pub proxy_auth: Option<String>,
    /// The method of the requests.
    pub method: Method,
    /// Header fields in the order in which they are sent. `Host`, `User-Agent`, `Accept` and
    /// `Connection` given here replace the built-in ones.
    pub headers: Vec<(String, String)>,
    /// Cookies as `name=value`, sent in one `Cookie` field.
    pub cookies: Vec<String>,
    /// Credentials as `user:password` for basic authentication (RFC 7617), sent with every request.
    pub basic_auth: Option<String>,
    /// The content of every request.
    pub body: Option<RequestBody>,
    /// How long a request may take from its start to the last byte of its response. It is checked
    /// at least 16 times within that time, so a request times out at most a sixteenth later.
    pub timeout: Duration,
    /// Which responses count as good.
    pub expect: Expect,
    /// Whether ApacheBench's counts are kept as well.
    pub counting: Counting,
    /// How many responses are kept one by one for export, at most [`SAMPLES_MAX`]; 0 keeps none.
    /// The first ones are kept; later ones are still counted everywhere else. Each thread may take
    /// 40 bytes for each.
    pub samples_max: u64,
}

/// One of several URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedTarget {
    /// Where its requests go.
    pub target: HttpUrl,
    /// Relative frequency of the URL, at least 1.
    pub weight: u32,
    /// Cookies as `name=value` that its requests carry in addition to those of the plan. They tell
    /// visitors apart.
    pub cookies: Vec<String>,
    /// Which of its responses count as good, if that differs from [`Plan::expect`].
    pub expect: Option<Expect>,
}

impl WeightedTarget {
    /// A URL without further cookies, judged by the plan's expectations.
    pub fn new(target: HttpUrl, weight: u32) -> Self {
        Self { target, weight, cookies: Vec::new(), expect: None }
    }
}

/// The content of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBody {
    /// The bytes.
    pub content: Bytes,
    /// The value of `Content-Type`.
    pub content_type: String,
}

/// When a run ends: at the first limit reached. Unless the plan has stages, `requests` or `time`
/// must be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// After this number of requests has ended, successfully or not. Warm-up requests do not count.
    pub requests: Option<u64>,
    /// After this time, not counting the warm-up. Requests of a closed loop that are in flight then
    /// are not counted.
    pub time: Option<Duration>,
    /// At the first connection that breaks before its response has ended, as `ab` does without
    /// `-r`. A regular close by the server does not end the run, although it is a
    /// [`crate::FailureKind::Receive`] as well.
    pub at_first_receive_error: bool,
    /// When more than half of the requests of the last seconds failed: [`crate::Ended::Failing`].
    pub when_failing: bool,
    /// When this many requests have failed, those of the warm-up included:
    /// [`crate::Ended::Failing`]. Requests in flight then may still fail.
    pub failures_max: Option<u64>,
}

/// Longest spread of users who begin without a ramp-up. It holds several responses of a fast
/// server.
const SPREAD_MAX: Duration = Duration::from_millis(20);

/// The spread ([`Plan::spread`]) of a run that ends after `time`: at most a hundredth of it, so
/// that the first moments weigh little. Zero if only a number of requests ends the run, because its
/// throughput would contain the spread.
pub fn spread(time: Option<Duration>) -> Duration {
    time.map_or(Duration::ZERO, |time| SPREAD_MAX.min(time / 100))
}

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Users out of range.
    #[error("{0} users are out of range; use 1 to {USERS_MAX}")]
    Users(usize),
    /// Threads out of range.
    #[error("{0} threads are too many; use at most {THREADS_MAX}")]
    Threads(usize),
    /// Neither a number of requests nor a time.
    #[error("the run has no end; give a number of requests, a time, or both")]
    NoStop,
    /// Zero requests or no time at all.
    #[error("the number of requests and the time must be above zero")]
    StopAtOnce,
    /// Too many URLs.
    #[error("{0} URLs are too many; give at most {URLS_MAX}")]
    Urls(usize),
    /// A URL with weight 0, which would never be requested.
    #[error("{0}: the weight must be above zero")]
    Weight(String),
    /// A rate out of range.
    #[error("the rate {0} is out of range; use a rate from {RATE_MIN} to {RATE_MAX} a second")]
    Rate(f64),
    /// A number that must not be zero.
    #[error("{0} must be above zero")]
    Zero(&'static str),
    /// Socket buffers out of range.
    #[error("socket buffers of {0} bytes are not possible; use 1 to {SOCKET_BUFFER_BYTES_MAX} bytes")]
    SocketBuffer(u32),
    /// Too many stages.
    #[error("{0} stages are too many; use at most {STAGES_MAX}")]
    Stages(usize),
    /// Settings that exclude each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// A timeout of zero.
    #[error("the timeout must be above zero")]
    Timeout,
    /// Too many samples asked for.
    #[error("{0} single responses are too many to keep; keep at most {SAMPLES_MAX}")]
    Samples(u64),
    /// A header field, cookie or credential with a line break or NUL.
    #[error("{place} must not contain line breaks or NUL: {text:?}")]
    LineBreak {
        /// Which part of the plan.
        place: &'static str,
        /// The text as given.
        text: String,
    },
    /// A header name with other characters than a token's (RFC 9110 section 5.1).
    #[error("{0:?} is not a header field name")]
    HeaderName(String),
    /// A method with other characters than a token's (RFC 9110 section 9.1).
    #[error("{0:?} is not a method")]
    Method(String),
    /// The requests of all URLs together are too long.
    #[error("the requests for all URLs have more than {0} bytes together; use fewer URLs or a smaller body")]
    RequestsTooLarge(usize),
    /// A request that HTTP/2 cannot express.
    #[error("the request cannot be sent over HTTP/2: {0}")]
    NotHttp2(String),
    /// The request head is too long.
    #[error(
        "the request head has {0} bytes, more than {REQUEST_HEAD_BYTES_MAX}; send fewer or shorter header fields"
    )]
    HeadTooLong(usize),
}

impl Plan {
    /// A plan for one user who sends GET requests on a persistent connection. Set [`Plan::stop`]
    /// before running it.
    pub fn new(target: HttpUrl) -> Self {
        Self {
            target,
            targets: Vec::new(),
            users: 1,
            arrival: Arrival::Closed,
            stages: Vec::new(),
            cooldown: Duration::ZERO,
            think: Think::None,
            linger: Duration::ZERO,
            ramp: Duration::ZERO,
            spread: Duration::ZERO,
            seed: 0,
            connections_per_host_max: None,
            connections_per_address_max: None,
            threads: 0,
            real_time: false,
            stop: Stop::default(),
            warmup: Duration::ZERO,
            keep_alive: true,
            close: Close::default(),
            pipeline: 1,
            http: Protocol::Http11,
            tls: TlsOptions::default(),
            source: None,
            socket_buffer_bytes: None,
            proxy: None,
            proxy_auth: None,
            method: Method::Get,
            headers: Vec::new(),
            cookies: Vec::new(),
            basic_auth: None,
            body: None,
            timeout: TIMEOUT_DEFAULT,
            expect: Expect::default(),
            counting: Counting::Ours,
            samples_max: 0,
        }
    }

    /// Checks that the plan can be run.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.users == 0 || self.users > USERS_MAX {
            return Err(PlanError::Users(self.users));
        }
        if self.threads > THREADS_MAX {
            return Err(PlanError::Threads(self.threads));
        }
        if self.timeout.is_zero() {
            return Err(PlanError::Timeout);
        }
        if self.samples_max > SAMPLES_MAX {
            return Err(PlanError::Samples(self.samples_max));
        }
        self.check_targets()?;
        self.check_traffic()?;
        self.check_stop()?;
        self.check_request()
    }

    fn check_targets(&self) -> Result<(), PlanError> {
        if self.targets.len() > URLS_MAX {
            return Err(PlanError::Urls(self.targets.len()));
        }
        match self.targets.iter().find(|of| of.weight == 0) {
            Some(of) => Err(PlanError::Weight(of.target.to_string())),
            None => Ok(()),
        }
    }

    fn check_traffic(&self) -> Result<(), PlanError> {
        let is_rate = |rate: f64| (RATE_MIN..=RATE_MAX).contains(&rate);
        if let Arrival::Open { rate, in_flight_max } = self.arrival {
            let (Rate::Constant(low) | Rate::Poisson(low) | Rate::Ramp { from: low, .. }) = rate;
            if let Some(bad) = [low, 2.0 * rate.mean() - low].into_iter().find(|&rate| !is_rate(rate)) {
                return Err(PlanError::Rate(bad));
            }
            if matches!(rate, Rate::Ramp { .. }) && self.stop.time.is_none() && self.stages.is_empty() {
                return Err(PlanError::Contradiction(
                    "a rate that changes until the end of the run needs the time of the run (-t)",
                ));
            }
            if in_flight_max == 0 {
                return Err(PlanError::Zero("the number of requests in flight"));
            }
        }
        if self.stages.len() > STAGES_MAX {
            return Err(PlanError::Stages(self.stages.len()));
        }
        for stage in &self.stages {
            match stage.load {
                StageLoad::Users(users) if users == 0 || users > USERS_MAX => {
                    return Err(PlanError::Users(users));
                }
                StageLoad::Rate(rate) if !is_rate(rate) => return Err(PlanError::Rate(rate)),
                _ if stage.time.is_zero() => return Err(PlanError::Zero("the time of a stage")),
                _ => {}
            }
        }
        self.check_connections()
    }

    fn check_connections(&self) -> Result<(), PlanError> {
        if self.connections_per_host_max == Some(0) || self.connections_per_address_max == Some(0) {
            return Err(PlanError::Zero("the number of connections to a host or an address"));
        }
        if self.pipeline == 0 {
            return Err(PlanError::Zero("the number of pipelined requests"));
        }
        if self.pipeline > 1 && !self.keep_alive {
            return Err(PlanError::Contradiction("pipelining needs keep-alive; leave one of the two out"));
        }
        if self.pipeline > 1 && self.http == Protocol::Http10 {
            return Err(PlanError::Contradiction("HTTP/1.0 has no pipelining; use HTTP/1.1 or 2"));
        }
        if let Some(bytes) = self.socket_buffer_bytes.filter(|&b| b == 0 || b > SOCKET_BUFFER_BYTES_MAX) {
            return Err(PlanError::SocketBuffer(bytes));
        }
        if self.http == Protocol::H2 && self.proxy.is_some() {
            return Err(PlanError::Contradiction(
                "HTTP/2 through a proxy is not supported; leave HTTP/2 or the proxy out",
            ));
        }
        if self.keep_alive && !self.linger.is_zero() {
            return Err(PlanError::Contradiction("lingering needs connections without keep-alive"));
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), PlanError> {
        match (self.stop.requests, self.stop.time) {
            (None, None) if self.stages.is_empty() => Err(PlanError::NoStop),
            (Some(0), _) | (_, Some(Duration::ZERO)) => Err(PlanError::StopAtOnce),
            _ => Ok(()),
        }
    }

    fn check_request(&self) -> Result<(), PlanError> {
        if !is_token(self.method.as_bytes()) {
            return Err(PlanError::Method(self.method.to_string()));
        }
        for (name, value) in &self.headers {
            if !is_token(name.as_bytes()) {
                return Err(PlanError::HeaderName(name.clone()));
            }
            check_line("a header field", value)?;
        }
        let cookies = self.cookies.iter().chain(self.targets.iter().flat_map(|of| &of.cookies));
        cookies.into_iter().try_for_each(|cookie| check_line("a cookie", cookie))?;
        let credentials = self.basic_auth.iter().chain(&self.proxy_auth);
        credentials.into_iter().try_for_each(|credentials| check_line("the credentials", credentials))?;
        self.body.iter().try_for_each(|body| check_line("the content type", &body.content_type))
    }
}

fn check_line(place: &'static str, text: &str) -> Result<(), PlanError> {
    if text.contains(['\r', '\n', '\0']) {
        return Err(PlanError::LineBreak { place, text: text.to_owned() });
    }
    Ok(())
}

/// Whether `text` is a token (RFC 9110 section 5.6.2).
fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{Plan, PlanError, Stop, USERS_MAX, WeightedTarget};
    use crate::traffic::{Arrival, Rate, Stage, StageLoad};
    use address::HttpUrl;
    use message::Method;
    use std::time::Duration;

    fn plan() -> Plan {
        let mut plan = Plan::new(HttpUrl::parse("http://127.0.0.1:1/").unwrap());
        plan.stop = Stop { requests: Some(1), ..Stop::default() };
        plan
    }

    /// Breaks a good plan with `change` and returns the error of the check.
    fn broken(change: impl FnOnce(&mut Plan)) -> PlanError {
        let mut plan = plan();
        assert_eq!(plan.check(), Ok(()));
        change(&mut plan);
        plan.check().unwrap_err()
    }

    #[test]
    fn values_outside_the_limits_are_refused() {
        assert_eq!(broken(|plan| plan.users = 0), PlanError::Users(0));
        assert_eq!(broken(|plan| plan.users = USERS_MAX + 1), PlanError::Users(USERS_MAX + 1));
        assert_eq!(broken(|plan| plan.threads = 1000), PlanError::Threads(1000));
        assert_eq!(broken(|plan| plan.stop = Stop::default()), PlanError::NoStop);
        assert_eq!(broken(|plan| plan.stop.requests = Some(0)), PlanError::StopAtOnce);
        assert_eq!(broken(|plan| plan.stop.time = Some(Duration::ZERO)), PlanError::StopAtOnce);
        assert_eq!(broken(|plan| plan.timeout = Duration::ZERO), PlanError::Timeout);
        assert_eq!(broken(|plan| plan.samples_max = u64::MAX), PlanError::Samples(u64::MAX));
    }

    #[test]
    fn rates_outside_the_limits_are_refused_with_the_limits() {
        for rate in [0.0, -1.0, 1e-20, 1e20] {
            let refused = broken(|plan| {
                plan.arrival = Arrival::Open { rate: Rate::Constant(rate), in_flight_max: 1 };
            });
            assert_eq!(refused, PlanError::Rate(rate));
            let stage = Stage { load: StageLoad::Rate(rate), time: Duration::from_secs(1) };
            assert_eq!(broken(|plan| plan.stages.push(stage)), refused);
        }
        assert_eq!(
            PlanError::Rate(1e-9).to_string(),
            "the rate 0.000000001 is out of range; use a rate from 0.000001 to 10000000 a second"
        );
    }

    #[test]
    fn line_breaks_and_bad_tokens_are_refused() {
        let smuggled = |error| matches!(error, PlanError::LineBreak { .. });
        assert!(smuggled(broken(|plan| plan.headers.push(("X".into(), "a\r\nY: b".into())))));
        assert!(smuggled(broken(|plan| plan.cookies.push("a=b\n".into()))));
        assert!(smuggled(broken(|plan| {
            let cookies = vec!["a=b\r\nX: y".to_owned()];
            plan.targets.push(WeightedTarget { cookies, ..WeightedTarget::new(plan.target.clone(), 1) });
        })));
        assert!(smuggled(broken(|plan| plan.basic_auth = Some("a:b\r".into()))));
        assert_eq!(
            broken(|plan| plan.headers.push(("X Y".into(), String::new()))),
            PlanError::HeaderName("X Y".into())
        );
        assert_eq!(broken(|plan| plan.method = Method::from_token(b"")), PlanError::Method(String::new()));
    }
}
