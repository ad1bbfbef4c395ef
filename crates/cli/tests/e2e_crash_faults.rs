//! Disks that cannot be used, from the start or later. The edge goes on serving, reports the reason
//! once and shows it in its metrics. A purge still holds.
//!
//! A test named after an error number proves and prints that the edge has met this error. The tests
//! of ENOSPC need a mount namespace, as root or in a user namespace, and fail without.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]
#![allow(clippy::panic, reason = "a test that cannot go on panics")]

use clock::Clock;
use platform::SystemClock;
use std::path::Path;
use std::process::Command;
use testkit::{Client, Edge, Origin, StorageFault, eventually, get, response};

/// Pages of 30 kB that may be stored and that repeat their target.
fn pages() -> Origin {
    Origin::start(|seen| {
        let content = seen.target().repeat(30_000 / seen.target().len());
        response("200 OK", &["Cache-Control: max-age=600"], content.as_bytes())
    })
}

fn is_hit(edge: &Edge, target: &str) -> bool {
    let answer = get(edge.address, target, &[]);
    assert!(answer.status == 200 && answer.text().starts_with(target), "{}", answer.head);
    answer.field("Cache-Status").unwrap().contains("detail=hit-fresh")
}

/// Requests new pages until the edge has given up the disk.
fn ask_until_off(edge: &Edge) {
    let mut page = 0;
    eventually("the disk is off", || {
        (0..10).for_each(|_| {
            page += 1;
            is_hit(edge, &format!("/page-{page}/"));
        });
        edge.metric("petasos_disk_off", "") == 1.0
    });
}

/// Checks that the edge serves from memory and purges. It must have reported once that the disk is
/// off, with all of `words`.
fn serves_without_disk(edge: &Edge, words: &[&str]) {
    assert!((edge.metric("petasos_disk_off", "") - 1.0).abs() < 0.5, "the disk is not off");
    is_hit(edge, "/kept");
    assert!(is_hit(edge, "/kept"), "nothing is stored");
    let mut client = Client::connect(edge.address);
    client.send("PURGE /kept HTTP/1.1\r\nHost: example.test\r\n\r\n");
    assert_eq!(client.read().status, 200);
    assert!(!is_hit(edge, "/kept"), "a purge did not hold");
    assert!(is_hit(edge, "/kept"));
    eventually("standard error says so", || edge.stderr().ends_with('\n'));
    let said = edge.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn directory_of_a_newer_format_is_left_unchanged() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--disk", text(directory.path())];
    let mut edge = Edge::start(&origin.url(), &arguments);
    is_hit(&edge, "/a");
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
    // The format number follows the eight bytes with which every mark begins.
    let path = directory.path().join("mark");
    let mut mark = std::fs::read(&path).unwrap();
    mark[8] += 1;
    std::fs::write(&path, &mark).unwrap();
    let names = || {
        let files = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap());
        let mut names: Vec<_> =
            files.map(|file| (file.file_name(), file.metadata().unwrap().len())).collect();
        names.sort();
        names
    };
    let before = names();
    let edge = Edge::start(&origin.url(), &arguments);
    serves_without_disk(&edge, &[text(directory.path()), "newer", "format"]);
    assert_eq!((names(), std::fs::read(&path).unwrap()), (before, mark));
}

#[test]
fn unwritable_directory_is_named() {
    let origin = pages();
    // Not even root may write there.
    let edge = Edge::start(&origin.url(), &["--disk", "/proc/petasos"]);
    serves_without_disk(&edge, &["/proc/petasos", "cannot"]);
}

#[test]
fn removed_directory_costs_only_the_disk() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    // The disk is small, so that the edge soon needs a new file.
    let arguments = ["--disk", text(&disk), "--disk-size", "16MiB"];
    let edge = Edge::start(&origin.url(), &arguments);
    is_hit(&edge, "/a");
    // Removal may fail at first, because the edge may add a file meanwhile.
    eventually("it is removed", || std::fs::remove_dir_all(&disk).is_ok());
    ask_until_off(&edge);
    serves_without_disk(&edge, &["cannot"]);
    drop(edge);
    let edge = Edge::start(&origin.url(), &arguments);
    assert!(edge.metric("petasos_disk_off", "") < 0.5 && !is_hit(&edge, "/a"));
    eventually("it is used again", || edge.metric("petasos_disk_written_total", "") > 0.0);
}

