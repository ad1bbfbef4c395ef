//! The soak test: a long run of the real binary with a disk and little memory. It is loaded by
//! visitors of many kinds and by purges. Logs are rotated, and the origin fails from time to time.
//!
//! These must hold:
//!
//! - Each response belongs to its key and is not older than a purge that was answered before the
//!   request was sent.
//! - Each error has a cause in the script.
//! - The number of descriptors does not grow.
//! - Resident memory stays within `--memory` plus the margin that docs/performance.md states.
//!
//! The seed determines requests, purges and failures of the origin. It does not determine the
//! scheduling of threads.

mod application;
mod health;
mod rotation;
mod rules;
mod verdict;
mod visitors;
mod watch;

use crate::Edge;
use crate::crash::CrashModel;
use application::SoakOrigin;
use health::FailureLog;
use stats::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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
    address: SocketAddr,
    admin: SocketAddr,
    is_over: AtomicBool,
    tally: Mutex<VisitCounts>,
    problems: Mutex<Vec<String>>,
}

/// Runs a soak. `progress` receives a line with figures of the process every 30 samples.
///
/// # Panics
/// If the edge does not start.
pub fn run(plan: &SoakPlan, progress: &(dyn Fn(&str) + Sync)) -> SoakReport {
    let model = Arc::new(CrashModel::new());
    let health = Arc::new(FailureLog::default());
    let application = SoakOrigin::start(&model, &health, plan.seed);
    let directory = tempfile::tempdir().unwrap();
    let mut edge = start_edge(plan, &application, directory.path());
    let stage = SoakState {
        plan,
        model: &model,
        health: &health,
        address: edge.address,
        admin: edge.admin,
        is_over: AtomicBool::new(false),
        tally: Mutex::default(),
        problems: Mutex::default(),
    };
    let start = ProcessSample::of_started(edge.pid());
    let samples = stage.play(&application, &edge, directory.path(), progress);
    let figures = stage.judge(&mut edge, start, &samples, directory.path());
    let tally = lock(&stage.tally).clone();
    let problems = std::mem::take(&mut *lock(&stage.problems));
    SoakReport { problems, tally, figures }
}

fn start_edge(plan: &SoakPlan, application: &SoakOrigin, directory: &Path) -> Edge {
    let [file, disk, spool, log] = ["petasos.toml", "disk", "spool", "access.log"].map(|name| {
        let path = directory.join(name);
        path.to_str().unwrap().to_owned()
    });
    std::fs::create_dir(&spool).unwrap();
    // All visitors share one address, and some write more often than an editor, so the limits for
    // these are raised. The limit for the disk is raised too, because other programs may slow the
    // disk down.
    let configuration = format!(
        "workers = 2\nprofile = 'default'\nspool_directory = '{spool}'\n[limits]\nobject_bytes_max = '64KiB'\n\
         client_fetches_max = 64\npage_writes_per_minute = 1000000\nbuffer_memory_percent = 2\n\
         disk_timeout = '1m'\nidle_connection_timeout = '1s'\n"
    );
    std::fs::write(&file, configuration).unwrap();
    let memory = format!("{MEMORY_BYTES}B");
    let size = format!("{DISK_BYTES}B");
    let arguments = [&file, "--disk", &disk, "--disk-size", &size, "--memory", &memory, "--access-log", &log];
    Edge::of_program(&plan.program, &application.url(), &arguments)
}

impl SoakState<'_> {
    /// Runs the load for the planned time. Returns the samples of the process.
    fn play(
        &self,
        application: &SoakOrigin,
        edge: &Edge,
        directory: &Path,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Vec<ProcessSample> {
        let mut random = Random::from_seed(self.plan.seed);
        std::thread::scope(|threads| {
            for (kind, count, pause) in visitors::KINDS {
                for _ in 0..count {
                    let random = Random::from_seed(random.next_u64());
                    threads.spawn(move || self.visit(kind, pause, random));
                }
            }
            let moods = Random::from_seed(random.next_u64());
            threads.spawn(|| application.trouble(self, moods));
            threads.spawn(|| rotation::rotate(self, edge, directory));
            let samples = watch::samples(self, application, edge.pid(), progress);
            self.is_over.store(true, Ordering::SeqCst);
            samples
        })
    }

    /// Repeats the visits of one visitor until the end.
    fn visit(&self, kind: visitors::VisitFunction, pause: Duration, mut random: Random) {
        let mut connection = None;
        while !self.is_over() {
            kind(self, &mut connection, &mut random);
            std::thread::sleep(pause);
        }
    }

    /// Whether the threads should stop.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || lock(&self.problems).len() >= PROBLEMS_MAX
    }

    fn count(&self, what: &'static str) {
        *lock(&self.tally).entry(what).or_default() += 1;
    }

    fn complain(&self, problem: &str) {
        let after = self.health.now().as_secs();
        lock(&self.problems).push(format!("after {after} s: {problem}"));
    }

    /// Reports a failed request that was sent at `begun`, unless the origin's failures excuse it.
    fn excuse(&self, begun: Duration, what: &str) {
        if self.health.is_excused(begun) { self.count("failed with the origin") } else { self.complain(what) }
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
