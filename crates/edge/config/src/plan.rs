//! The resolved configuration: defaults are filled in, sites are complete, and every value is
//! typed. The edge reads nothing else.
//!
//! Invariant: every existing plan can be served. Each site has an origin, no name belongs to two
//! sites, and at most one site answers to any name.

mod access_log;
mod acme;
mod balance;
mod compression;
mod context;
mod contradictions;
mod expansion;
mod fields;
mod files;
mod guard;
mod limits;
mod listeners;
#[cfg(test)]
mod loading;
mod origins;
mod passwords;
mod reload;
mod route;
mod site;
mod traces;
mod warm;

pub use access_log::{AccessLogTarget, LogFormat, LogTerms};
pub use acme::AcmePlan;
pub use balance::OriginBalance;
pub use context::{ContextKey, ContextPlan, ContextSource};
pub use fields::{FieldRules, is_about_storing};
pub(crate) use files::CODINGS;
pub use files::{FilesPlan, MissingFile};
pub use guard::{GuardPlan, RateLimit};
pub use limits::{EdgeLimits, SiteLimits};
pub use listeners::{AdminTlsPlan, ListenerPlan, RedirectPlan, TlsPlan};
pub use origins::OriginTlsPlan;
pub use passwords::PasswordPlan;
pub use route::{FixedAnswer, MaintenancePlan, RedirectAnswer, RouteAction, RouteMatcher, RoutePlan};
pub use site::{LoggedIn, SitePlan};
pub use traces::TracePlan;
pub use warm::WarmPlan;

use crate::ReadFile;
use crate::document::{ConfigDocument, Overrides};
use crate::levels::{SettingLevels, read_flags};
use crate::log_level::LogLevel;
use crate::machine::Machine;
use crate::sense;
use crate::setting::SettingValue;
use address::{Address, OriginUrl, Prefixes};
use contradictions::{clashes, clients_without_tls, foreign_fragments, nameless_token, void_without_esi};
use document::{Diagnostic, Place};
use expansion::{Expansion, expand};
use profiles::Policy;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

/// All settings that the edge needs to run.
#[derive(Clone, Debug)]
pub struct EdgePlan {
    /// The addresses where clients connect; at least one.
    pub listeners: Vec<ListenerPlan>,
    /// The address where metrics and status are served.
    pub admin: Address,
    /// How connections to `admin` are secured. `None`: they are plain.
    pub admin_tls: Option<AdminTlsPlan>,
    /// The directory of reports that the dashboard lists. `None`: it lists none.
    pub reports_directory: Option<PathBuf>,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Memory that the process may occupy, in bytes (setting `memory`).
    pub memory_bytes: u64,
    /// The directory for stored responses. `None`: they are kept in memory only.
    pub disk: Option<DiskPlan>,
    /// The directory for state that survives restarts, such as certificates. `None`: no such
    /// directory.
    pub state_directory: Option<PathBuf>,
    /// The terms on which certificates are obtained by ACME.
    pub acme: AcmePlan,
    /// The destination of access log lines. `None`: no access log.
    pub access_log: Option<AccessLogTarget>,
    /// The condition for access log lines, and their form.
    pub log_terms: LogTerms,
    /// The export of traces. `None`: there is none.
    pub traces: Option<TracePlan>,
    /// The least severe messages that go to standard error.
    pub log_level: LogLevel,
    /// Proxies in front of the edge whose forwarding fields are believed.
    pub trusted_proxies: Prefixes,
    /// Addresses that may purge without a token.
    pub purge_peers: Prefixes,
    /// Status of the response to a purge in force but not durable: 503 or 202.
    pub purge_partial_status: u16,
    /// The file with the secret that purges must show. `None`: there is no secret.
    pub token_file: Option<PathBuf>,
    /// Whether the edge creates `token_file` if it does not exist.
    pub create_token: bool,
    /// Files for bodies on their way that have no room in memory.
    pub spool: SpoolPlan,
    /// All limits.
    pub limits: EdgeLimits,
    /// Fetching of hot pages after purges.
    pub refill: RefillPlan,
    /// Which clients are refused, and how much each may ask for.
    pub guard: GuardPlan,
    /// The directory into which pages are also written as files. `None`: there is no static tree.
    pub static_tree: Option<StaticTreePlan>,
    /// The sites in the order of the file, and the pages of routes that need their own.
    pub sites: Vec<SitePlan>,
    /// The routes of each site in the order of the file, and the site itself if its responses need
    /// more than pages of its origin.
    pub routes: Vec<RoutePlan>,
    /// Whether a connection is closed without a response if a request names an unknown host.
    pub closes_unknown_hosts: bool,
    /// Warnings for the operator. They do not prevent a start.
    pub warnings: Vec<Diagnostic>,
    /// Warnings of `petasos check` alone: settings that are safe only if servers in front behave.
    pub cautions: Vec<Diagnostic>,
    /// The places where the settings of `FILE_SETTINGS` were written.
    places: HashMap<&'static str, Place>,
}

