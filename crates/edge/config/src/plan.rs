//! The resolved configuration: defaults are filled in, sites are complete, and every value is
//! typed. The edge reads nothing else.
//!
//! Invariant: every existing plan can be served. Each site has an origin, no name belongs to two
//! sites, and at most one site answers to any name.

mod access_log;
mod acme;
mod balance;
mod compression;
mod contradictions;
mod expansion;
mod fields;
mod files;
mod guard;
mod limits;
mod listeners;
mod origins;
mod passwords;
mod reload;
mod route;
mod site;

pub use access_log::{AccessLogTarget, LogFormat, LogTerms};
pub use acme::AcmePlan;
pub use balance::OriginBalance;
pub use fields::{FieldRules, is_about_storing};
pub(crate) use files::CODINGS;
pub use files::{FilesPlan, MissingFile};
pub use guard::{GuardPlan, RateLimit};
pub use limits::{EdgeLimits, SiteLimits};
pub use listeners::{AdminTlsPlan, ListenerPlan, RedirectPlan, TlsPlan};
pub use origins::OriginTlsPlan;
pub use passwords::PasswordPlan;
pub use route::{FixedAnswer, MaintenancePlan, RedirectAnswer, RouteAction, RouteMatcher, RoutePlan};
pub use site::SitePlan;

use crate::ReadFile;
use crate::document::{ConfigDocument, Overrides};
use crate::levels::{SettingLevels, read_flags};
use crate::log_level::LogLevel;
use crate::machine::Machine;
use crate::sense;
use crate::setting::SettingValue;
use address::{Address, OriginUrl, Prefixes};
use contradictions::{clashes, clients_without_tls, nameless_token};
use document::{Diagnostic, Place};
use expansion::{Expansion, expand};
use profiles::Policy;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Everything that the edge needs to run.
#[derive(Clone, Debug)]
pub struct EdgePlan {
    /// The addresses where clients connect; at least one.
    pub listeners: Vec<ListenerPlan>,
    /// The address where metrics and status are served.
    pub admin: Address,
    /// How connections to `admin` are secured. `None`: they are plain.
    pub admin_tls: Option<AdminTlsPlan>,
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
    /// What is written there.
    pub log_terms: LogTerms,
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
mod tests {
    use super::{EdgeLimits, EdgePlan, LogLevel, Policy};
    use crate::{Machine, Overrides, SETTINGS, SettingScope};
    use profiles::{ClientAddress, Pattern};
    use semantics::{Coding, CompressionRules, MissForm};

