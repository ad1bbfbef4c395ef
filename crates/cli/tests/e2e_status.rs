//! The commands `status` and `top` with the real binary, on a pseudo-terminal where they need one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use testkit::{Client, Edge, Gate, Origin, eventually, get, petasos, response};

fn origin() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Control: max-age=60"], b"content"))
}

#[test]
fn status_of_a_healthy_edge_is_one_screen_with_exit_code_0() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    (0..4).for_each(|_| drop(get(edge.address, "/one", &[])));
    let admin = edge.admin.to_string();
    let output = petasos(["status", "--admin", &admin]);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{}", output.stdout);
    for words in
        ["from cache   - of the last second, 75.0% since the start", "hit 3, miss 1", "attention    nothing"]
    {
        assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
    }
    assert!(output.stdout.lines().count() <= 24 && output.stdout.lines().all(|line| line.len() < 160));
    let output = petasos(["status", "--json", "--admin", &admin]);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (&document["verdicts"]["hit"], &document["attention"]),
        (&3.into(), &Value::Array(Vec::new()))
    );
    assert_eq!(document["status"]["sites"][0]["breaker"], "closed");
}

#[test]
fn status_needs_attention_with_exit_code_1_and_an_edge_with_2() {
    let gate = Gate::default();
    let at_origin = gate.clone();
    let origin = Origin::start(move |_| {
        [vec![testkit::Action::Await(at_origin.clone())], response("200 OK", &[], b"done")].concat()
    });
    let mut edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    client.send("GET /slow HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the request is on its way", || !origin.seen().is_empty());
    edge.signal("TERM");
    let admin = edge.admin.to_string();
    let output = petasos(["status", "--admin", &admin]);
    assert_eq!(output.code, Some(1), "{}", output.stdout);
    assert!(output.stdout.contains("ATTENTION    the edge drains"), "{}", output.stdout);
    gate.open();
    assert_eq!((client.read().text(), edge.wait()), ("done", Some(0)));
    for command in ["status", "log"] {
        let output = petasos([command, "--admin", &admin]);
        assert_eq!(
            (output.code, output.stderr.contains("no edge answers at the admin address")),
            (Some(2), true)
        );
    }
}

#[test]
fn top_without_a_terminal_names_the_other_commands() {
    let output = petasos(["top"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("`petasos status`"), "{}", output.stderr);
}

/// `petasos top` on a pseudo-terminal.
struct Top {
    controller: OwnedFd,
    /// Kept open, so that the terminal's settings can be read after the command.
    terminal: OwnedFd,
    written: Arc<Mutex<String>>,
    child: Child,
}

impl Top {
    fn start(edge: &Edge, columns: u16, rows: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        resize(&controller, columns, rows);
        let terminal = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let child = Command::new(testkit::binary())
            .args(["top", "--admin", &edge.admin.to_string()])
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let (mut reader, written) =
            (File::from(controller.try_clone().unwrap()), Arc::<Mutex<String>>::default());
        let text = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        let top = Self { controller, terminal, written, child };
        eventually("it is drawn", || top.shows("petasos top"));
        top
    }

    fn shows(&self, words: &str) -> bool {
        self.written.lock().unwrap().contains(words)
    }

    fn type_in(&self, text: &str) {
        File::from(self.controller.try_clone().unwrap()).write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the end, and returns the exit code. The terminal must be as before.
    fn ended(mut self) -> Option<i32> {
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
        eventually("the other screen is left", || self.shows("\x1b[?1049l"));
        status.and_then(|status| status.code())
    }
}

fn resize(controller: &OwnedFd, columns: u16, rows: u16) {
    tcsetwinsize(controller, Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

#[test]
fn top_shows_pages_and_origin_requests_until_a_key() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let top = Top::start(&edge, 80, 24);
    eventually("it follows", || edge.metric("petasos_log_followers", "") as u64 == 1);
    // The terminal program need not send the unchanged part of a line again, so each text is looked
    // for alone.
    for target in ["/hot-page", "/slow-page"] {
        get(edge.address, target, &[]);
    }
    for words in ["example.test/hot-page", "example.test/slow-page", "127.0.0.1", "ORIGIN REQUESTS"] {
        eventually(words, || top.shows(words));
    }
    resize(&top.controller, 20, 6);
    resize(&top.controller, 132, 50);
    top.type_in("x");
    top.type_in("q");
    assert_eq!(top.ended(), Some(0));
}

#[test]
fn top_restores_the_terminal_on_signals_and_without_an_edge() {
    let origin = origin();
    let mut edge = Edge::start(&origin.url(), &[]);
    let top = Top::start(&edge, 80, 24);
    assert!(Command::new("kill").arg(top.child.id().to_string()).status().unwrap().success());
    assert_eq!(top.ended(), Some(0));
    let top = Top::start(&edge, 12, 2);
    top.type_in("\x03");
    assert_eq!(top.ended(), Some(0));
    let top = Top::start(&edge, 80, 24);
    eventually("it follows", || edge.metric("petasos_log_followers", "") as u64 == 1);
    edge.kill();
    assert_eq!(top.ended(), Some(2));
}
