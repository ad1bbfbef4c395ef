//! The load tester: sends requests to one target with a fixed number of users, reads every octet of every
//! answer, checks it, and says what was measured and how far to trust it.
//!
//! The design is arrival x stop x transport x recorder with one driver:
//!
//! ```text
//!   arrival (closed loop)  x  stop (count, time, control)     who may send, and when that ends
//!        |
//!      worker: one thread, one poll, its users' connections    the driver
//!        |                \
//!   connection, reader     recorder                            transport (HTTP/1)  x  what is kept
//! ```
//!
//! Invariant: nothing is shared between threads while requests run but a few atomics; every thread counts for
//! itself, and [`Outcome`] is the sum. Its text defines every word and figure.
//!
//! Not here: how results are shown (`report`), what runs are compared with each other (`lab`), signals and
//! arguments (`cli`).

mod arrival;
mod check;
mod connection;
mod control;
mod expect;
mod outcome;
mod plan;
mod reader;
mod recorder;
mod request;
mod shared;
mod target;
mod verdict;
mod worker;

pub use check::{
    CPU_SHARE_INVALID, CPU_SHARE_TIGHT, LAG_SHARE_TIGHT, LAG_TIGHT_US_MIN, LITTLE_ANSWERS_PER_USER_MIN,
    LITTLE_RESIDUAL_INVALID, SelfCheck, Trust,
};
pub use control::{Control, Progress};
pub use expect::{Expect, Length, StatusSet, StatusSetError};
pub use outcome::{Ended, FailureKind, Failures, Outcome, Sample, StatusCounts, Times, VerdictTimes};
pub use plan::{
    Body, GIVE_WAY_NICE, Plan, PlanError, REQUEST_HEAD_BYTES_MAX, SAMPLES_MAX, Stop, THREADS_MAX,
    TIMEOUT_DEFAULT, USERS_MAX,
};
pub use request::{USER_AGENT, image};
pub use target::{Target, TargetError};
pub use verdict::CacheVerdict;

use check::Figures;
use platform::{Clock, Timestamp};
use recorder::Recorder;
use shared::Shared;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use worker::{DRAINING_MAX, Worker};

/// A target that was there and to which no connection can be made any more is given up after this time.
pub const GONE_AFTER: Duration = Duration::from_secs(3);

/// How long each address of a name that has several may take to answer.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// Descriptors this process needs besides its connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Why there is no outcome at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host's name has no address.
    #[error("{host}: {reason}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's reason.
        reason: String,
    },
    /// No connection could be made, not even once.
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
        "{users} users need {needed} descriptors, but this process may open {allowed}: raise the limit \
         (ulimit -Hn, LimitNOFILE=) or ask for fewer users"
    )]
    Descriptors {
        /// Users asked for.
        users: usize,
        /// Descriptors needed for them.
        needed: u64,
        /// The hard limit of the process.
        allowed: u64,
    },
    /// The system refused something that has nothing to do with the target.
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
}

/// Runs a plan to its end and gives what was measured. Blocks; uses one thread for each core unless the plan
/// says otherwise. Through `control` another thread can watch and stop it.
///
/// # Errors
/// When nothing could be measured at all: the plan is wrong, the name does not resolve, no connection could be
/// made, or the system refuses what a load tester needs. A target that fails later is an [`Outcome`].
pub fn run(plan: &Plan, clock: &dyn Clock, control: &Control) -> Result<Outcome, LoadError> {
    let image = image(plan)?;
    let address = find_address(&plan.target)?;
    let threads = match plan.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
    .min(plan.users);
    allow_descriptors(plan.users, threads)?;
    let started = clock.now().plus(plan.warmup);
    let mut shared = Shared::new(plan, clock, control, address, &image);
    control.measuring_since(shared.closed_loop.measuring_since());
    let workers = (0..threads)
        .map(|index| Worker::new(&shared, share(plan.users, threads, index)))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| LoadError::system("epoll_create", &error))?;
    let reports = work(workers, plan.gives_way)?;
    let end = clock.monotonic();
    if let Some(error) = shared.take_fatal() {
        return Err(error);
    }
    let mut recorder = Recorder::new(shared.closed_loop.measuring_since(), 0);
    let mut first_head = Vec::new();
    for (report, head) in reports {
        recorder.merge(report);
        if first_head.is_empty() {
            first_head = head;
        }
    }
    let end = match shared.ended() {
        Ended::Requests => recorder.last_end,
        Ended::Time => shared.closed_loop.deadline().unwrap_or(end),
        Ended::Stopped | Ended::TargetGone | Ended::ReceiveError => end,
    };
    let elapsed = end.since(shared.closed_loop.measuring_since());
    Ok(outcome(&shared, recorder, Run { threads, started, elapsed, first_head }))
}

