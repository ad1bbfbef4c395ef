//! The real binary's stream of records at the admin address, and the commands that read it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use testkit::{Client, Edge, Origin, eventually, get, response};

fn origin() -> Origin {
    Origin::start(|seen| match seen.target() {
        "/broken" => response("500 Internal Server Error", &["Cache-Control: no-store"], b"x"),
        _ => response("200 OK", &["Cache-Control: max-age=60"], b"content"),
    })
}

/// A client of the stream.
struct Follower {
    client: Client,
    text: String,
}

impl Follower {
    /// Follows with this query, and waits until the edge counts the follower.
    fn with(edge: &Edge, query: &str) -> Self {
        let before = followers(edge);
        let mut client = ask(edge.admin, query);
        let head = client.read_head();
        assert_eq!((head.status, head.field("Content-Type")), (200, Some("application/x-ndjson")));
        eventually("it follows", || followers(edge) == before + 1);
        Self { client, text: String::new() }
    }

    /// The next non-empty line.
    fn next(&mut self) -> Value {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.text = rest;
                if !line.is_empty() {
                    return serde_json::from_str(&line).unwrap();
                }
                continue;
            }
            let chunk = self.client.try_read_chunk().expect("the stream goes on");
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    fn target(&mut self) -> String {
        self.next()["target"].as_str().unwrap().to_owned()
    }
}

fn followers(edge: &Edge) -> usize {
    edge.metric("petasos_log_followers", "") as usize
}

fn ask(admin: SocketAddr, query: &str) -> Client {
    let mut client = Client::connect(admin);
    client.send(format!("GET /log{query} HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
    client
}

#[test]
fn followers_get_the_requests_of_their_filters() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let mut all = Follower::with(&edge, "");
    let mut errors = Follower::with(&edge, "?where=status+%3E%3D+500+and+path+~+%22%5E%2Fb%22");
    for target in ["/one", "/broken", "/one"] {
        get(edge.address, target, &[]);
    }
    let record = all.next();
    assert_eq!((&record["target"], &record["reason"]), (&"/one".into(), &"miss-absent".into()));
    assert!(record["fetch"]["first_byte"].as_u64().is_some(), "{record}");
    assert_eq!(
        (all.target(), all.target(), errors.target()),
        ("/broken".into(), "/one".into(), "/broken".into())
    );
    drop((all, errors));
    eventually("the edge knows that they are gone", || followers(&edge) == 0);
}

#[test]
fn unusable_requests_for_the_stream_are_refused_with_a_reason() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    for (query, words) in [
        ("?where=verdict+%3D+mis", "at column 11: `verdict` is never `mis` (did you mean `miss`?)"),
        ("?filter=x", "There is no parameter `filter` here; there is `where`."),
    ] {
        let answer = ask(edge.admin, query).read();
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains(words), "{}", answer.text());
    }
    let all: Vec<_> = (0..8).map(|_| Follower::with(&edge, "")).collect();
    let answer = ask(edge.admin, "").read();
    assert_eq!((answer.status, answer.text().contains("8 clients follow the log already")), (503, true));
    drop(all);
    eventually("there is room again", || followers(&edge) == 0);
    Follower::with(&edge, "");
    let mut foreign = Client::connect(edge.admin);
    foreign.send("GET /log HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    assert_eq!(foreign.read().status, 403);
}

