//! Page mode: visitors who load a page as a browser does, with everything it needs, and what that takes.
//!
//! ```text
//!   crowd: the visitors of one thread, closed loop or arrivals
//!     visit: one page load        page::Loading says what is needed next
//!       fetch: one resource       cache, cookies, redirects, who may be asked
//!         connection: one exchange of HTTP/1        six connections a host
//!         http2: any number of exchanges            one connection a host
//! ```
//!
//! What a page load takes from its thread stands in `worker`, what threads share in `shared`.
//!
//! Invariant: no host is ever asked but the page's own and those that the plan names; what else a page would load is
//! listed. [`PageOutcome`]'s text defines every word and figure. How results are shown is not here.

mod connection;
mod crowd;
mod fetch;
mod frames;
mod http2;
mod lingering;
mod outcome;
mod plan;
mod series;
mod shared;
mod turns;
mod visit;
mod visitor;
mod worker;

pub use lingering::LINGERING_MAX;
pub use outcome::{
    ClassOutcome, EXAMPLES_MAX, FOREIGN_HOSTS_MAX, FetchFailure, Figures, PageCheck, PageCounts, PageEnd,
    PageOutcome, TRACE_MAX, Traced,
};
pub use plan::{
    CONNECTIONS_PER_HOST_DEFAULT, CONNECTIONS_PER_HOST_MAX, PagePlan, PagePlanError, TIMEOUT_DEFAULT,
    VISITORS_MAX,
};
pub use series::{PageSecond, SecondTimes};
pub use shared::Watch;

use crowd::{Crowd, CrowdReport};
use net::{TlsClient, TlsError};
use platform::Clock;
use series::Series;
use shared::Shared;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::task::LocalSet;

/// Why there is no outcome at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PageError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PagePlanError),
    /// Nothing to secure connections with.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The page could not be reached, not even once.
    #[error("{url}: cannot load the page: {reason}")]
    Unreachable {
        /// The page.
        url: String,
        /// What became of the first try.
        reason: &'static str,
    },
    /// The system refused something that has nothing to do with the page.
    #[error("{call}: {reason}")]
    System {
        /// The call that failed.
        call: &'static str,
        /// The system's reason.
        reason: String,
    },
}

/// Runs a plan to its end and gives what was measured. Blocks; uses one thread for each core unless the plan says
/// otherwise. Through `watch` another thread can see how far it is, and stop it.
///
/// # Errors
/// When nothing could be measured at all: see [`PageError`]. A server that fails later is a [`PageOutcome`].
pub fn run(plan: &PagePlan, clock: &Arc<dyn Clock>, watch: &Arc<Watch>) -> Result<PageOutcome, PageError> {
    plan.check()?;
    let tls = tls_client(plan)?;
    let began = clock.monotonic();
    let measuring_since = began.plus(plan.warmup);
    let started = clock.now().plus(plan.warmup);
    let threads = match plan.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let threads = threads.clamp(1, plan.users);
    let descriptors = load::allow_all_descriptors()
        .map_err(|error| PageError::System { call: "setrlimit", reason: error.to_string() })?;
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        tls,
        clock: Arc::clone(clock),
        watch: Arc::clone(watch),
        pages_left: AtomicU64::new(plan.pages.unwrap_or_default()),
        ended_requests: AtomicU64::new(0),
        failed_requests: AtomicU64::new(0),
        is_failing: AtomicBool::new(false),
        series: Series::new(threads),
        lingering_max: lingering_max(descriptors),
        began,
        measuring_since,
        deadline: plan.time.map(|time| measuring_since.plus(time)),
    });
    let reports = work(&shared, threads)?;
    let mut figures = Figures::new();
    let mut ended = PageEnd::Pages;
    let mut end = measuring_since;
    let mut cpu = Vec::new();
    for report in reports {
        figures.merge(report.figures);
        cpu.push(report.cpu);
        end = end.max(report.end);
        if report.ended != PageEnd::Pages && ended != PageEnd::Failing {
            ended = report.ended;
        }
    }
    refuse_if_unreachable(plan, &figures)?;
    let elapsed = end.since(measuring_since);
    Ok(PageOutcome {
        url: plan.url.to_string(),
        users: plan.users,
        rate_asked: plan.rate,
        think: plan.think,
        linger: plan.linger,
        returning_asked: plan.returning,
        connections_per_host_max: if plan.is_http2 { 1 } else { plan.connections_per_host_max },
        is_http2: plan.is_http2,
        started,
        elapsed,
        ended,
        check: PageCheck::judge(&cpu, elapsed, plan.rate, &figures),
        figures,
        seconds: shared.series.finish(),
        cpu,
    })
}

