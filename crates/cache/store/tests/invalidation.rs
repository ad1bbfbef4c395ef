//! Invalidations against a slow model: a list of objects to which every invalidation is applied at
//! once.
//!
//! Fetches, publications, invalidations, look-ups and sweeps happen in random order. The store must
//! give the same answers as the list.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test: numbers are below the lengths, and a failure is a failure"
)]

use bytes::Bytes;
use invalidation::{Ban, Haystack, Mode, Need, ResponseView};
use message::{Fields, ResponseHead, Status};
use petasos_store as store;
use profiles::Policy;
use proptest::prelude::*;
use semantics::{Freshness, Moment, VariantKey, VaryRule};
use std::sync::Arc;
use std::time::Duration;
use store::{
    Body, Invalidation, Key, Lookup, Object, Publication, PublishResult, Selector, SiteId, Store, StoreLimits,
};

const HOSTS: [&str; 3] = ["a.example", "b.example", "A.example:80"];
const TARGETS: [&str; 4] = ["/", "/x", "/x/1", "/y"];
const LANGUAGES: [&str; 2] = ["de", "en"];
const TAGS: [&str; 4] = ["node:1", "node:2", "list", "rendered"];

/// The page with a number below [`KEYS`]. For every part of the key, some pair of pages differs in
/// it.
fn key(number: usize) -> Key {
    let host = HOSTS[number % 3];
    let target = Bytes::from_static(TARGETS[number / 3 % 4].as_bytes());
    Key::new(SiteId((number / 12 % 2) as u32), number / 24 % 2 == 1, host.as_bytes(), target)
}

const KEYS: usize = 48;

fn fields(language: usize) -> Fields {
    let mut fields = Fields::new();
    fields.push("Accept-Language", LANGUAGES[language]);
    fields
}

fn rule(varies: bool) -> VaryRule {
    let mut response = Fields::new();
    response.push("Vary", if varies { "Accept-Language" } else { "" });
    VaryRule::from_response(&response, &Policy::default_profile()).unwrap()
}

fn tags(mask: u8) -> Vec<Bytes> {
    let tags = TAGS.iter().enumerate().filter(|(index, _)| mask & 1 << index != 0);
    tags.map(|(_, tag)| Bytes::from_static(tag.as_bytes())).collect()
}

/// A ban on a field and a prefix of the target.
#[derive(Clone, Debug)]
struct FieldBan {
    color: usize,
    prefix: usize,
    text: String,
}

impl FieldBan {
    fn new(color: usize, prefix: usize) -> Self {
        Self { color, prefix, text: format!("{color} {prefix}") }
    }

    fn means(&self, target: &[u8], color: usize) -> bool {
        target.starts_with(TARGETS[self.prefix].as_bytes()) && color == self.color
    }
}

impl Ban for FieldBan {
    fn matches(&self, stored: &dyn ResponseView) -> bool {
        assert!(stored.status() == Status::OK && !stored.host().is_empty());
        let colors = stored.values(b"COLOR");
        assert_eq!(colors.len(), 1);
        assert!(stored.tags().iter().all(|tag| TAGS.iter().any(|known| known.as_bytes() == *tag)));
        self.means(stored.target(), colors[0].len())
    }

    fn need(&self) -> Option<Need> {
        // Only bans on color 0 have a need, so that bans with and without one are tested.
        let pattern = || format!("^{}", TARGETS[self.prefix]);
        (self.color == 0).then(|| Need { haystack: Haystack::Target, pattern: pattern() })
    }

    fn text(&self) -> &str {
        &self.text
    }
}

/// A page to publish. Its fetch began when `begun` invalidations had been recorded.
#[derive(Clone, Debug)]
struct TestPage {
    number: usize,
    key: usize,
    varies: bool,
    language: usize,
    tags: u8,
    color: usize,
    begun: u64,
    softened: bool,
}

impl TestPage {
    fn rule(&self) -> VaryRule {
        rule(self.varies)
    }

    fn variant(&self) -> VariantKey {
        self.rule().key(&fields(self.language))
    }

    fn head(&self) -> ResponseHead {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("Color", "c".repeat(self.color));
        head
    }

