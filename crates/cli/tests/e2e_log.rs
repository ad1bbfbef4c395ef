//! The real binary's access log: its formats and destinations, filters and reloads, and bytes that
//! clients choose.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Client, Edge, Origin, eventually, get, petasos, response};

fn page() -> Origin {
    Origin::start(|seen| match seen.target() {
        "/broken" => response("500 Internal Server Error", &["Cache-Control: no-store"], b"x"),
        _ => response("200 OK", &["Cache-Control: max-age=60"], b"content"),
    })
}

/// An edge whose access log is a file.
struct Logged {
    origin: Origin,
    edge: Edge,
    log: PathBuf,
    directory: tempfile::TempDir,
}

impl Logged {
    /// An edge with this configuration besides the name of the log.
    fn with(configuration: &str) -> Self {
        let (origin, directory) = (page(), tempfile::tempdir().unwrap());
        let log = directory.path().join("access.log");
        let text = configuration_of(&log, configuration);
        let edge = Edge::configured(&origin.url(), &text, &[]);
        Self { origin, edge, log, directory }
    }

    /// The lines of the log, once there are `count`.
    fn lines(&self, count: usize) -> Vec<String> {
        let read = || fs::read_to_string(&self.log).unwrap_or_default();
        eventually("the lines are written", || read().lines().count() >= count);
        let lines: Vec<_> = read().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }

