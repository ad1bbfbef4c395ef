//! A visitor that lets the origin confirm a few pages again and again. The disk writes a new entry
//! for each confirmation, until it replaces the index of the segment by a shorter one.
//!
//! Invariant: the requests follow from the site and the numbers of the visitor alone.

use crate::survey::survey;
use actors::{PageKind, PagePlan, SitePlan, Validator, VisitorPlan};
use world::Random;

/// How often such a visitor comes in a life.
const RENEWAL_PERCENT: u64 = 12;

/// The number of the visitor in its life.
const VISITOR: u64 = 98;

/// The number of its requests, the number of pages, and the longest pause before a request in
/// simulated milliseconds.
const REQUESTS: (u64, u64) = (100, 300);
const PAGES_MAX: usize = 3;
const PAUSE_MS_MAX: u64 = 40;

/// The visitor of a life, with its arrival, if there is one and the site has pages to confirm.
pub(crate) fn renewal(
    random: &mut Random,
    life: u64,
    site: &SitePlan,
    arrival_ms_max: u64,
) -> Option<(u64, VisitorPlan)> {
    let is_wanted = random.percent(RENEWAL_PERCENT);
    let can_be_confirmed = |page: &&PagePlan| {
        page.kind == PageKind::Shared && page.validator != Validator::None && page.template.is_empty()
    };
    let pages: Vec<_> = site.pages.iter().filter(can_be_confirmed).take(PAGES_MAX).cloned().collect();
    if !is_wanted || pages.is_empty() {
        return None;
    }
    let rounds = random.between(REQUESTS.0, REQUESTS.1) / pages.len() as u64;
    let few = SitePlan { pages, other_host: None, ..site.clone() };
    let mut plan = survey(life * 100 + VISITOR, &few, rounds, 0);
    for visit in &mut plan.visits {
        visit.think_ms = random.below(PAUSE_MS_MAX);
        visit.is_reload = true;
        visit.is_fresh = false;
    }
    Some((random.below(arrival_ms_max), plan))
}

#[cfg(test)]
mod tests {
    use super::{REQUESTS, renewal};
    use actors::SitePlan;
    use world::Random;

    #[test]
    fn few_pages_are_reloaded_many_times() {
        let site = SitePlan::random(&mut Random::new(2), "a.test");
        let plans = (0..200).filter_map(|seed| renewal(&mut Random::new(seed), 3, &site, 1000));
        let plans: Vec<_> = plans.map(|(_, plan)| plan).collect();
        assert!((5..50).contains(&plans.len()), "{}", plans.len());
        for plan in plans {
            assert!(
                plan.visits.len() as u64 >= REQUESTS.0 - 2 && plan.visits.iter().all(|visit| visit.is_reload)
            );
            assert_eq!(plan.number, 398);
        }
    }
}
