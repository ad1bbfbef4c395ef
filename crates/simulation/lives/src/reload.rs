//! Reloads of a life: when the configuration changes while the edge runs, and how.
//!
//! Invariant: each change is relative to the configuration of its moment, so that removing another
//! reload from a plan leaves its meaning as it is. No change decides whether answered purges
//! outlive a restart.

use crate::settings::{Settings, SiteProfile, dropped_pages};
use crate::society::{SharedEdge, Society};
use actors::{Ending, Reply, SitePlan, Timeline, lock, order};
use config::EdgePlan;
use edge::{Metric, PlanSource};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;
use world::{Pipe, Random};

/// The largest number of reloads of a life, and how often it has any.
const RELOADS_MAX: u64 = 4;
const RELOADS_PERCENT: u64 = 50;

/// How often maintenance ends again by a reload, and its longest time in milliseconds.
const MAINTENANCE_ENDS_PERCENT: u64 = 85;
const MAINTENANCE_MS_MAX: u64 = 20_000;

/// The longest time until the answer. Nothing of a reload waits for an origin or a disk.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The longest time for which the largest `Strict-Transport-Security` of a site holds.
const HSTS_SECS_MAX: u64 = 9;

/// A change of the configuration, and the order to read it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedReload {
    /// Its number in the life.
    pub number: u64,
    /// When it is ordered, in simulated milliseconds after the start.
    pub at_ms: u64,
    /// The change.
    pub change: Change,
}

/// A change of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// The lifetime of pages that state none, on which the pages depend.
    Lifetime(Option<Duration>),
    /// The profile, on which the pages depend.
    Profile(SiteProfile),
    /// The time until the first byte, so that the origin begins anew.
    FirstByte(Duration),
    /// A setting on which no page depends.
    Hsts(u64),
    /// Whether purged pages are fetched again.
    Refill,
    /// Another site comes or goes, which nobody visits.
    FurtherSite,
    /// The routes, which follow from this number.
    Routes(u64),
    /// The site is maintained from now on, or in use again.
    Maintenance,
    /// The configuration cannot be read. It is refused.
    Unreadable,
    /// Number of workers and profile. It is refused, and the profile stays.
    Fixed(SiteProfile),
}

/// Where the edge finds the configuration of its next reload.
#[derive(Clone)]
pub(crate) struct NextPlan(Arc<Mutex<Result<EdgePlan, String>>>);

/// The task that reloads.
pub(crate) struct Reloader<C> {
    pub(crate) plans: Vec<PlannedReload>,
    pub(crate) society: Society,
    pub(crate) next: NextPlan,
    pub(crate) timeline: Timeline,
    pub(crate) edge: SharedEdge,
    /// Connects to the admin address.
    pub(crate) connect: C,
}

impl PlannedReload {
    /// The reloads of a life, in the order of their times. `may_be_rfc`: the visitors behave so
    /// that the profile `rfc` leaks nothing.
    pub fn random_list(
        random: &mut Random,
        settings: &Settings,
        may_be_rfc: bool,
        at_ms_max: u64,
        application: Option<actors::Application>,
    ) -> Vec<Self> {
        let is_wanted = random.percent(RELOADS_PERCENT);
        let count = random.between(1, RELOADS_MAX);
        let seed = random.number();
        let reload = |number| {
            let mut own = Random::fork(seed, "reload", number);
            let at_ms = own.below(at_ms_max);
            let profile = SiteProfile::random(&mut own, application);
            let is_permitted = profile != SiteProfile::Rfc || may_be_rfc;
            let profile = if is_permitted { profile } else { settings.profile };
            Self { number, at_ms, change: Change::random(&mut own, profile) }
        };
        let mut all: Vec<_> = (0..if is_wanted { count } else { 0 }).map(reload).collect();
        // Mostly, maintenance ends before the life does.
        let ends: Vec<_> = all.iter().filter_map(Self::end_of_maintenance).collect();
        all.extend(ends);
        all.sort_by_key(|reload| (reload.at_ms, reload.number));
        all
    }
}