    fn load(text: &str, overrides: &Overrides) -> Result<EdgePlan, String> {
        let read = |path: &str| match path {
            "./shop.toml" => Ok("title = 'Shop'\nextends = 'wordpress'\n".to_owned()),
            "./cdn.txt" => Ok("# a network\n192.0.2.0/24\n".to_owned()),
            "./sorry.html" => Ok("<p>{message}".to_owned()),
            "./long.html" => Ok("x".repeat(super::site::PAGE_BYTES_MAX + 1)),
            "/t" => Ok("secret\n".to_owned()),
            "./bad.toml" => Ok("title = 'Bad'\nextend = 'wordpress'\n".to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        crate::load("petasos.toml", text, overrides, &Machine::of_size(3, 4 << 30), &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    fn origin() -> Overrides {
        vec![("origin", "http://127.0.0.1:9000".to_owned())]
    }

    #[test]
    fn limits_of_table_and_struct_match() {
        let fields = format!("{:?}", EdgeLimits::default()).matches(": ").count();
        let rows = SETTINGS.iter().filter(|setting| setting.key.starts_with("limits.")).count();
        assert_eq!(fields, rows);
    }

    #[test]
    fn defaults_come_from_the_machine() {
        let plan = load("", &origin()).unwrap();
        assert_eq!((plan.workers, plan.memory_bytes), (2, 1 << 30));
        assert_eq!(plan.limits, EdgeLimits::default());
    }

    #[test]
    fn directories_come_from_the_machine_unless_stated() {
        let machine = Machine { state_directory: Some("/s".into()), ..Machine::of_size(1, 1 << 30) };
        let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let directories = |text: &str| {
            let text = format!("disk = '/d'\n{text}");
            let plan = crate::load("petasos.toml", &text, &origin(), &machine, &read).unwrap();
            let disk = plan.disk.unwrap();
            [disk.state_directory, disk.runtime_directory, plan.spool.directory]
        };
        assert_eq!(directories(""), [Some("/s".into()), None, Some("/var/tmp".into())]);
        let stated = "state_directory = 'none'\nruntime_directory = '/r'\nspool_directory = '/t'\n";
        assert_eq!(directories(stated), [None, Some("/r".into()), Some("/t".into())]);
    }

    #[test]
    fn flags_override_the_file_and_sites_override_the_top() {
        let text = "ttl = '1m'\n[[site]]\nnames = ['a.test']\nttl = '2m'\n[[site]]\nnames = ['b.test']\n";
        let plan = load(text, &origin()).unwrap();
        let ttl = |index: usize| plan.sites[index].policy.default_ttl.unwrap().as_secs();
        assert_eq!((ttl(0), ttl(1)), (120, 60));
        let mut overrides = origin();
        overrides.push(("ttl", "5s".to_owned()));
        assert_eq!(load(text, &overrides).unwrap().sites[0].policy.default_ttl.unwrap().as_secs(), 5);
    }

    #[test]
    fn log_level_is_info_unless_a_flag_or_the_file_sets_it() {
        assert_eq!(load("", &origin()).unwrap().log_level, LogLevel::Info);
        assert_eq!(load("log_level = 'error'\n", &origin()).unwrap().log_level, LogLevel::Error);
        let overrides = [origin(), vec![("log_level", "debug".to_owned())]].concat();
        assert_eq!(load("log_level = 'error'\n", &overrides).unwrap().log_level, LogLevel::Debug);
        assert!(load("log_level = 'trace'\n", &origin()).unwrap_err().contains("error, warn, info, debug"));
    }

    #[test]
    fn refill_is_set_by_table_or_flag() {
        let plan = load("[refill]\nenabled = true\nrate = 20\n", &origin()).unwrap();
        assert_eq!(plan.refill, super::RefillPlan { enabled: true, rate: 20, pages_max: 1000 });
        let plan = load("", &[origin(), vec![("refill.enabled", "true".to_owned())]].concat()).unwrap();
        assert!(plan.refill.enabled && !load("", &origin()).unwrap().refill.enabled);
        assert!(load("[refill]\nenabled = 'yes'\n", &origin()).is_err());
    }

    #[test]
    fn auto_profile_applies_site_settings_to_every_candidate() {
        let site = load("ttl = '7s'\n", &origin()).unwrap().sites.remove(0);
        assert_eq!((&site.profile[..], &site.policy.name[..]), ("auto", "default"));
        let names: Vec<_> = site.recognisable.iter().map(|policy| &policy.name[..]).collect();
        assert!(names.contains(&"wordpress") && !names.contains(&"default") && !names.contains(&"rfc"));
        assert!(site.recognisable.iter().all(|policy| policy.default_ttl.unwrap().as_secs() == 7));
        let chosen = load("profile = 'wordpress'\n", &origin()).unwrap().sites.remove(0);
        assert!(chosen.recognisable.is_empty());
    }

    #[test]
    fn static_tree_needs_names_and_takes_a_layout_per_site() {
        let text = "[static_tree]\ndirectory = '/srv/tree'\npages_max = 5\nlayout = 'boost'\n\
                    [[site]]\nnames = ['a.test']\n[[site]]\nstatic_tree.layout = 'none'\n\
                    [[site]]\nnames = ['b.test']\nstatic_tree.layout = 'typo3'\n";
        let plan = load(text, &origin()).unwrap();
        let tree = plan.static_tree.clone().unwrap();
        assert_eq!(
            (tree.directory.to_str(), tree.pages_max, tree.bytes_max),
            (Some("/srv/tree"), 5, 1 << 30)
        );
        let layouts: Vec<_> = plan.sites.iter().map(|site| site.static_tree_layout.as_deref()).collect();
        assert_eq!(layouts, [Some("boost"), None, Some("typo3")]);
        assert!(plan.explain().contains("static tree /srv/tree, 5 pages, 1GiB"), "{}", plan.explain());
        let fault = load("[static_tree]\ndirectory = '/srv/tree'\n", &origin()).unwrap_err();
        assert!(fault.contains("needs the `names` of the site") && fault.contains("none"), "{fault}");
        assert!(load("[static_tree]\nlayout = 'wp'\n", &origin()).unwrap_err().contains("wp-super-cache"));
        assert!(load("", &origin()).unwrap().static_tree.is_none());
    }

    #[test]
    fn compression_is_set_by_table_and_site() {
        let rules = |text: &str| load(text, &origin()).unwrap().sites[0].compression.clone();
        assert_eq!(rules(""), Some(CompressionRules::default()));
        assert_eq!(rules("compression.enabled = false"), None);
        assert_eq!(rules("profile = 'rfc'"), None);
        let text = "[compression]\ncodings = ['gzip', 'br']\ntypes = ['text/html']\nsize_min = '5KiB'\n\
                    size_max = '1MiB'\nmisses = 'gzip'\n";
        let expected = CompressionRules {
            codings: vec![Coding::Gzip, Coding::Brotli],
            types: vec![Pattern::new("text/html")],
            bytes_min: 5 << 10,
            bytes_max: 1 << 20,
            misses: MissForm::Gzip,
        };
        assert_eq!(rules(text), Some(expected));
        let two = "[compression]\nmisses = 'gzip'\n[[site]]\nnames = ['a.test']\n[[site]]\nnames = ['b.test']\n\
                   compression.enabled = false\n";
        let plan = load(two, &origin()).unwrap();
        let misses: Vec<_> =
            plan.sites.iter().map(|site| site.compression.as_ref().map(|rules| rules.misses)).collect();
        assert_eq!(misses, [Some(MissForm::Gzip), None]);
        for (text, fault) in [
            ("compression.size_max = '65MiB'", "`compression.size_max` is too large"),
            ("compression.size_min = '5MiB'", "is above `compression.size_max`"),
            ("compression.codings = ['deflate']", "deflate"),
            ("profile = 'rfc'\ncompression.misses = 'gzip'", "no effect with the profile `rfc`"),
            ("profile = 'rfc'\ncompression.size_min = '2KiB'", "no effect with the profile `rfc`"),
        ] {
            let message = load(text, &origin()).unwrap_err();
            assert!(message.contains(fault), "{message}");
        }
    }

    #[test]
    fn client_address_leader_gives_a_warning() {
        let constant = load("", &origin()).unwrap();
        assert_eq!(constant.warnings, []);
        let nobody = ClientAddress::Constant("192.0.2.1".parse().unwrap());
        assert_eq!(constant.sites[0].policy.client_address, nobody);
        for text in ["client_address = 'leader'\n", "profile = 'mediawiki'\n", "profile = 'rfc'\n"] {
            let plan = load(text, &origin()).unwrap();
            assert_eq!(plan.sites[0].policy.client_address, ClientAddress::Leader);
            let warning = plan.warnings[0].to_string();
            assert!(warning.contains("says private") && warning.contains("petasos.toml:1"), "{warning}");
        }
        let routes = "[[site]]\nnames = ['a.test']\nprofile = 'mediawiki'\n\
                      [[site.route]]\npath = ['/b']\nttl = '1m'\n[[site.route]]\npath = ['/c']\nttl = '2m'\n";
        let plan = load(routes, &origin()).unwrap();
        assert_eq!((plan.sites.len(), plan.warnings.len()), (3, 1), "one place has one warning");
        let own = load("profile = 'mediawiki'\nclient_address = '198.51.100.7'\n", &origin()).unwrap();
        assert_eq!(
            own.sites[0].policy.client_address,
            ClientAddress::Constant("198.51.100.7".parse().unwrap())
        );
        assert!(load("client_address = '127.0.0.1'\n", &origin()).unwrap_err().contains("this machine"));
    }

    #[test]
    fn wordpress_profile_sets_a_lifetime() {
        let mut overrides = origin();
        overrides.push(("profile", "wordpress".to_owned()));
        assert!(load("", &overrides).unwrap().sites[0].policy.default_ttl.is_some());
    }

    #[test]
    fn error_page_is_read_and_bounded() {
        let site = |path: &str| {
            let plan = load(&format!("error_page = '{path}'\n"), &origin());
            plan.map(|plan| plan.sites[0].error_page.clone())
        };
        assert_eq!(site("./sorry.html").unwrap().as_deref(), Some("<p>{message}"));
        assert!(site("./none.html").unwrap_err().contains("cannot read the error page ./none.html"));
        assert!(site("./long.html").unwrap_err().contains("is larger than 65536 bytes"));
    }

    #[test]
    fn profile_file_is_loaded_and_site_settings_win() {
        let site = |text: &str| load(text, &origin()).map(|mut plan| plan.sites.remove(0));
        let own = site("profile = './shop.toml'\n").unwrap();
        assert_eq!((&own.profile[..], &own.policy.name[..]), ("./shop.toml", "./shop.toml"));
        assert_eq!(own.policy.session_cookies, Policy::wordpress().session_cookies);
        let own = site("profile = './shop.toml'\nttl = '5s'\n").unwrap();
        assert_eq!(own.policy.default_ttl.unwrap().as_secs(), 5);
        let fault = site("\nprofile = './bad.toml'\n").unwrap_err();
        assert!(fault.contains("petasos.toml:2") && fault.contains("extend"), "{fault}");
        assert!(
            site("profile = './none.toml'\n").unwrap_err().contains("cannot read the profile ./none.toml")
        );
        assert!(site("profile = 'shop'\n").unwrap_err().contains("is not one of"));
    }

    #[test]
    fn faults_are_shown_with_place_and_fix() {
        let text = "listne = 'x'\nworkers = 0\nlisten = 8080\n\n[limits]\nqueue_max = '5'\nqueue_timeout = '5'\n\
                    [[site]]\nnames = ['a.test', 'b.test:80']\nworkers = 2\n";
        insta::assert_snapshot!(load(text, &Overrides::new()).unwrap_err());
    }

    #[test]
    fn ports_of_a_site_are_numbers() {
        let text = "[[site]]\nnames = ['a.test']\nports = [8080, 8443]\n[[site]]\nports = []\n";
        let plan = load(text, &origin()).unwrap();
        assert_eq!(
            plan.sites.iter().map(|site| &site.ports[..]).collect::<Vec<_>>(),
            [&[8080, 8443][..], &[]]
        );
        for ports in ["8080", "['8080']", "[0]", "[65536]", "[-1]", "[80.5]"] {
            let problem = load(&format!("ports = {ports}"), &origin()).unwrap_err();
            assert!(problem.contains("`ports`") && problem.contains("port"), "{problem}");
        }
    }

    #[test]
    fn settings_without_effect_are_errors() {
        let told = |text: &str| load(text, &origin()).err();
        for text in [
            "noise_fields = ['Origin']",
            "noise_fields = ['X-Own', 'authorization']",
            "forwarded_fields = ['Cookie']",
            "profile = 'rfc'\nstatic_paths = ['/static/*']",
            "profile = 'rfc'\nstripped_cookies = ['id']",
            "profile = 'rfc'\nstatic_files = true",
            "profile = 'rfc'\nstatic_ttl_max = '1m'",
            "host = 'a.test'\nports = [8080]",
        ] {
            let problem = told(text).unwrap();
            assert!(problem.contains("has no effect"), "{text}: {problem}");
        }
        for text in [
            "noise_fields = ['X-Own', 'DNT', 'HX-Current-URL']\nforwarded_fields = ['Traceparent']",
            "static_paths = ['/static/*']\nstripped_cookies = ['PHPSESSID']\nstatic_files = true",
            "profile = 'rfc'\nstatic_files = false",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn clashes_and_missing_origins_are_shown() {
        let text = "[[site]]\nnames = ['a.test']\n[[site]]\nnames = ['A.test']\n[[site]]\n[[site]]\n";
        insta::assert_snapshot!(load(text, &Overrides::new()).unwrap_err());
        insta::assert_snapshot!(load(text, &vec![("listen", "nowhere:".to_owned())]).unwrap_err());
        insta::assert_snapshot!(load("a = [1,\nb", &Overrides::new()).unwrap_err());
        for header in ["", "[[site]]\n"] {
            let twice = load(&format!("{header}names = ['a.test', 'A.test']\n"), &origin()).unwrap_err();
            assert!(twice.contains("`names` lists `a.test` twice"), "{twice}");
        }
    }

    #[test]
    fn the_plan_is_explained() {
        let text = "origin = 'http://127.0.0.1:9000'\n[[site]]\nnames = ['a.test']\nprofile = 'wordpress'\n[[site]]\n\
                    [[site]]\nnames = ['b.test']\nprofile = 'flask'\n[[site]]\nnames = ['c.test']\nprofile = 'flask'\n\
                    static_ttl_max = '0s'\n";
        insta::assert_snapshot!(load(text, &Overrides::new()).unwrap().explain());
    }

    #[test]
    fn peers_are_prefixes_and_files() {
        let text = "trusted_proxies = ['10.0.0.0/8', '@./cdn.txt']\npurge_peers = ['::ffff:127.0.0.1']\n";
        let plan = load(text, &origin()).unwrap();
        let holds = |address: &str| plan.trusted_proxies.contains(address.parse().unwrap());
        assert!(holds("10.1.2.3") && holds("192.0.2.1") && !holds("192.0.3.1"));
        assert!(plan.purge_peers.contains("127.0.0.1".parse().unwrap()));
        let words = "trusted proxies 10.0.0.0/8, 192.0.2.0/24\npurge peers 127.0.0.1: a proxy there must";
        assert!(plan.explain().contains(words), "{}", plan.explain());
        for (text, words) in [
            ("trusted_proxies = ['@./none.txt']", "cannot read the list ./none.txt"),
            ("\ntrusted_proxies = ['10.0.0.1/8']", "petasos.toml:2:20"),
            ("purge_peers = ['10.0.0.1/8']", "write 10.0.0.0/8 for the network"),
            ("purge_peers = ['0.0.0.0/0']", "lets every visitor purge"),
            ("purge_peers = ['0.0.0.0/1', '128.0.0.0/1']", "lets every visitor purge"),
            ("purge_peers = ['::/0']", "set `token_file`"),
        ] {
            let fault = load(text, &origin()).unwrap_err();
            assert!(fault.contains(words), "{text}: {fault}");
        }
    }

    #[test]
    fn admin_address_has_tls_by_a_certificate() {
        let text = "admin_certificate = '/c.pem,/k.pem'\nadmin_client_ca = '/a.pem'\n";
        let plan = load(text, &origin()).unwrap();
        let tls = plan.admin_tls.as_ref().unwrap();
        assert_eq!(tls.client_authorities.as_deref(), Some(std::path::Path::new("/a.pem")));
        let words =
            "admin 127.0.0.1:8081 with TLS from 1.3 on with /c.pem,/k.pem for clients certified by /a.pem, ";
        assert!(plan.explain().contains(words), "{}", plan.explain());
        let fault = load("\nadmin_client_ca = '/a.pem'", &origin()).unwrap_err();
        assert!(fault.contains("petasos.toml:2") && fault.contains("write admin_certificate"), "{fault}");
    }

    #[test]
    fn flags_take_lists_and_the_token() {
        let flags = |more: &[(&'static str, &str)]| {
            let more = more.iter().map(|(key, text)| (*key, (*text).to_owned()));
            load("", &origin().into_iter().chain(more).collect())
        };
        let plan = flags(&[("purge_peers", "10.0.0.0/8,127.0.0.1"), ("token_file", "/t")]).unwrap();
        assert_eq!(plan.purge_peers.iter().count(), 2);
        assert!(!plan.create_token && plan.token_file.is_some());
        assert!(flags(&[("purge_peers", "10.0.0.0/8,")]).unwrap_err().contains("--purge-peers"));
        assert!(flags(&[("token_file", "/t"), ("create_token", "true")]).unwrap().create_token);
        assert!(flags(&[("create_token", "true")]).unwrap_err().contains("--token-file FILE"));
    }

    #[test]
    fn every_global_default_resolves() {
        let missing: Vec<_> = SETTINGS
            .iter()
            .filter(|setting| setting.scope == SettingScope::Global && setting.default.is_none())
            .map(|setting| setting.key)
            .collect();
        assert_eq!(
            missing,
            [
                "admin_certificate",
                "admin_client_ca",
                "workers",
                "memory",
                "disk",
                "state_directory",
                "runtime_directory",
                "spool_directory",
                "acme_contact",
                "acme_eab_file",
                "acme_ca_file",
                "include",
                "trusted_proxies",
                "purge_peers",
                "token_file",
                "access_log",
                "access_log_where",
                "guard.deny",
                "guard.allow",
                "static_tree.directory"
            ]
        );
    }
}
