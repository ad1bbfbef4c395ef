//! A ladder, ready to be walked: resolved, checked and immutable.
//!
//! Invariants:
//!
//! * Every reference exists (a group's service, a variable in a text), and every number is in its
//!   range.
//! * Ids and names are unique, also the ids of the cells of each effort.
//! * `Debug` prints everything that decides the measurement, and nothing of the file's layout,
//!   because the plan's hash is computed from it.
//!
//! Only [`crate::read_ladder`] makes a ladder.

use crate::template::Template;
use crate::traffic::{Session, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;

/// Upper limit of rounds.
pub(crate) const ROUNDS_MAX: u64 = 100;
/// Upper limit of users in one cell.
pub(crate) const CONCURRENCY_MAX: u64 = 10_000;

/// A ladder: the site, its processes and the steps to measure.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Title of the report.
    pub title: String,
    /// Whether the site was made for measuring only.
    pub synthetic: bool,
    /// A paragraph about the site for the report.
    pub about: Option<String>,
    /// Path and query of the page under test; a step may override it.
    pub page: String,
    /// Seed of the order of visits.
    pub seed: u64,
    /// Number of visits to each cell.
    pub rounds: u64,
    /// Longest wait for the site to become idle before a visit.
    pub settle_limit: Duration,
    /// Pause without requests before each visit, in addition to the wait for an idle site.
    pub cooldown: Duration,
    /// Path of the bystander's uncached page; `{unique}` in it becomes a new number for each
    /// request.
    pub bystander: Option<Template>,
    /// Position in `sessions` of the session whose first visitor is the logged-in bystander.
    pub bystander_session: Option<usize>,
    /// Sessions: groups of visitors who log in.
    pub sessions: Vec<Session>,
    /// Loads in addition to the anonymous one.
    pub loads: Vec<Traffic>,
    /// Criterion by which a step's page equals its reference.
    pub same: Same,
    /// Patterns whose matches are removed from a page before it is compared.
    pub normalise: Vec<BytesPattern>,
    /// Names of loopback ports to choose; each becomes a variable.
    pub ports: Vec<String>,
    /// Variables with fixed values: those of the file named by `variables_from`, and `here`.
    pub constants: BTreeMap<String, String>,
    /// Processes to start, in order.
    pub services: Vec<Service>,
    /// Groups of processes to watch.
    pub groups: Vec<Group>,
    /// Counters to read before and after a load.
    pub meters: Vec<Meter>,
    /// Programs whose version is recorded in the results.
    pub versions: Vec<VersionCommand>,
    /// The steps, in order. [`crate::read_ladder`] makes sure that there is at least one.
    pub steps: Vec<LadderStep>,
    /// Changes of `--quick`.
    pub quick: ModeOverrides,
    /// Changes of `--full`.
    pub full: ModeOverrides,
}

/// A process that the walk starts and stops.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name of the service; its log file is `NAME.log`.
    pub name: String,
    /// Program and arguments; never empty.
    pub command: Vec<Template>,
    /// URL whose response is 2xx once the service is ready; `None` waits for nothing.
    pub ready: Option<Template>,
    /// Time limit for becoming ready.
    pub ready_limit: Duration,
}

/// Criterion by which two pages count as the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Same {
    /// Equal content.
    #[default]
    Content,
    /// Equal length. This compares sites whose pages have different content.
    Length,
}

/// Part that a group's processes play in the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A cache in front of the site.
    Accelerator,
    /// The site's database.
    Database,
    /// Any other process.
    Other,
    /// The application itself.
    Site,
}

impl Role {
    /// All roles with their names in ladder files.
    pub const ALL: [(&'static str, Self); 4] = [
        ("site", Self::Site),
        ("database", Self::Database),
        ("accelerator", Self::Accelerator),
        ("other", Self::Other),
    ];

    /// Name of the role in ladder files and results.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, role)| *role == self).map_or("other", |(name, _)| name)
    }
}

/// A group of processes that are watched together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Role of the group.
    pub role: Role,
    /// Way to find the group's first process; its descendants belong to the group as well.
    pub root: Root,
}

/// Way to find a group's first process.
#[derive(Clone, Debug)]
pub enum Root {
    /// Process id, given directly.
    Pid(Template),
    /// Process id, read from this file.
    PidFile(Template),
    /// Process of the service with this name.
    Service(String),
}

/// A counter, read before and after each load.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Name of the counter.
    pub name: String,
    /// The counted unit, for example queries.
    pub unit: String,
    /// Way to read the counter.
    pub source: MeterSource,
}

/// Way to read a counter.
#[derive(Clone, Debug)]
pub enum MeterSource {
    /// Program that prints one number.
    Command(Vec<Template>),
    /// Number in a JSON document.
    Json {
        /// URL of the document.
        url: Template,
        /// JSON pointer to the number (RFC 6901).
        pointer: String,
    },
}

