//! Routes: which requests of a site get other settings, and answers that need no origin.
//!
//! Invariant: the routes of a site come in the order of the file, and a route without matchers is
//! the site itself, which comes last.

use super::fields::FieldRules;
use super::files::{FilesPlan, MissingFile};
use super::passwords::PasswordPlan;
use super::site::{SitePlan, page_file, page_of};
use crate::ReadFile;
use crate::document::Level;
use crate::levels::SettingLevels;
use crate::setting::{Setting, SettingScope, SettingValue};
use crate::table::SETTINGS;
use address::Prefixes;
use document::{Diagnostic, Place};
use message::{Method, RequestHead};
use profiles::Pattern;
use semantics::cookies;
use std::fmt;
use std::sync::Arc;

/// A route of a site, or a site whose responses need more than its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePlan {
    /// The names of its site, as in [`SitePlan::names`](super::SitePlan::names).
    pub names: Vec<String>,
    /// The requests that it is for.
    pub matcher: RouteMatcher,
    /// How they are answered.
    pub action: RouteAction,
    /// Changes to the header fields of responses.
    pub response_fields: Arc<FieldRules>,
    /// As [`SitePlan::hsts_secs`].
    pub hsts_secs: Option<u64>,
    /// The password that clients must know. `None`: none.
    pub password: Option<Arc<PasswordPlan>>,
    /// The page of all responses while the site is maintained. `None`: it is in use.
    pub maintenance: Option<MaintenancePlan>,
}

/// The requests that a route is for. Each list must be empty or have an entry that matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteMatcher {
    paths: Vec<Pattern>,
    methods: Vec<Method>,
    fields: Vec<FieldPattern>,
    cookies: Vec<FieldPattern>,
}

/// A field or cookie that a request has, with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldPattern {
    name: Pattern,
    /// `None`: any value.
    value: Option<Pattern>,
}

/// How the requests of a route are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAction {
    /// By the pages of the site with this number in the plan, see [`SitePlan::id`].
    ///
    /// [`SitePlan::id`]: super::SitePlan::id
    Pages(u32),
    /// By a redirection.
    Redirect(RedirectAnswer),
    /// By a response of the configuration.
    Fixed(FixedAnswer),
    /// By the files of a directory.
    Files(FilesPlan),
}

impl RouteAction {
    /// The number of the site whose pages answer, if there is no other answer.
    pub const fn pages(&self) -> Option<u32> {
        match self {
            Self::Pages(number) | Self::Files(FilesPlan { missing: MissingFile::Pages(number), .. }) => {
                Some(*number)
            }
            Self::Redirect(_) | Self::Fixed(_) | Self::Files(_) => None,
        }
    }
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectAnswer {
    /// The URL, with `{host}`, `{path}`, `{query}` and `{uri}` for parts of the request's.
    pub template: String,
    /// The status: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A response that the configuration states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedAnswer {
    /// The status, 200 to 599.
    pub status: u16,
    /// The content. `None`: the status in words.
    pub content: Option<Arc<str>>,
    /// The media type of the content.
    pub media_type: String,
}

/// A site under maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenancePlan {
    /// The HTML page of all responses.
    pub page: Arc<str>,
    /// The clients that use the site as usual.
    pub except: Prefixes,
}

