//! The effect of a site's profile: tracking parameters, noise cookies, and cookies in the cache
//! key.

use crate::support::{Stage, reason};
use profiles::Policy;
use testkit::{Seen, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// A stage with a shipped profile, whose pages contain the target and the cookies of the request.
fn stage(profile: &'static str) -> Stage {
    Stage::with(
        move |plan| plan.sites.iter_mut().for_each(|site| site.policy = policy(profile)),
        |seen| page(seen, &[FRESH]),
    )
}

fn policy(profile: &str) -> Policy {
    profiles::Profile::shipped(profile).unwrap().policy.clone()
}

/// A page that contains the request's target and cookies.
fn page(seen: &Seen, fields: &[&str]) -> Vec<testkit::Action> {
    let told = format!("{} {}", seen.target(), seen.field("Cookie").unwrap_or("-"));
    response("200 OK", fields, told.as_bytes())
}

#[test]
fn tracking_parameters_are_not_part_of_the_key() {
    let stage = stage("default");
    assert_eq!(stage.get("/a?utm_source=x&b=1&fbclid=y", &[]).text(), "/a?b=1 -");
    for target in ["/a?b=1", "/a?b=1&gclid=1", "/a?mc_eid=2&b=1", "/a?utm_a=1&utm_b=2&b=1&utm_c=3"] {
        let answer = stage.get(target, &["Cookie: _ga=1"]);
        assert_eq!((answer.text(), reason(&answer)), ("/a?b=1 -", "hit-fresh"), "{target}");
    }
    assert_eq!(stage.get("/a?b=2&utm_source=x", &[]).text(), "/a?b=2 -", "other parameters tell pages apart");
    assert_eq!(stage.get("/a?utm_source=x;b=1", &[]).text(), "/a?utm_source=x;b=1 -");
    stage.await_seen(3);
}

#[test]
fn passing_request_keeps_its_tracking_parameters() {
    let stage = stage("default");
    let answer = stage.get("/a?utm_source=x", &["Cookie: theme=dark"]);
    assert_eq!((answer.text(), reason(&answer)), ("/a?utm_source=x theme=dark", "pass-unknown-cookie"));
}

#[test]
fn purge_and_write_ignore_tracking_parameters() {
    let stage = stage("default");
    stage.get("/a", &[]);
    let purged = stage.ask("PURGE", "/a?utm_source=x", &[]);
    assert!(purged.text().contains("\"purged\":1"), "{}", purged.text());
    assert_eq!(reason(&stage.get("/a?fbclid=1", &[])), "miss-absent");
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
    stage.ask("POST", "/a?utm_source=x", &["Content-Length: 0"]);
    assert_eq!(reason(&stage.get("/a", &[])), "miss-absent");
    stage.becomes(|_| response("303 Look", &["Location: /a?gclid=5"], b""));
    stage.ask("POST", "/b", &["Content-Length: 0"]);
    stage.becomes(|seen| page(seen, &[FRESH]));
    assert_eq!(reason(&stage.get("/a", &[])), "miss-absent");
}

#[test]
fn redirect_that_adds_a_tracking_parameter_is_not_stored() {
    let stage = Stage::new(|seen| match seen.target() {
        "/a" => response("302 Found", &[FRESH, "Location: /a?utm_source=site"], b""),
        _ => page(seen, &[FRESH]),
    });
    let redirect = stage.get("/a", &[]);
    assert_eq!((redirect.status, reason(&redirect)), (302, "store-refused-redirect"));
    assert_eq!(stage.get("/a?utm_source=site", &[]).text(), "/a?utm_source=site -");
    stage.becomes(|_| response("302 Found", &[FRESH, "Location: /c?utm_source=site"], b""));
    stage.get("/b", &[]);
    assert_eq!(reason(&stage.get("/b", &[])), "hit-fresh", "another page");
}

#[test]
fn rfc_profile_keeps_tracking_parameters_in_the_key() {
    let stage = stage("rfc");
    assert_eq!(stage.get("/a?utm_source=x", &[]).text(), "/a?utm_source=x -");
    assert_eq!(stage.get("/a", &[]).text(), "/a -");
}

/// A stage whose origin sets these cookies and evaluates conditions.
fn setting(profile: &'static str, cookies: &'static [&'static str]) -> Stage {
    let stage = stage(profile);
    stage.becomes(move |seen| {
        let lines: Vec<_> = cookies.iter().map(|cookie| format!("Set-Cookie: {cookie}")).collect();
        let fields: Vec<_> = lines.iter().map(|line| &line[..]).chain([FRESH]).collect();
        crate::support::tagged(seen, "\"1\"", &fields, "page")
    });
    stage
}

#[test]
fn response_with_noise_cookies_is_shared_without_them() {
    let gate = testkit::Gate::default();
    let held = gate.clone();
    let stage = stage("wordpress");
    stage.becomes(move |seen| {
        let fields = ["Set-Cookie: pll_language=en; path=/", "Set-Cookie: _ga=2", FRESH];
        crate::support::behind(&held, crate::support::tagged(seen, "\"1\"", &fields, "page"))
    });
    let mut crowd = stage.crowd(3, &["Cookie: _ga=1"]);
    gate.open();
    for client in &mut crowd {
        let answer = client.read();
        assert_eq!((answer.text(), answer.field("Set-Cookie")), ("page", None), "{}", answer.head);
    }
    let hit = stage.get("/", &[]);
    assert_eq!((reason(&hit), hit.field("Set-Cookie")), ("hit-fresh", None));
    stage.await_seen(1);
    assert_eq!(stage.last_seen().field("Cookie"), None);
}

#[test]
fn noise_cookies_of_a_confirmation_are_removed() {
    let stage = setting("wordpress", &["pll_language=en"]);
    stage.get("/", &[]);
    stage.pass(60);
    for expected in ["hit-revalidated", "hit-fresh"] {
        let answer = stage.get("/", &[]);
        assert_eq!((reason(&answer), answer.field("Set-Cookie")), (expected, None));
    }
    // A HEAD request renews the stored page as well.
    stage.pass(60);
    stage.ask("HEAD", "/", &[]);
    let answer = stage.get("/", &[]);
    assert_eq!((reason(&answer), answer.field("Set-Cookie")), ("hit-fresh", None));
}

#[test]
fn response_with_another_cookie_is_private_and_keeps_all() {
    let stage = setting("wordpress", &["pll_language=en", "PHPSESSID=2"]);
    for _ in 0..2 {
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, reason(&answer)), (200, "store-refused-set-cookie"));
        assert_eq!(answer.head.matches("Set-Cookie").count(), 2, "{}", answer.head);
    }
    let why = stage.call_admin("POST", "/why", "{\"url\":\"http://example.test/\"}");
    assert!(why.text().contains("PHPSESSID"), "{}", why.text());
    assert_eq!(stage.origin.seen().len(), 2);
}

