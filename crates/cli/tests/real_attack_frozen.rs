//! A frozen file system under the disk tier (fsfreeze on ext4 on a loop device; needs root).
//! Visitors, purges and the shutdown of the edge do not wait for it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Client, Edge, FileSystem, Origin, eventually, get, response};

/// Number of pages that are requested while the disk is frozen.
const PAGES: usize = 40;

/// The peers that may purge, and the time limit of the disk.
const SETTINGS: &str = "purge_peers = [\"127.0.0.1\"]\n[limits]\ndisk_timeout = \"500ms\"\n";

/// An origin that numbers its responses.
fn origin() -> Origin {
    let made = AtomicUsize::new(0);
    Origin::start(move |seen| {
        let content = format!("{} {}", seen.target(), made.fetch_add(1, Ordering::SeqCst));
        response("200 OK", &["Cache-Control: max-age=600"], content.as_bytes())
    })
}

fn start(files: &FileSystem, origin: &Origin, configuration: &Path) -> Edge {
    let disk = files.place().join("cache");
    let disk = ["--disk", disk.to_str().unwrap(), "--disk-size", "32MiB"];
    Edge::scripted(&files.enter(), &origin.url(), &[&[configuration.to_str().unwrap()], &disk[..]].concat())
}

fn purge(edge: &Edge, target: &str) -> u16 {
    let mut client = Client::connect(edge.address);
    client.send(format!("PURGE {target} HTTP/1.1\r\nHost: {}\r\n\r\n", edge.address));
    client.read().status
}

/// Requests new pages until the disk is off. Returns the number of responses without status 200.
fn ask_until_off(edge: &Edge, name: &str) -> usize {
    let mut asked = 0;
    let mut refused = 0;
    eventually("the disk is off", || {
        asked += 1;
        refused += usize::from(get(edge.address, &format!("/{name}/{asked}"), &[]).status != 200);
        edge.metric("petasos_disk_off", "") > 0.5
    });
    refused
}

#[test]
fn frozen_disk_delays_no_visitor_purge_or_shutdown() {
    let files = FileSystem::on_loop_device();
    let origin = origin();
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("petasos.toml");
    let nowhere = "state_directory = \"none\"\nruntime_directory = \"none\"\n";
    std::fs::write(&configuration, format!("{nowhere}{SETTINGS}")).unwrap();
    let mut edge = start(&files, &origin, &configuration);
    let kept = get(edge.address, "/kept", &[]).text().to_owned();
    let purged = get(edge.address, "/purged", &[]).text().to_owned();
    eventually("both are on the disk", || edge.metric("petasos_disk_written", "") >= 2.0);

    let frozen = files.freeze();
    let mut refused = ask_until_off(&edge, "new");
    for page in 0..PAGES {
        refused += usize::from(get(edge.address, &format!("/later/{page}"), &[]).status != 200);
        refused += usize::from(get(edge.address, "/kept", &[]).text() != kept);
    }
    println!("attack: pages while the disk is frozen: {refused} of {} refused, at most 0", 2 * PAGES);
    assert_eq!(refused, 0);
    assert_eq!(
        purge(&edge, "/purged"),
        503,
        "in force, no other place is set, and a restart would not know it yet"
    );
    assert!(edge.metric("petasos_purges_at_risk", "") > 0.5, "the metric tells that a restart would undo it");
    assert_ne!(get(edge.address, "/purged", &[]).text(), purged, "it is in force");
    assert!(edge.metric("petasos_disk_hangs", "") >= 1.0 && edge.metric("petasos_disk_stuck", "") >= 1.0);
    let said = edge.stderr();
    assert!(said.contains("the disk does not answer") && said.contains("petasos-"), "{said}");

    drop(frozen);
    eventually("the disk is used again", || edge.metric("petasos_disk_off", "") < 0.5);
    assert_eq!(purge(&edge, "/another"), 200);
    assert!(edge.metric("petasos_purges_at_risk", "") < 0.5, "the purge is on the disk");
    edge.kill();
    let mut edge = start(&files, &origin, &configuration);
    assert_eq!(get(edge.address, "/kept", &[]).text(), kept, "the cache is warm");
    assert_ne!(get(edge.address, "/purged", &[]).text(), purged, "what was purged has come back");

    let frozen = files.freeze();
    ask_until_off(&edge, "last");
    edge.signal("TERM");
    eventually("the ports are free", || {
        [edge.address, edge.admin].iter().all(|at| TcpListener::bind(at).is_ok())
    });
    eventually("the log names the thread", || {
        edge.stderr().contains("the thread petasos-disk waits for the disk")
    });
    println!("attack: ports held by an edge whose disk is frozen: 0 of at most 0");
    drop(frozen);
    assert_eq!(edge.wait(), Some(0), "{}", edge.stderr());
}

#[test]
fn purges_during_a_freeze_are_durable_by_the_state_directory() {
    let files = FileSystem::on_loop_device();
    let origin = origin();
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("petasos.toml");
    let state = directory.path().join("state");
    let places = format!("state_directory = \"{}\"\nruntime_directory = \"none\"\n", state.display());
    std::fs::write(&configuration, format!("{places}{SETTINGS}")).unwrap();
    let mut lost = 0;
    for (name, is_caught_up) in [("thawed", true), ("killed", false)] {
        let mut edge = start(&files, &origin, &configuration);
        let [kept, purged] = ["kept", "purged"].map(|page| format!("/{name}/{page}"));
        let before = [&kept, &purged].map(|page| get(edge.address, page, &[]).text().to_owned());
        eventually("both are on the disk", || edge.metric("petasos_disk_written", "") >= 2.0);
        let frozen = files.freeze();
        // The first purge finds that the disk hangs. The edge has noticed it when the other two
        // arrive.
        let statuses = [purge(&edge, &purged), purge(&edge, "/other"), purge(&edge, "/another")];
        lost += statuses.iter().filter(|status| **status != 200).count();
        assert!(edge.metric("petasos_purges_at_risk", "") < 0.5);
        if is_caught_up {
            drop(frozen);
            eventually("the record is taken back", || edge.metric("petasos_disk_distrusted", "") < 0.5);
            eventually("the disk is used again", || edge.metric("petasos_disk_off", "") < 0.5);
            edge.kill();
        } else {
            assert!(edge.metric("petasos_disk_distrusted", "") > 0.5);
            // SIGKILL takes effect only when the disk answers again.
            edge.signal("KILL");
            drop(frozen);
            edge.wait();
        }
        let mut edge = start(&files, &origin, &configuration);
        let after = [&kept, &purged].map(|page| get(edge.address, page, &[]).text().to_owned());
        assert_eq!(after[0] == before[0], is_caught_up, "{name}: the cache is warm if the journal caught up");
        lost += usize::from(after[1] == before[1]);
        edge.kill();
    }
    println!("attack: purges during a freeze: {lost} of 8 refused or undone, at most 0");
    assert_eq!(lost, 0);
}
