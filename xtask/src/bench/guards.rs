//! Floods Petasos, nginx, Varnish and HAProxy, each with limits for its clients, in front of an
//! application with few workers. Honest visitors send requests before and during each flood.
//!
//! Invariant: every server has the same flood, the same visitors and a fresh application. The
//! server has one core; application, visitors and attackers share another, and attackers have the
//! lowest priority. The figures are not judged.

mod floods;

use super::attacks::origin::AttackOrigin;
use super::attacks::peers::{ComparedServer, PEERS, PeerDirectory, PeerSetup};
use super::markdown;
use anyhow::{Context, Result};
use clock::{Clock, Monotonic};
use floods::{FLOODS, Flood};
use platform::SystemClock;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::{Client, allow_descriptors};

/// Workers of the application. Each takes 10 ms for a page, so it answers 1,600 requests a second.
const WORKERS: usize = 16;
/// Number of honest visitors, each in a network of its own.
const HONEST: u8 = 20;
/// Time between two requests of a visitor.
const VISIT_EVERY: Duration = Duration::from_millis(100);
/// One of this many requests of a visitor is for a page that is never stored.
const OWN_EVERY: usize = 5;
/// Time for which visitors send requests, without and with a flood.
const MEASURED: Duration = Duration::from_secs(8);
/// Time for a flood to take effect before the visits.
const SETTLE: Duration = Duration::from_secs(3);
/// Receive buffer of an ordinary client, in bytes.
const RECEIVE_BYTES: usize = 64 << 10;
/// Bound of the descriptors of this program.
const DESCRIPTORS: u64 = 16_384;

const SETUP: PeerSetup = PeerSetup {
    directory: "target/bench-guards",
    prefix: "taskset -c 0",
    packages: &[("varnish-modules", Some("varnish-modules"))],
    // The attackers are on this machine, whose addresses have no limits by default.
    petasos: "[guard]\nallow = []\norigin_requests_per_second = 20\norigin_burst = 40\n",
    nginx: include_str!("../../../bench/peers/guards-nginx.conf"),
    varnish: include_str!("../../../bench/peers/guards-varnish.vcl"),
    haproxy: include_str!("../../../bench/peers/guards-haproxy.cfg"),
};

/// Arguments of `cargo xtask bench guards`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only floods whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Test this binary of Petasos instead of the one that was built
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// A server with its application.
pub(super) struct FloodedServer {
    pub(super) address: SocketAddr,
    clock: SystemClock,
}

/// What visitors have seen.
#[derive(Debug, Default)]
struct Visits {
    hits: Vec<Duration>,
    own: Vec<Duration>,
    refused: usize,
}

/// Runs the floods and prints one table for each.
///
/// # Errors
/// If a server does not start.
pub(super) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => super::optimised("petasos")?,
    };
    allow_descriptors(DESCRIPTORS);
    let directory = PeerDirectory::settle(&program, &SETUP)?;
    use_second_core();
    println!("{}. The application has {WORKERS} workers.", directory.versions()?);
    for flood in FLOODS.iter().filter(|flood| flood.name.contains(&args.only)) {
        let mut rows = Vec::new();
        for peer in PEERS {
            let row = turn(flood, peer, &directory)
                .with_context(|| format!("{} and {}", peer.name(), flood.name))?;
            eprintln!("{}: {}", flood.name, row.join(", "));
            rows.push(row);
        }
        let head = [
            "server",
            "refused",
            "p99 of hits, ms: without, with",
            "times",
            "p99 of own pages, ms: without, with",
            "times",
            "flood a second",
            "requests to the application a second",
        ];
        println!("\n### {}\n\n{}", flood.name, markdown(&head, &rows));
    }
    Ok(())
}

/// Keeps the server's core free of this program, if the machine has a second core.
fn use_second_core() {
    let second = sched_getaffinity(None).ok().filter(|all| all.is_set(1));
    if second.is_some() {
        let mut core = CpuSet::new();
        core.set(1);
        // Without it the figures are only noisier.
        let _ = sched_setaffinity(None, &core);
    }
}

