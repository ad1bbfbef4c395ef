//! The purge barrier under many schedules. A model checker runs the store's own code with threads
//! that fetch and publish, invalidate, look up and sweep. At every lock it chooses the thread that
//! runs next.
//!
//! Run with `cargo test -p petasos-store --features model --test interleavings`.
#![cfg(feature = "model")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use invalidation::{Ban, Haystack, Mode, Need, ResponseView};
use message::{Fields, ResponseHead, Status};
use petasos_store as store;
use semantics::{Freshness, Moment, VariantKey, VaryRule};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{check_pct, check_random, thread};
use std::sync::Arc;
use std::time::Duration;
use store::{
    Body, Invalidation, Key, Lookup, Object, Publication, PublishResult, Selector, SiteId, Store, StoreLimits,
};

const SITE: SiteId = SiteId(0);
const TAG: &[u8] = b"news";

#[derive(Debug)]
struct BanAll;

impl Ban for BanAll {
    fn matches(&self, stored: &dyn ResponseView) -> bool {
        stored.target() == b"/"
    }

    fn need(&self) -> Option<Need> {
        Some(Need { haystack: Haystack::Target, pattern: "^/".to_owned() })
    }

    fn text(&self) -> &str {
        "all"
    }
}

/// A ban on a target that no page has.
#[derive(Debug)]
struct OtherBan(&'static str);

impl Ban for OtherBan {
    fn matches(&self, _: &dyn ResponseView) -> bool {
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

/// One selector of each kind that matches the page.
fn selectors() -> Vec<Selector> {
    let site = SITE;
    let host = Bytes::from_static(b"a.test");
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

/// A selector that matches another page.
fn elsewhere() -> Selector {
    Selector::Host { site: SITE, host: "b.test".into() }
}

/// The origin: a page whose content is a version number, which an editor raises.
struct VersionedOrigin(AtomicU64);

impl VersionedOrigin {
    fn version(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Fetches and publishes the page in the steps of a real fetch: sequence number, request, response,
/// publication.
fn fly(store: &Store, origin: &VersionedOrigin) -> PublishResult {
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

/// The result of a look-up: the version, and whether it was softly invalidated.
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

/// Runs `scenario` for every kind of selector, first under random schedules, then under schedules
/// that favour rare orders of a few steps.
fn check(scenario: impl Fn(&Selector) + Send + Sync + Clone + 'static) {
    for selector in selectors() {
        let random = scenario.clone();
        let rare = scenario.clone();
        let one = selector.clone();
        let other = selector;
        check_random(move || random(&one), SCHEDULES);
        check_pct(move || rare(&other), SCHEDULES, 3);
    }
}

/// The number of schedules of each kind, for each selector.
const SCHEDULES: usize = 300;

/// Two fetches, a client that also sweeps, and an editor who changes the page and purges it. Once
/// the purge has returned, no look-up finds the old page, even if a fetch was under way. After a
/// soft purge the old page is never found as fresh.
#[test]
fn purge_hides_pages_fetched_before_it() {
    for mode in [Mode::Hard, Mode::Soft] {
        check(move |selector| {
            let store = store();
            let origin = Arc::new(VersionedOrigin(AtomicU64::new(1)));
            fly(&store, &origin);
            // This makes the next look-up or sweep check the page.
            store.invalidate(&Invalidation { selector: elsewhere(), mode: Mode::Hard });
            let flights = [(); 2].map(|()| {
                let store = Arc::clone(&store);
                let origin = Arc::clone(&origin);
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
                // A fetch that began before the purge may have read the new page. It is then
                // fetched once more.
                Some((version, _)) => assert_eq!(version, 2),
                None => assert_eq!(mode, Mode::Hard, "a soft purge keeps the page"),
            };
            look();
            let published = flights.map(|flight| flight.join().unwrap());
            look();
            sweeper.join().unwrap();
            while store.sweep(100).more {}
            look();
            assert!(mode == Mode::Hard || published.iter().all(|one| *one == PublishResult::Stored));
        });
    }
}

/// Bans above the limit of the list, while sieves are being made: the oldest entries are widened,
/// and each ban is a barrier as soon as it has returned.
#[test]
fn bans_above_the_limit_are_barriers_during_sieving() {
    let scenario = || {
        let store = store();
        let origin = Arc::new(VersionedOrigin(AtomicU64::new(1)));
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
        // The other ban may have been widened so that it matches the fetch under way.
        assert!(found(&store).is_none_or(|(version, _)| version == 2 && published == PublishResult::Stored));
    };
    check_random(scenario, SCHEDULES);
    check_pct(scenario, SCHEDULES, 3);
}

/// A request after the purge does not join a fetch from before it.
#[test]
fn purge_prevents_joining_earlier_fetches() {
    check(|selector| {
        let store = store();
        let begun = store.sequence();
        let tags = [Bytes::from_static(TAG)];
        let joins = |store: &Store| store.may_join(begun, &key(), &tags, &ResponseHead::new(Status::OK));
        let purger = {
            let store = Arc::clone(&store);
            let selector = selector.clone();
            thread::spawn(move || store.invalidate(&Invalidation { selector, mode: Mode::Soft }))
        };
        // Both answers are right until the purge has returned.
        joins(&store);
        assert_eq!(purger.join().unwrap().sequence, 1);
        assert!(!joins(&store));
    });
}

/// Two concurrent purges get different numbers, and each is in force when it returns.
#[test]
fn concurrent_purges_have_one_order() {
    check(|selector| {
        let store = store();
        let origin = Arc::new(VersionedOrigin(AtomicU64::new(1)));
        let purgers = [(); 2].map(|()| {
            let store = Arc::clone(&store);
            let origin = Arc::clone(&origin);
            let selector = selector.clone();
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
        assert_eq!(fly(&store, &origin), PublishResult::Stored);
        assert_eq!(found(&store), Some((3, false)));
    });
}
