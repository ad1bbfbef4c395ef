//! Probes a scripted site, and checks the findings, the text and the JSON document.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use clock::{ManualClock, Timestamp};
use petasos_why::findings::{Cacheable, Findings, ResponseSameness, SpotNature};
use petasos_why::{DIRECT_MEMBERS, Fetcher, HeaderLine, Probe, ProbeError, inspect, report, visit};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use testkit::{Action, Gate, Origin, Seen, response};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW_SECS: u64 = 784_111_777;

fn ask(origin: &Origin, path: &str, lines: &[&str]) -> Findings {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(NOW_SECS)));
    let fetcher = Fetcher { tls: None, clock };
    let url = HttpUrl::parse(&format!("{}{path}", origin.url())).unwrap();
    let lines: Vec<HeaderLine> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    inspect(&runtime.block_on(visit(&fetcher, &url, &lines, Duration::ZERO)).unwrap())
}

fn findings(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Findings {
    ask(&Origin::start(script), "/", &[])
}

fn constant(fields: &'static [&'static str]) -> Findings {
    findings(move |_| response("200 OK", fields, b"<p>a page</p>"))
}

fn verdict(fields: &'static [&'static str]) -> (Cacheable, Option<&'static str>) {
    let verdict = constant(fields).verdict;
    (verdict.cacheable, verdict.reason)
}

fn result(findings: &Findings, request: &str) -> ResponseSameness {
    findings.changes.iter().find(|change| change.request == request).unwrap().result
}

#[test]
fn verdict_equals_that_of_the_edge() {
    assert_eq!(verdict(&["Cache-Control: s-maxage=60"]), (Cacheable::Yes, None));
    for (fields, cacheable, reason) in [
        (&["Cache-Control: private"][..], Cacheable::No, "store-refused-private"),
        (&["Cache-Control: no-store, max-age=9"], Cacheable::No, "store-refused-no-store"),
        (&["Cache-Control: max-age=0"], Cacheable::No, "store-refused-expired"),
        (&["Cache-Control: max-age=60", "Vary: *"], Cacheable::No, "store-refused-vary-star"),
        (
            &["Cache-Control: max-age=60", "Set-Cookie: csrftoken=b"],
            Cacheable::No,
            "store-refused-set-cookie",
        ),
        (&[], Cacheable::WithSettings, "store-refused-no-freshness"),
        (&["ETag: \"1\"", "Cache-Control: no-cache"], Cacheable::Revalidated, "miss-no-cache"),
        (&["ETag: \"1\""], Cacheable::WithSettings, "miss-no-lifetime"),
    ] {
        assert_eq!(verdict(fields), (cacheable, Some(reason)), "{fields:?}");
    }
}

#[test]
fn cacheable_error_is_still_reported_as_an_error() {
    let found = findings(|_| response("500 Internal Server Error", &["Cache-Control: max-age=60"], b"oops"));
    assert_eq!(found.verdict.cacheable, Cacheable::Yes);
    assert!(report(&found).contains("AN ERROR, AND CACHEABLE"));
    assert!(found.hints.iter().any(|hint| hint.contains("answers 500. Repair it")), "{:?}", found.hints);
}

#[test]
fn log_in_page_is_not_advised_to_be_public() {
    let fields: &[_] = &["Cache-Control: private, max-age=0", "Set-Cookie: csrftoken=a"];
    let found = findings(|_| response("200 OK", fields, b"<form><input type=\"password\"></form>"));
    assert!(found.obstacles.len() > 1, "{:?}", found.obstacles);
    for obstacle in &found.obstacles {
        assert!(obstacle.remedy.contains("log-in page is better not shared"), "{obstacle:?}");
    }
    assert!(
        found.hints.iter().any(|hint| hint.contains("Leave a log-in page unshared")),
        "{:?}",
        found.hints
    );
}