impl RouteMatcher {
    fn resolve(level: &Level) -> Self {
        let texts = |key: &str| match level.get(key).map(|located| &located.value) {
            Some(SettingValue::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let patterns = |key, separator| {
            texts(key).iter().map(|text| FieldPattern::new(text, separator)).collect::<Vec<_>>()
        };
        Self {
            paths: texts("path").iter().map(|text| Pattern::new(text)).collect(),
            methods: texts("methods").iter().map(|text| Method::from_token(text.as_bytes())).collect(),
            fields: patterns("fields", ": "),
            cookies: patterns("cookies", "="),
        }
    }

    /// Whether the route is for every request.
    pub fn is_everything(&self) -> bool {
        self.is_by_path() && self.paths.is_empty()
    }

    /// Whether the path alone decides which requests the route is for.
    pub fn is_by_path(&self) -> bool {
        self.methods.is_empty() && self.fields.is_empty() && self.cookies.is_empty()
    }

    /// The lower-case names of request fields that decide, beside path and method, whether the
    /// route is for a request with this path.
    pub fn selecting_fields<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = String> + 'a {
        let is_possible = self.has_path(path);
        let cookie = self.cookies.first().map(|_| message::names::COOKIE.to_ascii_lowercase());
        let fields = self.fields.iter().map(|field| field.name.to_string()).chain(cookie);
        fields.filter(move |_| is_possible)
    }

    fn has_path(&self, path: &[u8]) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|pattern| pattern.matches(path))
    }

    /// Whether a request is one of those that the route is for. `path` is a reading of its path,
    /// see [`route_paths`](semantics::route_paths).
    pub fn matches(&self, head: &RequestHead, path: &[u8]) -> bool {
        let is_method =
            |method: &Method| *method == head.method || *method == Method::Get && head.method == Method::Head;
        let has_field = |pattern: &FieldPattern| {
            head.fields.iter().any(|field| pattern.matches(&field.name, &field.value))
        };
        let has_cookie =
            |pattern: &FieldPattern| cookies(&head.fields).any(|(name, value)| pattern.matches(name, value));
        self.has_path(path)
            && (self.methods.is_empty() || self.methods.iter().any(is_method))
            && (self.fields.is_empty() || self.fields.iter().any(has_field))
            && (self.cookies.is_empty() || self.cookies.iter().any(has_cookie))
    }
}

impl FieldPattern {
    fn new(text: &str, separator: &str) -> Self {
        match text.split_once(separator) {
            Some((name, value)) => Self { name: Pattern::new(name), value: Some(Pattern::new(value)) },
            None => Self { name: Pattern::new(text), value: None },
        }
    }

    fn matches(&self, name: &[u8], value: &[u8]) -> bool {
        self.name.matches(name) && self.value.as_ref().is_none_or(|pattern| pattern.matches(value))
    }
}

impl fmt::Display for FieldPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// The matchers in one line, as the name of the route in messages and metrics.
impl fmt::Display for RouteMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.paths.iter().map(ToString::to_string);
        let methods = self.methods.iter().map(ToString::to_string);
        let fields = self.fields.iter().map(|field| format!("field {field}"));
        let cookies = self.cookies.iter().map(|cookie| format!("cookie {cookie}"));
        let parts: Vec<_> = paths.chain(methods).chain(fields).chain(cookies).collect();
        f.write_str(&parts.join(" "))
    }
}

/// The settings that choose how a table answers its requests, the strongest first.
const ACTIONS: [&str; 4] = ["redirect", "answer.status", "files", "origin"];

/// The kind of answer that the strongest table states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActionKind {
    Pages,
    Redirect,
    Fixed,
    Files,
}

impl ActionKind {
    /// The kind that the first of the tables states which states one.
    pub(super) fn of(tables: &[&Level]) -> Self {
        let stated = tables.iter().find_map(|level| ACTIONS.iter().find(|key| level.contains_key(**key)));
        match stated {
            Some(&"redirect") => Self::Redirect,
            Some(&"answer.status") => Self::Fixed,
            Some(&"files") => Self::Files,
            _ => Self::Pages,
        }
    }
}

/// The action of a route that needs no origin; `None` for one that may need it.
pub(super) fn answer(
    kind: ActionKind,
    levels: &SettingLevels<'_>,
    read: &ReadFile<'_>,
) -> Result<Option<RouteAction>, Diagnostic> {
    match kind {
        ActionKind::Pages | ActionKind::Files => Ok(None),
        ActionKind::Redirect => redirect(levels).map(RouteAction::Redirect).map(Some),
        ActionKind::Fixed => fixed(levels, read).map(RouteAction::Fixed).map(Some),
    }
}

/// The parts of a request's URL that a redirection may name.
const PLACEHOLDERS: [&str; 4] = ["host", "path", "query", "uri"];

