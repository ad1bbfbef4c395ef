//! Filling the cache, from the operator's view: by the command, after a purge of everything and at
//! a start; with sites that fail, forbid and mislead.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use testkit::{Action, CommandOutput, Edge, Gate, Origin, Seen, eventually, get, petasos, response};

const FRESH: &str = "Cache-Control: s-maxage=600";

/// The URL of the site that the tests fill the cache of.
const SITE: &str = "http://example.test/";

/// With the profile `auto`, the edge requests pages by itself to detect the system.
const DEFAULT: &[&str] = &["--profile", "default"];

/// An edge with a separate state directory, because it goes on with the runs that it finds there.
struct OwnEdge {
    edge: Edge,
    _state: tempfile::TempDir,
}

impl OwnEdge {
    fn start(origin: &Origin, settings: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let settings = format!("state_directory = '{}'\n{settings}", state.path().display());
        Self { edge: Edge::configured(&origin.url(), &settings, DEFAULT), _state: state }
    }
}

impl std::ops::Deref for OwnEdge {
    type Target = Edge;

    fn deref(&self) -> &Edge {
        &self.edge
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn urls(paths: impl IntoIterator<Item = String>) -> String {
    let entry = |path| format!("<url><loc>{SITE}{path}</loc></url>");
    format!("<urlset>{}</urlset>", paths.into_iter().map(entry).collect::<String>())
}

fn sent(content: impl AsRef<[u8]>) -> Vec<Action> {
    response("200 OK", &[], content.as_ref())
}

fn page(seen: &Seen) -> Vec<Action> {
    response("200 OK", &[FRESH], seen.target().as_bytes())
}

/// A site whose robots.txt and documents are these; all else is a page that may be stored.
fn site(documents: Vec<(&'static str, Vec<u8>)>) -> Origin {
    Origin::start(move |seen| match documents.iter().find(|(path, _)| *path == seen.target()) {
        Some((_, content)) => sent(content),
        None if seen.target().ends_with(".xml") => response("404 Not Found", &[], b""),
        None => page(seen),
    })
}

fn warm(edge: &Edge, arguments: &[&str]) -> CommandOutput {
    let admin = edge.admin.to_string();
    petasos([&["warm", "--admin", &admin][..], arguments].concat())
}

/// Runs the command for the site with these arguments. Returns its output and its code.
fn warmed(edge: &Edge, arguments: &[&str]) -> (String, Option<i32>) {
    let output = warm(edge, &[&[SITE][..], arguments].concat());
    assert!(output.stderr.starts_with("Filling the cache of any."), "{output:?}");
    (output.stdout, output.code)
}

/// The numbers of an outcome: found, stored, fresh, not cacheable, failed.
fn counts(outcome: &str) -> Vec<u64> {
    let names = ["pages found", "stored", "fresh before", "not cacheable", "failed"];
    let count = |name: &&str| {
        let line = outcome.lines().find(|line| line.starts_with(*name)).unwrap();
        let words = line.get(17..).unwrap().split_whitespace().next();
        words.unwrap().replace(',', "").parse().unwrap()
    };
    names.iter().map(count).collect()
}

fn is_hit(edge: &Edge, target: &str) -> bool {
    let request = get(edge.address, target, &[]);
    request.field("Cache-Status").unwrap().contains("hit-fresh")
}

#[test]
fn purge_of_everything_is_followed_by_a_full_cache() {
    let index = "<sitemapindex><sitemap><loc>/posts.xml.gz</loc></sitemap></sitemapindex>";
    let posts = urls((0..995).map(|number| format!("post-{number}")));
    let feed = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='/news/1'/></entry>\
                <entry><link href='/news/2'/></entry></feed>";
    let origin = site(vec![
        ("/robots.txt", b"User-agent: *\nDisallow: /post-7\nSitemap: /index.xml\nSitemap: /feed".to_vec()),
        ("/index.xml", index.into()),
        ("/posts.xml.gz", gzip(posts.as_bytes())),
        ("/feed", feed.into()),
    ]);
    let edge = OwnEdge::start(&origin, &format!("[warm]\nurl = '{SITE}'\non = ['purge']\n"));
    assert_eq!(origin.seen().len(), 0, "a start is no occasion");
    let purged = petasos(["purge", "--all", "--admin", &edge.admin.to_string()]);
    assert_eq!(purged.code, Some(0), "{}", purged.stderr);
    // 111 posts begin with /post-7.
    eventually("all pages are stored", || edge.metric("petasos_warmed_pages_total", "any") == 887.0);
    eventually("the run ends", || edge.metric("petasos_warm_pages_left", "") == 0.0);
    for target in ["/", "/post-0", "/post-994", "/news/2"] {
        assert!(is_hit(&edge, target), "{target}");
    }
    assert_eq!(origin.count("/post-77"), 0);
    assert_eq!(origin.seen().len(), 887 + 4, "each page and document is requested once");
    let (outcome, code) = warmed(&edge, &[]);
    assert_eq!((counts(&outcome), code), (vec![887, 0, 887, 0, 0], Some(0)), "{outcome}");
    assert!(outcome.contains("left out               111  forbidden by robots.txt"), "{outcome}");
    let fields = ["X-Forwarded-For: 192.0.2.1", "Via: 1.1 petasos"];
    let seen = origin.seen().into_iter().find(|seen| seen.target() == "/post-0").unwrap();
    assert!(fields.iter().all(|field| seen.head.contains(field)), "{}", seen.head);
}

#[test]
fn empty_cache_is_filled_at_the_start() {
    let origin = site(vec![("/list.txt", b"/a\n/b\n".to_vec())]);
    let settings = format!("[warm]\nurl = '{SITE}'\nsitemaps = ['/list.txt']\n");
    let edge = OwnEdge::start(&origin, &settings);
    eventually("the pages are stored", || edge.metric("petasos_warmed_pages_total", "") == 3.0);
    assert!(is_hit(&edge, "/a") && is_hit(&edge, "/b"));
    let status = Edge::status(edge.admin).unwrap();
    assert_eq!((&status["warming"][0]["warmed"], &status["warming"][0]["site"]), (&3.into(), &"any".into()));
}

#[test]
fn interrupted_run_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().display();
    let settings = format!(
        "disk = '{place}/disk'\nstate_directory = '{place}/state'\n[warm]\nurl = '{SITE}'\nurls = '{place}/list'\n"
    );
    std::fs::write(directory.path().join("list"), "# pages\n/a\n\n/b\n/c\n/d\n").unwrap();
    let gate = Gate::default();
    let (held, answered) = (gate.clone(), AtomicUsize::new(0));
    let origin = Origin::start(move |seen| match seen.target() {
        "/sitemap.xml" => sent(urls((0..4).map(|number| format!("page-{number}")))),
        "/robots.txt" => sent(""),
        _ if answered.fetch_add(1, Ordering::SeqCst) >= 4 => {
            [vec![Action::Await(held.clone())], page(seen)].concat()
        }
        _ => page(seen),
    });
    let mut edge = Edge::configured(&origin.url(), &settings, DEFAULT);
    let file = directory.path().join("state/warm-any.json");
    let is_written = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("page-3"));
    eventually("the position is written", is_written);
    eventually("a page is held", || origin.seen().len() == 2 + 5);
    eventually("pages are on the disk", || edge.metric("petasos_disk_objects", "") >= 4.0);
    edge.signal("TERM");
    edge.wait();
    gate.open();
    origin.forget();
    let edge = Edge::configured(&origin.url(), &settings, DEFAULT);
    eventually("the run is over", || !file.exists());
    assert_eq!(origin.count("/sitemap.xml"), 0, "the position has the pages");
    assert_eq!(origin.seen().len(), 1 + 5, "four of nine pages are fresh");
    for target in ["/", "/a", "/d", "/page-0", "/page-3"] {
        assert!(is_hit(&edge, target), "{target}");
    }
    drop(edge);
    std::fs::write(&file, "{\"format\": 1, \"order\": 7}").unwrap();
    origin.forget();
    let edge = Edge::configured(&origin.url(), &settings, DEFAULT);
    eventually("a damaged file is reported", || edge.stderr().contains("is ignored"));
    eventually("the run begins anew", || origin.count("/sitemap.xml") == 1);
    eventually("the file is removed", || !file.exists());
}

#[test]
fn pages_that_cannot_be_stored_are_counted_with_their_reason() {
    let sitemap = urls(["private/1", "private/2", "cookie", "gone", "wp-admin/x", "a"].map(str::to_owned));
    let origin = Origin::start(move |seen| match seen.target() {
        "/sitemap.xml" => sent(&sitemap),
        "/robots.txt" => response("404 Not Found", &[], b""),
        "/cookie" => response("200 OK", &["Cache-Control: no-store", "Set-Cookie: a=b"], b"x"),
        "/gone" => response("404 Not Found", &[FRESH], b"x"),
        target if target.starts_with("/private") => response("200 OK", &["Cache-Control: private"], b"x"),
        _ => page(seen),
    });
    let edge = OwnEdge::start(&origin, "");
    let (outcome, code) = warmed(&edge, &[]);
    assert_eq!((counts(&outcome), code), (vec![6, 2, 0, 4, 0], Some(0)), "{outcome}");
    assert!(outcome.contains("4  most often store-refused-private"), "{outcome}");
    assert!(outcome.contains("left out                 1  administration or editor"), "{outcome}");
}

#[test]
fn failing_pages_and_origins_are_tried_again() {
    let failed = AtomicBool::new(false);
    let origin = Origin::start(move |seen| match seen.target() {
        "/list.txt" => sent("/a\n/b\n"),
        "/robots.txt" => sent(""),
        "/a" if !failed.swap(true, Ordering::SeqCst) => {
            response("503 Service Unavailable", &["Retry-After: 1"], b"x")
        }
        _ => page(seen),
    });
    let edge = OwnEdge::start(&origin, "");
    let (outcome, code) = warmed(&edge, &["--sitemap", "/list.txt"]);
    assert_eq!((counts(&outcome), code), (vec![3, 3, 0, 0, 0], Some(0)), "{outcome}");
    assert_eq!(origin.count("/a"), 2);
    origin.kill();
    let (admin, address) = (edge.admin.to_string(), edge.address);
    let command =
        std::thread::spawn(move || petasos(["warm", SITE, "--sitemap", "/list.txt", "--admin", &admin]));
    eventually("the origin is missed", || get(address, "/z", &[]).status >= 500);
    origin.revive();
    let output = command.join().unwrap();
    assert_eq!((counts(&output.stdout), output.code), (vec![3, 0, 3, 0, 0], Some(0)), "{output:?}");
}

#[test]
fn variants_are_filled_only_where_responses_vary() {
    let list = "/plain\n/codings\n/devices\n";
    let origin = Origin::start(move |seen| match seen.target() {
        "/robots.txt" => sent(""),
        "/codings" => {
            let takes_br = seen.field("Accept-Encoding").unwrap_or_default().contains("br");
            let coding = if takes_br { "Content-Encoding: br" } else { "Content-Encoding: gzip" };
            response("200 OK", &[FRESH, coding, "Vary: Accept-Encoding"], b"x")
        }
        _ => page(seen),
    });
    let edge = OwnEdge::start(&origin, "");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), list).unwrap();
    let urls = ["--urls", file.path().to_str().unwrap()];
    let (outcome, code) = warmed(&edge, &urls);
    assert_eq!((counts(&outcome), code), (vec![3, 3, 0, 0, 0], Some(0)), "{outcome}");
    let requested = || ["/plain", "/codings", "/devices"].map(|target| origin.count(target));
    assert_eq!(requested(), [1, 2, 1]);
    drop(edge);
    let edge = OwnEdge::start(&origin, "device_class = 'mobile'\n");
    warmed(&edge, &urls);
    assert_eq!(requested(), [3, 6, 3], "one of each device, and of each coding");
    let phone = ["User-Agent: Mozilla/5.0 (iPhone) Mobile/15E148"];
    let answer = get(edge.address, "/devices", &phone);
    assert!(answer.field("Cache-Status").unwrap().contains("hit-fresh"), "{}", answer.head);
}