#[test]
fn log_in_page_gets_no_suggested_setting() {
    let fields: &[_] = &["Cache-Control: max-age=60", "Set-Cookie: PHPSESSID=1; path=/"];
    let settings_for = |content: &'static [u8]| {
        let found = findings(move |_| response("200 OK", fields, content));
        (found.verdict.cacheable, found.settings.len())
    };
    assert_eq!(settings_for(b"<form><input type=\"text\"></form>"), (Cacheable::WithSettings, 1));
    assert_eq!(settings_for(b"<form><input type=\"password\"></form>"), (Cacheable::No, 0));
}

#[test]
fn redirect_to_https_is_explained_as_a_loop_behind_a_proxy() {
    let found = findings(|seen| {
        let location = format!("Location: https://{}/", seen.field("Host").unwrap());
        response("301 Moved Permanently", &[&location], b"")
    });
    assert!(found.hints.iter().any(|hint| hint.contains("trusted_proxies")), "{:?}", found.hints);
}

#[test]
fn all_obstacles_are_found_in_order() {
    let found = constant(&["Set-Cookie: PHPSESSID=1; path=/", "Cache-Control: private", "Vary: *"]);
    let reasons: Vec<_> = found.obstacles.iter().map(|obstacle| obstacle.reason).collect();
    assert_eq!(reasons, ["store-refused-set-cookie", "store-refused-private", "store-refused-vary-star"]);
    let culprit = found.obstacles[0].culprit.as_ref().unwrap();
    assert_eq!((culprit.kind, culprit.name.as_str(), culprit.software), ("cookie", "PHPSESSID", Some("PHP")));
    assert!(found.obstacles[0].remedy.contains("session_start"));
    let solved: Vec<_> = found.obstacles.iter().map(|obstacle| obstacle.solved_by_setting).collect();
    assert_eq!((found.settings.len(), solved), (1, vec![true, false, false]), "the setting is not enough");
}

fn settings(found: &Findings) -> Vec<(&str, &str)> {
    found.settings.iter().map(|setting| (setting.key, &setting.value[..])).collect()
}

