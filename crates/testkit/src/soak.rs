//! The soak test: a long run of the real binary with a disk and little memory. It is loaded by
//! visitors of many kinds over HTTP/1.1 and HTTP/2, plain and with TLS, and by purges. The
//! configuration changes, logs are rotated and followed, guards refuse greedy clients, and the
//! origins fail from time to time.
//!
//! These must hold:
//!
//! - Each response belongs to its key and is not older than a purge that was answered before the
//!   request was sent.
//! - Each error has a cause in the script.
//! - The numbers of descriptors and threads and the resident memory do not grow.
//! - Resident memory stays within `--memory` plus the margin that docs/performance.md states.
//!
//! The seed determines requests, purges and failures of the origins. It does not determine the
//! scheduling of threads.

mod aborts;
mod application;
mod configuration;
mod connection;
mod followers;
mod guards;
mod health;
mod multiplexed;
mod operator;
mod pair;
mod ranges;
mod reasons;
mod reloads;
mod rotation;
mod rules;
mod uploads;
mod verdict;
mod visitors;
mod watch;

use crate::crash::CrashModel;
use crate::{Edge, Response, Trust, allow_descriptors};
use application::{FailurePace, SoakOrigin};
use configuration::SoakConfiguration;
use connection::{Transport, Visitor};
use followers::RecentRecords;
use health::{FailureLog, SoakFailure};
use pair::OriginPair;
use stats::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use watch::ProcessSample;
pub(crate) use watch::resident_bytes_max;

/// The setting `memory` of the edge, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// The setting `disk_size`, in bytes. It is less than the size of all the origin's responses, so
/// that responses are evicted from the disk too.
const DISK_BYTES: u64 = 96 << 20;
/// Number of problems after which the soak ends early.
const PROBLEMS_MAX: usize = 20;
/// Number of greedy clients, each in a separate network.
const GREEDY: u8 = 2;
/// Descriptors of this process: the visitors and both ends of the origins' connections.
const DESCRIPTORS: u64 = 4_096;
/// When the first origin fails.
const PACE: FailurePace = FailurePace {
    well: [Duration::from_secs(8), Duration::from_secs(6)],
    ill: [Duration::from_secs(2), Duration::from_secs(4)],
};

/// The parameters of a soak.
#[derive(Clone, Debug)]
pub struct SoakPlan {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Duration of the load.
    pub length: Duration,
    /// Path of the binary.
    pub program: PathBuf,
}

/// Number of visits by their result.
type VisitCounts = BTreeMap<&'static str, u64>;

/// The result of a soak.
#[derive(Debug, Default)]
pub struct SoakReport {
    /// Violations. Empty if there were none.
    pub problems: Vec<String>,
    /// Number of visits by their result.
    pub tally: BTreeMap<&'static str, u64>,
    /// Figures of the process and their limits, one line each.
    pub figures: Vec<String>,
}

/// The state that all threads of the load share.
struct SoakState<'a> {
    plan: &'a SoakPlan,
    model: &'a CrashModel,
    health: &'a FailureLog,
    /// The failures of the two origins of one site.
    pair_health: &'a FailureLog,
    address: SocketAddr,
    /// The address of the listener with TLS.
    secured: SocketAddr,
    trust: Trust,
    admin: SocketAddr,
    is_over: AtomicBool,
    /// Held by the thread that makes the edge read its configuration.
    orders: Mutex<()>,
    tally: Mutex<VisitCounts>,
    problems: Mutex<Vec<String>>,
    records: Mutex<RecentRecords>,
    /// Missed records, as reported to followers of the log.
    skipped: AtomicU64,
}

/// The servers behind the edge.
struct Origins {
    first: SoakOrigin,
    pair: OriginPair,
}

/// Runs a soak. `progress` receives a line with figures of the process every 30 samples.
///
/// # Panics
/// If the edge does not start.
pub fn run(plan: &SoakPlan, progress: &(dyn Fn(&str) + Sync)) -> SoakReport {
    allow_descriptors(DESCRIPTORS);
    let mut random = Random::from_seed(plan.seed);
    let model = Arc::new(CrashModel::new());
    let (health, pair_health) = (Arc::<FailureLog>::default(), Arc::<FailureLog>::default());
    let known = Arc::clone(&model);
    let first = SoakOrigin::start(&health, random.next_u64(), move |seen, chance| {
        application::answer(&known, seen, chance)
    });
    let origins = Origins { first, pair: OriginPair::start(&pair_health, &mut random) };
    let directory = tempfile::tempdir().unwrap();
    let own = SoakConfiguration::new(directory.path(), origins.first.url(), origins.pair.urls());
    let mut edge = Edge::of_program_and_file(&plan.program, &own.file(), None);
    let stage = SoakState {
        plan,
        model: &model,
        health: &health,
        pair_health: &pair_health,
        address: edge.address,
        secured: own.secured(),
        trust: own.trust(),
        admin: edge.admin,
        is_over: AtomicBool::new(false),
        orders: Mutex::default(),
        tally: Mutex::default(),
        problems: Mutex::default(),
        records: Mutex::default(),
        skipped: AtomicU64::new(0),
    };
    let start = ProcessSample::of_started(edge.pid());
    let samples = stage.play(&origins, &edge, &own, directory.path(), progress);
    let figures = stage.judge(&mut edge, start, &samples, directory.path());
    let tally = lock(&stage.tally).clone();
    let problems = std::mem::take(&mut *lock(&stage.problems));
    SoakReport { problems, tally, figures }
}

