//! The settings of the edge in a simulated run.
//!
//! Invariant: all limits are so small that a run reaches them, and the rules of the ledger follow
//! from them.

use crate::filling::WarmSettings;
use crate::guarding::guard_plan;
use crate::limits::SMALL_BODY_BYTES;
use crate::logging::LogSettings;
use crate::past::DIRECTORY;
use crate::tracing::TraceSettings;
use actors::{
    Application, GuardTerms, ListedPlan, MAINTENANCE_FILE, MAINTENANCE_PAGE, MEMBERS, MEMBERS_FILE,
    MEMBERS_ROUTE, REALM_FIELD, Routing, Rules, Scope, TEMPLATE_COOKIES, realm,
};
use config::{DiskPlan, EdgeLimits, EdgePlan, ListenerPlan, Machine, RedirectPlan, SitePlan};
use semantics::MissForm;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use world::Random;

/// The host name of the site.
pub(crate) const HOST: &str = "site.test";

/// Largest number of fetches that wait for slow clients and do not count as active.
pub(crate) const STALLED_FETCHES_MAX: usize = 4;

/// Another host name at which the site answers.
pub(crate) const OTHER_HOST: &str = "other.test";

/// A pattern of names that both have.
const ALL_BELOW: &str = "*.test";

/// The name of a site that nobody visits.
const FURTHER_HOST: &str = "further.test";

/// The URL of the origin.
pub(crate) const ORIGIN: &str = "http://192.0.2.1:80";

/// The address of the origin.
pub(crate) const ORIGIN_ADDRESS: &str = "192.0.2.1:80";

/// URL and address of another origin, which some routes have.
pub(crate) const SECOND_ORIGIN: &str = "http://192.0.2.2:80";
pub(crate) const SECOND_ORIGIN_ADDRESS: &str = "192.0.2.2:80";

/// The secret of clients that purge.
pub(crate) const TOKEN: &str = "simulated-token";

/// Pages of 4 KiB in a mebibyte: memory and disk are chosen in steps of this size.
const MIB: u64 = 1 << 20;

/// Sizes of the disk in mebibytes: mostly too small for the site, and large enough for large
/// bodies.
const DISK_MIB: [u64; 8] = [2, 2, 3, 4, 6, 8, 16, 32];

/// The largest disk that bodies under way can take as a whole, because all actors hold them in
/// memory, and the fetches that this needs.
const PRESSED_DISK_BYTES_MAX: u64 = 6 * MIB;
const PRESSED_FETCHES_MIN: usize = 24;

/// The longest lifetime that a profile assumes: that of WordPress.
const ASSUMED_MAX: Duration = Duration::from_secs(300);

/// The longest lifetime that is derived from the last edit, which is never longer ago than a tenth
/// of a run.
const HEURISTIC_MAX: Duration = Duration::from_secs(3600);

/// How often the edge keeps the values of each minute.
const PAST_PERCENT: u64 = 35;

/// How many sites with templates assemble them, in percent.
const ASSEMBLING_PERCENT: u64 = 85;

/// The least number of concurrent fetches with which no fragment waits for another one for long.
const FETCHES_FOR_FRAGMENTS: usize = 4;

/// More saves than come in a minute.
const SAVES_MAX: usize = 10_000;

