//! Judges the requests of runs that fill the cache.
//!
//! Invariants: no run requests what robots.txt forbids or what would change something, and none
//! exceeds its rate. Both are judged at the origin, by URLs that only a sitemap or a list names.

use crate::exchange::Ask;
use crate::ledger::Ledger;
use crate::listed::{ListedPlan, ROBOTS};
use crate::moment::Moment;
use crate::routing::ExpectedAnswer;
use crate::rules::Rule;
use crate::site::SitePlan;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Requests of a host that are remembered to judge their rate.
const REMEMBERED_MAX: usize = 64;

/// Requests beyond the rate at the beginning of a run: the first one, and those of the run before
/// it that are on their way. A run has at most four at the same time.
const UNDER_WAY_MAX: u64 = 5;

/// The requests of runs at the origin.
#[derive(Debug, Default)]
pub(crate) struct ListedRecord {
    /// How often each target was requested, by host and target.
    requests: BTreeMap<(String, String), u64>,
    /// The last requests of each host.
    arrivals: BTreeMap<String, VecDeque<Arrival>>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Moment,
    /// Whether a run may have begun with it.
    begins: bool,
}

/// A request for a URL of [`ListedPlan`].
#[derive(Clone, Debug)]
pub(crate) struct ListedRequest {
    pub(crate) is_other: bool,
    pub(crate) host: String,
    pub(crate) target: String,
}

impl ListedRequest {
    /// A request for this target at one of the hosts; `None` if it is no such request.
    pub(crate) fn of(site: &SitePlan, is_other: bool, target: String) -> Option<Self> {
        let is_listed = site.listed.is_some() && ListedPlan::is_of(&target);
        is_listed.then(|| Self { is_other, host: site.host_name(is_other).to_owned(), target })
    }
}

impl Ledger {
    /// Records a request, and judges whether a run may send it. Returns the number of earlier
    /// requests for the same target.
    pub(crate) fn listed_arrives(&mut self, at: Moment, request: &ListedRequest) -> u64 {
        let place = (request.host.clone(), request.target.clone());
        let count = self.listed.requests.entry(place).or_default();
        let earlier = *count;
        *count += 1;
        self.note(at, || format!("a run requests {} of {}", request.target, request.host));
        let has_rules = self.has_rules_for_robots(request.is_other);
        if request.target == ROBOTS {
            self.remember(request, at, true);
        }
        let site = Arc::clone(&self.site);
        let why = site.listed.as_ref().and_then(|listed| listed.refusal(&request.target, has_rules));
        if let Some(why) = why {
            let text = format!("a run requested {} of {}, although {why}", request.target, request.host);
            self.violate(Rule::Crawling, at, text);
        }
        earlier
    }

    /// Judges the rate of a run by a request that met no fault. After a fault the edge may send the
    /// same request again.
    pub(crate) fn listed_meets_no_fault(&mut self, at: Moment, request: &ListedRequest) {
        let rate = self.site.listed.as_ref().and_then(|listed| listed.rate);
        let Some(rate) = rate.filter(|_| ListedPlan::is_paced(&request.target)) else { return };
        if !self.has_rules_for_robots(request.is_other) {
            // It is unknown where runs begin.
            self.listed.arrivals.remove(&request.host);
            return;
        }
        if request.target != ROBOTS {
            self.remember(request, at, false);
        }
        let Some(arrivals) = self.listed.arrivals.get(&request.host) else { return };
        // Runs of two sites may reach the origin under one name, and begin together.
        let begun = arrivals.iter().filter(|arrival| arrival.begins).count() as u64;
        let mut requests = 0;
        let excess = arrivals.iter().rev().find_map(|arrival| {
            requests += 1;
            let millis = u64::try_from(at.since(arrival.at).as_millis()).unwrap_or(u64::MAX);
            let permitted = u64::from(rate).saturating_mul(millis + 1) / 1000 + UNDER_WAY_MAX * (1 + begun);
            (requests > permitted).then_some((requests, millis))
        });
        if let Some((requests, millis)) = excess {
            let text = format!(
                "a run sent {requests} requests to {} in {millis} ms, but its rate is {rate} a second",
                request.host
            );
            self.violate(Rule::Crawling, at, text);
        }
    }

