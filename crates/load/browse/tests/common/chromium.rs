//! Runs headless Chromium on a page.
//!
//! Invariant: Chromium runs until it has requested everything expected and nothing new for a while.
//! Ending it therefore cuts nothing off; only requests that miss a generous limit are absent. It
//! runs in real time: Chromium's virtual clock ignores the favicon and can end before it is
//! requested. The server records the requests.

use clock::Clock;
use platform::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// How long the expected requests may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Chromium is done when it has requested nothing new for this long. Too short a time can only hide
/// unexpected requests.
const QUIET: Duration = Duration::from_secs(2);
/// Pause between two checks of the requests.
const PAUSE: Duration = Duration::from_millis(100);

/// Only one Chromium runs at a time, because two would slow each other down.
static ALONE: Mutex<()> = Mutex::new(());

/// Loads a page whose host has the address `address`. `asked` returns the targets requested so far.
/// Ends when they include all `awaited` ones and no longer grow.
pub(crate) fn load(
    url: &str,
    address: &str,
    awaited: &BTreeSet<String>,
    asked: impl Fn() -> BTreeSet<String>,
) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut chromium = Chromium::start(url, address);
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let (mut known, mut since) = (BTreeSet::new(), start);
    while clock.monotonic().since(start) < PATIENCE {
        std::thread::sleep(PAUSE);
        assert!(!chromium.is_over(), "Chromium ended by itself: {}", chromium.said());
        let now = asked();
        if now != known {
            (known, since) = (now, clock.monotonic());
        }
        if awaited.is_subset(&known) && clock.monotonic().since(since) >= QUIET {
            break;
        }
    }
    chromium.end();
}

/// A running Chromium; it is killed when dropped.
struct Chromium {
    child: Child,
    directory: TempDir,
}

impl Chromium {
    fn start(url: &str, address: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let host = url.split('/').nth(2).unwrap();
        let mapped = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--ignore-certificate-errors", "--disable-extensions", "--window-size=1280,720"])
            .arg(format!("--host-resolver-rules=MAP {mapped} {address}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
            .arg(format!("--user-data-dir={}", path.join("profile").display()))
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(path.join("stderr")).unwrap())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot run chromium ({error}): install it from Debian's package chromium")
            });
        Self { child, directory }
    }

    /// Asks Chromium to end, so that its child processes end with it, and waits for that.
    fn end(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        testkit::eventually("Chromium ends", || self.is_over());
    }

    fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
