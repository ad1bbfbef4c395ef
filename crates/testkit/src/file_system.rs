//! File systems for tests of failing disks: each is an image mounted only in its own mount
//! namespace. They need root and e2fsprogs. [`ServedFileSystem`] also needs Debian's fuse2fs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const IMAGE_BYTES: u64 = 64 << 20;

/// An ext4 file system in its own mount namespace. It is unmounted when it is dropped. If the test
/// process dies first, the keeper's standard input closes, the keeper ends, and the namespace with
/// it.
pub struct FileSystem {
    /// The process that keeps the namespace alive.
    keeper: Child,
    /// The line that the keeper printed after mounting.
    ready: String,
    place: PathBuf,
    _directory: TempDir,
}

impl FileSystem {
    /// A file system on a loop device. It can be frozen.
    pub fn on_loop_device() -> Self {
        let script = "mount -o loop \"$0\" \"$1\"; echo mounted; cat >/dev/null; umount \"$1\"";
        let mounted = Self::mount(script);
        assert_eq!(mounted.ready, "mounted", "root, a loop device and ext4 are needed");
        mounted
    }

    fn mount(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let place = directory.path().join("mounted");
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

    /// The mount point, as processes in the namespace see it.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The script for [`Edge::scripted`](crate::Edge::scripted) with which the edge starts in the
    /// namespace.
    pub fn enter(&self) -> String {
        format!("exec nsenter --mount=/proc/{}/ns/mnt \"$@\"", self.keeper.id())
    }

    /// Writes the file system's dirty pages to the image.
    pub fn sync(&self) {
        assert!(self.run(&["sync", "--file-system"]), "the file system cannot be synced");
    }

    /// Freezes the file system until the guard is dropped.
    ///
    /// An edge with a thread in uninterruptible sleep cannot be waited for while the file system is
    /// frozen. So declare the guard after the edge: variables are dropped in reverse order.
    pub fn freeze(&self) -> Frozen<'_> {
        assert!(self.run(&["fsfreeze", "--freeze"]), "fsfreeze (package util-linux) is needed");
        Frozen(self)
    }

    /// Runs a command on the mount point, in the namespace. Returns whether it succeeded.
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

/// A guard of a frozen file system, which is thawed when the guard is dropped.
pub struct Frozen<'a>(&'a FileSystem);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let is_thawed = self.0.run(&["fsfreeze", "--unfreeze"]);
        assert!(is_thawed || std::thread::panicking(), "it cannot be thawed");
    }
}

/// A file system whose server is a process that can be stopped. The process is killed when this is
/// dropped, so that blocked operations end with an error.
pub struct ServedFileSystem {
    server: u32,
    files: FileSystem,
}

impl ServedFileSystem {
    /// Mounts a file system that fuse2fs serves.
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

    /// Stops the server, so that every operation blocks.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets the server continue.
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