    fn publish(&self, store: &Store) -> PublishResult {
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let body = Body::copy_of(self.number.to_string().as_bytes());
        store.publish(Publication {
            key: &key(self.key),
            rule: self.rule(),
            variant: self.variant(),
            object: Arc::new(Object::new(&self.head(), b"", body, freshness)),
            tags: &tags(self.tags),
            begun: self.begun,
        })
    }

    fn is_meant(&self, meant: &ModelSelector) -> bool {
        let key = key(self.key);
        let is_host = |site: usize, host: usize| {
            let named = Key::new(key.site(), key.is_https(), HOSTS[host].as_bytes(), Bytes::new());
            key.site() == SiteId(site as u32) && key.host() == named.host()
        };
        match *meant {
            ModelSelector::Target { site, host, target } => {
                is_host(site, host) && key.target() == TARGETS[target].as_bytes()
            }
            ModelSelector::Prefix { site, host, target } => {
                is_host(site, host) && key.target().starts_with(TARGETS[target].as_bytes())
            }
            ModelSelector::Host { site, host } => is_host(site, host),
            ModelSelector::Tags { site, any_of, all_of } => {
                key.site() == SiteId(site as u32)
                    && any_of | all_of != 0
                    && self.tags & all_of == all_of
                    && (any_of == 0 || self.tags & any_of != 0)
            }
            ModelSelector::Everything { site } => site.is_none_or(|site| key.site() == SiteId(site as u32)),
            ModelSelector::Ban { site, color, target } => {
                key.site() == SiteId(site as u32)
                    && FieldBan::new(color, target).means(key.target(), self.color)
            }
        }
    }
}

/// A selector, described by small numbers.
#[derive(Clone, Debug)]
enum ModelSelector {
    Target { site: usize, host: usize, target: usize },
    Prefix { site: usize, host: usize, target: usize },
    Host { site: usize, host: usize },
    Tags { site: usize, any_of: u8, all_of: u8 },
    Everything { site: Option<usize> },
    Ban { site: usize, color: usize, target: usize },
}