#[test]
fn stripped_cookies_is_suggested_for_a_session_cookie() {
    let stripped = ("stripped_cookies", r#"["PHPSESSID"]"#);
    let found = constant(&["Cache-Control: max-age=60", "Set-Cookie: PHPSESSID=1; path=/"]);
    assert_eq!((found.verdict.cacheable, found.verdict.lifetime_secs), (Cacheable::WithSettings, Some(60)));
    assert_eq!(settings(&found), [stripped]);
    let text = report(&found);
    let words = "CACHEABLE with stripped_cookies = [\"PHPSESSID\"] in the configuration file";
    assert!(text.contains(words), "{text}");
    let found = constant(&["Set-Cookie: PHPSESSID=1", "Set-Cookie: lang=en"]);
    let both = ("stripped_cookies", r#"["PHPSESSID", "lang"]"#);
    assert_eq!(
        (found.verdict.cacheable, settings(&found)),
        (Cacheable::WithSettings, vec![both, ("ttl", "5m")])
    );
}

#[test]
fn stripping_is_not_suggested_for_form_or_visitor_cookies() {
    const FRESH: &str = "Cache-Control: max-age=60";
    for fields in
        [&[FRESH, "Set-Cookie: csrftoken=1"][..], &[FRESH, "Set-Cookie: id=1", "Set-Cookie: XSRF-TOKEN=2"]]
    {
        assert_eq!((settings(&constant(fields)), verdict(fields).0), (vec![], Cacheable::No), "{fields:?}");
    }
    let count = std::sync::atomic::AtomicUsize::new(0x3fa9);
    let origin = Origin::start(move |_| {
        let number = count.fetch_add(0x1f3d, std::sync::atomic::Ordering::SeqCst);
        let form = format!(
            "<form><input type=hidden name=csrf_token value=\"9f{number:08x}c4d1e2{number:08x}\"></form>"
        );
        response("200 OK", &[FRESH, "Set-Cookie: PHPSESSID=1"], form.as_bytes())
    });
    assert_eq!(ask(&origin, "/", &[]).settings, [], "the token belongs to the session");
    let origin = Origin::start(|_| response("200 OK", &[FRESH, "Set-Cookie: PHPSESSID=1"], b"x"));
    assert_eq!(
        ask(&origin, "/", &["Cookie: theme=dark"]).settings,
        [],
        "perhaps because of the other cookie"
    );
}

#[test]
fn static_file_with_cookies_is_judged_as_a_file() {
    const CSS: &str = "Content-Type: text/css";
    let file = |path: &str, lines: &[&str], fields: &'static [&'static str]| {
        let origin = Origin::start(move |_| response("200 OK", fields, b"a {}"));
        let found = ask(&origin, path, lines);
        let settings: Vec<_> =
            found.settings.iter().map(|setting| format!("{} = {}", setting.key, setting.value)).collect();
        (found.verdict.cacheable, found.verdict.reason, settings.join(" and "))
    };
    let session = &["Cookie: PHPSESSID=1"][..];
    let fresh = &[CSS, "Cache-Control: max-age=60"][..];
    assert_eq!(file("/a/x.css", session, fresh), (Cacheable::Yes, None, String::new()));
    let declared = "static_paths = [\"/a/*\"]".to_owned();
    let reason = Some("pass-cookie");
    assert_eq!(file("/a/x", session, fresh), (Cacheable::WithSettings, reason, declared.clone()));
    let vary = &[CSS, "Cache-Control: max-age=60", "Vary: Cookie"][..];
    assert_eq!(file("/a/x.css", session, vary), (Cacheable::WithSettings, reason, declared.clone()));
    let sets = &[CSS, "Cache-Control: max-age=60", "Set-Cookie: PHPSESSID=1"][..];
    let reason = Some("store-refused-set-cookie");
    assert_eq!(file("/a/x.css", &[], sets), (Cacheable::WithSettings, reason, declared));
    assert_eq!(file("/x.css", &[], sets).2, "static_paths = [\"/x.css\"]");
    let page = &["Content-Type: text/html", "Cache-Control: max-age=60"][..];
    assert_eq!(file("/a/x", session, page), (Cacheable::No, Some("pass-cookie"), String::new()), "a page");
}

#[test]
fn wordpress_profile_is_suggested_only_for_a_guess() {
    let link = "Link: <http://a/wp-json/>; rel=\"https://api.w.org/\"";
    const HTML: &str = "Content-Type: text/html";
    let found = findings(move |_| response("200 OK", &[HTML, link], b"<p>a blog</p>"));
    assert_eq!((found.verdict.cacheable, &found.verdict.profile[..]), (Cacheable::Yes, "wordpress"));
    assert_eq!((found.verdict.lifetime_secs, found.settings.len()), (Some(300), 0));
    let noise = findings(move |_| response("200 OK", &[HTML, link, "Set-Cookie: pll_language=en"], b"x"));
    assert_eq!((noise.verdict.cacheable, noise.cookies[0].request), (Cacheable::Yes, "looked-up"));
    let guessed = findings(move |_| response("200 OK", &[], b"<img src=/wp-content/a.png>"));
    assert_eq!(guessed.verdict.cacheable, Cacheable::WithSettings);
    assert_eq!((guessed.settings[0].key, guessed.settings[0].value.as_str()), ("profile", "wordpress"));
    let cookie = findings(move |_| response("200 OK", &["Set-Cookie: tinv_wishlistkey=1"], b"/wp-content/"));
    assert_eq!((cookie.verdict.cacheable, cookie.obstacles.len()), (Cacheable::WithSettings, 2));
    assert_eq!(settings(&cookie)[1], ("profile", "wordpress"));
    assert!(cookie.obstacles[0].remedy.contains("wish list") && cookie.obstacles[1].solved_by_setting);
    assert_eq!(cookie.cookies[0].request, "pass-cookie");
}

#[test]
fn request_cookie_is_reported_as_an_obstacle() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: s-maxage=60"], b"x"));
    let found = ask(&origin, "/", &["Cookie: sessionid=1"]);
    assert_eq!((found.verdict.cacheable, found.verdict.reason), (Cacheable::No, Some("pass-cookie")));
    let culprit = found.obstacles[0].culprit.as_ref().unwrap();
    assert_eq!((culprit.name.as_str(), culprit.software), ("sessionid", Some("Django")));
    assert!(origin.seen().iter().all(|seen| seen.field("Cookie").unwrap().starts_with("sessionid=1")));
}