/// Settings about files and directories whose places the plan keeps, because the files are examined
/// only after the plan was resolved.
const FILE_SETTINGS: [&str; 9] = [
    "admin_certificate",
    "disk",
    "disk_size",
    "spool_directory",
    "spool_size",
    "access_log",
    "state_directory",
    "static_tree.directory",
    "static_tree.size",
];

/// The directory that the setting `key` names. `none` gives no directory; a setting that was left
/// out gives `default`.
fn directory_or_default(
    top: &SettingLevels<'_>,
    key: &'static str,
    default: Option<PathBuf>,
) -> Option<PathBuf> {
    match top.text(key) {
        Some("none") => None,
        Some(directory) => Some(PathBuf::from(directory)),
        None => default,
    }
}

/// Storage on disk for stored responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPlan {
    /// The directory.
    pub directory: PathBuf,
    /// Upper bound of the space that its files may take, in bytes.
    pub bytes_max: u64,
    /// A directory, best on another device, for the file that vouches for the contents of
    /// `directory`. `None`: no such directory.
    pub state_directory: Option<PathBuf>,
    /// As `state_directory`, but the directory may be empty after a restart of the machine.
    pub runtime_directory: Option<PathBuf>,
    /// Whether an answered purge survives a power cut (`purge_durability = "power"`).
    pub power_safe_purges: bool,
}

/// Files for bodies between a client and an origin that have no room in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolPlan {
    /// The directory. `None`: bodies wait in memory only.
    pub directory: Option<PathBuf>,
    /// Upper bound of the space that its files may take, in bytes.
    pub bytes_max: u64,
}

/// Refill: fetching hot pages again after a purge, before visitors request them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillPlan {
    /// Whether every purge is followed by a refill. If not, only purges that request one are.
    pub enabled: bool,
    /// Upper bound of fetches per second; at least 1.
    pub rate: u32,
    /// The number of most requested pages that are remembered.
    pub pages_max: usize,
}

/// The static tree: pages that are also written as files, for web servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticTreePlan {
    /// The directory.
    pub directory: PathBuf,
    /// Upper bound of the pages in the tree.
    pub pages_max: usize,
    /// Upper bound of the space that its files may take, in bytes.
    pub bytes_max: u64,
}

impl RefillPlan {
    fn resolve(levels: &SettingLevels<'_>) -> Self {
        let count = |key| levels.count(key).unwrap_or(1);
        Self {
            enabled: levels.value("refill.enabled") == Some(SettingValue::Switch(true)),
            rate: u32::try_from(count("refill.rate")).unwrap_or(u32::MAX),
            pages_max: usize::try_from(count("refill.pages_max")).unwrap_or(usize::MAX),
        }
    }
}

impl StaticTreePlan {
    fn resolve(levels: &SettingLevels<'_>) -> Option<Self> {
        let directory = PathBuf::from(levels.text("static_tree.directory")?);
        let pages_max = usize::try_from(levels.count("static_tree.pages_max").unwrap_or(1));
        let bytes_max = levels.size("static_tree.size").unwrap_or(0);
        Some(Self { directory, pages_max: pages_max.unwrap_or(usize::MAX), bytes_max })
    }
}

impl EdgePlan {
    /// The plan of `petasos serve --origin ORIGIN` without further settings, on a machine with one
    /// core and 1 GiB of memory.
    pub fn for_origin(origin: OriginUrl) -> Self {
        let levels = SettingLevels { levels: Vec::new() };
        let machine = Machine::of_size(1, MEMORY_SHARE * (256 << 20));
        let origins = (origin, OriginBalance::default());
        let site = SitePlan::resolve(0, origins, Policy::default_profile(), &levels);
        let listeners = vec![ListenerPlan::plain(levels.address("listen"))];
        Self::assemble(&levels, &machine, PeerLists::default(), listeners, vec![site])
    }

