//! The configured sites, and the routes with pages of their own: each has an origin and state.
//!
//! Invariants: sites with the same names are the routes of one site, and have one state of its
//! writes. Those with the same origin share its connections and limits.

use crate::control::uncompressed;
use crate::hosts::{Host, HostTable};
use crate::memory::detection::{Detection, RulesInForce};
use crate::memory::foreign_ports::ForeignPorts;
use crate::memory::leak_guard::SiteProbation;
use crate::memory::measures::{MeasureTable, SiteMeasures};
use crate::memory::parameter_flood::ParameterFlood;
use crate::memory::served_directory::{DirectoryBounds, ServedDirectory};
use crate::memory::writes::Writes;
use crate::origins::SecuredOrigins;
use crate::request::origin_names::OriginNames;
use crate::request::refusal::Refusal;
use crate::system::System;
use address::OriginUrl;
use clock::Monotonic;
use config::{EdgeLimits, EdgePlan, SitePlan};
use defects::{Defect, is_planted};
use origin::{BreakerLimits, FetchBounds, GroupMember, Origin, OriginGroup, OriginTls, Settings};
use profiles::{Forwarding, Policy};
use semantics::CompressionRules;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::SiteId;

/// A site with its origin and its state.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) id: SiteId,
    pub(crate) plan: SitePlan,
    pub(crate) origin: Arc<OriginGroup>,
    pub(crate) state: Arc<SiteState>,
    /// The figures of the sites and routes with its label.
    pub(crate) measures: Arc<SiteMeasures>,
    label: Box<str>,
}

/// What the edge knows of a site. It belongs to the site's pages: a reload that keeps them keeps
/// it.
#[derive(Debug)]
pub(crate) struct SiteState {
    pub(crate) detection: Detection,
    /// Shared with the other routes of the site, because a write in one may change pages of all.
    pub(crate) writes: Arc<Writes>,
    pub(crate) parameter_flood: ParameterFlood,
    pub(crate) foreign_ports: ForeignPorts,
    /// Its first checks by the leak guard.
    pub(crate) probation: SiteProbation,
    /// Whether its origin was seen to send text uncompressed.
    pub(crate) uncompressed: uncompressed::CompressionWatch,
}

/// All sites.
#[derive(Debug)]
pub(crate) struct Sites {
    all: Vec<Arc<Site>>,
    hosts: HostTable,
    directories: DirectoryBounds,
    measures: MeasureTable,
}

impl SiteState {
    fn new(writes: Arc<Writes>) -> Self {
        Self {
            detection: Detection::default(),
            writes,
            parameter_flood: ParameterFlood::default(),
            foreign_ports: ForeignPorts::default(),
            probation: SiteProbation::new(),
            uncompressed: uncompressed::CompressionWatch::default(),
        }
    }
}

impl Site {
    fn new(
        id: SiteId,
        plan: SitePlan,
        origin: Arc<OriginGroup>,
        state: Arc<SiteState>,
        table: &MeasureTable,
    ) -> Arc<Self> {
        let name = plan.names.first().map_or("any", String::as_str);
        let label = match &plan.route {
            // Metrics have it in quotation marks, without escapes.
            Some(route) => format!("{name} {route}").replace(['"', '\\'], "'"),
            None => name.to_owned(),
        };
        let measures = table.of(&label);
        Arc::new(Self { id, plan, origin, state, measures, label: label.into() })
    }

    /// The site's name in metrics and status: its first name, or `any`, and the route.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Whether both have the same names, so that they are routes of one site.
    pub(crate) fn is_of_same_host(&self, other: &Self) -> bool {
        self.plan.names == other.plan.names
    }

    /// The rules in force.
    pub(crate) fn policy(&self) -> &Policy {
        let found = self.detected_rules().and_then(|place| self.plan.recognisable.get(place));
        found.unwrap_or(&self.plan.policy)
    }

    /// Which coded forms are made of the site's stored responses. `None`: none. A policy that
    /// forwards everything leaves all forms to the origin.
    pub(crate) fn compression(&self) -> Option<&CompressionRules> {
        let leaves_forms = self.plan.policy.forwarding == Forwarding::Everything;
        self.plan.compression.as_ref().filter(|_| !leaves_forms)
    }

    /// Identifies the rules in force, for a later comparison.
    pub(crate) fn rules(&self) -> RulesInForce {
        self.detection.rules()
    }

    /// Index of the rules in force in the plan's `recognisable`; `None` for the first rules.
    pub(crate) fn detected_rules(&self) -> Option<usize> {
        self.rules().place()
    }

