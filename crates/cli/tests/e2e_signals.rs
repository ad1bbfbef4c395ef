//! The real binary and its signals: logs are reopened, a broken standard error stops nothing, and
//! the shutdown has stages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use testkit::{Action, Client, Edge, Gate, Origin, eventually, get, response};

fn page() -> Origin {
    Origin::start(|seen| response("200 OK", &["Cache-Control: no-store"], seen.target().as_bytes()))
}

/// Whether the access log has a line for this target.
fn has(log: &Path, target: &str) -> bool {
    fs::read_to_string(log).is_ok_and(|text| text.contains(&format!("\"GET {target} HTTP/1.1\"")))
}

struct Logged {
    origin: Origin,
    edge: Edge,
    log: PathBuf,
    rotated: PathBuf,
    _directory: tempfile::TempDir,
}

impl Logged {
    /// An edge whose access log was renamed after the line for `/one`.
    fn rotated() -> Self {
        let origin = page();
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("access.log");
        let rotated = directory.path().join("access.log.1");
        let edge = Edge::start(&origin.url(), &["--access-log", log.to_str().unwrap()]);
        let logged = Self { origin, edge, log, rotated, _directory: directory };
        logged.ask("/one");
        eventually("it is logged", || has(&logged.log, "/one"));
        fs::rename(&logged.log, &logged.rotated).unwrap();
        logged
    }

    fn ask(&self, target: &str) {
        assert_eq!(get(self.edge.address, target, &[]).text(), target);
    }

    /// Waits until the edge has printed these words on standard error.
    fn said(&self, words: &str) {
        eventually(words, || self.edge.stderr().contains(words));
    }
}

#[test]
fn rotated_log_is_reopened_on_hup_and_usr1() {
    for (signal, words) in [("USR1", "is reopened"), ("HUP", "the configuration was read again")] {
        let mut logged = Logged::rotated();
        logged.ask("/two");
        eventually("without a signal the renamed file goes on", || has(&logged.rotated, "/two"));
        logged.edge.signal(signal);
        logged.said(words);
        logged.said("is reopened");
        logged.ask("/three");
        eventually("the new file has the line", || has(&logged.log, "/three"));
        assert!(!has(&logged.rotated, "/three") && !has(&logged.log, "/two"));
        logged.edge.signal("TERM");
        assert_eq!(logged.edge.wait(), Some(0));
        assert_eq!(logged.origin.seen().len(), 3);
    }
}

#[test]
fn log_that_cannot_be_reopened_stays_with_the_old_file() {
    let logged = Logged::rotated();
    fs::create_dir(&logged.log).unwrap();
    logged.edge.signal("USR1");
    logged.said("cannot be reopened; its lines still go to the file that was open");
    logged.ask("/two");
    eventually("the renamed file goes on", || has(&logged.rotated, "/two"));
    assert_eq!(logged.edge.metric("petasos_access_log_dropped_total", "") as u64, 0);
}

/// Scripts that make standard error a pipe without a reader, and a full pipe with an idle reader.
const BROKEN_STDERR: [&str; 2] = [
    "mkfifo \"$PIPE\"; exec 3<>\"$PIPE\"; exec 2>\"$PIPE\"; exec 3<&-; exec \"$@\"",
    "mkfifo \"$PIPE\"; exec 3<>\"$PIPE\"; exec 2>&3; head -c 65536 /dev/zero >&2; exec \"$@\"",
];

#[test]
fn broken_standard_error_stops_neither_requests_nor_shutdown() {
    for script in BROKEN_STDERR {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("PIPE={}; {script}", directory.path().join("pipe").display());
        let origin = Origin::start(|seen| {
            let wordpress = "Link: <http://example.test/wp-json/>; rel=\"https://api.w.org/\"";
            response("200 OK", &[wordpress, "Content-Type: text/html"], seen.target().as_bytes())
        });
        let mut edge = Edge::scripted(&script, &origin.url(), &["--workers", "1"]);
        // The profile is detected from the first response, which the edge reports on standard
        // error.
        for target in ["/one", "/two", "/three"] {
            assert_eq!(get(edge.address, target, &[]).text(), target);
        }
        assert_eq!(edge.metric("petasos_sites_recognised_total", "") as u64, 1);
        edge.signal("HUP");
        assert_eq!(get(edge.address, "/four", &[]).text(), "/four");
        edge.signal("TERM");
        assert_eq!(edge.wait(), Some(0), "{script}");
    }
}