impl PlannedReload {
    /// The end of the maintenance that a reload begins.
    fn end_of_maintenance(&self) -> Option<Self> {
        let mut own = Random::fork(self.at_ms, "end of maintenance", self.number);
        let at_ms = self.at_ms + own.between(1000, MAINTENANCE_MS_MAX);
        let ends = self.change == Change::Maintenance && own.percent(MAINTENANCE_ENDS_PERCENT);
        ends.then_some(Self { number: self.number + RELOADS_MAX, at_ms, ..*self })
    }
}

impl Change {
    fn random(random: &mut Random, profile: SiteProfile) -> Self {
        match random.below(15) {
            0 => Self::Nothing,
            1..4 => Self::Lifetime(random.percent(70).then(|| Duration::from_secs(random.between(2, 90)))),
            4..6 => Self::Profile(profile),
            6 => Self::FirstByte(random.millis(10_000, 20_000)),
            7 => Self::Hsts(random.between(1, HSTS_SECS_MAX)),
            8 => Self::Refill,
            9 => Self::FurtherSite,
            10 => Self::Unreadable,
            11 => Self::Maintenance,
            12..14 => Self::Routes(random.number()),
            _ => Self::Fixed(profile),
        }
    }

    /// Whether the edge must refuse it.
    const fn is_refused(self) -> bool {
        matches!(self, Self::Unreadable | Self::Fixed(_))
    }

    /// Whether sites may have other origins afterwards.
    const fn replaces_origins(self) -> bool {
        matches!(self, Self::Routes(_) | Self::FirstByte(_))
    }

    /// The settings after the change.
    fn of(self, settings: &Settings, site: &SitePlan) -> Settings {
        let mut new = settings.clone();
        match self {
            Self::Nothing | Self::Unreadable => {}
            Self::Lifetime(default_ttl) => new.default_ttl = default_ttl,
            Self::Profile(profile) => new.profile = profile,
            Self::FirstByte(timeout) => new.first_byte_timeout = timeout,
            Self::Hsts(secs) => new.hsts_secs = Some(secs),
            Self::Refill => new.has_refill = !new.has_refill,
            Self::Routes(seed) => new = new.with_routes(&mut Random::new(seed), site),
            Self::Maintenance => new.routing.is_maintained = !new.routing.is_maintained,
            Self::FurtherSite => new.has_further_site = !new.has_further_site,
            Self::Fixed(profile) => {
                new.profile = profile;
                new.workers += 1;
            }
        }
        new
    }
}

impl NextPlan {
    /// At first the plan with which the edge starts.
    pub(crate) fn new(plan: &EdgePlan) -> Self {
        Self(Arc::new(Mutex::new(Ok(plan.clone()))))
    }

    /// The source for the edge.
    pub(crate) fn source(&self) -> PlanSource {
        let next = Arc::clone(&self.0);
        Arc::new(move || lock(&next).clone())
    }
}

impl<C: Fn() -> Option<Pipe> + Send> Reloader<C> {
    /// Carries out the reloads one after the other.
    pub(crate) async fn run(self) {
        let mut passed_ms = 0;
        for planned in &self.plans {
            sleep(Duration::from_millis(planned.at_ms.saturating_sub(passed_ms))).await;
            passed_ms = passed_ms.max(planned.at_ms);
            let turn = Arc::clone(&self.society.upkeep.turn).lock_owned().await;
            self.reload(planned).await;
            drop(turn);
        }
    }

