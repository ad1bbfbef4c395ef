//! One configured site: where its pages come from, and the rules for them.

use super::balance::OriginBalance;
use super::compression;
use super::context::ContextPlan;
use super::fields::FieldRules;
use super::limits::SiteLimits;
use super::origins::{self, OriginTlsPlan};
use super::warm::WarmPlan;
use crate::ReadFile;
use crate::levels::SettingLevels;
use crate::rules::widened;
use crate::setting::SettingValue;
use address::OriginUrl;
use document::{Diagnostic, Place};
use profiles::{AUTO, DEFAULT, Pattern, Policy, Profile};
use proxy_protocol::Version;
use semantics::{CompressionRules, ContextNames};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Upper bound of the size of a page that a setting names, in bytes. The whole page is sent with
/// every response that needs it.
pub(super) const PAGE_BYTES_MAX: usize = 64 * 1024;

/// How requests with a session cookie are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoggedIn {
    /// Each goes to the origin.
    #[default]
    Pass,
    /// A copy of the page that belongs to the same session may answer.
    Private,
    /// A copy of the page for visitors with the same rights may answer.
    Context,
}

/// One configured site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePlan {
    /// The site's index in the plan. It is part of every cache key.
    pub id: u32,
    /// Host names in lower case, without port. Empty: the site answers to any name.
    pub names: Vec<String>,
    /// Further ports that `Host` may name. The port of `listen`, the default port and the port that
    /// a trusted proxy forwards need not be listed.
    pub ports: Vec<u16>,
    /// The route that the pages belong to, by its matchers. `None`: the site itself.
    pub route: Option<String>,
    /// The path of the file with the passwords for the pages. `None`: they need none. Pages that
    /// need one share no storage with others.
    pub password_path: Option<String>,
    /// The application server behind the site, or the first of several.
    pub origin: OriginUrl,
    /// The other servers with the same application, and how requests are spread over all of them.
    pub balance: OriginBalance,
    /// The limits that the site states for itself.
    pub limits: SiteLimits,
    /// Changes to the header fields of requests to the origin.
    pub request_fields: FieldRules,
    /// How connections to the origin are secured. `None`: they are plain.
    pub origin_tls: Option<OriginTlsPlan>,
    /// The version of the PROXY header with which connections to the origin begin. `None`: they
    /// begin without one.
    pub origin_proxy_protocol: Option<Version>,
    /// Whether browsers get the links of a stored page by 103 (Early Hints) while it is fetched.
    pub early_hints: bool,
    /// Whether pages are assembled from ESI templates.
    pub esi: bool,
    /// The cookies whose values templates may use.
    pub esi_cookies: Vec<Pattern>,
    /// Whether HTML responses that do not declare ESI are templates too.
    pub esi_undeclared: bool,
    /// The names of other sites whose pages may be fragments, in lower case.
    pub esi_hosts: Vec<String>,
    /// Whether browsers may keep pages with fragments for the shortest lifetime of their parts.
    pub esi_shortest_lifetime: bool,
    /// How requests with a session cookie are answered.
    pub logged_in: LoggedIn,
    /// The lifetime of a session's copy of a page that states none.
    pub private_ttl: Option<Duration>,
    /// How the contexts of visitors are learned, if `logged_in` is [`LoggedIn::Context`].
    pub context: Option<Arc<ContextPlan>>,
    /// The names of contexts that no client may use, those of all pages with the same host names.
    pub refused_claims: Vec<ContextNames>,
    /// The Host that the origin receives instead of the visitor's.
    pub public_host: Option<String>,
    /// Whether X-Forwarded-Proto tells the origin `https`.
    pub public_https: bool,
    /// The time in seconds for which browsers shall use https only. `None`: responses do not say.
    pub hsts_secs: Option<u64>,
    /// Whether requests to the origin carry `Via`.
    pub via_to_origin: bool,
    /// The profile's name.
    pub profile: String,
    /// The profile's rules with the site's own settings applied. For `auto`: the rules of
    /// `default`, which hold until the CMS is detected.
    pub policy: Policy,
    /// For `auto`: the rules of all profiles that detection may choose, each under its profile's
    /// name, with the site's own settings applied. Otherwise empty.
    pub recognisable: Vec<Policy>,
    /// The name of the layout of the site's pages in the static tree. `None`: the site's pages are
    /// not written.
    pub static_tree_layout: Option<String>,
    /// Which coded forms are made of the site's stored responses. `None`: none.
    pub compression: Option<CompressionRules>,
    /// How the edge fills its cache by itself. `None`: only a command does.
    pub warm: Option<WarmPlan>,
    /// The HTML page that visitors receive when the origin fails. `None`: the edge's built-in page.
    pub error_page: Option<Arc<str>>,
}

impl SitePlan {
    /// The URLs of all of its origins; the first is `origin`.
    pub fn origins(&self) -> impl Iterator<Item = &OriginUrl> {
        std::iter::once(&self.origin).chain(self.balance.others.iter().map(|other| &other.url))
    }

    /// The site's names and its route, for messages.
    pub(super) fn title(&self) -> String {
        let names = if self.names.is_empty() { "any name".to_owned() } else { self.names.join(", ") };
        self.route.iter().fold(names, |names, route| format!("{names}, route {route}"))
    }

    /// The site in words, for `petasos check --print`.
    pub(super) fn explain(&self) -> String {
        let mut text = format!(
            "origin {}{}, profile {}, {}",
            self.balance.explain(&self.origin),
            origins::explain(self),
            self.profile,
            assumed_lifetimes(&self.policy)
        );
        let fields = self.request_fields.explain().into_iter().map(|rule| format!("request {rule}"));
        for more in self.limits.explain().into_iter().chain(fields) {
            // Writing into a String cannot fail.
            let _ = write!(text, ", {more}");
        }
        text
    }

