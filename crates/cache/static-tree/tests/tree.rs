//! Tests of the tree with a real directory and a real store: which files are written, removed, and
//! left alone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use bytes::Bytes;
use clock::{Clock, ManualClock, Timestamp};
use flate2::read::GzDecoder;
use invalidation::Mode;
use message::{Fields, ResponseHead, Status};
use petasos_static_tree::{Candidate, DirectoryError, Layout, Tree, TreeFigures, TreeLimits, TreeRefusal};
use semantics::{Freshness, Moment, VaryRule};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;
use store::{
    Body, Invalidation, Key, Object, Publication, PublishResult, Selector, SiteId, Store, StoreLimits,
};
use tempfile::TempDir;

const LIMITS: TreeLimits = TreeLimits { pages_max: 3, bytes_max: 1 << 20 };
const SITE: SiteId = SiteId(0);

/// A tree with a running writer, its store and its clock.
struct TreeFixture {
    directory: TempDir,
    tree: Arc<Tree>,
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    said: Arc<Mutex<Vec<Result<(), String>>>>,
    writer: Option<JoinHandle<()>>,
}

impl TreeFixture {
    fn new() -> Self {
        Self::within(LIMITS)
    }

    fn within(limits: TreeLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = Arc::new(Tree::open(directory.path(), limits).unwrap());
        let store = Arc::new(Store::new(StoreLimits::default(), 1));
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let mut stage = Self { directory, tree, store, clock, said: Arc::default(), writer: None };
        stage.run();
        stage
    }

    fn run(&mut self) {
        let (tree, store, clock, said) =
            (self.tree.clone(), self.store.clone(), self.clock.clone(), self.said.clone());
        let report = move |state: Result<(), &str>| said.lock().unwrap().push(state.map_err(str::to_owned));
        self.writer = Some(std::thread::spawn(move || tree.run(&store, &*clock, &report)));
    }

    fn now(&self) -> Moment {
        Moment::read(&*self.clock)
    }

    fn page(&self, body: &[u8], seconds: u64, fields: &[(&'static str, &'static str)]) -> Arc<Object> {
        let mut head = ResponseHead::new(Status::OK);
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        let freshness = Freshness::lasting(Duration::from_secs(seconds), self.now());
        Arc::new(Object::new(&head, b"", Body::copy_of(body), freshness))
    }

    /// Stores and offers a page whose fetch began at the sequence number `begun`.
    fn publish(&self, key: &Key, object: &Arc<Object>, tags: &[Bytes], begun: u64) -> PublishResult {
        let rule = VaryRule::default();
        let variant = rule.key(&Fields::new());
        let publication =
            Publication { key, rule: rule.clone(), variant, object: object.clone(), tags, begun };
        let published = self.store.publish(publication);
        let candidate = Candidate { key, rule: &rule, object, tags, begun };
        self.tree.offer(Layout::Typo3, &candidate, self.now());
        published
    }

    fn publish_page(&self, target: &'static str, body: &[u8]) {
        let object = self.page(body, 60, &[HTML]);
        assert_eq!(self.publish(&key(target), &object, &[], self.store.sequence()), PublishResult::Stored);
    }