#[test]
fn passing_request_receives_all_cookies() {
    let stage = setting("wordpress", &["pll_language=en"]);
    let answer = stage.get("/", &["Cookie: wordpress_logged_in_0a=1"]);
    assert_eq!((reason(&answer), answer.field("Set-Cookie")), ("pass-cookie", Some("pll_language=en")));
    let answer = stage.ask("POST", "/", &["Content-Length: 0"]);
    assert_eq!(answer.field("Set-Cookie"), Some("pll_language=en"));
}

#[test]
fn noise_cookies_depend_on_the_profile() {
    for (profile, shared) in [("default", false), ("wordpress", true), ("drupal", false), ("rfc", true)] {
        let stage = setting(profile, &["wp-settings-1=a"]);
        stage.get("/", &[]);
        let second = stage.get("/", &[]);
        assert_eq!(reason(&second) == "hit-fresh", shared, "{profile}");
        // Under the `rfc` profile the cookie is part of the stored response.
        assert_eq!(second.field("Set-Cookie").is_none(), profile == "wordpress", "{profile}");
    }
}

#[test]
fn simultaneous_requests_with_stripped_cookies_share_a_fetch() {
    let gate = testkit::Gate::default();
    let held = gate.clone();
    let stage = stage("wordpress");
    stage.becomes(move |seen| crate::support::behind(&held, page(seen, &[FRESH])));
    let crowd = stage.crowd(5, &["Cookie: theme_hint=1; _ga=2"]);
    gate.open();
    for mut client in crowd {
        assert_eq!(client.read().text(), "/ -");
    }
    stage.await_seen(1);
}

