//! `petasos serve --upgrade`: a new process takes the listeners and the disk directory over from a
//! running one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use net::MessageChannel;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{
    Action, Client, Edge, Gate, Http2Client, Http2Frames, Origin, eventually, get, petasos, response,
};

/// Pages that may be stored.
fn pages() -> Origin {
    Origin::start(|seen| response("200 OK", &["Cache-Control: s-maxage=600"], seen.target().as_bytes()))
}

/// Pages as [`pages`], whose content is different each time.
fn versions() -> Origin {
    let served = AtomicUsize::new(0);
    Origin::start(move |_| {
        let version = served.fetch_add(1, Ordering::SeqCst).to_string();
        response("200 OK", &["Cache-Control: s-maxage=600"], version.as_bytes())
    })
}

/// The cache status of a page.
fn status(answer: &testkit::Response) -> &str {
    answer.field("Cache-Status").unwrap_or_default()
}

/// Purges a page at the admin address.
fn purge(edge: &Edge, target: &str) {
    let output = petasos(["purge", "--admin", &edge.admin.to_string(), &format!("http://127.0.0.1{target}")]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

/// A directory for the disk tier, and the arguments that name it.
fn disk() -> (tempfile::TempDir, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("disk").display().to_string();
    (directory, vec!["--disk".to_owned(), place])
}

fn arguments(disk: &[String]) -> Vec<&str> {
    disk.iter().map(String::as_str).collect()
}

#[test]
fn process_that_has_handed_over_starts_no_other_one() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        [vec![Action::Await(held.clone())], response("200 OK", &["Cache-Control: private"], b"page")].concat()
    });
    let mut old = Edge::start(&origin.url(), &[]);
    // The old process lives as long as this request.
    let mut client = Client::connect(old.address);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("the request is under way", || !origin.seen().is_empty());
    let new = old.upgraded(&origin.url(), &[]);
    old.signal("USR2");
    eventually("the signal is handled", || old.stderr().contains("another process has taken over already"));
    assert!(!old.stderr().contains("was started to take over"), "{}", old.stderr());
    gate.open();
    assert_eq!(client.read().status, 200);
    assert_eq!(get(new.address, "/", &[]).status, 200);
    assert_eq!(old.wait(), Some(0));
}

#[test]
fn new_process_has_the_sockets_and_the_disk_directory() {
    let (origin, (_directory, disk)) = (pages(), disk());
    let mut old = Edge::start(&origin.url(), &arguments(&disk));
    get(old.address, "/kept", &[]);
    for workers in ["3", "1"] {
        let new = old.upgraded(&origin.url(), &[&arguments(&disk)[..], &["--workers", workers]].concat());
        assert_eq!((new.address, new.admin), (old.address, old.admin));
        assert_eq!(old.wait(), Some(0), "{}", old.stderr());
        let answer = get(new.address, "/kept", &[]);
        assert!(status(&answer).contains("hit-fresh"), "{}", answer.head);
        old = new;
    }
    assert_eq!(origin.count("/kept"), 1);
}

#[test]
fn old_process_answers_nothing_more_from_its_store() {
    let origin = pages();
    let mut old = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(old.address);
    client.get("/a", &[]);
    assert!(status(&client.get("/a", &[])).contains("hit-fresh"));
    let new = old.upgraded(&origin.url(), &[]);
    let answer = client.get("/a", &[]);
    assert!(status(&answer).contains("pass-handed-over"), "{}", answer.head);
    assert_eq!(answer.field("Connection"), Some("close"));
    assert!(client.is_closed());
    let only = get(new.address, "/a", &[]);
    assert!(status(&only).contains("miss"), "{}", only.head);
    assert_eq!(old.wait(), Some(0));
}

#[test]
fn purge_over_an_old_connection_reaches_the_new_process() {
    let (origin, (_directory, disk)) = (versions(), disk());
    // Without detection, which could purge the page as well.
    let plain = ["--profile", "default"];
    let disk = [&arguments(&disk)[..], &plain].concat();
    for (before, after) in [(&disk[..], &disk[..]), (&plain, &plain), (&plain, &["--profile", "rfc"])] {
        let old = Edge::start(&origin.url(), before);
        let mut client = Client::connect(old.address);
        client.get("/a", &[]);
        let new = old.upgraded(&origin.url(), after);
        let purged = get(new.address, "/a", &[]).body;
        assert_eq!(get(new.address, "/a", &[]).body, purged);
        let host = "Host: example.test";
        client.send(format!("PURGE /a HTTP/1.1\r\n{host}\r\n\r\n"));
        assert_eq!(client.read().status, 200);
        assert_ne!(get(new.address, "/a", &[]).body, purged);
    }
}

