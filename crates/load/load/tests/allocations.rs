//! In its steady state a worker allocates nothing for a request, whether it keeps its connections
//! or makes one for each request. This test runs in a separate process, so that no other test
//! allocates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{Close, Plan, Stop};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Requests before the first window. Buffers grow to their final size in this time.
const WARM_UP: usize = 1_000;
/// Allocations are counted in this many windows of this many requests.
const WINDOWS: usize = 50;
const WINDOW: usize = 100;
const REQUESTS: usize = WARM_UP + WINDOWS * WINDOW;

/// Counts allocations at the moments at which the server reads certain requests.
struct Windows {
    requests: AtomicUsize,
    /// All allocations of the process up to the beginning of each window and the end of the last.
    allocations: Mutex<Vec<usize>>,
}

impl Windows {
    fn new() -> Self {
        let allocations = Mutex::new(Vec::with_capacity(WINDOWS + 1));
        Self { requests: AtomicUsize::new(0), allocations }
    }

    fn count_request(&self) {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if number >= WARM_UP && (number - WARM_UP).is_multiple_of(WINDOW) {
            let stats = ALLOCATOR.stats();
            self.allocations.lock().unwrap().push(stats.allocations + stats.reallocations);
        }
    }

    /// The number of allocations in each window.
    fn allocations(self) -> Vec<usize> {
        let counts = self.allocations.into_inner().unwrap();
        counts.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// Answers the requests on a connection without allocating, up to `requests_max` of them.
fn serve(mut stream: TcpStream, requests_max: usize, windows: &Windows) {
    let answer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let mut octets = [0; 1024];
    let mut filled = 0;
    for _ in 0..requests_max {
        while !octets[..filled].ends_with(b"\r\n\r\n") {
            match stream.read(&mut octets[filled..]).unwrap() {
                0 => return,
                bytes => filled += bytes,
            }
        }
        filled = 0;
        windows.count_request();
        stream.write_all(answer).unwrap();
    }
}

/// Runs the plan against a server that allocates nothing per request. Returns the number of
/// allocations in each window, and the number of seconds that the run took.
fn run(plan: impl FnOnce(&str) -> Plan) -> (Vec<usize>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = plan(&format!("http://{}/", listener.local_addr().unwrap()));
    let windows = Windows::new();
    let outcome = std::thread::scope(|scope| {
        let (listener, windows, keep_alive, users) = (&listener, &windows, plan.keep_alive, plan.users);
        let connections = if keep_alive { users } else { REQUESTS };
        scope.spawn(move || {
            for _ in 0..connections {
                let (stream, _) = listener.accept().unwrap();
                if keep_alive {
                    scope.spawn(move || serve(stream, REQUESTS, windows));
                } else {
                    serve(stream, 1, windows);
                }
            }
        });
        petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap()
    });
    assert_eq!(outcome.good, REQUESTS as u64);
    assert_eq!(outcome.connections, if plan.keep_alive { plan.users } else { REQUESTS } as u64);
    (windows.allocations(), outcome.seconds.len())
}

fn plan(url: &str, users: usize, keep_alive: bool) -> Plan {
    let stop = Stop { requests: Some(REQUESTS as u64), ..Stop::default() };
    Plan { users, keep_alive, threads: 1, stop, ..Plan::new(HttpUrl::parse(url).unwrap()) }
}

// A single test, because tests of one binary run at the same time.
#[test]
fn steady_state_allocates_nothing_per_request() {
    for users in [1, 4] {
        for (keep_alive, close) in [(true, Close::Fin), (false, Close::Fin), (false, Close::Rst)] {
            let (allocations, seconds) = run(|url| Plan { close, ..plan(url, users, keep_alive) });
            assert_eq!(allocations.len(), WINDOWS);
            // The end of each second may allocate, to hand in its figures.
            let allocating = allocations.iter().filter(|count| **count > 0).count();
            assert!(
                allocating <= seconds,
                "{users} users, connections kept: {keep_alive}, {close:?}: {allocating} of {WINDOWS} windows \
                 allocate in {seconds} s: {allocations:?}"
            );
        }
    }
}