    fn invalidate(&self, selector: Selector, mode: Mode) {
        let done = self.store.invalidate(&Invalidation { selector: selector.clone(), mode });
        self.tree.hear(done.sequence, &selector);
        self.tree.lose(&self.store);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn await_figures(&self, what: &str, is: impl Fn(TreeFigures) -> bool) {
        for _ in 0..2_000 {
            if is(self.tree.figures()) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        panic!("{what}: {:?}", self.tree.figures());
    }

    fn await_pages(&self, pages: u64) {
        self.await_figures("pages", |figures| figures.pages == pages);
    }

    fn await_refused(&self, refusal: TreeRefusal) {
        self.await_figures("a refusal", |figures| figures.refused(refusal) == 1);
    }

    /// Ends the writer after it has done all queued work.
    fn end(&mut self) {
        self.tree.end();
        if let Some(writer) = self.writer.take() {
            writer.join().unwrap();
        }
    }
}

impl Drop for TreeFixture {
    fn drop(&mut self) {
        self.tree.end();
        if let Some(writer) = self.writer.take() {
            // The panic of the test itself is the message to read, so the writer's is ignored.
            let _ = writer.join();
        }
    }
}

const HTML: (&str, &str) = ("Content-Type", "text/html; charset=utf-8");

fn key(target: &'static str) -> Key {
    Key::new(SITE, false, b"a.test", Bytes::from_static(target.as_bytes()))
}

fn target(target: &'static str) -> Selector {
    Selector::Target { site: SITE, host: "a.test".into(), target: target.into() }
}

/// The files below a directory, except those in `.petasos`.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in std::fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.retain(|path| !path.starts_with(".petasos/"));
    found.sort();
    found
}

#[test]
fn page_is_written_in_three_codings_with_one_mtime() {
    let stage = TreeFixture::new();
    let body = "<p>hello</p>".repeat(50);
    stage.publish_page("/a/b", body.as_bytes());
    stage.await_pages(1);
    let names = ["http_a.test_80/a/b/index", "http_a.test_80/a/b/index.br", "http_a.test_80/a/b/index.gz"];
    assert_eq!(files(stage.directory.path()), names);
    assert_eq!(std::fs::read(stage.path(names[0])).unwrap(), body.as_bytes());
    let mut read = String::new();
    brotli::Decompressor::new(std::fs::File::open(stage.path(names[1])).unwrap(), 4096)
        .read_to_string(&mut read)
        .unwrap();
    GzDecoder::new(std::fs::File::open(stage.path(names[2])).unwrap()).read_to_string(&mut read).unwrap();
    assert_eq!(read, body.repeat(2));
    let changed = names.map(|name| std::fs::metadata(stage.path(name)).unwrap().modified().unwrap());
    assert_eq!(changed, [stage.clock.now().to_system_time(); 3]);
    let figures = stage.tree.figures();
    let bytes: u64 = names.iter().map(|name| std::fs::metadata(stage.path(name)).unwrap().len()).sum();
    assert_eq!((figures.bytes, figures.written), (bytes, 1));
}

#[test]
fn coded_responses_are_decoded_and_useless_codings_left_out() {
    let stage = TreeFixture::new();
    stage.publish_page("/a", "<p>hello</p>".repeat(50).as_bytes());
    stage.await_pages(1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"short").unwrap();
    let object = stage.page(&gzip.finish().unwrap(), 60, &[HTML, ("Content-Encoding", "gzip")]);
    stage.publish(&key("/a"), &object, &[], 0);
    stage.await_figures("both", |figures| figures.written == 2);
    assert_eq!(files(stage.directory.path()), ["http_a.test_80/a/index"]);
    assert_eq!(std::fs::read(stage.path("http_a.test_80/a/index")).unwrap(), b"short");
    let object = stage.page(b"no gzip", 60, &[HTML, ("Content-Encoding", "gzip")]);
    stage.publish(&key("/a"), &object, &[], 0);
    stage.await_refused(TreeRefusal::NoPage);
    stage.await_pages(0);
}

#[test]
fn refused_response_removes_the_older_page() {
    let refused = |refusal, make: &dyn Fn(&TreeFixture) -> (Arc<Object>, VaryRule)| {
        let stage = TreeFixture::new();
        stage.publish_page("/a", b"older");
        stage.await_pages(1);
        let (object, rule) = make(&stage);
        let key = key("/a");
        stage.tree.offer(
            Layout::Typo3,
            &Candidate { key: &key, rule: &rule, object: &object, tags: &[], begun: 0 },
            stage.now(),
        );
        stage.await_refused(refusal);
        stage.await_pages(0);
        assert!(files(stage.directory.path()).is_empty(), "{refusal:?}");
    };
    let anyone = VaryRule::default;
    let of = |name: &'static str| VaryRule::of_names(vec![name.into()], false);
    refused(TreeRefusal::NotForAll, &|stage| (stage.page(b"x", 60, &[HTML]), of("cookie")));
    refused(TreeRefusal::NotForAll, &|stage| {
        (stage.page(b"x", 60, &[HTML, ("Set-Cookie", "a=b")]), anyone())
    });
    refused(TreeRefusal::ShortLived, &|stage| (stage.page(b"x", 5, &[HTML]), anyone()));
    refused(TreeRefusal::NoPage, &|stage| {
        (stage.page(b"x", 60, &[HTML, ("Content-Disposition", "attachment")]), anyone())
    });
    refused(TreeRefusal::NoPage, &|stage| (stage.page(b"x", 60, &[("Content-Type", "text/css")]), anyone()));
    refused(TreeRefusal::NoPage, &|stage| {
        (stage.page(b"\xff", 60, &[("Content-Type", "text/html")]), anyone())
    });
    refused(TreeRefusal::NoPage, &|stage| {
        let freshness = Freshness::lasting(Duration::from_secs(60), stage.now());
        let mut head = ResponseHead::new(Status::NOT_FOUND);
        head.fields.push(HTML.0, HTML.1);
        (Arc::new(Object::new(&head, b"", Body::copy_of(b"x"), freshness)), anyone())
    });
    let stage = TreeFixture::new();
    let object = stage.page("é".as_bytes(), 60, &[("Content-Type", "text/html")]);
    let key = key("/a");
    let candidate =
        Candidate { key: &key, rule: &of("accept-encoding"), object: &object, tags: &[], begun: 0 };
    stage.tree.offer(Layout::Typo3, &candidate, stage.now());
    stage.await_pages(1);
}

#[test]
fn every_kind_of_invalidation_removes_its_files_at_once() {
    let tag = || vec![Bytes::from_static(b"t")];
    let host = || Bytes::from_static(b"a.test");
    let kinds = [
        (target("/a"), Mode::Hard),
        (target("/a"), Mode::Soft),
        // In this layout, the same file answers the target with a final slash.
        (target("/a/"), Mode::Hard),
        (Selector::Prefix { site: SITE, host: host(), prefix: "/a".into() }, Mode::Hard),
        (Selector::Host { site: SITE, host: host() }, Mode::Hard),
        (Selector::Tags { site: SITE, any_of: tag(), all_of: vec![] }, Mode::Hard),
        (Selector::Tags { site: SITE, any_of: vec![], all_of: tag() }, Mode::Soft),
        (Selector::Everything { site: Some(SITE) }, Mode::Hard),
        (Selector::Everything { site: None }, Mode::Hard),
    ];
    for (selector, mode) in kinds {
        let stage = TreeFixture::new();
        let object = stage.page(b"a", 60, &[HTML]);
        stage.publish(&key("/a"), &object, &tag(), 0);
        stage.await_pages(1);
        let others = [
            target("/b"),
            Selector::Prefix { site: SITE, host: host(), prefix: "/ab".into() },
            Selector::Tags { site: SITE, any_of: vec!["u".into()], all_of: vec![] },
            Selector::Everything { site: Some(SiteId(1)) },
        ];
        others.into_iter().for_each(|other| stage.invalidate(other, Mode::Hard));
        assert_eq!(files(stage.directory.path()), ["http_a.test_80/a/index"], "{selector:?}");
        let told = format!("{selector:?}");
        stage.invalidate(selector, mode);
        assert!(files(stage.directory.path()).is_empty(), "{told}");
        assert_eq!(stage.tree.figures().pages, 0);
    }
}

#[test]
fn fetch_older_than_an_invalidation_is_not_written() {
    let mut stage = TreeFixture::new();
    let object = stage.page(b"old", 60, &[HTML]);
    let begun = stage.store.sequence();
    stage.invalidate(target("/a"), Mode::Hard);
    assert_eq!(stage.publish(&key("/a"), &object, &[], begun), PublishResult::Invalidated);
    stage.publish_page("/b", b"new");
    stage.end();
    assert_eq!(files(stage.directory.path()), ["http_a.test_80/b/index"]);
}

#[test]
fn concurrent_publish_and_purge_leave_no_file() {
    let stage = TreeFixture::new();
    let body = "<p>hello</p>".repeat(20);
    let page = stage.path("http_a.test_80/a/index");
    for round in 0..400_u64 {
        let object = stage.page(body.as_bytes(), 60, &[HTML]);
        stage.publish(&key("/a"), &object, &[], stage.store.sequence());
        match round % 8 {
            0 => stage.await_pages(1),
            // Pauses of different lengths, so that purges hit different stages of the writing.
            part => sleep(Duration::from_micros(part * part * 100)),
        }
        stage.invalidate(target("/a"), Mode::Hard);
        assert!(!page.exists() && !page.with_extension("gz").exists(), "round {round}");
        if round % 8 > 4 {
            // A write in progress during the purge must not finish after it either.
            stage.publish_page("/b", b"b");
            stage.await_pages(1);
            assert!(!page.exists(), "round {round}");
            stage.invalidate(target("/b"), Mode::Hard);
        }
    }
}

#[test]
fn expired_and_withdrawn_pages_are_removed() {
    let stage = TreeFixture::new();
    stage.publish_page("/a", b"a");
    let longer = stage.page(b"b", 120, &[HTML]);
    stage.publish(&key("/b"), &longer, &[], 0);
    stage.await_pages(2);
    stage.clock.advance(Duration::from_secs(60));
    stage.await_pages(1);
    assert_eq!(files(stage.directory.path()), ["http_a.test_80/b/index"]);
    stage.tree.withdraw(Layout::Typo3, &key("/b/"));
    stage.tree.withdraw(Layout::Typo3, &key("/c"));
    stage.tree.withdraw(Layout::Typo3, &key("/b"));
    stage.await_pages(0);
    assert_eq!(stage.tree.figures().removed, 2);
}

#[test]
fn place_belongs_to_the_first_page() {
    let stage = TreeFixture::new();
    stage.publish_page("/a", b"first");
    stage.await_pages(1);
    stage.publish_page("/a/", b"second");
    stage.await_refused(TreeRefusal::Path);
    stage.publish_page("/a", b"newer");
    stage.await_figures("both", |figures| figures.written == 2);
    assert_eq!(std::fs::read(stage.path("http_a.test_80/a/index")).unwrap(), b"newer");
}

#[test]
fn pages_and_bytes_are_limited() {
    let stage = TreeFixture::new();
    for target in ["/a", "/b", "/c", "/d"] {
        stage.publish_page(target, b"x");
    }
    stage.await_refused(TreeRefusal::Full);
    assert_eq!(stage.tree.figures().pages, 3);
    stage.publish_page("/c", b"y");
    stage.await_figures("a newer one", |figures| figures.written == 4);
    let stage = TreeFixture::within(TreeLimits { pages_max: 10, bytes_max: 100 });
    stage.publish_page("/a", &[b'x'; 40]);
    // Random-looking text, which no coding makes much shorter.
    stage.publish_page("/b", b"q8Zt1LmXw0aBv7Cy2DnEr5FgHj3KsPiUoQeRtYuIpAkSlDzXcVbN4M6T9GhJfW");
    stage.await_refused(TreeRefusal::Full);
    assert_eq!(files(stage.directory.path()).iter().filter(|name| name.contains("/b/")).count(), 0);
}

#[test]
fn tree_that_was_given_up_changes_no_file_of_the_next() {
    let old = TreeFixture::new();
    old.publish_page("/a", b"old");
    old.await_pages(1);
    assert!(old.tree.give_up());
    assert_eq!(files(old.directory.path()).len(), 0, "purges reach no page of it any more");
    let new = Tree::open(old.directory.path(), LIMITS).unwrap();
    let page = old.directory.path().join("http_a.test_80/a/index");
    std::fs::create_dir_all(page.parent().unwrap()).unwrap();
    std::fs::write(&page, "of the next process").unwrap();
    old.publish_page("/a", b"late");
    let everything = Invalidation { selector: Selector::Everything { site: None }, mode: Mode::Hard };
    old.store.invalidate(&everything);
    assert!(old.tree.lose(&old.store));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "of the next process");
    drop(new);
}

