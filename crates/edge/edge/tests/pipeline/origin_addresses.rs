//! Unix sockets and IPv6, for listeners and for origins.

use crate::support::{self, plan};
use config::{EdgePlan, ListenerPlan};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

/// Answers each request of each connection with this text, until the test ends.
fn serve<S: Read + Write + Send + 'static>(
    mut accept: impl FnMut() -> std::io::Result<S> + Send + 'static,
    text: &'static str,
) {
    std::thread::spawn(move || {
        while let Ok(mut stream) = accept() {
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut octet = [0];
                while stream.read(&mut octet).is_ok_and(|bytes| bytes > 0) {
                    head.push(octet[0]);
                    if head.ends_with(b"\r\n\r\n") {
                        let length = text.len();
                        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                        head.clear();
                    }
                }
            });
        }
    });
}

/// The response to a GET over a new connection.
fn ask(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

#[test]
fn unix_sockets_serve_as_listener_and_as_origin() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, own) = (directory.path().join("origin.sock"), directory.path().join("own.sock"));
    let listener = UnixListener::bind(&origin).unwrap();
    serve(move || listener.accept().map(|(stream, _)| stream), "from a unix socket");
    let mut plan = plan(&format!("unix:{}", origin.display()));
    plan.listeners[0].address = format!("unix:{}", own.display()).parse().unwrap();
    let _edge = support::start(plan);
    let mode = std::fs::metadata(&own).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "the group may connect");
    for _ in 0..2 {
        let answer = ask(UnixStream::connect(&own).unwrap());
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("from a unix socket"), "{answer}");
    }
}

#[test]
fn ipv6_serves_as_listener_and_as_origin() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let mut own: EdgePlan = plan(&format!("http://{}", listener.local_addr().unwrap()));
    serve(move || listener.accept().map(|(stream, _)| stream), "over IPv6");
    own.listeners[0].address = "[::1]:0".parse().unwrap();
    // One socket for both versions.
    own.listeners.push(ListenerPlan::plain(":0".parse().unwrap()));
    let edge = support::start(own);
    let both = support::socket(&edge.bound().listen[1]).port();
    for address in [
        support::address(&edge),
        SocketAddr::from(([127, 0, 0, 1], both)),
        format!("[::1]:{both}").parse().unwrap(),
    ] {
        let answer = ask(std::net::TcpStream::connect(address).unwrap());
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("over IPv6"), "{address}: {answer}");
    }
}