#[test]
fn purge_over_an_old_connection_passes_a_process_between() {
    let origin = versions();
    let plain = ["--profile", "default"];
    let mut old = Edge::start(&origin.url(), &plain);
    let mut client = Client::connect(old.address);
    client.get("/a", &[]);
    let mut between = old.upgraded(&origin.url(), &plain);
    let new = between.upgraded(&origin.url(), &plain);
    let purged = get(new.address, "/a", &[]).body;
    assert_eq!(get(new.address, "/a", &[]).body, purged);
    // Longer than a process without a connection needs to end.
    std::thread::sleep(Duration::from_secs(3));
    client.send("PURGE /a HTTP/1.1\r\nHost: example.test\r\n\r\n");
    assert_eq!(client.read().status, 200);
    assert_ne!(get(new.address, "/a", &[]).body, purged);
    assert_eq!((old.wait(), between.wait()), (Some(0), Some(0)));
}

#[test]
fn purge_over_an_old_connection_reaches_a_replaced_site() {
    let (origin, directory) = (versions(), tempfile::tempdir().unwrap());
    let file = directory.path().join("petasos.toml");
    let rules = |profile| format!("profile = \"{profile}\"\n");
    std::fs::write(&file, rules("default")).unwrap();
    let path = file.to_str().unwrap();
    let old = Edge::start(&origin.url(), &[path]);
    let mut client = Client::connect(old.address);
    client.get("/a", &[]);
    let new = old.upgraded(&origin.url(), &[path]);
    std::fs::write(&file, rules("rfc")).unwrap();
    let mut admin = Client::connect(new.admin);
    admin.send("POST /reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(admin.read().status, 200);
    let purged = get(new.address, "/a", &[]).body;
    assert_eq!(get(new.address, "/a", &[]).body, purged);
    client.send("PURGE /a HTTP/1.1\r\nHost: example.test\r\n\r\n");
    assert_eq!(client.read().status, 200);
    assert_ne!(get(new.address, "/a", &[]).body, purged);
}

#[test]
fn connections_with_http2_are_told_to_go() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let file = directory.path().join("petasos.toml");
    std::fs::write(&file, "http2_cleartext = true\n").unwrap();
    let file = file.to_str().unwrap();
    let old = Edge::start(&origin.url(), &[file]);
    let mut client = Http2Client::connect(old.address);
    assert_eq!(client.get("/a", &[]).text(), "/a");
    let mut frames = Http2Frames::connect(old.address);
    let new = old.upgraded(&origin.url(), &[file]);
    assert!(frames.goodbye().is_some());
    assert_eq!(Http2Client::connect(new.address).get("/a", &[]).text(), "/a");
}

#[test]
fn upgrade_without_a_running_process_is_an_error() {
    let output = petasos(["serve", "--origin", "http://127.0.0.1:9", "--admin", "127.0.0.1:1", "--upgrade"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("no running petasos"), "{}", output.stderr);
}

#[test]
fn new_process_that_cannot_start_costs_nothing() {
    let (origin, (_directory, disk)) = (pages(), disk());
    let old = Edge::start(&origin.url(), &arguments(&disk));
    get(old.address, "/a", &[]);
    let admin = old.admin.to_string();
    let failing = ["serve", "--origin", &origin.url(), "--admin", &admin, "--upgrade"];
    let output = petasos([&failing[..], &["--tls", "/nowhere.pem", "--listen", "127.0.0.1:0"]].concat());
    assert_eq!(output.code, Some(2));
    let taken = Origin::start(|_| Vec::new());
    let output = petasos([&failing[..], &["--listen", &taken.address().to_string()]].concat());
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("in use"), "{}", output.stderr);
    assert!(status(&get(old.address, "/a", &[])).contains("hit-fresh"));
    assert_eq!(old.metric("petasos_disk_off", "") as u64, 0);
    purge(&old, "/a");
    let new = old.upgraded(&origin.url(), &arguments(&disk));
    assert!(status(&get(new.address, "/a", &[])).contains("miss"), "the purge was not lost");
    eventually("the old process says why", || old.stderr().contains("did not take over"));
}

#[test]
fn sigusr2_starts_a_process_that_takes_over() {
    let origin = pages();
    let first = Edge::start(&origin.url(), &[]);
    // Its addresses are stated, so another process can find it.
    let mut old = first.upgraded(&origin.url(), &[]);
    old.signal("USR2");
    assert_eq!(old.wait(), Some(0));
    let words = old.stderr();
    let process = words.split("SIGUSR2: process ").nth(1).and_then(|rest| rest.split(' ').next());
    assert_eq!(get(old.address, "/a", &[]).text(), "/a");
    let kill = std::process::Command::new("kill").arg(process.unwrap()).status();
    assert!(kill.unwrap().success());
}

/// The channels of a process that takes over.
struct Received {
    channel: MessageChannel,
    link: MessageChannel,
    durability: MessageChannel,
}