/// The settings of a life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory for responses, in bytes.
    pub memory_bytes: u64,
    /// Size of the disk tier in bytes; `None` without a disk.
    pub disk_bytes: Option<u64>,
    /// Whether answered purges survive a power cut.
    pub power_safe: bool,
    /// Whether there is a directory for witnesses on another device.
    pub has_state_directory: bool,
    /// Size of the spool in bytes; `None` without a spool.
    pub spool_bytes: Option<u64>,
    /// Number of workers.
    pub workers: usize,
    /// Largest number of concurrent fetches.
    pub fetches_max: usize,
    /// How many hits of visitors with cookies are compared with the origin: one in this many; 0
    /// for none.
    pub leak_guard_every: usize,
    /// Whether the disk is read in the background to find damage before visitors do.
    pub verifies: bool,
    /// Largest content that is stored in memory, in bytes; `None` for the default. Larger contents
    /// go to the disk.
    pub object_bytes_max: Option<u64>,
    /// The share of the disk in percent that responses being written may take.
    pub fill_percent: usize,
    /// Whether purged pages are fetched again.
    pub has_refill: bool,
    /// How long an operation of the disk may take.
    pub disk_timeout: Duration,
    /// How long the origin may take until its first byte.
    pub first_byte_timeout: Duration,
    /// The lifetime of pages that state none (`default_ttl`).
    pub default_ttl: Option<Duration>,
    /// The profile of the site.
    pub profile: SiteProfile,
    /// How the host names are divided among sites.
    pub naming: SiteNaming,
    /// Whether the edge never leaves the pages of a write to the purges of the site.
    pub trusts_saves: bool,
    /// Whether a few writes and a few addresses with unknown parameters are too many.
    pub is_strict: bool,
    /// Whether purges must show a token.
    pub has_token: bool,
    /// Whether there is another site, which nobody visits.
    pub has_further_site: bool,
    /// A setting of the site on which no page depends.
    pub hsts_secs: Option<u64>,
    /// Whether the edge compresses stored responses, and whether it compresses misses.
    pub compresses: (bool, bool),
    /// The routes of all sites.
    pub routing: Routing,
    /// Whether requests to a host of no site lose their connection.
    pub closes_unknown_hosts: bool,
    /// Whether the edge keeps the values of each minute and the summaries of weeks.
    pub keeps_past: bool,
    /// Whether the sites assemble pages from templates, and whether these get values of cookies.
    pub assembles: (bool, bool),
    /// When the edge fills its cache by itself, with the documents of the site.
    pub warm: Option<(WarmSettings, ListedPlan)>,
    /// The export of traces, which no reload may change.
    pub traces: Option<TraceSettings>,
    /// What a client may ask for, if it is little.
    pub guard: Option<GuardTerms>,
    /// Whether some pages need a password.
    pub has_members: bool,
    /// The access log, which no reload may change.
    pub log: Option<LogSettings>,
}

/// The profile of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteProfile {
    /// That of a site of which nothing is known.
    Default,
    /// That of the application that the responses show.
    Auto,
    /// That of the site's application.
    Own(Application),
    /// The letter of the standards.
    Rfc,
}

/// How the host names are divided among sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteNaming {
    /// One site answers to any name.
    Any,
    /// One site has both names.
    Both,
    /// One site has the other name, and another one answers to all others.
    Apart,
    /// One site has all names below a name.
    Below,
    /// One site has the other name, and another one all names below a name above it.
    ApartBelow,
}

impl SiteNaming {
    /// The number of sites, each of which has an origin with limits of its own.
    pub const fn sites(self) -> usize {
        match self {
            Self::Any | Self::Both | Self::Below => 1,
            Self::Apart | Self::ApartBelow => 2,
        }
    }

    /// Whether the name of no site belongs to one that answers to many names.
    pub const fn has_open_names(self) -> bool {
        !matches!(self, Self::Both)
    }

    /// The names of each site.
    const fn names(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Any => &[&[]],
            Self::Both => &[&[HOST, OTHER_HOST]],
            Self::Apart => &[&[], &[OTHER_HOST]],
            Self::Below => &[&[ALL_BELOW]],
            Self::ApartBelow => &[&[ALL_BELOW], &[OTHER_HOST]],
        }
    }
}

impl SiteProfile {
    /// A profile by chance for a site that runs on this application.
    pub fn random(random: &mut Random, application: Option<Application>) -> Self {
        match (random.below(10), application) {
            (0, _) => Self::Rfc,
            (1..6, Some(_)) => Self::Auto,
            (6..9, Some(application)) => Self::Own(application),
            (1, None) => Self::Auto,
            _ => Self::Default,
        }
    }

