//! The real binary against web cache deception: an attacker uses links such as `/account/x.css` to
//! have a personal page stored as a static file. The other ways in which rules for static files
//! could leak personal content are tested too.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Edge, Origin, Seen, get, response};

const PUBLIC: &str = "Cache-Control: public, max-age=600";
const ANN: &str = "Cookie: sessionid=ann";
const BOB: &str = "Cookie: sessionid=bob; theme=dark";

/// Paths that a server maps to `/account` or a script, while a cache takes them for a file.
const DECEPTIONS: &[&str] = &[
    "/account/x.css",
    "/account.php/x.css",
    "/account.php/a/b/x.js",
    "/account;x.css",
    "/account%3Bx.css",
    "/account%2Fx.css",
    "/account%252Fx.css",
    "/account%00.css",
    "/account%0A.css",
    "/account%3Fx.css",
    "/account%23x.css",
    "/account%5Cx.css",
    "/account\\x.css",
    "/static/../account.css",
    "/static/..%2Faccount.css",
    "/static/%2e%2e/account.css",
    "/static/x/..;/../account.css",
    "/account?x.css",
    "/account.css?user=me",
    "/account.CSS",
    "/account/avatar.png",
    "/account/font.woff2",
];

/// Content types of the personal pages: the true one, a false one, and none.
const TYPES: &[&str] = &["Content-Type: text/html", "Content-Type: application/json", "X-Type: none"];

fn rounds() -> usize {
    if std::env::var("PETASOS_ATTACK").is_ok_and(|form| form == "long") { 20 } else { 2 }
}

/// An application that shows each visitor's own account at any path and declares it public.
fn account(kind: &'static str) -> impl Fn(&Seen) -> Vec<Action> + Send + Sync {
    move |seen| {
        let page = format!("account of {}", seen.field("Cookie").unwrap_or("nobody"));
        response("200 OK", &[PUBLIC, kind], page.as_bytes())
    }
}

/// Whether a response shows the content of another visitor.
fn is_foreign(own: &str, text: &str) -> bool {
    ["ann", "bob"].iter().any(|name| text.contains(name) && !own.contains(name))
}

#[test]
fn personal_pages_at_paths_of_files_reach_only_their_owner() {
    let mut asked = 0;
    let mut leaked = 0;
    let mut wrong = 0;
    let mut carried = 0;
    for kind in TYPES {
        let origin = Origin::start(account(kind));
        let configuration = "static_paths = ['/static/*']\n[limits]\nleak_guard_every = 0\n";
        let edge = Edge::configured(&origin.url(), configuration, &[]);
        for round in 0..rounds() {
            for target in DECEPTIONS {
                let mark = if target.contains('?') { '&' } else { '?' };
                let target = format!("{target}{mark}{round}");
                // The victim comes first in one round, the attacker in the next.
                let first: [&[&str]; 4] =
                    if round % 2 == 0 { [&[ANN], &[], &[BOB], &[]] } else { [&[], &[BOB], &[], &[ANN]] };
                for fields in first {
                    let answer = get(edge.address, &target, fields);
                    let own = fields.first().copied().unwrap_or_default();
                    asked += 1;
                    leaked += usize::from(is_foreign(own, answer.text()));
                    wrong += usize::from(
                        !own.is_empty() && !answer.text().contains(own.trim_start_matches("Cookie: ")),
                    );
                }
            }
        }
        // A shared fetch carries a constant client address, 192.0.2.1.
        carried += origin
            .seen()
            .iter()
            .filter(|seen| {
                seen.field("X-Forwarded-For") == Some("192.0.2.1") && seen.field("Cookie").is_some()
            })
            .count();
    }
    println!(
        "attack: web cache deception: {leaked} of {asked} responses showed somebody else's page, at most 0"
    );
    println!("attack: visitors who got another page than their own: {wrong} of {asked}, at most 0");
    println!("attack: shared fetches with cookies: {carried}, at most 0");
    assert_eq!((leaked, wrong, carried), (0, 0, 0));
}

