//! `POST /warm`: orders that the edge fills its cache with the pages of a site, or stops doing so.
//! `GET /warm`: the progress.

use serde::{Deserialize, Serialize};

/// The path of calls and of the document.
pub const PATH: &str = "/warm";

/// The content of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WarmCall {
    /// Fill the cache. A run of the same site ends.
    Start {
        /// The front page of the site, as visitors write it.
        url: String,
        /// URLs of sitemaps and feeds. None: none is read. Empty: those that the site names.
        #[serde(default)]
        sitemaps: Option<Vec<String>>,
        /// URLs of pages.
        #[serde(default)]
        pages: Vec<String>,
        /// Most pages in a second. None: as many as the origin's response times permit.
        #[serde(default)]
        rate: Option<u32>,
    },
    /// End the run of a site.
    Stop {
        /// A URL of the site.
        url: String,
    },
}

/// The reply to a call that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct WarmReply {
    /// The name of the site, as in the document.
    pub site: String,
    /// The number of the run, or of the run that was stopped. None: there was none to stop.
    pub run: Option<u64>,
}

/// The reply to a call that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct WarmRefusal {
    /// The fault, in a sentence.
    pub error: String,
}

/// The last run of each site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct WarmDocument {
    /// The runs, in the order of the sites' names.
    pub runs: Vec<WarmRun>,
}

/// A run of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct WarmRun {
    /// Pages that cannot be stored, by their reasons, the commonest first.
    pub causes: Vec<WarmCause>,
    /// Pages whose second request failed too.
    pub failed: u64,
    /// Pages found so far.
    pub found: u64,
    /// Pages that were fresh already.
    pub fresh: u64,
    /// Whether it goes on.
    pub is_running: bool,
    /// Pages that cannot be stored.
    pub not_cacheable: u64,
    /// Remarks, such as a sitemap that cannot be read.
    pub notes: Vec<String>,
    /// The number of the run. A later one has a higher number.
    pub run: u64,
    /// The first name of the site, or `any`.
    pub site: String,
    /// URLs that are left out, by their causes.
    pub skipped: Vec<WarmCause>,
    /// Its activity, the reason for a wait, or its end, in words.
    pub state: String,
    /// The front page.
    pub url: String,
    /// Pages that were stored or confirmed.
    pub warmed: u64,
}

/// A cause and the number of pages that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct WarmCause {
    /// The cause: a reason of the access log, or in words.
    pub cause: String,
    /// The number of pages.
    pub pages: u64,
}
