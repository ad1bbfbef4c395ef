//! Results of a ladder: the types of `results.json` and of the journal's lines (docs/results.md).
//!
//! Invariant: every text, table and page is computed from these types alone. A report can therefore
//! be made again from `results.json`. Names of fields end with their unit. These types hold data
//! and derive only sums.

use serde::{Deserialize, Serialize};

/// The value of [`Results::schema`] that this version writes and reads.
pub const SCHEMA: &str = "petasos-ladder-1";

/// All results of a ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// Title of the report.
    pub title: String,
    /// Whether the site was made for measuring only.
    pub synthetic: bool,
    /// A paragraph about the site.
    pub about: Option<String>,
    /// Path and query of the page under test.
    pub page: String,
    /// Planned cells and order of visits.
    pub plan: PlanRecord,
    /// Whether every cell was visited in every round.
    pub complete: bool,
    /// Start of the walk, in seconds since 1970-01-01 UTC.
    pub started_at_s: u64,
    /// Time of writing this document, in seconds since 1970-01-01 UTC.
    pub written_at_s: u64,
    /// Machine and programs of the measurement.
    pub environment: EnvironmentRecord,
    /// Page that the first step served before the rounds; the other steps' pages are compared with
    /// it.
    pub reference: Option<PageRecord>,
    /// Steps, in order.
    pub steps: Vec<StepRecord>,
    /// Cells of the anonymous load with their runs: each step at each of its concurrencies.
    pub cells: Vec<CellRecord>,
    /// Loads other than the anonymous one.
    #[serde(default)]
    pub loads: Vec<LoadRecord>,
}

impl Results {
    /// Returns the cells of all loads, the anonymous one first.
    pub fn all_cells(&self) -> impl Iterator<Item = &CellRecord> {
        self.cells.iter().chain(self.loads.iter().flat_map(|load| &load.cells))
    }
}

/// A load other than the anonymous one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Id of the load.
    pub id: String,
    /// Heading of the load.
    pub title: String,
    /// Description of the traffic that the load imitates.
    pub about: Option<String>,
    /// Cells of the steps measured under this load, with their runs. They have no ApacheBench
    /// command.
    pub cells: Vec<CellRecord>,
}

/// The plan of a walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Identity of the plan: the same file, flags and version give the same text.
    pub hash: String,
    /// `quick`, `normal` or `full`.
    pub effort: String,
    /// Seed of the order.
    pub seed: u64,
    /// Planned number of visits to each cell.
    pub rounds: u64,
    /// Ids of the cells in the order of the visits, round by round.
    pub order: Vec<Vec<String>>,
}

/// Machine and programs of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// Machine that ran the ladder and its load generator.
    pub machine: probe::Environment,
    /// Programs, each with the first line of its version output.
    pub versions: Vec<VersionRecord>,
    /// Whether the load generator ran on the machine that served the site.
    pub generator_shares_host: bool,
}

/// Version of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRecord {
    /// Name of the program.
    pub name: String,
    /// First line that the program prints about its version.
    pub version: String,
}

/// Title, length and hash of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// Text of the title element, if the page has one.
    pub title: Option<String>,
    /// Length in bytes, as served.
    pub length_bytes: u64,
    /// Hash of the normalised content (FNV-1a, 64 bits, hexadecimal).
    pub hash: String,
}

/// One step of a ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Id of the step.
    pub id: String,
    /// Number of the step: the first column of the table.
    pub number: String,
    /// Title of the step: the `caching` column of the table.
    pub title: String,
    /// Description of the step's layer.
    pub about: String,
    /// Id of the step's own cell, which the table of steps shows.
    pub cell: String,
    /// Name of the program in [`EnvironmentRecord::versions`] whose version is the step's.
    #[serde(default)]
    pub version: Option<String>,
    /// Id of the earlier step that this one is compared with; `None` means the preceding step.
    #[serde(default)]
    pub against: Option<String>,
    /// The step's page before the rounds, if it is the reference for this step and the following
    /// ones.
    #[serde(default)]
    pub reference: Option<PageRecord>,
}