/// A process that takes over, up to the point where it has the disk directory of `old`.
fn received(old: &Edge) -> Received {
    let channel = MessageChannel::connect(&format!("petasos-upgrade {}", old.admin)).unwrap();
    channel.send(br#"{"Hello":{"version":2}}"#, None).unwrap();
    let mut durability = None;
    let link = loop {
        let (message, passed) = channel.receive().unwrap().unwrap();
        match &message[..] {
            br#""Link""# => break passed.unwrap().into_channel(),
            br#""Durability""# => durability = passed.map(net::Passed::into_channel),
            other => assert_eq!(other, br#""Socket""#),
        }
    };
    channel.send(br#""Release""#, None).unwrap();
    assert_eq!(channel.receive().unwrap().unwrap().0, br#""Released""#);
    Received { channel, link, durability: durability.unwrap() }
}

#[test]
fn new_process_that_ends_halfway_loses_no_purge() {
    let (origin, (_directory, disk)) = (pages(), disk());
    let mut old = Edge::start(&origin.url(), &arguments(&disk));
    for target in ["/a", "/b", "/c"] {
        get(old.address, target, &[]);
    }
    let Received { channel, link, durability } = received(&old);
    std::thread::scope(|scope| {
        let purging = scope.spawn(|| purge(&old, "/a"));
        // Long enough for a message in parts, so that none is read halfway.
        link.limit_time(Duration::from_millis(200)).unwrap();
        let mut is_passed_on = false;
        loop {
            match link.receive() {
                // An empty message asks for a confirmation. Other threads than the purge's may ask
                // as well.
                Ok(Some((message, _))) if message.is_empty() => {
                    assert!(is_passed_on || !purging.is_finished());
                    link.send(b"in force", None).unwrap();
                    assert!(durability.receive().unwrap().unwrap().0.is_empty());
                    durability.send(b"durable", None).unwrap();
                }
                Ok(message) => is_passed_on = message.is_some(),
                Err(_) if purging.is_finished() => break,
                Err(_) => {}
            }
        }
        assert!(is_passed_on);
        purging.join().unwrap();
    });
    drop((channel, link, durability));
    eventually("the old process says why", || old.stderr().contains("goes on without the disk cache"));
    assert!(status(&get(old.address, "/c", &[])).contains("hit-fresh"), "it serves from memory");
    purge(&old, "/b");
    old.kill();
    let next = Edge::start(&origin.url(), &arguments(&disk));
    for target in ["/a", "/b", "/c"] {
        let answer = get(next.address, target, &[]);
        assert!(status(&answer).contains("miss"), "{target}: {}", answer.head);
    }
}

#[test]
fn process_that_does_not_know_all_purges_may_not_take_over() {
    let origin = pages();
    let old = Edge::start(&origin.url(), &[]);
    get(old.address, "/a", &[]);
    let Received { channel, link, durability: _durability } = received(&old);
    drop(link);
    purge(&old, "/a");
    channel.send(br#""TakeOver""#, None).unwrap();
    let answer = String::from_utf8(channel.receive().unwrap().unwrap().0).unwrap();
    assert!(answer.contains("does not know all purges"), "{answer}");
    let again = old.upgraded(&origin.url(), &[]);
    assert_eq!(get(again.address, "/a", &[]).text(), "/a");
}

#[test]
fn purge_does_not_wait_for_the_disk_of_the_new_process() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let file = directory.path().join("petasos.toml");
    std::fs::write(&file, "profile = \"default\"\n[limits]\ndisk_timeout = \"50ms\"\n").unwrap();
    let old = Edge::start(&origin.url(), &[file.to_str().unwrap()]);
    // More than may wait for the disk at the same time.
    let mut clients: Vec<_> = (0..6).map(|_| Client::connect(old.address)).collect();
    clients.iter_mut().for_each(|client| drop(client.get("/a", &[])));
    // The questions through the channel for durability are not answered.
    let Received { channel, link, durability: _durability } = received(&old);
    channel.send(br#""TakeOver""#, None).unwrap();
    assert!(link.receive().unwrap().unwrap().0.is_empty());
    link.send(b"in force", None).unwrap();
    assert_eq!(channel.receive().unwrap().unwrap().0, br#""TakenOver""#);
    // Long enough for a message in parts, so that none is read halfway.
    link.limit_time(Duration::from_millis(200)).unwrap();
    for (number, mut client) in clients.into_iter().enumerate() {
        client.send(format!("PURGE /{number} HTTP/1.1\r\nHost: example.test\r\n\r\n"));
        let answer = std::thread::spawn(move || client.read().status);
        // Other threads than the purge's may ask as well.
        let is_asked = || match link.receive() {
            Ok(message) => Some(message.unwrap().0.is_empty()),
            Err(_) => None,
        };
        let is_passed_on = loop {
            match is_asked() {
                Some(true) => link.send(b"in force", None).unwrap(),
                Some(false) => break true,
                None if answer.is_finished() => break false,
                None => {}
            }
        };
        std::thread::sleep(Duration::from_millis(100));
        assert!(is_passed_on && !answer.is_finished(), "it is answered before it is in force");
        while !answer.is_finished() {
            if is_asked().is_some() {
                link.send(b"in force", None).unwrap();
            }
        }
        // Not with success, because a restart of the new process may undo it.
        assert_eq!(answer.join().unwrap(), 503);
    }
}
