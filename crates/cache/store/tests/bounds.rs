//! Memory stays bounded under floods of invalidations, repeated and superseded invalidations, and
//! when the process occupies more memory than the store counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use invalidation::{Ban, Haystack, Mode, Need, ResponseView};
use message::{Fields, ResponseHead, Status};
use petasos_store as store;
use semantics::{Freshness, Moment, VariantKey, VaryRule};
use std::sync::Arc;
use std::time::Duration;
use store::{
    Body, Invalidation, Key, Lookup, Object, Publication, PublishResult, Selector, SiteId, Store, StoreLimits,
};

const SITE: SiteId = SiteId(0);
/// More pages, hosts or tags than the ledger has marks for.
const MARKS: u32 = 70_000;
/// More prefixes, bans or tag groups than the ledger lists.
const LISTED: u32 = 600;

#[derive(Debug)]
struct NeverBan(String);

impl Ban for NeverBan {
    fn matches(&self, _: &dyn ResponseView) -> bool {
        false
    }

    fn text(&self) -> &str {
        &self.0
    }
}

fn key(target: &str) -> Key {
    Key::new(SITE, false, b"a.test", Bytes::copy_from_slice(target.as_bytes()))
}

fn publish(store: &Store, target: &str, begun: u64, body: &[u8]) -> PublishResult {
    publish_tagged(store, target, begun, body, &["kept".into()])
}

fn publish_tagged(store: &Store, target: &str, begun: u64, body: &[u8], tags: &[Bytes]) -> PublishResult {
    let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
    store.publish(Publication {
        key: &key(target),
        rule: VaryRule::default(),
        variant: VariantKey::default(),
        object: Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", Body::copy_of(body), freshness)),
        tags,
        begun,
    })
}

fn is_found(store: &Store, target: &str) -> bool {
    matches!(store.lookup(&key(target), &Fields::new()), Lookup::Found { .. })
}

fn purge(store: &Store, selector: Selector) {
    store.invalidate(&Invalidation { selector, mode: Mode::Hard });
}

/// Selectors that select different pages for different numbers.
type Numbered = fn(u32) -> Selector;

fn target(number: u32) -> Selector {
    Selector::Target { site: SITE, host: "a.test".into(), target: format!("/other/{number}").into() }
}

fn tag(number: u32) -> Selector {
    Selector::Tags { site: SITE, any_of: vec![format!("other:{number}").into()], all_of: Vec::new() }
}

fn prefix(number: u32) -> Selector {
    Selector::Prefix { site: SITE, host: "a.test".into(), prefix: format!("/other/{number}/").into() }
}

fn ban(number: u32) -> Selector {
    Selector::Ban { site: SITE, ban: Arc::new(NeverBan(number.to_string())) }
}

fn both(number: u32) -> Selector {
    let all_of = vec!["kept".into(), format!("other:{number}").into()];
    Selector::Tags { site: SITE, any_of: Vec::new(), all_of }
}

/// A ban on targets that no page has.
#[derive(Debug)]
struct TargetBan(String);

impl Ban for TargetBan {
    fn matches(&self, _: &dyn ResponseView) -> bool {
        false
    }

    fn need(&self) -> Option<Need> {
        Some(Need { haystack: Haystack::Target, pattern: self.0.clone() })
    }

    fn text(&self) -> &str {
        &self.0
    }
}

fn target_ban(number: u32) -> Selector {
    Selector::Ban { site: SITE, ban: Arc::new(TargetBan(format!("^/other/{number}/[a-z]+$"))) }
}

/// A purge never waits for the sweep of all objects: each purge performs at most one step of it.
/// When the list is full, objects that were not checked yet count as purged.
#[test]
fn flood_of_bans_stays_a_barrier_without_the_sweep() {
    let store = Store::new(StoreLimits { listed_max: 64, ..StoreLimits::default() }, 1);
    let pages = 40_000;
    for number in 0..pages {
        assert_eq!(publish(&store, &number.to_string(), 0, b"x"), PublishResult::Stored);
    }
    let mut most = 0;
    for number in 0..100 {
        let before = store.stats().comparisons;
        assert!(is_found(&store, "7"), "a page that is looked up is checked and stays");
        purge(&store, target_ban(number));
        most = most.max(store.stats().comparisons - before);
    }
    assert!(most < 10_000, "a purge took {most} comparisons");
    assert_eq!((store.stats().listed, store.stats().widened > 0), (64, true));
    assert!(is_found(&store, "7") && !is_found(&store, "39999"));
    while store.sweep(4_096).more {}
    assert!(store.stats().objects < pages && is_found(&store, "7"));
}

