//! The leak guard: pages that depend on cookies which the profile ignores as noise.

use crate::support::{Stage, bare, behind, reason};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testkit::{Action, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";
const NOISE: &[&str] = &["Cookie: _ga=1; _fbp=2", "User-Agent: somebody's own"];

/// An edge that checks every hit with cookies.
fn stage(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    Stage::with(|plan| plan.limits.leak_guard_every = 1, script)
}

/// A page with this text and nonce.
fn page(own: &str, nonce: u32) -> Vec<Action> {
    let text = format!(
        "<html><body><h1>A page that everybody may read</h1><p>{own}</p><p>It has a few words more, as pages do.</p>\
         <input name=\"nonce\" value=\"{nonce:08x}\"><p>And so it ends.</p></body></html>"
    );
    response("200 OK", &[FRESH], text.as_bytes())
}

fn of_cookies(seen: &Seen) -> &str {
    if seen.field("Cookie").is_some() { "Hello Ann" } else { "Hello stranger" }
}

#[test]
fn page_that_depends_on_noise_cookies_is_not_shared() {
    let stage = stage(|seen| page(of_cookies(seen), 7));
    assert!(stage.get("/", &[]).text().contains("stranger"));
    let checked = stage.get("/", NOISE);
    assert_eq!(reason(&checked), "pass-leak-guard");
    assert!(checked.text().contains("Ann"), "the client gets its own response");
    // Not the last request: the edge may already be investigating.
    let asked = stage.origin.seen().into_iter().nth(1).unwrap();
    assert_eq!(asked.field("Cookie"), Some("_ga=1; _fbp=2"));
    assert_ne!(asked.field("User-Agent"), Some("somebody's own"), "only cookies may make a difference");
    eventually("the leak is found", || stage.metric("petasos_leaks_prevented_total", "") == 1);
    assert!(
        stage.origin.seen().last().unwrap().field("Cookie").is_none(),
        "the investigation sends no cookies"
    );
    for _ in 0..3 {
        let own = stage.get("/", NOISE);
        assert_eq!((reason(&own), own.text().contains("Ann")), ("pass-leak-guard", true));
        let shared = stage.get("/", &[]);
        assert_eq!((reason(&shared), shared.text().contains("stranger")), ("hit-fresh", true));
    }
    let why =
        stage.call_admin("POST", "/why", r#"{"url":"http://example.test/","headers":[["Cookie","_ga=1"]]}"#);
    assert!(why.text().contains("pass-leak-guard") && why.text().contains("_ga, _fbp"), "{}", why.text());
    assert_eq!(stage.metric("petasos_leak_checks_total", ""), 1, "a known leak is not checked again");
}

#[test]
fn page_that_changes_by_itself_stays_shared() {
    let nonces = AtomicU32::new(0);
    let stage = stage(move |_| page("Hello", nonces.fetch_add(0x1234_5678, Ordering::Relaxed)));
    stage.get("/", &[]);
    for round in 1..=3 {
        assert_eq!(reason(&stage.get("/", NOISE)), "pass-leak-guard");
        eventually("a leak is suspected", || stage.metric("petasos_leak_suspicions_total", "") == round);
        eventually("the page is trusted again", || {
            reason(&stage.get("/", &[NOISE, &["Range: bytes=0-3"]].concat())) == "hit-fresh"
        });
    }
    assert_eq!(stage.metric("petasos_leaks_prevented_total", ""), 0);
}

#[test]
fn check_of_an_equal_page_costs_one_request() {
    let stage = stage(|_| page("Hello", 7));
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", NOISE)), "pass-leak-guard");
    assert_eq!(stage.metric("petasos_leak_suspicions_total", ""), 0);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    stage.await_seen(2);
}

#[test]
fn failed_check_delivers_the_stored_page() {
    let stage = stage(|seen| match seen.field("Cookie") {
        Some(_) => response("503 Service Unavailable", &[], b"busy"),
        None => page("Hello", 7),
    });
    stage.get("/", &[]);
    let checked = stage.get("/", NOISE);
    assert_eq!((checked.status, reason(&checked)), (200, "hit-fresh"));
    stage.origin.kill();
    let checked = stage.get("/", NOISE);
    assert_eq!((checked.status, reason(&checked)), (200, "hit-fresh"));
    assert_eq!(stage.metric("petasos_leak_suspicions_total", ""), 0);
}

/// The reason, and whether the response is the visitor's own.
fn got(stage: &Stage, fields: &[&str]) -> (String, bool) {
    let answer = stage.get("/", fields);
    (reason(&answer).to_owned(), answer.text().contains("Ann"))
}

fn hit() -> (String, bool) {
    ("hit-fresh".to_owned(), false)
}

fn checks(stage: &Stage) -> u64 {
    stage.metric("petasos_leak_checks_total", "")
}

/// Whether visitors with cookies receive the stored page. Tested with a range request, which is not
/// checked itself.
fn is_shared(stage: &Stage) -> bool {
    renew(stage);
    got(stage, &[NOISE, &["Range: bytes=0-999"]].concat()) == hit()
}

/// Waits until a fresh page is stored.
fn renew(stage: &Stage) {
    eventually("it is fresh", || reason(&stage.get("/", &[])) == "hit-fresh");
}

fn prevented(stage: &Stage) -> u64 {
    stage.metric("petasos_leaks_prevented_total", "")
}

#[test]
fn token_that_depends_on_the_cookie_is_a_leak() {
    let stage = stage(|seen| page("Hello", if seen.field("Cookie").is_some() { 1 } else { 2 }));
    stage.get("/", &[]);
    stage.get("/", NOISE);
    eventually("the leak is found", || prevented(&stage) == 1);
    let own = stage.get("/", NOISE);
    assert!(reason(&own) == "pass-leak-guard" && own.text().contains("00000001"));
}

#[test]
fn differences_in_the_head_alone_are_no_leak() {
    let stage = stage(|seen| match seen.field("Cookie") {
        Some(_) => response("200 OK", &[FRESH, "X-User: Ann", "Set-Cookie: seen=1"], b"the same for all"),
        None => response("200 OK", &[FRESH], b"the same for all"),
    });
    stage.get("/", &[]);
    let checked = stage.get("/", NOISE);
    assert_eq!((checked.field("X-User"), checked.field("Set-Cookie")), (Some("Ann"), Some("seen=1")));
    eventually("the page is checked", || checks(&stage) == 1);
    let shared = stage.get("/", &["Cookie: _ga=9", "Range: bytes=0-99"]);
    assert_eq!(
        (reason(&shared), shared.field("X-User"), shared.field("Set-Cookie")),
        ("hit-fresh", None, None)
    );
    stage.await_seen(2);
}

#[test]
fn redirect_that_depends_on_a_cookie_is_a_leak() {
    let stage = stage(|seen| {
        let place = if seen.field("Cookie").is_some() { "Location: /de/" } else { "Location: /en/" };
        response("301 Moved Permanently", &[FRESH, place], b"moved")
    });
    stage.get("/", &[]);
    assert_eq!(stage.get("/", NOISE).field("Location"), Some("/de/"));
    eventually("the leak is found", || prevented(&stage) == 1);
    assert_eq!(stage.get("/", NOISE).field("Location"), Some("/de/"));
    assert_eq!(stage.get("/", &[]).field("Location"), Some("/en/"));
}

#[test]
fn response_that_is_not_the_page_is_not_compared() {
    for status in ["503 Service Unavailable", "429 Too Many Requests", "304 Not Modified"] {
        let stage = stage(move |seen| match seen.field("Cookie") {
            Some(_) => bare(status, &["Content-Length: 0"]),
            None => page("Hello", 7),
        });
        stage.get("/", &[]);
        assert_eq!(got(&stage, NOISE), hit(), "{status}");
        assert_eq!(checks(&stage), 0, "{status}");
    }
}

#[test]
fn late_check_delivers_the_stored_page() {
    let gate = Gate::default();
    let script = {
        let gate = gate.clone();
        move |seen: &Seen| match seen.field("Cookie") {
            Some(_) => behind(&gate, page("Hello Ann", 7)),
            None => page("Hello", 7),
        }
    };
    let change = |plan: &mut config::EdgePlan| {
        plan.limits.leak_guard_every = 1;
        plan.limits.flight_wait = Duration::from_millis(50);
    };
    let stage = Stage::with(change, script);
    stage.get("/", &[]);
    assert_eq!(got(&stage, NOISE), hit());
    gate.open();
}

#[test]
fn responses_are_compared_after_decoding() {
    let gzip = |text: &[u8]| {
        let mut coder = GzEncoder::new(Vec::new(), Compression::best());
        coder.write_all(text).unwrap();
        coder.finish().unwrap()
    };
    let stage = stage(move |seen| {
        let own =
            if seen.field("Cookie").is_some_and(|cookie| cookie.contains("_fbp")) { "Ann" } else { "all" };
        let text = format!("<p>what everybody may read, and more of it</p><p>{own}</p>");
        let coded = seen.field("Cookie").is_none();
        let head = ["Cache-Control: max-age=600", "Vary: Accept-Encoding", "Content-Encoding: gzip"];
        if coded {
            response("200 OK", &head, &gzip(text.as_bytes()))
        } else {
            response("200 OK", &head[..2], text.as_bytes())
        }
    });
    let accepting = |cookie| ["Accept-Encoding: gzip", cookie];
    stage.get("/", &["Accept-Encoding: gzip"]);
    stage.get("/", &accepting("Cookie: _ga=1"));
    eventually("the page is checked", || checks(&stage) == 1);
    assert_eq!(stage.metric("petasos_leak_suspicions_total", ""), 0);
    stage.get("/", &accepting("Cookie: _fbp=1"));
    eventually("the leak is found", || prevented(&stage) == 1);
}

#[test]
fn long_partial_and_non_page_responses_are_not_checked() {
    let long = "x".repeat(1024 * 1024 + 1);
    let stage = stage(move |seen| match seen.target() {
        "/long" => response("200 OK", &[FRESH], long.as_bytes()),
        "/image" => response("200 OK", &[FRESH, "Content-Type: image/png"], b"png"),
        _ => page("Hello", 7),
    });
    for (target, fields, method) in [
        ("/long", vec![], "GET"),
        ("/image", vec![], "GET"),
        ("/head", vec![], "HEAD"),
        ("/part", vec!["Range: bytes=0-3"], "GET"),
        ("/known", vec!["If-None-Match: \"1\""], "GET"),
    ] {
        stage.get(target, &[]);
        let answer = stage.ask(method, target, &[NOISE, &fields].concat());
        assert_eq!(reason(&answer), "hit-fresh", "{target}");
    }
    assert_eq!(reason(&stage.get("/head", NOISE)), "pass-leak-guard", "as it was wanted");
}

#[test]
fn edit_between_two_fetches_is_no_leak() {
    let edition = std::sync::Arc::new(AtomicU32::new(1));
    let stage = stage({
        let edition = edition.clone();
        move |_| page(&format!("Edition {}", edition.load(Ordering::Relaxed)), 7)
    });
    stage.get("/", &[]);
    edition.store(2, Ordering::Relaxed);
    assert!(stage.get("/", NOISE).text().contains("Edition 2"));
    eventually("a leak is suspected", || stage.metric("petasos_leak_suspicions_total", "") == 1);
    eventually("the page is shared again", || is_shared(&stage));
    assert!(stage.get("/", &[]).text().contains("Edition 2"), "and renewed");
    assert_eq!(prevented(&stage), 0);
}

#[test]
fn page_is_withheld_and_checked_again_if_the_refetch_fails() {
    let stage = stage(|seen| page(of_cookies(seen), 7));
    stage.get("/", &[]);
    // From now on the page cannot be fetched without cookies, so the difference cannot be
    // investigated.
    stage.becomes(|seen| match seen.field("Cookie") {
        Some(_) => page("Hello Ann", 7),
        None => response("503 Service Unavailable", &[], b"busy"),
    });
    let seen = stage.origin.seen().len();
    assert_eq!(got(&stage, NOISE), ("pass-leak-guard".to_owned(), true));
    stage.await_seen(seen + 2);
    stage.await_quiet();
    assert_eq!(got(&stage, NOISE), ("pass-leak-guard".to_owned(), true));
    assert_eq!((prevented(&stage), checks(&stage)), (0, 1), "the edge claims only what it knows");
    stage.pass(60);
    assert_eq!(got(&stage, NOISE), ("pass-leak-guard".to_owned(), true));
    eventually("the second investigation begins", || checks(&stage) == 2);
    stage.await_quiet();
    stage.becomes(|_| page("Hello stranger", 7));
    stage.pass(60);
    eventually("the page is investigated again", || {
        renew(&stage);
        stage.get("/", NOISE);
        stage.pass(60);
        checks(&stage) >= 3
    });
    eventually("the page is shared again", || is_shared(&stage));
}

#[test]
fn leak_stays_withheld_until_another_check() {
    let change = |plan: &mut config::EdgePlan| plan.limits.leak_guard_every = 1_000_000;
    let stage = Stage::with(change, |seen| page(of_cookies(seen), 7));
    renew(&stage);
    got(&stage, NOISE);
    eventually("the leak is found", || prevented(&stage) == 1);
    stage.pass(3_600);
    renew(&stage);
    assert_eq!(got(&stage, &["Cookie: _ga=1"]), ("pass-leak-guard".to_owned(), true));
    assert_eq!(checks(&stage), 1, "it lacks one of the cookies that made the difference");
    assert_eq!(got(&stage, NOISE), ("pass-leak-guard".to_owned(), true));
    eventually("the leak is found again", || prevented(&stage) == 2);
    stage.becomes(|_| page("Hello", 7));
    stage.pass(3_600);
    renew(&stage);
    got(&stage, NOISE);
    eventually("the page is investigated again", || checks(&stage) == 3);
    eventually("the page is shared again", || is_shared(&stage));
}

#[test]
fn cookies_outside_the_key_are_checked() {
    let change = |plan: &mut config::EdgePlan| {
        plan.limits.leak_guard_every = 1;
        plan.sites.iter_mut().for_each(|site| site.policy.keyed_cookies = vec!["currency".to_owned()]);
    };
    let stage = Stage::with(change, |seen| {
        let cookies = seen.field("Cookie").unwrap_or_default();
        let currency = if cookies.contains("currency=EUR") { "EUR" } else { "USD" };
        let own = if cookies.contains("_fbp") { "Hello Ann" } else { "Hello stranger" };
        page(&format!("{own}</p><p>prices in {currency}"), 7)
    });
    for keyed in [&[][..], &["Cookie: currency=EUR"]] {
        stage.get("/", keyed);
        assert_eq!(reason(&stage.get("/", keyed)), "hit-fresh", "only with keyed cookies");
    }
    let asks = stage.get("/", &["Cookie: currency=EUR; _ga=1"]);
    assert!(reason(&asks) == "pass-leak-guard" && asks.text().contains("EUR"));
    assert_eq!(stage.last_seen().field("Cookie"), Some("currency=EUR; _ga=1"));
    eventually("the page is checked", || checks(&stage) == 1);
    assert_eq!(stage.metric("petasos_leak_suspicions_total", ""), 0, "the currency is in the key");
    assert_eq!(got(&stage, &["Cookie: _fbp=1; currency=EUR"]), ("pass-leak-guard".to_owned(), true));
    eventually("the leak is found", || prevented(&stage) == 1);
    assert_eq!(
        stage.last_seen().field("Cookie"),
        Some("currency=EUR"),
        "the investigation sends the keyed cookies"
    );
    let why = stage.call_admin(
        "POST",
        "/why",
        r#"{"url":"http://example.test/","headers":[["Cookie","currency=EUR; _fbp=1"]]}"#,
    );
    assert!(why.text().contains("pass-leak-guard") && why.text().contains("\"_fbp\""), "{}", why.text());
    assert_eq!(reason(&stage.get("/", &["Cookie: currency=EUR"])), "hit-fresh");
}

#[test]
fn busy_origin_receives_no_further_checks() {
    let gate = Gate::default();
    let script = {
        let gate = gate.clone();
        move |seen: &Seen| match seen.field("Cookie") {
            Some(_) => behind(&gate, page("Hello", 7)),
            None => page("Hello", 7),
        }
    };
    let change = |plan: &mut config::EdgePlan| {
        plan.limits.leak_guard_every = 1;
        plan.limits.fetches_max = 4;
    };
    let stage = Stage::with(change, script);
    stage.get("/", &[]);
    let mut checked: Vec<_> = (0..2).map(|_| stage.begin("GET", "/", NOISE)).collect();
    stage.await_seen(3);
    for _ in 0..20 {
        assert_eq!(got(&stage, NOISE), hit(), "no check while the origin is busy");
    }
    stage.await_seen(3);
    gate.open();
    checked.iter_mut().for_each(|client| assert_eq!(client.read().status, 200));
}
