//! The contents of a profile's file.
//!
//! Invariant: a key without a field here is an error that names the place, and so is a value of
//! another type. [`Profile`](crate::Profile) determines the meaning of the values together. It
//! reports a value without meaning at its place, which [`Row`] keeps. `read_file` does the reading.

use document::Places;
use std::ops::Deref;

/// A table of the file, with the places of its values.
#[derive(Clone, Debug)]
pub(crate) struct Row<T> {
    pub(crate) row: T,
    pub(crate) places: Places,
}

impl<T> Deref for Row<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.row
    }
}

/// A value without meaning in one of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The key of the value.
    pub(crate) key: &'static str,
    /// The element of the value, if it is a list and only one element is wrong.
    pub(crate) item: Option<usize>,
    /// The fault, and its fix.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, item: None, message: message.into() }
    }

    pub(crate) fn at(key: &'static str, item: usize, message: impl Into<String>) -> Self {
        Self { item: Some(item), ..Self::new(key, message) }
    }
}

/// A whole file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// The kind of site that it is for.
    pub(crate) title: String,
    /// Advice for choosing it, in sentences.
    pub(crate) about: String,
    /// The profile that it extends.
    pub(crate) extends: Option<String>,
    /// The names of its systems, as in the detection.
    pub(crate) software: Vec<String>,
    /// The test environment that runs the profile against the real application.
    pub(crate) lab: Option<String>,
    pub(crate) lifetime: Option<Row<Lifetime>>,
    pub(crate) downstream: Option<Row<DownstreamRow>>,
    pub(crate) rules: Option<Row<RulesRow>>,
    pub(crate) unknown_cookies: Option<Row<UnknownCookies>>,
    pub(crate) unknown_parameters: Option<Row<UnknownParametersTable>>,
    pub(crate) cookie: Vec<Row<CookieRow>>,
    pub(crate) path: Vec<Row<PathRow>>,
    pub(crate) static_file: Vec<Row<StaticRow>>,
    pub(crate) parameter: Vec<Row<ParameterRow>>,
    pub(crate) brief: Vec<Row<BriefRow>>,
    pub(crate) maintenance: Vec<Row<MaintenanceRow>>,
    pub(crate) front: Vec<Row<FrontRow>>,
    pub(crate) route: Vec<Row<RouteRow>>,
    pub(crate) identity: Vec<Row<IdentityRow>>,
    pub(crate) write: Vec<Row<WriteRow>>,
    pub(crate) purge: Vec<Row<PurgeRow>>,
    /// The places of the values at the top.
    pub(crate) places: Places,
}

/// The lifetime of responses that state none.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    pub(crate) default_ttl_secs: u64,
    pub(crate) grace_secs: Option<u64>,
    pub(crate) source: String,
}

