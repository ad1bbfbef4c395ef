//! A file system that stops answering reads (fuse2fs, stopped by a signal; needs root and Debian's fuse2fs): the worker
//! that sends a large body from its file serves its other connections meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use testkit::{Edge, Origin, eventually, get, response};

const IMAGE_BYTES: u64 = 64 << 20;
const FILM_BYTES: usize = 3_000_000;
/// Pages that are asked for while the disk hangs.
const PAGES: usize = 40;

/// An ext4 file system whose server is a process, in a mount namespace of its own. The process is killed when this is
/// dropped, which ends everything that waits for it.
struct FileSystem {
    keeper: Child,
    server: u32,
    place: PathBuf,
    _directory: tempfile::TempDir,
}

impl FileSystem {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (image, place) = (directory.path().join("image"), directory.path().join("mounted"));
        std::fs::create_dir(&place).unwrap();
        std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
        assert!(made.is_ok_and(|made| made.success()), "mkfs.ext4 (package e2fsprogs) is needed");
        let script = "fuse2fs -f \"$0\" \"$1\" >/dev/null 2>&1 & server=$!; \
            until mountpoint -q \"$1\"; do kill -0 $server; sleep 0.05; done; echo $server; cat >/dev/null";
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-ec", script])
            .args([&image, &place])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = line.trim().parse();
        let server = server.expect("root, /dev/fuse and fuse2fs (package fuse2fs) are needed");
        Self { keeper, server, place, _directory: directory }
    }

    /// What a shell runs to go on in the namespace.
    fn enter(&self) -> String {
        format!("exec nsenter --mount=/proc/{}/ns/mnt \"$@\"", self.keeper.id())
    }

    fn sync(&self) {
        let script = self.enter();
        let command = ["-ec", &script, "sh", "sync", "--file-system", self.place.to_str().unwrap()];
        assert!(Command::new("sh").args(command).status().unwrap().success());
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.server.to_string()]).status().unwrap();
        assert!(sent.success() || std::thread::panicking(), "the file system's server has ended");
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        self.signal("KILL");
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
    }
}

/// A film with a strong validator, in whole and in parts, and pages.
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
fn disk_that_hangs_reads_holds_up_no_worker() {
    let film: Vec<u8> = (0..FILM_BYTES).map(|at| (at / 7 % 251) as u8).collect();
    let (files, origin) = (FileSystem::mount(), origin(film.clone()));
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("petasos.toml");
    let text =
        "[limits]\ndisk_timeout = \"500ms\"\nobject_bytes_max = \"100KiB\"\ndisk_verify_rate = \"0B\"\n";
    std::fs::write(&configuration, text).unwrap();
    let disk = files.place.join("cache");
    let arguments = [configuration.to_str().unwrap(), "--disk", disk.to_str().unwrap()];
    let more = ["--disk-size", "32MiB", "--workers", "1"];
    let edge = Edge::scripted(&files.enter(), &origin.url(), &[&arguments[..], &more].concat());
    // Fetched, read and checked, and then sent from its file.
    for _ in 0..3 {
        assert!(get(edge.address, "/film", &[]).body == film);
        eventually("it is on the disk", || edge.metric("petasos_disk_written_total", "") >= 1.0);
    }
    assert_eq!(origin.count("/film"), 1);
    assert_eq!(get(edge.address, "/page", &[]).text(), "/page");

    // Without the system's copy in memory each read asks the file system.
    files.sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1").expect("root is needed");
    files.signal("STOP");
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

    files.signal("CONT");
    eventually("the disk is used again", || edge.metric("petasos_disk_off", "") < 0.5);
    assert!(get(edge.address, "/film", &[]).body == film);
}
