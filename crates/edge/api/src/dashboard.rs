//! `GET /dashboard/data` and `GET /dashboard/history`: the figures behind the dashboard.
//!
//! Counters count since the start of the process, so a reader compares two documents. Percentiles
//! are of the last whole minute. Lists are sorted, the most important entry first. A list with
//! texts from clients has at most [`ROWS_MAX`] entries.

use crate::status::EdgeStatus;
use serde::{Deserialize, Serialize};

/// The path of [`DashboardData`].
pub const DATA_PATH: &str = "/dashboard/data";

/// The path of [`History`]. The query `minutes=N` limits it to the last N minutes.
pub const HISTORY_PATH: &str = "/dashboard/history";

/// The path of the summary of the last seven days, as Markdown.
pub const SUMMARY_PATH: &str = "/dashboard/summary";

/// Maximum number of entries of a list.
pub const ROWS_MAX: usize = 20;

/// The present figures.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct DashboardData {
    /// When they were read, in seconds since 1970.
    pub at_secs: u64,
    /// The document of `GET /status`.
    pub status: EdgeStatus,
    /// The machine and this process.
    pub machine: MachineFigures,
    /// Each site, in the order of the configuration.
    pub sites: Vec<SiteFigures>,
    /// Requests of each verdict since the start, those of removed sites included.
    #[serde(default)]
    pub verdicts: Vec<VerdictCount>,
    /// Whether the values of each minute do not reach their file.
    #[serde(default)]
    pub history_off: bool,
    /// Reasons that occurred, by number of requests.
    pub reasons: Vec<ReasonFigures>,
    /// Pages with the most requests.
    pub hottest: Vec<PageFigures>,
    /// Pages whose misses and passes took the origin the most time.
    pub misses: Vec<MissFigures>,
    /// Cookies and parameters that took the origin the most time.
    pub costs: Vec<CostFigures>,
}

/// The machine and this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct MachineFigures {
    /// Processor time of the machine in use over the last minute, 0 to 100.
    pub cpu_percent: Option<f64>,
    /// The part of it that this process used.
    pub own_cpu_percent: Option<f64>,
    /// The part of it that database servers on this machine used.
    pub database_cpu_percent: Option<f64>,
    /// Resident memory of this process.
    pub resident_bytes: Option<u64>,
    /// The setting `memory`.
    pub memory_bytes_max: u64,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SiteFigures {
    /// The site's first name, or `any`; the label of its metrics.
    pub site: String,
    /// Each verdict that occurred.
    pub verdicts: Vec<VerdictFigures>,
    /// Requests by the first segment of their path.
    pub path_groups: Vec<PathGroupFigures>,
}

/// The requests of a site with one verdict.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct VerdictFigures {
    /// Its name.
    pub verdict: String,
    /// Requests since the start.
    pub requests: u64,
    /// Median time in the last whole minute, in microseconds. `None` without a request.
    pub p50_micros: Option<u64>,
    /// The 95th percentile.
    pub p95_micros: Option<u64>,
    /// The 99th percentile.
    pub p99_micros: Option<u64>,
}

/// The requests with one verdict at all sites.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct VerdictCount {
    /// Its name.
    pub verdict: String,
    /// Requests since the start.
    pub requests: u64,
}

/// Requests whose path begins with one segment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PathGroupFigures {
    /// The segment with its slashes, such as `/shop/`, or `/` for the front page, or `other`.
    pub group: String,
    /// Estimated requests since the start.
    pub requests: u64,
    /// How many of them were answered from the cache.
    pub hits: u64,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReasonFigures {
    /// Its name.
    pub reason: String,
    /// Its verdict.
    pub verdict: String,
    /// Requests since the start.
    pub requests: u64,
    /// The meaning of the reason.
    pub meaning: String,
    /// Advice; empty if nothing needs to be done.
    pub fix: String,
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PageFigures {
    /// Its URL.
    pub url: String,
    /// Estimated requests in the recent past.
    pub requests: u64,
}

/// Misses or passes of one page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct MissFigures {
    /// Its URL without a query.
    pub url: String,
    /// The reason that occurred last.
    pub reason: String,
    /// Requests to the origin in the recent past.
    pub requests: u64,
    /// Time of the origin in the recent past, in microseconds.
    pub origin_micros: u64,
}

/// The kind of a [`CostFigures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CostKind {
    /// A cookie that made requests pass.
    Cookie,
    /// A parameter of the query that made pages different.
    Parameter,
}

/// The cost of one cookie or parameter at the origin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CostFigures {
    /// Cookie or parameter.
    pub kind: CostKind,
    /// Its name.
    pub name: String,
    /// The site.
    pub site: String,
    /// Requests to the origin with it in the recent past.
    pub requests: u64,
    /// Their time at the origin, in microseconds.
    pub origin_micros: u64,
}

/// Values of each minute.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct History {
    /// The minute of the first value, in minutes since 1970. Values follow without gaps.
    pub first_minute: u64,
    /// Minutes that each value is of; 1 for up to a day, more for a longer time.
    #[serde(default = "one")]
    pub minutes_per_value: u64,
    /// The series, in the order in which they are drawn. All have the same number of values.
    pub series: Vec<Series>,
}

/// The number of minutes per value of documents that do not state it.
const fn one() -> u64 {
    1
}

/// One series.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Series {
    /// Its name, such as `requests`.
    pub name: String,
    /// Its unit, such as `1/s`, `%`, `ms` or `bytes`.
    pub unit: String,
    /// The values; `None` for a minute without one.
    pub values: Vec<Option<f64>>,
    /// The usual range of each minute: the same hour on earlier days, or empty without enough days.
    pub usual: Vec<Option<(f64, f64)>>,
}