/// A shop whose prices depend on a cookie.
fn shop() -> Stage {
    Stage::with(
        |plan| {
            let text = "title = 'Shop'\nextends = 'default'\n\
                        [[cookie]]\nmeans = 'key'\nnames = ['currency']\nsource = 'its documents'\n";
            let profile = profiles::Profile::parse("shop", text, profiles::Profile::all()).unwrap();
            plan.sites.iter_mut().for_each(|site| site.policy = profile.policy.clone());
        },
        |seen| page(seen, &[FRESH]),
    )
}

#[test]
fn keyed_cookie_selects_its_page_without_other_cookies() {
    let stage = shop();
    let visitors = [
        ("-", ""),
        ("currency=EUR", "Cookie: _ga=1; currency=EUR"),
        ("currency=USD", "Cookie: currency=USD; _gid=2"),
    ];
    for expected in ["miss", "hit-fresh", "hit-fresh"] {
        for (own, field) in visitors {
            let fields: &[&str] = if field.is_empty() { &[] } else { &[field] };
            let answer = stage.get("/", fields);
            assert_eq!(answer.text(), format!("/ {own}"));
            assert!(reason(&answer).starts_with(expected), "{own} {}", answer.head);
        }
    }
    stage.await_seen(3);
    let why = stage.call_admin(
        "POST",
        "/why",
        "{\"url\":\"http://example.test/\",\"headers\":[[\"Cookie\",\"_ga=3; currency=USD\"]]}",
    );
    assert!(why.text().contains("\"reason\": \"hit-fresh\""), "{}", why.text());
}

#[test]
fn simultaneous_requests_get_the_page_of_their_keyed_cookie() {
    let gate = testkit::Gate::default();
    let held = gate.clone();
    let stage = shop();
    stage.becomes(move |seen| crate::support::behind(&held, page(seen, &[FRESH])));
    let values = ["EUR", "USD", "EUR", "GBP", "USD", "EUR"];
    let clients: Vec<_> =
        values.iter().map(|value| stage.begin("GET", "/", &[&format!("Cookie: currency={value}")])).collect();
    stage.await_seen(1);
    gate.open();
    for (mut client, value) in clients.into_iter().zip(values) {
        assert_eq!(client.read().text(), format!("/ currency={value}"));
    }
    for value in values {
        let answer = stage.get("/", &[&format!("Cookie: currency={value}")]);
        assert_eq!((answer.text(), reason(&answer)), (&format!("/ currency={value}")[..], "hit-fresh"));
    }
}

#[test]
fn ambiguous_or_newly_set_keyed_cookie_is_not_shared() {
    let stage = shop();
    assert_eq!(reason(&stage.get("/", &["Cookie: currency=EUR; currency=USD"])), "pass-cookie");
    let unknown = stage.get("/", &["Cookie: currency=EUR; theme=1"]);
    assert_eq!((unknown.text(), reason(&unknown)), ("/ currency=EUR; theme=1", "pass-unknown-cookie"));
    stage.becomes(|seen| page(seen, &[FRESH, "Set-Cookie: currency=EUR; path=/"]));
    for _ in 0..2 {
        let answer = stage.get("/", &["Cookie: _ga=1"]);
        assert_eq!(
            (reason(&answer), answer.field("Set-Cookie").is_some()),
            ("store-refused-set-cookie", true)
        );
    }
    // Once the page is known to be private, requests for it carry all cookies of their client.
    assert_eq!(stage.last_seen().field("Cookie"), Some("_ga=1"));
}

