//! A store above a disk. An object evicted from memory is found on the disk. An invalidated
//! object is never found, whether it was in memory, on the disk or in the write queue, and
//! whichever process wrote it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test: a failure is a failure")]

use bytes::Bytes;
use clock::{Monotonic, Timestamp};
use disk::{DiskWriter, OpenedTier, Recovery, Tier, TierSettings};
use invalidation::{Ban, Mode, ResponseView};
use message::{Fields, ResponseHead, Status};
use petasos_store as store;
use platform::SystemDisk;
use profiles::Policy;
use proptest::prelude::*;
use semantics::{Freshness, Moment, VaryRule};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{
    Bans, Body, Examination, ExaminationStep, Invalidation, Key, Lookup, Object, Publication, PublishResult,
    Selector, SiteId, SiteNames, Store, StoreLimits, StoredTemplate,
};

const SITE: SiteId = SiteId(3);

struct DiskSiteNames;

impl SiteNames for DiskSiteNames {
    fn name(&self, site: SiteId) -> Bytes {
        if site == SITE { Bytes::from_static(b"shop") } else { Bytes::new() }
    }

    fn find(&self, name: &[u8]) -> Option<SiteId> {
        (name == b"shop").then_some(SITE)
    }
}

/// A ban on a response's field `Color`.
#[derive(Debug)]
struct Colored(String);

impl Ban for Colored {
    fn matches(&self, stored: &dyn ResponseView) -> bool {
        stored.values(b"Color").contains(&self.0.as_bytes())
    }

    fn text(&self) -> &str {
        &self.0
    }
}

struct ColorBans;

impl Bans for ColorBans {
    fn ban(&self, text: &[u8]) -> Option<Arc<dyn Ban>> {
        Some(Arc::new(Colored(std::str::from_utf8(text).ok()?.to_owned())))
    }
}

/// A store above a directory. The test itself runs the steps of the disk writer.
struct StoreOverDisk {
    store: Store,
    tier: Tier,
    writer: DiskWriter,
    keeper: Box<dyn disk::RetentionPolicy>,
    /// Invalidations of the earlier process that were replayed.
    heard: Vec<(u64, Selector)>,
}

fn now() -> Moment {
    Moment { wall: Timestamp::from_secs(1_000_000), monotonic: Monotonic::from_nanos(5) }
}

impl StoreOverDisk {
    fn open(directory: &Path, life: u64) -> Self {
        Self::sized(directory, life, 64 << 20)
    }

    fn sized(directory: &Path, life: u64, bytes_max: u64) -> Self {
        let settings = TierSettings { directory: directory.to_owned(), bytes_max, ..TierSettings::default() };
        let clock = Arc::new(platform::SystemClock::new());
        let OpenedTier { tier, writer, recovery } =
            disk::open(Arc::new(SystemDisk), clock, settings).unwrap();
        let mut heard = Vec::new();
        let hear = |sequence, selector: &Selector| heard.push((sequence, selector.clone()));
        // One shard, with memory for about four of the larger pages.
        let limits = StoreLimits {
            memory_bytes_max: 100 << 10,
            object_bytes_max: 64 << 10,
            variants_max: 4,
            ..StoreLimits::default()
        };
        let (store, keeper) =
            Store::new(limits, life).above(&tier, &recovery, Arc::new(DiskSiteNames), &ColorBans, life, hear);
        let cache = Self { store, tier, writer, keeper, heard };
        cache.adopt(recovery);
        cache
    }

    fn adopt(&self, recovery: Recovery) {
        recovery.for_each(|recovered| {
            self.store.adopt(&recovered, |_, put| {
                put();
            });
        });
        self.store.end_adoption();
    }

    fn write(&mut self) {
        while self.writer.step(&*self.keeper) == disk::WriterProgress::Worked {}
    }

    /// Ends the process in order: journals all invalidations and loses the memory.
    fn end(mut self) {
        self.persist();
        self.tier.close();
        while self.writer.step(&*self.keeper) != disk::WriterProgress::Closed {}
    }

    /// Journals invalidations while the writer runs, as its thread would.
    fn persist(&mut self) {
        std::thread::scope(|scope| {
            let persisted = scope.spawn(|| self.store.persist());
            while !persisted.is_finished() {
                self.writer.step(&*self.keeper);
            }
            persisted.join().unwrap().unwrap();
        });
    }