    /// Whether the site's responses are inspected now.
    pub(crate) fn is_inspected(&self, now: Monotonic) -> bool {
        !self.plan.recognisable.is_empty() && self.detection.is_due(now)
    }

    /// A response of the edge about the site's origin, with the site's error page.
    pub(crate) fn refusal(&self, made: impl FnOnce(OriginNames<'_>) -> Refusal) -> Refusal {
        made(OriginNames(&self.plan)).of_site(self.plan.error_page.as_ref())
    }
}

impl Deref for Site {
    type Target = SiteState;

    fn deref(&self) -> &SiteState {
        &self.state
    }
}

impl Sites {
    /// The sites of a plan. `secured` says how connections to https origins are secured, in the
    /// order of the plan.
    pub(crate) fn new(plan: &EdgePlan, system: &System, secured: &[SecuredOrigins]) -> Self {
        let directories = DirectoryBounds::default();
        let measures = MeasureTable::new(plan.workers);
        let nothing = Self { all: Vec::new(), hosts: HostTable::default(), directories, measures };
        nothing.followed_by(plan, secured, system, |site| SiteId(site.id))
    }

    /// The sites of a new plan. A site with the same settings goes on unchanged. One whose
    /// pages depend on the same settings keeps its pages; others begin empty. `secured` is as for
    /// [`Sites::new`].
    ///
    /// `last` is the highest number of a site so far.
    pub(crate) fn after(
        &self,
        plan: &EdgePlan,
        secured: &[SecuredOrigins],
        system: &System,
        last: &AtomicU32,
    ) -> Self {
        self.followed_by(plan, secured, system, |_| SiteId(last.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn followed_by(
        &self,
        plan: &EdgePlan,
        secured: &[SecuredOrigins],
        system: &System,
        number: impl Fn(&SitePlan) -> SiteId,
    ) -> Self {
        let builder = SiteBuilder { earlier: self, plan, system };
        // Those that keep something come first, so that new routes can share it.
        let mut built: Vec<Option<Arc<Site>>> = Vec::with_capacity(plan.sites.len());
        for (new, tls) in with_tls(plan, secured) {
            let site = builder.kept(new, tls, &built);
            built.push(site);
        }
        let mut all = Vec::with_capacity(built.len());
        for (index, (new, tls)) in with_tls(plan, secured).enumerate() {
            let kept = built.get(index).cloned().flatten();
            let site = kept.unwrap_or_else(|| builder.new_site(number(new), new, tls, &built));
            if let Some(place) = built.get_mut(index) {
                *place = Some(Arc::clone(&site));
            }
            all.push(site);
        }
        let numbers: Vec<_> = plan.sites.iter().map(|site| site.id).collect();
        let directories = self.directories.clone();
        let hosts = self.hosts.followed_by(&all, &numbers, &plan.routes, &directories);
        Self { all, hosts, directories, measures: self.measures.clone() }
    }

    /// All sites with the names of the site `id`: the site and its routes.
    pub(crate) fn of_host_of(&self, id: SiteId) -> impl Iterator<Item = &Arc<Site>> {
        let own = self.all.iter().find(|site| site.id == id);
        self.all.iter().filter(move |site| own.is_some_and(|own| own.is_of_same_host(site)))
    }

    /// Whether there is a site with this number.
    pub(crate) fn has(&self, id: SiteId) -> bool {
        self.all.iter().any(|site| site.id == id)
    }

    /// The figures of all sites.
    pub(crate) const fn measures(&self) -> &MeasureTable {
        &self.measures
    }

    /// All sites in the order of the plan.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.all.iter()
    }

    /// The directories whose files are served; one may come several times.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Arc<ServedDirectory>> {
        self.hosts.directories()
    }

    /// The number of files that are open for responses.
    pub(crate) fn open_files(&self) -> usize {
        self.directories.open_files.count()
    }

    /// One site for each origin: the site itself, or the first of the routes that share it.
    pub(crate) fn of_each_origin(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.all.iter().filter(|site| {
            let sharing = self.all.iter().filter(|other| Arc::ptr_eq(&other.origin, &site.origin));
            let first = sharing.min_by_key(|other| other.plan.route.is_some());
            first.is_some_and(|first| Arc::ptr_eq(first, site))
        })
    }

    /// The site and routes for `authority`, a host in any case with or without port.
    pub(crate) fn host(&self, authority: Option<&[u8]>) -> Option<&Host> {
        self.hosts.find(authority)
    }

    /// The sites with this name or this public name, with their routes. `None`: no site has the
    /// name. Empty: a site has it, but no pages. `name` is lower-case and without port.
    pub(crate) fn named(&self, name: &[u8]) -> Option<Vec<&Arc<Site>>> {
        let is_public = |site: &&Arc<Site>| {
            let public = site.plan.public_host.as_deref().unwrap_or_default().as_bytes();
            !public.is_empty() && h1::split_port(public).0.eq_ignore_ascii_case(name)
        };
        let host = self.hosts.named(name);
        let is_of_host = |site: &&Arc<Site>| host.is_some_and(|host| site.plan.names == host.names());
        // An application purges by its public name, which another site may have too.
        let meant = self.all.iter().filter(|site| is_of_host(site) || is_public(site));
        let meant: Vec<_> = meant.collect();
        (host.is_some() || !meant.is_empty()).then_some(meant)
    }

    /// The site that answers to any name, with its routes; empty if there is none.
    pub(crate) fn unnamed(&self) -> Vec<&Arc<Site>> {
        self.all.iter().filter(|site| site.plan.names.is_empty()).collect()
    }
}

/// Builds the sites of a new plan.
struct SiteBuilder<'a> {
    earlier: &'a Sites,
    plan: &'a EdgePlan,
    system: &'a System,
}

impl SiteBuilder<'_> {
    /// The limits of the origin of a site.
    fn settings(&self, site: &SitePlan) -> Settings {
        settings(&site.limits.over(&self.plan.limits), site.balance.is_limit_adaptive)
    }

