//! A visitor that requests every page, in simple requests one after the other.
//!
//! Invariant: it follows from the site alone.

use actors::{Condition, Manner, SitePlan, Visit, VisitMethod, VisitorPlan};

/// A visitor that requests each page at each host `rounds` times, and pauses before each request.
pub(crate) fn survey(number: u64, site: &SitePlan, rounds: u64, think_ms: u64) -> VisitorPlan {
    let hosts = if site.other_host.is_some() { 2 } else { 1 };
    let each = (0..rounds * hosts).flat_map(|round| site.pages.iter().map(move |page| (round, page)));
    let visit = |(number, (round, page)): (u64, (u64, &actors::PagePlan))| Visit {
        number,
        think_ms,
        method: VisitMethod::Get,
        target: page.path.clone(),
        language: None,
        has_cookie: false,
        has_noise: false,
        has_nick: false,
        is_reload: false,
        condition: Condition::None,
        ranges: Vec::new(),
        has_if_range: false,
        upload: None,
        manner: Manner::Plain,
        is_pipelined: false,
        is_fresh: true,
        orders: None,
        is_other_host: round >= rounds,
        coding: None,
        extra: None,
        port: None,
    };
    let visits = (0..).zip(each).map(visit).collect();
    VisitorPlan { number, user: None, forwarded_for: None, visits, is_multiplexed: false }
}

#[cfg(test)]
mod tests {
    use super::survey;
    use actors::SitePlan;
    use world::Random;

    #[test]
    fn each_page_is_requested_at_each_host() {
        let one = SitePlan::random(&mut Random::new(2), "a.test");
        let two = SitePlan { other_host: Some("b.test".to_owned()), ..one.clone() };
        assert_eq!(survey(1, &one, 2, 5).visits.len(), 2 * one.pages.len());
        let visits = survey(1, &two, 2, 5).visits;
        assert_eq!(visits.len(), 4 * one.pages.len());
        assert_eq!(visits.iter().filter(|visit| visit.is_other_host).count(), 2 * one.pages.len());
    }
}