    fn assemble(
        top: &SettingLevels<'_>,
        machine: &Machine,
        peers: PeerLists,
        listeners: Vec<ListenerPlan>,
        sites: Vec<SitePlan>,
    ) -> Self {
        Self {
            listeners,
            admin: top.address("admin"),
            admin_tls: AdminTlsPlan::resolve(top),
            reports_directory: top.text("reports_directory").map(PathBuf::from),
            workers: top
                .count("workers")
                .map_or_else(|| default_workers(machine), |count| usize::try_from(count).unwrap_or(1)),
            memory_bytes: top.size("memory").unwrap_or(machine.memory_bytes / MEMORY_SHARE),
            disk: top.text("disk").map(|directory| DiskPlan {
                directory: PathBuf::from(directory),
                bytes_max: top.size("disk_size").unwrap_or(0),
                state_directory: directory_or_default(
                    top,
                    "state_directory",
                    machine.state_directory.clone(),
                ),
                runtime_directory: directory_or_default(
                    top,
                    "runtime_directory",
                    machine.runtime_directory.clone(),
                ),
                power_safe_purges: top.text("purge_durability") == Some("power"),
            }),
            state_directory: directory_or_default(top, "state_directory", machine.state_directory.clone()),
            acme: AcmePlan::resolve(top),
            access_log: top.text("access_log").and_then(|text| AccessLogTarget::parse(text).ok()),
            log_terms: LogTerms::resolve(top),
            traces: TracePlan::resolve(top),
            log_level: top.text("log_level").and_then(LogLevel::by_name).unwrap_or(LogLevel::Info),
            trusted_proxies: peers.trusted,
            purge_peers: peers.purging,
            purge_partial_status: top
                .count("purge_partial_status")
                .and_then(|status| u16::try_from(status).ok())
                .unwrap_or(503),
            token_file: top.text("token_file").map(PathBuf::from),
            create_token: top.value("create_token") == Some(SettingValue::Switch(true)),
            spool: SpoolPlan {
                directory: directory_or_default(
                    top,
                    "spool_directory",
                    Some(machine.spool_directory.clone()),
                ),
                bytes_max: top.size("spool_size").unwrap_or(0),
            },
            limits: EdgeLimits::resolve(top),
            refill: RefillPlan::resolve(top),
            guard: peers.guard,
            static_tree: StaticTreePlan::resolve(top),
            sites,
            routes: Vec::new(),
            closes_unknown_hosts: top.text("unknown_hosts") == Some("close"),
            warnings: Vec::new(),
            cautions: Vec::new(),
            places: FILE_SETTINGS.into_iter().filter_map(|key| Some((key, top.place(key)?))).collect(),
        }
    }

    /// The place where a setting of `FILE_SETTINGS` was written, or [`Place::Default`] if it was
    /// left out.
    pub fn place(&self, key: &str) -> Place {
        self.places.get(key).cloned().unwrap_or(Place::Default)
    }

    /// Whether a setting of `FILE_SETTINGS` was written in the file or as a flag.
    pub fn is_stated(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// The names of all sites, each once. `*.` before a name means all names below it.
    pub fn host_names(&self) -> Vec<&String> {
        let of_sites = self.sites.iter().flat_map(|site| &site.names);
        let of_routes = self.routes.iter().flat_map(|route| &route.names);
        let mut names = Vec::new();
        for name in of_sites.chain(of_routes) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The plan in words, as `petasos check --print` shows it.
    pub fn explain(&self) -> String {
        let mut text: String = self.listeners.iter().map(ListenerPlan::explain).collect();
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "admin {}{}, {} workers, {} for stored responses",
            self.admin,
            self.admin_tls.as_ref().map(AdminTlsPlan::explain).unwrap_or_default(),
            self.workers,
            document::quantity::format_size(self.memory_bytes),
        );
        if let Some(disk) = &self.disk {
            let size = document::quantity::format_size(disk.bytes_max);
            // Writing into a String cannot fail.
            let _ = writeln!(text, "disk {}, {size}", disk.directory.display());
        }
        if let Some(tree) = &self.static_tree {
            let size = document::quantity::format_size(tree.bytes_max);
            let _ =
                writeln!(text, "static tree {}, {} pages, {size}", tree.directory.display(), tree.pages_max);
        }
        if !self.trusted_proxies.is_empty() {
            let _ = writeln!(text, "trusted proxies {}", named(&self.trusted_proxies));
        }
        if !self.purge_peers.is_empty() {
            let peers = named(&self.purge_peers);
            let _ =
                writeln!(text, "purge peers {peers}: a proxy there must add X-Forwarded-For to all requests");
        }
        if let Some(traces) = &self.traces {
            let _ = writeln!(text, "traces to {}, one of {} requests", traces.collector, traces.every);
        }
        if self.closes_unknown_hosts {
            text.push_str("closes connections that name an unknown host\n");
        }
        for site in &self.sites {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "site {}: {}", site.title(), site.explain());
        }
        for route in &self.routes {
            let _ = writeln!(text, "{}", route.explain(&self.sites));
        }
        text
    }
}

