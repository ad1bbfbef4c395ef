//! `petasos try` from the user's view: sites that can be cached, sites that cannot, sites in
//! trouble, and files left behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{
    Action, Client, CommandOutput, Gate, HeldPort, Origin, Seen, binary, eventually, petasos, response,
};

/// Fields of a page that any cache may store.
const PAGE: [&str; 2] = ["Content-Type: text/html", "Cache-Control: s-maxage=60"];

/// A load short enough for a test.
const SHORT: [&str; 4] = ["--rounds", "1", "--round-time", "500ms"];

/// Tries the site with a short load and further arguments.
fn try_site(url: &str, arguments: &[&str]) -> CommandOutput {
    petasos(["try", url].iter().chain(&SHORT).chain(arguments))
}

fn html(fields: &[&str], body: &str) -> Vec<Action> {
    response("200 OK", fields, body.as_bytes())
}

fn not_found() -> Vec<Action> {
    response("404 Not Found", &[], b"")
}

/// A site whose start page has links to two pages, and links that must not be followed.
fn shop(seen: &Seen) -> Vec<Action> {
    let links = "<a href=/a>a</a> <a href=/b>b</a> <a href=/logout>x</a> <a href='/a?action=delete'>x</a>
        <a href='/?add-to-cart=1'>x</a> <a href=http://other.test/>x</a>";
    match seen.target().split('?').next().unwrap() {
        "/" => html(&PAGE, links),
        "/a" | "/b" => html(&PAGE, "<p>page</p>"),
        _ => not_found(),
    }
}

#[test]
fn cacheable_site_gets_a_factor_and_files() {
    let origin = Origin::start(shop);
    let directory = tempfile::tempdir().unwrap();
    let [toml, page, share] =
        ["petasos.toml", "a.html", "share.md"].map(|name| directory.path().join(name).display().to_string());
    let files = ["--write", &toml, "--html", &page, "--share", &share];
    let output = try_site(&format!("{}/", origin.url()), &files);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    for part in [
        "3 OF 3 PAGES CAN BE ANSWERED FROM MEMORY",
        "anonymous    3 of 3 pages",
        "with Petasos",
        "log-out link (1)",
        "petasos serve",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    // A machine busy with other tests may make the generator the limit.
    assert!(
        ["as many a second", "No factor: the load generator"].iter().any(|part| output.stdout.contains(part)),
        "{}",
        output.stdout
    );
    for seen in origin.seen() {
        assert!(seen.head.starts_with("GET "), "{}", seen.head);
        assert!(
            !["logout", "action=", "add-to-cart"].iter().any(|part| seen.target().contains(part)),
            "{seen:?}"
        );
    }
    assert_eq!(petasos(["check", &toml]).code, Some(0));
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&page).contains("default-src 'none'") && read(&page).contains("3 OF 3 PAGES"));
    let shared = read(&share);
    let address = origin.address().to_string();
    assert!(shared.contains("3 of 3 visited pages") && !shared.contains(&address), "{shared}");
    // An existing file stays unchanged.
    let before = origin.seen().len();
    let again = try_site(&format!("{}/", origin.url()), &files);
    assert_eq!((again.code, origin.seen().len()), (Some(2), before));
    assert!(again.stderr.contains("exists; name a new file"), "{}", again.stderr);
    for (files, words) in [
        (&["--html", page.as_str(), "--share", page.as_str()][..], "is named twice"),
        (&["--html", "/nowhere/a.html"], "no such directory"),
        (&["--html", "-", "--json"], "no file can be `-`"),
    ] {
        let refused = try_site(&origin.url(), files);
        assert_eq!((refused.code, origin.seen().len()), (Some(2), before), "{files:?}");
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let again = petasos(["try", &origin.url(), "--no-load", "--pages", "1", "--share", &share]);
    assert!(again.stderr.contains("share.md was replaced"), "{}", again.stderr);
}