/// A step at one concurrency, under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Id of the cell.
    pub id: String,
    /// Id of the step.
    pub step: String,
    /// Users, each with one request at a time.
    pub concurrency: u64,
    /// Whether connections were kept alive between requests.
    pub keepalive: bool,
    /// ApacheBench command that repeats the load; empty for loads other than the anonymous one.
    pub ab: String,
    /// Runs of the cell, at most one per round, in the order of the rounds.
    pub runs: Vec<CellRun>,
}

/// One visit to a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRun {
    /// Id of the cell.
    pub cell: String,
    /// Number of the round, counted from 1.
    pub round: u64,
    /// Start of the visit, in seconds since 1970-01-01 UTC.
    pub started_at_s: u64,
    /// Duration of the whole visit in seconds.
    pub visit_s: f64,
    /// Result of the visit.
    pub outcome: VisitOutcome,
}

/// Result of a visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VisitOutcome {
    /// The layer was on and the page was right: the measurement counts.
    Measured(Box<Measured>),
    /// The visit does not count.
    Void {
        /// Reason, in a sentence.
        reason: String,
        /// Whether the load received no good response, although the page was right before and after
        /// it.
        #[serde(default)]
        is_silent: bool,
    },
}

/// Measurement of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of good responses.
    pub answers: u64,
    /// Failed requests by kind; kinds that did not occur are left out.
    pub failures: Vec<CountRecord>,
    /// Number of good responses whose length differs from the first one's.
    pub other_length: u64,
    /// Change from one good response to another, in a few words. `None` if there was none, or if
    /// the content has a coding other than gzip.
    #[serde(default)]
    pub what_changed: Option<String>,
    /// Bytes received, heads included.
    pub received_bytes: u64,
    /// Good responses per second.
    pub throughput_per_s: f64,
    /// Response times of good responses.
    pub response: ResponseTimes,
    /// Figures of the load generator itself.
    pub generator: GeneratorRecord,
    /// Mean number of runnable and blocked tasks in groups with role site or database. `None` if
    /// the ladder has no such group, or if one of them has no process.
    pub observed_load: Option<f64>,
    /// The number of these tasks at each sample (10 Hz).
    pub load_samples: Vec<u32>,
    /// Watched groups of processes.
    pub groups: Vec<GroupRecord>,
    /// Figures of the host.
    pub host: probe::HostFigures,
    /// Good responses by verdict of the nearest cache.
    #[serde(default)]
    pub verdicts: Vec<VerdictRecord>,
    /// Responses by kind of visitor; empty under the anonymous load.
    #[serde(default)]
    pub visitors: Vec<VisitorRecord>,
    /// Writes made during the load.
    #[serde(default)]
    pub writes: Vec<WriteRecord>,
    /// Response times of an uncached page during the load and before it.
    pub bystander: BystanderRecord,
    /// The same for a logged-in visitor; `None` if the ladder has no logged-in bystander.
    #[serde(default)]
    pub twin: Option<BystanderRecord>,
    /// Changes of the ladder's counters.
    pub meters: Vec<MeterRecord>,
    /// The page as served before the load.
    pub page: PageRecord,
    /// Findings of the proofs, before and after the load.
    pub proofs: Vec<String>,
    /// Resource that limited the throughput.
    pub bound_by: LimitingResource,
    /// Reasons to star the run, which excludes it from comparisons; empty for a run that counts.
    #[serde(default)]
    pub starred: Vec<String>,
}

impl Measured {
    /// Number of all failed requests.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failure| failure.count).sum()
    }
}

/// A named count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountRecord {
    /// Name of the counted event.
    pub name: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Response times in milliseconds, from the start of the request to the last byte. Connecting is
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Standard deviation within the run. It describes the spread and is no uncertainty of the
    /// mean.
    pub sd_ms: f64,
    /// Shortest time.
    pub min_ms: f64,
    /// Median: half of the responses took at most this.
    pub p50_ms: f64,
    /// 75% took at most this.
    pub p75_ms: f64,
    /// 90% took at most this.
    pub p90_ms: f64,
    /// 95% took at most this.
    pub p95_ms: f64,
    /// 99% took at most this.
    pub p99_ms: f64,
    /// 99.9% took at most this.
    pub p999_ms: f64,
    /// Longest time.
    pub max_ms: f64,
}