    fn publish(&self, page: usize, version: u32, content_bytes: usize, tags: &[Bytes]) -> PublishResult {
        let content = vec![letter(version); content_bytes];
        self.publish_body(page, version, Body::copy_of(&content), tags)
    }

    /// Revalidates the stored page as a new version with the same content. `None` if the page is
    /// not stored.
    fn confirm(&self, page: usize, version: u32, tags: &[Bytes]) -> Option<PublishResult> {
        let (object, _) = self.find(page)?;
        Some(self.publish_body(page, version, object.body(), tags))
    }

    fn publish_body(&self, page: usize, version: u32, body: Body, tags: &[Bytes]) -> PublishResult {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("Color", COLORS[page % 2]);
        head.fields.push("Version", version.to_string());
        let freshness = Freshness::lasting(Duration::from_secs(100), now());
        let prebuilt = format!("HTTP/1.1 200 OK\r\nColor: {}\r\n", COLORS[page % 2]);
        let object = Object::new(&head, prebuilt.as_bytes(), body, freshness);
        let rule = VaryRule::from_response(&Fields::new(), &Policy::default_profile()).unwrap();
        let variant = rule.key(&Fields::new());
        let begun = self.store.sequence();
        let key = &key(page);
        let object = Arc::new(object);
        self.store.publish(Publication { key, rule, variant, object, tags, begun })
    }

    /// The stored object, read from the disk if necessary, and whether it was softly invalidated.
    fn find(&self, page: usize) -> Option<(Arc<Object>, bool)> {
        let key = key(page);
        let mut found = self.store.lookup(&key, &Fields::new());
        if let Lookup::Shelved(shelved) = found {
            found = self.store.load(&key, shelved, |_| true, Object::as_encodable, now());
        }
        let Lookup::Found { object, softened } = found else { return None };
        Some((object, softened))
    }

    /// The response to a request: its version, and whether it was softly invalidated.
    fn get(&self, page: usize) -> Option<(u32, bool)> {
        let (object, softened) = self.find(page)?;
        let version = object.head().fields.first("Version").unwrap().to_vec();
        let version: u32 = std::str::from_utf8(&version).unwrap().parse().unwrap();
        let content = match object.on_disk() {
            Some(body) => {
                assert_eq!(body.check(0, body.len() as usize).unwrap(), body.len());
                let range = body.unchecked_range().unwrap();
                let mut octets = vec![0; body.len() as usize];
                range.file.read_exact_at(&mut octets, range.offset).unwrap();
                octets
            }
            None => object.content().collect::<Vec<_>>().concat(),
        };
        assert!(content.iter().all(|octet| *octet == letter(version)));
        assert_eq!(object.head().fields.first("Color").unwrap(), COLORS[page % 2]);
        assert_eq!(object.freshness().lifetime, Duration::from_secs(100));
        Some((version, softened))
    }

    fn invalidate(&self, selector: Selector, mode: Mode) {
        self.store.invalidate(&Invalidation { selector, mode });
    }
}

const COLORS: [&str; 2] = ["red", "green"];

fn key(page: usize) -> Key {
    Key::new(SITE, page.is_multiple_of(3), b"shop.test", Bytes::from(format!("/page/{page}")))
}

/// The byte that the content of a version consists of.
fn letter(version: u32) -> u8 {
    b'a' + (version % LETTERS) as u8
}

/// Versions that differ by a multiple of this have the same content.
const LETTERS: u32 = 26;

fn tag(number: usize) -> Bytes {
    Bytes::from(format!("tag-{number}"))
}

#[test]
fn evicted_object_is_found_on_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..40 {
        assert_eq!(cache.publish(page, page as u32, 20_000, &[]), PublishResult::Stored);
        cache.write();
    }
    let stats = cache.store.stats();
    assert!(stats.objects == 40 && stats.shelved > 30 && stats.bytes <= 100 << 10, "{stats:?}");
    for page in (0..40).chain(0..40).rev() {
        assert_eq!(cache.get(page), Some((page as u32, false)));
    }
    assert_eq!(cache.store.stats().objects, 40);
}

#[test]
fn replaced_or_removed_object_leaves_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for version in 0..20 {
        cache.publish(1, version, 20_000, &[]);
        cache.publish(2, version, 20_000, &[tag(1)]);
        cache.write();
    }
    assert_eq!(cache.tier.figures().objects, 2);
    cache.store.remove(&key(1));
    cache.invalidate(Selector::Tags { site: SITE, any_of: vec![tag(1)], all_of: Vec::new() }, Mode::Hard);
    assert_eq!((cache.get(1), cache.get(2)), (None, None));
    cache.write();
    assert_eq!((cache.tier.figures().objects, cache.store.stats().objects), (0, 0));
}