    /// The longest lifetime that a profile in force gives to pages that state none. An application
    /// may be detected although its profile is not chosen.
    const fn assumed_max(self) -> Duration {
        match self {
            Self::Default => Duration::ZERO,
            Self::Auto | Self::Own(_) => ASSUMED_MAX,
            Self::Rfc => HEURISTIC_MAX,
        }
    }

    /// The longest lifetime of a 404 that states none.
    const fn missing_max(self) -> Duration {
        match self {
            Self::Rfc => HEURISTIC_MAX,
            _ => Duration::from_secs(30),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Auto => "auto",
            Self::Own(application) => application.profile(),
            Self::Rfc => "rfc",
        }
    }
}

impl Settings {
    /// Settings by chance.
    pub fn random(random: &mut Random) -> Self {
        // Numbers of their own leave the other settings of a seed as they are.
        let mut of_bodies = Random::fork(random.clone().number(), "limits of bodies", 0);
        let mut of_codings = Random::fork(random.clone().number(), "codings", 0);
        let mut of_past = Random::fork(random.clone().number(), "past", 0);
        Self {
            memory_bytes: random.between(2, 12) * MIB,
            disk_bytes: random.percent(80).then(|| random.choice(&DISK_MIB).copied().unwrap_or(2) * MIB),
            power_safe: random.percent(30),
            has_state_directory: random.percent(50),
            spool_bytes: random.percent(70).then(|| random.between(1, 8) * MIB),
            workers: random.between(1, 2) as usize,
            fetches_max: fetches_max(random.between(2, 16), &mut of_bodies),
            leak_guard_every: if random.percent(50) { random.between(1, 8) as usize } else { 0 },
            verifies: random.percent(40),
            object_bytes_max: of_bodies.percent(50).then(|| of_bodies.between(32, 256) * 1024),
            fill_percent: *of_bodies.choice(&[25, 60, 100, 100]).unwrap_or(&25),
            has_refill: random.percent(30),
            disk_timeout: random.millis(300, 2000),
            first_byte_timeout: random.millis(10_000, 20_000),
            default_ttl: random.percent(25).then(|| Duration::from_secs(random.between(2, 90))),
            profile: SiteProfile::Default,
            naming: SiteNaming::Any,
            trusts_saves: false,
            is_strict: false,
            has_token: true,
            has_further_site: false,
            hsts_secs: None,
            compresses: (of_codings.percent(85), of_codings.percent(30)),
            routing: Routing::default(),
            closes_unknown_hosts: false,
            keeps_past: of_past.percent(PAST_PERCENT),
            assembles: (false, false),
            warm: None,
            traces: None,
            guard: None,
            has_members: false,
            log: None,
        }
    }

    /// Other settings by chance, as an operator changes them while the edge is stopped. What
    /// decides whether stored responses and answered purges outlive a restart stays the same.
    #[must_use]
    pub fn altered(&self, random: &mut Random) -> Self {
        let other = Self::random(random);
        let disk_bytes = random.between(2, 16) * MIB;
        Self {
            disk_bytes: self.disk_bytes.map(|_| disk_bytes),
            power_safe: self.power_safe,
            has_state_directory: self.has_state_directory,
            profile: self.profile,
            naming: self.naming,
            trusts_saves: self.trusts_saves,
            is_strict: self.is_strict,
            has_token: self.has_token,
            routing: self.routing.clone(),
            closes_unknown_hosts: self.closes_unknown_hosts,
            keeps_past: self.keeps_past,
            assembles: self.assembles,
            warm: self.warm.clone(),
            traces: self.traces,
            guard: self.guard,
            has_members: self.has_members,
            log: self.log,
            ..other
        }
    }

    /// These settings with so few limits that bodies under way can take the whole disk.
    #[must_use]
    pub fn under_pressure(self) -> Self {
        let disk_bytes = self.disk_bytes.map(|bytes| bytes.min(PRESSED_DISK_BYTES_MAX));
        let fetches_max = self.fetches_max.max(PRESSED_FETCHES_MIN);
        Self { disk_bytes, fetches_max, fill_percent: 100, object_bytes_max: Some(64 << 10), ..self }
    }

