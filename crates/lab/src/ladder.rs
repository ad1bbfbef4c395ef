//! A ladder as it will be walked: resolved, checked, immutable.
//!
//! Invariant: every reference in it (a group's service, a variable in a text) exists; numbers are within their
//! ranges; ids are unique. It is made by [`crate::read_ladder`] alone. `Debug` prints everything that
//! decides what is measured, and nothing of the file's layout: a plan's identity is made from it.

use crate::template::Template;
use crate::traffic::{Session, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most rounds.
pub(crate) const ROUNDS_MAX: u64 = 100;
/// The most users of one cell.
pub(crate) const CONCURRENCY_MAX: u64 = 10_000;

/// A ladder.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// What the report is called.
    pub title: String,
    /// Whether the site was made for measuring.
    pub synthetic: bool,
    /// A paragraph about the site.
    pub about: Option<String>,
    /// Path and query of the page under test.
    pub page: String,
    /// Where the order of the rounds comes from.
    pub seed: u64,
    /// How often each cell is visited.
    pub rounds: u64,
    /// The longest wait for the site to become idle before a visit.
    pub settle_limit: Duration,
    /// How long nobody asks before a visit, beside waiting for the site to become idle.
    pub cooldown: Duration,
    /// Path of an uncached page; `{unique}` in it is a new number each time.
    pub bystander: Option<Template>,
    /// The position of the session whose first visitor asks for that page as well.
    pub bystander_session: Option<usize>,
    /// Visitors who log in.
    pub sessions: Vec<Session>,
    /// Loads beside the anonymous one.
    pub loads: Vec<Traffic>,
    /// What makes a step's page the same as the reference.
    pub same: Same,
    /// What is taken out of the page before its fingerprint is made.
    pub normalise: Vec<Pattern>,
    /// Names of loopback ports to choose.
    pub ports: Vec<String>,
    /// Variables with their values from the file named by `variables_from`, and `here`.
    pub constants: BTreeMap<String, String>,
    /// Processes to start.
    pub services: Vec<Service>,
    /// Processes to watch.
    pub groups: Vec<Group>,
    /// Counters to read.
    pub meters: Vec<Meter>,
    /// Programs whose version is recorded.
    pub versions: Vec<Version>,
    /// The rungs, in order; at least one.
    pub steps: Vec<Step>,
    /// What `--quick` changes.
    pub quick: Mode,
    /// What `--full` changes.
    pub full: Mode,
}

/// A process the lab starts and stops.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name, also that of its log file.
    pub name: String,
    /// Program and arguments; at least the program.
    pub command: Vec<Template>,
    /// The URL that answers 2xx once it is ready.
    pub ready: Option<Template>,
    /// How long that may take.
    pub ready_limit: Duration,
}

/// What makes two pages the same page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Same {
    /// Their content.
    #[default]
    Content,
    /// Their length alone: sites are compared that show different things.
    Length,
}

/// What a group's processes do for the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A cache in front.
    Accelerator,
    /// The site's database.
    Database,
    /// Anything else.
    Other,
    /// The site itself.
    Site,
}

impl Role {
    /// All roles with their names in files.
    pub const ALL: [(&'static str, Self); 4] = [
        ("site", Self::Site),
        ("database", Self::Database),
        ("accelerator", Self::Accelerator),
        ("other", Self::Other),
    ];

    /// The name in files and results.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, role)| *role == self).map_or("other", |(name, _)| name)
    }
}

/// Processes watched together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// How its first process is found.
    pub root: Root,
}

/// How a group's first process is found.
#[derive(Clone, Debug)]
pub enum Root {
    /// The process whose number this is.
    Pid(Template),
    /// The process whose number stands in this file.
    PidFile(Template),
    /// The service of this name.
    Service(String),
}

/// A counter.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub unit: String,
    /// How it is read.
    pub source: MeterSource,
}

/// How a counter is read.
#[derive(Clone, Debug)]
pub enum MeterSource {
    /// A program that prints one whole number.
    Command(Vec<Template>),
    /// A number in a JSON document.
    Json {
        /// The document's URL.
        url: Template,
        /// The place of the number (RFC 6901).
        pointer: String,
    },
}

