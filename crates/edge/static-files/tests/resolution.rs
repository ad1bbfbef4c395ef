//! Requests against real directories: attempts, index files, links, kinds of files, codings,
//! validators, and changes noticed by the table of open files.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use clock::{Monotonic, Timestamp};
use message::names;
use petasos_static_files::{
    CacheLimits, Content, Fallback, FileRules, FileSettings, NotFoundReason, OpenFiles, Outcome, PathRefusal,
    Representation, SearchFailure, StaticFiles,
};
use profiles::Pattern;
use rustix::fs::{Mode, Timespec, Timestamps, mkfifoat};
use semantics::{AcceptedCodings, Coding, Moment, format_date};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A site in a directory, with a clock that the test moves.
struct Site {
    files: StaticFiles,
    now: Moment,
    directory: TempDir,
}

impl Site {
    fn new(change: impl FnOnce(&mut FileSettings)) -> Self {
        Self::with_limits(CacheLimits::default(), change)
    }

    fn with_limits(limits: CacheLimits, change: impl FnOnce(&mut FileSettings)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("site")).expect("a directory");
        let mut settings = FileSettings::default();
        change(&mut settings);
        let rules = FileRules::new(&settings).expect("rules");
        // Far ahead of the files, so that they are settled.
        let now = Moment { wall: Timestamp::from_secs(4_000_000_000), monotonic: Monotonic::from_nanos(0) };
        let open_files = OpenFiles::at_most(1_000);
        let files = StaticFiles::new(&directory.path().join("site"), rules, limits, open_files);
        Self { files, now, directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join("site").join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    fn find_accepting(&self, target: &str, accepted: AcceptedCodings) -> Outcome {
        match self.files.find(target.as_bytes(), accepted, self.now) {
            Outcome::Cold(cold) => cold.run(),
            outcome => outcome,
        }
    }

    fn find(&self, target: &str) -> Outcome {
        self.find_accepting(target, AcceptedCodings::NONE)
    }

    fn file(&self, target: &str, accepted: AcceptedCodings) -> Arc<Representation> {
        match self.find_accepting(target, accepted) {
            Outcome::File(found) => found,
            other => panic!("{target} is no file: {other:?}"),
        }
    }

    fn content(&self, target: &str) -> String {
        content(&self.file(target, AcceptedCodings::NONE))
    }

    fn reason(&self, target: &str) -> NotFoundReason {
        match self.find(target) {
            Outcome::NotFound(reason) => reason,
            other => panic!("{target} was found: {other:?}"),
        }
    }

    fn location(&self, target: &str) -> String {
        match self.find(target) {
            Outcome::Redirect(location) => String::from_utf8_lossy(&location).into_owned(),
            other => panic!("{target} is no redirect: {other:?}"),
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now = self.now.plus(Duration::from_millis(millis));
    }
}

fn content(found: &Representation) -> String {
    let octets = match found.content() {
        Content::Memory(content) => content.to_vec(),
        Content::File(descriptor) => {
            let file = descriptor.try_clone().expect("a descriptor");
            let mut content = vec![0; found.bytes() as usize];
            file.read_exact_at(&mut content, 0).expect("the content");
            content
        }
    };
    assert_eq!(octets.len() as u64, found.bytes());
    String::from_utf8_lossy(&octets).into_owned()
}

fn field(found: &Representation, name: &str) -> Option<String> {
    found.head().fields.only(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn tag(found: &Representation) -> String {
    field(found, names::ETAG).expect("a tag")
}

fn all_codings() -> AcceptedCodings {
    AcceptedCodings::of_codings(&Coding::ALL)
}

/// Sets the time of the last modification.
fn set_modified(path: &Path, secs: i64, nanos: i64) {
    let time = Timespec { tv_sec: secs, tv_nsec: nanos as _ };
    let file = fs::File::open(path).expect("a file");
    rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time }).expect("a time");
}

#[test]
fn files_and_index_files_are_found() {
    let site = Site::new(|_| {});
    site.write("index.html", b"root");
    site.write("a b.txt", b"text");
    site.write("docs/index.html", b"docs");
    site.write(".well-known/security.txt", b"contact");
    assert_eq!(site.content("/"), "root");
    assert_eq!(site.content("/index.html"), "root");
    assert_eq!(site.content("/a%20b.txt?v=1"), "text");
    assert_eq!(site.content("/docs/"), "docs");
    assert_eq!(site.content("/.well-known/security.txt"), "contact");
    let found = site.file("/a%20b.txt", all_codings());
    let lines: Vec<_> = found.head().fields.iter().map(|field| field.name.clone()).collect();
    assert_eq!(lines, ["Content-Type", "ETag", "Last-Modified", "Accept-Ranges"]);
    assert_eq!(field(&found, names::CONTENT_TYPE).as_deref(), Some("text/plain; charset=utf-8"));
}

#[test]
fn directories_without_a_slash_redirect_to_themselves() {
    let site = Site::new(|_| {});
    site.write("docs/index.html", b"docs");
    site.write("evil.test/index.html", b"evil");
    fs::create_dir(site.path("empty")).expect("a directory");
    assert_eq!(site.location("/docs"), "/docs/");
    assert_eq!(site.location("/docs?a=/b"), "/docs/?a=/b");
    assert_eq!(site.location("/d%6fcs?"), "/docs/?");
    assert_eq!(site.reason("//evil.test"), NotFoundReason::Refused(PathRefusal::EmptySegment));
    assert_eq!(site.reason("//evil.test/.."), NotFoundReason::Refused(PathRefusal::EmptySegment));
    assert_eq!(site.reason("/\\evil.test"), NotFoundReason::Refused(PathRefusal::Backslash));
    assert_eq!(site.reason("/%5cevil.test"), NotFoundReason::Refused(PathRefusal::Backslash));
    // An empty directory cannot be distinguished from a missing one.
    assert_eq!(site.reason("/empty"), NotFoundReason::NoIndex);
    assert_eq!(site.reason("/empty/"), NotFoundReason::Absent);
}

#[test]
fn links_work_only_inside_the_directory() {
    let site = Site::new(|_| {});
    site.write("real/a.txt", b"inside");
    fs::write(site.directory.path().join("secret"), b"secret").expect("a file");
    symlink("real/a.txt", site.path("link.txt")).expect("a link");
    symlink("real", site.path("linked")).expect("a link");
    symlink("../real/a.txt", site.path("real/up.txt")).expect("a link");
    symlink("../secret", site.path("out.txt")).expect("a link");
    symlink("/etc/hostname", site.path("absolute.txt")).expect("a link");
    symlink("..", site.path("parent")).expect("a link");
    symlink("loop", site.path("loop")).expect("a link");
    symlink("/proc/self/root", site.path("magic")).expect("a link");
    for target in ["/link.txt", "/linked/a.txt", "/real/up.txt"] {
        assert_eq!(site.content(target), "inside", "{target}");
    }
    for target in
        ["/out.txt", "/absolute.txt", "/parent/secret", "/parent/site/link.txt", "/magic/etc/passwd"]
    {
        assert_eq!(site.reason(target), NotFoundReason::LinkOutside, "{target}");
    }
    assert_eq!(site.reason("/loop"), NotFoundReason::LinkRefused);
}

#[test]
fn links_to_hidden_and_refused_files_lead_nowhere() {
    let site = Site::new(|settings| settings.refused = vec![Pattern::new("*.php*")]);
    site.write(".env", b"secret");
    site.write(".git/config", b"secret");
    site.write("a.php", b"source");
    site.write("b/.env", b"secret");
    symlink(".env", site.path("env.txt")).expect("a link");
    symlink(".git", site.path("git")).expect("a link");
    symlink("a.php", site.path("a.txt")).expect("a link");
    symlink("b", site.path("c")).expect("a link");
    symlink("../c/.env", site.path("b/env.txt")).expect("a link");
    for target in ["/env.txt", "/git/config", "/a.txt", "/b/env.txt"] {
        assert_eq!(site.reason(target), NotFoundReason::LinkRefused, "{target}");
    }
}

#[test]
fn refused_names_are_compared_without_regard_to_case() {
    let refused = ["*.php*", "*~", "composer.json"].map(Pattern::new);
    let site = Site::new(|settings| {
        settings.refused = refused.to_vec();
        settings.attempts = ["{path}", "{path}.php"].map(str::to_owned).into();
        settings.index = ["index.php", "index.html"].map(str::to_owned).into();
    });
    for name in ["a.php", "A.PHP", "b.php7", "c.php.bak", "d.css~", "Composer.json", "index.php"] {
        site.write(name, b"source");
        assert_eq!(site.reason(&format!("/{name}")), NotFoundReason::RefusedName, "{name}");
    }
    for copy in ["a.php.gz", "A.PHP.1.Br", "composer.json.2", "composer.json.zip", "d.css~.xz"] {
        site.write(copy, b"source");
        assert_eq!(site.reason(&format!("/{copy}")), NotFoundReason::RefusedName, "{copy}");
    }
    for other in ["composer.json.css", "g.1", "h.gz", "composer.json.1x"] {
        site.write(other, b"text");
        assert_eq!(site.content(&format!("/{other}")), "text");
    }
    site.write("lib.php/e.css", b"style");
    assert_eq!(site.content("/lib.php/e.css"), "style");
    assert_eq!(site.reason("/a"), NotFoundReason::RefusedName, "the second attempt finds it");
    assert_eq!(site.reason("/a%2ephp"), NotFoundReason::RefusedName);
    assert_eq!(site.reason("/"), NotFoundReason::RefusedName);
    site.write("f.css", b"plain style");
    site.write("f.css.gz", b"gzip");
    assert_eq!(content(&site.file("/f.css", all_codings())), "gzip");
}

#[test]
fn only_readable_regular_files_are_found() {
    let site = Site::new(|_| {});
    mkfifoat(rustix::fs::CWD, site.path("fifo"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    let _socket = UnixListener::bind(site.path("socket")).expect("a socket");
    site.write("a.txt", b"text");
    assert_eq!(site.reason("/fifo"), NotFoundReason::NotRegular);
    assert_eq!(site.reason("/socket"), NotFoundReason::NotRegular);
    assert_eq!(site.reason("/a.txt/"), NotFoundReason::Absent);
    assert_eq!(site.reason("/a.txt/b"), NotFoundReason::Absent);
    assert_eq!(site.reason(&format!("/{}", "a".repeat(300))), NotFoundReason::Absent);
    site.write("private.txt", b"private");
    fs::set_permissions(site.path("private.txt"), fs::Permissions::from_mode(0o000)).expect("permissions");
    if !rustix::process::geteuid().is_root() {
        assert_eq!(site.reason("/private.txt"), NotFoundReason::Unreadable);
    }
}

#[test]
fn attempts_are_made_in_order() {
    let site = Site::new(|settings| {
        settings.attempts = ["{path}", "{path}/index.html", "{path}.html"].map(str::to_owned).into();
        settings.fallback = Fallback::Origin;
    });
    site.write("docs/index.html", b"directory");
    site.write("about.html", b"about");
    site.write("both.html", b"file");
    site.write("both/other", b"");
    site.write("plain", b"plain");
    site.write("plain.html", b"second");
    // A hidden file that a suffix without a name would name.
    site.write(".html", b"hidden");
    site.write("docs/.html", b"hidden");
    assert_eq!(site.content("/docs"), "directory");
    assert_eq!(site.content("/docs/"), "directory");
    assert_eq!(site.content("/about"), "about");
    assert_eq!(site.content("/both"), "file");
    assert_eq!(site.content("/plain"), "plain");
    for target in ["/", "/both/", "/about/", "/nothing", "/.html", "/docs/.html", "/../a", "/a%2fb"] {
        assert!(matches!(site.find(target), Outcome::Origin(_)), "{target}");
    }
}

#[test]
fn a_suffix_needs_a_name_below_a_prefix() {
    let site = Site::new(|settings| {
        settings.prefix = "/assets".to_owned();
        settings.attempts = ["{path}", "{path}.html"].map(str::to_owned).into();
    });
    site.write(".html", b"hidden");
    site.write("a.html", b"a");
    assert_eq!(site.reason("/assets"), NotFoundReason::NoIndex);
    assert_eq!(site.reason("/assets/"), NotFoundReason::Absent);
    assert_eq!(site.content("/assets/a"), "a");
    for target in ["/a", "/a.html", "/assetsa", "/assets../a", "/asset/a"] {
        assert_eq!(site.reason(target), NotFoundReason::OutsidePrefix, "{target}");
    }
    site.write("index.html", b"root");
    let mut site = site;
    site.advance(1_000);
    assert_eq!(site.location("/assets?x"), "/assets/?x");
    assert_eq!(site.content("/assets/"), "root");
}

#[test]
fn one_file_may_answer_for_all_missing_ones() {
    let site = Site::new(|settings| settings.fallback = Fallback::File("/app/index.html".to_owned()));
    site.write("app/index.html", b"application");
    site.write("a.txt", b"text");
    assert_eq!(site.content("/a.txt"), "text");
    for target in ["/", "/users/7", "/users/a%2Fb", "/.env", "/../x"] {
        assert_eq!(site.content(target), "application", "{target}");
    }
    let found = site.file("/users/7", all_codings());
    assert_eq!(field(&found, names::CONTENT_TYPE).as_deref(), Some("text/html; charset=utf-8"));
    fs::remove_file(site.path("app/index.html")).expect("removal");
    let mut site = site;
    site.advance(1_000);
    assert_eq!(site.reason("/users/7"), NotFoundReason::Absent);
}

#[test]
fn the_shortest_accepted_coding_is_sent() {
    let mut site = Site::new(|_| {});
    site.write("a.css", b"plain text");
    site.write("a.css.gz", b"gzip data");
    site.write("a.css.br", b"brotli");
    site.write("a.css.zst", b"zstd da");
    site.write("b.css", b"b");
    let coded = |site: &Site, accepted: AcceptedCodings| {
        let found = site.file("/a.css", accepted);
        assert_eq!(field(&found, names::VARY).as_deref(), Some("Accept-Encoding"));
        assert_eq!(field(&found, names::CONTENT_TYPE).as_deref(), Some("text/css; charset=utf-8"));
        (content(&found), field(&found, names::CONTENT_ENCODING))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(coded(&site, all_codings()), ("brotli".to_owned(), some("br")));
    assert_eq!(
        coded(&site, AcceptedCodings::of_codings(&[Coding::Zstd, Coding::Gzip])),
        ("zstd da".to_owned(), some("zstd"))
    );
    assert_eq!(
        coded(&site, AcceptedCodings::of_codings(&[Coding::Gzip])),
        ("gzip data".to_owned(), some("gzip"))
    );
    assert_eq!(coded(&site, AcceptedCodings::NONE), ("plain text".to_owned(), None));
    let tags = [all_codings(), AcceptedCodings::NONE, AcceptedCodings::of_codings(&[Coding::Gzip])]
        .map(|accepted| tag(&site.file("/a.css", accepted)));
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0].ends_with("-br\""), "{tags:?}");
    // Without other codings nothing varies.
    assert_eq!(field(&site.file("/b.css", all_codings()), names::VARY), None);
    let direct = site.file("/a.css.gz", all_codings());
    assert_eq!(field(&direct, names::CONTENT_TYPE).as_deref(), Some("application/gzip"));
    assert_eq!(field(&direct, names::CONTENT_ENCODING), None);
    // Older than the plain file.
    let of = |name: &str| site.path(name);
    set_modified(&of("a.css"), 2_000, 500);
    set_modified(&of("a.css.br"), 1_999, 0);
    set_modified(&of("a.css.zst"), 2_000, 499);
    set_modified(&of("a.css.gz"), 2_000, 0);
    site.advance(1_000);
    assert_eq!(coded(&site, all_codings()), ("gzip data".to_owned(), some("gzip")));
}

#[test]
fn longer_and_empty_coded_files_are_not_sent() {
    let site = Site::new(|_| {});
    site.write("d.txt", b"text");
    site.write("d.txt.gz", b"");
    assert_eq!(site.file("/d.txt", all_codings()).bytes(), 4);
    site.write("a.txt", b"x");
    site.write("a.txt.gz", b"longer");
    site.write("c.txt", b"same");
    symlink("/etc/hostname", site.path("c.txt.gz")).expect("a link");
    assert_eq!(field(&site.file("/a.txt", all_codings()), names::CONTENT_ENCODING), None);
    assert_eq!(field(&site.file("/c.txt", all_codings()), names::CONTENT_ENCODING), None);
}

#[test]
fn last_modified_is_never_in_the_future() {
    let mut site = Site::new(|_| {});
    site.write("old.txt", b"old");
    site.write("new.txt", b"new");
    set_modified(&site.path("old.txt"), 784_111_777, 999_999_999);
    set_modified(&site.path("new.txt"), 4_100_000_000, 0);
    let modified =
        |site: &Site, target| field(&site.file(target, AcceptedCodings::NONE), names::LAST_MODIFIED);
    assert_eq!(modified(&site, "/old.txt").as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    let now = String::from_utf8_lossy(&format_date(site.now.wall)).into_owned();
    assert_eq!(modified(&site, "/new.txt"), Some(now.clone()));
    site.advance(1_000);
    assert_eq!(modified(&site, "/new.txt"), Some(now), "the file is the same, and the date is in the past");
}

#[test]
fn replaced_and_changed_files_are_seen_within_a_second() {
    for size in [10, 100_000] {
        let mut site = Site::new(|_| {});
        let old = vec![b'o'; size];
        let new = vec![b'n'; size];
        site.write("a.txt", &old);
        set_modified(&site.path("a.txt"), 1_000, 0);
        let before = site.file("/a.txt", AcceptedCodings::NONE);
        // A replacement with the same length and time.
        site.write("b.txt", &new);
        set_modified(&site.path("b.txt"), 1_000, 0);
        fs::rename(site.path("b.txt"), site.path("a.txt")).expect("a replacement");
        site.advance(1_000);
        let after = site.file("/a.txt", AcceptedCodings::NONE);
        assert_eq!(content(&after).as_bytes(), new);
        assert_ne!(tag(&before), tag(&after));
        // The response in progress keeps its file.
        assert_eq!(content(&before).as_bytes(), old);
        fs::remove_file(site.path("a.txt")).expect("removal");
        site.advance(1_000);
        assert_eq!(site.reason("/a.txt"), NotFoundReason::Absent);
        site.write("a.txt", &old);
        site.advance(1_000);
        assert_eq!(site.content("/a.txt").as_bytes(), old);
    }
}

#[test]
fn a_large_file_is_asked_for_its_state_on_every_use() {
    let site = Site::new(|_| {});
    site.write("a.bin", &[b'a'; 50_000]);
    let before = site.file("/a.bin", AcceptedCodings::NONE);
    let again = site.file("/a.bin", AcceptedCodings::NONE);
    assert!(Arc::ptr_eq(&before, &again));
    fs::write(site.path("a.bin"), [b'b'; 40_000]).expect("a change in place");
    let after = site.file("/a.bin", AcceptedCodings::NONE);
    assert_eq!(after.bytes(), 40_000);
    assert_ne!(tag(&before), tag(&after));
    let Content::File(descriptor) = before.content() else { panic!("a large file is in memory") };
    let file = descriptor.try_clone().expect("a descriptor");
    let mut content = vec![0; before.bytes() as usize];
    assert!(file.read_exact_at(&mut content, 0).is_err(), "the sender sees that the file is shorter");
}

#[test]
fn unchanged_files_stay_open_and_results_count_for_a_second() {
    let mut site = Site::new(|_| {});
    site.write("small.txt", b"small");
    site.write("large.bin", &[0; 20_000]);
    let found =
        |site: &Site| ["/small.txt", "/large.bin"].map(|target| site.file(target, AcceptedCodings::NONE));
    let first = found(&site);
    assert!(matches!(first[0].content(), Content::Memory(_)));
    assert!(matches!(first[1].content(), Content::File(_)));
    site.advance(5_000);
    let second = found(&site);
    assert!(Arc::ptr_eq(&first[0], &second[0]) && Arc::ptr_eq(&first[1], &second[1]));
    assert_eq!(site.reason("/later.txt"), NotFoundReason::Absent);
    site.write("later.txt", b"later");
    site.advance(999);
    assert_eq!(site.reason("/later.txt"), NotFoundReason::Absent);
    site.advance(1);
    assert_eq!(site.content("/later.txt"), "later");
}

#[test]
fn a_replaced_directory_takes_effect_within_a_second() {
    let base = tempfile::tempdir().expect("a directory");
    for release in ["one", "two"] {
        fs::create_dir(base.path().join(release)).expect("a directory");
        fs::write(base.path().join(release).join("a.txt"), release).expect("a file");
    }
    symlink("one", base.path().join("site")).expect("a link");
    let mut site = Site { directory: base, ..Site::new(|_| {}) };
    let rules = FileRules::new(&FileSettings::default()).expect("rules");
    let open_files = OpenFiles::at_most(1_000);
    let files = StaticFiles::new(&site.path(""), rules, CacheLimits::default(), open_files);
    site.files = files;
    assert_eq!(site.content("/a.txt"), "one");
    symlink("two", site.directory.path().join("new")).expect("a link");
    fs::rename(site.directory.path().join("new"), site.directory.path().join("site")).expect("a switch");
    site.advance(1_000);
    assert_eq!(site.content("/a.txt"), "two");
    fs::remove_file(site.directory.path().join("site")).expect("removal");
    site.advance(1_000);
    assert!(matches!(site.find("/a.txt"), Outcome::Failed(SearchFailure::System(_))));
}

#[test]
fn a_missing_directory_may_come_later() {
    let mut site = Site::new(|_| {});
    fs::remove_dir(site.path("")).expect("removal");
    assert!(matches!(site.find("/a.txt"), Outcome::Failed(SearchFailure::System(_))));
    site.write("a.txt", b"text");
    assert_eq!(site.content("/a.txt"), "text");
    fs::remove_dir_all(site.path("")).expect("removal");
    site.advance(1_000);
    fs::write(site.directory.path().join("site"), "a file").expect("a file");
    assert!(matches!(site.find("/a.txt"), Outcome::Failed(SearchFailure::System(_))));
}

#[test]
fn files_beyond_the_limit_of_descriptors_are_not_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.bin"), [0; 100_000]).expect("a file");
    fs::write(directory.path().join("b.bin"), [0; 100_000]).expect("a file");
    let rules = FileRules::new(&FileSettings::default()).expect("rules");
    let open_files = OpenFiles::at_most(1);
    let files = StaticFiles::new(directory.path(), rules, CacheLimits::default(), open_files.clone());
    let now = Moment { wall: Timestamp::from_secs(4_000_000_000), monotonic: Monotonic::from_nanos(0) };
    let site = Site { files, now, directory };
    let first = site.file("/a.bin", AcceptedCodings::NONE);
    assert!(matches!(site.find("/b.bin"), Outcome::Failed(SearchFailure::System(_))));
    site.files.sweep(now.monotonic.plus(Duration::from_secs(11)));
    assert!(matches!(site.find("/b.bin"), Outcome::Failed(_)), "a response still holds the first");
    drop(first);
    assert_eq!(open_files.count(), 0);
    site.file("/b.bin", AcceptedCodings::NONE);
    assert_eq!(open_files.count(), 1);
    let mut site = site;
    site.advance(1);
    assert_eq!(
        content(&site.file("/a.bin", AcceptedCodings::NONE)).len(),
        100_000,
        "an idle file makes room"
    );
}

#[test]
fn fewest_descriptors_keep_a_file_with_all_codings() {
    let limits = CacheLimits { descriptors: CacheLimits::DESCRIPTORS_MIN, ..CacheLimits::default() };
    let site = Site::with_limits(limits, |_| {});
    for (suffix, bytes) in [("", 50_000), (".gz", 20_000), (".br", 19_000), (".zst", 18_000)] {
        site.write(&format!("a.css{suffix}"), &vec![0; bytes]);
    }
    let [first, second] = [(); 2].map(|()| site.file("/a.css", all_codings()));
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn waiting_searches_are_limited() {
    let limits = CacheLimits { waiting: 2, ..CacheLimits::default() };
    let site = Site::with_limits(limits, |_| {});
    let mut waiting = Vec::new();
    // Names without an earlier request are not in the kernel's memory on most file systems.
    for name in 0..20 {
        match site.files.find(format!("/never-{name}").as_bytes(), AcceptedCodings::NONE, site.now) {
            Outcome::Cold(cold) => waiting.push(cold),
            Outcome::Failed(SearchFailure::Busy) => assert_eq!(waiting.len(), 2),
            Outcome::NotFound(NotFoundReason::Absent) => {}
            other => panic!("{other:?}"),
        }
        assert!(waiting.len() <= 2);
    }
    for cold in waiting.drain(..) {
        assert!(matches!(cold.run(), Outcome::NotFound(NotFoundReason::Absent)));
    }
    assert!(!matches!(
        site.files.find(b"/never-again", AcceptedCodings::NONE, site.now),
        Outcome::Failed(SearchFailure::Busy)
    ));
}

#[test]
fn descriptors_are_bounded_and_idle_files_are_closed() {
    let limits = CacheLimits { descriptors: 32, ..CacheLimits::default() };
    let site = Site::with_limits(limits, |_| {});
    for name in 0..100 {
        site.write(&format!("{name}.bin"), &[0; 17_000]);
    }
    let root = fs::canonicalize(site.path("")).expect("a path");
    // Other tests of this process have other directories.
    let open = || {
        let links = fs::read_dir("/proc/self/fd").expect("descriptors");
        let targets = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
        targets.filter(|target| target.starts_with(&root) && *target != root).count()
    };
    for name in 0..100 {
        site.file(&format!("/{name}.bin"), AcceptedCodings::NONE);
    }
    assert!((1..=32).contains(&open()), "{}", open());
    site.files.sweep(site.now.monotonic.plus(Duration::from_secs(11)));
    assert_eq!(open(), 0);
}
