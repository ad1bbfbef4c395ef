//! A restart under load: the first requests after it have as many hits as the last ones before it.
//!
//! The test counts requests and not seconds, so it does not depend on speed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use stats::Random;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{Client, Edge, Origin, eventually, response};

const PAGES: usize = 1_000;
const VISITORS: u64 = 4;

/// Number of requests before and after the restart that are compared.
const WINDOW: usize = 2_000;

/// One request in this many is for a new page, and one in this many purges its page first.
const NEW_EVERY: usize = 20;
const PURGE_EVERY: usize = 40;

/// The load, which continues whatever happens to the edge.
struct SteadyLoad {
    /// Address of the current edge, and its index in `hits`.
    edge: Mutex<(SocketAddr, usize)>,
    /// For each edge, whether each response was a hit.
    hits: Mutex<[Vec<bool>; 2]>,
    is_over: AtomicBool,
    /// Cumulative weights of the pages by rank, following Zipf's law with exponent 1.
    shares: Vec<f64>,
}

impl SteadyLoad {
    fn new(edge: SocketAddr) -> Self {
        let mut sum = 0.0;
        let shares = (1..=PAGES).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let shares = shares.collect();
        Self { edge: Mutex::new((edge, 0)), hits: Mutex::default(), is_over: AtomicBool::new(false), shares }
    }

    fn page(&self, random: &mut Random) -> usize {
        let at = random.below(1 << 32) as f64 / (1_u64 << 32) as f64 * self.shares[PAGES - 1];
        self.shares.partition_point(|share| *share < at)
    }

    /// Sends the requests of one visitor until the load is over.
    fn visit(&self, number: u64) {
        let mut random = Random::from_seed(number);
        let mut connection = None;
        let mut count = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            count += 1;
            let (edge, which) = *self.edge.lock().unwrap();
            let kept = connection.take().filter(|(_, of)| *of == which).map(|(client, _)| client);
            let Some(mut client) = kept.or_else(|| Client::try_connect(edge)) else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let target = match count % NEW_EVERY {
                0 => format!("/new-{number}-{count}"),
                _ => format!("/page-{}", self.page(&mut random)),
            };
            if count % PURGE_EVERY == 1 && client.try_ask(request("PURGE", &target)).is_none() {
                continue;
            }
            let Some(answer) = client.try_ask(request("GET", &target)).filter(|answer| answer.complete)
            else {
                continue;
            };
            assert!(answer.status == 200 && answer.text().starts_with(&target), "{}", answer.head);
            let is_hit = answer.field("Cache-Status").unwrap().contains("detail=hit-fresh");
            self.hits.lock().unwrap()[which].push(is_hit);
            connection = Some((client, which));
        }
    }

    fn wait_for(&self, which: usize, answers: usize) {
        let count = || self.hits.lock().unwrap()[which].len();
        while count() < answers {
            let before = count();
            eventually("the load goes on", || count() > before);
        }
    }
}

fn request(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n\r\n")
}

/// Number of hits among the last requests before a restart by this signal, and among the first
/// after it.
fn hits_around_restart(signal: &str) -> (usize, usize) {
    let origin = Origin::start(|seen| {
        let content = seen.target().repeat(300);
        response("200 OK", &["Cache-Control: max-age=86400"], content.as_bytes())
    });
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--disk", directory.path().to_str().unwrap(), "--memory", "64MiB"];
    let mut edge = Edge::start(&origin.url(), &arguments);
    let mut client = Client::connect(edge.address);
    for page in 0..PAGES {
        client.get(&format!("/page-{page}"), &[]);
    }
    // Unwritten content may be lost with the edge, and the time until it is written depends on the
    // machine.
    eventually("all is written", || edge.metric("petasos_disk_queue_bytes", "") <= 0.0);
    let load = SteadyLoad::new(edge.address);
    std::thread::scope(|threads| {
        for number in 0..VISITORS {
            let load = &load;
            threads.spawn(move || load.visit(number));
        }
        load.wait_for(0, WINDOW + WINDOW / 4);
        edge.signal(signal);
        edge.wait();
        edge = Edge::start(&origin.url(), &arguments);
        *load.edge.lock().unwrap() = (edge.address, 1);
        load.wait_for(1, WINDOW);
        load.is_over.store(true, Ordering::SeqCst);
    });
    let [before, after] = load.hits.into_inner().unwrap();
    let hits = |answers: &[bool]| answers.iter().filter(|is_hit| **is_hit).count();
    (hits(&before[before.len() - WINDOW..]), hits(&after[..WINDOW]))
}

#[test]
fn restart_under_load_keeps_the_hit_ratio() {
    for signal in ["TERM", "KILL"] {
        let (before, after) = hits_around_restart(signal);
        // A difference of two percentage points of the hit ratio is allowed.
        assert!(before.abs_diff(after) <= WINDOW / 50, "{signal}: {before} and {after} of {WINDOW}");
        assert!(before > WINDOW * 8 / 10 && before < WINDOW, "{before}: not the load that was meant");
    }
}