    /// The earlier site with the same settings, or one with the earlier pages.
    fn kept(&self, new: &SitePlan, tls: SecuredOrigins, built: &[Option<Arc<Site>>]) -> Option<Arc<Site>> {
        let earlier = &self.earlier.all;
        let is_same_origin = |site: &Site| has_settings(site, &self.settings(new));
        if let Some(site) = earlier.iter().find(|old| old.plan.is_same(new) && is_same_origin(old)) {
            return Some(Arc::clone(site));
        }
        let kept = earlier.iter().find(|old| has_same_pages(&old.plan, new))?;
        let origin = self.origin(new, tls, built);
        Some(Site::new(kept.id, new.clone(), origin, Arc::clone(&kept.state), &self.earlier.measures))
    }

    /// A site that begins empty.
    fn new_site(
        &self,
        id: SiteId,
        new: &SitePlan,
        tls: SecuredOrigins,
        built: &[Option<Arc<Site>>],
    ) -> Arc<Site> {
        let mut of_host = built.iter().flatten().filter(|site| site.plan.names == new.names);
        // The application behind two routes is the same, so one detection is for both.
        let alike = |site: &&Arc<Site>| {
            has_same_connections(&site.plan, new) && site.plan.recognisable == new.recognisable
        };
        let state = of_host.clone().find(alike).map(|site| Arc::clone(&site.state)).unwrap_or_else(|| {
            let writes = of_host.next().map(|site| Arc::clone(&site.writes)).unwrap_or_default();
            Arc::new(SiteState::new(writes))
        });
        let first = built.iter().flatten().find(|site| site.plan.names == new.names);
        let id = first.filter(|_| is_planted(Defect::RoutesSharePages)).map_or(id, |site| site.id);
        Site::new(id, new.clone(), self.origin(new, tls, built), state, &self.earlier.measures)
    }

    /// The origins of a site: those of another route, or of the earlier site. Two sites with other
    /// names share no origin, so that one cannot use up the other's limits.
    fn origin(&self, new: &SitePlan, tls: SecuredOrigins, built: &[Option<Arc<Site>>]) -> Arc<OriginGroup> {
        let settings = self.settings(new);
        let known = built.iter().flatten().chain(&self.earlier.all);
        let known = known.filter(|site| site.plan.names == new.names && has_settings(site, &settings));
        if let Some(same) = known.clone().find(|site| has_same_connections(&site.plan, new)) {
            return Arc::clone(&same.origin);
        }
        let mut tls = tls.into_iter();
        let members = members(new).map(|(url, weight)| {
            let tls = tls.next();
            let same = known.clone().find_map(|site| unchanged(site, new, url));
            let origin = same.unwrap_or_else(|| self.unasked(new, (url, tls), settings.clone()));
            GroupMember { origin, weight }
        });
        Arc::new(OriginGroup::new(members.collect()))
    }