#[test]
fn hostile_sitemaps_and_rules_are_contained() {
    let many = |entry: &str| format!("<sitemapindex>{entry}</sitemapindex>");
    let index = many(
        "<sitemap><loc>/loop.xml</loc></sitemap><sitemap><loc>/broken.xml</loc></sitemap>\
         <sitemap><loc>http://evil.test/x.xml</loc></sitemap><sitemap><loc>/entities.xml</loc></sitemap>",
    );
    let entities = "<!DOCTYPE u [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><urlset><url><loc>/&x;</loc></url>\
                    <url><loc>http://evil.test/</loc></url><url><loc>/log-out</loc></url>\
                    <url><loc>/shop?add-to-cart=3</loc></url><url><loc>/secret/x</loc></url>\
                    <url><loc>/good</loc></url></urlset>";
    let origin = site(vec![
        (
            "/robots.txt",
            b"Sitemap: /loop.xml\nUser-agent: petasos\nDisallow: /secret\nDisallow: /$\n".to_vec(),
        ),
        ("/loop.xml", index.into()),
        ("/broken.xml", b"\x1f\x8b no gzip".to_vec()),
        ("/entities.xml", entities.into()),
    ]);
    let edge = OwnEdge::start(&origin, "");
    let (outcome, code) = warmed(&edge, &[]);
    assert_eq!((counts(&outcome), code), (vec![1, 1, 0, 0, 0], Some(0)), "{outcome}");
    for words in
        ["/broken.xml is left out", "sitemaps on another site are not read", "2  forbidden by robots.txt"]
    {
        assert!(outcome.contains(words), "{words}: {outcome}");
    }
    let mut seen: Vec<_> = origin.seen().iter().map(|seen| seen.target().to_owned()).collect();
    seen.sort();
    assert_eq!(seen, ["/broken.xml", "/entities.xml", "/good", "/loop.xml", "/robots.txt"]);
}