/// Runs a flood against one server. Returns a row of the table.
fn turn(flood: &Flood, peer: ComparedServer, directory: &PeerDirectory) -> Result<Vec<String>> {
    let origin = AttackOrigin::start(WORKERS)?;
    let running = directory.start(peer, origin.address())?;
    let server = FloodedServer { address: running.address, clock: SystemClock::new() };
    // The pages are stored.
    for visitor in 0..HONEST {
        let _ = server.ask(visitor_address(visitor), &page(visitor));
    }
    let quiet = server.visit();
    let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (visits, requests, sent) = std::thread::scope(|threads| {
        for number in 0..flood.attackers {
            let (server, is_over, sent) = (&server, &is_over, &sent);
            threads.spawn(move || {
                // Without it the attackers take time from visitors.
                let _ = rustix::process::setpriority_process(None, 19);
                (flood.attack)(server, number, &|| is_over.load(Ordering::Relaxed), sent);
            });
        }
        std::thread::sleep(SETTLE);
        let before = (origin.requests(), sent.load(Ordering::Relaxed));
        let visits = server.visit();
        let after = (origin.requests(), sent.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        (visits, after.0 - before.0, after.1 - before.1)
    });
    let seconds = MEASURED.as_secs_f64();
    let refused = visits.refused;
    let all = refused + visits.hits.len() + visits.own.len();
    let mut row = vec![peer.name().to_owned(), format!("{refused} of {all}")];
    for (quiet, flooded) in [(quiet.hits, visits.hits), (quiet.own, visits.own)] {
        let (quiet, flooded) = (p99(quiet), p99(flooded));
        row.push(format!("{}, {}", millis(quiet), millis(flooded)));
        row.push(quiet.zip(flooded).map_or_else(dash, |(quiet, flooded)| {
            format!("{:.2}", flooded.as_secs_f64() / quiet.as_secs_f64())
        }));
    }
    row.push(format!("{:.0}", sent as f64 / seconds));
    row.push(format!("{:.0}", requests as f64 / seconds));
    Ok(row)
}

fn p99(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).copied()
}

fn millis(time: Option<Duration>) -> String {
    time.map_or_else(dash, |time| format!("{:.1}", time.as_secs_f64() * 1e3))
}

fn dash() -> String {
    "-".to_owned()
}

fn visitor_address(visitor: u8) -> [u8; 4] {
    [127, 0, 100 + visitor, 1]
}

fn page(visitor: u8) -> String {
    format!("/page/{visitor}")
}

impl FloodedServer {
    /// Sends a request on a new connection. Returns the time of a complete 200 response.
    fn ask(&self, from: [u8; 4], target: &str) -> Option<Duration> {
        let begun = self.clock.monotonic();
        let request = format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n");
        let answer = Client::try_connect_from(from, self.address, RECEIVE_BYTES)?.try_ask(request)?;
        (answer.status == 200 && answer.complete).then(|| self.clock.monotonic().since(begun))
    }

    /// Honest visitors send requests at a constant rate.
    fn visit(&self) -> Visits {
        let visits = Mutex::new(Visits::default());
        std::thread::scope(|threads| {
            for visitor in 0..HONEST {
                let visits = &visits;
                threads.spawn(move || self.visit_as(visitor, visits));
            }
        });
        visits.into_inner().unwrap_or_default()
    }

    fn visit_as(&self, visitor: u8, visits: &Mutex<Visits>) {
        let begun = self.clock.monotonic();
        // Shifted, so that the visitors alternate.
        let mut next = begun.plus(VISIT_EVERY * u32::from(visitor) / u32::from(HONEST));
        for number in 0.. {
            std::thread::sleep(next.since(self.clock.monotonic()));
            if self.clock.monotonic().since(begun) >= MEASURED {
                return;
            }
            let is_own = number % OWN_EVERY == 0;
            let target = if is_own { format!("/own/{visitor}/{number}") } else { page(visitor) };
            let time = self.ask(visitor_address(visitor), &target);
            // A poisoned lock means that another visitor panicked, which has already been printed.
            let Ok(mut visits) = visits.lock() else { return };
            match time {
                Some(time) if is_own => visits.own.push(time),
                Some(time) => visits.hits.push(time),
                None => visits.refused += 1,
            }
            drop(visits);
            next = later(next.plus(VISIT_EVERY), self.clock.monotonic());
        }
    }

    /// The time of the server's clock.
    pub(super) fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }
}

/// The later of two times.
fn later(one: Monotonic, other: Monotonic) -> Monotonic {
    if one.since(other).is_zero() { other } else { one }
}