    async fn reload(&self, planned: &PlannedReload) {
        let old = lock(&self.society.file).clone();
        let site = Arc::clone(lock(&self.society.site).plan());
        let new = planned.change.of(&old, &site);
        let Some((before, after)) = old.plan().ok().zip(new.plan().ok()) else { return };
        let drops = dropped_pages(&before, &after);
        *lock(&self.next.0) = match planned.change {
            Change::Unreadable => Err("the simulated file is wrong".to_owned()),
            _ => Ok(after),
        };
        let (name, begun) = (planned.to_string(), self.timeline.now());
        if planned.change.replaces_origins() {
            self.society.upkeep.fetches.replace(new.all_fetches_max());
        }
        let id = (!planned.change.is_refused()).then(|| {
            // A start from now on reads the changed file.
            *lock(&self.society.file) = new.clone();
            let rules = new.rules(lock(&self.society.ledger).rules_mut().trace);
            lock(&self.society.ledger).reload_sent(begun, &name, rules, drops)
        });
        let counts = self.counts();
        let reply = match (self.connect)() {
            Some(stream) => {
                let token = self.society.settings.token();
                order(stream, "/reload", token.as_deref(), self.timeline, ANSWER_MAX).await
            }
            None => Reply { ending: Ending::NoConnection, ..Reply::default() },
        };
        let at = self.timeline.now();
        let mut ledger = lock(&self.society.ledger);
        let expected = if id.is_some() { 200 } else { 422 };
        let is_counted = match (counts, self.counts()) {
            (Some((done, refused)), Some(now)) if id.is_some() => now == (done + 1, refused),
            (Some((done, refused)), Some(now)) => now == (done, refused + 1),
            _ => true,
        };
        if !reply.is_complete() || reply.status != Some(expected) || !is_counted {
            let text = format!("{name}: status {:?}, {}, counted: {is_counted}", reply.status, reply.ending);
            return ledger.reload_failed(begun, at, text);
        }
        ledger.count_reload(planned.change.name());
        if let Some(id) = id {
            ledger.reload_answered(at, id);
        }
    }

    /// How often the edge says that it has changed its plan, and that it has refused to.
    fn counts(&self) -> Option<(u64, u64)> {
        let edge = lock(&self.edge);
        edge.as_ref().map(|edge| (edge.metric(Metric::Reloads), edge.metric(Metric::ReloadsRefused)))
    }
}

impl Change {
    /// The kind of this change.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Lifetime(_) => "lifetime",
            Self::Profile(_) => "profile",
            Self::FirstByte(_) => "time until the first byte",
            Self::Hsts(_) => "Strict-Transport-Security",
            Self::Refill => "refill",
            Self::Routes(_) => "routes",
            Self::Maintenance => "maintenance",
            Self::FurtherSite => "further site",
            Self::Unreadable => "unreadable file",
            Self::Fixed(_) => "fixed setting",
        }
    }
}

impl fmt::Display for PlannedReload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reload {} after {} ms: {:?}", self.number, self.at_ms, self.change)
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, PlannedReload};
    use crate::settings::{Settings, SiteProfile, dropped_pages};
    use actors::SitePlan;
    use std::collections::BTreeSet;
    use std::time::Duration;
    use world::Random;

    #[test]
    fn plans_have_all_changes_in_the_order_of_time() {
        let settings = Settings::random(&mut Random::new(1));
        let mut met = BTreeSet::new();
        for seed in 0..200 {
            let plans = PlannedReload::random_list(&mut Random::new(seed), &settings, false, 1000, None);
            assert!(plans.is_sorted_by_key(|plan| plan.at_ms));
            assert!(plans.iter().all(|plan| plan.change != Change::Profile(SiteProfile::Rfc)));
            met.extend(plans.iter().map(|plan| plan.change.name()));
        }
        assert_eq!(met.len(), 11, "{met:?}");
    }

    #[test]
    fn pages_depend_on_profile_and_lifetime_only() {
        let settings = Settings::random(&mut Random::new(1));
        let site = SitePlan::random(&mut Random::new(1), "a.test");
        let keeps = |change: Change| {
            let (old, new) = (settings.plan().unwrap(), change.of(&settings, &site).plan().unwrap());
            dropped_pages(&old, &new).is_none()
        };
        assert!(keeps(Change::FirstByte(Duration::from_secs(11))) && keeps(Change::FurtherSite));
        assert!(keeps(Change::Hsts(3)) && keeps(Change::Refill));
        assert!(!keeps(Change::Profile(SiteProfile::Rfc)));
        assert!(!keeps(Change::Lifetime(Some(Duration::from_secs(91)))));
    }
}
