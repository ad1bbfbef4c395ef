//! The purge barrier under many schedules: a model checker runs the store's own code with threads that fetch and
//! publish, invalidate, look up and sweep, and chooses at every lock who goes on.
//!
//! Run with `cargo test -p petasos-store --features model --test interleavings`.
#![cfg(feature = "model")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use message::{Fields, ResponseHead, Status};
use petasos_store as store;
use semantics::{Freshness, Moment, VariantKey, VaryRule};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{check_pct, check_random, thread};
use std::sync::Arc;
use std::time::Duration;
use store::{
    Ban, Body, Haystack, Invalidation, Key, Lookup, Mode, Need, Object, Publication, Published, Selector,
    SiteId, Store, StoreLimits, Stored,
};

const SITE: SiteId = SiteId(0);
const TAG: &[u8] = b"news";

#[derive(Debug)]
struct BanAll;

impl Ban for BanAll {
    fn matches(&self, stored: &Stored<'_>) -> bool {
        stored.target() == b"/"
    }

    fn need(&self) -> Option<Need> {
        Some(Need { haystack: Haystack::Target, pattern: "^/".to_owned() })
    }

    fn text(&self) -> &str {
        "all"
    }
}

/// A ban of a page that nothing has.
#[derive(Debug)]
struct OtherBan(&'static str);

impl Ban for OtherBan {
    fn matches(&self, _: &Stored<'_>) -> bool {
        false
    }

    fn need(&self) -> Option<Need> {
        Some(Need { haystack: Haystack::Target, pattern: self.0.to_owned() })
    }

    fn text(&self) -> &str {
        self.0
    }
}

fn key() -> Key {
    Key::new(SITE, false, b"a.test", Bytes::from_static(b"/"))
}

/// Every kind of selector that means the page.
fn selectors() -> Vec<Selector> {
    let (site, host) = (SITE, Bytes::from_static(b"a.test"));
    let tag = || vec![Bytes::from_static(TAG)];
    vec![
        Selector::Target { site, host: host.clone(), target: "/".into() },
        Selector::Prefix { site, host: host.clone(), prefix: "/".into() },
        Selector::Host { site, host },
        Selector::Tags { site, any_of: tag(), all_of: Vec::new() },
        Selector::Tags { site, any_of: tag(), all_of: tag() },
        Selector::Everything { site: Some(site) },
        Selector::Everything { site: None },
        Selector::Ban { site, ban: Arc::new(BanAll) },
    ]
}

/// A selector that means another page.
fn elsewhere() -> Selector {
    Selector::Host { site: SITE, host: "b.test".into() }
}

/// The origin: a page whose content is a version that an editor raises.
struct Origin(AtomicU64);

impl Origin {
    fn version(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Fetches the page and publishes it, as a flight does: number, request, answer, publish.
fn fly(store: &Store, origin: &Origin) -> Published {
    let begun = store.sequence();
    let version = origin.version();
    thread::yield_now();
    let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
    let body = Body::copy_of(&version.to_le_bytes());
    store.publish(Publication {
        key: &key(),
        rule: VaryRule::default(),
        variant: VariantKey::default(),
        object: Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", body, freshness)),
        tags: &[Bytes::from_static(TAG)],
        begun,
    })
}

/// What a look-up gives: the version, and whether it was invalidated softly.
fn found(store: &Store) -> Option<(u64, bool)> {
    let Lookup::Found { object, softened } = store.lookup(&key(), &Fields::new()) else { return None };
    let octets = object.content().collect::<Vec<_>>().concat();
    Some((u64::from_le_bytes(octets.try_into().unwrap()), softened))
}

fn store() -> Arc<Store> {
    let limits =
        StoreLimits { memory_bytes_max: 100_000, object_bytes_max: 10_000, variants_max: 2, listed_max: 2 };
    Arc::new(Store::new(limits, 1))
}

/// Runs `scenario` for every kind of selector under random schedules, and under such as find rare orders of few
/// steps.
fn check(scenario: impl Fn(&Selector) + Send + Sync + Clone + 'static) {
    for selector in selectors() {
        let (random, rare) = (scenario.clone(), scenario.clone());
        let (one, other) = (selector.clone(), selector);
        check_random(move || random(&one), SCHEDULES);
        check_pct(move || rare(&other), SCHEDULES, 3);
    }
}

/// Schedules of each kind, for each selector.
const SCHEDULES: usize = 300;

/// Two flights, a visitor who sweeps too, and an editor who changes the page and purges it: once the purge has
/// returned, no look-up gives the old page, whatever was in flight; and a soft purge never passes the old page off as
/// fresh.
#[test]
fn after_a_purge_nobody_gets_what_was_fetched_before() {
    for mode in [Mode::Hard, Mode::Soft] {
        check(move |selector| {
            let (store, origin) = (store(), Arc::new(Origin(AtomicU64::new(1))));
            fly(&store, &origin);
            // Now the page has to be checked, by whoever comes first.
            store.invalidate(&Invalidation { selector: elsewhere(), mode: Mode::Hard });
            let flights = [(); 2].map(|()| {
                let (store, origin) = (Arc::clone(&store), Arc::clone(&origin));
                thread::spawn(move || fly(&store, &origin))
            });
            let sweeper = {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    found(&store);
                    store.sweep(100);
                })
            };
            origin.0.store(2, Ordering::SeqCst);
            store.invalidate(&Invalidation { selector: selector.clone(), mode });
            let look = || match found(&store) {
                Some((1, softened)) => {
                    assert!(mode == Mode::Soft && softened, "the old page after the purge")
                }
                // The new page may have been fetched by a flight that began before; then it is refreshed once more.
                Some((version, _)) => assert_eq!(version, 2),
                None => assert_eq!(mode, Mode::Hard, "a soft purge keeps the page"),
            };
            look();
            let published = flights.map(|flight| flight.join().unwrap());
            look();
            sweeper.join().unwrap();
            while store.sweep(100).more {}
            look();
            assert!(mode == Mode::Hard || published.iter().all(|one| *one == Published::Stored));
        });
    }
}

/// Bans beyond the limit of the list, while sieves are made and taken apart: the oldest entries become wider, and a ban
/// is a barrier from the moment that it is answered.
#[test]
fn bans_beyond_the_limit_are_barriers_while_sieves_are_made() {
    let scenario = || {
        let (store, origin) = (store(), Arc::new(Origin(AtomicU64::new(1))));
        let ban = |ban: Arc<dyn Ban>| Invalidation {
            selector: Selector::Ban { site: SITE, ban },
            mode: Mode::Hard,
        };
        fly(&store, &origin);
        for text in ["^/a", "^/b"] {
            store.invalidate(&ban(Arc::new(OtherBan(text))));
        }
        let sweeper = {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                for _ in 0..2 {
                    found(&store);
                    store.sweep(1);
                }
            })
        };
        let purger = {
            let store = Arc::clone(&store);
            let other = ban(Arc::new(OtherBan("^/c")));
            thread::spawn(move || store.invalidate(&other))
        };
        origin.0.store(2, Ordering::SeqCst);
        store.invalidate(&ban(Arc::new(BanAll)));
        assert!(found(&store).is_none(), "the old page after the ban");
        let published = fly(&store, &origin);
        purger.join().unwrap();
        sweeper.join().unwrap();
        while store.sweep(100).more {}
        // The other ban may have been widened to what was on its way.
        assert!(found(&store).is_none_or(|(version, _)| version == 2 && published == Published::Stored));
    };
    check_random(scenario, SCHEDULES);
    check_pct(scenario, SCHEDULES, 3);
}

