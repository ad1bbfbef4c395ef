//! An edge with a disk tier: what survives a restart, what must not, and how the edge works if the
//! disk fails.

use crate::support::{START, admin, connect, metric, plan, reason, start_at, tagged};
use clock::{ManualClock, Timestamp};
use config::{DiskPlan, EdgePlan};
use petasos_edge::RunningEdge;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::{Action, Gate, Origin, Response, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";

/// An origin whose pages contain their path, have a tag and an entity tag, and support conditions
/// and POST.
fn pages() -> Origin {
    Origin::start(|seen| {
        if seen.head.starts_with("POST") {
            return response("303 See Other", &["Location: /posted"], b"");
        }
        let tags = format!("Surrogate-Key: all page-{}", seen.target().trim_start_matches('/'));
        tagged(seen, "\"1\"", &[FRESH, &tags, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], seen.target())
    })
}

/// Starts an edge in front of `origin` with its disk tier in `directory`. Its clock begins
/// `seconds` after [`START`].
fn life(origin: &Origin, directory: &Path, seconds: u64, change: impl FnOnce(&mut EdgePlan)) -> RunningEdge {
    let mut plan = plan(&origin.url());
    let bytes_max = 256 << 20;
    plan.disk = Some(DiskPlan {
        directory: directory.to_owned(),
        bytes_max,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    });
    change(&mut plan);
    start_at(plan, Arc::new(ManualClock::at(START.plus(Duration::from_secs(seconds)))))
}

fn get(edge: &RunningEdge, target: &str) -> Response {
    connect(edge).get(target, &[])
}

fn send(edge: &RunningEdge, method: &str, target: &str, fields: &str) -> Response {
    let mut client = connect(edge);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n{fields}\r\n"));
    client.read()
}

/// Requests pages until each is stored and written to disk.
fn fill(edge: &RunningEdge, targets: &[&str]) {
    let written = metric(edge, "petasos_disk_written_total", "");
    for target in targets {
        get(edge, target);
        assert_eq!(reason(&get(edge, target)), "hit-fresh", "{target}");
    }
    let all = written + targets.len() as u64;
    eventually("all pages are on the disk", || metric(edge, "petasos_disk_written_total", "") >= all);
}

fn reasons(edge: &RunningEdge, targets: &[&str]) -> Vec<String> {
    targets.iter().map(|target| reason(&get(edge, target)).to_owned()).collect()
}

#[test]
fn cache_is_warm_after_a_restart_and_ages_advance() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let edge = life(&origin, directory.path(), 0, |_| {});
    fill(&edge, &["/a", "/b"]);
    drop(edge);
    let fetched = origin.seen().len();
    let edge = life(&origin, directory.path(), 100, |_| {});
    let answer = get(&edge, "/a");
    assert_eq!((reason(&answer), answer.text(), answer.field("Age")), ("hit-fresh", "/a", Some("100")));
    assert_eq!(answer.field("ETag"), Some("\"1\""));
    assert_eq!(reasons(&edge, &["/a", "/b"]), ["hit-fresh", "hit-fresh"]);
    assert_eq!(origin.seen().len(), fetched, "nothing was fetched");
    drop(edge);
    // After its lifetime it is revalidated.
    let edge = life(&origin, directory.path(), 700, |_| {});
    assert_eq!(reasons(&edge, &["/a", "/a"]), ["hit-revalidated", "hit-fresh"]);
}

#[test]
fn purged_pages_stay_purged_after_a_restart() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let edge = life(&origin, directory.path(), 0, |_| {});
    fill(&edge, &["/url", "/tag", "/soft", "/write", "/prefix/1", "/ban", "/kept"]);
    for (target, fields) in
        [("/url", ""), ("/", "Surrogate-Key: page-tag\r\n"), ("/", "xkey-softpurge: page-soft\r\n")]
    {
        assert_eq!(send(&edge, "PURGE", target, fields).status, 200, "{target} {fields}");
    }
    assert_eq!(send(&edge, "BAN", "/", "X-Url: ^/ban$\r\n").status, 200);
    assert_eq!(send(&edge, "POST", "/write", "Content-Length: 0\r\n").status, 303);
    let json = r#"{"type":"uri-prefix","selectors":["http://example.test/prefix/"]}"#;
    let call = format!(
        "POST /purge HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
        json.len()
    );
    let answer = admin(&edge, &call);
    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(edge);
    let edge = life(&origin, directory.path(), 1, |_| {});
    assert_eq!(reasons(&edge, &["/kept", "/soft"]), ["hit-fresh", "hit-revalidated"]);
    for target in ["/url", "/tag", "/write", "/prefix/1", "/ban"] {
        assert_eq!(reason(&get(&edge, target)), "miss-absent", "{target}");
    }
}

