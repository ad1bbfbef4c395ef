//! Page loads against a small scripted site: which requests are sent, with which fields and how
//! often, and how misbehaving servers are handled.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use clock::{Clock, ManualClock, Monotonic, Timestamp};
use flate2::Compression;
use flate2::write::GzEncoder;
use petasos_browse::{PageError, PagePlan, Watch, run};
use platform::SystemClock;
use record::{FetchFailure, PageEnd, PageOutcome};
use resource::{PageLimit, PageLimits, ResourceClass};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::{Action, Gate, Origin, Seen, response};

const HTML: &str = "Content-Type: text/html";
const CSS: &str = "Content-Type: text/css";
const KEEP: &str = "Cache-Control: max-age=3600";

fn load(plan: &PagePlan) -> PageOutcome {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    run(plan, &clock, &Arc::new(Watch::default())).unwrap()
}

/// A plan for `pages` pages, one after the other.
fn plan(url: &str, pages: u64) -> PagePlan {
    PagePlan { pages: Some(pages), time: None, threads: 1, ..PagePlan::new(url).unwrap() }
}

/// How often each target was requested.
fn asked(origin: &Origin) -> BTreeMap<String, usize> {
    origin.seen().iter().fold(BTreeMap::new(), |mut counts, seen| {
        *counts.entry(seen.target().to_owned()).or_default() += 1;
        counts
    })
}

fn targets(origin: &Origin) -> String {
    asked(origin).into_keys().filter(|target| target != "/favicon.ico").collect::<Vec<_>>().join(" ")
}

/// An ordinary small site with one of everything.
fn site(seen: &Seen) -> Vec<Action> {
    match seen.target() {
        "/" => response(
            "200 OK",
            &[HTML, "Set-Cookie: visitor=1; Path=/", "Cache-Status: Petasos; hit; ttl=5"],
            br#"<!doctype html><link rel=stylesheet href=/a.css><link rel=icon href=/icon.png>
                <script src=/s.js></script><script src=http://foreign.test/f.js></script>
                <img src=/1.png><img src=/2.png srcset="/2b.png 2x"><img src=/late.png loading=lazy>
                <p class=hero>Text</p>"#,
        ),
        "/a.css" => response(
            "200 OK",
            &[CSS, KEEP],
            b"@import 'b.css'; .hero{background:url(hero.png)} .none{background:url(none.png)}",
        ),
        "/b.css" => response(
            "200 OK",
            &[CSS, "Cache-Control: no-cache", "ETag: \"b\""],
            b"@font-face{font-family:F;src:url(f.woff2)} p{font-family:F}",
        ),
        _ => response("200 OK", &["Content-Type: application/octet-stream", KEEP], b"12345678"),
    }
}

/// Like [`site`], but answers conditional requests.
fn site_with_validators(seen: &Seen) -> Vec<Action> {
    if seen.field("If-None-Match") == Some("\"b\"") {
        return vec![Action::Send(b"HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\n\r\n".to_vec())];
    }
    site(seen)
}

#[test]
fn page_is_loaded_with_all_its_resources() {
    let origin = Origin::start(site);
    let outcome = load(&plan(&origin.url(), 1));
    assert_eq!(targets(&origin), "/ /1.png /2.png /a.css /b.css /f.woff2 /hero.png /icon.png /s.js");
    let figures = &outcome.figures;
    assert_eq!((figures.pages.good, outcome.pages(), outcome.ended), (1, 1, PageEnd::Pages));
    let of = |class| figures.class(class).unwrap().requests;
    assert_eq!(
        [
            of(ResourceClass::Document),
            of(ResourceClass::Stylesheet),
            of(ResourceClass::Script),
            of(ResourceClass::Image)
        ],
        [1, 2, 1, 3]
    );
    assert_eq!([of(ResourceClass::Font), of(ResourceClass::Icon), figures.requests()], [1, 1, 9]);
    assert_eq!(figures.foreign_hosts, BTreeMap::from([("foreign.test".to_owned(), 1)]));
    assert_eq!((figures.lazy, figures.statuses[&200], figures.failed_requests()), (1, 9, 0));
    assert_eq!((figures.page_times.count(), figures.request_times().count()), (1, 9));
    let lazy: Vec<_> =
        figures.trace.iter().filter(|one| one.what == "lazy").map(|one| one.url.as_str()).collect();
    assert_eq!(lazy, [format!("{}/late.png", origin.url())]);
    let verdicts: Vec<_> = figures
        .verdicts
        .iter()
        .map(|((is_page, verdict), count)| (*is_page, verdict.name(), *count))
        .collect();
    assert_eq!(verdicts, [(true, "hit", 1)]);
}