#[test]
fn efbig_after_the_start_costs_only_the_disk() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--disk", text(directory.path())];
    // Starts the edge with SIGXFSZ ignored. Writes beyond the file size limit then fail with an
    // error, even for root.
    let edge = Edge::scripted("trap '' XFSZ; exec \"$@\"", &origin.url(), &arguments);
    is_hit(&edge, "/a");
    eventually("it is used", || edge.metric("petasos_disk_written_total", "") > 0.0);
    edge.limit_file_bytes(200_000);
    ask_until_off(&edge);
    serves_without_disk(&edge, &["cannot"]);
    StorageFault::Efbig.check_message(&edge.stderr());
    drop(edge);
    let edge = Edge::start(&origin.url(), &arguments);
    assert!(is_hit(&edge, "/a") && !is_hit(&edge, "/kept"), "what was purged while the disk was off is back");
}

/// A script that mounts a file system of 4 MiB in the directory, in a new mount namespace. It runs
/// `script` there and then starts the edge.
fn small_file_system(directory: &Path, script: &str) -> String {
    let directory = text(directory);
    let may = |unshare: &str| {
        let mount = format!("mount -t tmpfs -o size=4m petasos '{directory}'");
        Command::new("sh").args(["-c", &format!("{unshare} sh -c \"{mount}\"")]).status().unwrap().success()
    };
    let Some(unshare) = ["unshare -m", "unshare -rm"].into_iter().find(|unshare| may(unshare)) else {
        panic!(
            "ENOSPC cannot be produced here: a small tmpfs can be mounted neither as this user nor in a user \
             namespace. Run the test as root, or permit user namespaces"
        );
    };
    let inside = format!("mount -t tmpfs -o size=4m petasos \"$0\"; cd \"$0\"; {script} cd /; exec \"$@\"");
    format!("exec {unshare} sh -ec '{inside}' '{directory}' \"$@\"")
}

#[test]
fn enospc_at_the_start_costs_only_the_disk() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let fill = "mkdir other; cat /dev/zero > other/file 2> /dev/null || true;";
    let script = small_file_system(directory.path(), fill);
    let edge = Edge::scripted(&script, &origin.url(), &["--disk", text(directory.path())]);
    serves_without_disk(&edge, &[text(directory.path()), "cannot write"]);
    StorageFault::Enospc.check_message(&edge.stderr());
}

#[test]
fn enospc_while_serving_costs_no_response() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let script = small_file_system(directory.path(), "");
    let edge = Edge::scripted(&script, &origin.url(), &["--disk", text(directory.path())]);
    // Three times as much as the file system can hold.
    for page in 0..400 {
        is_hit(&edge, &format!("/page-{page}/"));
    }
    eventually("all that waits is written or given up", || {
        edge.metric("petasos_disk_queue_bytes", "") == 0.0
    });
    // Far below the size that it may have, the disk cache evicts only when a write meets ENOSPC.
    let count = |what: &str| edge.metric(&format!("petasos_disk_{what}_total"), "");
    let (evicted, full, errors) = (count("evicted"), count("full"), count("errors"));
    let found = format!("{evicted} responses were evicted, {full} times no space was freed, {errors} errors");
    assert!(evicted + full >= 1.0 && errors == 0.0, "ENOSPC was not met: {found}");
    StorageFault::Enospc.announce(&found);
    for page in 0..400 {
        assert!(is_hit(&edge, &format!("/page-{page}/")), "memory has room for all");
    }
    assert!(edge.stderr().lines().count() <= 1, "{}", edge.stderr());
}

#[test]
fn after_three_broken_invariants_the_disk_is_left_alone() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: s-maxage=600"], b"page"));
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::create_dir(place("state")).unwrap();
    let (disk, state) = (place("disk"), place("state"));
    let configuration = format!("disk = \"{}\"\nstate_directory = \"{}\"\n", disk.display(), state.display());
    let record = state.join(format!("broken{}", disk.display().to_string().replace('/', "-")));
    let now = SystemClock::new().now().as_secs();
    for (ends, is_off) in [(2, 0.0), (3, 1.0)] {
        std::fs::write(&record, format!("{now}\n").repeat(ends)).unwrap();
        let edge = Edge::configured(&origin.url(), &configuration, &[]);
        assert_eq!(edge.metric("petasos_disk_off", ""), is_off, "{}", edge.stderr());
        // Another thread reads the edge's standard error.
        eventually("the edge says why", || edge.stderr().contains("ended the process") == (is_off > 0.0));
        assert_eq!(get(edge.address, "/", &[]).text(), "page");
    }
}
