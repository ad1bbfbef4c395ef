//! Slow peers and large bodies, and the limits of their cost.

use crate::support::{Stage, address, before, connect, metric, plan, reason, start};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Client, Gate, Origin, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// More bytes than all socket buffers on loopback hold together.
const HUGE_BYTES: usize = 128 << 20;

/// After this time without progress a writer counts as blocked. On a slow machine the test may end
/// early, which can only let it pass.
const STALL: Duration = Duration::from_millis(300);

/// Writes zeros until the peer accepts nothing for [`STALL`], or `octets` bytes are written.
/// Returns the number of accepted bytes.
fn write_until_stalled(stream: &mut TcpStream, octets: usize) -> usize {
    stream.set_write_timeout(Some(STALL)).unwrap();
    let (piece, mut written) = (vec![0; 1 << 16], 0);
    while written < octets {
        match stream.write(&piece) {
            Ok(taken) => written += taken,
            Err(_) => break,
        }
    }
    written
}

#[test]
fn slow_client_slows_down_the_origin() {
    for (head, fields) in [(FRESH, ""), ("Cache-Control: private", ""), (FRESH, "Cookie: session=1\r\n")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let origin = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {HUGE_BYTES}\r\n\r\n").unwrap();
            write_until_stalled(&mut stream, HUGE_BYTES)
        });
        let mut plan = plan(&url);
        plan.limits.object_bytes_max = 1 << 20;
        plan.spool.bytes_max = 4 << 20;
        let edge = start(plan);
        let mut client = connect(&edge);
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let taken = origin.join().unwrap();
        assert!(taken < HUGE_BYTES / 2, "{head} {fields}: {taken} bytes were read from the origin");
    }
}

#[test]
fn slow_origin_slows_down_the_upload() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(&format!("http://{}", listener.local_addr().unwrap()));
    plan.limits.request_buffer_bytes_max = 1 << 20;
    let edge = start(plan);
    let mut client = TcpStream::connect(address(&edge)).unwrap();
    write!(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {HUGE_BYTES}\r\n\r\n").unwrap();
    // The kernel accepts the connection, but nothing reads from it.
    let taken = write_until_stalled(&mut client, HUGE_BYTES);
    assert!(taken < HUGE_BYTES / 2, "{taken} bytes were read from the client");
}

#[test]
fn ordinary_page_frees_the_origin_despite_a_slow_client() {
    let origin = Origin::start(|_| response("200 OK", &[], &[b'x'; 400_000]));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("edge");
    let mut plan = plan(&origin.url());
    // A Unix socket buffers about 200 kB, so the edge must hold the rest.
    plan.listeners[0].address = format!("unix:{}", socket.display()).parse().unwrap();
    let edge = start(plan);
    let mut visitor = UnixStream::connect(&socket).unwrap();
    visitor.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nCookie: session=1\r\n\r\n").unwrap();
    eventually("the request reaches the origin", || metric(&edge, "petasos_origin_fetches_total", "") == 1);
    eventually("the fetch has ended", || metric(&edge, "petasos_origin_fetches_active", "") == 0);
    let (mut answer, mut piece) = (Vec::new(), [0; 65_536]);
    while !answer.ends_with(b"xxx") || answer.len() < 400_000 {
        let read = visitor.read(&mut piece).unwrap();
        answer.extend_from_slice(&piece[..read]);
    }
}

#[test]
fn body_beyond_the_transit_memory_is_streamed_and_not_stored() {
    let origin = Origin::start(|seen| {
        let bytes = seen.target().trim_start_matches('/').parse().unwrap();
        response("200 OK", &[FRESH], &vec![b'x'; bytes])
    });
    let mut plan = plan(&origin.url());
    // An eighth of the memory may hold bodies outside the store, such as those being received.
    plan.memory_bytes = 8 << 20;
    plan.limits.object_bytes_max = 4 << 20;
    let edge = start(plan);
    for (target, bytes) in [("/3000000", 3_000_000), ("/100000", 100_000)] {
        let answer = connect(&edge).get(target, &[]);
        assert_eq!((answer.body.len(), answer.complete), (bytes, true));
    }
    assert_eq!(metric(&edge, "petasos_fillings_unkept_total", ""), 1);
    assert_eq!(metric(&edge, "petasos_store_objects", ""), 1);
    assert_eq!(metric(&edge, "petasos_filling_bytes", ""), 0);
}

