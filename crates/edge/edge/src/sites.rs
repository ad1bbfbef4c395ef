//! The configured sites: finds the site of a host name, and holds each site's origin and state.
//!
//! Invariant: a name belongs to at most one site. If all sites are named, an unknown name finds
//! none.

use crate::control::uncompressed;
use crate::memory::detection::{Detection, RulesInForce};
use crate::memory::foreign_ports::ForeignPorts;
use crate::memory::leak_guard::SiteProbation;
use crate::memory::parameter_flood::ParameterFlood;
use crate::memory::writes::Writes;
use crate::request::refusal::Refusal;
use crate::system::System;
use address::OriginUrl;
use clock::Monotonic;
use config::{EdgeLimits, EdgePlan, SitePlan};
use defects::{Defect, is_planted};
use origin::{BreakerLimits, FetchBounds, Origin, OriginTls, Settings};
use platform::HashMap;
use profiles::Policy;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::SiteId;

/// Maximum length of a host name (RFC 1035 section 2.3.4). A longer one belongs to no named site.
const HOST_BYTES_MAX: usize = 255;

/// A site with its origin and its state.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) id: SiteId,
    pub(crate) plan: SitePlan,
    pub(crate) origin: Arc<Origin>,
    pub(crate) state: Arc<SiteState>,
}

/// What the edge knows of a site. It belongs to the site's pages: a reload that keeps them keeps
/// it.
#[derive(Debug)]
pub(crate) struct SiteState {
    pub(crate) detection: Detection,
    pub(crate) writes: Writes,
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
    by_name: HashMap<Box<[u8]>, usize>,
    any: Option<usize>,
}

impl Site {
    fn new(id: SiteId, plan: SitePlan, origin: Arc<Origin>) -> Self {
        let state = SiteState {
            detection: Detection::default(),
            writes: Writes::default(),
            parameter_flood: ParameterFlood::default(),
            foreign_ports: ForeignPorts::default(),
            probation: SiteProbation::new(),
            uncompressed: uncompressed::CompressionWatch::default(),
        };
        Self { id, plan, origin, state: Arc::new(state) }
    }

    /// The site's name in metrics and status: its first name, or `any`.
    pub(crate) fn label(&self) -> &str {
        self.plan.names.first().map_or("any", String::as_str)
    }

    /// The rules in force.
    pub(crate) fn policy(&self) -> &Policy {
        let found = self.detected_rules().and_then(|place| self.plan.recognisable.get(place));
        found.unwrap_or(&self.plan.policy)
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
    pub(crate) fn refusal(&self, made: impl FnOnce(&OriginUrl) -> Refusal) -> Refusal {
        made(self.origin.url()).of_site(self.plan.error_page.as_ref())
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
    pub(crate) fn new(plan: &EdgePlan, system: &System, secured: &[Option<OriginTls>]) -> Self {
        let new = |(site, tls): (&SitePlan, Option<OriginTls>)| {
            let origin = Arc::new(origin(site, tls, &plan.limits, system));
            Arc::new(Site::new(SiteId(site.id), site.clone(), origin))
        };
        Self::of(with_tls(plan, secured).map(new).collect())
    }

    /// The sites of a new plan. A site with the same settings goes on unchanged. One whose
    /// pages depend on the same settings keeps its pages; others begin empty. `secured` is as for
    /// [`Sites::new`].
    ///
    /// `last` is the highest number of a site so far.
    pub(crate) fn after(
        &self,
        plan: &EdgePlan,
        secured: &[Option<OriginTls>],
        system: &System,
        last: &AtomicU32,
    ) -> Self {
        let is_same_origin = |site: &Site| site.origin.settings() == &settings(&plan.limits);
        let new = |(new, tls): (&SitePlan, Option<OriginTls>)| {
            let same = |old: &&Arc<Site>| old.plan.is_same(new) && is_same_origin(old);
            if let Some(site) = self.all.iter().find(same) {
                return Arc::clone(site);
            }
            let kept = self.all.iter().find(|old| has_same_pages(&old.plan, new));
            let id = kept.map_or_else(|| SiteId(last.fetch_add(1, Ordering::Relaxed) + 1), |old| old.id);
            // Two sites share no origin, so that one cannot use up the other's limits.
            let reachable = self.all.iter().find(|old| {
                old.plan.names == new.names && has_same_connections(&old.plan, new) && is_same_origin(old)
            });
            let origin = reachable.map_or_else(
                || Arc::new(origin(new, tls, &plan.limits, system)),
                |old| Arc::clone(&old.origin),
            );
            let site = Site::new(id, new.clone(), origin);
            Arc::new(match kept {
                Some(old) => Site { state: Arc::clone(&old.state), ..site },
                None => site,
            })
        };
        Self::of(with_tls(plan, secured).map(new).collect())
    }

    fn of(all: Vec<Arc<Site>>) -> Self {
        let names = all.iter().enumerate().flat_map(|(index, site)| {
            site.plan.names.iter().map(move |name| (name.as_bytes().into(), index))
        });
        let by_name = names.collect();
        let any = all.iter().position(|site| site.plan.names.is_empty());
        Self { all, by_name, any }
    }

    /// Whether there is a site with this number.
    pub(crate) fn has(&self, id: SiteId) -> bool {
        self.all.iter().any(|site| site.id == id)
    }

    /// All sites in the order of the plan.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.all.iter()
    }

    /// The site for `authority`, a host in any case with or without port.
    pub(crate) fn find(&self, authority: Option<&[u8]>) -> Option<&Arc<Site>> {
        let named = authority.and_then(|authority| self.find_named(h1::split_port(authority).0));
        self.all.get(named.or(self.any)?)
    }

    /// The site with this name or this public name. `name` is lower-case and without port.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Arc<Site>> {
        let is_public = |site: &&Arc<Site>| {
            let public = site.plan.public_host.as_deref().unwrap_or_default().as_bytes();
            !public.is_empty() && h1::split_port(public).0.eq_ignore_ascii_case(name)
        };
        let named = self.find_named(name).and_then(|index| self.all.get(index));
        named.or_else(|| self.all.iter().find(is_public))
    }

