//! Page mode: visitors load a page with all its resources, as a browser does, and the load times
//! are measured.
//!
//! ```text
//!   crowd: the visitors of one thread, closed loop or arrivals
//!     visit: one page load        page::Loading decides what to load next
//!       fetch: one resource       cache, cookies, redirects, allowed hosts
//!         connection: one HTTP/1 exchange at a time     six connections a host
//!         http2: any number of exchanges                one connection a host
//! ```
//!
//! `worker` holds the state of one thread, and `shared` the state that all threads share.
//!
//! Invariant: requests go only to the page's own host and to hosts that the plan names. Resources
//! on other hosts are only counted. The documentation of the `outcome` module defines every term
//! and figure. Other crates show the results.

mod connection;
mod crowd;
mod fetch;
mod frames;
mod http2;
mod lingering;
mod names;
mod plan;
mod ramp_up;
mod series;
mod shared;
mod visit;
mod visitor;
mod worker;

pub use lingering::LINGERING_MAX;
pub use plan::{
    CONNECTIONS_PER_HOST_DEFAULT, CONNECTIONS_PER_HOST_MAX, PagePlan, PagePlanError, RATE_MAX, RATE_MIN,
    TIMEOUT_DEFAULT, VISITORS_MAX,
};
pub use shared::Watch;

use clock::Clock;
use crowd::{Crowd, CrowdReport};
use load::FailureTally;
use net::{TlsClient, TlsError};
use ramp_up::RampUp;
use record::{FetchFailure, PageCheck, PageEnd, PageFigures, PageOutcome};
use series::PageSeries;
use shared::BrowseContext;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PageError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PagePlanError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Not a single connection to the page could be made.
    #[error("{url}: cannot load the page: {reason}")]
    Unreachable {
        /// The page.
        url: String,
        /// The reason of the first failure.
        reason: &'static str,
    },
    /// A system call failed for a reason that has nothing to do with the page.
    #[error("{call}: {reason}")]
    System {
        /// The call that failed.
        call: &'static str,
        /// The system's reason.
        reason: String,
    },
}

/// Runs a plan to its end and returns the measurements.
///
/// Blocks the calling thread. The load comes from one thread for each core unless the plan says
/// otherwise. Through `watch`, another thread can follow the progress and stop the run.
///
/// # Errors
/// If nothing could be measured: see [`PageError`]. If the server fails later in the run, the
/// result is a [`PageOutcome`].
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
    let users = if plan.rate.is_none() { plan.users } else { 0 };
    let ramp_up = RampUp { began, ramp: plan.ramp, users };
    let shared = Arc::new(BrowseContext {
        plan: plan.clone(),
        tls,
        clock: Arc::clone(clock),
        watch: Arc::clone(watch),
        pages_left: AtomicU64::new(plan.pages.unwrap_or_default()),
        failure_tally: FailureTally::default(),
        is_failing: AtomicBool::new(false),
        series: PageSeries::new(threads, ramp_up),
        ramp_up,
        lingering_max: lingering_max(descriptors),
        began,
        measuring_since,
        deadline: plan.time.map(|time| measuring_since.plus(time)),
    });
    let reports = work(&shared, threads)?;
    let (mut figures, mut warmup) = (PageFigures::new(), PageFigures::new());
    let mut ended = PageEnd::Pages;
    let mut end = measuring_since;
    let mut cpu = Vec::new();
    for report in reports {
        figures.merge(report.figures);
        warmup.merge(report.warmup);
        cpu.push(report.cpu);
        end = end.max(report.end);
        if report.ended != PageEnd::Pages && ended != PageEnd::Failing {
            ended = report.ended;
        }
    }
    refuse_if_unreachable(plan, &figures, &warmup)?;
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

/// The most connections that may linger, given the process's limit on descriptors: half of them,
/// because running page loads need the others.
fn lingering_max(descriptors: Option<u64>) -> usize {
    let half = descriptors.map(|count| usize::try_from(count / 2).unwrap_or(usize::MAX));
    half.map_or(LINGERING_MAX, |half| half.min(LINGERING_MAX))
}