#[test]
fn changed_rules_start_with_an_empty_cache() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let edge = life(&origin, directory.path(), 0, |_| {});
    fill(&edge, &["/a"]);
    drop(edge);
    let other = |plan: &mut EdgePlan| {
        for site in &mut plan.sites {
            site.policy.default_ttl = Some(Duration::from_secs(9));
        }
    };
    let edge = life(&origin, directory.path(), 0, other);
    assert_eq!(reasons(&edge, &["/a"]), ["miss-absent"]);
}

#[test]
fn evicted_pages_are_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::start(|seen| {
        let content = seen.target().repeat(100_000 / seen.target().len());
        response("200 OK", &[FRESH], content.as_bytes())
    });
    let edge = life(&origin, directory.path(), 0, |plan| plan.memory_bytes = 2 << 20);
    let targets: Vec<String> = (10..60).map(|page| format!("/page-{page}")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    fill(&edge, &targets);
    for target in &targets {
        let answer = get(&edge, target);
        assert_eq!((reason(&answer), answer.status), ("hit-fresh", 200), "{target}");
        assert!(answer.text().starts_with(target) && answer.text().len() > 99_000, "{target}");
    }
    assert_eq!(origin.seen().len(), targets.len(), "each was fetched once");
    assert!(metric(&edge, "petasos_disk_reads_total", "") >= 25);
}

#[test]
fn unusable_disk_directory_disables_only_the_disk_tier() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let file = directory.path().join("file");
    std::fs::write(&file, b"not a directory").unwrap();
    for (state, status) in [(None, 503), (Some(directory.path().join("state")), 200)] {
        let with_state = |plan: &mut EdgePlan| plan.disk.as_mut().unwrap().state_directory = state;
        let edge = life(&origin, &file, 0, with_state);
        get(&edge, "/a");
        assert_eq!(reasons(&edge, &["/a"]), ["hit-fresh"]);
        assert_eq!(metric(&edge, "petasos_disk_off", ""), 1);
        assert_eq!(send(&edge, "PURGE", "/a", "").status, status, "pages may be in the directory later");
        assert_eq!(reasons(&edge, &["/a"]), ["miss-absent"]);
    }
}

#[test]
fn disk_directory_is_used_by_one_process_at_a_time() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let first = life(&origin, directory.path(), 0, |_| {});
    let second = life(&origin, directory.path(), 0, |_| {});
    assert_eq!((metric(&first, "petasos_disk_off", ""), metric(&second, "petasos_disk_off", "")), (0, 1));
    get(&second, "/a");
    assert_eq!(reasons(&second, &["/a"]), ["hit-fresh"]);
}

#[test]
fn page_is_revalidated_if_the_clock_was_set_back() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let edge = life(&origin, directory.path(), 500, |_| {});
    fill(&edge, &["/a"]);
    drop(edge);
    // The downtime is unknown, so the page is revalidated.
    let edge = life(&origin, directory.path(), 0, |_| {});
    assert_eq!(reasons(&edge, &["/a"]), ["hit-revalidated"]);
    assert!(Timestamp::from_secs(0) < START);
}

