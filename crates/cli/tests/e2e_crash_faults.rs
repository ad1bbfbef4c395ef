//! Disks that cannot be used, from the beginning or in the middle: the edge serves on, says why once, and shows it
//! in its metrics; and a purge still holds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::path::Path;
use std::process::Command;
use testkit::{Client, Edge, Origin, eventually, get, response};

/// Pages of 30 kB that may be stored and say their target.
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

/// Asks for pages until nothing is kept on the disk any more.
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

/// The edge serves from memory, purges, and has said once that the disk is off, and why: all of `words`.
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
fn a_directory_of_a_newer_version_is_left_as_it_is() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let arguments = ["--disk", text(directory.path())];
    let mut edge = Edge::start(&origin.url(), &arguments);
    is_hit(&edge, "/a");
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
    // The format's number stands behind the eight octets that every mark begins with.
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
fn a_directory_that_takes_no_files_is_named() {
    let origin = pages();
    // Not even root may write there.
    let edge = Edge::start(&origin.url(), &["--disk", "/proc/petasos"]);
    serves_without_disk(&edge, &["/proc/petasos", "cannot"]);
}

#[test]
fn a_directory_may_be_removed() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let disk = directory.path().join("disk");
    // Small, so that a new file is needed soon.
    let arguments = ["--disk", text(&disk), "--disk-size", "16MiB"];
    let edge = Edge::start(&origin.url(), &arguments);
    is_hit(&edge, "/a");
    // The edge may put a file there while others are removed.
    eventually("it is removed", || std::fs::remove_dir_all(&disk).is_ok());
    ask_until_off(&edge);
    serves_without_disk(&edge, &["cannot"]);
    drop(edge);
    let edge = Edge::start(&origin.url(), &arguments);
    assert!(edge.metric("petasos_disk_off", "") < 0.5 && !is_hit(&edge, "/a"));
    eventually("it is used again", || edge.metric("petasos_disk_written_total", "") > 0.0);
}

#[test]
fn a_disk_that_fails_in_the_middle_costs_the_disk_only() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let arguments = ["--disk", text(directory.path())];
    // The system refuses what is beyond the limit, to root too.
    let edge = Edge::scripted("trap '' XFSZ; exec \"$@\"", &origin.url(), &arguments);
    is_hit(&edge, "/a");
    eventually("it is used", || edge.metric("petasos_disk_written_total", "") > 0.0);
    edge.limit_file_bytes(200_000);
    ask_until_off(&edge);
    serves_without_disk(&edge, &["cannot", "large"]);
    drop(edge);
    let edge = Edge::start(&origin.url(), &arguments);
    assert!(is_hit(&edge, "/a") && !is_hit(&edge, "/kept"), "what was purged while the disk was off is back");
}

/// How to start the edge with a file system of 4 MiB in the directory, `script` being run in it before. Where nobody
/// may mount one, no file may be written at all, which the system says in other words.
fn small_file_system(directory: &Path, script: &str) -> String {
    let directory = text(directory);
    let may = |unshare: &str| {
        let mount = format!("mount -t tmpfs -o size=4m petasos '{directory}'");
        Command::new("sh").args(["-c", &format!("{unshare} sh -c \"{mount}\"")]).status().unwrap().success()
    };
    let Some(unshare) = ["unshare -m", "unshare -rm"].into_iter().find(|unshare| may(unshare)) else {
        return "trap '' XFSZ; ulimit -f 0; exec \"$@\"".to_owned();
    };
    let inside = format!("mount -t tmpfs -o size=4m petasos \"$0\"; cd \"$0\"; {script} cd /; exec \"$@\"");
    format!("exec {unshare} sh -ec '{inside}' '{directory}' \"$@\"")
}

#[test]
fn a_full_file_system_costs_the_disk_only() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let fill = "mkdir other; cat /dev/zero > other/file 2> /dev/null || true;";
    let script = small_file_system(directory.path(), fill);
    let edge = Edge::scripted(&script, &origin.url(), &["--disk", text(directory.path())]);
    serves_without_disk(&edge, &[text(directory.path()), "cannot write"]);
}

#[test]
fn a_file_system_that_becomes_full_costs_no_answer() {
    let (origin, directory) = (pages(), tempfile::tempdir().unwrap());
    let script = small_file_system(directory.path(), "");
    let edge = Edge::scripted(&script, &origin.url(), &["--disk", text(directory.path())]);
    // Three times what it can hold.
    for page in 0..400 {
        is_hit(&edge, &format!("/page-{page}/"));
    }
    eventually("all that waits is written or given up", || {
        edge.metric("petasos_disk_queue_bytes", "") == 0.0
    });
    for page in 0..400 {
        assert!(is_hit(&edge, &format!("/page-{page}/")), "memory has room for all");
    }
    assert!(edge.stderr().lines().count() <= 1, "{}", edge.stderr());
}
