//! Each fault of the origin, as a visitor without an edge meets it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::town::Town;
use petasos_actors::{
    Condition, Framing, Lifetime, Manner, OriginFault, PageKind, PagePlan, Rule, SitePlan, Validator, Visit,
    VisitMethod, VisitorPlan, lock,
};
use world::Random;

/// A town with one page of about 10,000 bytes.
fn town(framing: Framing) -> Town {
    let page = PagePlan {
        number: 1,
        path: "/a".to_owned(),
        kind: PageKind::Shared,
        lifetime: Lifetime::default(),
        validator: Validator::Etag,
        framing,
        tag_field: "xkey",
        tags: vec!["a".to_owned()],
        ignores_query: false,
        bytes: 10_000,
        is_coded: false,
        greets: false,
        template: Vec::new(),
    };
    let site = SitePlan { pages: vec![page], ..SitePlan::random(&mut Random::new(1), "a.test") };
    Town::new(site, 1)
}

/// Two visits to the page.
fn plan() -> VisitorPlan {
    let visit = |number| Visit {
        number,
        think_ms: 10,
        method: VisitMethod::Get,
        target: "/a".to_owned(),
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
        is_fresh: false,
        orders: None,
        is_other_host: false,
        coding: None,
        extra: None,
        port: None,
    };
    VisitorPlan {
        number: 1,
        user: None,
        forwarded_for: None,
        visits: vec![visit(0), visit(1)],
        is_multiplexed: false,
    }
}

/// Lets the visitor meet a fault in every response. Returns how its requests ended, the statuses
/// and the number of faults.
async fn meet(framing: Framing, fault: OriginFault) -> (Vec<String>, Vec<u16>, u64) {
    let town = town(framing);
    town.breaks(fault, 100);
    town.visitor(plan(), 4096).await.unwrap();
    let explained = [Rule::Promptness, Rule::Integrity];
    let ledger = lock(&town.ledger);
    let told: Vec<_> = ledger.violations().iter().filter(|found| !explained.contains(&found.rule)).collect();
    assert!(told.is_empty(), "{fault}: {told:?}");
    let tally = ledger.tally();
    let counts = town.origin.faults().counts();
    let endings = tally.endings.keys().cloned().collect();
    (endings, tally.statuses.keys().copied().collect(), counts.values().sum())
}

#[tokio::test(start_paused = true)]
async fn each_fault_gives_what_it_says() {
    let (length, chunked, close) = (Framing::Length, Framing::Chunked, Framing::Close);
    for (framing, fault, ending, status) in [
        (length, OriginFault::SlowHead, "complete", Some(200)),
        (chunked, OriginFault::SlowBody, "complete", Some(200)),
        (length, OriginFault::Hang, "closed before the head", None),
        (length, OriginFault::HangInBody, "cut within the body", Some(200)),
        (length, OriginFault::Truncate, "cut within the body", Some(200)),
        (chunked, OriginFault::Truncate, "cut within the body", Some(200)),
        (close, OriginFault::EarlyEnd, "complete", Some(200)),
        (length, OriginFault::LongLength, "cut within the body", Some(200)),
        (length, OriginFault::Error500, "complete", Some(500)),
        (length, OriginFault::Error503, "complete", Some(503)),
        (length, OriginFault::EmptyOk, "complete", Some(200)),
        (length, OriginFault::CloseBetween, "complete", Some(200)),
        (length, OriginFault::WrongTags, "complete", Some(200)),
    ] {
        let (endings, statuses, count) = meet(framing, fault).await;
        assert_eq!(endings, [ending], "{fault}");
        assert_eq!(statuses, status.into_iter().collect::<Vec<_>>(), "{fault}");
        assert_eq!(count, 2, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn truncation_needs_a_marked_end_and_early_end_needs_none() {
    for (framing, fault) in
        [(Framing::Close, OriginFault::Truncate), (Framing::Length, OriginFault::EarlyEnd)]
    {
        let (endings, _, count) = meet(framing, fault).await;
        assert_eq!((endings, count), (vec!["complete".to_owned()], 0), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_after_a_short_length_are_taken_for_a_response() {
    let (endings, statuses, count) = meet(Framing::Length, OriginFault::ShortLength).await;
    assert_eq!(endings, ["complete", "malformed"]);
    assert_eq!((statuses, count), (vec![200], 1));
}

#[tokio::test(start_paused = true)]
async fn garbage_is_malformed_and_reset_cuts() {
    let (endings, ..) = meet(Framing::Length, OriginFault::Garbage).await;
    assert!(endings.iter().all(|ending| ending == "malformed" || ending.starts_with("cut")), "{endings:?}");
    let (endings, ..) = meet(Framing::Length, OriginFault::Reset).await;
    let is_broken = |ending: &String| ending.starts_with("cut") || ending.starts_with("closed");
    assert!(endings.iter().all(is_broken), "{endings:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_origin_takes_time() {
    for (fault, least_ms) in [(OriginFault::SlowHead, 400), (OriginFault::SlowBody, 500)] {
        let town = town(Framing::Length);
        town.breaks(fault, 100);
        town.visitor(plan(), 4096).await.unwrap();
        assert!(town.timeline.now().since_begin().as_millis() >= least_ms, "{fault}");
        town.is_right();
    }
}

#[tokio::test(start_paused = true)]
async fn random_faults_are_explained_unless_they_hang_or_send_garbage() {
    let faults = OriginFault::ALL
        .into_iter()
        .filter(|fault| !matches!(fault, OriginFault::Hang | OriginFault::HangInBody | OriginFault::Garbage));
    let faults: Vec<_> = faults.collect();
    let mut happened = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let town = Town::random(seed);
        for fault in &faults {
            town.breaks(*fault, 5);
        }
        town.live(seed, 3, 2000).await;
        // Bytes after the announced length are read as the next response without an edge.
        let ledger = lock(&town.ledger);
        let told: Vec<_> = ledger
            .violations()
            .iter()
            .filter(|found| !found.text.contains("is malformed"))
            .map(ToString::to_string)
            .collect();
        assert!(told.is_empty(), "seed {seed}: {told:#?}");
        happened.extend(town.origin.faults().counts().into_keys());
    }
    assert_eq!(happened.into_iter().collect::<Vec<_>>(), faults);
}
