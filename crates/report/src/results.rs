//! What a ladder measured: the types of `results.json` and of the journal's lines (docs/results.md).
//!
//! Invariant: everything that any text, table or page shows is computed from these types, so a report can be
//! made again from `results.json` alone. Fields have their unit last in the name. Nothing here computes.

use serde::{Deserialize, Serialize};

/// The value of [`Results::schema`] that this version writes and reads.
pub const SCHEMA: &str = "petasos-ladder-1";

/// A whole ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the report is called.
    pub title: String,
    /// Whether the site was made for measuring.
    pub synthetic: bool,
    /// A paragraph about the site.
    pub about: Option<String>,
    /// Path and query of the page under test.
    pub page: String,
    /// What was to be measured.
    pub plan: PlanRecord,
    /// Whether every cell was visited in every round.
    pub complete: bool,
    /// When the first visit began, in seconds since 1970-01-01 UTC.
    pub started_at_s: u64,
    /// When this was written, in seconds since 1970-01-01 UTC.
    pub written_at_s: u64,
    /// Where it was measured.
    pub environment: EnvironmentRecord,
    /// The page as the first step served it before the rounds: what the other steps are held against.
    pub reference: Option<PageRecord>,
    /// The rungs, in order.
    pub steps: Vec<StepRecord>,
    /// Every step at every concurrency under anonymous visitors, with its runs.
    pub cells: Vec<CellRecord>,
    /// The loads beside that one.
    #[serde(default)]
    pub loads: Vec<LoadRecord>,
}

impl Results {
    /// The cells of all loads.
    pub fn all_cells(&self) -> impl Iterator<Item = &CellRecord> {
        self.cells.iter().chain(self.loads.iter().flat_map(|load| &load.cells))
    }
}

/// A load beside the anonymous one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Its id.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What it stands for.
    pub about: Option<String>,
    /// The steps that were measured under it, with their runs; they have no ApacheBench command.
    pub cells: Vec<CellRecord>,
}

/// What was to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Identifies the plan: the same file, flags and version give the same text.
    pub hash: String,
    /// `quick`, `normal` or `full`.
    pub effort: String,
    /// Where the order came from.
    pub seed: u64,
    /// How often each cell was to be visited.
    pub rounds: u64,
    /// The cells' ids in the order of the visits, round by round.
    pub order: Vec<Vec<String>>,
}

/// The machine and the programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// The machine of the lab.
    pub machine: probe::Environment,
    /// Programs with the first line that they print about their version.
    pub versions: Vec<VersionRecord>,
    /// Whether the load came from the machine that served it.
    pub generator_shares_host: bool,
}

/// A program's version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRecord {
    /// The program.
    pub name: String,
    /// What it says about itself.
    pub version: String,
}

/// What identifies a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// The content of its title element, if it has one.
    pub title: Option<String>,
    /// Its length in bytes as served.
    pub length_bytes: u64,
    /// The hash of its normalised content (FNV-1a, 64 bits, hexadecimal).
    pub hash: String,
}

/// A rung.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its id.
    pub id: String,
    /// The first column of the table.
    pub number: String,
    /// The `caching` column.
    pub title: String,
    /// What its layer does.
    pub about: String,
    /// The id of the cell that stands in the classic table.
    pub cell: String,
    /// The name of the program, in [`EnvironmentRecord::versions`], whose version is the step's.
    #[serde(default)]
    pub version: Option<String>,
    /// The id of the earlier step that it is compared with, if not the one before.
    #[serde(default)]
    pub against: Option<String>,
    /// The step's page before the rounds, if it is the reference for this step and those after it.
    #[serde(default)]
    pub reference: Option<PageRecord>,
}

/// A step at one concurrency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Its id.
    pub id: String,
    /// The step's id.
    pub step: String,
    /// Users, each with one request at a time.
    pub concurrency: u64,
    /// Whether connections were used again.
    pub keepalive: bool,
    /// The ApacheBench command that repeats the load.
    pub ab: String,
    /// What was measured, at most one run a round, in the order of the rounds.
    pub runs: Vec<Run>,
}

/// One visit to a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The cell's id.
    pub cell: String,
    /// The round, counted from 1.
    pub round: u64,
    /// When the visit began, in seconds since 1970-01-01 UTC.
    pub started_at_s: u64,
    /// How long the whole visit took, in seconds.
    pub visit_s: f64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The layer was on, the page was the page, and this was measured.
    Measured(Box<Measured>),
    /// It cannot count.
    Void {
        /// Why, in a sentence.
        reason: String,
        /// Whether the page was right before the load, and the load got no good answer at all.
        #[serde(default)]
        is_silent: bool,
    },
}