/// In a small store the memory of the list is bounded too, not only the number of its entries.
#[test]
fn bans_leave_memory_for_the_objects_of_a_small_store() {
    let store = Store::new(StoreLimits { memory_bytes_max: 1 << 20, ..StoreLimits::default() }, 1);
    for number in 0..300 {
        purge(&store, target_ban(number));
        assert_eq!(publish(&store, &number.to_string(), store.sequence(), b"x"), PublishResult::Stored);
        while store.sweep(4_096).more {}
        let stats = store.stats();
        assert!(stats.bytes <= stats.budget_bytes && stats.tag_bytes < (1 << 20) / 3, "{stats:?}");
    }
    assert!((10..16).contains(&store.stats().listed), "{:?}", store.stats());
    assert!((0..300).all(|number| is_found(&store, &number.to_string())), "checked against all bans");
    assert_ne!(publish(&store, "other/0/a", 0, b"x"), PublishResult::Stored, "earlier than a widened ban");
}

/// After any number of invalidations, pages that they do not match stay stored. A fetch that began
/// before all of them is rejected, because the record of invalidations is bounded.
#[test]
fn flood_of_invalidations_is_bounded_and_keeps_other_pages() {
    let floods: [(Numbered, u32); 5] =
        [(target, MARKS), (tag, MARKS), (prefix, LISTED), (ban, LISTED), (both, LISTED)];
    for (selector, count) in floods {
        let store = Store::new(StoreLimits::default(), 1);
        assert_eq!(publish(&store, "/", 0, b"x"), PublishResult::Stored);
        let mut highest = 0;
        for number in 0..count {
            purge(&store, selector(number));
            highest = highest.max(store.stats().tag_bytes);
        }
        assert!(is_found(&store, "/"));
        assert!(highest < 16 << 20, "{highest}");
        assert_eq!(publish(&store, "/", 0, b"x"), PublishResult::Invalidated);
        assert!(!store.may_join(0, &key("/"), &[], &ResponseHead::new(Status::OK)));
        let recent = u64::from(count - LISTED / 2);
        assert_eq!(publish(&store, "/", recent, b"x"), PublishResult::Stored);
        assert!(is_found(&store, "/"));
    }
}

/// Repeating a purge displaces no other invalidation from the record.
#[test]
fn repeated_invalidation_is_recorded_once() {
    for selector in [target, tag, prefix, ban, both] {
        let store = Store::new(StoreLimits::default(), 1);
        purge(&store, selector(1));
        let once = store.stats().tag_bytes;
        (0..MARKS).for_each(|_| purge(&store, selector(1)));
        assert!(store.stats().tag_bytes < once + 16_384, "{} {once}", store.stats().tag_bytes);
        assert_eq!(
            publish(&store, "/", 0, b"x"),
            PublishResult::Stored,
            "a fetch from before the purges can still be judged"
        );
    }
}

/// The second of two purges displaces the tags of the first from the record before the sweep has
/// reached their objects.
#[test]
fn tags_forgotten_before_the_sweep_stay_purged() {
    let store = Store::new(StoreLimits::default(), 1);
    let pages = 3_000;
    for number in 0..pages {
        assert_eq!(publish(&store, &number.to_string(), 0, b"x"), PublishResult::Stored);
    }
    let tags = |first: u32, count: u32| (first..first + count).map(|number| format!("other:{number}").into());
    let any_of = std::iter::once("kept".into()).chain(tags(0, 65_000)).collect();
    purge(&store, Selector::Tags { site: SITE, any_of, all_of: Vec::new() });
    purge(&store, Selector::Tags { site: SITE, any_of: tags(65_000, 65_000).collect(), all_of: Vec::new() });
    assert!(store.stats().widened > 0 && store.stats().objects > 0, "{:?}", store.stats());
    assert!((0..pages).all(|number| !is_found(&store, &number.to_string())));
    while store.sweep(4_096).more {}
    assert_eq!(store.stats().objects, 0);
    assert_eq!(publish(&store, "/", store.sequence(), b"x"), PublishResult::Stored);
    assert!(is_found(&store, "/"));
}