    /// These settings for a site that runs on this application, with a profile and names by chance.
    #[must_use]
    pub fn for_site(self, random: &mut Random, application: Option<Application>) -> Self {
        let profile = SiteProfile::random(random, application);
        let names = [SiteNaming::Any, SiteNaming::Any, SiteNaming::Both, SiteNaming::Apart];
        let below = [SiteNaming::Below, SiteNaming::ApartBelow];
        let naming = *random.choice(&names).unwrap_or(&SiteNaming::Any);
        let trusts_saves = random.percent(50);
        let (is_strict, has_token) = (random.percent(20), random.percent(70));
        let is_below = random.percent(20);
        let naming = *random.choice(&below).filter(|_| is_below).unwrap_or(&naming);
        let closes_unknown_hosts = random.percent(20);
        Self { profile, naming, trusts_saves, is_strict, has_token, closes_unknown_hosts, ..self }
    }

    /// These settings with routes by chance for the pages of a site.
    #[must_use]
    pub fn with_routes(self, random: &mut Random, site: &actors::SitePlan) -> Self {
        let routing = Routing::random(random, site, self.naming.sites() > 1);
        Self { routing, ..self }
    }

    /// These settings for a site with templates.
    #[must_use]
    pub fn with_templates(self, random: &mut Random) -> Self {
        let assembles = random.percent(ASSEMBLING_PERCENT);
        Self { assembles: (assembles, random.percent(70)), ..self }
    }

    /// The lines of a site's table about templates.
    fn assembly(&self) -> String {
        match self.assembles {
            (true, true) => format!("esi = true\nesi_cookies = {TEMPLATE_COOKIES:?}\n"),
            (true, false) => "esi = true\n".to_owned(),
            (false, _) => String::new(),
        }
    }

    /// The text of the configuration: the sites with their profile.
    fn configuration(&self) -> String {
        let profile = self.profile.name();
        let members = if self.has_members { MEMBERS_ROUTE } else { "" };
        let site = |(number, names): (usize, &&[&str])| {
            let names = if names.is_empty() { String::new() } else { format!("names = {names:?}\n") };
            let routing = self.routing.configuration(number > 0, SECOND_ORIGIN, members);
            let assembly = self.assembly();
            let host = if number > 0 { OTHER_HOST } else { HOST };
            let warm = self.warm.as_ref().map(|(warm, listed)| warm.configuration(host, listed));
            let warm = warm.unwrap_or_default();
            format!(
                "[[site]]\norigin = \"{ORIGIN}\"\nprofile = \"{profile}\"\n{names}{assembly}{routing}{warm}"
            )
        };
        let further = format!("[[site]]\norigin = \"{ORIGIN}\"\nnames = [\"{FURTHER_HOST}\"]\n");
        let further = self.has_further_site.then_some(further);
        let unknown = if self.closes_unknown_hosts { "unknown_hosts = \"close\"\n" } else { "" };
        let sites = self.naming.names().iter().enumerate().map(site);
        let traces = self.traces.map(TraceSettings::configuration).unwrap_or_default();
        let log = self.log.map(LogSettings::configuration).unwrap_or_default();
        [unknown.to_owned(), traces, log].into_iter().chain(sites).chain(further).collect()
    }

    /// The largest number of fetches from all origins together. Stalled fetches count as active
    /// again when their clients go on, beyond the limit.
    pub fn all_fetches_max(&self) -> usize {
        let of_routes = self.routing.fetches_max(self.fetches_max);
        let of_origins = std::iter::once(self.fetches_max).chain(of_routes);
        self.naming.sites() * of_origins.map(|fetches| fetches + STALLED_FETCHES_MAX).sum::<usize>()
    }