#[test]
fn site_gets_at_most_eight_requests_for_the_page_only() {
    let origin = Origin::start(|_| response("200 OK", &["ETag: \"1\""], b"x"));
    let found = ask(&origin, "/page?x=1", &[]);
    let seen = origin.seen();
    assert_eq!((seen.len(), found.requests.len()), (Probe::ALL.len(), 8));
    assert!(seen.iter().all(|seen| seen.target().starts_with("/page?x=1")));
    assert!(seen.iter().all(|seen| seen.head.starts_with("GET ")));
}

#[test]
fn a_redirect_is_reported_and_not_followed() {
    let origin = Origin::start(|_| response("302 Found", &["Location: /elsewhere"], b""));
    let found = ask(&origin, "/", &[]);
    assert_eq!(found.page.location, Some(format!("{}/elsewhere", origin.url())));
    assert_eq!((origin.seen().len(), origin.count("/elsewhere")), (2, 0));
    assert!(found.hints.iter().any(|hint| hint.contains("petasos why --direct http")), "{:?}", found.hints);
}

#[test]
fn spontaneous_differences_are_not_blamed_on_a_probe() {
    let count = std::sync::atomic::AtomicUsize::new(10);
    let found = findings(move |_| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let page =
            format!("<html><body><p>visitor number {n} today</p><p>the rest of the page</p></body></html>");
        response("200 OK", &["Cache-Control: s-maxage=60"], page.as_bytes())
    });
    assert_eq!(result(&found, "plain_again"), ResponseSameness::Spots);
    let spot = &found.changes[0].spots[0];
    assert_eq!((spot.looks_like, spot.plain.as_str(), spot.line), (SpotNature::Number, "10", 1));
    for question in ["noise_cookies", "noise_parameters", "unknown_cookie"] {
        assert_eq!(result(&found, question), ResponseSameness::Same, "{question}");
    }
}

#[test]
fn cookies_and_parameters_that_change_the_page_are_found() {
    let found = findings(|seen| {
        let cookies = seen.field("Cookie").unwrap_or("");
        let banner = if cookies.contains("cookieconsent") { "" } else { "<div>We use cookies.</div>" };
        let page = format!("<html><body>{banner}<p>a page</p><p>and its content</p></body></html>");
        if seen.target().contains("utm_source") {
            return response("301 Moved", &["Location: /"], b"");
        }
        let personal: &[&str] =
            if cookies.contains("petasos_why") { &["Cache-Control: private"] } else { &[] };
        response("200 OK", personal, page.as_bytes())
    });
    assert_eq!(result(&found, "plain_again"), ResponseSameness::Same);
    assert_eq!(result(&found, "noise_cookies"), ResponseSameness::Spots);
    assert_eq!(result(&found, "noise_parameters"), ResponseSameness::OtherAnswer);
    assert_eq!(found.changes[2].fields, ["status: 301", "Location: /"]);
    assert_eq!(result(&found, "unknown_cookie"), ResponseSameness::OtherAnswer);
    assert_eq!(found.changes[3].fields, ["Cache-Control: private"]);
}

