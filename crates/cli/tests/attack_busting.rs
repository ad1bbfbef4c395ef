//! Cache busting against the real binary, in front of WordPress and of an unknown application. The
//! attacker sends made-up parameters and scanners' paths, all as URLs that were never requested
//! before. Honest visitors come in between.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Action, Client, Edge, Origin, Response, Seen, response};

const NO_CACHE: &str = "Cache-Control: no-cache, must-revalidate, max-age=0, no-store, private";
const EXPIRES: &str = "Expires: Wed, 11 Jan 1984 05:00:00 GMT";

/// Paths that scanners request from every site.
const SCANNED: [&str; 8] = [
    "/.env",
    "/.git/config",
    "/wp-config.php.bak",
    "/backup.sql",
    "/phpinfo.php",
    "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php",
    "/old/wp-admin.zip",
    "/.aws/credentials",
];

/// Requests of visitors to a WordPress site: parameters that WordPress reads, and parameters that
/// campaigns add.
const HONEST: [&str; 8] = [
    "/",
    "/?utm_source=letter&utm_campaign=7",
    "/?fbclid=abc",
    "/?s=curling",
    "/?p=1",
    "/?paged=2",
    "/shop/?filter_color=red&orderby=price",
    "/hello/?replytocom=5",
];

/// A WordPress site with the pages of [`HONEST`]. Once `is_published` is set, it also has `/news/`.
fn wordpress(is_published: Arc<AtomicBool>) -> Origin {
    Origin::start(move |seen: &Seen| {
        let path = seen.target().split('?').next().unwrap();
        match path {
            "/wp-admin/post.php" => {
                is_published.store(true, Ordering::SeqCst);
                let location = "Location: /wp-admin/post.php?post=1&action=edit&message=6";
                response("302 Found", &[location, NO_CACHE, EXPIRES], b"")
            }
            "/favicon.ico" => {
                response("302 Found", &["Location: /w-logo.png", "X-Redirect-By: WordPress"], b"")
            }
            "/" | "/shop/" | "/hello/" => page(seen),
            "/news/" if is_published.load(Ordering::SeqCst) => page(seen),
            _ => response("404 Not Found", &[NO_CACHE, EXPIRES], b"nothing here"),
        }
    })
}

fn page(seen: &Seen) -> Vec<Action> {
    response("200 OK", &[], seen.target().as_bytes())
}

/// The responses to these targets, requested on one connection.
fn ask(edge: &Edge, targets: impl IntoIterator<Item = String>) -> Vec<Response> {
    let mut client = Client::connect(edge.address);
    targets.into_iter().map(|target| client.get(&target, &[])).collect()
}

fn of(answers: &[Response], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

fn honest() -> impl Iterator<Item = String> {
    HONEST.into_iter().map(str::to_owned)
}

#[test]
fn made_up_parameters_reach_wordpress_up_to_the_limit() {
    let origin = wordpress(Arc::default());
    let edge = Edge::start(&origin.url(), &["--profile", "wordpress"]);
    let busting = |from: usize| (from..from + 500).map(|number| format!("/?x={number}"));
    let mut answers = Vec::new();
    let mut visits = Vec::new();
    for round in 0..4 {
        answers.extend(ask(&edge, busting(round * 500)));
        visits.extend(ask(&edge, honest()));
    }
    let fetched = origin.seen().iter().filter(|seen| seen.target().starts_with("/?x=")).count();
    let refused = of(&answers, 429);
    let turned_away = of(&visits, 429);
    // The limit of one path per minute is 120 fetches; the test may extend into a second minute.
    println!("attack: made-up parameters at WordPress: {fetched} of 2000 fetched, at most 240");
    println!("attack: visitors of that WordPress: {turned_away} of 32 refused, at most 0");
    assert!(fetched <= 240 && refused + fetched == 2000, "{fetched} fetched, {refused} refused");
    assert_eq!((turned_away, of(&visits, 200)), (0, 32));
    assert!(answers.iter().filter(|answer| answer.status == 429).all(|answer| {
        answer.field("Retry-After").and_then(|secs| secs.parse::<u32>().ok()).is_some_and(|secs| secs <= 60)
    }));
}

#[test]
fn unknown_parameters_get_the_plain_page_if_the_site_allows() {
    let origin = wordpress(Arc::default());
    let configuration = "[[site]]\nprofile = 'wordpress'\nbeyond_unknown_parameters = 'page'\n";
    let edge = Edge::as_shipped(&origin.url(), configuration);
    let answers = ask(&edge, (0..1000).map(|number| format!("/?x={number}")));
    let fetched = origin.seen().len();
    println!("attack: made-up parameters that change nothing: {fetched} of 1000 fetched, at most 241");
    assert!(fetched <= 241, "{fetched} fetched");
    assert_eq!(of(&answers, 200), 1000);
    assert_eq!(answers.last().unwrap().text(), "/", "the page without the parameter");
}

#[test]
fn made_up_parameters_reach_an_unknown_site_up_to_its_limit() {
    let origin =
        Origin::start(|seen| response("200 OK", &["Cache-Control: max-age=60"], seen.target().as_bytes()));
    let edge = Edge::start(&origin.url(), &["--profile", "default"]);
    let answers = ask(&edge, (0..5000).map(|number| format!("/?x={number}")));
    let fetched = origin.seen().len();
    println!("attack: made-up parameters at an unknown site: {fetched} of 5000 fetched, at most 2400");
    assert!(fetched <= 2400, "{fetched} fetched");
    assert_eq!(fetched + of(&answers, 429), 5000);
}

#[test]
fn scanned_paths_are_fetched_once_and_a_new_post_shows() {
    let origin = wordpress(Arc::default());
    let edge = Edge::start(&origin.url(), &["--profile", "wordpress"]);
    let paths = || SCANNED.into_iter().chain(["/favicon.ico", "/news/"]).map(str::to_owned);
    let rounds = 50;
    let answers: Vec<_> = (0..rounds).flat_map(|_| ask(&edge, paths())).collect();
    let fetched = origin.seen().len();
    // A path is fetched once in 30 seconds. The bound leaves room for a machine on which the test
    // takes a minute.
    println!("attack: scanned paths at WordPress: {fetched} of {} fetched, at most 30", answers.len());
    assert!(fetched <= 30, "{fetched} fetched");
    assert_eq!((of(&answers, 404), of(&answers, 302)), (9 * rounds, rounds));
    let mut editor = Client::connect(edge.address);
    editor.send(
        "POST /wp-admin/post.php HTTP/1.1\r\nHost: example.test\r\nCookie: wordpress_logged_in_1=editor\r\n\
         Content-Length: 0\r\n\r\n",
    );
    assert_eq!(editor.read().status, 302);
    let published = ask(&edge, ["/news/".to_owned()]);
    println!("attack: a post where a 404 was: {} of 1 visitors get the 404, at most 0", of(&published, 404));
    assert_eq!(of(&published, 200), 1);
}
