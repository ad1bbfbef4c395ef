//! What stands in a profile's file.
//!
//! Invariant: a key that is not here is an error, with its place; so is a value of another kind. What the values
//! mean together is [`Profile`](crate::Profile)'s.

use serde::Deserialize;

/// A whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// What kind of site it is for.
    pub(crate) title: String,
    /// What one should know before choosing it, in sentences.
    #[serde(default)]
    pub(crate) about: String,
    /// The shipped profile that it adds to.
    pub(crate) extends: Option<String>,
    /// The systems that it is for, as they are recognised.
    #[serde(default)]
    pub(crate) software: Vec<String>,
    /// Where the profile is tried with the real thing.
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

/// For how long answers are fresh that do not say so.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lifetime {
    pub(crate) default_ttl_secs: u64,
    pub(crate) grace_secs: Option<u64>,
    pub(crate) source: String,
}

/// What visitors' browsers, and caches behind the edge, are told of pages.
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

/// What of the standards' leave is taken. What is left out is as in the profile that is extended.
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

/// What a cookie means that no row names.
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

/// Cookies of one meaning.
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

/// Paths that are never shared, or only where the answer says so.
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

/// Query parameters of one meaning.
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

/// What a flood of parameters may cost that no row names.
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

/// Answers that are shared for a moment; see [`BriefRule`](crate::BriefRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BriefRow {
    pub(crate) statuses: Vec<u16>,
    pub(crate) lifetime_secs: u64,
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    /// As in [`WriteRow::fields`].
    pub(crate) fields: Vec<String>,
    pub(crate) source: String,
}

/// Answers by which a site says that it is closed; see [`MaintenanceRule`](crate::MaintenanceRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaintenanceRow {
    pub(crate) statuses: Vec<u16>,
    /// As in [`WriteRow::fields`].
    pub(crate) fields: Vec<String>,
    pub(crate) source: String,
}

/// How the application purges, for who sets it up. All dialects are understood whatever the profile.
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

/// Where a parameter names the route in place of the path; see [`RouteRule`](crate::RouteRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteRow {
    pub(crate) parameter: String,
    pub(crate) scripts: Vec<String>,
    pub(crate) prefix: String,
    pub(crate) source: String,
}

/// A response field that says which content a page shows; see [`IdentityRule`](crate::IdentityRule).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdentityRow {
    /// `Name: *text{id}text*`.
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
    /// `name=value`.
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
    /// `Name: pattern | pattern`; a pattern behind `!` must not match.
    #[serde(default)]
    pub(crate) fields: Vec<String>,
    #[serde(default)]
    pub(crate) unless_fields: Vec<String>,
    /// `path=pattern, path=pattern`.
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
    /// `*text{id}text*`: numbers in the content that are identities.
    #[serde(default)]
    pub(crate) changed_contents: Vec<String>,
    /// What is appended to the changed pages to name further ones.
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