#[test]
fn robots_txt_holds_for_probes_and_redirects() {
    let origin = Origin::start(|seen| match seen.target() {
        "/robots.txt" => html(&[], "User-agent: *\nDisallow: /*utm_source\n"),
        _ => html(&PAGE, "<p>page</p>"),
    });
    let output = petasos(["try", &origin.url(), "--no-load"]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(origin.seen().iter().any(|seen| seen.field("Cookie").is_some()), "the probes are missing");
    assert!(!origin.seen().iter().any(|seen| seen.target().contains("utm_source")));
    let moved = Origin::start(|seen| match seen.target() {
        "/robots.txt" => response("301 Moved", &["Location: https://other.test/robots.txt"], b""),
        _ => html(&PAGE, "<p>page</p>"),
    });
    let output = petasos(["try", &moved.url(), "--no-load"]);
    assert_eq!((output.code, moved.seen().len()), (Some(2), 1), "{}", output.stdout);
    assert!(output.stderr.contains("to try that one: petasos try https://other.test/"), "{}", output.stderr);
}

#[test]
fn probes_end_when_the_site_is_busy() {
    let origin = Origin::start(|seen| match (seen.target(), seen.field("Cookie")) {
        ("/robots.txt", _) => not_found(),
        (_, Some(_)) => response("503 Service Unavailable", &[], b""),
        _ => html(&PAGE, "<p>page</p>"),
    });
    let output = petasos(["try", &origin.url(), "--no-load"]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    let count = origin.seen().iter().filter(|seen| seen.field("Cookie").is_some()).count();
    assert_eq!(count, 1);
}

#[test]
fn cookie_for_everybody_gets_the_truth_and_no_factor() {
    let fields = ["Content-Type: text/html", "Cache-Control: s-maxage=60", "Set-Cookie: sid=1; Path=/"];
    let origin = Origin::start(move |seen| match seen.target() {
        "/robots.txt" => not_found(),
        _ => html(&fields, "<a href=/a>a</a>"),
    });
    let output = try_site(&origin.url(), &["--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    for part in [
        "\"name\": \"sid\"",
        "\"rule\": \"stripped_cookies = [\\\"sid\\\"]\"",
        "\"outcome\": \"not-made\"",
        "\"class\": \"setting\"",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    assert!(origin.seen().len() < 40, "{} requests without a load", origin.seen().len());
    let text = try_site(&origin.url(), &[]).stdout;
    assert!(text.contains("EVERY VISITOR GETS THE COOKIE sid"), "{text}");
    assert!(!text.contains("as many a second"), "{text}");
}

#[test]
fn site_that_fails_under_load_gets_no_factor() {
    let at_once = AtomicUsize::new(0);
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    let origin = Origin::start(move |seen| {
        let is_alone = at_once.fetch_add(1, Ordering::SeqCst) == 0;
        // Requests of one visitor never meet here, those of several do.
        thread::sleep(Duration::from_millis(5));
        at_once.fetch_sub(1, Ordering::SeqCst);
        if !is_alone {
            counted.fetch_add(1, Ordering::SeqCst);
            return response("500 Internal Server Error", &[], b"");
        }
        shop(seen)
    });
    // The load ends long before its time is up.
    let output = petasos(["try", &origin.url(), "--rounds", "1", "--round-time", "60s"]);
    assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("NO FACTOR: the load was ended early"), "{}", output.stdout);
    assert!(output.stdout.contains("with status 500"), "{}", output.stdout);
    assert!(!output.stdout.contains("as many a second"), "{}", output.stdout);
    // Three failures end the load. At the third, those of all four users may be read at once, and
    // each user may have begun one more request.
    let failures = failures.load(Ordering::SeqCst);
    assert!((3..=2 + 4 + 4).contains(&failures), "{failures} requests failed");
}

#[test]
fn personal_page_is_compared_with_the_cookie() {
    let origin = Origin::start(|seen| match (seen.target(), seen.field("Cookie")) {
        ("/robots.txt", _) => not_found(),
        (_, Some(cookie)) if cookie.contains("session=1") => {
            html(&["Content-Type: text/html", "Cache-Control: private"], "<p>Hello Anna</p>")
        }
        _ => html(&PAGE, "<p>Hello</p>"),
    });
    let output = try_site(&origin.url(), &["--no-load", "--cookie", "session=1"]);
    // The rounds are named, so the flag is refused.
    assert_eq!(output.code, Some(2));
    let output = petasos(["try", &origin.url(), "--no-load", "--cookie", "session=1"]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("1 OF 1 PAGES"), "{}", output.stdout);
    assert!(output.stdout.contains("with cookie  1 of 1 pages"), "{}", output.stdout);
    assert!(!output.stdout.contains("Anna"), "{}", output.stdout);
    let output = petasos(["try", &origin.url(), "--no-load", "--cookie", "session=old"]);
    assert!(output.stdout.contains("the cookie changes no page"), "{}", output.stdout);
}

#[test]
fn page_that_differs_through_petasos_is_named() {
    let origin = Origin::start(|seen| match (seen.target(), seen.field("Via")) {
        ("/robots.txt", _) => not_found(),
        (_, Some(_)) => html(&PAGE, "<p>one two three four\nsome words through a proxy and more</p>"),
        (_, None) => html(&PAGE, "<p>one two three four\nsome words without a proxy and more</p>"),
    });
    let output = petasos(["try", &origin.url(), "--no-load"]);
    assert_eq!(output.code, Some(1), "{}", output.stdout);
    assert!(output.stdout.contains("0 of 1 pages; 1 DIFFER"), "{}", output.stdout);
    assert!(output.stdout.contains("line 2: some words [without | through]"), "{}", output.stdout);
}

#[test]
fn redirect_of_the_start_is_followed_on_the_site_only() {
    let origin = Origin::start(|seen| match seen.target() {
        "/" => response("302 Found", &["Location: /blog"], b""),
        "/away" => response("301 Moved Permanently", &["Location: https://other.test/x"], b""),
        "/admin/" => response("302 Found", &["Location: /admin/login/?next=/admin/"], b""),
        "/cookies" => response("302 Found", &["Location: /cookies", "Set-Cookie: has=1"], b""),
        "/blog" => html(&PAGE, "<p>blog</p>"),
        _ => not_found(),
    });
    let output = petasos(["try", &origin.url(), "--no-load"]);
    assert!(output.stdout.contains("1 OF 1 PAGES"), "{}{}", output.stdout, output.stderr);
    let output = petasos(["try", &format!("{}/away", origin.url())]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert!(output.stderr.contains("to try that one: petasos try https://other.test/x"), "{}", output.stderr);
    let output = petasos(["try", &format!("{}/admin/", origin.url())]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    let endless = petasos(["try", &format!("{}/cookies", origin.url())]);
    assert!(endless.stderr.contains("its redirects end nowhere, the last one at http"), "{}", endless.stderr);
    let words = "/admin/login/?next=/admin/, which is not visited (administration or editor)";
    assert!(output.stderr.contains(words), "{}", output.stderr);
}

#[test]
fn site_that_cannot_be_tried_is_explained() {
    let refused = |url: &str, words: &str| {
        let output = petasos(["try", url]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    };
    let port = HeldPort::take();
    refused(&format!("http://{}/", port.address()), "nothing listens at");
    refused("shop.test", "http");
    let closed = Origin::start(|seen| match seen.target() {
        "/robots.txt" => html(&[], "User-agent: *\nDisallow: /\n"),
        _ => html(&PAGE, "<p>page</p>"),
    });
    refused(&closed.url(), "add the lines `User-agent: petasos` and `Allow: /`");
    assert!(closed.seen().iter().all(|seen| seen.target() == "/robots.txt"));
    let broken = Origin::start(|seen| match seen.target() {
        "/robots.txt" => not_found(),
        _ => response("500 Internal Server Error", &[], b""),
    });
    refused(&broken.url(), "it answered 500");
}

/// Starts the command with an empty directory for all files that it might write.
fn spawn(directory: &Path, arguments: &[&str]) -> Child {
    Command::new(binary())
        .arg("try")
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory)
        .env("TMPDIR", directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn preview_shows_the_site_with_links_to_itself() {
    let origin = Origin::start(|seen| {
        let host = seen.field("Host").unwrap().to_owned();
        match seen.target() {
            "/robots.txt" => not_found(),
            "/old" => response("302 Found", &[&format!("Location: http://{host}/new")], b""),
            _ => html(&PAGE, &format!("<a href=http://{host}/page>a</a> {:?}", seen.field("Cookie"))),
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let mut child = spawn(directory.path(), &[&origin.url(), "--no-load", "--stay", "--pages", "1"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("preview: ")).unwrap();
    let address: SocketAddr =
        line.split('/').nth(2).unwrap().parse().unwrap_or_else(|_| panic!("no address: {line}"));
    let send = |request: &str, host: &str| {
        let mut client = Client::connect(address);
        client.send(format!("{request} HTTP/1.1\r\nHost: {host}\r\nCookie: secret=1\r\n\r\n"));
        client.read()
    };
    let own = address.to_string();
    let page = send("GET /", &own);
    assert_eq!(page.text(), format!("<a href=http://{own}/page>a</a> None"));
    let policy = page.field("Content-Security-Policy");
    assert_eq!(policy, Some("sandbox allow-scripts allow-popups allow-forms"));
    assert_eq!(send("GET /old", &own).field("Location"), Some(format!("http://{own}/new").as_str()));
    assert_eq!([send("GET /", "evil.test").status, send("POST /", &own).status], [400, 400]);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(Client::try_connect(address).is_none());
}

#[test]
fn crawl_delay_that_takes_long_is_announced() {
    let origin = Origin::start(|seen| match seen.target() {
        "/robots.txt" => html(&[], "User-agent: *\nCrawl-delay: 20\n"),
        _ => html(&PAGE, "<p>page</p>"),
    });
    let directory = tempfile::tempdir().unwrap();
    let mut child = spawn(directory.path(), &[&origin.url()]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.next().unwrap();
    assert_eq!(
        line,
        "robots.txt asks for 20 s between two requests; the visit ends after 5 minutes with what it has; \
         --no-delay leaves the pauses out"
    );
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(origin.seen().len(), 1);
    // The owner may leave the pauses out, but only at home.
    let output = petasos(["try", &origin.url(), "--no-load", "--no-delay", "--pages", "1"]);
    assert!(output.stdout.contains("1 OF 1 PAGES"), "{}{}", output.stdout, output.stderr);
    let output = petasos(["try", "http://192.0.2.7/", "--no-delay"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--no-delay is for a site on this machine"), "{}", output.stderr);
}

#[test]
fn interrupted_trial_leaves_nothing_behind() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |seen| match seen.target() {
        "/robots.txt" => not_found(),
        _ => vec![Action::Await(held.clone())],
    });
    let directory = tempfile::tempdir().unwrap();
    let child = spawn(directory.path(), &[&origin.url()]);
    eventually("the start page is requested", || origin.seen().iter().any(|seen| seen.target() == "/"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    gate.open();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted; nothing is left behind"));
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}