#[test]
fn conditional_probe_is_sent_and_its_304_is_checked() {
    let honest = findings(|seen| match seen.field("If-None-Match") {
        Some("\"1\"") => vec![Action::Send(b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".to_vec())],
        _ => response("200 OK", &["ETag: \"1\""], b"x"),
    });
    assert!(honest.validation.works);
    let lying = constant(&["ETag: \"1\""]);
    assert_eq!((lying.validation.works, lying.validation.conditional_status), (false, Some(200)));
    assert_eq!(constant(&[]).validation.conditional_status, None);
}

#[test]
fn content_coded_unasked_is_not_examined() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let found = findings(move |_| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        response("200 OK", &["Content-Encoding: gzip"], format!("(gzip) {n}").as_bytes())
    });
    assert_eq!(result(&found, "plain_again"), ResponseSameness::Different);
    assert!(
        found.hints.iter().any(|hint| hint.contains("although the request accepted none")),
        "{:?}",
        found.hints
    );
}

#[test]
fn nothing_is_sent_in_clear_text_for_https() {
    let origin = Origin::start(|_| response("200 OK", &[], b"x"));
    let fetcher = Fetcher { tls: None, clock: Arc::new(ManualClock::default()) };
    let url = HttpUrl::parse(&origin.url().replace("http:", "https:")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let visit = runtime.block_on(visit(&fetcher, &url, &[], Duration::ZERO));
    assert_eq!(visit.unwrap_err(), ProbeError::NotSecured);
    assert!(origin.seen().is_empty());
}

#[test]
fn later_failures_are_part_of_the_findings() {
    let found = findings(|seen| match seen.field("Cookie") {
        Some("petasos_why=1") => {
            vec![Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab".to_vec()), Action::Close]
        }
        _ => response("200 OK", &["Cache-Control: max-age=60"], b"x"),
    });
    assert_eq!(result(&found, "unknown_cookie"), ResponseSameness::Unanswered);
    let asked = found.requests.iter().find(|asked| asked.request == "unknown_cookie").unwrap();
    assert!(asked.error.as_ref().unwrap().contains("broke off"), "{asked:?}");
    assert_eq!(found.verdict.cacheable, Cacheable::Yes);
}

#[test]
fn answers_that_petasos_would_refuse_are_read_and_named() {
    let head =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx";
    let found = findings(move |_| vec![Action::Send(head.to_vec()), Action::Close]);
    assert!(found.page.strict_fault.is_some());
    assert!(found.hints.iter().any(|hint| hint.contains("502")), "{:?}", found.hints);
}

#[test]
fn clocks_that_differ_are_named() {
    let found = constant(&["Date: Sun, 06 Nov 1994 08:47:37 GMT", "Cache-Control: max-age=300"]);
    assert!(found.hints.iter().any(|hint| hint.contains("120 s behind")), "{:?}", found.hints);
    assert_eq!(found.verdict.ttl_secs, Some(180));
    let aged = constant(&["Date: Sun, 06 Nov 1994 08:47:37 GMT", "Age: 120", "Cache-Control: max-age=300"]);
    assert!(!aged.hints.iter().any(|hint| hint.contains("clock")), "{:?}", aged.hints);
}

#[test]
fn silent_site_times_out() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |_| vec![Action::Await(wait.clone())]);
    let fetcher = Fetcher { tls: None, clock: Arc::new(ManualClock::default()) };
    let url = HttpUrl::parse(&origin.url()).unwrap();
    // Paused time of the runtime: whenever all tasks wait, time jumps to the end of the wait.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let visit = runtime.block_on(visit(&fetcher, &url, &[], Duration::ZERO));
    gate.open();
    assert_eq!(visit.unwrap_err(), ProbeError::TimedOut);
}