/// A program whose version is recorded.
#[derive(Clone, Debug)]
pub struct VersionCommand {
    /// Name of the program in the results.
    pub name: String,
    /// Program and arguments that print the version; the first line of output counts.
    pub command: Vec<Template>,
}

/// One step of the ladder.
#[derive(Clone, Debug)]
pub struct LadderStep {
    /// Id of the step.
    pub id: String,
    /// Name of the [`VersionCommand`] that is this step's version, if any.
    pub version: Option<String>,
    /// Id of the earlier step that this one is compared with; `None` means the preceding step.
    pub against: Option<String>,
    /// Whether this step's page becomes the reference for itself and for the steps after it.
    pub reference: bool,
    /// Whether the step shows how a server breaks down: a void cell is then a finding, and the walk
    /// has not failed.
    pub breaks_down: bool,
    /// Number of the step: the first column of the table.
    pub number: String,
    /// Title of the step: the `caching` column of the table.
    pub title: String,
    /// Description of what the layer does.
    pub about: String,
    /// Host and port that receive the load.
    pub address: Template,
    /// Path and query of the page: the step's own or the ladder's.
    pub page: String,
    /// Value of the Host field; `None` takes the address.
    pub host: Option<String>,
    /// Actions that switch the layers on.
    pub on: Vec<StepAction>,
    /// Actions that empty the caches.
    pub reset: Vec<StepAction>,
    /// Actions that fill the caches.
    pub warm: Vec<StepAction>,
    /// Proofs that the layer is on; at least one.
    pub proof: Vec<Proof>,
    /// Load of the step's own cell.
    pub own: Load,
    /// Additional cells: id and load.
    pub also: Vec<(String, Load)>,
}

/// The load of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Users, each with one request at a time.
    pub concurrency: u64,
    /// Whether connections are kept alive between requests.
    pub keepalive: bool,
    /// Duration of the unmeasured load before the measured one.
    pub warmup: Duration,
    /// Longest duration of the measured load.
    pub duration: Duration,
    /// Number of responses after which the load ends earlier.
    pub requests_max: Option<u64>,
}

/// Something to do before or after a load.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// Program and arguments; the program must exit with 0.
    Command(Vec<Template>),
    /// Request whose response must have a status of 2xx.
    Http {
        /// The method.
        method: String,
        /// The URL.
        url: Template,
    },
}

/// Evidence that a layer is on.
#[derive(Clone, Debug)]
pub enum Proof {
    /// Header field of the page's response.
    Header {
        /// Name of the field.
        name: String,
        /// Condition for the field.
        test: HeaderTest,
    },
    /// Value in a JSON document.
    Json {
        /// URL of the document.
        url: Template,
        /// JSON pointer to the value (RFC 6901).
        pointer: String,
        /// Condition for the value.
        test: JsonTest,
    },
}

/// Condition for a header field.
#[derive(Clone, Debug)]
pub enum HeaderTest {
    /// The field is absent.
    Absent,
    /// The field occurs once and has exactly this value.
    Is(Template),
    /// At least one value of the field matches.
    Matches(BytesPattern),
}

/// Condition for a JSON value.
#[derive(Clone, Debug)]
pub enum JsonTest {
    /// The value equals this one; numbers compare numerically.
    Is(serde_json::Value),
    /// The value is a number of at least this.
    Min(f64),
}

/// Changes that `--quick` or `--full` makes; `None` keeps the value of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeOverrides {
    /// Number of rounds.
    pub rounds: Option<u64>,
    /// Warm-up duration of all cells.
    pub warmup: Option<Duration>,
    /// Measured duration of all cells.
    pub duration: Option<Duration>,
    /// Concurrencies at which every step is measured in addition to its own.
    pub concurrency: Vec<u64>,
    /// Whether the steps' additional cells (`also`) are measured.
    pub also: bool,
}

impl ModeOverrides {
    /// Applies this mode's durations to a load.
    pub(crate) fn of(&self, load: Load) -> Load {
        let warmup = self.warmup.unwrap_or(load.warmup);
        Load { warmup, duration: self.duration.unwrap_or(load.duration), ..load }
    }
}

/// A compiled regular expression over bytes.
#[derive(Clone, Debug)]
pub struct BytesPattern(pub regex::bytes::Regex);

impl BytesPattern {
    /// Compiles an expression. `.` also matches line ends, because pages have them everywhere.
    ///
    /// # Errors
    /// Returns the reason why the expression is invalid, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let compiled = regex::bytes::RegexBuilder::new(text).dot_matches_new_line(true).build();
        compiled.map(Self).map_err(|error| {
            let last = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
            format!("this is not a valid regular expression: {}", last.trim_start_matches("error: "))
        })
    }
}

/// Whether a text can be an id or a name. Ids appear in file names, cell ids and anchors.
pub(crate) fn is_id(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