impl SoakState<'_> {
    /// Runs the load for the planned time. Returns the samples of the process.
    fn play(
        &self,
        origins: &Origins,
        edge: &Edge,
        own: &SoakConfiguration,
        directory: &Path,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Vec<ProcessSample> {
        let mut random = Random::from_seed(self.plan.seed);
        let mut next = || Random::from_seed(random.next_u64());
        std::thread::scope(|threads| {
            for (kind, count, pause) in visitors::KINDS {
                for transport in Transport::ALL.into_iter().cycle().take(count) {
                    let visitor = Visitor::new(transport, next());
                    threads.spawn(move || self.visit(kind, pause, visitor));
                }
            }
            for number in 0..GREEDY {
                let random = next();
                threads.spawn(move || guards::hurry(self, number, random));
            }
            let [flood, operator, moods, pair, changes] = std::array::from_fn(|_| next());
            threads.spawn(|| guards::flood(self, flood));
            threads.spawn(|| guards::denied(self));
            threads.spawn(|| operator::look(self, operator));
            threads.spawn(|| followers::keep(self));
            threads.spawn(|| followers::select(self));
            threads.spawn(|| followers::lag(self));
            threads.spawn(|| self.trouble(&origins.first, moods));
            threads.spawn(|| origins.pair.trouble(self, pair));
            threads.spawn(|| reloads::change(self, edge, own, changes));
            threads.spawn(|| rotation::rotate(self, edge, directory));
            let samples = watch::samples(self, origins, edge.pid(), progress);
            self.is_over.store(true, Ordering::SeqCst);
            samples
        })
    }

    /// Repeats the visits of one visitor until the end.
    fn visit(&self, kind: visitors::VisitFunction, pause: Duration, mut visitor: Visitor) {
        while !self.is_over() {
            kind(self, &mut visitor);
            std::thread::sleep(pause);
        }
    }

    /// Lets the first origin fail in each way in turns, until the end.
    fn trouble(&self, origin: &SoakOrigin, mut random: Random) {
        for failure in SoakFailure::ALL.into_iter().cycle() {
            if !origin.fail_once(self, failure, &PACE, &mut random) {
                return;
            }
        }
    }

    /// Whether the threads should stop.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || lock(&self.problems).len() >= PROBLEMS_MAX
    }

    fn count(&self, what: &'static str) {
        *lock(&self.tally).entry(what).or_default() += 1;
    }

    /// Number of visits with this result.
    fn counted(&self, what: &str) -> u64 {
        lock(&self.tally).get(what).copied().unwrap_or(0)
    }

    /// Reports a problem, with the edge's records around it.
    fn complain(&self, problem: &str) {
        let after = self.health.now().as_secs_f64();
        let records = followers::neighbourhood(self, problem);
        lock(&self.problems).push(format!("after {after:.1} s: {problem}{records}"));
    }

    /// Reports a failed request that was sent at `begun`, unless the origin's failures excuse it.
    fn excuse(&self, begun: Duration, what: &str) {
        if self.health.is_excused(begun) { self.count("failed with the origin") } else { self.complain(what) }
    }

    /// Reports an unexpected response to a request that was sent at `begun`, unless the origin's
    /// failures excuse it. They excuse no complete response with a status below 500.
    fn excuse_answer(&self, begun: Duration, what: &str, answer: &Response) {
        let problem = format!("{what}: {}", answer.head);
        let is_error = answer.status >= 500 || !answer.complete;
        if is_error { self.excuse(begun, &problem) } else { self.complain(&problem) }
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.tally {
            writeln!(f, "{what}: {count}")?;
        }
        self.figures.iter().try_for_each(|figure| writeln!(f, "{figure}"))?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "PROBLEM {problem}"))
    }
}

/// Ignores poisoning: the panic of the other thread is already reported, and this one may finish.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
