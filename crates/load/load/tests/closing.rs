//! How connections with one request end: with a FIN, as clients do, or with a reset if the plan
//! asks for it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{Close, Plan, Stop};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// Serves `connections` connections and closes each of them first. Counts the ones that the client
/// then ends with a FIN.
fn counting_server(connections: usize) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serve = move || {
        // All connections are served concurrently, because the end of one may wait until the next
        // has begun.
        let mut ends = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            ends.push(std::thread::spawn(|| ends_with_fin(stream)));
        }
        ends.into_iter().map(|end| end.join().unwrap()).filter(|&is_fin| is_fin).count()
    };
    (url, std::thread::spawn(serve))
}

/// Answers a request, closes, and waits for the client's end. Returns whether that was a FIN.
fn ends_with_fin(mut stream: TcpStream) -> bool {
    let mut octets = [0; 1024];
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let bytes = stream.read(&mut octets).unwrap();
        assert!(bytes > 0, "the client closed within its request");
        request.extend_from_slice(octets.get(..bytes).unwrap());
    }
    stream.write_all(ANSWER).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    match stream.read(&mut octets) {
        Ok(bytes) => {
            assert_eq!(bytes, 0, "the client sends one request on a connection");
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            false
        }
    }
}

const REQUESTS: usize = 50;

fn plan(url: &str) -> Plan {
    let mut plan = Plan::new(HttpUrl::parse(url).unwrap());
    plan.keep_alive = false;
    plan.stop = Stop { requests: Some(REQUESTS as u64), ..Stop::default() };
    plan
}

fn run(plan: &Plan) {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    assert_eq!((outcome.good, outcome.connections), (REQUESTS as u64, REQUESTS as u64));
}

#[test]
fn connections_end_with_a_fin_by_default() {
    let (url, server) = counting_server(REQUESTS);
    run(&plan(&url));
    assert_eq!(server.join().unwrap(), REQUESTS, "connections that ended with a FIN");
}

#[test]
fn connections_end_with_a_reset_if_requested() {
    let (url, server) = counting_server(REQUESTS);
    run(&Plan { close: Close::Rst, ..plan(&url) });
    // The last connection of the run has no successor that needs its socket.
    let fins = server.join().unwrap();
    assert!(fins < REQUESTS / 2, "{fins} of {REQUESTS} connections ended with a FIN");
}
