//! The load tester. It sends requests to one or more URLs, and reads and checks every byte of every
//! response. It reports its measurements, and how far the figures can be trusted.
//!
//! A run combines a course (closed or open loop, and its end), a transport and a recorder. One
//! driver, the worker, runs them:
//!
//! ```text
//!   arrival, schedule    when requests start, and what ends the run
//!        |
//!      worker            one thread, one poll, its connections
//!        |      \
//!   transport    recorder, account    how requests travel; what is measured
//! ```
//!
//! Invariant: while requests run, threads share only a few atomics, and locks that they rarely
//! take. Each thread counts for itself, and [`RunOutcome`] is the sum. The documentation of the
//! `outcome` module defines every term and figure.
//!
//! Other crates show results (`report`), compare runs with each other (`ladder`), and handle
//! signals and arguments (`cli`).

mod account;
mod arrival;
mod conclude;
mod content;
mod control;
mod dial;
mod exchange;
mod local_limit;
mod pauses;
mod priority;
mod reader;
mod recorder;
mod request;
mod routes;
mod schedule;
mod script;
mod series;
mod shared;
mod slots;
mod stage_record;
mod timer;
mod tls;
mod transport;
mod trend;
mod worker;

pub use content::CONTENT_BYTES_MAX;
pub use control::{Control, RunProgress};
pub use local_limit::LocalLimit;
pub use priority::take_real_time;
pub use request::{USER_AGENT, image};
pub use transport::http2::{http2_settings, is_of_connections};
pub use trend::{FAILING_EVERY, FailureTally, Trend};
pub use worker::cpu::thread_cpu;

use clock::Clock;
use conclude::{RunFacts, conclude};
use net::TlsError;
use record::{Arrival, IN_FLIGHT_MAX_DEFAULT, Plan, PlanError, Protocol, RunOutcome, Stage, StageLoad};
use routes::Routes;
use script::UrlList;
use shared::LoadContext;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tls::Tls;
use transport::Transport;
use transport::http1::Http1;
use transport::http2::Http2;
use transport::pipelined::Pipelined;
use worker::{LoadWorker, PARTING_MAX, Report};

/// A run ends when a connection fails and a target that was reachable before has shown no sign of
/// life for this long.
pub const GONE_AFTER: Duration = Duration::from_secs(3);

/// Descriptors this process needs besides its connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The host name could not be resolved.
    #[error("{host}: {reason}")]
    Resolve {
        /// The host name.
        host: String,
        /// The resolver's reason.
        reason: String,
    },
    /// Not a single connection could be made.
    #[error("{url}: cannot connect to {address}: {reason}")]
    Unreachable {
        /// The target.
        url: String,
        /// The address that was tried.
        address: SocketAddr,
        /// The system's reason.
        reason: String,
    },
    /// The process may not open enough descriptors.
    #[error(
        "{connections} connections need {needed} descriptors, but this process may open {allowed}; raise \
         the limit (ulimit -Hn, LimitNOFILE=), or use fewer users or requests in flight"
    )]
    Descriptors {
        /// Connections that may be open at a time.
        connections: usize,
        /// Descriptors needed for them.
        needed: u64,
        /// The hard limit of the process.
        allowed: u64,
    },
    /// A system call failed for a reason that has nothing to do with the target.
    #[error("{call}: {reason}")]
    System {
        /// The call that failed.
        call: &'static str,
        /// The system's reason.
        reason: String,
    },
}

impl LoadError {
    pub(crate) fn system(call: &'static str, error: &io::Error) -> Self {
        Self::System { call, reason: error.to_string() }
    }

    /// An error for a limit of the process or the system that was reached during a run. The message
    /// says how to raise it.
    pub(crate) fn limit(call: &'static str, error: &io::Error) -> Self {
        let way_out = "raise the limit (ulimit -Hn, LimitNOFILE=, fs.file-max), or use fewer users, fewer \
                       requests in flight or a shorter --linger";
        Self::System { call, reason: format!("{error}: {way_out}") }
    }
}

/// Runs a plan to its end and returns the measurements.
///
/// Blocks the calling thread. The load comes from one thread for each core unless the plan says
/// otherwise. Through `control`, another thread can watch and stop the run.
///
/// # Errors
/// If nothing could be measured. Either the plan is wrong, the host name cannot be resolved, no
/// connection could be made, or the system refuses a resource. If the target fails later in the
/// run, the result is an [`RunOutcome`].
pub fn run(plan: &Plan, clock: &dyn Clock, control: &Control) -> Result<RunOutcome, LoadError> {
    let images = request::images(plan)?;
    let asked = clock.monotonic();
    let routes = Routes::find(plan)?;
    let dns = clock.monotonic().since(asked);
    let connections = connections_max(plan);
    let threads = match plan.threads {
        0 => threads_default(plan),
        threads => threads,
    };
    let bounds = [plan.connections_per_host_max, plan.connections_per_address_max];
    let threads = bounds.into_iter().flatten().fold(threads.min(connections), usize::min);
    allow_descriptors(connections, threads, !plan.linger.is_zero())?;
    let started = clock.now().plus(plan.warmup);
    let tls = Tls::of(plan)?;
    let mut shared = LoadContext::new(plan, clock, control, &routes, &images, tls);
    control.measuring_since(shared.course.measuring_since());
    shared.busy_waits = busy_waits(plan, &routes, threads);
    control.series.begin(threads);
    let generate = match (plan.http, plan.pipeline) {
        (Protocol::H2, _) => generate::<Http2>,
        (Protocol::Http10 | Protocol::Http11, 1) => generate::<Http1>,
        (Protocol::Http10 | Protocol::Http11, _) => generate::<Pipelined>,
    };
    let (reports, is_real_time) = generate(&shared, threads)?;
    let now = clock.monotonic();
    if let Some(error) = shared.take_fatal() {
        return Err(error);
    }
    Ok(conclude(&shared, reports, RunFacts { threads, is_real_time, started, dns, now }))
}