/// The first [`PREFIXES_NAMED_MAX`] prefixes, and the number of the others.
fn named(peers: &Prefixes) -> String {
    let named: Vec<_> = peers.iter().take(PREFIXES_NAMED_MAX).map(ToString::to_string).collect();
    match peers.iter().count() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Upper bound of the prefixes that `explain` names. The list of a content delivery network has
/// hundreds.
const PREFIXES_NAMED_MAX: usize = 8;

/// One worker for each core but one, and at least one. The application often shares the machine; a
/// flood of hits must leave it a core for misses.
fn default_workers(machine: &Machine) -> usize {
    machine.cores.saturating_sub(1).max(1)
}

/// Divisor for the default of `memory`: a quarter of the machine's memory.
const MEMORY_SHARE: u64 = 4;

/// The lists of peers, including the entries of the files that they name.
#[derive(Default)]
struct PeerLists {
    trusted: Prefixes,
    purging: Prefixes,
    guard: GuardPlan,
}

impl PeerLists {
    fn resolve(top: &SettingLevels<'_>, read: &ReadFile<'_>, problems: &mut Vec<Diagnostic>) -> Self {
        let trusted = top.peers("trusted_proxies", read, problems).unwrap_or_default();
        let purging = top.peers("purge_peers", read, problems).unwrap_or_default();
        if purging.is_everybody() {
            let place = top.place("purge_peers").unwrap_or(Place::Default);
            let problem = Diagnostic::new("`purge_peers` lets every visitor purge", place);
            problems.push(problem.with_help(
                "list only the machines that purge; for clients with unknown addresses, set `token_file`",
            ));
        }
        let guard = GuardPlan::resolve(top, read, problems);
        Self { trusted, purging, guard }
    }
}

/// Turns a document and the flags' overrides into a plan for this machine.
pub(crate) fn resolve(
    document: &ConfigDocument,
    overrides: &Overrides,
    machine: &Machine,
    read: &ReadFile<'_>,
) -> Result<EdgePlan, Vec<Diagnostic>> {
    let (flags, mut problems) = read_flags(overrides);
    let Expansion { sites, routes, problems: of_sites, mut warnings } = expand(document, &flags, read);
    problems.extend(of_sites);
    problems.extend(clashes(document));
    problems.extend(origins::in_vain_of([&document.top], &sites));
    problems.extend(void_without_esi([&document.top], &sites));
    problems.extend(foreign_fragments(&sites, &routes, document));
    if let (Some(names), false) = (document.top.get("names"), document.sites.is_empty()) {
        let problem = Diagnostic::new(
            "`names` is at the top of the file, but the file has [[site]] tables",
            names.place.clone(),
        );
        problems.push(problem.with_help("move it into the [[site]] that it belongs to"));
    }
    let top = SettingLevels { levels: vec![&flags, &document.top] };
    let peers = PeerLists::resolve(&top, read, &mut problems);
    let listeners = listeners::resolve(document, &flags, read, &mut problems);
    problems.extend(listeners::clashes(document, &listeners));
    problems.extend(acme::problems(&top, machine, &listeners));
    problems.extend(nameless_token(&top));
    problems.extend(clients_without_tls(&top));
    problems.extend(traces::problems(&top));
    problems.extend(sense::errors(&top, read));
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut plan = EdgePlan { routes, ..EdgePlan::assemble(&top, machine, peers, listeners, sites) };
    warnings.extend(sense::warnings(&top, &plan, machine));
    plan.warnings = warnings;
    plan.cautions = sense::cautions(&top, &plan);
    Ok(plan)
}

#[cfg(test)]
mod tests;
