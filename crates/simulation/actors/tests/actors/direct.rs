//! Visitors that talk to an honest origin.

use crate::town::Town;
use petasos_actors::{VisitorPlan, lock};
use std::collections::BTreeSet;
use world::Random;

#[tokio::test(start_paused = true)]
async fn honest_origin_violates_nothing() {
    let mut endings = BTreeSet::new();
    let mut statuses = BTreeSet::new();
    for seed in 0..20 {
        let town = Town::random(seed);
        town.live(seed, 3, if seed % 2 == 0 { 1 << 16 } else { 2000 }).await;
        town.is_right();
        let ledger = lock(&town.ledger);
        endings.extend(ledger.tally().endings.keys().cloned());
        statuses.extend(ledger.tally().statuses.keys().copied());
    }
    assert!(endings.contains("complete") && endings.contains("given up by the visitor"), "{endings:?}");
    let all: BTreeSet<u16> = [200, 204, 206, 302, 303, 304, 404, 416].into();
    assert_eq!(statuses, all);
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_log() {
    for seed in 0..5 {
        let first = Town::random(seed).live(seed, 4, 4096).await;
        let second = Town::random(seed).live(seed, 4, 4096).await;
        assert!(first.lines().count() > 20, "{first}");
        assert_eq!(first, second);
    }
}

#[tokio::test(start_paused = true)]
async fn visits_to_removed_pages_are_left_out() {
    let full = Town::random(3);
    let plans = (0..).map(|seed| VisitorPlan::random(&mut Random::new(seed), 1, &full.plan()));
    let plan = plans.into_iter().find(|plan| plan.visits.len() > 20).unwrap();
    let mut site = (*full.plan()).clone();
    site.pages.truncate(1);
    let town = Town::new(site, 3);
    town.visitor(plan.clone(), 4096).await.unwrap();
    town.is_right();
    let ended: u64 = lock(&town.ledger).tally().endings.values().sum();
    let kept = plan.visits.iter().filter(|visit| town.plan().page(&visit.target).is_some()).count();
    assert!(ended == kept as u64 && kept < plan.visits.len(), "{ended} of {kept}");
}

#[test]
fn visits_depend_only_on_their_numbers() {
    let site = petasos_actors::SitePlan::random(&mut Random::new(1), "a.test");
    let plan = VisitorPlan::random(&mut Random::new(4), 1, &site);
    assert_eq!(plan, VisitorPlan::random(&mut Random::new(4), 1, &site));
    assert_eq!(plan.to_string().lines().count(), 1 + plan.visits.len());
}