/// The most users of a light closed loop. More of them keep a thread awake at a fast server, and at
/// a slow server the wake-up latency is small beside the response time.
const LIGHT_USERS_MAX: usize = 16;

/// The highest rate of a light open loop, in requests a second: a tenth of a thread's maximum.
const LIGHT_RATE_MAX: f64 = 5_000.0;

/// How many threads of a run busy-wait. Only a run on the host of its server does: the latency of a
/// network exceeds that of waking. Real-time threads sleep, unless there is at most one user for
/// each thread that may busy-wait.
fn busy_waits(plan: &Plan, routes: &Routes, threads: usize) -> usize {
    let busy_waits = worker::busy_wait::threads_max(cores()).min(threads);
    if !plan.real_time {
        return if is_light(plan) && routes.addresses().iter().all(|address| address.ip().is_loopback()) {
            busy_waits
        } else {
            0
        };
    }
    let users = plan.users.saturating_mul(plan.pipeline);
    let is_closed = plan.arrival == Arrival::Closed && plan.stages.is_empty();
    if is_closed && users <= threads && threads <= busy_waits { threads } else { 0 }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of threads, if the plan names none. A light load has only threads that may busy-wait.
fn threads_default(plan: &Plan) -> usize {
    let is_light = is_light(plan) && !plan.real_time;
    if is_light { worker::busy_wait::threads_max(cores()).max(1) } else { cores() }
}

/// Whether the load leaves its threads mostly idle, so that they would often have to wake up.
fn is_light(plan: &Plan) -> bool {
    plan.stages.is_empty()
        && match plan.arrival {
            Arrival::Closed => plan.users.saturating_mul(plan.pipeline) <= LIGHT_USERS_MAX,
            Arrival::Open { rate, .. } => rate.mean() <= LIGHT_RATE_MAX,
        }
}

/// Runs a worker in each of `threads` threads, whose requests travel by `T`. Returns their reports,
/// and whether all threads had real-time priority.
fn generate<T: Transport + Send>(
    shared: &LoadContext<'_>,
    threads: usize,
) -> Result<(Vec<Report>, bool), LoadError> {
    let real_time = shared.plan.real_time && shared.busy_waits == 0;
    let new = |index| LoadWorker::<T, _>::new(shared, (index, threads), UrlList::new(shared, index));
    let workers = (0..threads).map(new).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let handles = workers
            .into_iter()
            .enumerate()
            .map(|(index, worker)| {
                std::thread::Builder::new()
                    .name(format!("load-{index}"))
                    .spawn_scoped(scope, move || (real_time && take_real_time(), worker.run()))
            })
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| LoadError::system("cannot start a generator thread", &error))?;
        let joined = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let (allowed, reports): (Vec<bool>, Vec<Report>) = joined.unzip();
        Ok((reports, allowed.into_iter().all(|is_allowed| is_allowed)))
    })
}

/// The most usable connections a plan may have open at a time. Connections that only wait for the
/// server's close are not included.
fn connections_max(plan: &Plan) -> usize {
    let in_flight_max = match plan.arrival {
        Arrival::Open { in_flight_max, .. } => in_flight_max,
        Arrival::Closed => IN_FLIGHT_MAX_DEFAULT,
    };
    let of_stage = |stage: &Stage| match stage.load {
        StageLoad::Users(users) => users,
        StageLoad::Rate(_) => in_flight_max,
    };
    let of_plan = if plan.arrival == Arrival::Closed { plan.users } else { in_flight_max };
    plan.stages.iter().map(of_stage).max().unwrap_or(of_plan)
}

/// Raises the soft limit on descriptors to the number needed. With `as_far_as_possible` the number
/// is not known, so the limit is raised to the hard limit.
fn allow_descriptors(connections: usize, threads: usize, as_far_as_possible: bool) -> Result<(), LoadError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // A user may have one connection in use and one that waits for the server's close.
    let needed = (connections + connections.min(threads * PARTING_MAX)) as u64 + DESCRIPTORS_SPARE;
    let limit = getrlimit(Resource::Nofile);
    let wanted = if as_far_as_possible { limit.maximum } else { Some(needed) };
    if limit.current.is_none_or(|soft| wanted.is_some_and(|wanted| soft >= wanted)) {
        return Ok(());
    }
    if let Some(allowed) = limit.maximum.filter(|&hard| hard < needed) {
        return Err(LoadError::Descriptors { connections, needed, allowed });
    }
    setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: limit.maximum })
        .map_err(|error| LoadError::system("setrlimit", &error.into()))
}

/// Raises the soft limit on descriptors to the hard limit, for a run that cannot tell how many it
/// needs. Returns the resulting limit, or `None` if there is none.
///
/// # Errors
/// If the system refuses.
pub fn allow_all_descriptors() -> Result<Option<u64>, LoadError> {
    allow_descriptors(0, 0, true)?;
    Ok(rustix::process::getrlimit(rustix::process::Resource::Nofile).current)
}

#[cfg(test)]
mod tests {
    use super::{LoadError, allow_descriptors};

    #[test]
    fn more_users_than_descriptors_is_a_descriptors_error() {
        let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        if let Some(hard) = hard {
            let error = allow_descriptors(hard as usize, 1, false).unwrap_err();
            assert!(matches!(error, LoadError::Descriptors { allowed, .. } if allowed == hard), "{error}");
        }
        assert_eq!(allow_descriptors(1, 1, false), Ok(()));
    }
}