/// Lets every worker run in a thread of its own.
fn work(workers: Vec<Worker<'_>>, gives_way: bool) -> Result<Vec<(Recorder, Vec<u8>)>, LoadError> {
    std::thread::scope(|scope| {
        let handles = workers
            .into_iter()
            .enumerate()
            .map(|(index, worker)| {
                std::thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, move || {
                    if gives_way {
                        // On Linux this is the calling thread alone. Being nicer is always allowed; where it
                        // is not, the load is merely less polite.
                        let _ = rustix::process::setpriority_process(None, GIVE_WAY_NICE);
                    }
                    worker.run()
                })
            })
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| LoadError::system("creating a thread", &error))?;
        let joined = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(joined.collect())
    })
}

/// What is known of a run beside its records.
struct Run {
    threads: usize,
    started: Timestamp,
    elapsed: Duration,
    first_head: Vec<u8>,
}

fn outcome(shared: &Shared<'_>, mut recorder: Recorder, run: Run) -> Outcome {
    let lag_p99_us = recorder.lag.percentile_us(99.0);
    let cpu = std::mem::take(&mut recorder.cpu);
    let mut samples = std::mem::take(&mut recorder.samples);
    samples.sort_unstable_by_key(|sample| sample.start_us);
    samples.truncate(shared.plan.samples_max as usize);
    let in_flight = Duration::from_nanos(u64::try_from(recorder.in_flight_ns).unwrap_or(u64::MAX));
    let outcome = Outcome {
        plan: shared.plan.clone(),
        address: shared.address,
        threads: run.threads,
        started: run.started,
        elapsed: run.elapsed,
        ended: shared.ended(),
        complete: recorder.complete,
        good: recorder.good,
        failures: recorder.failures,
        length_differs: recorder.length_differs,
        statuses: std::mem::take(&mut recorder.statuses),
        received_bytes: recorder.received_bytes,
        content_bytes: recorder.content_bytes,
        sent_bytes: recorder.sent_bytes,
        document_bytes: shared.document_bytes(),
        first_head: run.first_head,
        good_times: Times::default(),
        wrong_times: Times::default(),
        verdicts: Vec::new(),
        kept: recorder.kept,
        connections: recorder.connections,
        resent: recorder.resent,
        closed_by_us: recorder.closed_by_us,
        unfinished: recorder.unfinished,
        cpu,
        check: SelfCheck::default(),
        samples,
    };
    let (good_times, wrong_times, verdicts) = recorder.into_times();
    let outcome = Outcome { good_times, wrong_times, verdicts, ..outcome };
    let check = SelfCheck::judge(&Figures {
        users: shared.plan.users,
        elapsed: run.elapsed,
        cpu: &outcome.cpu,
        requests: outcome.requests(),
        in_flight,
        latency_p50_us: outcome.complete_times().total.median_us(),
        lag_p99_us,
        addresses_missing: outcome.failures.of(FailureKind::Address),
    });
    Outcome { check, ..outcome }
}

/// The part of `whole` that falls to place `index` of `parts`; parts differ by at most one.
fn share(whole: usize, parts: usize, index: usize) -> usize {
    whole / parts + usize::from(index < whole % parts)
}

/// Raises the soft limit on descriptors as far as it is needed and allowed.
fn allow_descriptors(users: usize, threads: usize) -> Result<(), LoadError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // A user may have one connection in use and one that waits for the server's close.
    let needed = (users + users.min(threads * DRAINING_MAX)) as u64 + DESCRIPTORS_SPARE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    if let Some(allowed) = limit.maximum.filter(|&hard| hard < needed) {
        return Err(LoadError::Descriptors { users, needed, allowed });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| LoadError::system("setrlimit", &error.into()))
}

/// The address to use. Of several that a name has, the first that accepts a connection.
fn find_address(target: &Target) -> Result<SocketAddr, LoadError> {
    let resolve_error = |reason: String| LoadError::Resolve { host: target.host(), reason };
    let mut addresses = target.resolve().map_err(|error| resolve_error(error.to_string()))?;
    addresses.dedup();
    let first = *addresses.first().ok_or_else(|| resolve_error("the name has no address".to_owned()))?;
    if addresses.len() == 1 {
        return Ok(first);
    }
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_MAX).is_ok();
    Ok(addresses.iter().find(answers).copied().unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::{LoadError, allow_descriptors, share};

    #[test]
    fn shares_differ_by_at_most_one_and_add_up() {
        assert_eq!([0, 1, 2].map(|index| share(8, 3, index)), [3, 3, 2]);
        assert_eq!([0, 1].map(|index| share(1, 2, index)), [1, 0]);
    }

    #[test]
    fn too_many_users_for_the_descriptors_are_refused_by_name() {
        let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        if let Some(hard) = hard {
            let error = allow_descriptors(hard as usize, 1).unwrap_err();
            assert!(matches!(error, LoadError::Descriptors { allowed, .. } if allowed == hard), "{error}");
        }
        assert_eq!(allow_descriptors(1, 1), Ok(()));
    }
}