#[test]
fn file_that_differs_by_session_is_never_shared() {
    let origin = Origin::start(|seen| {
        let own = format!("var user = '{}';", seen.field("Cookie").unwrap_or("nobody"));
        let fields: &[&str] = match seen.target() {
            // No Cache-Control and no validator, like the response of a program.
            "/user.js" => &["Content-Type: text/javascript"],
            // It declares that it varies by cookie.
            "/vary.js" => &["Content-Type: text/javascript", PUBLIC, "Vary: Cookie"],
            // It sets a cookie and is not declared public.
            "/captcha.png" => {
                &["Content-Type: image/png", "Cache-Control: max-age=600", "Set-Cookie: sessionid=new"]
            }
            _ => &["Content-Type: text/javascript", "Cache-Control: private, max-age=600"],
        };
        response("200 OK", fields, own.as_bytes())
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut asked = 0;
    let mut wrong = 0;
    for target in ["/user.js", "/vary.js", "/captcha.png", "/private.js"] {
        for fields in [&[][..], &[ANN], &[BOB], &[], &[ANN]] {
            let own = fields.first().map_or("nobody", |cookie| cookie.trim_start_matches("Cookie: "));
            let answer = get(edge.address, target, fields);
            asked += 1;
            wrong += usize::from(!answer.text().contains(own));
        }
    }
    println!("attack: files that differ by session: {wrong} of {asked} wrong, at most 0");
    assert_eq!(wrong, 0);
}

#[test]
fn leak_guard_finds_a_public_file_that_differs_by_session() {
    let origin = Origin::start(|seen| {
        let own = format!("var user = '{}';", seen.field("Cookie").unwrap_or("nobody"));
        response("200 OK", &["Content-Type: text/javascript", PUBLIC], own.as_bytes())
    });
    let edge = Edge::start(&origin.url(), &[]);
    get(edge.address, "/user.js", &[]);
    let checked = get(edge.address, "/user.js", &[ANN]);
    testkit::eventually("the guard has found it", || edge.metric("petasos_leaks_prevented_total", "") > 0.0);
    let wrong = (0..20).filter(|_| !get(edge.address, "/user.js", &[BOB]).text().contains("bob")).count();
    println!(
        "attack: a script that lies about sessions: {wrong} of 20 visitors got another's after it was found, at most 0"
    );
    assert!(checked.text().contains("ann"), "the first look is the origin's own response");
    assert_eq!(wrong, 0);
}

/// One file declares itself public; the operator declares the other static.
const FILES: [&str; 2] = ["/a.css", "/static/b"];

#[test]
fn cookie_set_by_a_file_never_reaches_another_visitor() {
    let number = AtomicUsize::new(0);
    let origin = Origin::start(move |seen| {
        let id = format!("Set-Cookie: sessionid=s{}; path=/", number.fetch_add(1, Ordering::SeqCst));
        match seen.target() {
            "/a.css" => response("200 OK", &[PUBLIC, "Content-Type: text/css", &id], b"a{}"),
            "/static/b" => response(
                "200 OK",
                &["Cache-Control: max-age=600", "Vary: Cookie", "Content-Type: font/woff2", &id],
                b"font",
            ),
            "/page" => {
                response("200 OK", &[PUBLIC, "Content-Type: text/html", &id, "Set-Cookie: cart=1"], b"page")
            }
            _ => response("200 OK", &[PUBLIC, "Content-Type: text/html", &id], b"page"),
        }
    });
    let configuration =
        "static_paths = ['/static/*']\nstripped_cookies = ['sessionid']\n[limits]\nleak_guard_every = 0\n";
    let edge = Edge::configured(&origin.url(), configuration, &[]);
    let mut cookies = Vec::new();
    for target in FILES.into_iter().chain(["/page", "/stripped"]) {
        for fields in [&[ANN][..], &[], &[BOB], &[], &[]] {
            let answer = get(edge.address, target, fields);
            cookies.push((target, fields.is_empty(), answer.field("Set-Cookie").map(str::to_owned)));
        }
    }
    let overwritten = cookies
        .iter()
        .filter(|(target, anonymous, cookie)| FILES.contains(target) && !anonymous && cookie.is_some())
        .count();
    let mut given: Vec<_> = cookies.iter().filter_map(|(_, _, cookie)| cookie.clone()).collect();
    let all = given.len();
    given.sort();
    given.dedup();
    let twice = all - given.len();
    let files: usize = FILES.iter().map(|target| origin.count(target)).sum();
    println!("attack: sessions given to two visitors: {twice} of {all}, at most 0");
    println!("attack: sessions replaced by a file: {overwritten} of 4, at most 0");
    println!("attack: fetches of two files asked ten times: {files}, at most 2");
    assert_eq!((twice, overwritten), (0, 0));
    assert!(files <= 2);
    // The configuration strips `sessionid`, so a page that sets no other cookie is shared by
    // visitors without a session.
    assert_eq!(origin.count("/stripped"), 3, "two visitors with sessions, and one fetch for the rest");
    assert_eq!(origin.count("/page"), 5, "the other cookie keeps the page from being shared");
}

#[test]
fn responses_for_other_origins_and_types_never_mix() {
    let origin = Origin::start(|seen| {
        let from = seen.field("Origin").unwrap_or("none").to_owned();
        let part = seen.field("HX-Request").or_else(|| seen.field("Turbo-Frame")).is_some();
        let json = seen.field("Accept").is_some_and(|accept| accept.starts_with("application/json"));
        let (kind, body) =
            if json { ("application/json", "{}") } else { ("text/html", if part { "part" } else { "page" }) };
        let permits = format!("Access-Control-Allow-Origin: {from}");
        response(
            "200 OK",
            &[PUBLIC, &format!("Content-Type: {kind}"), &permits],
            format!("{body} for {from}").as_bytes(),
        )
    });
    let edge = Edge::start(&origin.url(), &[]);
    let asked: [(&[&str], &str); 7] = [
        (&[], "page for none"),
        (&["Origin: https://a.example"], "page for https://a.example"),
        (&["Origin: https://b.example"], "page for https://b.example"),
        (&["Origin: http://example.test"], "page for none"),
        (&["HX-Request: true"], "part for none"),
        (&["Turbo-Frame: x", "Origin: https://a.example"], "part for https://a.example"),
        (&["Accept: application/json"], "{} for none"),
    ];
    let mut wrong = 0;
    for turn in 0..asked.len() * 3 {
        // A different order each time.
        let (fields, expected) = asked[turn * 5 % asked.len()];
        wrong += usize::from(get(edge.address, "/x", fields).text() != expected);
    }
    let fetches = origin.seen().len();
    println!("attack: responses for another site, part or type: {wrong} of 21, at most 0");
    println!("attack: fetches of five variants and one type of its own: {fetches}, at most 9");
    assert_eq!(wrong, 0);
    assert!(fetches <= 9, "{fetches}");
}

#[test]
fn random_origin_fields_leave_the_plain_page_stored() {
    let origin = Origin::start(|_| response("200 OK", &[PUBLIC, "Content-Type: text/html"], b"page"));
    let edge = Edge::start(&origin.url(), &[]);
    let floods = 200;
    for number in 0..floods {
        get(edge.address, "/", &[&format!("Origin: https://{number}.example")]);
        get(edge.address, "/", &[]);
    }
    let plain = origin.seen().iter().filter(|seen| seen.field("Origin").is_none()).count();
    println!("attack: fetches of a page beside {floods} made-up origins: {plain}, at most {}", floods / 4);
    assert!(plain <= floods / 4, "{plain}");
}

/// Cache-Control values for a file that a profile must obey. It may override only a `no-cache`
/// without other directives.
const WORDS: &[&str] = &[
    "private",
    "no-store",
    "private, max-age=600",
    "no-cache, private",
    "no-cache, no-store",
    "no-cache, max-age=0",
    "no-cache, must-revalidate",
];

/// The targets whose stored responses were used although they forbid it. Also the number of
/// sessions or contents that reached another visitor.
fn used_again(edge: &Edge) -> (Vec<String>, usize) {
    let mut used = Vec::new();
    let mut foreign = 0;
    let mut given = Vec::new();
    for word in WORDS.iter().chain(&["no-cache"]) {
        for path in ["/static/a.css", "/static/page", "/uploads/a.css"] {
            let target = format!("{path}?{}", word.replace(", ", "&"));
            for fields in [&[ANN][..], &[BOB], &[], &[ANN], &[BOB]] {
                let answer = get(edge.address, &target, fields);
                let own = fields.first().copied().unwrap_or_default();
                foreign += usize::from(is_foreign(own, answer.text()));
                given.extend(answer.field("Set-Cookie").map(str::to_owned));
                if answer.field("Cache-Status").unwrap().starts_with("Petasos; hit") {
                    used.push(target.clone());
                }
            }
        }
    }
    let all = given.len();
    given.sort();
    given.dedup();
    used.dedup();
    (used, foreign + all - given.len())
}

#[test]
fn profile_overrides_only_a_plain_no_cache_of_files() {
    let number = AtomicUsize::new(0);
    let origin = Origin::start(move |seen| {
        let own = format!("for {}", seen.field("Cookie").unwrap_or("nobody"));
        let (path, word) = seen.target().split_once('?').unwrap_or_else(|| (seen.target(), "no-store"));
        let kind = if path.ends_with(".css") { "text/css" } else { "text/html" };
        let fields = [
            format!("Content-Type: {kind}"),
            format!("Cache-Control: {}", word.replace('&', ", ")),
            format!("Set-Cookie: session=s{}; Path=/", number.fetch_add(1, Ordering::SeqCst)),
            "Last-Modified: Sat, 01 Nov 2025 10:00:00 GMT".to_owned(),
            "ETag: \"1\"".to_owned(),
            "Vary: Cookie".to_owned(),
        ];
        response("200 OK", &fields.each_ref().map(String::as_str), own.as_bytes())
    });
    for (profile, may_be_used) in [
        ("default", None),
        ("flask", Some("/static/a.css?no-cache")),
        ("moinmoin", Some("/static/a.css?no-cache")),
    ] {
        let configuration = format!("profile = \"{profile}\"\n[limits]\nleak_guard_every = 0\n");
        let edge = Edge::configured(&origin.url(), &configuration, &[]);
        let (used, foreign) = used_again(&edge);
        println!("attack: sessions and files of other visitors by {profile}: {foreign} of 120, at most 0");
        println!("attack: files used by {profile} that say no-cache: {}, at most 1", used.len());
        assert_eq!(foreign, 0, "{profile}");
        assert_eq!(used.first().map(String::as_str), may_be_used, "{profile}");
        assert!(used.len() <= 1, "{profile}: {used:?}");
    }
}