    /// The smallest limit of concurrent fetches from an origin.
    fn fetches_min(&self) -> usize {
        let of_routes = self.routing.fetches_max(self.fetches_max).min();
        of_routes.unwrap_or(self.fetches_max).min(self.fetches_max)
    }

    /// The same for a single origin.
    pub(crate) const fn of_one_origin_max(&self) -> usize {
        self.fetches_max + STALLED_FETCHES_MAX
    }

    /// The secret of clients that purge, if there is one.
    pub fn token(&self) -> Option<String> {
        self.has_token.then(|| TOKEN.to_owned())
    }

    /// The name by which an operator calls the first site.
    pub const fn label(&self) -> &'static str {
        match self.naming {
            SiteNaming::Any | SiteNaming::Apart => "any",
            SiteNaming::Both => HOST,
            SiteNaming::Below | SiteNaming::ApartBelow => ALL_BELOW,
        }
    }

    /// The plan of the edge.
    ///
    /// # Errors
    /// If the configuration is wrong, which it is not.
    pub fn plan(&self) -> Result<EdgePlan, String> {
        let machine = Machine {
            cores: 1,
            memory_bytes: self.memory_bytes,
            state_directory: None,
            runtime_directory: None,
            spool_directory: PathBuf::from("/spool"),
        };
        let files = [(MAINTENANCE_FILE, MAINTENANCE_PAGE), (MEMBERS_FILE, MEMBERS)];
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| path.ends_with(name));
            file.map(|(_, text)| (*text).to_owned())
                .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        };
        let text = self.configuration();
        let plan = config::load("simulation", &text, &Vec::new(), &machine, &read);
        let mut plan = plan.map_err(|faults| format!("{faults:?}"))?;
        plan.workers = self.workers;
        plan.memory_bytes = self.memory_bytes;
        plan.disk = self.disk_bytes.map(|bytes_max| DiskPlan {
            directory: PathBuf::from("/cache"),
            bytes_max,
            state_directory: self.has_state_directory.then(|| PathBuf::from("/state")),
            runtime_directory: None,
            power_safe_purges: self.power_safe,
        });
        plan.spool.directory = self.spool_bytes.map(|_| PathBuf::from("/spool"));
        plan.spool.bytes_max = self.spool_bytes.unwrap_or(0);
        plan.state_directory = self.keeps_past.then(|| PathBuf::from(DIRECTORY));
        plan.refill.enabled = self.has_refill;
        plan.trusted_proxies = prefixes(PROXY);
        plan.purge_peers = prefixes(PURGER);
        for listener in &mut plan.listeners {
            listener.http2 = true;
            listener.proxy_protocol = prefixes(BALANCER);
        }
        let redirecting = plan.listeners.first().map(|listener| ListenerPlan {
            redirect: Some(RedirectPlan { except: Vec::new() }),
            ..listener.clone()
        });
        plan.listeners.extend(redirecting);
        let lifetimes: BTreeMap<_, _> = self.routing.lifetimes().collect();
        for site in &mut plan.sites {
            let has_own_lifetime = lifetimes.contains_key(&realm_of(site));
            self.apply_to(site, has_own_lifetime);
        }
        self.limit(&mut plan.limits);
        if let Some(terms) = &self.guard {
            plan.guard = guard_plan(terms);
            plan.limits.connections_per_address_max = terms.connections_max;
        }
        Ok(plan)
    }

    fn limit(&self, limits: &mut EdgeLimits) {
        limits.fetches_max = self.fetches_max;
        limits.client_fetches_max = self.fetches_max;
        limits.stalled_fetches_max = STALLED_FETCHES_MAX;
        limits.leak_guard_every = self.leak_guard_every;
        limits.object_bytes_max = self.object_bytes_max.unwrap_or(limits.object_bytes_max);
        limits.disk_fill_percent = self.fill_percent;
        limits.disk_timeout = self.disk_timeout;
        limits.first_byte_timeout = self.first_byte_timeout;
        limits.between_bytes_timeout = Duration::from_secs(10);
        limits.connect_timeout = Duration::from_secs(2);
        limits.queue_timeout = Duration::from_secs(5);
        limits.flight_wait = FLIGHT_WAIT;
        limits.completion_timeout = Duration::from_secs(5);
        limits.request_head_timeout = Duration::from_secs(10);
        limits.request_body_timeout = Duration::from_secs(10);
        limits.write_timeout = Duration::from_secs(20);
        limits.idle_timeout = Duration::from_secs(30);
        limits.drain_timeout = Duration::from_secs(30);
        limits.drain_streams = Duration::from_secs(10);
        limits.foreign_ports_max = 2;
        if let Some(clients_max) = self.traces.and_then(|traces| traces.clients_max) {
            limits.client_traces_max = clients_max;
        }
        if let Some(lines_max) = self.log.and_then(|log| log.lines_max) {
            limits.access_log_lines_max = lines_max;
        }
        if self.is_strict {
            limits.page_writes_per_minute = 1;
        }
        if self.trusts_saves {
            limits.self_purge_memory = Duration::ZERO;
            limits.writes_per_minute = SAVES_MAX;
        } else {
            limits.self_purge_memory = Duration::from_secs(60);
            limits.writes_per_minute = 2;
        }
        limits.disk_verify_rate = if self.verifies { MIB } else { 0 };
    }

    fn apply_to(&self, site: &mut SitePlan, has_own_lifetime: bool) {
        site.hsts_secs = self.hsts_secs;
        let (compresses, codes_misses) = self.compresses;
        site.compression = site.compression.take().filter(|_| compresses);
        if let (Some(rules), true) = (&mut site.compression, codes_misses) {
            rules.misses = MissForm::Gzip;
        }
        for policy in std::iter::once(&mut site.policy).chain(&mut site.recognisable) {
            policy.default_ttl = self.default_ttl.filter(|_| !has_own_lifetime).or(policy.default_ttl);
            policy.grace = Duration::ZERO;
            if let Some(unknown) = policy.unknown_parameters.as_mut().filter(|_| self.is_strict) {
                unknown.per_minute = 1;
            }
        }
    }

    /// The largest content that is stored as soon as it has arrived. A larger one may go to the
    /// disk, because it is beyond the limit or because other bodies occupy the memory.
    fn stored_at_once_max(&self) -> usize {
        let limit = self.object_bytes_max.unwrap_or(SMALL_BODY_BYTES).min(SMALL_BODY_BYTES);
        self.disk_bytes.map_or(usize::MAX, |_| limit as usize)
    }

    /// The bounds of the ledger that follow from these settings.
    pub fn rules(&self, trace: bool) -> Rules {
        let limits = EdgeLimits::default();
        Rules {
            // The disk, the queue, and one fetch of its own after one that it has joined.
            first_byte_max: 4 * self.disk_timeout + FLIGHT_WAIT + 3 * self.first_byte_timeout + SLACK,
            stale_first_byte_max: 4 * self.disk_timeout + limits.stale_wait.max(FLIGHT_WAIT) + STALE_SLACK,
            stored_at_once_max: self.stored_at_once_max(),
            end_max: Duration::from_secs(400),
            assumed_max: self.default_ttl.unwrap_or_default().max(self.profile.assumed_max()),
            assumed_of_realms: self.routing.lifetimes().collect(),
            routings: vec![Arc::new(self.routing.clone())],
            missing_max: self.profile.missing_max(),
            writes_count: !self.is_strict,
            saves_count: self.trusts_saves && matches!(self.profile, SiteProfile::Own(_)),
            grace: self.first_byte_timeout + Duration::from_secs(30),
            trace,
            shows_cookies: self.assembles == (true, true),
            fragments_may_fail: self.fetches_min() < FETCHES_FOR_FRAGMENTS,
            ..Rules::default()
        }
    }
}