#[test]
fn cookies_and_referer_are_sent() {
    let origin = Origin::start(site);
    load(&plan(&origin.url(), 1));
    for seen in origin.seen() {
        let is_page = seen.target() == "/";
        assert_eq!(seen.field("Cookie"), if is_page { None } else { Some("visitor=1") }, "{}", seen.target());
        assert_eq!(seen.field("Referer").is_some(), !is_page);
        assert_eq!(seen.field("Accept-Encoding"), Some("gzip"));
    }
}

#[test]
fn returning_visitor_requests_only_stale_resources() {
    let origin = Origin::start(site_with_validators);
    let outcome = load(&plan(&origin.url(), 3));
    assert_eq!((asked(&origin)["/a.css"], outcome.figures.pages.returning), (3, 0));

    let origin = Origin::start(site_with_validators);
    let outcome = load(&PagePlan { returning: 1.0, ..plan(&origin.url(), 4) });
    let asked = asked(&origin);
    let counts = ["/", "/a.css", "/b.css", "/hero.png", "/icon.png"].map(|target| asked[target]);
    assert_eq!(counts, [4, 1, 4, 1, 1]);
    let sheets = outcome.figures.class(ResourceClass::Stylesheet).unwrap();
    assert_eq!((sheets.requests, sheets.not_modified, sheets.from_cache), (5, 3, 3));
    assert_eq!((outcome.figures.pages.good, outcome.figures.pages.returning), (4, 3));
    assert_eq!(outcome.figures.returning_times.count(), 3);
    let known =
        origin.seen().into_iter().filter(|seen| seen.target() == "/" && seen.field("Cookie").is_some());
    assert_eq!(known.count(), 3);
}

#[test]
fn visitors_return_to_a_page_without_an_icon_of_its_own() {
    let foreign: &[u8] = b"<link rel=icon href=http://foreign.test/icon.png>";
    for (kind, html) in [(HTML, foreign), ("Content-Type: text/plain", &b"text"[..])] {
        let origin = Origin::start(move |_| response("200 OK", &[kind], html));
        let outcome = load(&PagePlan { returning: 1.0, ..plan(&origin.url(), 3) });
        assert_eq!((outcome.figures.pages.good, outcome.figures.pages.returning), (3, 2), "{kind}");
    }
}

#[test]
fn foreign_hosts_are_requested_only_if_allowed() {
    let other = Origin::start(|_| response("200 OK", &[], b"x"));
    let foreign = other.url();
    let html = format!("<img src={foreign}/x.png><img src=/away><script src=//foreign.test/></script>");
    let away = format!("Location: {foreign}/y.png");
    let origin = Origin::start(move |seen| match seen.target() {
        "/" => response("200 OK", &[HTML], html.as_bytes()),
        "/away" => response("302 Found", &[&away], b""),
        _ => response("404 Not Found", &[], b""),
    });
    let outcome = load(&plan(&origin.url(), 1));
    assert!(other.seen().is_empty(), "a foreign host received a request");
    assert_eq!(outcome.figures.foreign_hosts["127.0.0.1"], 2);
    assert_eq!(outcome.figures.failures[FetchFailure::Foreign as usize], 1);
    let named = PagePlan { allowed_hosts: vec![other.address().to_string()], ..plan(&origin.url(), 1) };
    load(&named);
    assert_eq!(targets(&other), "/x.png /y.png");
}