#[test]
fn slow_client_holds_up_no_other_client_of_its_fetch() {
    // More than the buffers of both sockets hold.
    const BODY_BYTES: usize = 24 << 20;
    let gate = Gate::default();
    let stage = Stage::with(|plan| plan.limits.object_bytes_max = 1 << 20, {
        let gate = gate.clone();
        // Without a length, it shows only later that the body will not be stored.
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
        let rest = format!("{BODY_BYTES:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(BODY_BYTES));
        let send = |text: &str| Action::Send(text.as_bytes().to_vec());
        move |_| vec![send(&head), Action::Await(gate.clone()), send(&rest)]
    });
    let mut clients: Vec<_> = (0..3).map(|_| stage.begin("GET", "/", &[])).collect();
    let mut answers: Vec<_> = clients.iter_mut().map(Client::read_head).collect();
    for client in &mut clients {
        assert_eq!(client.try_read_chunk().unwrap(), b"x");
    }
    gate.open();
    // The first client takes nothing yet.
    for place in [1, 2, 0] {
        assert!(clients[place].read_body(&mut answers[place]), "client {place}");
        assert_eq!(answers[place].body.len(), BODY_BYTES, "client {place}");
        assert_eq!(stage.metric("petasos_origin_fetches_active", ""), 0);
    }
    assert_eq!(stage.origin.seen().len(), 1, "they shared one fetch");
}

#[test]
fn edge_that_is_its_own_origin_responds_508() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("edge").display());
    let mut plan = plan(&socket);
    plan.listeners[0].address = socket.parse().unwrap();
    let _edge = start(plan);
    for fields in ["", "Cookie: session=1\r\n"] {
        let mut visitor = UnixStream::connect(directory.path().join("edge")).unwrap();
        write!(visitor, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").unwrap();
        let mut answer = String::new();
        visitor.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 508 ") && answer.contains("; detail=loop-detected"), "{answer}");
    }
}

#[test]
fn client_that_half_closes_after_its_request_gets_a_response() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[FRESH], b"page")].concat()
    });
    let edge = before(&origin);
    let mut clients: Vec<_> = ["", "Cookie: session=1\r\n"]
        .iter()
        .map(|fields| {
            let mut client = TcpStream::connect(address(&edge)).unwrap();
            write!(client, "GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            client
        })
        .collect();
    eventually("both wait", || metric(&edge, "petasos_origin_fetches_total", "") == 2);
    gate.open();
    for client in &mut clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\npage"), "{answer}");
    }
}

#[test]
fn changing_vary_stops_after_a_few_fetches() {
    let count = Arc::new(AtomicUsize::new(0));
    let origin = Origin::start(move |_| {
        let name = ["Accept-Language", "Referer", "DNT", "Save-Data", "Priority", "Width"]
            [count.fetch_add(1, Ordering::SeqCst) % 6];
        response("200 OK", &[FRESH, &format!("Vary: {name}")], name.as_bytes())
    });
    let edge = before(&origin);
    let fields =
        ["Accept-Language: fr", "Referer: http://a/", "DNT: 1", "Save-Data: on", "Priority: u=1", "Width: 1"];
    let answer = connect(&edge).get("/", &fields);
    assert_eq!((answer.status, reason(&answer)), (200, "miss-variant"));
    assert!(origin.seen().len() <= 4, "{} requests for one", origin.seen().len());
}