#[test]
fn new_process_removes_listed_pages_and_nothing_else() {
    let mut stage = TreeFixture::new();
    stage.publish_page("/a/b", "<p>hello</p>".repeat(50).as_bytes());
    stage.await_pages(1);
    assert!(matches!(Tree::open(stage.directory.path(), LIMITS), Err(DirectoryError::Busy(_))));
    stage.end();
    let directory = std::mem::replace(&mut stage.directory, tempfile::tempdir().unwrap());
    drop(stage);
    assert_eq!(files(directory.path()).len(), 3, "the end leaves the pages");
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("index"), "precious").unwrap();
    let manifest = directory.path().join(".petasos/manifest");
    let listed = std::fs::read_to_string(&manifest).unwrap();
    let lies = format!("{listed}../{}/index\n{}/index\n", outside.path().display(), outside.path().display());
    std::fs::write(&manifest, lies).unwrap();
    let foreign = directory.path().join("http_a.test_80/a/mine.txt");
    std::fs::write(&foreign, "mine").unwrap();
    let error = Tree::open(directory.path(), LIMITS).unwrap_err();
    assert!(
        error.to_string().contains("mine.txt") && error.to_string().contains("static_tree.directory"),
        "{error}"
    );
    assert_eq!(files(directory.path()), ["http_a.test_80/a/mine.txt"]);
    std::fs::remove_file(foreign).unwrap();
    Tree::open(directory.path(), LIMITS).unwrap();
    assert!(outside.path().join("index").exists());
}