/// An origin with one large file, in which each byte depends on its position; sent in chunks if
/// `chunked`.
fn large(bytes: usize, chunked: bool) -> Origin {
    let content: Vec<u8> = (0..bytes).map(|place| (place / 251 % 256) as u8 ^ (place % 253) as u8).collect();
    Origin::start(move |_| {
        if !chunked {
            return response("200 OK", &[FRESH, "ETag: \"1\""], &content);
        }
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunks = content.chunks(70_000).flat_map(|chunk| {
            let size = format!("{:x}\r\n", chunk.len());
            [size.as_bytes(), chunk, b"\r\n"].concat()
        });
        vec![Action::Send(head.into_bytes().into_iter().chain(chunks).chain(*b"0\r\n\r\n").collect())]
    })
}

#[test]
fn body_too_large_for_memory_is_stored_and_sent_from_disk() {
    for chunked in [false, true] {
        let (origin, directory) = (large(3_000_000, chunked), tempfile::tempdir().unwrap());
        let small = |plan: &mut EdgePlan| plan.limits.object_bytes_max = 100_000;
        let edge = life(&origin, directory.path(), 0, small);
        let first = get(&edge, "/film");
        eventually("the film is on the disk", || metric(&edge, "petasos_store_shelved", "") == 1);
        // The first response from disk verifies the body; later ones are sent from the file unread.
        for _ in 0..3 {
            let answer = get(&edge, "/film");
            assert_eq!((reason(&answer), answer.field("Content-Length")), ("hit-fresh", Some("3000000")));
            assert!(answer.body == first.body && answer.body.len() == 3_000_000);
            let part = connect(&edge).get("/film", &["Range: bytes=1000000-1999999"]);
            assert_eq!(
                (part.status, part.field("Content-Range")),
                (206, Some("bytes 1000000-1999999/3000000"))
            );
            assert!(part.body == first.body[1_000_000..2_000_000]);
            let parts = connect(&edge).get("/film", &["Range: bytes=0-9,2999990-"]);
            assert_eq!(parts.status, 206);
            assert!(parts.body.windows(10).any(|octets| octets == &first.body[2_999_990..]));
        }
        assert_eq!(origin.seen().len(), 1);
        drop(edge);
        let edge = life(&origin, directory.path(), 1, small);
        let answer = get(&edge, "/film");
        assert_eq!(reason(&answer), "hit-fresh");
        assert!(answer.body == first.body);
        assert_eq!(send(&edge, "PURGE", "/film", "").status, 200);
        assert_eq!(reason(&get(&edge, "/film")), "miss-absent");
    }
}

#[test]
fn revalidated_body_on_disk_is_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let origin =
        Origin::start(|seen| tagged(seen, "\"1\"", &["Cache-Control: max-age=10"], &"x".repeat(2_000_000)));
    let small = |plan: &mut EdgePlan| plan.limits.object_bytes_max = 100_000;
    let edge = life(&origin, directory.path(), 0, small);
    get(&edge, "/film");
    eventually("the film is on the disk", || metric(&edge, "petasos_store_shelved", "") == 1);
    drop(edge);
    let edge = life(&origin, directory.path(), 20, small);
    let answer = get(&edge, "/film");
    assert_eq!((reason(&answer), answer.body.len()), ("hit-revalidated", 2_000_000));
    let answer = get(&edge, "/film");
    assert_eq!((reason(&answer), answer.body.len()), ("hit-fresh", 2_000_000));
    assert_eq!(metric(&edge, "petasos_disk_written_total", ""), 0, "its body is not written again");
    assert_eq!(metric(&edge, "petasos_disk_objects", ""), 1);
}

#[test]
fn body_on_disk_keeps_its_last_revalidation_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::start(|seen| {
        let asked = usize::from(seen.field("If-None-Match").is_some());
        let tag = format!("Surrogate-Key: seen-{asked}");
        let fresh = format!("Cache-Control: max-age={}", [10, 1_000][asked]);
        let changed = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
        tagged(seen, "\"1\"", &[&fresh, &tag, changed], &"x".repeat(2_000_000))
    });
    let small = |plan: &mut EdgePlan| plan.limits.object_bytes_max = 100_000;
    let edge = life(&origin, directory.path(), 0, small);
    get(&edge, "/film");
    eventually("the film is on the disk", || metric(&edge, "petasos_store_shelved", "") == 1);
    send(&edge, "PURGE", "/film", "Fastly-Soft-Purge: 1\r\n");
    assert_eq!(reason(&get(&edge, "/film")), "hit-revalidated");
    drop(edge);
    let edge = life(&origin, directory.path(), 900, small);
    let answer = get(&edge, "/film");
    assert_eq!((reason(&answer), answer.body.len()), ("hit-fresh", 2_000_000));
    assert_eq!(send(&edge, "PURGE", "/", "Surrogate-Key: seen-0\r\n").status, 200);
    assert_eq!(reason(&get(&edge, "/film")), "hit-fresh");
    assert_eq!(send(&edge, "PURGE", "/", "Surrogate-Key: seen-1\r\n").status, 200);
    assert_eq!(reason(&get(&edge, "/film")), "miss-absent");
}