/// The realm of the pages of a site in a plan.
fn realm_of(site: &SitePlan) -> String {
    let asked = site.request_fields.set.iter().find(|(name, _)| name == REALM_FIELD);
    realm(asked.map(|(_, realm)| &realm[..]), site.origin.to_string().starts_with(SECOND_ORIGIN))
}

/// The pages that a reload must drop, because what they depend on changes. A further site has none
/// at first.
pub(crate) fn dropped_pages(old: &EdgePlan, new: &EdgePlan) -> Option<Scope> {
    let is_same_site =
        |old: &SitePlan, new: &SitePlan| old.names == new.names && realm_of(old) == realm_of(new);
    let has_changed = |old: &&SitePlan| {
        let same = new.sites.iter().find(|new| is_same_site(old, new));
        same.is_some_and(|new| {
            (&old.profile, &old.policy, &old.recognisable) != (&new.profile, &new.policy, &new.recognisable)
        })
    };
    let changed: BTreeSet<_> = old.sites.iter().filter(has_changed).map(realm_of).collect();
    (!changed.is_empty()).then_some(Scope::Realms(changed))
}

/// Address of the proxy that is believed.
pub(crate) const PROXY: &str = "198.51.100.8";

/// The number of the listener that redirects plain requests.
pub(crate) const REDIRECTING: usize = 1;