#[test]
fn directory_with_foreign_files_is_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("index.html"), "mine").unwrap();
    assert!(matches!(Tree::open(directory.path(), LIMITS), Err(DirectoryError::Foreign { .. })));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let link = tempfile::tempdir().unwrap();
    drop(Tree::open(link.path(), LIMITS).unwrap());
    std::os::unix::fs::symlink(directory.path(), link.path().join("http_a.test_80")).unwrap();
    assert!(matches!(Tree::open(link.path(), LIMITS), Err(DirectoryError::Foreign { .. })));
    let file = directory.path().join("index.html");
    assert!(matches!(Tree::open(&file, LIMITS), Err(DirectoryError::System { .. })));
}

#[test]
fn nothing_is_written_or_removed_behind_a_symlink() {
    let mut stage = TreeFixture::new();
    stage.publish_page("/a", b"a");
    stage.await_pages(1);
    let outside = tempfile::tempdir().unwrap();
    let host = stage.path("http_a.test_80");
    let swap = |to: &Path| {
        std::fs::rename(&host, to).unwrap();
        std::os::unix::fs::symlink(to, &host).unwrap();
    };
    swap(&outside.path().join("moved"));
    stage.publish_page("/b", b"b");
    stage.await_figures("it is refused", |figures| figures.errors >= 1);
    stage.invalidate(target("/a"), Mode::Hard);
    assert_eq!(files(outside.path()), ["moved/a/index"], "neither written nor removed");
    assert!(!stage.tree.lose(&stage.store), "the file of an invalidated page is still there");
    stage.end();
    let directory = std::mem::replace(&mut stage.directory, tempfile::tempdir().unwrap());
    drop(stage);
    // The path that the list names now leads through the link.
    let error = Tree::open(directory.path(), LIMITS).unwrap_err();
    assert!(error.to_string().contains("http_a.test_80"), "{error}");
    assert_eq!(files(outside.path()), ["moved/a/index"]);
    std::fs::remove_file(directory.path().join("http_a.test_80")).unwrap();
    Tree::open(directory.path(), LIMITS).unwrap();
}