/// A shop on WordPress with several obstacles, behind a cache.
fn shop(seen: &Seen) -> Vec<Action> {
    let n = if seen.field("Accept-Encoding") == Some("br, gzip") { "gzipped" } else { "a shop" };
    let fields = [
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Content-Type: text/html; charset=UTF-8",
        "Link: <http://shop.test/wp-json/>; rel=\"https://api.w.org/\"",
        "X-Powered-By: PHP/8.2.1",
        "Set-Cookie: wp_woocommerce_session_0a1b=secret; path=/",
        "Set-Cookie: theme=dark",
        "Cache-Control: no-store, no-cache, must-revalidate",
        "Expires: Thu, 19 Nov 1981 08:52:00 GMT",
        "Vary: User-Agent",
        "ETag: \"1\"",
        "X-Cache: MISS",
    ];
    if n == "gzipped" {
        return response("200 OK", &[&fields[..], &["Content-Encoding: gzip"]].concat(), b"(gzip)");
    }
    // The nonce depends only on the request, so that the report is the same in every run.
    let nonce = if seen.field("Cookie").is_some() { "c3d4e5f6a7" } else { "a1b2c3d4e5" };
    let page = format!(
        "<html><head><title>Shop</title></head>\n<body>\n<form><input type=\"hidden\" name=\"_wpnonce\" \
         value=\"{nonce}\"></form>\n<p>Things to buy</p></body></html>\n"
    );
    response("200 OK", &fields, page.as_bytes())
}

#[test]
fn page_that_via_keeps_uncompressed_is_reported() {
    let origin = Origin::start(|seen| {
        let fields = ["Content-Type: text/html", "Vary: Accept-Encoding"];
        if seen.field("Accept-Encoding") == Some("br, gzip") && seen.field("Via").is_none() {
            return response("200 OK", &[&fields[..], &["Content-Encoding: gzip"]].concat(), b"(gzip)");
        }
        response("200 OK", &fields, b"<html>page</html>")
    });
    let findings = ask(&origin, "/", &[]);
    assert_eq!(findings.compression.as_ref().and_then(|found| found.survives_via), Some(false));
    assert!(findings.hints.iter().any(|hint| hint.contains("via_to_origin = false")), "{:?}", findings.hints);
}

/// Replaces the origin's address, because its port differs in every run.
fn at_port_80(text: &str, origin: &Origin) -> String {
    text.replace(&origin.url(), "http://shop.test")
}

#[test]
fn the_report_fits_a_terminal() {
    let origin = Origin::start(shop);
    let text = at_port_80(&report(&ask(&origin, "/", &[])), &origin);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains("secret"), "{text}");
    insta::assert_snapshot!("shop", text);
}

#[test]
fn json_document_matches_the_snapshot() {
    let origin = Origin::start(shop);
    insta::assert_snapshot!("shop_json", at_port_80(&ask(&origin, "/", &[]).to_json(), &origin));
}

/// Collects the paths of a document's members. Elements of lists appear as `[]`.
fn paths(value: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(members) => {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
            members.iter().for_each(|(name, value)| paths(value, &format!("{prefix}{name}"), found));
        }
        serde_json::Value::Array(elements) => {
            elements.iter().for_each(|element| paths(element, &format!("{path}[]"), found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn reference_lists_exactly_the_members_of_the_document() {
    let mut found = BTreeSet::new();
    let origin = Origin::start(shop);
    let personal = Origin::start(|seen| {
        let fields: &[&str] = if seen.field("Cookie").is_some() { &["Cache-Control: private"] } else { &[] };
        response("200 OK", fields, b"x")
    });
    for findings in [ask(&origin, "/", &[]), ask(&personal, "/", &[])] {
        paths(&serde_json::from_str(&findings.to_json()).unwrap(), "", &mut found);
    }
    // An object that may be null is described only by its members.
    let all = found.clone();
    found.retain(|path| !all.iter().any(|other| other.starts_with(&format!("{path}."))));
    let described: BTreeSet<_> = DIRECT_MEMBERS.iter().map(|(member, _)| (*member).to_owned()).collect();
    assert_eq!(found, described);
}
