//! Visitors that want the same page at the same moment while the origin answers with errors. They
//! share its answers, also the wrong ones.
//!
//! Invariant: the requests follow from the site and the numbers of the herd alone.

use crate::fault::{FaultAction, PlannedFault};
use crate::survey::survey;
use actors::{OriginFault, PageKind, PagePlan, SitePlan, VisitorPlan};
use world::Random;

/// How often a herd comes in a life.
const HERD_PERCENT: u64 = 12;

/// The number of its visitors, and that of the first one in its life.
const VISITORS: (u64, u64) = (4, 10);
const FIRST_VISITOR: u64 = 80;

/// The longest time from the first visitor to the last one, in simulated milliseconds.
const SPREAD_MS_MAX: u64 = 6;

/// The number in its life of the fault that accompanies it, its least probability in percent, and
/// its duration in simulated milliseconds.
const FAULT: u64 = 51;
const FAULT_PERCENT_MIN: u64 = 60;
const FAULT_MS: (u64, u64) = (3000, 12_000);

/// The visitors of a life that want the same page, with their arrivals, and the fault that meets
/// them.
#[derive(Default)]
pub(crate) struct Herd {
    pub(crate) visitors: Vec<(u64, VisitorPlan)>,
    pub(crate) fault: Option<PlannedFault>,
}

impl Herd {
    /// A herd by chance, if the site has a page for it.
    pub(crate) fn random(random: &mut Random, life: u64, site: &SitePlan, arrival_ms_max: u64) -> Self {
        let is_wanted = random.percent(HERD_PERCENT);
        let may_be_shared = |page: &&PagePlan| page.kind == PageKind::Shared && page.template.is_empty();
        let pages: Vec<_> = site.pages.iter().filter(may_be_shared).cloned().collect();
        let Some(page) = random.choice(&pages).filter(|_| is_wanted) else { return Self::default() };
        let only = SitePlan { pages: vec![page.clone()], other_host: None, ..site.clone() };
        let arrival_ms = random.between(100, arrival_ms_max);
        let visitors = (0..random.between(VISITORS.0, VISITORS.1))
            .map(|number| {
                let plan = survey(life * 100 + FIRST_VISITOR + number, &only, 1, 0);
                (arrival_ms + random.below(SPREAD_MS_MAX), plan)
            })
            .collect();
        let error =
            *random.choice(&[OriginFault::Error500, OriginFault::Error503]).unwrap_or(&OriginFault::Error500);
        let action = FaultAction::Origin(error, random.between(FAULT_PERCENT_MIN, 100));
        let for_ms = random.between(FAULT_MS.0, FAULT_MS.1);
        let fault = PlannedFault { number: FAULT, at_ms: arrival_ms - 100, for_ms, action };
        Self { visitors, fault: Some(fault) }
    }
}

#[cfg(test)]
mod tests {
    use super::Herd;
    use actors::SitePlan;
    use world::Random;

    #[test]
    fn herd_wants_one_page_while_the_origin_fails() {
        let site = SitePlan::random(&mut Random::new(2), "a.test");
        let herds = (0..200).map(|seed| Herd::random(&mut Random::new(seed), 3, &site, 1000));
        let herds: Vec<_> = herds.filter(|herd| herd.fault.is_some()).collect();
        assert!((5..50).contains(&herds.len()), "{}", herds.len());
        for herd in herds {
            let fault = herd.fault.unwrap();
            let target = &herd.visitors[0].1.visits[0].target;
            for (at_ms, visitor) in &herd.visitors {
                assert!((fault.at_ms..fault.at_ms + fault.for_ms).contains(at_ms));
                assert!(visitor.visits.len() == 1 && visitor.visits[0].target == *target);
            }
        }
    }
}