fn redirect(levels: &SettingLevels<'_>) -> Result<RedirectAnswer, Diagnostic> {
    let template = levels.text("redirect").unwrap_or_default();
    let place = levels.place("redirect").unwrap_or(Place::Default);
    let problem = |text: String| Diagnostic::new(text, place.clone());
    let is_url = ["http://", "https://"].iter().any(|scheme| template.starts_with(scheme));
    if !is_url && (!template.starts_with('/') || template.starts_with("//")) {
        let text = format!("`redirect`: `{template}` is neither a URL nor an absolute path");
        return Err(problem(text).with_help("begin it with https://, with http://, or with one slash"));
    }
    if let Some(bad) = template.chars().find(|letter| !letter.is_ascii_graphic()) {
        let text = format!("`redirect`: a URL has no {bad:?}");
        return Err(problem(text).with_help("percent-encode it"));
    }
    for rest in template.split('{').skip(1) {
        let name = rest.split('}').next().unwrap_or_default();
        if !rest.contains('}') || !PLACEHOLDERS.contains(&name) {
            let text = format!("`redirect`: there is no placeholder `{{{name}}}`");
            return Err(problem(text).with_help("there are {host}, {path}, {query} and {uri}"));
        }
    }
    let after_slashes = template.split_once("://").map_or(template, |(_, rest)| rest);
    let begin = after_slashes.strip_prefix('/').unwrap_or(after_slashes);
    if begin.starts_with('{') && !(is_url && begin.starts_with("{host}")) {
        let text =
            format!("`redirect`: `{template}` could lead to any host, because a path may begin with `//`");
        return Err(problem(text).with_help("write a host or the beginning of a path before the placeholder"));
    }
    let status = levels.count("redirect_status").and_then(|status| u16::try_from(status).ok());
    Ok(RedirectAnswer { template: template.to_owned(), status: status.unwrap_or(308) })
}

fn fixed(levels: &SettingLevels<'_>, read: &ReadFile<'_>) -> Result<FixedAnswer, Diagnostic> {
    let status = levels.count("answer.status").and_then(|status| u16::try_from(status).ok());
    let place = levels.place("answer.content").unwrap_or(Place::Default);
    let content = match levels.text("answer.content") {
        Some(text) => Some(match text.strip_prefix('@') {
            Some(path) => page_of(path, "content of the answer", place, read)?,
            None => text.into(),
        }),
        None => None,
    };
    let media_type = levels.text("answer.type").unwrap_or_default().to_owned();
    Ok(FixedAnswer { status: status.unwrap_or(200), content, media_type })
}

impl MaintenancePlan {
    pub(super) fn resolve(
        levels: &SettingLevels<'_>,
        read: &ReadFile<'_>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        let page =
            page_file(levels, "maintenance", read).map_err(|problem| problems.push(problem)).ok()??;
        let except = levels.peers("maintenance_peers", read, problems).unwrap_or_default();
        Some(Self { page, except })
    }
}

/// Settings that have an effect although no origin is asked.
const WITHOUT_ORIGIN: [&str; 19] = [
    "answer.content",
    "answer.status",
    "answer.type",
    "basic_auth",
    "basic_auth_realm",
    "files",
    "files_index",
    "files_missing",
    "files_precompressed",
    "files_refused",
    "files_strip",
    "files_try",
    "hsts",
    "maintenance",
    "maintenance_peers",
    "redirect",
    "redirect_status",
    "response.add",
    "response.set",
];

/// Refuses contradictions within one table: two kinds of answers, and settings that have no effect
/// on the answer. With `has_heirs`, routes may inherit these settings.
pub(super) fn contradictions(level: &Level, has_heirs: bool) -> Vec<Diagnostic> {
    let mut kinds: Vec<_> = ACTIONS.iter().filter(|key| level.contains_key(**key)).collect();
    // The origin answers the requests without a file.
    if kinds == [&"files", &"origin"] {
        kinds.pop();
    }
    let place = |key: &str| level.get(key).map_or(Place::Default, |located| located.place.clone());
    if let [first, second, ..] = kinds[..] {
        let problem =
            Diagnostic::new(format!("`{first}` and `{second}` contradict each other"), place(second));
        return vec![problem.with_help("keep one of them; a [[site.route]] may have the other")];
    }
    let is_alone = |kind: &&str| !["files", "origin"].contains(kind);
    let kind = kinds.first().map(|kind| **kind).filter(|kind| is_alone(kind) && !has_heirs);
    match kind {
        Some(kind) => void_beside(kind, level),
        None => needless(level),
    }
}