#[test]
fn slow_follower_delays_nobody_and_learns_what_it_missed() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let mut slow = Follower::with(&edge, "");
    let mut fast = Follower::with(&edge, "?where=path+%3D+%22%2Flast%22");
    // It does not read, and the records exceed its queue and the buffers of the sockets.
    let agent = format!("User-Agent: {}", "x".repeat(4000));
    let (mut client, mut sent) = (Client::connect(edge.address), 0);
    while edge.metric("petasos_log_skipped_total", "") as u64 == 0 || sent < 2000 {
        for _ in 0..200 {
            assert_eq!(client.get("/one", &[&agent]).status, 200);
            sent += 1;
        }
        assert!(sent < 20_000, "nothing was skipped");
    }
    get(edge.address, "/last", &[]);
    assert_eq!(fast.target(), "/last");
    let (mut seen, mut skipped) = (0, 0);
    while seen + skipped < sent {
        let line = slow.next();
        match line["skipped"].as_u64() {
            Some(count) => skipped += count,
            None => seen += 1,
        }
    }
    assert!(skipped > 0 && seen > 0, "{seen} seen, {skipped} skipped");
    assert!(edge.metric("petasos_log_skipped_total", "") as u64 >= skipped);
    // It is in step again.
    get(edge.address, "/after", &[]);
    while slow.next()["target"] != "/after" {}
}

#[test]
fn stream_ends_with_the_edge() {
    let origin = origin();
    let mut edge = Edge::start(&origin.url(), &[]);
    let mut follower = Follower::with(&edge, "");
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
    assert!(follower.client.is_closed());
}

/// A running `petasos log`.
struct Command {
    child: std::process::Child,
    lines: Option<Receiver<String>>,
}

impl Command {
    fn start(edge: &Edge, arguments: &[&str]) -> Self {
        let mut command = Self::spawn(edge, arguments);
        let stdout = BufReader::new(command.child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        command.lines = Some(lines);
        command
    }

    /// Starts the command without reading its output.
    fn spawn(edge: &Edge, arguments: &[&str]) -> Self {
        let before = followers(edge);
        let child = std::process::Command::new(testkit::binary())
            .args(["log", "--admin", &edge.admin.to_string()])
            .args(arguments)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        eventually("it follows", || followers(edge) == before + 1);
        Self { child, lines: None }
    }

    fn line(&self) -> String {
        self.lines.as_ref().unwrap().recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// The exit code, once the command has ended.
    fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().and_then(|status| status.code())
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn log_command_prints_requests_with_their_phases() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let text = Command::start(&edge, &["--follow", "--where", "path ~ \"^/shop\""]);
    let json = Command::start(&edge, &["--json"]);
    get(edge.address, "/other", &[]);
    get(edge.address, "/shop", &[]);
    let (first, second) = (text.line(), text.line());
    assert!(
        first.contains(" 200 miss     miss-absent ") && first.ends_with("GET example.test/shop"),
        "{first}"
    );
    assert!(second.contains("wait ") && second.contains("| fetch 2: queue "), "{second}");
    let records = [json.line(), json.line()].map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert_eq!(records.map(|record| record["target"].clone()), ["/other", "/shop"]);
}

#[test]
fn log_command_follows_an_edge_that_is_replaced() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let command = Command::start(&edge, &[]);
    let new = edge.upgraded(&origin.url(), &[]);
    eventually("it follows the new process", || followers(&new) == 1);
    get(new.address, "/after", &[]);
    assert!(command.line().ends_with("GET example.test/after"));
}

#[test]
fn log_command_ends_with_its_reader_or_without_an_edge() {
    let origin = origin();
    let mut edge = Edge::start(&origin.url(), &[]);
    let mut command = Command::spawn(&edge, &[]);
    drop(command.child.stdout.take());
    eventually("a write meets the closed pipe", || {
        get(edge.address, "/one", &[]);
        command.ended().is_some()
    });
    assert_eq!(command.ended(), Some(0));
    for (arguments, words) in [
        (&["--where", "verdict = mis"][..], "--where: the filter cannot be read at column 11"),
        (&["--where", "verdict = mis"], "\n  verdict = mis\n            ^"),
        (&["--admin", "127.0.0.1:1"], "no edge answers at the admin address 127.0.0.1:1"),
    ] {
        let output = testkit::petasos([&["log"], arguments].concat());
        assert_eq!(output.code, Some(2), "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    let mut command = Command::start(&edge, &[]);
    edge.kill();
    eventually("it gives up", || command.ended().is_some());
    assert_eq!(command.ended(), Some(2));
}
