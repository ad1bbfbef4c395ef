//! The load tester's drawings and questions on a terminal, observed through a pseudo-terminal.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use testkit::{Origin, eventually, response};

/// Escape sequence that erases a drawing: back to the first column, then erase the rest of the
/// screen.
const CLEARED: &str = "\r\x1b[J\r";

/// A pseudo-terminal and everything written to it.
struct Terminal {
    controller: OwnedFd,
    written: Arc<Mutex<String>>,
}

impl Terminal {
    fn open() -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        Self { controller, written: Arc::default() }
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.controller, size).unwrap();
    }

    /// Starts the program with standard input and standard error on this terminal.
    fn start(&self, arguments: &[&str]) -> Child {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = ioctl_tiocgptpeer(&self.controller, flags).unwrap();
        let keyboard = terminal.try_clone().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
        command.args(arguments).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        let child = command.stdin(keyboard).stdout(Stdio::piped()).stderr(terminal).spawn().unwrap();
        let (mut reader, written) =
            (File::from(self.controller.try_clone().unwrap()), Arc::clone(&self.written));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A read error is the normal end: on Linux, a pseudo-terminal reports EIO once its
            // other side is closed everywhere.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        child
    }

    fn written(&self) -> String {
        self.written.lock().unwrap().clone()
    }

    /// Whether the last drawing was erased. A message without escape sequences may follow.
    fn is_cleared(&self) -> bool {
        self.written().rsplit_once(CLEARED).is_some_and(|(_, rest)| !rest.contains('\x1b'))
    }
}

/// The lines that were written, without escape sequences. The terminal doubles carriage returns.
fn lines(written: &str) -> Vec<String> {
    let plain = written.replace("\x1b[K", "").replace("\x1b[J", "");
    let pieces = plain.split(['\r', '\n']).filter(|piece| !piece.is_empty() && !piece.starts_with('\x1b'));
    pieces.map(str::to_owned).collect()
}

fn good_origin() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Status: petasos; hit"], b"hello"))
}

#[test]
fn drawing_follows_terminal_size_and_is_erased_at_the_end() {
    let origin = good_origin();
    let terminal = Terminal::open();
    terminal.resize(40, 10);
    let mut child = terminal.start(&["bench", &origin.url(), "-t", "1h"]);
    let in_flight = |text: &str| text.contains("in flight");
    eventually("a second is over and drawn", || in_flight(&terminal.written()));
    let written = terminal.written();
    assert!(written.contains("p95 ") && written.contains("cache: hit 100%"), "{written:?}");
    assert!(lines(&written).iter().all(|line| line.chars().count() < 40), "{:?}", lines(&written));
    terminal.resize(20, 4);
    let before = terminal.written().len();
    eventually("it is drawn anew", || terminal.written()[before..].matches("/3600 s").count() > 2);
    let written = terminal.written();
    // A drawing that was in progress when the size changed may still have the old size.
    let small = written[before..].split_once("\x1b[J").unwrap().1.to_owned();
    let small = small.split_once("\x1b[J").unwrap().1;
    assert!(lines(small).iter().all(|line| line.chars().count() < 20), "{:?}", lines(small));
    assert!(!small.contains("cache"), "three lines have no room for it: {small:?}");
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(report.contains("Ended early:            stopped\n") && !report.contains('\x1b'), "{report}");
    eventually("the drawing is taken away", || terminal.is_cleared());
}

#[test]
fn completed_run_erases_its_drawing() {
    let origin = good_origin();
    let terminal = Terminal::open();
    terminal.resize(80, 24);
    let child = terminal.start(&["bench", &origin.url(), "-t", "1500ms", "--accept-invalid"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    eventually("the drawing is taken away", || terminal.is_cleared());
}

#[test]
fn comparison_asks_once_about_all_remote_targets() {
    let terminal = Terminal::open();
    // Addresses for documentation (RFC 5737). Nothing is sent before the answer.
    let child =
        terminal.start(&["compare", "http://203.0.113.1/", "http://127.0.0.1/", "http://198.51.100.1:81/"]);
    let question = "203.0.113.1:80, 198.51.100.1:81 are not on this machine. Load them? [y/N] ";
    eventually("it asks", || terminal.written().contains(question));
    rustix::io::write(&terminal.controller, b"n\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]));
    eventually("it says why it stopped", || terminal.written().contains("not loaded; --yes answers"));
    assert_eq!(terminal.written().matches("[y/N]").count(), 1, "{:?}", terminal.written());
}