#[test]
fn followers_that_want_another_variant_get_it() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |seen| {
            let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
            let answer = response("200 OK", &[FRESH, "Vary: Accept-Language"], language.as_bytes());
            [vec![Action::Await(gate.clone())], answer].concat()
        }
    });
    let edge = before(&origin);
    let mut clients: Vec<_> = (0..12).map(|_| connect(&edge)).collect();
    for (client, n) in clients.iter_mut().zip(0..) {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Language: l{}\r\n\r\n", n % 3));
    }
    eventually("all wait", || metric(&edge, "petasos_flight_waits_total", "") == 11);
    gate.open();
    for (client, n) in clients.iter_mut().zip(0..) {
        assert_eq!(client.read().text(), format!("l{}", n % 3));
    }
    assert_eq!(origin.seen().len(), 4, "one without negotiation, one for each language");
}

#[test]
fn access_log_has_a_line_for_each_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let origin = Origin::start(|_| response("200 OK", &[FRESH], b"page"));
    let mut plan = plan(&origin.url());
    plan.access_log = Some(config::AccessLogTarget::File(path.clone()));
    let edge = start(plan);
    let mut client = connect(&edge);
    client.get("/a?b", &["User-Agent: me"]);
    client.get("/a?b", &[]);
    client.get("/c", &["Cookie: session=1"]);
    drop(client);
    edge.stop();
    edge.join().unwrap();
    let log = std::fs::read_to_string(&path).unwrap();
    let endings: Vec<_> = log
        .lines()
        .map(|line| {
            assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
            let (_, rest) = line.split_once("] ").unwrap();
            rest.rsplit_once(' ').unwrap().0
        })
        .collect();
    assert_eq!(
        endings,
        [
            "\"GET /a?b HTTP/1.1\" 200 4 \"-\" \"me\" example.test miss miss-absent",
            "\"GET /a?b HTTP/1.1\" 200 4 \"-\" \"-\" example.test hit hit-fresh",
            "\"GET /c HTTP/1.1\" 200 4 \"-\" \"-\" example.test pass pass-cookie",
        ]
    );
}

#[test]
fn second_stop_does_not_wait_for_requests() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| vec![Action::Await(gate.clone())]
    });
    let edge = before(&origin);
    let mut client = connect(&edge);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request waits", || metric(&edge, "petasos_flights_started_total", "") == 1);
    edge.stop();
    edge.stop();
    edge.join().unwrap();
    assert!(client.is_closed());
    gate.open();
}

#[test]
fn slow_downloads_leave_room_for_small_pages() {
    let origin = Origin::start(|seen| {
        let bytes = seen.target().trim_start_matches('/').split('-').next().unwrap().parse().unwrap();
        response("200 OK", &[FRESH], &vec![b'x'; bytes])
    });
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("edge");
    let mut plan = plan(&origin.url());
    // A Unix socket buffers about 200 kB, so the edge must hold the rest.
    plan.listeners[0].address = format!("unix:{}", socket.display()).parse().unwrap();
    plan.memory_bytes = 8 << 20;
    plan.limits.object_bytes_max = 4 << 20;
    let edge = start(plan);
    let ask = |target: &str| {
        let mut visitor = UnixStream::connect(&socket).unwrap();
        write!(visitor, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        visitor
    };
    // Visitors who read nothing of bodies that exceed the share of memory for bodies in transit.
    let mut slow = Vec::new();
    for number in 1..=12 {
        slow.push(ask(&format!("/3000000-{number}")));
        eventually("the body is not kept", || metric(&edge, "petasos_fillings_unkept_total", "") == number);
    }
    for _ in 0..2 {
        let mut page = Vec::new();
        ask("/60000").read_to_end(&mut page).unwrap();
        assert!(page.len() > 60_000);
    }
    assert_eq!(origin.count("/60000"), 1, "slow downloads kept a page from being stored");
}
