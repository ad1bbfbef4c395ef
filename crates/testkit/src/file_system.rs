//! File systems of their own for tests of failing disks: an image that only this test's mount namespace sees. They need
//! root and e2fsprogs; the one with a server needs Debian's fuse2fs too.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const IMAGE_BYTES: u64 = 64 << 20;

/// An ext4 file system in a mount namespace of its own. It is unmounted when this is dropped; if the test dies before,
/// the keeper ends with its pipe, and the namespace with it.
pub struct FileSystem {
    /// Holds the namespace open.
    keeper: Child,
    /// What the keeper printed once the file system was mounted.
    ready: String,
    place: PathBuf,
    _directory: TempDir,
}

impl FileSystem {
    /// One on a loop device, which can be frozen.
    pub fn on_loop_device() -> Self {
        let script = "mount -o loop \"$0\" \"$1\"; echo mounted; cat >/dev/null; umount \"$1\"";
        let mounted = Self::mount(script);
        assert_eq!(mounted.ready, "mounted", "root, a loop device and ext4 are needed");
        mounted
    }

    fn mount(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (image, place) = (directory.path().join("image"), directory.path().join("mounted"));
        std::fs::create_dir(&place).unwrap();
        File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
        assert!(made.is_ok_and(|made| made.success()), "mkfs.ext4 (package e2fsprogs) is needed");
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-ec", script])
            .args([&image, &place])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        Self { keeper, ready: ready.trim().to_owned(), place, _directory: directory }
    }

    /// Where it is mounted, for processes in its namespace.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The script for [`Edge::scripted`](crate::Edge::scripted) that starts the edge in the namespace.
    pub fn enter(&self) -> String {
        format!("exec nsenter --mount=/proc/{}/ns/mnt \"$@\"", self.keeper.id())
    }

    /// Writes to the image what the system holds back.
    pub fn sync(&self) {
        assert!(self.run(&["sync", "--file-system"]), "the file system cannot be synced");
    }

    /// Freezes it until what is given back is dropped. An edge that has a thread in disk sleep cannot be waited for
    /// before that, so keep the guard in a variable that is declared after the edge's.
    pub fn freeze(&self) -> Frozen<'_> {
        assert!(self.run(&["fsfreeze", "--freeze"]), "fsfreeze (package util-linux) is needed");
        Frozen(self)
    }

    /// Runs a command on the mounted directory, in the namespace; says whether it succeeded.
    fn run(&self, command: &[&str]) -> bool {
        let mut shell = Command::new("sh");
        shell.args(["-ec", &self.enter(), "sh"]).args(command).arg(&self.place);
        shell.status().unwrap().success()
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
    }
}

/// A file system that is thawed when this is dropped.
pub struct Frozen<'a>(&'a FileSystem);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let is_thawed = self.0.run(&["fsfreeze", "--unfreeze"]);
        assert!(is_thawed || std::thread::panicking(), "it cannot be thawed");
    }
}

/// A file system whose server is a process, which can be stopped. The process is killed when this is dropped, which
/// ends everything that waits for it.
pub struct ServedFileSystem {
    server: u32,
    files: FileSystem,
}

impl ServedFileSystem {
    /// One served by fuse2fs.
    pub fn mount() -> Self {
        let script = "fuse2fs -f \"$0\" \"$1\" >/dev/null 2>&1 & server=$!; \
            until mountpoint -q \"$1\"; do kill -0 $server; sleep 0.05; done; echo $server; cat >/dev/null";
        let files = FileSystem::mount(script);
        let server = files.ready.parse();
        let server = server.expect("root, /dev/fuse and fuse2fs (package fuse2fs) are needed");
        Self { server, files }
    }

    /// The mounted file system.
    pub fn files(&self) -> &FileSystem {
        &self.files
    }

    /// Lets every operation wait.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets operations go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.server.to_string()]).status().unwrap();
        assert!(sent.success() || std::thread::panicking(), "the file system's server has ended");
    }
}

impl Drop for ServedFileSystem {
    fn drop(&mut self) {
        self.signal("KILL");
    }
}