#[test]
fn at_most_six_connections_to_a_host_are_open() {
    let gate = Gate::default();
    let open = Arc::new(AtomicUsize::new(0));
    let html: String = (0..20).map(|number| format!("<img src=/{number}.png>")).collect();
    let (counted, waits) = (Arc::clone(&open), gate.clone());
    let origin = Origin::start(move |seen| {
        if seen.target() == "/" {
            return response("200 OK", &[HTML], html.as_bytes());
        }
        counted.fetch_add(1, Ordering::SeqCst);
        let mut actions = vec![Action::Await(waits.clone())];
        actions.extend(response("200 OK", &[], b"x"));
        actions
    });
    let opener = std::thread::spawn(move || {
        testkit::eventually("six requests wait", || open.load(Ordering::SeqCst) >= 6);
        gate.open();
    });
    let outcome = load(&plan(&origin.url(), 1));
    opener.join().unwrap();
    // The page load requests all images at once, and the run counts every connection. So a seventh
    // one would be counted, even if it was opened after the gate.
    assert_eq!((outcome.figures.pages.good, outcome.figures.connections), (1, 6));
}

#[test]
fn redirects_are_followed_and_error_pages_fail() {
    let origin = Origin::start(|seen| match seen.target() {
        "/" => response("301 Moved", &["Location: /home"], b""),
        "/home" => response("200 OK", &[HTML], b"<img src=gone.png>"),
        "/loop" => response("302 Found", &["Location: /loop"], b""),
        _ => response("404 Not Found", &[HTML], b"<img src=/never.png>"),
    });
    let outcome = load(&plan(&origin.url(), 1));
    assert_eq!((outcome.figures.pages.incomplete, outcome.figures.redirects), (1, 1));
    assert_eq!(outcome.figures.examples, [(format!("{}/gone.png", origin.url()), FetchFailure::Status)]);

    let outcome = load(&plan(&format!("{}/missing", origin.url()), 2));
    assert_eq!((outcome.figures.pages.failed, outcome.figures.page_times.count()), (2, 0));
    assert_eq!(asked(&origin).get("/never.png"), None);

    let outcome = load(&plan(&format!("{}/loop", origin.url()), 1));
    assert_eq!(outcome.figures.failures[FetchFailure::Redirects as usize], 1);
    assert_eq!(outcome.figures.limits.of(PageLimit::Redirects), 1);
    assert_eq!(asked(&origin)["/loop"], 21);
}

#[test]
fn gzip_is_decoded_up_to_the_limit() {
    let pack = |content: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    let (page, bomb) = (pack(b"<img src=/a.png>"), pack(&vec![b' '; 2_000_000]));
    let origin = Origin::start(move |seen| match seen.target() {
        "/" => response("200 OK", &[HTML, "Content-Encoding: gzip"], &page),
        "/bomb" => response("200 OK", &[HTML, "Content-Encoding: gzip"], &bomb),
        _ => response("200 OK", &[], &[0; 3000]),
    });
    load(&plan(&origin.url(), 1));
    assert_eq!(targets(&origin), "/ /a.png");
    let limits = PageLimits { decoded_bytes_max: 1_000_000, ..PageLimits::DEFAULT };
    let outcome = load(&PagePlan { limits, ..plan(&format!("{}/bomb", origin.url()), 1) });
    assert_eq!((outcome.figures.pages.failed, outcome.figures.limits.of(PageLimit::Decoded)), (1, 1));
    let limits = PageLimits { content_bytes_max: 1_000, assets_max: 0, ..PageLimits::DEFAULT };
    let outcome = load(&PagePlan { limits, ..plan(&format!("{}/big", origin.url()), 1) });
    assert_eq!((outcome.figures.pages.failed, outcome.figures.limits.of(PageLimit::Content)), (1, 1));
    let outcome = load(&PagePlan { limits, ..plan(&origin.url(), 1) });
    assert_eq!((outcome.figures.requests(), outcome.figures.limits.of(PageLimit::Assets)), (1, 2));
}