#[test]
fn page_without_lifetime_is_served_stale_while_revalidating() {
    let versions = std::sync::atomic::AtomicUsize::new(0);
    let stage = stage("wordpress");
    stage.becomes(move |seen| {
        let version = versions.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let fields: &[&str] = match seen.target() {
            "/" => &[],
            "/strict" => &["Cache-Control: must-revalidate"],
            _ => &["Cache-Control: stale-while-revalidate=0"],
        };
        response("200 OK", fields, version.to_string().as_bytes())
    });
    for target in ["/", "/strict", "/stated"] {
        stage.get(target, &[]);
    }
    stage.pass(300);
    let late = stage.get("/", &[]);
    assert_eq!((late.text(), reason(&late)), ("0", "stale-while-revalidate"));
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    for target in ["/strict", "/stated"] {
        assert_eq!(reason(&stage.get(target, &[])), "miss-expired", "{target}");
    }
    stage.pass(360);
    assert_eq!(reason(&stage.get("/", &[])), "miss-expired");
    // A purged page is not served stale, not even within the grace period.
    stage.ask("PURGE", "/", &["Fastly-Soft-Purge: 1"]);
    assert_eq!(reason(&stage.get("/", &[])), "miss-invalidated");
}

/// A page from a plug-in that sets a long lifetime for shared caches, and a style sheet.
fn told_for_long(seen: &Seen) -> Vec<testkit::Action> {
    let long = ["Cache-Control: public, s-maxage=60, max-age=600", "Expires: Fri, 31 Dec 2100 00:00:00 GMT"];
    let media_type = if seen.target() == "/style.css" { "text/css" } else { "text/html; charset=UTF-8" };
    let media_type = format!("Content-Type: {media_type}");
    crate::support::tagged(seen, "\"1\"", &[&media_type, long[0], long[1]], "page")
}

#[test]
fn clients_receive_no_cache_for_pages() {
    let stage = stage("wordpress");
    stage.becomes(told_for_long);
    for (expected, age) in [("miss-absent", Some("0")), ("hit-fresh", Some("10"))] {
        let answer = stage.get("/", &[]);
        assert_eq!((reason(&answer), answer.field("Age")), (expected, age), "{}", answer.head);
        assert_eq!((answer.field("Cache-Control"), answer.field("Expires")), (Some("no-cache"), None));
        stage.pass(10);
    }
    let confirmed = stage.get("/", &["If-None-Match: \"1\""]);
    assert_eq!((confirmed.status, confirmed.field("Cache-Control")), (304, Some("no-cache")));
    assert_eq!(
        (confirmed.field("Age"), confirmed.field("Expires")),
        (Some("20"), None),
        "{}",
        confirmed.head
    );
    let part = stage.get("/", &["Range: bytes=0-1"]);
    assert_eq!((part.status, part.field("Cache-Control")), (206, Some("no-cache")));
    let passed = stage.get("/", &["Cookie: wordpress_logged_in_1=x"]);
    assert_eq!((reason(&passed), passed.field("Cache-Control")), ("pass-cookie", Some("no-cache")));
    // The edge itself uses the lifetime that the origin stated.
    stage.pass(29);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    stage.pass(11);
    let renewed = stage.get("/", &[]);
    assert_eq!((reason(&renewed), renewed.field("Cache-Control")), ("hit-revalidated", Some("no-cache")));
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh", "it is fresh for as long as before");
}

#[test]
fn files_and_stricter_pages_keep_their_cache_control() {
    let stage = stage("wordpress");
    stage.becomes(told_for_long);
    for _ in 0..2 {
        let style = stage.get("/style.css", &[]);
        assert_eq!(style.field("Cache-Control"), Some("public, s-maxage=60, max-age=600"));
        assert!(style.field("Expires").is_some());
    }
    for stated in ["private, max-age=60", "no-store", "no-cache, must-revalidate, max-age=0"] {
        stage.becomes(move |seen| {
            page(seen, &["Content-Type: text/html", &format!("Cache-Control: {stated}")])
        });
        assert_eq!(stage.get(&format!("/{}", stated.len()), &[]).field("Cache-Control"), Some(stated));
    }
    let letter = self::stage("rfc");
    letter.becomes(told_for_long);
    assert_eq!(letter.get("/", &[]).field("Cache-Control"), Some("public, s-maxage=60, max-age=600"));
}
