//! The pages of the dashboard: HTML from the types of the admin address.
//!
//! Invariants: every text from outside is escaped, because URLs, host names and user agents are
//! hostile; `maud` does that for all values. No page has a script, style or event handler of its
//! own, so that the policy of [`POLICY`] can forbid them. Everything is there without a script: it
//! only replaces the sections of [`sections`] by newer ones.
//!
//! The crate sends nothing and decides nothing about permissions. `edge` does both.

mod chart;
mod figure;
mod forms;
mod page;
mod requests;
mod sample;
mod search;
mod sections;

pub use chart::POINTS_MAX;
pub use forms::{confirmation, login, notice};
pub use page::{main_page, result_page};
pub use requests::{request_rows, requests_page};
pub use sample::Samples;
pub use search::search_page;
pub use sections::{origins_csv, sections};

use api::dashboard::{DashboardData, History};

/// The path of the dashboard. All other paths begin with it and a slash.
pub const PATH: &str = "/dashboard";

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("style.css");

/// The script of all pages.
pub const SCRIPT: &str = include_str!("script.js");

/// The icon of all pages.
pub const ICON: &str = include_str!("icon.svg");

/// The Content Security Policy of all pages. They use their own files only.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                          connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The policy of a report. It runs no script, loads nothing, and belongs to no origin.
pub const REPORT_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                                 form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Names of the fields of forms and of parameters in links.
pub mod fields {
    /// The token against forged requests.
    pub const FORM_TOKEN: &str = "form_token";
    /// The token of the setting `token_file`.
    pub const TOKEN: &str = "token";
    /// The kind of a purge; one of [`super::PurgeKind`].
    pub const KIND: &str = "kind";
    /// The URL, prefix, tag or host of a purge.
    pub const VALUE: &str = "value";
    /// Present if a purge marks responses as stale.
    pub const SOFT: &str = "soft";
    /// The URL of a search.
    pub const URL: &str = "url";
    /// The period of charts.
    pub const RANGE: &str = "range";
    /// The verdict of live requests.
    pub const VERDICT: &str = "verdict";
    /// The filter expression of live requests.
    pub const WHERE: &str = "where";
    /// The number of a change.
    pub const NUMBER: &str = "number";
}

/// The permissions of the reader of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    /// The token for forms that change something. `None`: the reader may change nothing.
    pub form_token: Option<String>,
    /// Whether the reader has logged in and may log out.
    pub is_logged_in: bool,
    /// Whether logging in is possible, because there is a token.
    pub may_log_in: bool,
}

/// All figures on the main page.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The present figures.
    pub data: &'a DashboardData,
    /// Samples of the last minutes, for rates.
    pub samples: &'a Samples,
    /// Values of each minute.
    pub history: &'a History,
    /// The period of the charts.
    pub range: Range,
    /// Certificates from files.
    pub certificates: &'a [FileCertificate],
    /// Purges and reloads, the newest first.
    pub changes: &'a [Change],
    /// The reports.
    pub reports: Reports<'a>,
    /// The summary of the last week.
    pub summary: Option<&'a str>,
}

/// The reports in the configured directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports<'a> {
    /// No directory is configured.
    NoDirectory,
    /// The directory cannot be read at the moment.
    Unreadable,
    /// These, the newest first.
    Listed(&'a [Report]),
}

/// A certificate from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCertificate {
    /// The names that it is for.
    pub names: Vec<String>,
    /// When it expires, in seconds since 1970.
    pub expires_secs: u64,
}

/// A purge or a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number since the start.
    pub number: u64,
    /// When it ended, in seconds since 1970.
    pub at_secs: u64,
    /// The person or program that ordered it.
    pub who: String,
    /// The order.
    pub what: String,
    /// The result.
    pub result: String,
    /// Whether it is in force as ordered.
    pub is_done: bool,
}

/// A report of a ladder or of the load tester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its path below the directory.
    pub name: String,
    /// When it was written, in seconds since 1970.
    pub at_secs: u64,
    /// Its size.
    pub bytes: u64,
}

/// The period of the charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// Three hours.
    #[default]
    Hours3,
    /// A day.
    Day,
    /// Seven days.
    Week,
    /// Thirty days.
    Month,
}

impl Range {
    /// All periods, the shortest first.
    pub const ALL: [Self; 4] = [Self::Hours3, Self::Day, Self::Week, Self::Month];

    /// The name in links.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hours3 => "3h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// The period with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.name() == name)
    }

    /// Its length in minutes.
    pub const fn minutes(self) -> u64 {
        match self {
            Self::Hours3 => 180,
            Self::Day => 1440,
            Self::Week => 7 * 1440,
            Self::Month => 30 * 1440,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Hours3 => "3 hours",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
        }
    }
}

/// The kind of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeKind {
    /// One page.
    Url,
    /// All pages whose URL begins with a text.
    Prefix,
    /// All responses with a tag.
    Tag,
    /// All pages of a host.
    Host,
    /// All responses.
    Everything,
}

impl PurgeKind {
    /// All kinds, in the order of the form.
    pub const ALL: [Self; 5] = [Self::Url, Self::Prefix, Self::Tag, Self::Host, Self::Everything];

    /// The name in forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Prefix => "prefix",
            Self::Tag => "tag",
            Self::Host => "host",
            Self::Everything => "everything",
        }
    }

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Url => "One URL",
            Self::Prefix => "URLs that begin with",
            Self::Tag => "Responses with the tag",
            Self::Host => "Site (host name)",
            Self::Everything => "Everything",
        }
    }

    /// The stored responses that a purge of this kind names, as part of a sentence.
    pub fn describe(self, value: &str) -> String {
        match self {
            Self::Url => format!("the page {value}"),
            Self::Prefix => format!("all pages whose URL begins with {value}"),
            Self::Tag => format!("all responses with the tag {value}"),
            Self::Host => format!("all pages of {value}"),
            Self::Everything => "all responses of all sites".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