#[test]
fn endless_document_is_cut_off_at_the_decoded_limit() {
    let origin = Origin::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000000000\r\n\r\n";
        // The rest does not come.
        let content = vec![b' '; 3_000_000];
        vec![Action::Send(head.into()), Action::Send(content), Action::Await(Gate::default())]
    });
    let limits = PageLimits { decoded_bytes_max: 1_000_000, ..PageLimits::DEFAULT };
    let outcome = load(&PagePlan { limits, ..plan(&origin.url(), 1) });
    assert_eq!(outcome.figures.failures[FetchFailure::TooLong as usize], 1);
    assert_eq!(outcome.figures.limits.of(PageLimit::Decoded), 1);
}

#[test]
fn broken_stalled_and_invalid_responses_are_distinguished() {
    let origin = Origin::start(|seen| match seen.target() {
        "/" => response("200 OK", &[HTML], b"<img src=cut><img src=slow><img src=odd><img src=shut>"),
        "/cut" => {
            vec![Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx".to_vec()), Action::Close]
        }
        // This gate is never opened.
        "/slow" => vec![Action::Await(Gate::default())],
        "/odd" => vec![Action::Send(b"SSH-2.0-x\r\n\r\n".to_vec()), Action::Close],
        "/shut" => vec![Action::Close],
        _ => response("404 Not Found", &[], b""),
    });
    let outcome = load(&PagePlan { timeout: Duration::from_secs(4), ..plan(&origin.url(), 1) });
    let of = |kind: FetchFailure| outcome.figures.failures[kind as usize];
    assert_eq!([of(FetchFailure::Broken), of(FetchFailure::Timeout), of(FetchFailure::BadAnswer)], [1, 1, 1]);
    assert_eq!((of(FetchFailure::Closed), outcome.figures.failed_requests()), (1, 4));
    assert_eq!(outcome.figures.pages.incomplete, 1);
}

#[test]
fn unreachable_server_is_an_error_and_dying_one_an_outcome() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let gone = Origin::start(site);
    let url = gone.url();
    gone.kill();
    let error = run(&plan(&url, 2), &clock, &Arc::default()).unwrap_err();
    assert!(matches!(error, PageError::Unreachable { reason: "cannot connect", .. }), "{error}");

    let count = Mutex::new(0);
    let origin = Origin::start(move |seen| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count > 12 { vec![Action::Reset] } else { site(seen) }
    });
    let outcome = load(&plan(&origin.url(), 5));
    assert!(
        outcome.figures.pages.good >= 1 && outcome.figures.pages.failed >= 1,
        "{:?}",
        outcome.figures.pages
    );
}

/// A clock that panics at the twentieth reading of the first thread.
struct FaultyClock {
    clock: SystemClock,
    readings: AtomicUsize,
}

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Monotonic {
        let is_first = std::thread::current().name() == Some("page-0");
        let is_faulty = is_first && self.readings.fetch_add(1, Ordering::SeqCst) == 20;
        assert!(!is_faulty, "the clock has failed");
        self.clock.monotonic()
    }
}

#[test]
#[should_panic(expected = "the clock has failed")]
fn panic_in_one_thread_ends_the_run() {
    let origin = Origin::start(site);
    let clock: Arc<dyn Clock> =
        Arc::new(FaultyClock { clock: SystemClock::new(), readings: AtomicUsize::default() });
    let time = Some(Duration::from_secs(3_600));
    let endless = PagePlan { users: 2, threads: 2, pages: None, time, ..plan(&origin.url(), 1) };
    // The result does not matter, because the run has none.
    let _ = run(&endless, &clock, &Arc::default());
}

/// A clock that only the test moves, and that counts how often it is read.
struct CountedClock {
    clock: ManualClock,
    readings: AtomicUsize,
}

impl CountedClock {
    fn new() -> Arc<Self> {
        let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000));
        Arc::new(Self { clock, readings: AtomicUsize::default() })
    }

    fn advance_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Waits until the run has read the clock this many times. Its thread reads the clock each time
    /// that it looks for due pages, so it has then begun or counted them.
    fn await_readings(&self, count: usize) {
        let before = self.readings.load(Ordering::SeqCst);
        testkit::eventually("the run reads the clock", || {
            self.readings.load(Ordering::SeqCst) >= before + count
        });
    }
}