/// The `Cache-Control` of pages for browsers and caches behind the edge.
#[derive(Clone, Debug)]
pub(crate) struct DownstreamRow {
    pub(crate) pages: DownstreamWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DownstreamWord {
    AsStated,
    NoCache,
}

/// The choices that the standards leave to a cache. A missing key has the value of the extended
/// profile.
#[derive(Clone, Debug)]
pub(crate) struct RulesRow {
    pub(crate) forwarding: Option<ForwardingWord>,
    pub(crate) client_address: Option<ClientAddressWord>,
    pub(crate) equal_spellings: Option<bool>,
    pub(crate) exact_etags: Option<bool>,
    pub(crate) stores_cookies: Option<bool>,
    pub(crate) credentials: Option<CredentialsWord>,
    pub(crate) heuristics: Option<bool>,
    pub(crate) targeted_fields: Option<Vec<String>>,
    pub(crate) reload_age_min_secs: Option<u64>,
    pub(crate) not_found_ttl_secs: Option<u64>,
    pub(crate) error_ttl_secs: Option<u64>,
    pub(crate) stale_on_error_max_secs: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ForwardingWord {
    Keyed,
    Everything,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientAddressWord {
    Constant,
    Leader,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CredentialsWord {
    WithPublic,
    AsStated,
}

/// The treatment of cookies that no row names.
#[derive(Clone, Debug)]
pub(crate) struct UnknownCookies {
    pub(crate) mean: UnknownWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum UnknownWord {
    Pass,
    Noise,
}

/// Cookies with the same treatment.
#[derive(Clone, Debug)]
pub(crate) struct CookieRow {
    pub(crate) means: CookieWord,
    pub(crate) names: Vec<String>,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieWord {
    Key,
    Session,
    Noise,
}

/// Paths whose responses are never shared, or only if they say `public`.
#[derive(Clone, Debug)]
pub(crate) struct PathRow {
    pub(crate) means: PathWord,
    pub(crate) patterns: Vec<String>,
    pub(crate) source: String,
}

/// Static files: extensions, and paths where cookies change no response of a static type.
#[derive(Clone, Debug)]
pub(crate) struct StaticRow {
    pub(crate) extensions: Vec<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) guess_secs_max: Option<u64>,
    pub(crate) recheck_secs: Option<u64>,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PathWord {
    #[default]
    Bypass,
    Public,
}

/// Query parameters with the same treatment.
#[derive(Clone, Debug)]
pub(crate) struct ParameterRow {
    pub(crate) means: ParameterWord,
    pub(crate) names: Vec<String>,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterWord {
    Bypass,
    Public,
    Tracking,
    Known,
}

/// The limit for parameters that no row names.
#[derive(Clone, Debug)]
pub(crate) struct UnknownParametersTable {
    pub(crate) per_minute: usize,
    pub(crate) beyond: BeyondWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeyondWord {
    Refuse,
    Page,
}

/// Responses that are shared for a short time; see [`BriefRule`](crate::BriefRule).
#[derive(Clone, Debug)]
pub(crate) struct BriefRow {
    pub(crate) statuses: Vec<u16>,
    pub(crate) lifetime_secs: u64,
    pub(crate) paths: Vec<String>,
    /// Written as in [`WriteRow::fields`].
    pub(crate) fields: Vec<String>,
    pub(crate) source: String,
}

/// Responses that say that the site is closed; see [`MaintenanceRule`](crate::MaintenanceRule).
#[derive(Clone, Debug)]
pub(crate) struct MaintenanceRow {
    pub(crate) statuses: Vec<u16>,
    /// Written as in [`WriteRow::fields`].
    pub(crate) fields: Vec<String>,
    pub(crate) source: String,
}

/// Notes on how the application purges, for the person that sets it up. Every profile accepts all
/// dialects.
#[derive(Clone, Debug)]
pub(crate) struct PurgeRow {
    pub(crate) says: String,
    pub(crate) source: String,
}

/// The front page and the feeds.
#[derive(Clone, Debug)]
pub(crate) struct FrontRow {
    pub(crate) targets: Vec<String>,
    pub(crate) source: String,
}

/// A parameter that names the route in place of the path; see [`RouteRule`](crate::RouteRule).
#[derive(Clone, Debug)]
pub(crate) struct RouteRow {
    pub(crate) parameter: String,
    pub(crate) scripts: Vec<String>,
    pub(crate) prefix: String,
    pub(crate) source: String,
}

/// A response field that identifies the post that a page shows; see
/// [`IdentityRule`](crate::IdentityRule).
#[derive(Clone, Debug)]
pub(crate) struct IdentityRow {
    /// Written as `Name: *text{id}text*`.
    pub(crate) field: String,
    /// Paths of files, which no write to a page changes.
    pub(crate) except: Vec<String>,
    pub(crate) source: String,
}

/// A request that changes pages; see [`WriteRule`](crate::WriteRule).
#[derive(Clone, Debug)]
pub(crate) struct WriteRow {
    pub(crate) methods: Vec<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) unless_paths: Vec<String>,
    /// Written as `name=value`.
    pub(crate) parameters: Vec<String>,
    pub(crate) unless_parameters: Vec<String>,
    pub(crate) cookies: Vec<String>,
    pub(crate) statuses: Vec<u16>,
    pub(crate) locations: Vec<String>,
    pub(crate) unless_locations: Vec<String>,
    /// Written as `Name: pattern | pattern`; a pattern behind `!` must not match.
    pub(crate) fields: Vec<String>,
    pub(crate) unless_fields: Vec<String>,
    /// Written as `path=pattern, path=pattern`.
    pub(crate) json: Vec<String>,
    pub(crate) unless_json: Vec<String>,
    pub(crate) contents: Vec<String>,
    pub(crate) changed_links: Vec<String>,
    /// Paths of JSON values that are identities.
    pub(crate) changed_ids: Vec<String>,
    /// Parameters of the request that are identities.
    pub(crate) changed_parameters: Vec<String>,
    /// Parameters in the query of `Location` that are identities.
    pub(crate) changed_locations: Vec<String>,
    /// Numbers in the content that are identities, written as `*text{id}text*`.
    pub(crate) changed_contents: Vec<String>,
    /// Texts that are appended to the changed pages to name more pages.
    pub(crate) changed_below: Vec<String>,
    pub(crate) changes: ChangesWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangesWord {
    Everything,
    Fronts,
    Lists,
    Page,
}
