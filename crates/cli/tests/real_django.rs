//! The package `integrations/django` with Debian's Django: its own tests, and its site behind the
//! edge. A change is visible at once, and a logged-in visitor gets personal pages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use testkit::{Client, Edge, Response, get};

/// Debian's Python, which finds Debian's Django.
const PYTHON: &str = "/usr/bin/python3";

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/django/tests")
}

/// A Python program of the package. It leaves no compiled files in the repository.
fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new(PYTHON);
    command.arg("-B").args(arguments).current_dir(tests());
    command
}

#[test]
fn package_passes_its_own_tests() {
    let output = python(&["-m", "unittest", "discover"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("skipped"), "{said}");
    let count = said.split("Ran ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(count.parse::<u32>().unwrap() >= 25, "{said}");
}

/// The site of the package's tests. It is killed when this is dropped.
struct Site {
    running: Child,
    address: SocketAddr,
    _database: TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.running.kill());
        drop(self.running.wait());
    }
}

impl Site {
    /// Starts the site, and an edge in front of it as the target of its purges.
    fn behind_an_edge() -> (Self, Edge) {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("database");
        let mut command = python(&["example.py", database.to_str().unwrap()]);
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.trim().parse().unwrap()));
        let edge = Edge::start(&format!("http://{address}"), &["--profile", "django"]);
        writeln!(running.stdin.as_ref().unwrap(), "http://{}", edge.admin).unwrap();
        (Self { running, address, _database: directory }, edge)
    }

    /// Changes the title of an article past the edge, so that only purges tell the edge of it.
    fn rename(&self, article: u32, title: &str) {
        let body = format!("title={title}");
        let head = format!(
            "POST /article/{article}/ HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = Client::connect(self.address).try_ask(head + &body).unwrap();
        assert_eq!(answer.text(), "saved");
    }
}

fn is_hit(answer: &Response) -> bool {
    answer.field("Cache-Status").unwrap().contains("hit-fresh")
}

#[test]
fn changed_article_is_fresh_at_once_and_others_stay() {
    let (site, edge) = Site::behind_an_edge();
    let pages = ["/", "/article/7/", "/article/8/"];
    for target in pages {
        let first = get(edge.address, target, &[]);
        assert_eq!((first.status, is_hit(&first)), (200, false), "{}", first.head);
        assert_eq!(first.field("Surrogate-Key"), None, "{}", first.head);
        let second = get(edge.address, target, &[]);
        assert!(is_hit(&second), "{target}: {}", second.head);
    }
    for title in ["changed", "again"] {
        site.rename(7, title);
        let [list, article, other] = pages.map(|target| get(edge.address, target, &[]));
        assert!(list.text().contains(&format!("<p>{title}<p>second")), "{}", list.text());
        assert!(article.text().contains(title), "{}", article.text());
        assert_eq!([list, article, other].map(|answer| is_hit(&answer)), [false, false, true]);
    }
}

#[test]
fn logged_in_visitor_shares_no_page() {
    let (_site, edge) = Site::behind_an_edge();
    let login = get(edge.address, "/login/", &[]);
    let mut cookies = login.head.lines().filter_map(|line| line.strip_prefix("Set-Cookie: "));
    let session = cookies.rfind(|cookie| cookie.starts_with("sessionid=")).unwrap();
    let session = format!("Cookie: {}", session.split(';').next().unwrap());
    for _ in 0..2 {
        let own = get(edge.address, "/", &[&session]);
        assert!(own.text().contains("alice") && !is_hit(&own), "{}", own.head);
        assert_eq!(own.field("Cache-Control"), Some("private, no-store"));
    }
    for is_second in [false, true] {
        let shared = get(edge.address, "/", &[]);
        assert!(shared.text().contains("nobody") && !shared.text().contains("alice"), "{}", shared.text());
        assert_eq!(is_hit(&shared), is_second, "{}", shared.head);
    }
}
