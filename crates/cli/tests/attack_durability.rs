//! A page whose purge was answered with 200 never comes back, whatever happens to the directory
//! `disk` before the restart.
//!
//! These attacks need no privileges: they move or replace the directory, or set a file size limit
//! that makes writes fail with EFBIG. `real_attack_disks` has the errors that need privileges, such
//! as those of a full device.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use testkit::{Client, Edge, Origin, Response, StorageFault, eventually, get, response};

/// Number of pages that each attack purges.
const PAGES: usize = 8;

/// Starts a program with SIGXFSZ ignored. Writes beyond the file size limit then fail with EFBIG,
/// even for root.
const SURVIVE_LIMIT: &str = "trap '' XFSZ; exec \"$@\"";

/// An origin, and a temporary directory for `disk` that outlives the edges.
struct DurableSite {
    origin: Origin,
    directory: TempDir,
}

impl DurableSite {
    fn new() -> Self {
        let origin = Origin::start(|seen| {
            let fields = ["Cache-Control: max-age=600", "ETag: \"1\""];
            response("200 OK", &fields, seen.target().repeat(100).as_bytes())
        });
        Self { origin, directory: tempfile::tempdir().unwrap() }
    }

    fn disk(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn away(&self) -> PathBuf {
        self.directory.path().join("away")
    }

    fn start(&self, more: &[&str]) -> Edge {
        let disk = self.disk();
        let arguments = [&["--disk", disk.to_str().unwrap()], more].concat();
        Edge::scripted(SURVIVE_LIMIT, &self.origin.url(), &arguments)
    }

    /// Starts an edge and waits until all its pages are on the disk.
    fn start_warm(&self, more: &[&str]) -> Edge {
        let edge = self.start(more);
        (0..PAGES).for_each(|page| drop(get(edge.address, &target(page), &[])));
        eventually("the pages are on the disk", || {
            edge.metric("petasos_disk_written_total", "") >= PAGES as f64
        });
        edge
    }

    /// Lets every later write of the edge fail with EFBIG. Another process with the same limit
    /// proves the error, because the edge is killed before it reports its own.
    fn forbid_writes(&self, edge: &Edge) {
        edge.limit_file_bytes(0);
        let probe = self.directory.path().join("probe");
        let write =
            format!("trap '' XFSZ; ulimit -f 0; exec dd if=/dev/zero of='{}' count=1", probe.display());
        let probed = Command::new("sh").args(["-c", &write]).env("LC_ALL", "C").output().unwrap();
        let said = String::from_utf8_lossy(&probed.stderr);
        let error = said.lines().find(|line| line.starts_with("dd: ")).unwrap_or(&said);
        StorageFault::Efbig.check_message(error);
    }

    /// Kills the edge, repairs the directory and starts another edge. Returns the number of purged
    /// pages that it serves as hits.
    fn returned(&self, mut edge: Edge, repair: impl FnOnce(), more: &[&str]) -> usize {
        edge.kill();
        repair();
        let edge = self.start(more);
        (0..PAGES).filter(|page| is_hit(&edge, *page)).count()
    }
}

fn target(page: usize) -> String {
    format!("/page-{page}/")
}

fn is_hit(edge: &Edge, page: usize) -> bool {
    let answer = get(edge.address, &target(page), &[]);
    assert_eq!(answer.status, 200, "{}", answer.head);
    answer.field("Cache-Status").unwrap().contains("detail=hit-fresh")
}

fn purge(edge: &Edge, page: usize) -> Response {
    let mut client = Client::connect(edge.address);
    client.send(format!("PURGE {} HTTP/1.1\r\nHost: example.test\r\n\r\n", target(page)));
    client.read()
}

/// Purges all pages, which must succeed although no write does.
fn purge_all_without_writes(edge: &Edge) {
    assert_eq!(purge_all(edge), PAGES);
    let [errors, full] = ["errors", "full"].map(|of| edge.metric(&format!("petasos_disk_{of}_total"), ""));
    assert!(errors >= 1.0 && full == 0.0, "EFBIG was not met: {errors} errors, {full} times full");
}

/// Purges all pages and returns the number of purges that were answered with 200.
fn purge_all(edge: &Edge) -> usize {
    (0..PAGES).filter(|page| purge(edge, *page).status == 200).count()
}

fn report(name: &str, returned: usize) {
    println!("attack: {name}: {returned} of {PAGES} purged pages returned, at most 0");
    assert_eq!(returned, 0, "{name}: purged pages returned");
}

fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

#[test]
fn purge_holds_when_directory_is_lost_and_writes_meet_efbig() {
    let site = DurableSite::new();
    let edge = site.start_warm(&[]);
    rename(&site.disk(), &site.away());
    site.forbid_writes(&edge);
    purge_all_without_writes(&edge);
    report("directory lost and EFBIG", site.returned(edge, || rename(&site.away(), &site.disk()), &[]));
}

#[test]
fn purge_holds_when_directory_is_replaced_and_writes_meet_efbig() {
    let site = DurableSite::new();
    let edge = site.start_warm(&[]);
    rename(&site.disk(), &site.away());
    fs::create_dir(site.disk()).unwrap();
    site.forbid_writes(&edge);
    purge_all_without_writes(&edge);
    let repair = || {
        fs::remove_dir_all(site.disk()).unwrap();
        rename(&site.away(), &site.disk());
    };
    report("directory replaced and EFBIG", site.returned(edge, repair, &[]));
}

#[test]
fn purge_holds_when_writes_meet_efbig() {
    let site = DurableSite::new();
    let edge = site.start_warm(&["--purge-durability", "power"]);
    site.forbid_writes(&edge);
    purge_all_without_writes(&edge);
    report("EFBIG", site.returned(edge, || (), &["--purge-durability", "power"]));
}

#[test]
fn purge_holds_when_directory_cannot_be_opened() {
    let site = DurableSite::new();
    let mut edge = site.start_warm(&[]);
    edge.kill();
    rename(&site.disk(), &site.away());
    fs::write(site.disk(), "not a directory").unwrap();
    let edge = site.start(&[]);
    assert_eq!(purge_all(&edge), PAGES);
    let repair = || {
        fs::remove_file(site.disk()).unwrap();
        rename(&site.away(), &site.disk());
    };
    report("directory not opened", site.returned(edge, repair, &[]));
}

#[test]
fn purge_holds_when_disk_was_not_mounted_meanwhile() {
    for signal in ["KILL", "TERM"] {
        let site = DurableSite::new();
        let mut edge = site.start_warm(&[]);
        edge.signal(signal);
        edge.wait();
        rename(&site.disk(), &site.away());
        // The edge finds no directory and creates one, as it would on the mount point of a missing
        // device.
        let edge = site.start(&[]);
        assert_eq!(purge_all(&edge), PAGES);
        let repair = || {
            fs::remove_dir_all(site.disk()).unwrap();
            rename(&site.away(), &site.disk());
        };
        report(&format!("disk not mounted, after {signal}"), site.returned(edge, repair, &[]));
    }
}

#[test]
fn purge_is_partial_until_it_can_be_recorded() {
    for (code, setting) in [(503, ""), (202, "purge_partial_status = 202\n")] {
        let site = DurableSite::new();
        let mut edge = site.start_warm(&[]);
        edge.signal("TERM");
        edge.wait();
        rename(&site.disk(), &site.away());
        fs::write(site.disk(), "not a directory").unwrap();
        let state = site.directory.path().join("state");
        fs::write(&state, "not a directory").unwrap();
        let configuration =
            format!("disk = '{}'\nstate_directory = '{}'\n{setting}", site.disk().display(), state.display());
        let edge = Edge::configured(&site.origin.url(), &configuration, &[]);
        let orders = [
            ("PURGE /page-0/", ""),
            ("BAN /page-0/", ""),
            ("PURGE /", "Surrogate-Key: a\r\n"),
            ("GET /page-0/", "X-Refresh: 1\r\n"),
        ];
        for (order, fields) in orders {
            let mut client = Client::connect(edge.address);
            client.send(format!("{order} HTTP/1.1\r\nHost: example.test\r\n{fields}\r\n"));
            assert_undurable(&client.read(), code, order);
        }
        for (path, content) in [("/purge", r#"{"type": "all"}"#), ("/service/any/purge_all", "")] {
            let mut client = Client::connect(edge.admin);
            let length = content.len();
            let host = edge.admin;
            client.send(format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{content}"
            ));
            let answer = client.read();
            if answer.status != 404 {
                assert_undurable(&answer, code, path);
            }
        }
        assert!(edge.metric("petasos_purges_undurable_total", "") >= 5.0);
        assert!(edge.metric("petasos_purges_at_risk", "") >= 1.0);
        fs::remove_file(&state).unwrap();
        eventually("the distrust is recorded", || edge.metric("petasos_purges_at_risk", "") < 1.0);
        assert_eq!(purge(&edge, 0).status, 200);
        drop(edge);
        fs::remove_file(site.disk()).unwrap();
        rename(&site.away(), &site.disk());
        let edge = Edge::configured(&site.origin.url(), &configuration, &[]);
        report("purge was partial first", (0..PAGES).filter(|page| is_hit(&edge, *page)).count());
    }
}

fn assert_undurable(answer: &Response, code: u16, order: &str) {
    let text = answer.text();
    assert_eq!(answer.status, code, "{order}: {text}");
    assert!(text.contains(r#""durable":false"#) && text.contains(r#""in_force":true"#), "{order}: {text}");
}