    /// An origin that was not asked yet.
    fn unasked(
        &self,
        site: &SitePlan,
        (url, tls): (&OriginUrl, Option<OriginTls>),
        settings: Settings,
    ) -> Arc<Origin> {
        let (clock, network) = (Arc::clone(&self.system.clock), Arc::clone(&self.system.network));
        let origin = Origin::new(url.clone(), settings, clock, network);
        Arc::new(origin.secured_by(tls).introduced_by(site.origin_proxy_protocol))
    }
}

/// The origins of a site with their weights, in the order of the configuration.
fn members(plan: &SitePlan) -> impl Iterator<Item = (&OriginUrl, u32)> {
    let others = plan.balance.others.iter().map(|other| (&other.url, other.weight));
    std::iter::once((&plan.origin, plan.balance.weight)).chain(others)
}

/// The origin of a site with this address, if its connections begin in the same way under a new
/// plan.
fn unchanged(site: &Site, new: &SitePlan, url: &OriginUrl) -> Option<Arc<Origin>> {
    let tls = |plan: &SitePlan| {
        let tls = plan.origin_tls.as_ref()?;
        let place = members(plan).position(|(member, _)| member == url)?;
        let name = std::iter::once(&tls.name).chain(&tls.other_names).nth(place)?;
        Some((tls.authorities.clone(), name.clone(), tls.certificate.clone(), tls.is_verified))
    };
    let is_same = site.plan.origin_proxy_protocol == new.origin_proxy_protocol && tls(&site.plan) == tls(new);
    site.origin.origins().find(|origin| is_same && origin.url() == url).cloned()
}

/// Whether the origins of a site have these limits.
fn has_settings(site: &Site, settings: &Settings) -> bool {
    site.origin.origins().all(|origin| origin.settings() == settings)
}

/// Whether the pages of a site under an earlier plan are those of a site of the new plan.
fn has_same_pages(earlier: &SitePlan, new: &SitePlan) -> bool {
    let has_same_rules = page_settings(earlier, &earlier.policy) == page_settings(new, &new.policy);
    (has_same_rules || is_planted(Defect::PagesOutliveRules))
        && earlier.recognisable == new.recognisable
        && earlier.static_tree_layout == new.static_tree_layout
}

/// Whether connections to the origin of a site begin in the same way as those of another site.
fn has_same_connections(one: &SitePlan, other: &SitePlan) -> bool {
    members(one).eq(members(other))
        && one.origin_tls == other.origin_tls
        && one.origin_proxy_protocol == other.origin_proxy_protocol
}

/// The sites of a plan, each with how connections to its origin are secured.
fn with_tls<'a>(
    plan: &'a EdgePlan,
    secured: &'a [SecuredOrigins],
) -> impl Iterator<Item = (&'a SitePlan, SecuredOrigins)> {
    plan.sites.iter().zip(secured.iter().cloned().chain(std::iter::repeat_with(Vec::new)))
}

/// Everything that the pages of a site depend on under these rules, as text.
pub(crate) fn page_settings(plan: &SitePlan, policy: &Policy) -> String {
    // Destructured in full, so that a new setting cannot be forgotten.
    let SitePlan {
        id: _,
        names,
        ports: _,
        route,
        password_path,
        limits: _,
        request_fields,
        origin,
        // Servers beside the first have the same application.
        balance: _,
        origin_tls,
        origin_proxy_protocol: _,
        early_hints: _,
        esi,
        // Used when a page is assembled, which is not stored.
        esi_cookies: _,
        esi_undeclared,
        esi_hosts: _,
        esi_shortest_lifetime: _,
        // Copies of sessions are apart from stored pages, and are not used without the mode.
        logged_in: _,
        private_ttl: _,
        context: _,
        refused_claims: _,
        public_host,
        public_https,
        via_to_origin,
        profile,
        policy: _,
        recognisable: _,
        static_tree_layout: _,
        error_page: _,
        hsts_secs: _,
        // Forms are made of stored pages by the rules in force.
        compression: _,
        warm: _,
    } = plan;
    // Origins may send uncompressed content because of Via.
    let via = if *via_to_origin { "" } else { " without Via" };
    // The origin sends templates only to a site that can assemble them. Stored pages say whether
    // they are templates.
    let esi = match (*esi, *esi_undeclared) {
        (true, false) => " with ESI",
        (true, true) => " with undeclared ESI",
        (false, _) => "",
    };
    // Under another name, the server at the same address may be another one.
    let name = origin_tls.as_ref().filter(|tls| tls.name != origin.host());
    let name = name.map(|tls| format!(" as {}", tls.name)).unwrap_or_default();
    // Pages of an origin that was not verified, or that knew another client, may be forged or for
    // others.
    let trust = origin_tls.as_ref().map(|tls| {
        let shown = tls.certificate.as_ref().map(|own| format!(" showing {own}")).unwrap_or_default();
        format!("{}{shown}", if tls.is_verified { "" } else { " unverified" })
    });
    let trust = trust.unwrap_or_default();
    let route = route.as_ref().map(|route| format!(" on {route}")).unwrap_or_default();
    let password = password_path.as_ref().map(|path| format!(" with {path}")).unwrap_or_default();
    let fields = if request_fields.is_empty() { String::new() } else { format!(" {request_fields:?}") };
    format!(
        "{names:?} {origin} {public_host:?} {public_https} {profile} {policy:?}{via}{name}{trust}{route}{password}{fields}{esi}"
    )
}