/// Good responses with the same verdict of the nearest cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// `hit`, `hit (by Age)`, `stale`, `revalidated`, `miss`, `pass`, `other`, or `none` for
    /// responses without a verdict.
    pub name: String,
    /// Number of responses.
    pub answers: u64,
    /// Responses per second.
    pub per_s: f64,
    /// Response times. `None` for the row `none` if other responses had a verdict.
    pub response: Option<ResponseTimes>,
}

/// Responses to one kind of visitor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitorRecord {
    /// Name of the session, or `anonymous`.
    pub name: String,
    /// Good responses: pages made for these visitors.
    pub answers: u64,
    /// Failed requests, and pages that were not made for these visitors.
    pub failed: u64,
    /// Mean time of complete responses, in milliseconds; `None` without any.
    pub mean_ms: Option<f64>,
}

/// Writes of one kind during a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WriteRecord {
    /// Name of the write.
    pub name: String,
    /// Response times of successful writes, in milliseconds.
    pub took_ms: Vec<f64>,
    /// Number of failed writes.
    pub failed: u64,
    /// Reason of the first failure.
    pub first_failure: Option<String>,
}

/// Resources that the load generator used, and its self-check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorRecord {
    /// Processor time in seconds, without busy-waits.
    pub cpu_s: f64,
    /// Processor time in seconds that was spent polling for responses instead of sleeping.
    #[serde(default)]
    pub busy_wait_s: f64,
    /// Share of one core that the busiest thread used, without busy-waits, 0 to 1.
    pub busiest_thread: f64,
    /// Result of the self-check: `clean`, `tight` or `invalid`.
    pub trust: String,
    /// Reasons why the self-check is not clean.
    pub reasons: Vec<String>,
    /// Account of the users' time; null in results of earlier versions.
    #[serde(default)]
    pub account: Option<crate::run::UserTime>,
    /// Whether the threads ran at a real-time priority, above all ordinary programs.
    #[serde(default)]
    pub is_real_time: bool,
}

/// A watched group of processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Name of the group.
    pub name: String,
    /// `site`, `database`, `accelerator` or `other`.
    pub role: String,
    /// Mean number of runnable and blocked tasks.
    pub load: f64,
    /// Processor time in seconds.
    pub cpu_s: f64,
    /// Processor time per good response, in milliseconds; `None` without good responses.
    pub cpu_per_page_ms: Option<f64>,
    /// Memory (proportional set size) at the end, in bytes.
    pub pss_bytes: Option<u64>,
    /// Processes at the end.
    pub processes: u32,
}

/// Requests of the bystander: an uncached page, requested once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BystanderRecord {
    /// Response times during the load, in milliseconds.
    pub loaded_ms: Vec<f64>,
    /// Waiting times of requests without a response at the end of the load, in milliseconds. Their
    /// response times would have been longer.
    pub unanswered_ms: Vec<f64>,
    /// Number of failed requests during the load.
    pub failed: u64,
    /// Response times before the load, one at a time on the idle site, in milliseconds.
    pub idle_ms: Vec<f64>,
}

/// Change of a counter during a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterRecord {
    /// Name of the counter.
    pub name: String,
    /// Unit that is counted.
    pub unit: String,
    /// Change per second of the load.
    pub per_s: f64,
    /// Change per good response; `None` without good responses.
    pub per_page: Option<f64>,
}

/// Resource that limited the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitingResource {
    /// The accelerator used most of the processor time, and the cores were busy.
    AcceleratorCpu,
    /// The load generator was at its limit.
    Generator,
    /// A network link was full.
    Link,
    /// The site with its database used most of the processor time, and the cores were busy.
    OriginCpu,
    /// The figures do not show the limit.
    Unclear,
    /// There were too few users to keep the cores busy.
    Users,
    /// Requests waited for workers or locks while cores were idle.
    Workers,
}

impl LimitingResource {
    /// The name in tables.
    pub const fn words(self) -> &'static str {
        match self {
            Self::AcceleratorCpu => "accelerator's CPU",
            Self::Generator => "generator",
            Self::Link => "link",
            Self::OriginCpu => "origin's CPU",
            Self::Unclear => "unclear",
            Self::Users => "few users",
            Self::Workers => "workers",
        }
    }
}