    /// Records the answer to a call about runs, and what is wrong with it. After a kill the edge
    /// need not answer.
    pub(crate) fn warm_answered(&mut self, at: Moment, name: &str, fault: Option<String>) {
        *self.tally_mut().calls.entry(name.to_owned()).or_default() += 1;
        self.note(at, || format!("{name} is answered"));
        if let Some(fault) = fault.filter(|_| !self.is_dead()) {
            self.violate(Rule::Administration, at, format!("{name}: {fault}"));
        }
    }

    fn remember(&mut self, request: &ListedRequest, at: Moment, begins: bool) {
        let arrivals = self.listed.arrivals.entry(request.host.clone()).or_default();
        arrivals.push_back(Arrival { at, begins });
        if arrivals.len() > REMEMBERED_MAX {
            arrivals.pop_front();
        }
    }

    /// Whether robots.txt of a host comes from the origin by all rules of this life. Otherwise a
    /// route answers it, and its answer may permit everything.
    fn has_rules_for_robots(&self, is_other: bool) -> bool {
        let target = self.site.named(is_other, ROBOTS);
        let ask = Ask { method: "GET".to_owned(), target, ..Ask::default() };
        let mut routings = self.all_routings();
        routings.all(|routing| matches!(routing.expected(&ask).answer, ExpectedAnswer::Page(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::ListedRequest;
    use crate::ledger::Ledger;
    use crate::listed::{ListedPlan, ROBOTS, RobotsForm, SitemapForm};
    use crate::moment::Moment;
    use crate::routing::Routing;
    use crate::rules::Rules;
    use crate::site::SitePlan;
    use std::sync::Arc;
    use world::Random;

    fn ledger(routing: Routing) -> Ledger {
        let listed = ListedPlan {
            robots: RobotsForm::ForAll,
            sitemap: SitemapForm::Pages,
            is_named: false,
            pages: 30,
            rate: Some(2),
        };
        let site = SitePlan { listed: Some(listed), ..SitePlan::random(&mut Random::new(1), "a.test") };
        Ledger::new(Arc::new(site), Rules { routings: vec![Arc::new(routing)], ..Rules::default() })
    }

    fn request(ledger: &mut Ledger, at_ms: u64, target: &str) {
        let request = ListedRequest { is_other: false, host: "a.test".into(), target: target.into() };
        ledger.listed_arrives(Moment::from_millis(at_ms), &request);
        ledger.listed_meets_no_fault(Moment::from_millis(at_ms), &request);
    }

    #[test]
    fn requests_beyond_the_rate_are_violations() {
        for (apart_ms, violations) in [(500, 0), (300, 1)] {
            let mut ledger = ledger(Routing::default());
            request(&mut ledger, 0, ROBOTS);
            for number in 0..40_u64 {
                request(&mut ledger, 1000 + number * apart_ms, &format!("/listed/p{}", number * 8));
            }
            assert_eq!(ledger.violations().len().min(1), violations, "{apart_ms}");
        }
    }

    #[test]
    fn forbidden_pages_are_violations_if_the_rules_were_read() {
        let mut ruled = ledger(Routing::default());
        request(&mut ruled, 0, "/listed/p1");
        assert!(ruled.violations().is_empty());
        request(&mut ruled, 1, "/listed/closed/1");
        assert_eq!(ruled.violations().len(), 1);
        let mut maintained = ledger(Routing { is_maintained: true, ..Routing::default() });
        request(&mut maintained, 1, "/listed/closed/1");
        assert!(maintained.violations().is_empty());
        request(&mut maintained, 2, "/listed/delete/1");
        assert_eq!(maintained.violations().len(), 1);
    }
}
