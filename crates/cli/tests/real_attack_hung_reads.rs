//! A file system that stops answering reads (fuse2fs, stopped by a signal; needs root and Debian's
//! fuse2fs). The worker that sends a large body from its file keeps serving its other connections.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

use testkit::{Edge, Origin, ServedFileSystem, eventually, get, response};

const FILM_BYTES: usize = 3_000_000;
/// Number of pages that are requested while the disk hangs.
const PAGES: usize = 40;

/// An origin with pages and a film. The film has a strong validator and is served whole or as a
/// range.
fn origin(film: Vec<u8>) -> Origin {
    Origin::start(move |seen| {
        let fresh = "Cache-Control: max-age=600";
        if seen.target() != "/film" {
            return response("200 OK", &[fresh], seen.target().as_bytes());
        }
        let range = seen.field("Range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let Some((first, last)) = range else {
            return response("200 OK", &[fresh, "ETag: \"1\""], &film);
        };
        let extent = format!("Content-Range: bytes {first}-{last}/{FILM_BYTES}");
        let part = film.get(first.parse().unwrap()..=last.parse().unwrap()).unwrap();
        response("206 Partial Content", &[fresh, "ETag: \"1\"", &extent], part)
    })
}

#[test]
fn worker_serves_others_while_reads_from_disk_hang() {
    let film: Vec<u8> = (0..FILM_BYTES).map(|at| (at / 7 % 251) as u8).collect();
    let disk = ServedFileSystem::mount();
    let origin = origin(film.clone());
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("petasos.toml");
    let text =
        "[limits]\ndisk_timeout = \"500ms\"\nobject_bytes_max = \"100KiB\"\ndisk_verify_rate = \"0B\"\n";
    std::fs::write(&configuration, text).unwrap();
    let cache = disk.files().place().join("cache");
    let arguments = [configuration.to_str().unwrap(), "--disk", cache.to_str().unwrap()];
    let more = ["--disk-size", "32MiB", "--workers", "1"];
    let edge = Edge::scripted(&disk.files().enter(), &origin.url(), &[&arguments[..], &more].concat());
    // The film is fetched, then read from the disk and checked, then sent from its file.
    for _ in 0..3 {
        assert!(get(edge.address, "/film", &[]).body == film);
        eventually("it is on the disk", || edge.metric("petasos_disk_written_total", "") >= 1.0);
    }
    assert_eq!(origin.count("/film"), 1);
    assert_eq!(get(edge.address, "/page", &[]).text(), "/page");

    // Drops the kernel's page cache, so that each read goes to the file system.
    disk.files().sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1").expect("root is needed");
    disk.stop();
    let address = edge.address;
    let visitor = std::thread::spawn(move || get(address, "/film", &[]));
    let mut refused = 0;
    for page in 0..PAGES {
        refused += usize::from(get(edge.address, "/page", &[]).text() != "/page");
        refused += usize::from(get(edge.address, &format!("/new/{page}"), &[]).status != 200);
    }
    println!("attack: pages while the disk hangs reads: {refused} of {} refused, at most 0", 2 * PAGES);
    assert_eq!(refused, 0);
    assert!(visitor.join().unwrap().body == film, "the rest of the body comes from the origin");

    disk.resume();
    eventually("the disk is used again", || edge.metric("petasos_disk_off", "") < 0.5);
    assert!(get(edge.address, "/film", &[]).body == film);
}
