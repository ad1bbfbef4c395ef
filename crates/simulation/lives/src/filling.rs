//! Runs that fill the cache: their settings, their clients, and what is expected of them.
//!
//! Invariants: while the origin cannot be reached, a run sends only probes. When all faults are
//! over, a run looks at every page and ends.

use crate::life::Life;
use crate::plan::ARRIVAL_MS_MAX;
use crate::settings::Settings;
use crate::society::Society;
use actors::{ListedPlan, SitePlan, WarmCaller, WarmCallerPlan, lock};
use edge::{EmbeddedEdge, Metric};
use std::fmt;
use std::sync::Arc;
use world::{FaultKind, Random, World};

/// How often a site publishes documents for robots, and how often the edge then fills its cache by
/// itself.
const LISTED_PERCENT: u64 = 35;
const BY_ITSELF_PERCENT: u64 = 70;

/// The largest number of clients of a life that fill the cache.
const CALLERS_MAX: u64 = 2;

/// The number of the client that fills the cache in calm.
const CALM_CALLER: u64 = 9_998;

/// The value of the metric of the breaker while the origin cannot be reached.
const UNREACHABLE: u64 = 2;

/// When the edge fills its cache by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmSettings {
    /// Whether it begins at a start with an empty cache.
    pub on_start: bool,
    /// Whether it begins after a purge of all pages.
    pub on_purge: bool,
    /// Whether it reads the sitemap that the settings name. Otherwise it looks for one.
    pub is_named: bool,
}

impl WarmSettings {
    /// Settings by chance, in part of the cases.
    fn random(random: &mut Random) -> Option<Self> {
        let is_wanted = random.percent(BY_ITSELF_PERCENT);
        let (on_start, on_purge) = *random.choice(&[(true, true), (true, false), (false, true)])?;
        is_wanted.then(|| Self { on_start, on_purge, is_named: random.percent(40) })
    }

    /// The table of a site in the configuration.
    pub(crate) fn configuration(self, host: &str, listed: &ListedPlan) -> String {
        let words = [(self.on_start, "\"start\""), (self.on_purge, "\"purge\"")];
        let words: Vec<_> = words.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| *word).collect();
        let rate = listed.rate.map(|rate| format!("rate = {rate}\n")).unwrap_or_default();
        let path = listed.sitemap_path();
        let sitemaps = if self.is_named { format!("sitemaps = [\"{path}\"]\n") } else { String::new() };
        format!("[site.warm]\nurl = \"http://{host}/\"\non = [{}]\n{rate}{sitemaps}", words.join(", "))
    }
}

impl fmt::Display for WarmSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on_start, on_purge, is_named } = self;
        write!(f, "at the start: {on_start}, after a purge: {on_purge}, named sitemap: {is_named}")
    }
}

/// Makes some sites publish documents for robots, and some edges fill their caches.
pub(crate) fn publish(seed: u64, site: &mut SitePlan, settings: &mut Settings) {
    let mut random = Random::fork(seed, "filling the cache", 0);
    if !random.percent(LISTED_PERCENT) {
        return;
    }
    let listed = ListedPlan::random(&mut random);
    settings.warm = WarmSettings::random(&mut random).map(|warm| (warm, listed.clone()));
    site.listed = Some(listed);
}

/// The clients of a life that fill the cache, each with its arrival.
pub(crate) fn callers(seed: u64, life: u64, site: &SitePlan) -> Vec<(u64, WarmCallerPlan)> {
    let caller = |number| {
        let mut own = Random::fork(seed, "caller", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), WarmCallerPlan::random(&mut own, life * 100 + number))
    };
    let count = Random::fork(seed, "callers", life).between(0, CALLERS_MAX);
    (0..count).filter(|_| site.listed.is_some()).map(caller).collect()
}

impl Life {
    /// Carries out the plan of a client that fills the cache.
    pub(crate) fn caller(&self, plan: WarmCallerPlan) -> impl Future<Output = ()> + Send + use<> {
        self.warm_caller(plan).run()
    }

    /// Fills the cache when all faults are over.
    pub(crate) async fn fill_in_calm(&self) {
        let site = Arc::clone(lock(&self.society.site).plan());
        if site.listed.is_none() {
            return;
        }
        let routing = lock(&self.society.file).routing.clone();
        let is_plain = routing.routes.is_empty() && !routing.is_maintained;
        let caller = self.warm_caller(WarmCallerPlan { number: CALM_CALLER, calls: Vec::new() });
        if let Err(fault) = caller.fill_in_calm(is_plain).await {
            self.violate(format!("filling the cache: {fault}"));
        }
    }

    fn warm_caller(
        &self,
        plan: WarmCallerPlan,
    ) -> WarmCaller<impl Fn() -> Option<world::Pipe> + Send + Sync + use<>> {
        WarmCaller {
            plan,
            site: Arc::clone(lock(&self.society.site).plan()),
            token: self.society.settings.token(),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.admin_entrance(),
        }
    }
}

/// Watches what runs do while the breaker of the only origin is open.
#[derive(Debug, Default)]
pub(crate) struct BreakerWatch {
    /// The figures when the breaker was first seen open; `None` while it is not.
    opened: Option<Figures>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    changes: u64,
    reloads: u64,
    fetches: u64,
    connects: u64,
}

impl BreakerWatch {
    /// Describes fetches of a run that were no probes. A fetch that the breaker refuses makes no
    /// connection, so each further fetch needs an attempt to connect.
    pub(crate) fn fault(&mut self, world: &World, society: &Society, edge: &EmbeddedEdge) -> Option<String> {
        if edge.metric(Metric::OriginBreakerState) != UNREACHABLE {
            self.opened = None;
            return None;
        }
        let has_one_origin = |settings: &Settings| settings.all_fetches_max() == settings.of_one_origin_max();
        if !has_one_origin(&society.settings) || !has_one_origin(&lock(&society.file)) {
            self.opened = None;
            return None;
        }
        let attempts = [FaultKind::ConnectRefused, FaultKind::ConnectHangs, FaultKind::ConnectSlow];
        let now = Figures {
            changes: edge.metric(Metric::OriginBreakerChanges),
            reloads: edge.metric(Metric::Reloads),
            fetches: edge.metric(Metric::WarmFetches),
            connects: attempts.into_iter().map(|kind| world.faults().of(kind)).sum(),
        };
        let opened = self.opened.filter(|then| (then.changes, then.reloads) == (now.changes, now.reloads));
        let opened = *self.opened.insert(opened.unwrap_or(now));
        // Another process, which has taken over, counts anew.
        let fetches = now.fetches.saturating_sub(opened.fetches);
        let connects = now.connects.saturating_sub(opened.connects);
        // One may be about to connect.
        (fetches > connects + 1).then(|| {
            format!("runs that fill the cache began {fetches} fetches with {connects} probes of the origin")
        })
    }
}
