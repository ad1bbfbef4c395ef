//! Slow clients against the real binary. Uploads and downloads that never end must not keep other
//! clients from pages that are not stored.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use testkit::{Action, Client, Edge, Gate, Origin, Seen, eventually, response};

/// Number of slow clients: more than the default of `limits.fetches_max`, 64.
const SLOW: u8 = 80;
/// Number of honest visitors. Each requests one page that the cache lacks.
const HONEST: usize = 20;
/// Size of a download, in bytes: more than read-ahead and socket buffers hold together.
const DOWNLOAD_BYTES: usize = 4 << 20;
/// Receive buffer of a slow reader, in bytes.
const RECEIVE_BYTES: usize = 4 * 1024;
/// Memory that slow downloads may add to the process, in bytes.
const RESIDENT_BYTES_MAX: u64 = 160 << 20;

/// An origin with downloads of [`DOWNLOAD_BYTES`] (private and public), pages that wait for `gate`,
/// and pages that are never stored.
fn origin(gate: Gate) -> Origin {
    let download = vec![b'x'; DOWNLOAD_BYTES];
    Origin::start(move |seen: &Seen| match seen.target().split('/').nth(1) {
        Some("private") => response("200 OK", &["Cache-Control: private"], &download),
        Some("public") => response("200 OK", &["Cache-Control: max-age=600"], &download),
        Some("waits") => {
            let mut actions = vec![Action::Await(gate.clone())];
            actions.extend(response("200 OK", &["Cache-Control: private"], b"late"));
            actions
        }
        _ => response("200 OK", &["Cache-Control: private"], seen.target().as_bytes()),
    })
}

/// A slow client. Eight of them share an address, to stay below `limits.client_fetches_max`.
fn slow_client(edge: &Edge, number: u8) -> Client {
    Client::connect_from([127, 0, 1, 1 + number / 8], edge.address, RECEIVE_BYTES)
}

/// Starts downloads and reads only the heads of the first 48.
fn begin_downloads(edge: &Edge, directory: &str) -> Vec<Client> {
    let begin = |number| {
        let mut client = slow_client(edge, number);
        client
            .send(format!("GET /{directory}/{number} HTTP/1.1\r\nHost: a.test\r\nCookie: session=1\r\n\r\n"));
        client
    };
    let mut clients: Vec<Client> = (0..SLOW).map(begin).collect();
    // The edge may start only as many downloads as it has fetches, so not all heads are awaited.
    clients.iter_mut().take(48).for_each(|client| assert_eq!(client.read_head().status, 200));
    clients
}

/// Requests pages that are not stored, all at once. Returns the number of responses without status
/// 200.
fn refused_visitors(edge: &Edge, attack: &str) -> usize {
    let address = edge.address;
    let ask = |number: usize| {
        std::thread::spawn(move || {
            let answer = Client::connect(address).get(&format!("/page/{number}"), &["Cookie: session=1"]);
            usize::from(answer.status != 200)
        })
    };
    let visitors: [_; HONEST] = std::array::from_fn(ask);
    let refused = visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum();
    println!("attack: pages that are not stored during {attack}: {refused} of {HONEST} refused, at most 0");
    refused
}

#[test]
fn slow_uploads_do_not_block_uncached_pages() {
    let origin = origin(Gate::default());
    let edge = Edge::start(&origin.url(), &[]);
    let begin = |number| {
        let mut client = slow_client(&edge, number);
        client.send("POST /form HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n0123456789");
        client
    };
    let clients: Vec<Client> = (0..SLOW).map(begin).collect();
    eventually("every upload has begun", || edge.metric("petasos_connections_open", "") >= f64::from(SLOW));
    assert_eq!(refused_visitors(&edge, "slow uploads"), 0);
    drop(clients);
    assert_eq!(origin.count("/form"), 0, "an upload that broke off reached the origin");
}

#[test]
fn slow_downloads_do_not_block_uncached_pages() {
    let origin = origin(Gate::default());
    let edge = Edge::start(&origin.url(), &["--memory", "64MiB"]);
    let before = edge.resident_bytes();
    let clients = begin_downloads(&edge, "private");
    assert_eq!(refused_visitors(&edge, "slow downloads"), 0);
    let resident = edge.resident_bytes().saturating_sub(before);
    println!("attack: memory of slow downloads: {resident} bytes of at most {RESIDENT_BYTES_MAX}");
    assert!(resident <= RESIDENT_BYTES_MAX);
    drop(clients);
}