impl ModelSelector {
    fn selector(&self) -> Selector {
        let (host_of, site_of) =
            (|host: usize| Bytes::from_static(HOSTS[host].as_bytes()), |site| SiteId(site as u32));
        let target_of = |target: usize| Bytes::from_static(TARGETS[target].as_bytes());
        match *self {
            Self::Target { site, host, target } => {
                Selector::Target { site: site_of(site), host: host_of(host), target: target_of(target) }
            }
            Self::Prefix { site, host, target } => {
                Selector::Prefix { site: site_of(site), host: host_of(host), prefix: target_of(target) }
            }
            Self::Host { site, host } => Selector::Host { site: site_of(site), host: host_of(host) },
            Self::Tags { site, any_of, all_of } => {
                Selector::Tags { site: site_of(site), any_of: tags(any_of), all_of: tags(all_of) }
            }
            Self::Everything { site } => Selector::Everything { site: site.map(site_of) },
            Self::Ban { site, color, target } => {
                Selector::Ban { site: site_of(site), ban: Arc::new(FieldBan::new(color, target)) }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum InvalidationStep {
    Begin { key: usize, varies: bool, language: usize, tags: u8, color: usize },
    Publish { fetch: usize },
    Join { fetch: usize },
    Invalidate { meant: ModelSelector, mode: Mode },
    Lookup { key: usize, language: usize },
    Sweep { slots: usize },
}

fn meant() -> impl Strategy<Value = ModelSelector> {
    let site = 0usize..2;
    let host = 0usize..3;
    let target = 0usize..4;
    prop_oneof![
        3 => (site.clone(), host.clone(), target.clone())
            .prop_map(|(site, host, target)| ModelSelector::Target { site, host, target }),
        2 => (site.clone(), host.clone(), target.clone())
            .prop_map(|(site, host, target)| ModelSelector::Prefix { site, host, target }),
        1 => (site.clone(), host).prop_map(|(site, host)| ModelSelector::Host { site, host }),
        3 => (site.clone(), 0u8..16, prop_oneof![Just(0u8), 0u8..16])
            .prop_map(|(site, any_of, all_of)| ModelSelector::Tags { site, any_of, all_of }),
        1 => prop::option::of(site.clone()).prop_map(|site| ModelSelector::Everything { site }),
        4 => (site, 0usize..2, target)
            .prop_map(|(site, color, target)| ModelSelector::Ban { site, color, target }),
    ]
}

/// A list with room for more invalidations than one run records, in blocks of four bans.
const ROOMY: usize = 64;

fn steps() -> impl Strategy<Value = Vec<InvalidationStep>> {
    let key = 0..KEYS;
    let mode = prop_oneof![Just(Mode::Hard), Just(Mode::Soft)];
    let step = prop_oneof![
        6 => (key.clone(), any::<bool>(), 0usize..2, 0u8..16, 0usize..2)
            .prop_map(|(key, varies, language, tags, color)| InvalidationStep::Begin { key, varies, language, tags, color }),
        6 => (0usize..200).prop_map(|fetch| InvalidationStep::Publish { fetch }),
        2 => (0usize..200).prop_map(|fetch| InvalidationStep::Join { fetch }),
        3 => (meant(), mode).prop_map(|(meant, mode)| InvalidationStep::Invalidate { meant, mode }),
        6 => (key, 0usize..2).prop_map(|(key, language)| InvalidationStep::Lookup { key, language }),
        2 => (0usize..80).prop_map(|slots| InvalidationStep::Sweep { slots }),
    ];
    prop::collection::vec(step, 0..250)
}

#[derive(Default)]
struct InvalidationModel {
    /// Newest last.
    stored: Vec<TestPage>,
    fetches: Vec<TestPage>,
    invalidations: Vec<(ModelSelector, Mode)>,
    /// Whether the store has removed all invalidated objects.
    swept: bool,
}

impl InvalidationModel {
    /// The strongest invalidation since the page's fetch began.
    fn invalidated(&self, page: &TestPage) -> Option<Mode> {
        let since = self.invalidations.iter().skip(page.begun as usize);
        since.filter(|(meant, _)| page.is_meant(meant)).map(|(_, mode)| *mode).max()
    }

    fn publish(&mut self, page: TestPage) -> PublishResult {
        let invalidated = self.invalidated(&page);
        if invalidated == Some(Mode::Hard) {
            return PublishResult::Invalidated;
        }
        let place = |page: &TestPage| (key(page.key), page.rule(), page.variant());
        self.stored.retain(|old| place(old) != place(&page));
        self.stored.push(TestPage { softened: invalidated == Some(Mode::Soft), ..page });
        PublishResult::Stored
    }

    /// Applies an invalidation and returns the number of objects that it matches.
    fn invalidate(&mut self, meant: ModelSelector, mode: Mode) -> u64 {
        let is_meant = |page: &TestPage| page.is_meant(&meant);
        let count = self.stored.iter().filter(|page| is_meant(page)).count();
        match mode {
            Mode::Hard => self.stored.retain(|page| !is_meant(page)),
            Mode::Soft => {
                self.stored.iter_mut().filter(|page| is_meant(page)).for_each(|page| page.softened = true);
            }
        }
        self.invalidations.push((meant, mode));
        count as u64
    }

    /// The objects that a look-up may return, newest first.
    fn selected(&self, number: usize, language: usize) -> Vec<&TestPage> {
        let fields = fields(language);
        let of_key = self.stored.iter().rev().filter(|page| key(page.key) == key(number));
        of_key.filter(|page| page.rule().matches(&fields, &page.variant())).collect()
    }
}

fn number_of(object: &Object) -> usize {
    String::from_utf8(object.content().collect::<Vec<_>>().concat()).unwrap().parse().unwrap()
}

/// Runs the steps on a store and the model. `complete` means that the store has room for every
/// object and every invalidation, so that answers must be equal. With too little room for
/// invalidations, some of them are widened.
fn run(limits: StoreLimits, steps: Vec<InvalidationStep>, complete: bool) -> Result<(), TestCaseError> {
    // The list may take a quarter of the memory.
    let exact =
        limits.listed_max >= ROOMY && limits.memory_bytes_max >= StoreLimits::default().memory_bytes_max;
    let (store, mut model) =
        (Store::new(limits, 7), InvalidationModel { swept: true, ..InvalidationModel::default() });
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            InvalidationStep::Begin { key, varies, language, tags, color } => {
                let begun = store.sequence();
                prop_assert_eq!(begun, model.invalidations.len() as u64);
                let page = TestPage { number, key, varies, language, tags, color, begun, softened: false };
                model.fetches.push(page);
            }
            InvalidationStep::Publish { fetch } if !model.fetches.is_empty() => {
                let page = model.fetches[fetch % model.fetches.len()].clone();
                let published = page.publish(&store);
                if exact || published != PublishResult::Invalidated {
                    let expected = model.publish(page);
                    prop_assert!(published == expected || !complete && published == PublishResult::TooLarge);
                }
            }
            InvalidationStep::Join { fetch } if !model.fetches.is_empty() => {
                let page = &model.fetches[fetch % model.fetches.len()];
                let joins = store.may_join(page.begun, &key(page.key), &tags(page.tags), &page.head());
                let may_join = model.invalidated(page).is_none();
                prop_assert!(joins == may_join || !exact && !joins);
            }
            InvalidationStep::Invalidate { meant, mode } => {
                let invalidated = store.invalidate(&Invalidation { selector: meant.selector(), mode });
                let counts_once = match meant {
                    ModelSelector::Tags { any_of, all_of, .. } => (any_of | all_of).count_ones() <= 1,
                    _ => true,
                };
                let expected = model.invalidate(meant, mode);
                prop_assert_eq!(invalidated.sequence, model.invalidations.len() as u64);
                if complete && let Some(objects) = invalidated.objects {
                    prop_assert!(objects >= expected);
                    prop_assert!(objects == expected || !model.swept || !counts_once);
                }
                model.swept = false;
            }
            InvalidationStep::Lookup { key: k, language } => {
                let selected = model.selected(k, language);
                match store.lookup(&key(k), &fields(language)) {
                    Lookup::Found { object, softened } => {
                        let found = number_of(&object);
                        prop_assert!(!complete || selected.first().is_some_and(|page| page.number == found));
                        let known = selected.iter().find(|page| page.number == found);
                        let expected = known.map(|page| page.softened);
                        prop_assert!(expected == Some(softened) || !exact && expected == Some(false));
                    }
                    _ => prop_assert!(!complete || selected.is_empty()),
                }
            }
            InvalidationStep::Sweep { slots } => model.swept |= !store.sweep(slots).more,
            InvalidationStep::Publish { .. } | InvalidationStep::Join { .. } => {}
        }
        let stats = store.stats();
        prop_assert!(stats.bytes - stats.tag_bytes <= limits.memory_bytes_max, "{:?}", stats);
    }
    while store.sweep(10).more {}
    prop_assert_eq!(store.sweep(10).removed, 0);
    prop_assert!(!complete || store.stats().objects == model.stored.len() as u64);
    Ok(())
}

#[test]
fn nothing_is_stored_of_a_retired_site() {
    let store = Store::new(StoreLimits::default(), 7);
    let page = |key, tags| {
        let begun = store.sequence();
        TestPage { number: 0, key, varies: false, language: 0, tags, color: 0, begun, softened: false }
    };
    assert_eq!((key(0).site(), key(12).site()), (SiteId(0), SiteId(1)));
    assert_eq!(page(0, 0).publish(&store), PublishResult::Stored);
    store.retire(SiteId(0));
    assert!(store.has(&key(0)), "only an invalidation removes it");
    for tags in [0, 1] {
        assert_eq!(page(1, tags).publish(&store), PublishResult::Invalidated);
        assert_eq!(page(12, tags).publish(&store), PublishResult::Stored);
    }
    assert!(!store.has(&key(1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn store_agrees_with_the_model(steps in steps()) {
        run(StoreLimits { listed_max: ROOMY, ..StoreLimits::default() }, steps, true)?;
    }

    #[test]
    fn short_list_widens_but_revives_nothing(steps in steps(), listed_max in 1usize..8) {
        run(StoreLimits { listed_max, ..StoreLimits::default() }, steps, false)?;
    }

    #[test]
    fn evicting_store_revives_nothing(steps in steps(), memory in 4_000u64..60_000) {
        let limits = StoreLimits { memory_bytes_max: memory, object_bytes_max: 3_000, variants_max: 2, listed_max: ROOMY };
        run(limits, steps, false)?;
    }
}