impl Clock for CountedClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Monotonic {
        self.readings.fetch_add(1, Ordering::SeqCst);
        self.clock.monotonic()
    }
}

/// Runs the plan in another thread with this clock.
fn begin(plan: PagePlan, clock: &Arc<CountedClock>, watch: &Arc<Watch>) -> JoinHandle<PageOutcome> {
    let (clock, watch): (Arc<dyn Clock>, _) = (Arc::<CountedClock>::clone(clock), Arc::clone(watch));
    std::thread::spawn(move || run(&plan, &clock, &watch).unwrap())
}

/// An origin that answers its requests only when the gate is open.
fn holding_all_requests(gate: &Gate) -> Origin {
    let waits = gate.clone();
    Origin::start(move |_| {
        let mut actions = vec![Action::Await(waits.clone())];
        actions.extend(response("200 OK", &[HTML], b"<p>"));
        actions
    })
}

#[test]
fn due_pages_without_a_free_visitor_are_counted_not_delayed() {
    let (gate, stop) = (Gate::default(), Arc::new(AtomicBool::new(false)));
    let origin = holding_all_requests(&gate);
    let (clock, watch) = (CountedClock::new(), Arc::new(Watch::stopped_by(Arc::clone(&stop))));
    // A page falls due every 20 ms.
    let time = Some(Duration::from_secs(3_600));
    let plan = PagePlan { users: 2, rate: Some(50.0), pages: None, time, ..plan(&origin.url(), 1) };
    let running = begin(plan, &clock, &watch);
    testkit::eventually("a page waits", || origin.seen().len() == 1);
    clock.advance_ms(25);
    testkit::eventually("two pages wait", || origin.seen().len() == 2);
    // Three pages fall due. Their counting reads the clock six times.
    clock.advance_ms(60);
    clock.await_readings(20);
    gate.open();
    testkit::eventually("both pages are loaded", || watch.pages() == (2, 0));
    clock.advance_ms(20);
    testkit::eventually("the next page that is due is loaded", || watch.pages() == (3, 0));
    stop.store(true, Ordering::SeqCst);
    let outcome = running.join().unwrap();
    let pages = &outcome.figures.pages;
    assert_eq!((pages.good, pages.not_started, pages.unfinished), (3, 3, 0));
    assert_eq!((outcome.ended, outcome.check.trust.to_string().as_str()), (PageEnd::Stopped, "invalid"));
    let reasons = &outcome.check.reasons;
    assert!(reasons.iter().any(|reason| reason.starts_with("3 pages fell due")), "{reasons:?}");
}

#[test]
fn moments_after_the_last_page_are_not_counted() {
    let gate = Gate::default();
    let origin = holding_all_requests(&gate);
    let clock = CountedClock::new();
    let plan = PagePlan { rate: Some(100.0), ..plan(&origin.url(), 1) };
    let running = begin(plan, &clock, &Arc::default());
    testkit::eventually("the page waits", || !origin.seen().is_empty());
    // A hundred page loads would fall due in this time.
    clock.advance_ms(1_000);
    clock.await_readings(10);
    gate.open();
    let outcome = running.join().unwrap();
    assert_eq!((outcome.figures.pages.good, outcome.figures.pages.not_started), (1, 0));
    assert_eq!(outcome.ended, PageEnd::Pages);
}

#[test]
fn run_ends_with_its_last_page() {
    let origin = Origin::start(site);
    // The second page would fall due, and the second visitor would begin, after an hour.
    let hours = Duration::from_secs(7_200);
    let arrivals = PagePlan { rate: Some(1.0 / 3_600.0), ..plan(&origin.url(), 1) };
    let ramp = PagePlan { users: 2, ramp: hours, ..plan(&origin.url(), 1) };
    for plan in [arrivals, ramp] {
        let outcome = load(&plan);
        assert_eq!(outcome.figures.pages.good, 1);
        assert!(outcome.elapsed < hours / 4, "{:?}", outcome.elapsed);
    }
}