#[test]
fn ban_on_a_disk_object_is_decided_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..10 {
        cache.publish(page, 1, 20_000, &[]);
        cache.write();
    }
    cache.invalidate(Selector::Ban { site: SITE, ban: Arc::new(Colored("green".to_owned())) }, Mode::Hard);
    cache.store.sweep(1_000);
    // Some pages are looked up in this process. The next process reads the others when it adopts
    // them.
    let red = |page: &usize| page.is_multiple_of(2);
    assert!((0..5).all(|page| cache.get(page).is_some() == red(&page)));
    cache.end();
    let cache = StoreOverDisk::open(directory.path(), 2);
    assert!((0..10).all(|page| cache.get(page).is_some() == red(&page)));
}

#[derive(Clone, Debug)]
enum StoreAct {
    Publish { page: usize, large: bool, tag: usize },
    Get { page: usize },
    Confirm { page: usize, tag: usize },
    Tags { tag: usize, soft: bool },
    Target { page: usize },
    Prefix { page: usize },
    Ban,
    Everything,
    Write,
    Sweep,
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<StoreAct>> {
    let page = 0..12usize;
    let act = prop_oneof![
        8 => (page.clone(), any::<bool>(), 0..3usize).prop_map(|(page, large, tag)| StoreAct::Publish { page, large, tag }),
        8 => page.clone().prop_map(|page| StoreAct::Get { page }),
        4 => (page.clone(), 0..3usize).prop_map(|(page, tag)| StoreAct::Confirm { page, tag }),
        1 => (0..3usize, any::<bool>()).prop_map(|(tag, soft)| StoreAct::Tags { tag, soft }),
        1 => page.clone().prop_map(|page| StoreAct::Target { page }),
        1 => page.prop_map(|page| StoreAct::Prefix { page }),
        1 => Just(StoreAct::Ban),
        1 => Just(StoreAct::Everything),
        4 => Just(StoreAct::Write),
        1 => Just(StoreAct::Sweep),
        2 => Just(StoreAct::Restart),
    ];
    prop::collection::vec(act, 1..60)
}

/// For each page that may be used: its newest version, its tag, and whether it was softly
/// invalidated.
#[derive(Default)]
struct ShelvedModel {
    pages: [Option<(u32, usize, bool)>; 12],
}

impl ShelvedModel {
    fn invalidate(&mut self, soft: bool, is_meant: impl Fn(usize, usize) -> bool) {
        for (page, known) in self.pages.iter_mut().enumerate() {
            match known {
                Some((_, tag, softened)) if is_meant(page, *tag) => {
                    if soft {
                        *softened = true;
                    } else {
                        *known = None;
                    }
                }
                _ => {}
            }
        }
    }
}

fn play(acts: Vec<StoreAct>) {
    let directory = tempfile::tempdir().unwrap();
    let mut life = 1;
    let mut version = 0;
    let mut cache = StoreOverDisk::open(directory.path(), life);
    let mut model = ShelvedModel::default();
    for act in acts {
        match act {
            StoreAct::Publish { page, large, tag: number } => {
                // The version must be above all revalidated ones too.
                version =
                    1 + model.pages.iter().flatten().map(|known| known.0).max().unwrap_or(0).max(version);
                let content_bytes = if large { 25_000 } else { 300 };
                assert_eq!(
                    cache.publish(page, version, content_bytes, &[tag(number)]),
                    PublishResult::Stored
                );
                model.pages[page] = Some((version, number, false));
            }
            StoreAct::Get { page } => {
                // The page may have been evicted everywhere. If it is found, it must be the newest
                // version and not invalidated.
                if let Some((version, softened)) = cache.get(page) {
                    let known = model.pages[page].map(|(version, _, softened)| (version, softened));
                    assert_eq!(Some((version, softened)), known, "page {page}");
                }
            }
            StoreAct::Confirm { page, tag: number } => {
                let known = model.pages[page].map_or(0, |(version, ..)| version);
                if let Some(published) = cache.confirm(page, known + LETTERS, &[tag(number)]) {
                    assert_eq!(published, PublishResult::Stored);
                    model.pages[page] = Some((known + LETTERS, number, false));
                }
            }
            StoreAct::Tags { tag: number, soft } => {
                let mode = if soft { Mode::Soft } else { Mode::Hard };
                let any_of = vec![tag(number)];
                cache.invalidate(Selector::Tags { site: SITE, any_of, all_of: Vec::new() }, mode);
                model.invalidate(soft, |_, tag| tag == number);
            }
            StoreAct::Target { page } => {
                let target = Bytes::from(format!("/page/{page}"));
                let selector = Selector::Target { site: SITE, host: "shop.test".into(), target };
                cache.invalidate(selector, Mode::Hard);
                model.invalidate(false, |known, _| known == page);
            }
            StoreAct::Prefix { page } => {
                let prefix = format!("/page/{page}");
                let selector =
                    Selector::Prefix { site: SITE, host: "shop.test".into(), prefix: prefix.clone().into() };
                cache.invalidate(selector, Mode::Hard);
                model.invalidate(false, |known, _| format!("/page/{known}").starts_with(&prefix));
            }
            StoreAct::Ban => {
                let ban = Arc::new(Colored("red".to_owned()));
                cache.invalidate(Selector::Ban { site: SITE, ban }, Mode::Hard);
                model.invalidate(false, |page, _| page.is_multiple_of(2));
            }
            StoreAct::Everything => {
                cache.invalidate(Selector::Everything { site: None }, Mode::Hard);
                model.invalidate(false, |_, _| true);
            }
            StoreAct::Write => cache.write(),
            StoreAct::Sweep => drop(cache.store.sweep(1_000)),
            StoreAct::Restart => {
                cache.end();
                life += 1;
                cache = StoreOverDisk::open(directory.path(), life);
            }
        }
    }
    cache.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn invalidated_object_never_comes_back(acts in acts()) {
        play(acts);
    }
}

#[test]
fn revalidated_disk_object_keeps_its_new_head() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    let push_out = |cache: &mut StoreOverDisk| {
        for page in 1..10 {
            cache.publish(page, 1, 20_000, &[]);
            cache.write();
        }
    };
    let by_tag = |number| Selector::Tags { site: SITE, any_of: vec![tag(number)], all_of: Vec::new() };
    cache.publish(0, 1, 20_000, &[tag(1)]);
    push_out(&mut cache);
    cache.invalidate(Selector::Everything { site: None }, Mode::Soft);
    assert_eq!(cache.get(0), Some((1, true)));
    assert!(cache.find(0).unwrap().0.on_disk().is_some());
    assert_eq!(cache.confirm(0, 1 + LETTERS, &[tag(2)]), Some(PublishResult::Stored));
    assert_eq!(cache.get(0), Some((1 + LETTERS, false)));
    // The page is evicted and read again: first by this process, then by later ones, which start
    // without its memory.
    push_out(&mut cache);
    assert_eq!(cache.get(0), Some((1 + LETTERS, false)));
    assert_eq!(cache.tier.figures().written, 19, "its body is not written again");
    cache.end();
    let mut cache = StoreOverDisk::open(directory.path(), 2);
    assert_eq!(cache.get(0), Some((1 + LETTERS, false)));
    cache.invalidate(by_tag(1), Mode::Hard);
    assert_eq!(cache.get(0), Some((1 + LETTERS, false)));
    cache.invalidate(by_tag(2), Mode::Soft);
    cache.persist();
    cache.end();
    let cache = StoreOverDisk::open(directory.path(), 3);
    assert_eq!(cache.get(0), Some((1 + LETTERS, true)));
    cache.invalidate(by_tag(2), Mode::Hard);
    assert_eq!(cache.get(0), None);
    cache.end();
    assert_eq!(StoreOverDisk::open(directory.path(), 4).get(0), None);
}