/// Connections that may linger where a process may have so many descriptors: half of them, because pages under way need
/// the others.
fn lingering_max(descriptors: Option<u64>) -> usize {
    let half = descriptors.map(|count| usize::try_from(count / 2).unwrap_or(usize::MAX));
    half.map_or(LINGERING_MAX, |half| half.min(LINGERING_MAX))
}

/// What secures connections; nothing if no page of the run can ask for it and the system has nothing to offer.
fn tls_client(plan: &PagePlan) -> Result<Option<TlsClient>, TlsError> {
    let client = match (&plan.ca_file, plan.is_verified) {
        (_, false) => TlsClient::insecure().map(Some),
        (Some(file), true) => TlsClient::with_authorities_in(file).map(Some),
        (None, true) if plan.url.scheme() == "http" => Ok(TlsClient::with_system_authorities().ok()),
        (None, true) => TlsClient::with_system_authorities().map(Some),
    }?;
    Ok(if plan.is_http2 { client.map(|client| client.for_http2()) } else { client })
}

/// A run in which not one connection was made is no measurement.
fn refuse_if_unreachable(plan: &PagePlan, figures: &Figures) -> Result<(), PageError> {
    let is_silent = figures.statuses.is_empty() && figures.pages.failed > 0;
    match figures.examples.first().filter(|_| is_silent) {
        Some((_, failure)) => {
            let reason = match failure {
                FetchFailure::Name => "the host's name has no address",
                FetchFailure::Tls => "no secure connection",
                FetchFailure::Http2 if plan.url.scheme() == "https" => {
                    "the server does not speak HTTP/2: it did not choose h2 when TLS was agreed on"
                }
                FetchFailure::Http2 => "the server does not speak HTTP/2 without TLS",
                FetchFailure::Connect => "no connection",
                limit => match limit.local_limit() {
                    Some(reason) => reason,
                    None => return Ok(()),
                },
            };
            Err(PageError::Unreachable { url: plan.url.to_string(), reason })
        }
        _ => Ok(()),
    }
}

/// Runs every crowd in a thread of its own.
fn work(shared: &Arc<Shared>, threads: usize) -> Result<Vec<CrowdReport>, PageError> {
    let system = |call, error: &io::Error| PageError::System { call, reason: error.to_string() };
    std::thread::scope(|scope| {
        let spawn = |index: usize| {
            let users = shared.plan.users / threads + usize::from(index < shared.plan.users % threads);
            let rate = shared.plan.rate.map(|rate| rate / threads as f64);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            std::thread::Builder::new().name(format!("page-{index}")).spawn_scoped(scope, move || {
                let crowd = Rc::new(Crowd::new(Arc::clone(shared), (index, threads)));
                LocalSet::new().block_on(&runtime, crowd.run(users, rate))
            })
        };
        let handles: Vec<_> = (0..threads)
            .map(spawn)
            .collect::<io::Result<_>>()
            .map_err(|error| system("creating a thread", &error))?;
        let join = |handle: std::thread::ScopedJoinHandle<'_, CrowdReport>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok(handles.into_iter().map(join).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::{LINGERING_MAX, lingering_max};

    #[test]
    fn lingering_connections_take_half_of_the_descriptors_at_most() {
        let found = [Some(1_024), Some(u64::MAX), None].map(lingering_max);
        assert_eq!(found, [512, LINGERING_MAX, LINGERING_MAX]);
    }
}