#[test]
fn watch_counts_the_pages_of_concurrent_visitors() {
    let origin = Origin::start(site);
    let watch = Arc::new(Watch::default());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let plan = PagePlan { users: 4, threads: 2, ..plan(&origin.url(), 12) };
    let outcome = run(&plan, &clock, &watch).unwrap();
    assert_eq!((outcome.figures.pages.good, watch.pages()), (12, (12, 0)));
    assert_eq!(outcome.cpu.len(), 2);
    let counts = asked(&origin);
    assert_eq!((counts["/"], counts["/hero.png"]), (12, 12));
}

#[test]
fn pages_of_the_warm_up_are_not_counted() {
    let origin = Origin::start(site);
    let warmup = Duration::from_secs(1);
    let plan = PagePlan { warmup, users: 2, threads: 2, ..plan(&origin.url(), 20) };
    let (clock, watch): (Arc<dyn Clock>, _) = (Arc::new(SystemClock::new()), Arc::new(Watch::default()));
    let outcome = run(&plan, &clock, &watch).unwrap();
    assert_eq!((outcome.pages(), outcome.figures.page_times.count(), watch.pages()), (20, 20, (20, 0)));
    assert!(asked(&origin)["/"] > 20, "there was no warm-up");
}

/// An origin that answers the first request only when the gate is open.
fn holding_the_first_request(gate: &Gate) -> Origin {
    let (waits, count) = (gate.clone(), AtomicUsize::new(0));
    Origin::start(move |_| {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let mut actions: Vec<_> = is_first.then(|| Action::Await(waits.clone())).into_iter().collect();
        actions.extend(response("200 OK", &[HTML], b"<img src=/a.png>"));
        actions
    })
}

#[test]
fn requests_of_a_page_of_the_warm_up_are_not_counted() {
    let gate = Gate::default();
    let origin = holding_the_first_request(&gate);
    let clock = CountedClock::new();
    let plan = PagePlan { warmup: Duration::from_millis(100), ..plan(&origin.url(), 1) };
    let running = begin(plan, &clock, &Arc::default());
    testkit::eventually("the page of the warm-up waits", || origin.seen().len() == 1);
    clock.advance_ms(200);
    gate.open();
    let outcome = running.join().unwrap();
    let figures = &outcome.figures;
    assert_eq!((outcome.pages(), origin.seen().len()), (1, 6));
    assert_eq!((figures.requests(), figures.statuses[&200], figures.page_times.count()), (3, 3, 1));
    assert_eq!(outcome.seconds.iter().map(|second| second.requests).sum::<u64>(), 3);
    assert_eq!(outcome.seconds.iter().map(|second| second.started).sum::<u64>(), 1);
}

#[test]
fn page_of_the_warm_up_is_not_unfinished() {
    let origin = holding_the_first_request(&Gate::default());
    let (warmup, time) = (Duration::from_millis(50), Some(Duration::from_millis(100)));
    let clock = CountedClock::new();
    let plan = PagePlan { warmup, time, pages: None, ..plan(&origin.url(), 1) };
    let running = begin(plan, &clock, &Arc::default());
    testkit::eventually("the page of the warm-up waits", || origin.seen().len() == 1);
    clock.advance_ms(150);
    let outcome = running.join().unwrap();
    assert_eq!((outcome.pages(), outcome.figures.pages.unfinished), (0, 0));
    assert_eq!(outcome.ended, PageEnd::Time);
}

#[test]
fn server_that_is_silent_in_the_warm_up_is_unreachable() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let gone = Origin::start(site);
    let url = gone.url();
    gone.kill();
    let plan = PagePlan { warmup: Duration::from_secs(3_600), stops_when_failing: true, ..plan(&url, 1) };
    let error = run(&plan, &clock, &Arc::default()).unwrap_err();
    assert!(matches!(error, PageError::Unreachable { reason: "cannot connect", .. }), "{error}");
}