#[test]
fn object_is_dropped_if_the_disk_refuses_its_new_head() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    cache.publish(0, 1, 20_000, &[]);
    for page in 1..10 {
        cache.publish(page, 1, 20_000, &[]);
        cache.write();
    }
    let objects = cache.tier.figures().objects;
    // These tags exceed the largest index entry.
    let tags: Vec<Bytes> = (0..70).map(|number| Bytes::from(format!("{number:01000}"))).collect();
    assert_eq!(cache.confirm(0, 1 + LETTERS, &tags), Some(PublishResult::TooLarge));
    assert_eq!(cache.get(0), None);
    cache.write();
    assert_eq!(cache.tier.figures().objects, objects - 1);
}

#[test]
fn object_evicted_during_its_write_is_found_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..40 {
        assert_eq!(cache.publish(page, page as u32, 20_000, &[]), PublishResult::Stored);
    }
    cache.invalidate(Selector::Host { site: SITE, host: "other.test".into() }, Mode::Hard);
    cache.store.remove(&key(7));
    cache.write();
    let found: Vec<bool> = (0..40).map(|page| cache.get(page) == Some((page as u32, false))).collect();
    assert!(found.iter().enumerate().all(|(page, is_there)| *is_there == (page != 7)), "{found:?}");
    assert_eq!(cache.tier.figures().objects, 39);
}

