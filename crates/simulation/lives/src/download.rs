//! Visitors that load large files at the same time, often while the disk is slow or while the
//! origin sends the ends of the bodies late, so that all bodies are under way at once.
//!
//! Invariant: all of them load the same page with different parameters. The bodies therefore have
//! the same size, and each needs a fetch and a place on the disk of its own.

use crate::fault::{FaultAction, PlannedFault};
use actors::{Condition, Manner, OriginFault, PageKind, PagePlan, SitePlan, Visit, VisitMethod, VisitorPlan};
use world::{DiskMode, Random};

/// How often downloads come in a life.
const DOWNLOADS_PERCENT: u64 = 40;

/// The least and the largest number of visitors that download.
const DOWNLOADS: (u64, u64) = (12, 30);

/// The largest size of all downloads of a life in bytes. Origin and visitor hold each body in
/// memory, which counts towards the bound of the process.
const DOWNLOADS_BYTES_MAX: usize = 13 << 19;

/// The number in its life of the first visitor that downloads.
const FIRST_VISITOR: u64 = 20;

/// The number in its life of the fault that accompanies downloads.
const FAULT: u64 = 50;

/// The duration of this fault in simulated milliseconds.
const FAULT_MS: (u64, u64) = (2_000, 15_000);

/// The visitors that download in a life, with their arrivals, and the fault that accompanies them.
#[derive(Default)]
pub(crate) struct Downloads {
    pub(crate) visitors: Vec<(u64, VisitorPlan)>,
    pub(crate) fault: Option<PlannedFault>,
}

impl Downloads {
    /// The downloads of a life, by chance. There are none if the site has no large page. If `film`
    /// is the number of a page, it is downloaded, and all its bodies end late.
    pub(crate) fn random(
        random: &mut Random,
        life: u64,
        site: &SitePlan,
        arrival_ms_max: u64,
        film: Option<u64>,
    ) -> Self {
        let fits = |page: &&PagePlan| page.kind == PageKind::Large && page.bytes < DOWNLOADS_BYTES_MAX / 6;
        let large: Vec<_> = site.pages.iter().filter(fits).collect();
        let is_wanted = random.percent(DOWNLOADS_PERCENT);
        let any = random.choice(&large).copied();
        let largest = large.iter().copied().max_by_key(|page| page.bytes);
        let page = if random.percent(60) { largest } else { any };
        let film = film.and_then(|number| site.pages.iter().find(|page| page.number == number));
        let Some(page) = film.or_else(|| page.filter(|_| is_wanted)) else { return Self::default() };
        let arrival_ms = random.below(arrival_ms_max);
        let count_max = (DOWNLOADS_BYTES_MAX / page.bytes.max(1)) as u64;
        let count = random.between(DOWNLOADS.0, DOWNLOADS.1).min(count_max);
        let seed = random.number();
        let visitor = |number| {
            let mut own = Random::fork(seed, "download", number);
            let visits = vec![download(&mut own, number, page)];
            let plan = VisitorPlan {
                number: life * 100 + FIRST_VISITOR + number,
                user: None,
                forwarded_for: None,
                visits,
                is_multiplexed: number % 4 == 3,
            };
            (arrival_ms + own.below(300), plan)
        };
        let visitors = (0..count).map(visitor).collect();
        let slow_disk = FaultAction::Disk(DiskMode::slow(random.between(100, 1000)));
        let late_ends = FaultAction::Origin(OriginFault::LateEnd, 100);
        let action = match random.below(10) {
            _ if film.is_some() => Some(late_ends),
            0..4 => Some(slow_disk),
            4..9 => Some(late_ends),
            _ => None,
        };
        let for_ms = random.between(FAULT_MS.0, FAULT_MS.1);
        let fault = action.map(|action| PlannedFault { number: FAULT, at_ms: arrival_ms, for_ms, action });
        Self { visitors, fault }
    }
}

/// The request of one visitor. Some close the connection early; the edge then stores the body
/// without them.
fn download(random: &mut Random, number: u64, page: &PagePlan) -> Visit {
    let manner = match random.below(10) {
        0..5 => Manner::Plain,
        5..8 => Manner::SlowRead { pause_ms: random.between(1, 60) },
        _ => Manner::Abort { after_bytes: random.between(1, 60_000) as usize },
    };
    Visit {
        number,
        think_ms: 0,
        method: VisitMethod::Get,
        target: format!("{}?page={}", page.path, number + 1),
        language: None,
        has_cookie: false,
        has_noise: false,
        is_reload: false,
        condition: Condition::None,
        ranges: Vec::new(),
        has_if_range: false,
        upload: None,
        manner,
        is_pipelined: false,
        is_fresh: true,
        orders: None,
        is_other_host: false,
        has_nick: false,
        coding: None,
        extra: None,
        port: None,
    }
}

#[cfg(test)]
mod tests {
    use super::Downloads;
    use actors::SitePlan;
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn downloads_are_of_one_page_with_different_parameters() {
        let mut met = (0, 0);
        for seed in 0..200 {
            let site = SitePlan::random(&mut Random::new(seed), "a.test");
            let downloads = Downloads::random(&mut Random::new(seed), 1, &site, 1000, None);
            let targets: BTreeSet<_> =
                downloads.visitors.iter().map(|(_, visitor)| visitor.visits[0].target.clone()).collect();
            assert_eq!(targets.len(), downloads.visitors.len());
            assert!(
                targets.iter().filter_map(|target| target.split('?').next()).collect::<BTreeSet<_>>().len()
                    < 2
            );
            met.0 += u32::from(!targets.is_empty());
            met.1 += u32::from(downloads.fault.is_some());
            assert!(downloads.fault.is_none() || !targets.is_empty());
        }
        assert!(met.0 > 10 && met.1 > 5 && met.1 < met.0, "{met:?}");
    }
}
