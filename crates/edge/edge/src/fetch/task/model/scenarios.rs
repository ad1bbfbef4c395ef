//! The scenarios: concurrent actions of visitors, an origin and writes, and the rules that must
//! hold under every schedule.
//!
//! Each scenario is run by `explore` and returns its world to be settled. `world` and `visitor`
//! check the rules that all scenarios share.

use super::explore;
use super::visitor::{GET, VisitResult, crowd, join, whole};
use super::world::{Act, ModelWorld, PADDING_BYTES};
use bytes::Bytes;
use config::EdgePlan;
use invalidation::Mode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{Invalidation, Selector, SiteId};

const MINUTE: &str = "Cache-Control: max-age=60";

/// Two visitors, so that the checker covers nearly all schedules, and four.
const CROWDS: [usize; 2] = [2, 4];

#[test]
fn simultaneous_misses_share_one_fetch() {
    for visitors in CROWDS {
        explore(&format!("one fetch, {visitors} visitors"), move || {
            let world = ModelWorld::new(MINUTE, &[]);
            for got in join(crowd(&world, visitors)) {
                assert_eq!(got, whole(1));
            }
            assert_eq!((world.visit(GET), world.fetches()), (whole(1), 1));
            world
        });
    }
}

#[test]
fn each_variant_is_fetched_once() {
    const GERMAN: &str = "GET /a HTTP/1.1\r\nHost: a.test\r\nAccept-Language: de";
    const ENGLISH: &str = "GET /a HTTP/1.1\r\nHost: a.test\r\nAccept-Language: en";
    for padding in [Bytes::new(), Bytes::from(vec![b'x'; PADDING_BYTES])] {
        let large = !padding.is_empty();
        explore(if large { "variants, too large to be kept" } else { "variants" }, move || {
            let small = |plan: &mut EdgePlan| plan.limits.object_bytes_max = 100_000;
            let world = ModelWorld::with(
                small,
                "Cache-Control: max-age=60\nVary: Accept-Language",
                &[],
                padding.clone(),
            );
            let visitors = [GERMAN, ENGLISH, GERMAN, ENGLISH];
            let threads = visitors.map(|request| world.visitor(request)).into();
            for (got, asked) in join(threads).into_iter().zip(visitors) {
                let language = asked.rsplit(' ').next().unwrap();
                match got {
                    VisitResult::Whole(text) => assert!(text.starts_with(&format!("1 {language}")), "{text}"),
                    other => assert!(large && other == VisitResult::Alone, "{other:?}"),
                }
            }
            // The first variant was fetched before it was known that there are variants.
            assert!(large || world.fetches() <= 3);
            world
        });
    }
}

#[test]
fn truncated_body_is_never_complete_and_is_fetched_again() {
    explore("cut off", || {
        let world = ModelWorld::new(MINUTE, &[Act::Half]);
        for got in join(crowd(&world, 3)) {
            assert!(got == VisitResult::Part("1 ".to_owned()) || got == whole(1), "{got:?}");
        }
        assert_eq!((world.visit(GET), world.fetches()), (whole(1), 2));
        world
    });
}

#[test]
fn fetch_that_ends_before_it_began_releases_its_waiters() {
    explore("never sent", || {
        let world = ModelWorld::new(MINUTE, &[Act::Never, Act::Never]);
        for got in join(crowd(&world, 3)) {
            assert!(got == VisitResult::Failed || got == whole(1), "{got:?}");
        }
        world
    });
}

#[test]
fn requests_wait_only_once_for_a_private_page() {
    explore("private", || {
        let world = ModelWorld::new(MINUTE, &[Act::Private; 4]);
        for got in join(crowd(&world, 4)) {
            assert_eq!(got, VisitResult::Alone);
        }
        let fetches = world.started.load(Ordering::SeqCst);
        assert_eq!(world.visit(GET), VisitResult::Alone);
        assert_eq!(
            world.started.load(Ordering::SeqCst),
            fetches,
            "a page known to be private was waited for"
        );
        world
    });
}

#[test]
fn no_older_page_is_delivered_after_an_invalidation() {
    for visitors in CROWDS {
        explore(&format!("invalidation, {visitors} visitors"), move || {
            let world = ModelWorld::new(MINUTE, &[]);
            let key = world.key_of(GET);
            let early = crowd(&world, visitors - 1);
            world.write(|world| {
                world.shared.invalidate(&key, Mode::Hard);
            });
            assert_eq!(world.visit(GET), whole(2));
            join(early);
            assert_eq!(world.visit(GET), whole(2));
            world
        });
    }
}

fn explore_invalidation_by(name: &str, selector: fn() -> Selector) {
    for visitors in CROWDS {
        explore(&format!("invalidation by {name}, {visitors} visitors"), move || {
            let world = ModelWorld::new("Cache-Control: max-age=60\nSurrogate-Key: news", &[]);
            let early = crowd(&world, visitors - 1);
            world.write(|world| {
                world.shared.store.invalidate(&Invalidation { selector: selector(), mode: Mode::Hard });
            });
            assert_eq!(world.visit(GET), whole(2));
            join(early);
            assert_eq!(world.visit(GET), whole(2));
            world
        });
    }
}

#[test]
fn invalidation_of_tags_covers_fetches_under_way() {
    explore_invalidation_by("tags", || Selector::Tags {
        site: SiteId(0),
        any_of: vec![Bytes::from("news")],
        all_of: Vec::new(),
    });
}

#[test]
fn invalidation_of_a_prefix_covers_fetches_under_way() {
    explore_invalidation_by("prefix", || Selector::Prefix {
        site: SiteId(0),
        host: Bytes::from("a.test"),
        prefix: Bytes::from("/"),
    });
}

#[test]
fn confirmation_does_not_revive_an_invalidated_page() {
    explore("confirmation", || {
        let world = ModelWorld::new(MINUTE, &[]);
        let key = world.key_of(GET);
        assert_eq!(world.visit(GET), whole(1));
        world.settle();
        world.clock.advance(Duration::from_secs(61));
        let visitors = crowd(&world, 3);
        world.write(|world| {
            world.shared.invalidate(&key, Mode::Hard);
        });
        assert_eq!(world.visit(GET), whole(2));
        join(visitors);
        assert_eq!(world.visit(GET), whole(2));
        world
    });
}

#[test]
fn stale_page_is_refreshed_by_one_fetch() {
    explore("refresh", || {
        let world = ModelWorld::new("Cache-Control: max-age=60, stale-while-revalidate=600", &[]);
        assert_eq!(world.visit(GET), whole(1));
        world.settle();
        world.clock.advance(Duration::from_secs(61));
        for got in join(crowd(&world, 4)) {
            assert_eq!(got, whole(1));
        }
        world.settle();
        assert_eq!(world.fetches(), 2);
        world
    });
}