#[test]
fn object_too_large_for_memory_evicts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..10 {
        cache.publish(page, page as u32, 20_000, &[]);
        cache.write();
    }
    // The memory becomes too small for this page. It is sent from the disk, and no other page is
    // evicted for it.
    assert_eq!(cache.publish(30, 1, 64_000, &[]), PublishResult::Stored);
    cache.store.fit(200 << 10, 100 << 10);
    cache.write();
    assert_eq!(cache.get(30), Some((1, false)));
    assert!((0..10).all(|page| cache.get(page) == Some((page as u32, false))));
    assert_eq!(cache.store.stats().objects, 11);
}

/// Changes one byte of the content of this version on the disk.
fn damage(directory: &Path, version: u32) {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let run = [letter(version); 15_000];
    let damaged = files.filter(|path| path.extension().is_some_and(|name| name == "data")).any(|path| {
        let mut content = std::fs::read(&path).unwrap();
        let Some(at) = content.windows(run.len()).position(|octets| octets == run) else { return false };
        content[at] ^= 1;
        // In place, so that processes with an open file see the change.
        std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&content, 0).unwrap();
        true
    });
    assert!(damaged, "the content is on the disk");
}

#[test]
fn damaged_body_is_removed_and_no_revalidation_revives_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..10 {
        cache.publish(page, page as u32, 20_000, &[]);
        cache.write();
    }
    let object = cache.find(0).unwrap().0;
    let body = object.on_disk().unwrap();
    body.was_read();
    assert!(body.file_range().is_some());
    let before = cache.tier.figures().objects;
    cache.store.forget_damaged(body);
    assert!(body.file_range().is_none(), "sending from the file stops");
    assert!(cache.find(0).is_none());
    assert_eq!(cache.publish_body(0, LETTERS, object.body(), &[]), PublishResult::Displaced);
    assert!(cache.find(0).is_none());
    assert_eq!(cache.tier.figures().objects, before - 1);
    cache.store.forget_damaged(body);
    assert_eq!(cache.get(1), Some((1, false)));
}

/// Walks once over the disk. Returns the number of intact bytes and of damaged responses.
fn examine(cache: &StoreOverDisk) -> (u64, u32) {
    let mut walk = Examination::default();
    let mut bytes = 0;
    let mut damaged = 0;
    loop {
        match walk.step(&cache.store, 70_000) {
            ExaminationStep::Sound(more) => bytes += more,
            ExaminationStep::Damaged => damaged += 1,
            ExaminationStep::End => return (bytes, damaged),
        }
    }
}

#[test]
fn examination_finds_damage_before_a_look_up() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    assert_eq!(examine(&cache), (0, 0));
    for page in 0..10 {
        cache.publish(page, page as u32, 20_000, &[]);
        cache.write();
    }
    let (bytes, damaged) = examine(&cache);
    assert!(damaged == 0 && (200_000..210_000).contains(&bytes), "{bytes} bytes, {damaged} damaged");
    // Page 0 is on the disk only, page 1 is also being sent from there, page 10 is also in memory.
    let sent = cache.find(1).unwrap().0;
    sent.on_disk().unwrap().was_read();
    cache.publish(10, 10, 20_000, &[]);
    cache.write();
    assert!(cache.find(10).unwrap().0.on_disk().is_none());
    [0, 1, 10].into_iter().for_each(|version| damage(directory.path(), version));
    assert_eq!(examine(&cache).1, 3);
    let (bytes, damaged) = examine(&cache);
    assert!(damaged == 0 && (160_000..170_000).contains(&bytes), "{bytes} bytes, {damaged} damaged");
    assert!(cache.find(0).is_none() && cache.find(1).is_none());
    assert!(sent.on_disk().unwrap().file_range().is_none());
    assert_eq!(cache.get(10), Some((10, false)), "its body is in memory");
    cache.end();
    let cache = StoreOverDisk::open(directory.path(), 2);
    assert_eq!(cache.get(10), None, "its copy on the disk was removed");
    assert_eq!(cache.get(9), Some((9, false)));
}