#[test]
fn large_body_of_unknown_length_is_stored_on_disk() {
    let (directory, gates) = (tempfile::tempdir().unwrap(), [Gate::default(), Gate::default()]);
    let opened = gates.clone();
    let origin = Origin::start(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = |octets: usize| format!("{octets:x}\r\n{}\r\n", "x".repeat(octets)).into_bytes();
        let [first, second] = opened.clone().map(Action::Await);
        let end = Action::Send([&chunk(30_000), &b"0\r\n\r\n"[..]].concat());
        let begin = Action::Send([head.into_bytes(), chunk(95_000)].concat());
        vec![begin, first, Action::Send(chunk(10_000)), second, end]
    });
    let edge = life(&origin, directory.path(), 0, |plan| plan.limits.object_bytes_max = 100_000);
    let mut client = connect(&edge);
    client.send("GET /film HTTP/1.0\r\nHost: example.test\r\n\r\n");
    client.read_head();
    // Each piece is passed on before the next one arrives. The second one slightly exceeds the
    // memory limit.
    for (octets, gate) in [95_000, 10_000].into_iter().zip(&gates) {
        client.read_octets(octets);
        gate.open();
    }
    assert!(client.read_to_end());
    eventually("the film is on the disk", || metric(&edge, "petasos_store_shelved", "") == 1);
    let answer = get(&edge, "/film");
    assert_eq!((reason(&answer), answer.body.len()), ("hit-fresh", 135_000));
}

const RULE: &str = "No-Vary-Search: params=(\"utm\")";

#[test]
fn equivalent_targets_work_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::start(|seen| response("200 OK", &[FRESH, RULE], seen.target().as_bytes()));
    let edge = life(&origin, directory.path(), 0, |_| {});
    fill(&edge, &["/hit?utm=1", "/%7Epurged?utm=1", "/written?utm=1", "/kept?id=1&utm=1"]);
    drop(edge);
    let edge = life(&origin, directory.path(), 1, |_| {});
    assert_eq!(reasons(&edge, &["/hit?utm=2"]), ["hit-fresh"]);
    assert_eq!(send(&edge, "PURGE", "/~purged?utm=2", "").status, 200);
    assert_eq!(send(&edge, "POST", "/written?utm=2", "Content-Length: 0\r\n").status, 200);
    assert_eq!(send(&edge, "PURGE", "/kept?id=2", "").status, 200);
    let missed = reasons(&edge, &["/%7Epurged?utm=1", "/written?utm=1", "/kept?id=1&utm=1"]);
    assert_eq!(missed, ["miss-absent", "miss-absent", "hit-fresh"]);
}

#[test]
fn equivalent_targets_of_a_body_on_disk_hit_and_are_purged() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| response("200 OK", &[FRESH, RULE], &[b'f'; 300_000]));
    let small = |plan: &mut EdgePlan| plan.limits.object_bytes_max = 100_000;
    let edge = life(&origin, directory.path(), 0, small);
    get(&edge, "/film?utm=1");
    eventually("the film is on the disk", || metric(&edge, "petasos_store_shelved", "") == 1);
    assert_eq!(reasons(&edge, &["/film?utm=2"]), ["hit-fresh"]);
    assert_eq!(send(&edge, "PURGE", "/film?utm=3", "").status, 200);
    assert_eq!(reasons(&edge, &["/film?utm=1"]), ["miss-absent"]);
}