/// The limits of one origin.
fn settings(limits: &EdgeLimits, is_adaptive: bool) -> Settings {
    Settings {
        connect_timeout: limits.connect_timeout,
        first_byte_timeout: limits.first_byte_timeout,
        between_bytes_timeout: limits.between_bytes_timeout,
        response_limits: h1::Limits {
            head_bytes_max: limits.response_head_bytes_max,
            fields_max: limits.response_fields_max,
            ..h1::Limits::DEFAULT
        },
        bounds: FetchBounds {
            fetches_max: limits.fetches_max,
            is_adaptive,
            client_fetches_max: limits.client_fetches_max,
            stalled_max: limits.stalled_fetches_max,
            queue_max: limits.queue_max,
            client_queue_max: limits.client_queue_max,
        },
        queue_timeout: limits.queue_timeout,
        idle_connections_max: limits.idle_connections_max,
        idle_connection_timeout: limits.idle_connection_timeout,
        breaker: BreakerLimits {
            silence_min: limits.stale_wait,
            silence_max: limits.flight_wait,
            probe_pause_max: limits.probe_pause_max,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Sites, has_same_pages};
    use crate::system::System;
    use config::{EdgePlan, OriginTlsPlan};
    use document::Place;

    fn sites(names: &[&[&str]]) -> Sites {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:1".parse().unwrap());
        let first = plan.sites.remove(0);
        plan.sites = (0..)
            .zip(names)
            .map(|(id, names)| {
                let mut site = first.clone();
                site.id = id;
                site.names = names.iter().map(|name| (*name).to_owned()).collect();
                site
            })
            .collect();
        Sites::new(&plan, &System::of_machine(), &[])
    }

    /// The number of the site itself for a host.
    fn found_in(sites: &Sites, authority: Option<&[u8]>) -> Option<u32> {
        Some(sites.host(authority)?.site()?.id.0)
    }

    #[test]
    fn name_finds_its_site_in_any_case_and_with_any_port() {
        let sites = sites(&[&["a.test", "www.a.test"], &["b.test"]]);
        let found = |authority: &str| found_in(&sites, Some(authority.as_bytes()));
        assert_eq!(found("A.Test:8080"), Some(0));
        assert_eq!(found("www.a.test."), Some(0));
        assert_eq!(found("b.test"), Some(1));
        assert_eq!(found("c.test"), None);
        assert_eq!(found(&"a".repeat(300)), None);
        assert!(found_in(&sites, None).is_none());
    }

    #[test]
    fn pages_of_an_unverified_origin_are_not_kept() {
        let plan = |is_verified| {
            let mut plan = EdgePlan::for_origin("https://127.0.0.1:1".parse().unwrap()).sites.remove(0);
            plan.origin_tls = Some(OriginTlsPlan {
                authorities: None,
                name: "127.0.0.1".to_owned(),
                other_names: Vec::new(),
                certificate: None,
                is_verified,
                place: Place::Default,
            });
            plan
        };
        assert!(has_same_pages(&plan(true), &plan(true)));
        assert!(!has_same_pages(&plan(false), &plan(true)));
    }

    #[test]
    fn site_without_names_answers_to_all_other_names() {
        let sites = sites(&[&["a.test"], &[]]);
        assert_eq!(found_in(&sites, Some(b"c.test")), Some(1));
        assert_eq!(found_in(&sites, None), Some(1));
        assert_eq!(found_in(&sites, Some(b"a.test")), Some(0));
    }
}