#[test]
fn slow_readers_of_shared_fetches_do_not_block_other_pages() {
    let origin = origin(Gate::default());
    // The bodies are too large for memory and there is no disk, so readers get them through a
    // sliding window.
    let edge = Edge::configured(&origin.url(), "[limits]\nobject_bytes_max = \"64KiB\"\n", &[]);
    let begin = |number| {
        let mut client = slow_client(&edge, number);
        client.send(format!("GET /public/{number} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client
    };
    let mut clients: Vec<Client> = (0..SLOW).map(begin).collect();
    clients.iter_mut().take(48).for_each(|client| assert_eq!(client.read_head().status, 200));
    assert_eq!(refused_visitors(&edge, "slow readers of shared fetches"), 0);
}

#[test]
fn one_address_does_not_take_all_fetches() {
    let gate = Gate::default();
    let origin = origin(gate.clone());
    let edge = Edge::start(&origin.url(), &[]);
    let begin = |number| {
        let mut client = Client::connect_from([127, 0, 2, 1], edge.address, RECEIVE_BYTES);
        client.send(format!("GET /waits/{number} HTTP/1.1\r\nHost: a.test\r\nCookie: session=1\r\n\r\n"));
        client
    };
    let clients: Vec<Client> = (0..SLOW).map(begin).collect();
    eventually("its requests wait", || edge.metric("petasos_origin_fetches_waiting", "") > 0.0);
    assert_eq!(refused_visitors(&edge, "slow pages for one address"), 0);
    gate.open();
    drop(clients);
}

#[test]
fn slow_downloads_without_a_spool_do_not_block_uncached_pages() {
    let origin = origin(Gate::default());
    let configuration = "spool_directory = \"none\"\n[limits]\nbuffer_memory_percent = 1\n";
    let edge = Edge::configured(&origin.url(), configuration, &["--memory", "64MiB"]);
    let clients = begin_downloads(&edge, "private");
    assert_eq!(refused_visitors(&edge, "slow downloads without a spool"), 0);
    let (buffered, stalled) =
        (edge.metric("petasos_buffered_bytes", ""), edge.metric("petasos_origin_fetches_stalled", ""));
    println!("attack: memory of full buffers: {buffered} bytes of at most {}", (64 << 20) / 100);
    println!("attack: responses that wait at their origin: {stalled} of at most 256");
    assert!(buffered <= f64::from((64 << 20) / 100) && stalled > 0.0 && stalled <= 256.0);
    drop(clients);
    eventually("nothing is left", || {
        edge.metric("petasos_origin_fetches_stalled", "") + edge.metric("petasos_buffered_bytes", "") <= 0.0
    });
}

#[test]
fn slow_uploads_beyond_the_buffers_do_not_block_uncached_pages() {
    let origin = origin(Gate::default());
    let configuration = "spool_directory = \"none\"\n[limits]\nbuffer_memory_percent = 1\n";
    let edge = Edge::configured(&origin.url(), configuration, &["--memory", "8MiB"]);
    for (attack, field) in
        [("slow uploads without room", ""), ("slow uploads that expect", "Expect: 100-continue\r\n")]
    {
        let begin = |number| {
            let mut client = slow_client(&edge, number);
            let head =
                format!("POST /form HTTP/1.1\r\nHost: a.test\r\n{field}Content-Length: 100000\r\n\r\n");
            client.send(head);
            client.send([b'x'; 40_000]);
            client
        };
        let clients: Vec<Client> = (0..SLOW).map(begin).collect();
        eventually("as many stream as may begin", || {
            edge.metric("petasos_requests_streamed_total", "") >= 64.0
        });
        assert_eq!(refused_visitors(&edge, attack), 0);
        drop(clients);
        eventually("nothing is left", || {
            let fetches = edge.metric("petasos_origin_fetches_active", "");
            fetches + edge.metric("petasos_origin_fetches_stalled", "") <= 0.0
        });
    }
    assert_eq!(origin.count("/form"), 0, "an upload that broke off reached the origin");
}

#[test]
fn crash_leaves_no_files_in_the_spool_directory() {
    let origin = origin(Gate::default());
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("petasos.1.0.spool");
    std::fs::write(&foreign, "foreign").unwrap();
    let configuration =
        format!("spool_directory = \"{}\"\nspool_size = \"16MiB\"\n", directory.path().display());
    let mut edge = Edge::configured(&origin.url(), &configuration, &["--memory", "64MiB"]);
    let clients = begin_downloads(&edge, "private");
    assert_eq!(refused_visitors(&edge, "slow downloads with a full spool"), 0);
    let spooled = edge.metric("petasos_spool_bytes", "");
    println!("attack: spool of slow downloads: {spooled} bytes of at most {}", 16 << 20);
    assert!(spooled > 0.0 && spooled <= f64::from(16 << 20));
    edge.kill();
    drop(clients);
    let left: Vec<_> = directory.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    println!("attack: files in the spool directory after a crash: {} of at most 1", left.len());
    assert!(left == [foreign.as_path()]);
    assert_eq!(std::fs::read_to_string(foreign).unwrap(), "foreign");
}

#[test]
fn clients_below_the_minimum_rate_are_disconnected() {
    let origin = origin(Gate::default());
    let configuration =
        "[limits]\nrequest_rate_min = \"1MiB\"\nresponse_rate_min = \"1GiB\"\nrate_window = \"200ms\"\n";
    let edge = Edge::configured(&origin.url(), configuration, &[]);
    let mut upload = slow_client(&edge, 0);
    upload.send("POST /form HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n0123456789");
    assert_eq!(upload.read().status, 408);
    let mut expecting = slow_client(&edge, 0);
    expecting
        .send("POST /form HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    eventually("the content streams", || edge.metric("petasos_origin_fetches_active", "") > 0.0);
    eventually("the content does not come", || edge.metric("petasos_origin_fetches_active", "") <= 0.0);
    let mut download = slow_client(&edge, 0);
    download.send("GET /private/0 HTTP/1.1\r\nHost: a.test\r\nCookie: session=1\r\n\r\n");
    eventually("slow clients are broken off", || edge.metric("petasos_visitors_too_slow", "") >= 3.0);
    println!(
        "attack: uploads of clients below the minimum rate: {} at the origin, at most 0",
        origin.count("/form")
    );
    assert_eq!(origin.count("/form"), 0);
}