/// One measured load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// Good answers.
    pub answers: u64,
    /// Requests that failed, by kind; kinds that did not occur are left out.
    pub failures: Vec<CountRecord>,
    /// Good answers whose length differs from the first one's.
    pub other_length: u64,
    /// What changed from one good answer to another, in a few words; `None` if nothing did.
    #[serde(default)]
    pub what_changed: Option<String>,
    /// Bytes received, heads included.
    pub received_bytes: u64,
    /// Good answers a second.
    pub throughput_per_s: f64,
    /// Response times of good answers.
    pub response: ResponseTimes,
    /// The load generator itself.
    pub generator: GeneratorRecord,
    /// Mean number of runnable and blocked tasks in groups with role site or database; `None` if the file
    /// names no such group.
    pub observed_load: Option<f64>,
    /// The same, at each sample (10 Hz).
    pub load_samples: Vec<u32>,
    /// The watched groups.
    pub groups: Vec<GroupRecord>,
    /// The host.
    pub host: probe::HostWatch,
    /// Good answers by what the nearest cache said.
    #[serde(default)]
    pub verdicts: Vec<VerdictRecord>,
    /// Answers by kind of visitors; empty under the anonymous load.
    #[serde(default)]
    pub visitors: Vec<VisitorRecord>,
    /// What was written meanwhile.
    #[serde(default)]
    pub writes: Vec<WriteRecord>,
    /// What an uncached page took meanwhile.
    pub bystander: BystanderRecord,
    /// What the same page took for a visitor who has logged in; `None` if the ladder has none.
    #[serde(default)]
    pub twin: Option<BystanderRecord>,
    /// Counters.
    pub meters: Vec<MeterRecord>,
    /// The page as it was served before the load.
    pub page: PageRecord,
    /// What the proofs saw, before and after the load.
    pub proofs: Vec<String>,
    /// What held the throughput where it was.
    pub bound_by: Bound,
    /// Why the run is starred, so that nothing may be concluded from it; empty for a run that counts.
    #[serde(default)]
    pub starred: Vec<String>,
}

impl Measured {
    /// All requests that failed.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failure| failure.count).sum()
    }
}

/// How often something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountRecord {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Response times in milliseconds, from the start of the request (connecting included) to the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// The mean.
    pub mean_ms: f64,
    /// The standard deviation within the run: a description, not an uncertainty.
    pub sd_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// Half of the answers took at most this.
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
    /// The longest.
    pub max_ms: f64,
}

/// Good answers of which the nearest cache said the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// `hit`, `hit (by Age)`, `stale`, `revalidated`, `miss`, `pass`, `other`; `none` if no cache said anything.
    pub name: String,
    /// How many.
    pub answers: u64,
    /// How many a second.
    pub per_s: f64,
    /// Their times; `None` for those of `none` where other answers had a verdict.
    pub response: Option<ResponseTimes>,
}

/// The answers that a kind of visitors got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitorRecord {
    /// The session's name, or `anonymous`.
    pub name: String,
    /// Good answers: pages made for them.
    pub answers: u64,
    /// Requests that failed, and pages that were not made for them.
    pub failed: u64,
    /// The mean time of whole answers.
    pub mean_ms: Option<f64>,
}

/// Something written during a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WriteRecord {
    /// What.
    pub name: String,
    /// Response times of those that succeeded, in milliseconds.
    pub took_ms: Vec<f64>,
    /// How many failed.
    pub failed: u64,
    /// How the first of these failed.
    pub first_failure: Option<String>,
}

/// What the generator used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorRecord {
    /// Processor time in seconds.
    pub cpu_s: f64,
    /// The share of one core that its busiest thread used, 0 to 1.
    pub busiest_thread: f64,
    /// The generator's self-check in a word: `clean`, `tight` or `invalid`.
    pub trust: String,
    /// Why it is not clean.
    pub reasons: Vec<String>,
    /// What the users spent their time with; null in results of earlier versions.
    #[serde(default)]
    pub account: Option<crate::run::Account>,
    /// Whether its threads ran before all ordinary programs of the machine.
    #[serde(default)]
    pub is_real_time: bool,
}

/// A watched group of processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Its name.
    pub name: String,
    /// `site`, `database`, `accelerator` or `other`.
    pub role: String,
    /// Mean number of runnable and blocked tasks.
    pub load: f64,
    /// Processor time in seconds.
    pub cpu_s: f64,
    /// Processor time per good answer, in milliseconds.
    pub cpu_per_page_ms: Option<f64>,
    /// Memory (proportional set size) at the end, in bytes.
    pub pss_bytes: Option<u64>,
    /// Processes at the end.
    pub processes: u32,
}

/// The uncached page that is asked once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BystanderRecord {
    /// Response times during the load, in milliseconds.
    pub loaded_ms: Vec<f64>,
    /// How long requests had waited that were not answered when the load ended, in milliseconds: they would
    /// have taken longer.
    pub unanswered_ms: Vec<f64>,
    /// Requests during the load that failed.
    pub failed: u64,
    /// Response times before the load, one at a time on the idle site, in milliseconds.
    pub idle_ms: Vec<f64>,
}

/// A counter's movement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterRecord {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub unit: String,
    /// Per second of the load.
    pub per_s: f64,
    /// Per good answer.
    pub per_page: Option<f64>,
}

/// What held the throughput where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The accelerator had the cores.
    AcceleratorCpu,
    /// The load generator had no more to give.
    Generator,
    /// A network link was full.
    Link,
    /// The site (with its database) had the cores.
    OriginCpu,
    /// It cannot be told from the figures.
    Unclear,
    /// Too few users ask to keep the cores busy.
    Users,
    /// Requests waited for workers or locks while cores were idle.
    Workers,
}

impl Bound {
    /// The words for tables.
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