/// A request that comes after the purge takes part in no flight from before it; one from before may.
#[test]
fn after_a_purge_nobody_joins_what_began_before() {
    check(|selector| {
        let store = store();
        let begun = store.sequence();
        let tags = [Bytes::from_static(TAG)];
        let joins = |store: &Store| store.may_join(begun, &key(), &tags, &ResponseHead::new(Status::OK));
        let purger = {
            let (store, selector) = (Arc::clone(&store), selector.clone());
            thread::spawn(move || store.invalidate(&Invalidation { selector, mode: Mode::Soft }))
        };
        // Either answer is right as long as the purge has not returned.
        joins(&store);
        assert_eq!(purger.join().unwrap().sequence, 1);
        assert!(!joins(&store));
    });
}

/// Two purges at once have an order, and each holds when it returns.
#[test]
fn purges_have_one_order() {
    check(|selector| {
        let (store, origin) = (store(), Arc::new(Origin(AtomicU64::new(1))));
        let purgers = [(); 2].map(|()| {
            let (store, origin, selector) = (Arc::clone(&store), Arc::clone(&origin), selector.clone());
            thread::spawn(move || {
                fly(&store, &origin);
                let now = origin.0.fetch_add(1, Ordering::SeqCst) + 1;
                let number =
                    store.invalidate(&Invalidation { selector: selector.clone(), mode: Mode::Hard }).sequence;
                assert!(found(&store).is_none_or(|(version, _)| version >= now));
                number
            })
        });
        let mut numbers = purgers.map(|purger| purger.join().unwrap());
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(fly(&store, &origin), Published::Stored);
        assert_eq!(found(&store), Some((3, false)));
    });
}