/// A program whose version is recorded.
#[derive(Clone, Debug)]
pub struct Version {
    /// What it is called.
    pub name: String,
    /// What prints it.
    pub command: Vec<Template>,
}

/// A rung.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its id.
    pub id: String,
    /// The name of the program whose version is its own.
    pub version: Option<String>,
    /// The id of the earlier step that it is compared with, if not the one before.
    pub against: Option<String>,
    /// Whether this step's page is the reference for it and for the steps after it.
    pub reference: bool,
    /// The first column of the table.
    pub number: String,
    /// The `caching` column.
    pub title: String,
    /// What the layer does.
    pub about: String,
    /// Where the load goes.
    pub address: Template,
    /// Path and query of its page: the ladder's, or its own.
    pub page: String,
    /// The Host field, if not the address.
    pub host: Option<String>,
    /// Switches the layers on.
    pub on: Vec<Action>,
    /// Empties the caches.
    pub reset: Vec<Action>,
    /// Fills them.
    pub warm: Vec<Action>,
    /// How to see that the layer was on; at least one.
    pub proof: Vec<Proof>,
    /// The step's own cell.
    pub own: Load,
    /// Further cells with their ids.
    pub also: Vec<(String, Load)>,
}

/// The load of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Users, each with one request at a time.
    pub concurrency: u64,
    /// Whether connections are used again.
    pub keepalive: bool,
    /// Load before the measured one.
    pub warmup: Duration,
    /// Length of the measured load.
    pub duration: Duration,
    /// Answers after which it ends earlier.
    pub requests_max: Option<u64>,
}

/// Something to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// A program that must exit with 0.
    Command(Vec<Template>),
    /// A request that must be answered 2xx.
    Http {
        /// The method.
        method: String,
        /// The URL.
        url: Template,
    },
}

/// How to see that a layer was on.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A field of the page's answer.
    Header {
        /// The field's name.
        name: String,
        /// What is asked of it.
        test: HeaderTest,
    },
    /// A value in a JSON document.
    Json {
        /// The document's URL.
        url: Template,
        /// The place of the value (RFC 6901).
        pointer: String,
        /// What is asked of it.
        test: JsonTest,
    },
}

/// What is asked of a header field.
#[derive(Clone, Debug)]
pub enum HeaderTest {
    /// There is none.
    Absent,
    /// Exactly this value.
    Is(Template),
    /// A value that matches.
    Matches(Pattern),
}

/// What is asked of a JSON value.
#[derive(Clone, Debug)]
pub enum JsonTest {
    /// Exactly this value.
    Is(serde_json::Value),
    /// A number of at least this.
    Min(f64),
}

/// What `--quick` or `--full` changes; `None` leaves the file's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Rounds.
    pub rounds: Option<u64>,
    /// Load before the measured one, for all cells.
    pub warmup: Option<Duration>,
    /// Length of the measured load, for all cells.
    pub duration: Option<Duration>,
    /// Concurrencies at which every step is measured as well.
    pub concurrency: Vec<u64>,
    /// Whether the steps' further cells are measured.
    pub also: bool,
}

impl Mode {
    /// A load as this mode has it.
    pub(crate) fn of(&self, load: Load) -> Load {
        let warmup = self.warmup.unwrap_or(load.warmup);
        Load { warmup, duration: self.duration.unwrap_or(load.duration), ..load }
    }
}

/// A regular expression over octets, compiled once.
#[derive(Clone, Debug)]
pub struct Pattern(pub regex::bytes::Regex);

impl Pattern {
    /// Compiles an expression; `.` matches line ends too, because pages have them everywhere.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let compiled = regex::bytes::RegexBuilder::new(text).dot_matches_new_line(true).build();
        compiled.map(Self).map_err(|error| {
            let last = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
            format!("not a regular expression: {}", last.trim_start_matches("error: "))
        })
    }
}

/// Whether a text can be an id or a name: it appears in file names, cells and anchors.
pub(crate) fn is_id(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
