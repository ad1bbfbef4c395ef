//! The oracle finds each bug of a toy edge from seeds alone, and finds nothing in the right toy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::town::Town;
use crate::toy::{Bug, Toy};
use petasos_actors::{OriginFault, PurgePlan, Purger, Rule, Visitor, VisitorPlan, lock};
use std::sync::Arc;
use world::Random;

/// Seeds that are tried for each bug at most.
const SEEDS: u64 = 80;

/// Seeds under which the right toy lives.
const RIGHT_SEEDS: u64 = 12;

/// The rules that a toy with this bug violates under a seed.
async fn violated(seed: u64, bug: Bug, faults: &[(OriginFault, u64)]) -> Vec<(Rule, String)> {
    let town = Town::random(seed);
    lock(&town.ledger).rules_mut().through_edge = true;
    faults.iter().for_each(|(fault, percent)| town.breaks(*fault, *percent));
    let toy = Toy::new(&town, bug);
    let mut running = Vec::new();
    for number in 0..4 {
        let plan = VisitorPlan::random(&mut Random::fork(seed, "visitor", number), number, &town.plan());
        let plan = VisitorPlan { is_multiplexed: false, ..plan };
        let toy = toy.clone();
        let ledger = Arc::clone(&town.ledger);
        let connect = move || Some(toy.connect());
        let visitor = Visitor::new(plan, town.plan(), ledger, town.timeline, connect);
        running.push(tokio::spawn(visitor.run()));
    }
    let plan = PurgePlan::random(&mut Random::fork(seed, "purger", 0), 0, &town.plan());
    let (visitors, admin) = (toy.clone(), toy.clone());
    let connect = move || Some(visitors.connect());
    let connect_admin = move || Some(admin.connect());
    let (site, ledger) = (Arc::clone(&town.site), Arc::clone(&town.ledger));
    let purger = Purger::new(plan, site, ledger, town.timeline, None, connect, connect_admin);
    running.push(tokio::spawn(purger.run()));
    for actor in running {
        actor.await.unwrap();
    }
    let ledger = lock(&town.ledger);
    ledger.violations().iter().map(|found| (found.rule, found.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn right_toy_violates_nothing() {
    let faults = [
        (OriginFault::SlowHead, 10),
        (OriginFault::Truncate, 5),
        (OriginFault::Error503, 5),
        (OriginFault::WrongTags, 5),
        (OriginFault::EarlyEnd, 5),
        (OriginFault::ShortLength, 5),
    ];
    for seed in 0..RIGHT_SEEDS {
        for faults in [&faults[..], &[]] {
            let violated = violated(seed, Bug::None, faults).await;
            assert!(violated.is_empty(), "seed {seed}: {violated:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_bug_is_found() {
    let slow = [(OriginFault::SlowHead, 70)];
    let cut = [(OriginFault::Truncate, 20)];
    let mut needed = Vec::new();
    for (bug, rules, faults) in [
        (Bug::ForgetsPurges, &[Rule::Staleness][..], &[][..]),
        (Bug::PurgesLate, &[Rule::Staleness], &[]),
        (Bug::ForgetsWrites, &[Rule::Staleness], &[]),
        (Bug::StoresOvertaken, &[Rule::Staleness], &slow),
        (Bug::SharesCookies, &[Rule::Privacy], &[]),
        (Bug::IgnoresLanguage, &[Rule::Integrity], &[]),
        (Bug::IgnoresCoding, &[Rule::Integrity], &[]),
        (Bug::IgnoresQuery, &[Rule::Integrity], &[]),
        (Bug::IgnoresLifetime, &[Rule::Age], &[]),
        (Bug::BelievesTruncated, &[Rule::Integrity], &cut),
        (Bug::MixesVersions, &[Rule::Integrity], &[]),
        (Bug::LosesResponses, &[Rule::Errors, Rule::Purging], &[]),
        (Bug::Waits, &[Rule::Promptness], &[]),
    ] {
        let mut found = None;
        for seed in 0..SEEDS {
            let violated = violated(seed, bug, faults).await;
            if violated.iter().any(|(rule, _)| rules.contains(rule)) {
                found = Some(seed + 1);
                break;
            }
        }
        needed.push((bug, found));
    }
    println!("seeds needed: {needed:?}");
    assert!(needed.iter().all(|(_, found)| found.is_some()), "{needed:?}");
}
