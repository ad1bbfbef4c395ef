//! What the load tester draws and asks on a terminal, seen through a pseudo-terminal.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use testkit::{Origin, eventually, response};

/// What takes a drawing away: back to the first column, and nothing from there on.
const CLEARED: &str = "\r\x1b[J\r";

/// A terminal, and what has been written to it.
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

    /// Starts the program with its standard input and standard error here.
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
            // The end of a pseudo-terminal is an error: nobody has its other side open any more.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        child
    }

    fn written(&self) -> String {
        self.written.lock().unwrap().clone()
    }

    /// Whether the last drawing was taken away; a line of words may follow.
    fn is_cleared(&self) -> bool {
        self.written().rsplit_once(CLEARED).is_some_and(|(_, rest)| !rest.contains('\x1b'))
    }
}

/// Lines of what was written, without escape sequences; the terminal itself doubles carriage returns.
fn lines(written: &str) -> Vec<String> {
    let plain = written.replace("\x1b[K", "").replace("\x1b[J", "");
    let pieces = plain.split(['\r', '\n']).filter(|piece| !piece.is_empty() && !piece.starts_with('\x1b'));
    pieces.map(str::to_owned).collect()
}

fn good_origin() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Status: petasos; hit"], b"hello"))
}

#[test]
fn a_drawing_follows_the_terminal_and_leaves_nothing() {
    let (origin, terminal) = (good_origin(), Terminal::open());
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
    // The drawing that was under way when the size changed may have had the old one.
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
fn a_run_to_the_end_leaves_nothing() {
    let (origin, terminal) = (good_origin(), Terminal::open());
    terminal.resize(80, 24);
    let child = terminal.start(&["bench", &origin.url(), "-t", "1500ms", "--accept-invalid"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    eventually("the drawing is taken away", || terminal.is_cleared());
}

#[test]
fn targets_elsewhere_are_asked_about_once_for_all_that_is_compared() {
    let terminal = Terminal::open();
    // Addresses for documentation (RFC 5737); nothing is sent before the answer.
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
