//! `GET /status`: the state of the edge.
//!
//! Invariant: members are in the order of the alphabet, in which the document has always been
//! written.

use crate::warm::WarmRun;
use serde::{Deserialize, Serialize};

/// The path of the document.
pub const PATH: &str = "/status";

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct EdgeStatus {
    /// The certificates that are obtained by ACME.
    #[serde(default)]
    pub certificates: Vec<CertificateStatus>,
    /// Client connections that are open.
    pub connections: usize,
    /// The disk tier; none without a disk.
    pub disk: Option<DiskStatus>,
    /// Whether the edge ends as soon as its connections are done.
    pub draining: bool,
    /// Requests since the start.
    pub requests: u64,
    /// The sites, in the order of the configuration.
    pub sites: Vec<SiteStatus>,
    /// The store in memory.
    pub store: StoreStatus,
    /// Seconds since the start.
    #[serde(default)]
    pub uptime_secs: u64,
    /// The version of the program.
    pub version: String,
    /// The last run of each site that filled the cache.
    #[serde(default)]
    pub warming: Vec<WarmRun>,
    /// Number of workers.
    pub workers: usize,
}

/// A certificate obtained by ACME.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CertificateStatus {
    /// When it expires, as an HTTP date; none while a placeholder serves.
    pub expires: Option<String>,
    /// Failed attempts since the last success.
    pub failures: u32,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The names that it is or will be for.
    pub names: Vec<String>,
    /// When the next attempt is due, as an HTTP date.
    pub next_attempt: String,
}

/// The disk tier.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct DiskStatus {
    /// The number of the last operation that the disk tier accepted.
    pub accepted: u64,
    /// Bytes in use.
    pub bytes: u64,
    /// The limit of `bytes`.
    pub bytes_max: u64,
    /// The directory.
    pub directory: String,
    /// Operations up to this number survive the end of the process.
    pub durable: u64,
    /// Whether the disk is used no longer until it answers.
    pub hung: bool,
    /// Objects on disk.
    pub objects: u64,
    /// Whether the configured disk is not used.
    pub off: bool,
    /// Operations that the disk has not answered in time.
    pub stuck: u64,
    /// Operations up to this number survive a power cut.
    pub synced: u64,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SiteStatus {
    /// State of the origin's breaker, such as `closed`.
    pub breaker: String,
    /// Idle connections to the origin.
    pub connections_idle: usize,
    /// Fetches in progress.
    pub fetches_active: usize,
    /// Fetches that may be in progress.
    #[serde(default)]
    pub fetches_max: usize,
    /// Requests that wait for an origin slot.
    pub fetches_waiting: usize,
    /// Host names; empty for the site that answers to any name.
    pub names: Vec<String>,
    /// The URL of the origin, or of the first of several.
    pub origin: String,
    /// All origins, in the order of the configuration.
    #[serde(default)]
    pub origins: Vec<OriginStatus>,
    /// The profile, as configured.
    pub profile: String,
    /// Whether the site was seen to send purges for its own writes.
    pub purges_itself: bool,
    /// The signs that the site was detected by, for `auto`.
    pub recognised_by: Option<String>,
    /// When it was detected, as an HTTP date.
    pub recognised_since: Option<String>,
    /// When the signs of the detected profile were last seen, as an HTTP date.
    pub recognition_confirmed: Option<String>,
    /// Whether detection is switched off.
    pub recognition_off: bool,
    /// The profile whose rules are in force.
    pub rules: String,
    /// A sentence about a large uncompressed text from the origin, if one was seen.
    pub uncompressed: Option<String>,
}

impl SiteStatus {
    /// The origins of a site with several that are not well. Of a single one, `breaker` says it.
    pub fn unwell_origins(&self) -> impl Iterator<Item = &OriginStatus> {
        let is_plural = self.origins.len() > 1;
        self.origins.iter().filter(move |origin| is_plural && origin.state != "well")
    }
}

/// One origin. Counts are since the start, or since the origin was configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct OriginStatus {
    /// Bytes of responses.
    pub bytes_received: u64,
    /// Bytes of requests.
    pub bytes_sent: u64,
    /// Health checks that failed.
    pub checks_failed: u64,
    /// Requests without a connection.
    pub connect_errors: u64,
    /// Idle connections to it.
    pub connections_idle: usize,
    /// Seconds that it was not well altogether.
    pub down_secs: u64,
    /// How often it stopped being well.
    pub downs: u64,
    /// Fetches in progress.
    pub fetches_active: usize,
    /// Fetches that may be in progress.
    pub fetches_max: usize,
    /// Requests that wait for their turn.
    pub fetches_waiting: usize,
    /// The last health check that has ended.
    pub last_check: Option<CheckStatus>,
    /// Requests, health checks excluded.
    pub requests: u64,
    /// Requests whose response was late, incomplete or not correct HTTP.
    pub response_errors: u64,
    /// Requests that were sent again because an idle connection had ended.
    pub retries: u64,
    /// Responses with a status from 500 on.
    pub server_errors: u64,
    /// How far it can be expected to answer: `well`, `failing` (it answers with server errors, or
    /// fails its health checks), `silent` or `unreachable`.
    pub state: String,
    /// Seconds since it has this state.
    pub state_secs: u64,
    /// Its URL.
    pub url: String,
}

/// A health check.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CheckStatus {
    /// Seconds since it ended.
    pub ago_secs: u64,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// The status of the response, or `no connection`, `no response` or `too late`.
    pub result: String,
}

/// The store in memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct StoreStatus {
    /// Bytes in use.
    pub bytes: u64,
    /// The limit of `bytes`.
    pub bytes_max: u64,
    /// Objects that were evicted since the start.
    pub evicted: u64,
    /// Objects in memory.
    pub objects: u64,
    /// Objects that are on disk only.
    pub on_disk_only: u64,
    /// Objects that were stored since the start.
    pub published: u64,
}