#[test]
fn ramp_up_starts_visitors_one_after_the_other() {
    let (held, count) = (Gate::default(), AtomicUsize::new(0));
    // No request is answered before the third visitor has come.
    let origin = Origin::start(move |seen| {
        if seen.target() == "/" && count.fetch_add(1, Ordering::SeqCst) == 2 {
            held.open();
        }
        let mut actions = vec![Action::Await(held.clone())];
        actions.extend(response("200 OK", &[HTML], b"<p>"));
        actions
    });
    let ramp = Duration::from_millis(300);
    let outcome = load(&PagePlan { users: 3, threads: 2, ramp, ..plan(&origin.url(), 3) });
    assert_eq!(outcome.figures.pages.good, 3);
    assert!(outcome.elapsed >= ramp * 2 / 3, "{:?}", outcome.elapsed);
}

#[test]
fn mostly_failing_run_ends_early_if_the_plan_says_so() {
    let origin = Origin::start(|seen| match seen.target() {
        "/" => response("200 OK", &[HTML], b"<img src=a><img src=b><img src=c>"),
        _ => response("500 Oh", &[], b"no"),
    });
    let endless =
        PagePlan { users: 2, threads: 2, stops_when_failing: true, ..plan(&origin.url(), u64::MAX) };
    let outcome = load(&endless);
    assert_eq!((outcome.ended, outcome.ended.name()), (PageEnd::Failing, "failing"));
    assert!(outcome.figures.pages.incomplete > 0);
    let stubborn = PagePlan { stops_when_failing: false, ..plan(&origin.url(), 30) };
    assert_eq!(load(&stubborn).ended, PageEnd::Pages);
    let healthy = Origin::start(site);
    let outcome = load(&PagePlan {
        pages: None,
        time: Some(Duration::from_millis(1_500)),
        ..PagePlan { stops_when_failing: true, ..plan(&healthy.url(), 1) }
    });
    assert_eq!(outcome.ended, PageEnd::Time);
}

#[test]
fn seconds_add_up_to_the_figures_of_the_run() {
    let origin = Origin::start(|seen| match seen.target() {
        "/" => {
            let mut actions = vec![Action::Pause(Duration::from_millis(100))];
            actions.extend(response("200 OK", &[HTML], b"<img src=/gone.png><img src=/a.png>"));
            actions
        }
        "/gone.png" => response("404 Not Found", &[], b""),
        _ => response("200 OK", &[], b"x"),
    });
    let warmup = Duration::from_millis(200);
    let outcome = load(&PagePlan { warmup, users: 2, threads: 2, ..plan(&origin.url(), 30) });
    let (seconds, figures) = (&outcome.seconds, &outcome.figures);
    let sum = |of: fn(&record::PageSecond) -> u64| seconds.iter().map(of).sum::<u64>();
    assert_eq!((sum(|second| second.incomplete), sum(|second| second.good)), (figures.pages.incomplete, 0));
    assert_eq!(sum(|second| second.failed_requests), figures.failed_requests());
    assert_eq!(sum(|second| second.requests), figures.requests());
    // Fifteen pages for each of two visitors, each at least a tenth of a second.
    assert!(seconds.len() >= 2 && outcome.elapsed.as_secs() as usize <= seconds.len(), "{}", seconds.len());
    let times: Vec<_> = seconds.iter().filter_map(|second| second.page_times).collect();
    assert!(times.iter().all(|times| times.p50_us >= 100_000), "{times:?}");
    let longest = times.iter().map(|times| times.max_us).max();
    assert_eq!(longest, Some(figures.page_times.max_us()));
    // Requests that end with the time limit, or just after it, belong to the last second.
    let time = Some(Duration::from_secs(1));
    let outcome = load(&PagePlan { pages: None, time, users: 2, ..plan(&origin.url(), 1) });
    let requests: Vec<u64> = outcome.seconds.iter().map(|second| second.requests).collect();
    assert_eq!(requests, [outcome.figures.requests()]);
}