#[test]
fn streams_end_before_requests_after_sigterm() {
    let gate = Gate::default();
    let never = Gate::default();
    let at_slow = gate.clone();
    let at_stream = never.clone();
    let origin = Origin::start(move |seen| match seen.target() {
        "/socket" => vec![
            Action::Send(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".into(),
            ),
            Action::Await(at_stream.clone()),
        ],
        "/events" => vec![
            Action::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n".into()),
            Action::Await(at_stream.clone()),
        ],
        _ => [vec![Action::Await(at_slow.clone())], response("200 OK", &[], b"done")].concat(),
    });
    let mut edge = Edge::configured(&origin.url(), "[limits]\ndrain_streams = \"300ms\"\n", &[]);
    let ask = |target: &str, fields: &str| {
        let mut client = Client::connect(edge.address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n{fields}\r\n"));
        client
    };
    let mut slow = ask("/slow", "");
    let mut events = ask("/events", "");
    let mut socket = ask("/socket", "Connection: upgrade\r\nUpgrade: x\r\n");
    assert_eq!((socket.read_head().status, events.read_head().status), (101, 200));
    eventually("all are under way", || origin.seen().len() == 3);
    edge.signal("TERM");
    eventually("no connection is taken", || TcpStream::connect(edge.address).is_err());
    socket.read_to_end();
    events.read_to_end();
    eventually("both are counted", || edge.metric("petasos_streams_ended_total", "") as u64 == 2);
    gate.open();
    assert_eq!(slow.read().text(), "done", "a request goes on");
    assert_eq!(edge.wait(), Some(0));
    never.open();
}

#[test]
fn event_streams_end_at_shutdown_on_every_delivery_path() {
    let never = Gate::default();
    let at_stream = never.clone();
    let origin = Origin::start(move |seen| {
        let shared = if seen.target() == "/shared" { "Cache-Control: public, max-age=60\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{shared}\r\ndata: 1\n\n");
        vec![Action::Send(head.into_bytes()), Action::Await(at_stream.clone())]
    });
    let limits = "[limits]\ndrain_streams = \"300ms\"\ndrain_timeout = \"60s\"\n";
    let mut edge = Edge::configured(&origin.url(), limits, &["--profile", "wordpress"]);
    // After a POST of the menu's form, the edge reads the response along, because it shows whether
    // the menu was saved.
    let requests = [
        "GET /shared HTTP/1.1\r\nHost: example.test\r\n\r\n",
        "POST /wp-admin/nav-menus.php HTTP/1.1\r\nHost: example.test\r\nContent-Length: 0\r\n\
         Cookie: wordpress_logged_in_1=editor\r\n\r\n",
    ];
    let mut clients = requests.map(|request| {
        let mut client = Client::connect(edge.address);
        client.send(request);
        assert_eq!(client.read_head().status, 200);
        client
    });
    edge.signal("TERM");
    assert_eq!(clients.each_mut().map(Client::read_to_end), [true; 2], "they end long before other requests");
    assert_eq!(edge.wait(), Some(0));
    never.open();
}

#[test]
fn changed_file_is_in_force_after_hup_and_a_bad_one_is_not() {
    let origin = page();
    let edge = Edge::configured(&origin.url(), "names = ['a.test']\n", &[]);
    let status = |host: &str| {
        let mut client = Client::connect(edge.address);
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read().status
    };
    let says = |words: &str| eventually(words, || edge.stderr().contains(words));
    assert_eq!((status("a.test"), status("b.test")), (200, 421));
    edge.reconfigure("names = ['b.test']\n");
    edge.signal("HUP");
    says("sites: 0 unchanged, 0 changed with their pages kept, 1 new or changed without pages, 1 gone");
    assert_eq!((status("a.test"), status("b.test")), (421, 200));
    edge.reconfigure("names = ['c.test']\nworkers = 7\n");
    edge.signal("HUP");
    says("the old one stays in force: a running edge cannot change workers; restart it for that");
    edge.reconfigure("nmaes = ['c.test']\n");
    edge.signal("HUP");
    says("`nmaes`");
    assert_eq!((status("b.test"), status("c.test")), (200, 421));
}

#[test]
fn edge_that_drains_lives_and_is_not_ready() {
    let gate = Gate::default();
    let at_origin = gate.clone();
    let origin = Origin::start(move |_| {
        let mut actions = vec![Action::Await(at_origin.clone())];
        actions.extend(response("200 OK", &[], b"done"));
        actions
    });
    let mut edge = Edge::start(&origin.url(), &[]);
    let ask = |target: &str| {
        let mut client = Client::connect(edge.admin);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let answer = client.read();
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(ask("/readyz"), (200, "ready\n".to_owned()));
    let mut client = Client::connect(edge.address);
    client.send("GET /slow HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the request is on its way", || !origin.seen().is_empty());
    edge.signal("TERM");
    eventually("it is not ready", || ask("/readyz") == (503, "draining\n".to_owned()));
    assert_eq!(ask("/healthz").0, 200);
    gate.open();
    assert_eq!(client.read().text(), "done");
    assert_eq!(edge.wait(), Some(0));
}