/// An invalidation is dropped when a later one covers it.
#[test]
fn superseded_invalidations_are_forgotten() {
    let wholes = [
        Selector::Prefix { site: SITE, host: "a.test".into(), prefix: "/other/".into() },
        Selector::Host { site: SITE, host: "A.TEST".into() },
        Selector::Everything { site: Some(SITE) },
        Selector::Everything { site: None },
    ];
    for whole in wholes {
        let store = Store::new(StoreLimits::default(), 1);
        (0..LISTED / 2).for_each(|number| purge(&store, prefix(number)));
        let before = store.stats().tag_bytes;
        purge(&store, whole);
        assert!(store.stats().tag_bytes < before / 10, "{} {before}", store.stats().tag_bytes);
    }
}

#[test]
fn purge_of_too_many_tags_purges_the_site() {
    let store = Store::new(StoreLimits::default(), 1);
    assert_eq!(publish(&store, "/", 0, b"x"), PublishResult::Stored);
    let any_of = (0..MARKS).map(|number| format!("other:{number}").into()).collect();
    purge(&store, Selector::Tags { site: SITE, any_of, all_of: Vec::new() });
    assert!(!is_found(&store, "/"));
}

#[test]
fn purge_of_many_tags_evicts_objects_at_once() {
    let store = Store::new(StoreLimits { memory_bytes_max: 8 << 20, ..StoreLimits::default() }, 1);
    for number in 0..1_000 {
        assert_eq!(publish(&store, &number.to_string(), 0, &[7; 20_000]), PublishResult::Stored);
    }
    let any_of = (0..10_000).map(|number| format!("other:{number}").into()).collect();
    purge(&store, Selector::Tags { site: SITE, any_of, all_of: Vec::new() });
    let stats = store.stats();
    assert!(stats.tag_bytes > 1 << 20 && stats.bytes <= 8 << 20, "{stats:?}");
}

/// A purge may name thousands of tags, and each site that it covers has marks of its own.
#[test]
fn marks_of_purges_leave_half_of_a_small_store() {
    let store = Store::new(StoreLimits { memory_bytes_max: 2 << 20, ..StoreLimits::default() }, 1);
    for site in 0..8 {
        let any_of = (0..4_000).map(|number| format!("other:{number}").into()).collect();
        purge(&store, Selector::Tags { site: SiteId(site), any_of, all_of: Vec::new() });
        assert!(store.stats().tag_bytes <= 1 << 20, "{:?}", store.stats());
    }
    assert_eq!(publish(&store, "/", store.sequence(), b"x"), PublishResult::Stored);
    assert!(is_found(&store, "/"));
}

#[test]
fn new_tags_of_responses_evict_objects_of_all_shards() {
    // With this small limit of an object the store has 64 shards.
    let limits =
        StoreLimits { memory_bytes_max: 8 << 20, object_bytes_max: 16 << 10, ..StoreLimits::default() };
    let store = Store::new(limits, 1);
    for number in 0..20_000 {
        assert_eq!(publish(&store, &number.to_string(), 0, &[7; 1_000]), PublishResult::Stored);
    }
    for page in 0..10 {
        let tags: Vec<Bytes> = (0..500).map(|tag| format!("{page}:{tag:0>400}").into()).collect();
        let published = publish_tagged(&store, &format!("/tagged/{page}"), 0, b"x", &tags);
        let stats = store.stats();
        assert!(published == PublishResult::Stored && stats.bytes <= stats.budget_bytes, "{page} {stats:?}");
    }
    assert!(store.stats().tag_bytes > 1 << 20);
}

#[test]
fn store_shrinks_for_other_memory_of_the_process() {
    let limits = StoreLimits {
        memory_bytes_max: 8 << 20,
        object_bytes_max: 1 << 20,
        variants_max: 2,
        ..StoreLimits::default()
    };
    let store = Store::new(limits, 1);
    let fill = || {
        for number in 0..1_000 {
            assert_eq!(publish(&store, &number.to_string(), 0, &[7; 20_000]), PublishResult::Stored);
        }
    };
    fill();
    let full = store.stats();
    assert!(full.bytes > 7 << 20 && full.budget_bytes == 8 << 20);
    // The process occupies twice the store's weight. Only as much as that weight is allowed.
    store.fit(2 * full.bytes, full.bytes);
    let fitted = store.stats();
    // The store keeps at least a quarter of its limit.
    assert!(fitted.budget_bytes == 2 << 20 && fitted.bytes <= fitted.budget_bytes, "{fitted:?}");
    fill();
    assert!(store.stats().bytes <= fitted.budget_bytes);
    // The allocator has given the freed memory back.
    store.fit(store.stats().bytes, full.bytes);
    fill();
    assert!(store.stats().bytes > 7 << 20);
}