    /// The site that answers to any name, if there is one.
    pub(crate) fn unnamed(&self) -> Option<&Arc<Site>> {
        self.all.get(self.any?)
    }

    fn find_named(&self, host: &[u8]) -> Option<usize> {
        if self.by_name.is_empty() {
            return None;
        }
        // A final dot names the same host (RFC 3986 section 3.2.2).
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; HOST_BYTES_MAX];
        let lower = lower.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).copied()
    }
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
    one.origin == other.origin
        && one.origin_tls == other.origin_tls
        && one.origin_proxy_protocol == other.origin_proxy_protocol
}

/// The sites of a plan, each with how connections to its origin are secured.
fn with_tls<'a>(
    plan: &'a EdgePlan,
    secured: &'a [Option<OriginTls>],
) -> impl Iterator<Item = (&'a SitePlan, Option<OriginTls>)> {
    plan.sites.iter().zip(secured.iter().cloned().chain(std::iter::repeat(None)))
}

/// Everything that the pages of a site depend on under these rules, as text.
pub(crate) fn page_settings(plan: &SitePlan, policy: &Policy) -> String {
    // Destructured in full, so that a new setting cannot be forgotten.
    let SitePlan {
        id: _,
        names,
        ports: _,
        origin,
        origin_tls,
        origin_proxy_protocol: _,
        early_hints: _,
        public_host,
        public_https,
        via_to_origin,
        profile,
        policy: _,
        recognisable: _,
        static_tree_layout: _,
        error_page: _,
        hsts_secs: _,
    } = plan;
    // Origins may send uncompressed content because of Via.
    let via = if *via_to_origin { "" } else { " without Via" };
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
    format!("{names:?} {origin} {public_host:?} {public_https} {profile} {policy:?}{via}{name}{trust}")
}

/// An origin that was not asked yet.
fn origin(site: &SitePlan, tls: Option<OriginTls>, limits: &EdgeLimits, system: &System) -> Origin {
    let (clock, network) = (Arc::clone(&system.clock), Arc::clone(&system.network));
    let origin = Origin::new(site.origin.clone(), settings(limits), clock, network);
    origin.secured_by(tls).introduced_by(site.origin_proxy_protocol)
}

/// The limits of one origin.
fn settings(limits: &EdgeLimits) -> Settings {
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

    #[test]
    fn name_finds_its_site_in_any_case_and_with_any_port() {
        let sites = sites(&[&["a.test", "www.a.test"], &["b.test"]]);
        let found = |authority: &str| sites.find(Some(authority.as_bytes())).map(|site| site.id.0);
        assert_eq!(found("A.Test:8080"), Some(0));
        assert_eq!(found("www.a.test."), Some(0));
        assert_eq!(found("b.test"), Some(1));
        assert_eq!(found("c.test"), None);
        assert_eq!(found(&"a".repeat(300)), None);
        assert!(sites.find(None).is_none());
    }

    #[test]
    fn pages_of_an_unverified_origin_are_not_kept() {
        let plan = |is_verified| {
            let mut plan = EdgePlan::for_origin("https://127.0.0.1:1".parse().unwrap()).sites.remove(0);
            plan.origin_tls = Some(OriginTlsPlan {
                authorities: None,
                name: "127.0.0.1".to_owned(),
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
        assert_eq!(sites.find(Some(b"c.test")).unwrap().id.0, 1);
        assert_eq!(sites.find(None).unwrap().id.0, 1);
        assert_eq!(sites.find(Some(b"a.test")).unwrap().id.0, 0);
    }
}