    /// Whether another site has the same settings, whatever its number and its route.
    pub(super) fn has_same_settings(&self, other: &Self) -> bool {
        let other = Self { id: self.id, route: self.route.clone(), ..other.clone() };
        *self == other
    }

    /// Whether the site has names that its settings do not list: any name, or all names below one.
    /// Each such name has separate pages.
    pub fn has_open_names(&self) -> bool {
        self.names.first().is_none_or(|name| name.starts_with("*."))
    }

    pub(super) fn resolve(
        id: u32,
        origins: (OriginUrl, OriginBalance),
        policy: Policy,
        levels: &SettingLevels<'_>,
    ) -> Self {
        let (origin, balance) = origins;
        let profile = levels.text("profile").unwrap_or(DEFAULT).to_owned();
        let policy = widened(policy, levels);
        let compression = compression::resolve(&policy, levels);
        let recognisable = Profile::all().iter().filter(|known| profile == AUTO && known.is_recognisable());
        let recognisable = recognisable.map(|known| widened(known.policy.clone(), levels)).collect();
        Self {
            id,
            names: match levels.value("names") {
                Some(SettingValue::Hosts(names)) => names,
                _ => Vec::new(),
            },
            ports: match levels.value("ports") {
                Some(SettingValue::Ports(ports)) => ports,
                _ => Vec::new(),
            },
            route: None,
            password_path: None,
            limits: SiteLimits::default(),
            request_fields: FieldRules::resolve(levels, "request"),
            origin_tls: OriginTlsPlan::resolve((&origin, &balance), levels),
            origin,
            balance,
            origin_proxy_protocol: match levels.text("origin_proxy_protocol") {
                Some("v1") => Some(Version::Text),
                Some("v2") => Some(Version::Binary),
                _ => None,
            },
            early_hints: levels.value("early_hints") == Some(SettingValue::Switch(true)),
            esi: levels.value("esi") == Some(SettingValue::Switch(true)),
            esi_cookies: levels.patterns("esi_cookies"),
            esi_undeclared: levels.value("esi_undeclared") == Some(SettingValue::Switch(true)),
            esi_shortest_lifetime: levels.text("esi_lifetime") == Some("shortest"),
            esi_hosts: match levels.value("esi_hosts") {
                Some(SettingValue::Hosts(names)) => names,
                _ => Vec::new(),
            },
            logged_in: match levels.text("logged_in") {
                Some("private") => LoggedIn::Private,
                Some("context") => LoggedIn::Context,
                _ => LoggedIn::Pass,
            },
            private_ttl: levels.duration("private_ttl"),
            context: None,
            refused_claims: Vec::new(),
            // Cache keys and fetches use names without a final dot.
            public_host: levels.text("host").map(|host| host.strip_suffix('.').unwrap_or(host).to_owned()),
            public_https: levels.text("proto") == Some("https"),
            hsts_secs: levels.duration("hsts").map(whole_secs),
            via_to_origin: levels.value("via_to_origin") != Some(SettingValue::Switch(false)),
            profile,
            policy,
            recognisable,
            static_tree_layout: levels
                .text("static_tree.layout")
                .filter(|layout| *layout != "none")
                .map(str::to_owned),
            compression,
            warm: WarmPlan::resolve(levels),
            error_page: None,
        }
    }
}

/// Reads the HTML file of a setting. A file that cannot be read or is too large is an error.
pub(super) fn page_file(
    levels: &SettingLevels<'_>,
    key: &'static str,
    read: &ReadFile<'_>,
) -> Result<Option<Arc<str>>, Diagnostic> {
    let Some(path) = levels.text(key) else { return Ok(None) };
    let what = key.replace(['_', '.'], " ");
    page_of(path, &what, levels.place(key).unwrap_or(Place::Default), read).map(Some)
}

/// Reads the file `path`, which is `what` of a setting at `place`.
pub(super) fn page_of(
    path: &str,
    what: &str,
    place: Place,
    read: &ReadFile<'_>,
) -> Result<Arc<str>, Diagnostic> {
    let problem = |text| Diagnostic::new(text, place.clone());
    let page = read(path).map_err(|error| problem(format!("cannot read the {what} {path}: {error}")))?;
    if page.len() > PAGE_BYTES_MAX {
        let text = format!("the {what} {path} is larger than {PAGE_BYTES_MAX} bytes");
        return Err(problem(text).with_help("let the page link to pictures and style sheets"));
    }
    Ok(page.into())
}

/// Describes the lifetimes that the site assumes for responses that state none.
fn assumed_lifetimes(policy: &Policy) -> String {
    let time = document::quantity::format_duration;
    let mut text = match (policy.default_ttl, policy.static_guess_max) {
        (Some(ttl), _) => format!("{} for responses without a stated lifetime", time(ttl)),
        (None, Some(longest)) if policy.static_files && !longest.is_zero() => format!(
            "responses without a stated lifetime are not stored, except static files for up to {}",
            time(longest)
        ),
        (None, _) => "responses without a stated lifetime are not stored".to_owned(),
    };
    if let Some(secs) = policy.static_recheck.filter(|secs| policy.static_files && !secs.is_zero()) {
        // Writing into a String cannot fail.
        let _ = write!(text, ", static files that say no-cache are used for {}", time(secs));
    }
    text
}

/// The time in seconds, rounded up, because 0 has a special meaning in HSTS.
pub(super) fn whole_secs(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
