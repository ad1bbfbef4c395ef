//! `petasos serve` and `petasos check` from the operator's view: bad files, bad flags, ports in
//! use, signals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use testkit::{Action, Client, Edge, Gate, Origin, eventually, get, petasos, response};

/// A file with this content in a temporary directory, which is removed with the handle.
fn file(content: &[u8]) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("petasos.toml");
    std::fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn missing_subcommand_is_a_usage_error_and_help_is_not() {
    let output = petasos(std::iter::empty::<&str>());
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("Usage"), "{output:?}");
    let help = petasos(["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("serve"));
}

#[test]
fn wrong_flag_is_named_with_the_right_one() {
    let output = petasos(["serve", "--orgin", "http://127.0.0.1:1"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--orgin") && output.stderr.contains("--origin"), "{}", output.stderr);
}

#[test]
fn wrong_value_of_a_flag_is_explained() {
    let output = petasos(["serve", "--origin", "http://127.0.0.1:1", "--ttl", "5"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--ttl: `5` is not a duration"), "{}", output.stderr);
}

#[test]
fn missing_origin_is_reported_with_its_flag() {
    let output = petasos(["serve"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--origin URL"), "{}", output.stderr);
}

#[test]
fn bad_file_is_reported_with_the_line() {
    let (_directory, path) = file(b"origin = 'http://127.0.0.1:1'\nlisten = 8080\n");
    for words in [["serve", path.as_str()], ["check", path.as_str()]] {
        let output = petasos(words);
        assert_eq!(output.code, Some(2));
        assert!(output.stderr.contains(":2:10"), "{}", output.stderr);
    }
}

#[test]
fn missing_or_binary_file_is_named() {
    let (_directory, path) = file(b"\xff\xfe");
    assert!(petasos(["check", path.as_str()]).stderr.contains("not UTF-8"));
    let missing = format!("{path}.missing");
    let output = petasos(["check", missing.as_str()]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains(&missing), "{}", output.stderr);
}

#[test]
fn good_file_is_explained_without_binding_an_address() {
    let origin = Origin::start(|_| Vec::new());
    let edge = Edge::start(&origin.url(), &[]);
    let taken = format!("origin = 'http://127.0.0.1:1'\nlisten = '{}'\n", edge.address);
    let (_directory, path) = file(taken.as_bytes());
    let output = petasos(["check", path.as_str(), "--print"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("any name: origin http://127.0.0.1:1"), "{}", output.stdout);
}

#[test]
fn address_in_use_is_named() {
    let origin = Origin::start(|_| Vec::new());
    let edge = Edge::start(&origin.url(), &[]);
    let address = edge.address.to_string();
    let output =
        petasos(["serve", "--origin", "http://127.0.0.1:1", "--listen", &address, "--admin", "127.0.0.1:0"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains(&address), "{}", output.stderr);
}

#[test]
fn termination_signal_lets_requests_finish() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |_| {
        let mut actions = vec![Action::Await(wait.clone())];
        actions.extend(response("200 OK", &[], b"done"));
        actions
    });
    let mut edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    client.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the request is on its way", || !origin.seen().is_empty());
    edge.signal("TERM");
    eventually("no new connection is taken", || std::net::TcpStream::connect(edge.address).is_err());
    gate.open();
    assert_eq!(client.read().text(), "done");
    assert_eq!(edge.wait(), Some(0));
}

#[test]
fn interrupt_stops_an_idle_edge() {
    let origin = Origin::start(|_| response("200 OK", &[], b"x"));
    let mut edge = Edge::start(&origin.url(), &[]);
    get(edge.address, "/", &[]);
    edge.signal("INT");
    assert_eq!(edge.wait(), Some(0));
}

#[test]
fn page_of_another_site_cannot_read_the_admin_address() {
    let origin = Origin::start(|_| Vec::new());
    let edge = Edge::start(&origin.url(), &[]);
    let ask = |fields: &str| {
        let mut client = Client::connect(edge.admin);
        client.send(format!("GET /metrics HTTP/1.1\r\n{fields}\r\n\r\n"));
        client.read().status
    };
    let own = format!("Host: {}", edge.admin);
    assert_eq!(ask(&own), 200);
    assert_eq!(ask("Host: evil.test"), 403);
    assert_eq!(ask(&format!("{own}\r\nOrigin: http://evil.test")), 403);
}

#[test]
fn access_log_has_verdict_and_reason_of_each_request() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let edge = Edge::start(&origin.url(), &["--access-log", path.to_str().unwrap()]);
    get(edge.address, "/first", &[]);
    get(edge.address, "/first", &[]);
    let lines = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("both lines are written", || lines().lines().count() == 2);
    let text = lines();
    let (miss, hit) = text.split_once('\n').unwrap();
    assert!(miss.contains("\"GET /first HTTP/1.1\" 200") && miss.contains("miss-absent"), "{miss}");
    assert!(hit.contains("hit-fresh"), "{hit}");
}
