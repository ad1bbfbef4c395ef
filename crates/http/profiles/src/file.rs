//! The contents of a profile's file.
//!
//! Invariant: a key without a field here is an error that names the place, and so is a value of
//! another type. [`Profile`](crate::Profile) determines the meaning of the values together.

use serde::Deserialize;

/// A whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The kind of site that it is for.
    pub(crate) title: String,
    /// Advice for choosing it, in sentences.
    #[serde(default)]
    pub(crate) about: String,
    /// The profile that it extends.
    pub(crate) extends: Option<String>,
    /// The names of its systems, as in the detection.
    #[serde(default)]
    pub(crate) software: Vec<String>,
    /// The test environment that runs the profile against the real application.
    pub(crate) lab: Option<String>,
    pub(crate) lifetime: Option<Lifetime>,
    pub(crate) downstream: Option<Downstream>,
    pub(crate) rules: Option<Rules>,
    pub(crate) unknown_cookies: Option<UnknownCookies>,
    pub(crate) unknown_parameters: Option<UnknownParametersTable>,
    #[serde(default)]
    pub(crate) cookie: Vec<CookieRow>,
    #[serde(default)]
    pub(crate) path: Vec<PathRow>,
    #[serde(default, rename = "static")]
    pub(crate) static_file: Vec<StaticRow>,
    #[serde(default)]
    pub(crate) parameter: Vec<ParameterRow>,
    #[serde(default)]
    pub(crate) brief: Vec<BriefRow>,
    #[serde(default)]
    pub(crate) maintenance: Vec<MaintenanceRow>,
    #[serde(default)]
    pub(crate) front: Vec<FrontRow>,
    #[serde(default)]
    pub(crate) route: Vec<RouteRow>,
    #[serde(default)]
    pub(crate) identity: Vec<IdentityRow>,
    #[serde(default)]
    pub(crate) write: Vec<WriteRow>,
    #[serde(default)]
    pub(crate) purge: Vec<PurgeRow>,
}

/// The lifetime of responses that state none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lifetime {
    pub(crate) default_ttl_secs: u64,
    pub(crate) grace_secs: Option<u64>,
    pub(crate) source: String,
}

/// The `Cache-Control` of pages for browsers and caches behind the edge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Downstream {
    pub(crate) pages: DownstreamWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DownstreamWord {
    AsStated,
    NoCache,
}

/// The choices that the standards leave to a cache. A missing key has the value of the extended
/// profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
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

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForwardingWord {
    Keyed,
    Everything,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClientAddressWord {
    Constant,
    Leader,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CredentialsWord {
    WithPublic,
    AsStated,
}

/// The treatment of cookies that no row names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnknownCookies {
    pub(crate) mean: UnknownWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UnknownWord {
    Pass,
    Noise,
}

/// Cookies with the same treatment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CookieRow {
    pub(crate) means: CookieWord,
    pub(crate) names: Vec<String>,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CookieWord {
    Key,
    Session,
    Noise,
}

/// Paths whose responses are never shared, or only if they say `public`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathRow {
    #[serde(default)]
    pub(crate) means: PathWord,
    pub(crate) patterns: Vec<String>,
    pub(crate) source: String,
}

/// Static files: extensions, and paths where cookies change no response of a static type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StaticRow {
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    pub(crate) guess_secs_max: Option<u64>,
    pub(crate) recheck_secs: Option<u64>,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PathWord {
    #[default]
    Bypass,
    Public,
}

/// Query parameters with the same treatment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterRow {
    pub(crate) means: ParameterWord,
    pub(crate) names: Vec<String>,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ParameterWord {
    Bypass,
    Public,
    Tracking,
    Known,
}

/// The limit for parameters that no row names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnknownParametersTable {
    pub(crate) per_minute: usize,
    pub(crate) beyond: BeyondWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BeyondWord {
    Refuse,
    Page,
}

/// Responses that are shared for a short time; see [`BriefRule`](crate::BriefRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BriefRow {
    pub(crate) statuses: Vec<u16>,
    pub(crate) lifetime_secs: u64,
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    /// Written as in [`WriteRow::fields`].
    pub(crate) fields: Vec<String>,
    pub(crate) source: String,
}

/// Responses that say that the site is closed; see [`MaintenanceRule`](crate::MaintenanceRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaintenanceRow {
    pub(crate) statuses: Vec<u16>,
    /// Written as in [`WriteRow::fields`].
    pub(crate) fields: Vec<String>,
    pub(crate) source: String,
}

/// Notes on how the application purges, for the person who sets it up. Every profile accepts all
/// dialects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeRow {
    pub(crate) says: String,
    pub(crate) source: String,
}

/// The front page and the feeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrontRow {
    pub(crate) targets: Vec<String>,
    pub(crate) source: String,
}

/// A parameter that names the route in place of the path; see [`RouteRule`](crate::RouteRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteRow {
    pub(crate) parameter: String,
    pub(crate) scripts: Vec<String>,
    pub(crate) prefix: String,
    pub(crate) source: String,
}

/// A response field that identifies the post that a page shows; see
/// [`IdentityRule`](crate::IdentityRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdentityRow {
    /// Written as `Name: *text{id}text*`.
    pub(crate) field: String,
    /// Paths of files, which no write to a page changes.
    #[serde(default)]
    pub(crate) except: Vec<String>,
    pub(crate) source: String,
}

/// A request that changes pages; see [`WriteRule`](crate::WriteRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteRow {
    pub(crate) methods: Vec<String>,
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    #[serde(default)]
    pub(crate) unless_paths: Vec<String>,
    /// Written as `name=value`.
    #[serde(default)]
    pub(crate) parameters: Vec<String>,
    #[serde(default)]
    pub(crate) unless_parameters: Vec<String>,
    #[serde(default)]
    pub(crate) cookies: Vec<String>,
    pub(crate) statuses: Vec<u16>,
    #[serde(default)]
    pub(crate) locations: Vec<String>,
    #[serde(default)]
    pub(crate) unless_locations: Vec<String>,
    /// Written as `Name: pattern | pattern`; a pattern behind `!` must not match.
    #[serde(default)]
    pub(crate) fields: Vec<String>,
    #[serde(default)]
    pub(crate) unless_fields: Vec<String>,
    /// Written as `path=pattern, path=pattern`.
    #[serde(default)]
    pub(crate) json: Vec<String>,
    #[serde(default)]
    pub(crate) unless_json: Vec<String>,
    #[serde(default)]
    pub(crate) contents: Vec<String>,
    #[serde(default)]
    pub(crate) changed_links: Vec<String>,
    /// Paths of JSON values that are identities.
    #[serde(default)]
    pub(crate) changed_ids: Vec<String>,
    /// Parameters of the request that are identities.
    #[serde(default)]
    pub(crate) changed_parameters: Vec<String>,
    /// Parameters in the query of `Location` that are identities.
    #[serde(default)]
    pub(crate) changed_locations: Vec<String>,
    /// Numbers in the content that are identities, written as `*text{id}text*`.
    #[serde(default)]
    pub(crate) changed_contents: Vec<String>,
    /// Texts that are appended to the changed pages to name more pages.
    #[serde(default)]
    pub(crate) changed_below: Vec<String>,
    pub(crate) changes: ChangesWord,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangesWord {
    Everything,
    Fronts,
    Lists,
    Page,
}