/// Address of the proxy that begins each connection with a header.
pub(crate) const BALANCER: &str = "198.51.100.9";

fn prefixes<T: FromIterator<address::Prefix>>(text: &str) -> T {
    text.parse().ok().into_iter().collect()
}

/// Some edges have enough fetches for a crowd of downloads.
const fn fetches_max(few: u64, random: &mut Random) -> usize {
    let many = random.between(16, 40);
    (if random.percent(40) { many } else { few }) as usize
}

/// Address of clients that may purge without the token.
pub(crate) const PURGER: &str = actors::MAINTAINER;

/// How long a follower waits for a fetch.
const FLIGHT_WAIT: Duration = Duration::from_secs(4);

/// Pauses after failures, the queue, and new connections.
const SLACK: Duration = Duration::from_secs(30);

/// Delays of threads and connections.
const STALE_SLACK: Duration = Duration::from_secs(2);

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: Option<u64>| {
            bytes.map_or_else(|| "none".to_owned(), |bytes| format!("{} MiB", bytes / MIB))
        };
        write!(
            f,
            "memory {}, disk {}{}{}, objects in memory up to {} KiB, fills {}%, spool {}, {} workers, {} fetches, leak guard {}, verifies {}, refill {}, disk timeout {} \
             ms, first byte timeout {} ms, default lifetime {} s, profile {}, names {:?}, trusts saves {}, strict {}, token {}, further site {}, compresses {}, also misses {}, closes unknown hosts {}, keeps its past {}, assembles {:?}, guard {:?}, members {}, {}",
            mib(Some(self.memory_bytes)),
            mib(self.disk_bytes),
            if self.power_safe { " with power-safe purges" } else { "" },
            if self.has_state_directory { " with a witness" } else { "" },
            self.object_bytes_max.map_or_else(|| "any".to_owned(), |bytes| (bytes / 1024).to_string()),
            self.fill_percent,
            mib(self.spool_bytes),
            self.workers,
            self.fetches_max,
            self.leak_guard_every,
            self.verifies,
            self.has_refill,
            self.disk_timeout.as_millis(),
            self.first_byte_timeout.as_millis(),
            self.default_ttl.unwrap_or_default().as_secs(),
            self.profile.name(),
            self.naming,
            self.trusts_saves,
            self.is_strict,
            self.has_token,
            self.has_further_site,
            self.compresses.0,
            self.compresses.1,
            self.closes_unknown_hosts,
            self.keeps_past,
            self.assembles,
            self.guard,
            self.has_members,
            self.routing,
        )?;
        self.traces.iter().try_for_each(|traces| write!(f, ", {traces:?}"))?;
        self.log.iter().try_for_each(|log| write!(f, ", {log:?}"))?;
        self.warm.iter().try_for_each(|(warm, _)| write!(f, ", fills the cache {warm}"))
    }
}
