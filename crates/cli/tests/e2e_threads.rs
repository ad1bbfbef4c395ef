//! The threads of the real binary outlive their objects: a removed disk directory, and a standard
//! error without a reader.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use testkit::{Edge, Origin, eventually, get, response};

/// Makes standard error a pipe without a reader.
const CLOSED_STDERR: &str = "mkfifo \"$PIPE\"; exec 3<>\"$PIPE\"; exec 2>\"$PIPE\"; exec 3<&-; exec \"$@\"";

/// The names of the edge's threads, which Linux cuts after 15 bytes. Threads that end when they are
/// idle or done are left out.
fn threads(edge: &Edge) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", edge.pid())).unwrap();
    // A thread may end before its name is read.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let names = names.map(|name| name.trim_end().to_owned());
    let lives_on = |name: &String| !["petasos-io", "petasos-recover"].contains(&name.as_str());
    let mut names: Vec<_> = names.filter(lives_on).collect();
    names.sort();
    names
}

/// Pages of 30 kB that may be stored.
fn pages() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Control: max-age=600"], &[b'x'; 30_000]))
}

/// Sends ten requests for new pages, and counts them.
fn ask(edge: &Edge, count: &mut u64) {
    for _ in 0..10 {
        *count += 1;
        let page = get(edge.address, &format!("/page-{count}"), &[]);
        assert_eq!((page.status, page.body.len()), (200, 30_000));
    }
}

#[test]
fn threads_outlive_a_removed_disk_and_a_closed_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let disk = path("disk");
    let log = path("access.log");
    let script = format!("PIPE={}; {CLOSED_STDERR}", path("pipe").display());
    let origin = pages();
    let arguments =
        ["--workers", "2", "--disk", &text(&disk), "--disk-size", "16MiB", "--access-log", &text(&log)];
    let mut edge = Edge::scripted(&script, &origin.url(), &arguments);
    let mut count = 0;
    ask(&edge, &mut count);
    eventually("a page is on the disk", || edge.metric("petasos_disk_written_total", "") >= 1.0);
    // The first message starts the thread that writes them. The log, the signal and the reload have
    // one each.
    edge.signal("HUP");
    let lost = |edge: &Edge| edge.metric("petasos_messages_lost_total", "") as u64;
    eventually("three messages are lost", || lost(&edge) == 3);
    let before = threads(&edge);
    for name in ["disk", "log", "memory", "message", "sweeper", "verify", "worker-"] {
        assert!(before.contains(&format!("petasos-{name}")), "{name}: {before:?}");
    }

    // The disk's writer may create a file meanwhile.
    eventually("the directory is gone", || fs::remove_dir_all(&disk).is_ok() || !disk.exists());
    eventually("the disk is off", || {
        ask(&edge, &mut count);
        edge.metric("petasos_disk_off", "") >= 1.0
    });
    eventually("the sweeper's message is lost", || lost(&edge) == 4);
    ask(&edge, &mut count);

    eventually("every request is counted", || edge.metric("petasos_requests_total", "") as u64 == count);
    let lines = || fs::read_to_string(&log).unwrap().lines().count() as u64;
    eventually("every request is logged", || lines() == count);
    assert_eq!(threads(&edge), before, "every thread lives, and there is no second one");
    assert_eq!(edge.metric("petasos_threads_lost_total", "") as u64, 0);
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
}