#[test]
fn popular_disk_body_is_never_in_an_unlinked_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::sized(directory.path(), 1, 2 << 20);
    let mut found = 0;
    for page in 0..300 {
        cache.publish(page, page as u32, 20_000, &[]);
        cache.write();
        if page < 10 {
            // Page 0 has not left memory yet.
            continue;
        }
        // The look-up keeps page 0 in demand, so it is written again when its segment is evicted.
        let Some((object, _)) = cache.find(0) else { continue };
        let Some(body) = object.on_disk() else { continue };
        body.was_read();
        let names = body.file_range().unwrap().file.metadata().unwrap().nlink();
        assert_eq!(names, 1, "after page {page}");
        found += 1;
    }
    assert!(found > 100 && cache.tier.figures().kept > 0, "{found}, {:?}", cache.tier.figures());
}

#[test]
fn renewed_object_is_refused_if_its_body_was_moved_or_lost() {
    for is_wanted in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut cache = StoreOverDisk::sized(directory.path(), 1, 2 << 20);
        for page in 0..10 {
            cache.publish(page, page as u32, 20_000, &[]);
            cache.write();
        }
        let (object, _) = cache.find(0).unwrap();
        let body = object.on_disk().unwrap();
        body.was_read();
        let is_unlinked = || body.file_range().unwrap().file.metadata().unwrap().nlink() == 0;
        for page in (10..300).take_while(|_| !is_unlinked()) {
            cache.publish(page, page as u32, 20_000, &[]);
            cache.write();
            // Only an object in memory is written again when its segment is evicted.
            if is_wanted {
                cache.find(0);
            }
        }
        assert!(is_unlinked());
        assert_eq!(cache.publish_body(0, LETTERS, object.body(), &[]), PublishResult::Displaced);
        assert_eq!(cache.get(0), is_wanted.then_some((0, false)));
        if is_wanted {
            assert_eq!(cache.confirm(0, LETTERS, &[]), Some(PublishResult::Stored));
            assert_eq!(cache.get(0), Some((LETTERS, false)));
        }
    }
}

#[test]
fn template_on_the_disk_is_left_to_its_delivery() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..10 {
        cache.publish(page, page as u32, 20_000, &[]);
        cache.write();
    }
    let (shelved, _) = cache.find(0).unwrap();
    assert!(shelved.on_disk().is_some());
    let mut head = shelved.head();
    head.fields.push("Surrogate-Control", "content=\"ESI/1.0\"");
    let template = Object::new(&head, b"", shelved.body(), shelved.freshness()).as_template(false);
    assert!(matches!(template.template(), Some(StoredTemplate::OnDisk)));
}

#[test]
fn objects_of_a_lost_segment_stay_only_if_memory_has_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = StoreOverDisk::open(directory.path(), 1);
    for page in 0..10 {
        cache.publish(page, page as u32, 20_000, &[]);
        cache.write();
    }
    assert!(cache.find(0).unwrap().0.on_disk().is_some(), "its body is read from the disk");
    // The first segment holds all pages.
    cache.keeper.lost_all(2);
    assert_eq!(cache.store.stats().objects, 10);
    cache.keeper.lost_all(1);
    let stats = cache.store.stats();
    assert!(stats.shelved == 0 && (1..10).contains(&stats.objects), "{stats:?}");
    assert_eq!(cache.get(0), None);
    let found = (1..10).filter(|page| cache.get(*page) == Some((*page as u32, false))).count();
    assert_eq!(found as u64, stats.objects);
}

#[test]
fn invalidations_of_an_earlier_process_are_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let cache = StoreOverDisk::open(directory.path(), 1);
    let target = || Selector::Target { site: SITE, host: "shop.test".into(), target: "/a".into() };
    cache.invalidate(target(), Mode::Hard);
    let sequence = cache.store.sequence();
    cache.end();
    let cache = StoreOverDisk::open(directory.path(), 2);
    assert!(matches!(&cache.heard[..], [(heard, Selector::Target { target, .. })]
        if *heard == sequence && target == "/a"));
}