#[test]
fn wrong_arguments_and_calls_are_refused_with_reasons() {
    let origin = site(Vec::new());
    let edge = OwnEdge::start(&origin, "names = ['example.test']\n");
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (arguments, words) in [
        (&[][..], "<URL>"),
        (&["example.test"], "is no URL of a site"),
        (&["ftp://example.test/"], "is no URL of a site"),
        (&["http://u:p@example.test/"], "is no URL of a site"),
        (&["http://other.test/"], "There is no site with pages for `http://other.test/`"),
        (&[SITE, "--rate", "0"], "--rate"),
        (&[SITE, "--urls", "/no/such/file"], "cannot read /no/such/file"),
        (&[SITE, "--urls", empty], "names no page"),
        (&[SITE, "--stop", "--rate", "5"], "--stop"),
    ] {
        let output = warm(&edge, arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
    }
    assert_eq!(origin.seen().len(), 0);
    let stopped = warm(&edge, &[SITE, "--stop"]);
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    assert!(stopped.stdout.contains("was not being filled"), "{}", stopped.stdout);
    let locked = Edge::start(&origin.url(), &["--token-file", empty_token().path().to_str().unwrap()]);
    let refused = warm(&locked, &[SITE]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("403"), "{}", refused.stderr);
}

/// A file with a token.
fn empty_token() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef0123456789abcdef\n").unwrap();
    file
}

#[test]
fn run_is_stopped_by_the_operator() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |seen| match seen.target() {
        "/robots.txt" => sent(""),
        _ => [vec![Action::Await(held.clone())], page(seen)].concat(),
    });
    let edge = OwnEdge::start(&origin, "");
    let admin = edge.admin.to_string();
    let command =
        std::thread::spawn(move || petasos(["warm", SITE, "--sitemap", "/a.xml", "--admin", &admin]));
    eventually("the sitemap is requested", || origin.count("/a.xml") == 1);
    let stopped = warm(&edge, &[SITE, "--stop"]);
    assert!(stopped.stdout.contains("is stopped"), "{stopped:?}");
    gate.open();
    let output = command.join().unwrap();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("The run was stopped by an operator."), "{}", output.stdout);
}