/// The TLS configuration. `None` if the page does not use TLS and the system has no certificate
/// authorities.
fn tls_client(plan: &PagePlan) -> Result<Option<TlsClient>, TlsError> {
    let client = match (&plan.ca_file, plan.is_verified) {
        (_, false) => TlsClient::insecure().map(Some),
        (Some(file), true) => TlsClient::with_authorities_in(file).map(Some),
        (None, true) if plan.url.scheme() == "http" => Ok(TlsClient::with_system_authorities().ok()),
        (None, true) => TlsClient::with_system_authorities().map(Some),
    }?;
    Ok(if plan.is_http2 { client.map(|client| client.for_http2()) } else { client })
}

/// Turns a run without a single response into an error, if the first failure was one of connecting.
/// That run has measured nothing. If it failed before the measured part, the warm-up says why.
fn refuse_if_unreachable(
    plan: &PagePlan,
    figures: &PageFigures,
    warmup: &PageFigures,
) -> Result<(), PageError> {
    let found = if figures.pages.failed > 0 { figures } else { warmup };
    let is_silent = figures.statuses.is_empty() && found.statuses.is_empty() && found.pages.failed > 0;
    match found.examples.first().filter(|_| is_silent) {
        Some((_, failure)) => {
            let reason = match failure {
                FetchFailure::Name => "the host's name has no address",
                FetchFailure::Tls => "the TLS handshake failed",
                FetchFailure::Http2 if plan.url.scheme() == "https" => {
                    "the server does not speak HTTP/2: it did not choose h2 in the TLS handshake"
                }
                FetchFailure::Http2 => "the server does not speak HTTP/2 without TLS; use --http 1.1",
                FetchFailure::Connect => "cannot connect",
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

/// Ends the run in all threads if its own thread panics: there will be no outcome.
struct EndOnPanic<'a>(&'a BrowseContext);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_failing.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs every crowd in its own thread.
fn work(shared: &Arc<BrowseContext>, threads: usize) -> Result<Vec<CrowdReport>, PageError> {
    let system = |call, error: &io::Error| PageError::System { call, reason: error.to_string() };
    // All of them are created before the load begins, because they may fail for want of
    // descriptors.
    let runtimes: Vec<Runtime> = (0..threads)
        .map(|_| tokio::runtime::Builder::new_current_thread().enable_all().build())
        .collect::<io::Result<_>>()
        .map_err(|error| system("cannot create an event loop", &error))?;
    std::thread::scope(|scope| {
        let spawn = |(index, runtime): (usize, Runtime)| {
            std::thread::Builder::new().name(format!("page-{index}")).spawn_scoped(scope, move || {
                let _end_on_panic = EndOnPanic(shared);
                let crowd = Rc::new(Crowd::new(Arc::clone(shared), (index, threads)));
                run_to_end(runtime, crowd.run())
            })
        };
        let handles: Vec<_> =
            runtimes.into_iter().enumerate().map(spawn).collect::<io::Result<_>>().map_err(|error| {
                // The threads that run already have nothing to measure.
                shared.is_failing.store(true, Ordering::Relaxed);
                system("cannot start a thread", &error)
            })?;
        let join = |handle: std::thread::ScopedJoinHandle<'_, CrowdReport>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok(handles.into_iter().map(join).collect())
    })
}

/// Runs a future to its end, with all its tasks on this thread.
fn run_to_end<T>(runtime: Runtime, future: impl Future<Output = T>) -> T {
    let tasks = LocalSet::new();
    let output = tasks.block_on(&runtime, future);
    drop(tasks);
    // Looking up a name cannot be interrupted, and may take long. The run does not wait for it.
    runtime.shutdown_background();
    output
}

#[cfg(test)]
mod tests {
    use super::{LINGERING_MAX, lingering_max, run_to_end};
    use std::sync::mpsc;

    #[test]
    fn run_does_not_wait_for_a_lookup() {
        let (over, is_over) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = run_to_end(runtime, async {
            // A substitute for a lookup: it ends when the other end of the channel is gone.
            drop(tokio::task::spawn_blocking(move || is_over.recv()));
            1
        });
        assert_eq!(found, 1);
        drop(over);
    }

    #[test]
    fn lingering_connections_use_at_most_half_the_descriptors() {
        let found = [Some(1_024), Some(u64::MAX), None].map(lingering_max);
        assert_eq!(found, [512, LINGERING_MAX, LINGERING_MAX]);
    }
}