#[test]
fn disk_error_drops_the_page_and_is_reported_once() {
    let stage = TreeFixture::new();
    let blocked = stage.path("http_a.test_80");
    std::fs::write(&blocked, "in the way").unwrap();
    stage.publish_page("/a", b"a");
    stage.publish_page("/b", b"b");
    stage.await_figures("errors", |figures| figures.errors >= 2);
    assert_eq!(stage.tree.figures().pages, 0);
    std::fs::remove_file(&blocked).unwrap();
    stage.publish_page("/a", b"a");
    stage.await_pages(1);
    let said = || stage.said.lock().unwrap().clone();
    for _ in 0..2_000 {
        if said().len() == 2 {
            break;
        }
        sleep(Duration::from_millis(5));
    }
    let said = said();
    let names_the_file = |fault: &String| fault.contains("http_a.test_80");
    assert!(said.len() == 2 && said[0].as_ref().is_err_and(names_the_file) && said[1].is_ok(), "{said:?}");
}

#[test]
fn more_selectors_than_are_remembered_miss_no_page() {
    // As many as the tree remembers, and one more, which names the page.
    const REMEMBERED: usize = 4_096;
    let stage = TreeFixture::new();
    stage.publish_page("/a", b"<p>old");
    stage.await_pages(1);
    let others = std::iter::repeat_n(target("/none"), REMEMBERED);
    for selector in others.chain([target("/a")]) {
        let done = stage.store.invalidate(&Invalidation { selector: selector.clone(), mode: Mode::Hard });
        stage.tree.hear(done.sequence, &selector);
    }
    assert!(stage.tree.lose(&stage.store));
    assert_eq!(files(stage.directory.path()), Vec::<String>::new());
}
