//! Aborted downloads of bodies that go to the disk, against the real binary. The disk tier must
//! keep working.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use std::time::Duration;
use testkit::{Action, Client, Edge, Origin, eventually, get, response};

/// Downloads that visitors abort.
struct AbortedDownloads {
    /// Number of simultaneous downloads.
    downloads: usize,
    /// Number of times that the downloads are repeated.
    waves: usize,
    /// Size of each body, in bytes.
    body_bytes: usize,
    disk_size: &'static str,
}

/// As many downloads as the default of `limits.fetches_max`, on a small disk. The second wave meets
/// the remains of the first.
const MANY: AbortedDownloads =
    AbortedDownloads { downloads: 64, waves: 2, body_bytes: 4 << 20, disk_size: "100MiB" };
/// Few visitors, who return until their bodies exceed a larger disk.
const FEW: AbortedDownloads =
    AbortedDownloads { downloads: 10, waves: 20, body_bytes: 3_000_000, disk_size: "400MiB" };

impl AbortedDownloads {
    /// Bytes that may be written to the disk: twice the size of all bodies.
    const fn written_bytes_max(&self) -> u64 {
        2 * (self.waves * self.downloads * self.body_bytes) as u64
    }
}

/// Several idle periods of the disk writer. An endless loop would write far more than allowed in
/// this time.
const IDLE: Duration = Duration::from_millis(500);
/// Bytes that may be written without any requests: marks and journal entries.
const IDLE_BYTES_MAX: u64 = 1 << 20;

/// An origin that sends `/large/` bodies in two halves, with a pause between them in which visitors
/// leave.
fn origin(body_bytes: usize) -> Origin {
    Origin::start(move |seen| {
        if !seen.target().starts_with("/large/") {
            return response("200 OK", &["Cache-Control: max-age=600"], seen.target().as_bytes());
        }
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {body_bytes}\r\n\r\n");
        let half = vec![b'x'; body_bytes / 2];
        vec![
            Action::Send(head.into_bytes()),
            Action::Send(half.clone()),
            Action::Pause(Duration::from_millis(300)),
            Action::Send(half),
        ]
    })
}

/// Bytes that the process has caused to be written to storage, from `/proc/PID/io`.
fn written_bytes(edge: &Edge) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", edge.pid())).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}

/// Starts downloads and leaves once the first 16 responses have begun.
fn abort_downloads(edge: &Edge, downloads: usize, wave: usize) {
    let begin = |number| {
        let mut client = Client::connect(edge.address);
        client.send(format!("GET /large/{wave}/{number} HTTP/1.1\r\nHost: {}\r\n\r\n", edge.address));
        client
    };
    let mut visitors: Vec<Client> = (0..downloads).map(begin).collect();
    visitors.iter_mut().take(16).for_each(|client| drop(client.read_head()));
}

#[test]
fn aborted_downloads_leave_the_disk_tier_working() {
    check(&MANY);
    if std::env::var_os("PETASOS_ATTACK").is_some_and(|form| form == "long") {
        check(&FEW);
    }
}

fn check(attack: &AbortedDownloads) {
    let origin = origin(attack.body_bytes);
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("cache");
    let configuration = "[limits]\nobject_bytes_max = \"64KiB\"\n";
    let arguments = ["--disk", disk.to_str().unwrap(), "--disk-size", attack.disk_size, "--memory", "64MiB"];
    let mut edge = Edge::configured(&origin.url(), configuration, &arguments);
    let before = written_bytes(&edge);
    // Small pages on the disk, for an eviction to find and move.
    (0..20).for_each(|number| assert_eq!(get(edge.address, &format!("/page/{number}"), &[]).status, 200));
    (0..attack.waves).for_each(|wave| abort_downloads(&edge, attack.downloads, wave));
    let refused =
        (0..20).filter(|number| get(edge.address, &format!("/uncached/{number}"), &[]).status != 200).count();
    println!("attack: pages that are not stored after aborted downloads: {refused} of 20 refused, at most 0");
    assert_eq!(refused, 0, "fetches go on");
    eventually("every fill has ended", || edge.metric("petasos_disk_fill_bytes", "") <= 0.0);
    eventually("no fetch is open", || edge.metric("petasos_origin_fetches_active", "") <= 0.0);
    let written = written_bytes(&edge) - before;
    println!(
        "attack: written for aborted downloads: {written} bytes of at most {}",
        attack.written_bytes_max()
    );
    assert!(written <= attack.written_bytes_max());
    // An endless loop shows as writes. The writes of an idle edge do not depend on the speed of the
    // clock.
    let quiet = written_bytes(&edge);
    std::thread::sleep(IDLE);
    let idle = written_bytes(&edge) - quiet;
    println!("attack: written while idle: {idle} bytes of at most {IDLE_BYTES_MAX}");
    assert!(idle <= IDLE_BYTES_MAX);
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0), "{}", edge.stderr());
}