/// Refuses settings about an origin in a table whose requests never reach one, because it states
/// `kind`.
pub(super) fn void_beside(kind: &str, level: &Level) -> Vec<Diagnostic> {
    let place = |key: &str| level.get(key).map_or(Place::Default, |located| located.place.clone());
    let is_void = |setting: &&Setting| {
        setting.scope == SettingScope::Site
            && !WITHOUT_ORIGIN.contains(&setting.key)
            && level.contains_key(setting.key)
    };
    let void = SETTINGS.iter().filter(is_void).map(|setting| {
        let text = format!("`{}` has no effect beside `{kind}`", setting.key);
        Diagnostic::new(text, place(setting.key)).with_help("leave it out: no origin is asked")
    });
    void.collect()
}

/// Refuses details of an answer that the table does not have.
fn needless(level: &Level) -> Vec<Diagnostic> {
    let details = [
        ("redirect_status", "redirect"),
        ("answer.content", "answer.status"),
        ("answer.type", "answer.status"),
        ("maintenance_peers", "maintenance"),
        ("basic_auth_realm", "basic_auth"),
        ("files_index", "files"),
        ("files_missing", "files"),
        ("files_precompressed", "files"),
        ("files_refused", "files"),
        ("files_strip", "files"),
        ("files_try", "files"),
    ];
    let needless = details.into_iter().filter(|(_, whole)| !level.contains_key(*whole));
    let problems = needless.filter_map(|(detail, whole)| {
        let place = level.get(detail)?.place.clone();
        let problem = Diagnostic::new(format!("`{detail}` has no effect without `{whole}`"), place);
        Some(problem.with_help(format!("write `{whole}` in the same table")))
    });
    problems.collect()
}

/// The matchers of a route's table.
///
/// # Errors
/// A route without matchers, and one with those of an earlier route of its site.
pub(super) fn matcher(
    level: &Level,
    place: &Place,
    earlier: &[RouteMatcher],
) -> Result<RouteMatcher, Diagnostic> {
    let matcher = RouteMatcher::resolve(level);
    if matcher.is_everything() {
        let problem = Diagnostic::new("the route is for all requests", place.clone());
        return Err(problem.with_help(
            "write `path`, `methods`, `fields` or `cookies`, or move its settings into the [[site]]",
        ));
    }
    if earlier.contains(&matcher) {
        let text = format!("an earlier route of the site is for the same requests: {matcher}");
        return Err(Diagnostic::new(text, place.clone()).with_help("join the two routes"));
    }
    Ok(matcher)
}

impl RoutePlan {
    /// The route in one line of `petasos check --print`; `sites` are those of the plan.
    pub(super) fn explain(&self, sites: &[SitePlan]) -> String {
        let names = if self.names.is_empty() { "any name".to_owned() } else { self.names.join(", ") };
        let title = match self.matcher.is_everything() {
            true => format!("all other requests of {names}"),
            false => format!("route {} of {names}", self.matcher),
        };
        let pages = |id: u32| {
            let site = sites.iter().find(|site| site.id == id);
            format!("pages of site {}", site.map(SitePlan::title).unwrap_or_default())
        };
        let answer = match &self.action {
            RouteAction::Pages(id) => pages(*id),
            RouteAction::Files(files) => {
                let missing = match &files.missing {
                    MissingFile::NotFound => "404".to_owned(),
                    MissingFile::Pages(id) => pages(*id),
                    MissingFile::File(path) => path.clone(),
                };
                format!("{}, otherwise {missing}", files.explain())
            }
            RouteAction::Redirect(redirect) => {
                format!("redirects to {} with {}", redirect.template, redirect.status)
            }
            RouteAction::Fixed(answer) => format!("answers {}", answer.status),
        };
        let maintenance = self.maintenance.as_ref().map(|plan| match plan.except.is_empty() {
            true => "under maintenance".to_owned(),
            false => format!("under maintenance except for {}", super::named(&plan.except)),
        });
        let fields = self.response_fields.explain().into_iter().map(|rule| format!("response {rule}"));
        let password = self.password.as_ref().map(|password| password.explain());
        let parts: Vec<_> =
            std::iter::once(answer).chain(password).chain(maintenance).chain(fields).collect();
        format!("{title}: {}", parts.join(", "))
    }
}
