//! Downloads that cost memory, against the real binary. Resident memory must stay within `--memory`
//! plus the margin stated in docs/performance.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use std::path::Path;
use testkit::attack::is_long;
use testkit::{Action, Client, Edge, Gate, Origin, eventually};

/// Value of `--memory`, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Bound on resident memory.
const RESIDENT_BYTES_MAX: u64 = Edge::resident_bytes_max(MEMORY_BYTES);
/// Number of simultaneous downloads: slightly below the default of `limits.fetches_max`, 64.
const DOWNLOADS: usize = 60;

/// Size of a large body, in bytes: more than the system's socket buffers hold.
fn body_bytes() -> usize {
    if is_long() { 16 << 20 } else { 6 << 20 }
}

/// An origin of large bodies. It sends the first 64 KiB of each at once and the rest when `gate` is
/// open.
fn origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |seen| {
        let bytes = if seen.target().starts_with("/small/") { SMALL_BYTES } else { body_bytes() };
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {bytes}\r\n\r\n");
        let first = vec![b'x'; 64 << 10];
        let rest = vec![b'x'; bytes - first.len()];
        vec![
            Action::Send(head.into_bytes()),
            Action::Send(first),
            Action::Await(gate.clone()),
            Action::Send(rest),
        ]
    })
}

/// An edge with a disk that keeps bodies above 1 MiB out of memory.
fn edge(origin: &Origin, directory: &Path) -> Edge {
    // All downloads come from the same address here.
    let configuration = "[limits]\nobject_bytes_max = \"1MiB\"\nclient_fetches_max = 64\n";
    let disk = directory.join("cache");
    let arguments = ["--disk", disk.to_str().unwrap(), "--disk-size", "4GiB", "--memory", "64MiB"];
    Edge::configured(&origin.url(), configuration, &arguments)
}

fn check_resident(edge: &Edge, name: &str) {
    let resident = edge.resident_bytes_peak();
    println!("attack: {name}: {resident} bytes resident of at most {RESIDENT_BYTES_MAX}");
    assert!(resident <= RESIDENT_BYTES_MAX, "{name}: {resident} bytes resident");
}

/// Sends a request without reading the response.
fn ask(edge: &Edge, target: &str) -> Client {
    let mut client = Client::connect(edge.address);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", edge.address));
    client
}

#[test]
fn aborted_downloads_stay_within_memory() {
    let gate = Gate::default();
    let origin = origin(&gate);
    let directory = tempfile::tempdir().unwrap();
    let edge = edge(&origin, directory.path());
    let mut visitors: Vec<Client> = (0..DOWNLOADS).map(|number| ask(&edge, &format!("/{number}"))).collect();
    visitors.iter_mut().for_each(|client| assert_eq!(client.read_head().status, 200));
    drop(visitors);
    gate.open();
    eventually("no fetch is open", || edge.metric("petasos_origin_fetches_active", "") <= 0.0);
    check_resident(&edge, "aborted downloads");
}

/// Number of bodies on the disk, and of visitors who request them and stop reading after the head.
const STORED: usize = 6;
const SLOW_VISITORS: usize = 160;

/// Bodies that fit into memory one by one but not all together, and their size in bytes. Readers,
/// and the number of requests of each.
const SMALL: usize = 120;
const SMALL_BYTES: usize = 900_000;
const READERS: usize = 40;
const READS: usize = 20;

#[test]
fn slow_readers_of_bodies_on_the_disk_stay_within_memory() {
    let gate = Gate::default();
    gate.open();
    let origin = origin(&gate);
    let directory = tempfile::tempdir().unwrap();
    let edge = edge(&origin, directory.path());
    for number in 0..STORED {
        let mut visitor = ask(&edge, &format!("/{number}"));
        assert!(visitor.read().complete);
    }
    eventually("all is on the disk", || edge.metric("petasos_disk_objects", "") >= STORED as f64);
    let fetches = edge.metric("petasos_origin_fetches_total", "");
    let mut visitors: Vec<Client> =
        (0..SLOW_VISITORS).map(|number| ask(&edge, &format!("/{}", number % STORED))).collect();
    visitors.iter_mut().for_each(|visitor| assert_eq!(visitor.read_head().status, 200));
    // The bodies still arrive complete. When the last of these has been read, the edge has served
    // several whole bodies beside the visitors that read nothing. If it read ahead for those, it
    // would have done so by then, and the peak of its memory would show it.
    let last = visitors.iter_mut().take(STORED).map(|visitor| visitor.read_octets(body_bytes()));
    assert!(last.into_iter().all(|body| body.iter().all(|octet| *octet == b'x')));
    assert_eq!(edge.metric("petasos_origin_fetches_total", "") - fetches, 0.0, "all come from the disk");
    check_resident(&edge, "slow readers of bodies on the disk");
}

#[test]
fn store_keeps_a_quarter_while_bodies_are_read_back() {
    let gate = Gate::default();
    gate.open();
    let origin = origin(&gate);
    let directory = tempfile::tempdir().unwrap();
    let edge = edge(&origin, directory.path());
    for number in 0..SMALL {
        assert!(ask(&edge, &format!("/small/{number}")).read().complete);
    }
    let read = |edge: &Edge, reader: usize| {
        for number in 0..READS {
            let target = format!("/small/{}", (reader * 7 + number * 31) % SMALL);
            let answer = ask(edge, &target).read();
            assert_eq!((answer.complete, answer.body.len()), (true, SMALL_BYTES));
        }
    };
    let least = std::thread::scope(|scope| {
        let edge = &edge;
        let readers: Vec<_> = (0..READERS).map(|reader| scope.spawn(move || read(edge, reader))).collect();
        let mut least = f64::INFINITY;
        while readers.iter().any(|reader| !reader.is_finished()) {
            least = least.min(edge.metric("petasos_store_bytes_max", ""));
        }
        least
    });
    // A quarter of the memory that remains for the store (decision 64). Bodies in transit take an
    // eighth and buffers 5%.
    let least_of_store = ((MEMORY_BYTES - MEMORY_BYTES / 8 - MEMORY_BYTES / 20) / 4) as f64;
    println!(
        "attack: memory left to the store while bodies are read back: {least} of at least {least_of_store}"
    );
    assert!(least >= least_of_store, "{least}");
    check_resident(&edge, "reading back");
}