    fn records(&self, count: usize) -> Vec<Value> {
        self.lines(count).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn configuration_of(log: &Path, more: &str) -> String {
    format!("access_log = '{}'\n{more}\n", log.display())
}

#[test]
fn json_line_has_verdict_phases_key_and_trace() {
    let logged = Logged::with("access_log_format = 'json'");
    let trace = "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    get(logged.edge.address, "/shop?b=1&utm_source=x", &[trace, "Referer: http://a/", "User-Agent: me"]);
    get(logged.edge.address, "/shop?b=1", &[]);
    let mut records = logged.records(2).into_iter();
    let (miss, hit) = (records.next().unwrap(), records.next().unwrap());
    for (name, expected) in [
        ("client", "127.0.0.1"),
        ("method", "GET"),
        ("host", "example.test"),
        ("target", "/shop?b=1&utm_source=x"),
        ("protocol", "HTTP/1.1"),
        ("site", "any"),
        ("verdict", "miss"),
        ("reason", "miss-absent"),
        ("key", "http://example.test/shop?b=1"),
        ("referer", "http://a/"),
        ("agent", "me"),
        ("trace", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(miss[name], expected, "{miss}");
    }
    assert_eq!((&miss["status"], &miss["bytes"]), (&200.into(), &7.into()));
    let number = |record: &Value, path: &str| record.pointer(path).and_then(Value::as_u64).unwrap();
    assert!(number(&miss, "/received") > 100 && number(&miss, "/sent") > 7, "{miss}");
    let parts = number(&miss, "/phases/wait") + number(&miss, "/phases/send");
    assert!(parts.abs_diff(number(&miss, "/time")) <= 2, "{miss}");
    assert_eq!(number(&miss, "/fetch/number"), 1);
    let fetched = ["queue", "connect", "first_byte"].map(|part| number(&miss, &format!("/fetch/{part}")));
    assert!(fetched.iter().sum::<u64>() <= number(&miss, "/time"), "{miss}");
    assert_eq!((hit["reason"].as_str(), hit.get("fetch")), (Some("hit-fresh"), None), "{hit}");
    assert_eq!(hit["phases"].as_object().unwrap().len(), 1, "{hit}");
}

#[test]
fn pass_has_the_phases_of_its_own_request() {
    let logged = Logged::with("access_log_format = 'json'");
    let mut client = Client::connect(logged.edge.address);
    client.send("POST /form HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\na=b");
    assert_eq!(client.read().status, 200);
    let record = logged.records(1).remove(0);
    assert_eq!((record["verdict"].as_str(), record.get("key")), (Some("pass"), None), "{record}");
    assert!(record["phases"]["pass"].as_u64() > record["fetch"]["first_byte"].as_u64(), "{record}");
}

#[test]
fn any_bytes_in_fields_leave_one_valid_line_for_each_request() {
    let hostile: [&[u8]; 5] = [
        b"\xff\xfe\x80",
        b"\"}\\\",\"verdict\":\"hit",
        b"\xe2\x80\xa8 \xc2\x9b31m \xf0\x9f\x90\x9f",
        b"a\tb \x7e",
        "ü{}[]<>&'".as_bytes(),
    ];
    for format in ["json", "combined"] {
        let logged = Logged::with(&format!("access_log_format = '{format}'"));
        let mut sent = 0;
        for bytes in hostile {
            for name in ["Referer", "User-Agent", "Traceparent", "X-Forwarded-For", "Host"] {
                let host = if name == "Host" { "" } else { "Host: a.test\r\n" };
                let mut client = Client::connect(logged.edge.address);
                let head = format!("GET /{sent} HTTP/1.1\r\n{host}{name}: ");
                // A refusal of this field is as good as a response.
                let request = [head.as_bytes(), bytes, b"\r\nConnection: close\r\n\r\n"].concat();
                sent += usize::from(client.try_ask(request).is_some());
            }
        }
        let count = || fs::read_to_string(&logged.log).unwrap_or_default().lines().count();
        eventually("most requests are logged", || count() >= 20);
        let text = fs::read(&logged.log).unwrap();
        let text = String::from_utf8(text).unwrap();
        for line in text.lines() {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            if format == "json" {
                let record: Value = serde_json::from_str(line).unwrap();
                assert!(["miss", "hit", "pass", "refused"].contains(&record["verdict"].as_str().unwrap()));
            } else {
                assert!(line.is_ascii() && line.matches('"').count() == 6, "{line}");
            }
        }
    }
}

#[test]
fn log_in_json_is_reopened_on_usr1() {
    let logged = Logged::with("access_log_format = 'json'");
    get(logged.edge.address, "/one", &[]);
    assert_eq!(logged.records(1)[0]["target"], "/one");
    let rotated = logged.directory.path().join("access.log.1");
    fs::rename(&logged.log, &rotated).unwrap();
    logged.edge.signal("USR1");
    eventually("it is reopened", || logged.edge.stderr().contains("is reopened"));
    get(logged.edge.address, "/two", &[]);
    assert_eq!(logged.records(1)[0]["target"], "/two");
    assert_eq!(fs::read_to_string(&rotated).unwrap().lines().count(), 1);
    assert_eq!(logged.edge.metric("petasos_access_log_dropped_total", "") as u64, 0);
}

#[test]
fn reload_changes_format_filter_and_addresses() {
    let logged = Logged::with("");
    get(logged.edge.address, "/one", &[]);
    assert!(logged.lines(1)[0].starts_with("127.0.0.1 - - ["));
    let changed =
        "access_log_format = 'json'\naccess_log_where = 'status >= 500'\nanonymise_addresses = true";
    logged.edge.reconfigure(&configuration_of(&logged.log, changed));
    logged.edge.signal("HUP");
    eventually("it is in force", || logged.edge.metric("petasos_reloads_total", "") as u64 == 1);
    get(logged.edge.address, "/one", &[]);
    get(logged.edge.address, "/broken", &[]);
    let line = logged.lines(2).remove(1);
    let record: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&record["target"], &record["client"]), (&"/broken".into(), &"127.0.0.0".into()));
    assert!(record.get("peer").is_none(), "{record}");
    // The destination needs a restart.
    logged.edge.reconfigure("access_log = 'journald'\n");
    logged.edge.signal("HUP");
    eventually("it is refused", || logged.edge.stderr().contains("a running edge cannot change access_log;"));
    drop(logged.origin);
}

#[test]
fn sample_keeps_all_errors() {
    let logged = Logged::with("access_log_every = 1000000");
    for _ in 0..5 {
        get(logged.edge.address, "/one", &[]);
        get(logged.edge.address, "/broken", &[]);
    }
    eventually("errors are logged", || {
        fs::read_to_string(&logged.log).unwrap_or_default().matches("GET /broken ").count() == 5
    });
    assert!(logged.lines(6).iter().filter(|line| line.contains("GET /one ")).count() <= 1);
}

/// The next datagram.
fn next(receive: impl FnOnce(&mut [u8]) -> std::io::Result<usize>) -> String {
    let mut octets = vec![0; 65_536];
    let length = receive(&mut octets).unwrap();
    octets.truncate(length);
    String::from_utf8(octets).unwrap()
}

#[test]
fn syslog_and_journal_receive_a_datagram_for_each_request() {
    let (origin, directory) = (page(), tempfile::tempdir().unwrap());
    let path = directory.path().join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let edge_with = |target: &str| Edge::start(&origin.url(), &["--access-log", target]);

    let edge = edge_with(&format!("syslog:unix:{}", path.display()));
    get(edge.address, "/one", &[]);
    let message = next(|octets| socket.recv(octets));
    let header = format!(" petasos[{}]: 127.0.0.1 - - [", edge.pid());
    assert!(message.starts_with("<190>") && message.contains(&header), "{message}");
    assert!(message.contains("\"GET /one HTTP/1.1\" 200 7 ") && !message.ends_with('\n'), "{message}");

    let edge = edge_with(&format!("journald:{}", path.display()));
    get(edge.address, "/two", &[]);
    let entry = next(|octets| socket.recv(octets));
    assert!(entry.starts_with("MESSAGE=127.0.0.1 - - ["), "{entry}");
    for line in
        ["PETASOS_REASON=miss-absent", "PETASOS_STATUS=200", "SYSLOG_IDENTIFIER=petasos", "PRIORITY=6"]
    {
        assert!(entry.lines().any(|found| found == line), "{line}: {entry}");
    }

    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let edge = edge_with(&format!("syslog:{}", receiver.local_addr().unwrap()));
    get(edge.address, "/three", &[]);
    let message = next(|octets| receiver.recv(octets));
    let header = format!(" petasos {} access - 127.0.0.1 - - [", edge.pid());
    assert!(message.starts_with("<190>1 20") && message.contains(&header), "{message}");
    assert!(message.contains("GET /three "), "{message}");
}

#[test]
fn missing_receiver_loses_lines_and_nothing_else() {
    let (origin, directory) = (page(), tempfile::tempdir().unwrap());
    let path = directory.path().join("socket");
    let target = format!("syslog:unix:{}", path.display());
    let edge = Edge::start(&origin.url(), &["--access-log", &target]);
    assert_eq!(get(edge.address, "/one", &[]).status, 200);
    eventually("the loss is counted", || edge.metric("petasos_access_log_dropped_total", "") as u64 == 1);
    // Another thread writes the message.
    eventually("the log says so", || edge.stderr().contains("cannot be written, so its lines are lost"));
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    get(edge.address, "/two", &[]);
    assert!(next(|octets| socket.recv(octets)).contains("GET /two "));
    eventually("the log names the end", || edge.stderr().contains("can be written again"));
}

#[test]
fn faults_of_filters_and_destinations_have_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("petasos.toml");
    for (text, words) in [
        (
            "access_log_where = 'verdict = mis'",
            "at column 11: `verdict` is never `mis` (did you mean `miss`?)",
        ),
        ("access_log_where = 'pth ~ x'", "at column 1: there is no field `pth` (did you mean `path`?)"),
        ("access_log = 'syslog:nowhere'", "after `syslog:`"),
        ("access_log_format = 'xml'", "`xml` is not one of: combined, json"),
    ] {
        fs::write(&file, format!("origin = 'http://127.0.0.1:9'\n{text}\n")).unwrap();
        let output = petasos(["check", file.to_str().unwrap()]);
        assert_eq!(output.code, Some(2), "{}", output.stderr);
        assert!(output.stderr.contains(words) && output.stderr.contains(":2:"), "{}", output.stderr);
    }
}

#[test]
fn traces_of_clients_reach_passes_and_fetches_begin_their_own() {
    let logged = Logged::with("access_log_format = 'json'\ntrace_fetches = true");
    let client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let field = format!("Traceparent: {client}");
    get(logged.edge.address, "/shared", &[&field]);
    get(logged.edge.address, "/own", &[&field, "Authorization: Basic YTpi"]);
    let sent: Vec<_> =
        logged.origin.seen().iter().map(|seen| seen.field("Traceparent").unwrap().to_owned()).collect();
    let records = logged.records(2);
    let shared = records[0]["fetch"]["trace"].as_str().unwrap();
    assert!(sent[0].starts_with(&format!("00-{shared}-")) && sent[0].len() == client.len(), "{sent:?}");
    assert_ne!(records[0]["trace"], *shared);
    assert_eq!((&*sent[1], records[1]["fetch"].get("trace")), (client, None));
    assert_eq!(records[1]["trace"], client[3..35]);
}
