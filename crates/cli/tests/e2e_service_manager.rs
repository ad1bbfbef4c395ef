//! The real binary under a service manager: messages about its state, the watchdog, and sockets
//! that are open before it starts.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::os::unix::net::UnixDatagram;
use testkit::{Client, Edge, HeldPort, Origin, PATIENCE, eventually, get, response};

fn page() -> Origin {
    Origin::start(|seen| response("200 OK", &["Cache-Control: no-store"], seen.target().as_bytes()))
}

/// A service manager that listens.
struct Manager {
    socket: UnixDatagram,
    directory: tempfile::TempDir,
}

impl Manager {
    fn listen() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, directory }
    }

    /// Shell commands that tell a program of this manager.
    fn variables(&self) -> String {
        format!("export NOTIFY_SOCKET={}\n", self.directory.path().join("notify").display())
    }

    /// The next message; one line for each state.
    fn next(&self) -> String {
        let mut octets = [0; 4096];
        let bytes = self.socket.recv(&mut octets).unwrap();
        String::from_utf8(octets[..bytes].to_vec()).unwrap()
    }
}

#[test]
fn service_manager_learns_of_start_reload_and_end() {
    let (origin, manager) = (page(), Manager::listen());
    let script = format!("{}exec \"$@\"", manager.variables());
    let mut edge = Edge::scripted(&script, &origin.url(), &[]);
    assert_eq!(manager.next(), "READY=1\n");
    edge.signal("HUP");
    let reloading = manager.next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.next(), "READY=1\n");
    edge.signal("TERM");
    assert_eq!(manager.next(), "STOPPING=1\n");
    assert_eq!(edge.wait(), Some(0));
}

#[test]
fn service_manager_learns_which_process_has_taken_over() {
    let (origin, manager) = (page(), Manager::listen());
    let script = format!("{}exec \"$@\"", manager.variables());
    let mut old = Edge::scripted(&script, &origin.url(), &[]);
    assert_eq!(manager.next(), "READY=1\n");
    let new = old.upgraded(&origin.url(), &[]);
    assert_eq!(manager.next(), format!("MAINPID={}\n", new.pid()));
    assert_eq!(old.wait(), Some(0));
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 64]).is_err(), "the service does not stop");
}

#[test]
fn watchdog_is_fed_while_the_workers_live() {
    let (origin, manager) = (page(), Manager::listen());
    let script = format!("{}export WATCHDOG_USEC=200000 WATCHDOG_PID=$$\nexec \"$@\"", manager.variables());
    let edge = Edge::scripted(&script, &origin.url(), &["--workers", "2"]);
    let fed = |count| (0..count).all(|_| manager.next().contains("1\n"));
    assert!(fed(5));
    assert_eq!(get(edge.address, "/a", &[]).text(), "/a");
    assert!(fed(5));
}

#[test]
fn process_that_took_over_feeds_the_watchdog_too() {
    let (origin, manager) = (page(), Manager::listen());
    // The environment of a process that was started by SIGUSR2.
    let variables = "export WATCHDOG_USEC=200000\nunset WATCHDOG_PID\nexec \"$@\"";
    let _edge = Edge::scripted(&format!("{}{variables}", manager.variables()), &origin.url(), &[]);
    assert_eq!(manager.next(), "READY=1\n");
    assert_eq!((manager.next(), manager.next()), ("WATCHDOG=1\n".to_owned(), "WATCHDOG=1\n".to_owned()));
}

/// Shell commands that open a socket on this port as descriptor 3 and run a program with it.
fn activation(port: u16) -> String {
    let program = "$^F = 9; socket(S, PF_INET, SOCK_STREAM, 0); \
                   setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); \
                   bind(S, sockaddr_in(shift, inet_aton(\"127.0.0.1\"))) or die; listen(S, 9); \
                   POSIX::dup2(fileno(S), 3); $ENV{LISTEN_FDS} = 1; $ENV{LISTEN_PID} = $$; exec @ARGV";
    format!("exec perl -MSocket -MPOSIX=dup2 -e '{program}' {port} \"$@\"")
}

#[test]
fn socket_that_is_open_before_the_start_serves_its_listener() {
    let (origin, held) = (page(), HeldPort::take());
    let (port, address) = (held.number(), held.address());
    drop(held);
    let place = address.to_string();
    let edge = Edge::scripted_at(&activation(port), &place, &origin.url(), &["--workers", "3"]);
    assert_eq!(edge.address, address);
    let mut clients: Vec<_> = (0..9).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/a", &[]).text(), "/a");
    }
    // A second bind would fail: the passed socket does not share its port.
    let stderr = edge.stderr();
    assert!(!stderr.contains("is closed"), "{stderr}");
}

#[test]
fn socket_without_a_listener_is_reported() {
    let (origin, held) = (page(), HeldPort::take());
    let port = held.number();
    drop(held);
    let edge = Edge::scripted(&activation(port), &origin.url(), &[]);
    let words = format!("no listener has the address 127.0.0.1:{port} of a socket that was passed");
    eventually(&words, || edge.stderr().contains(&words));
}

#[test]
fn descriptor_that_is_no_socket_prevents_the_start() {
    let script = "export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\" 3</dev/null";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(testkit::binary())
        .args(["serve", "--origin", "http://127.0.0.1:9"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no listening socket"), "{stderr}");
}
