//! Floods Petasos, nginx, Varnish and HAProxy, each with limits for its clients, in front of an
//! application with few workers. Honest visitors send requests before and during each flood.
//!
//! Invariant: every server has the same flood, the same visitors and a fresh application. The
//! server has one core; application, visitors and attackers share another, and attackers have the
//! lowest priority. The figures are not judged.

mod floods;

use super::attacks::origin::AttackOrigin;
use super::attacks::peers::{ComparedServer, PEERS, PeerArgs, PeerDirectory, PeerSetup};
use super::markdown;
use super::visitors::{MEASURED, VISITORS, Visit, VisitKind, VisitedServer, millis, percentile};
use anyhow::{Context, Result};
use floods::{FLOODS, Flood};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::allow_descriptors;

/// Workers of the application. Each takes 10 ms for a page, so it answers 1,600 requests a second.
const WORKERS: usize = 16;
/// One of this many requests of a visitor is for a page that is never stored.
const OWN_EVERY: usize = 5;
/// Time for a flood to take effect before the visits.
const SETTLE: Duration = Duration::from_secs(3);
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

/// Runs the floods and prints one table for each.
///
/// # Errors
/// If a server does not start.
pub(super) fn run(args: &PeerArgs) -> Result<()> {
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
    let server = VisitedServer::new(running.address);
    for visitor in 0..VISITORS {
        // Stores the page. A server that does not answer has no figures below.
        let _ = server.ask(visitor, &page(visitor));
    }
    let quiet = server.visit(request);
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
        let visits = server.visit(request);
        let after = (origin.requests(), sent.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        (visits, after.0 - before.0, after.1 - before.1)
    });
    let seconds = MEASURED.as_secs_f64();
    let refused = visits.refused;
    let all = refused + visits.stored.len() + visits.own.len();
    let mut row = vec![peer.name().to_owned(), format!("{refused} of {all}")];
    for (quiet, flooded) in [(quiet.stored, visits.stored), (quiet.own, visits.own)] {
        let (quiet, flooded) = (percentile(quiet, 99), percentile(flooded, 99));
        row.push(format!("{}, {}", millis(quiet), millis(flooded)));
        let times = quiet.zip(flooded).map(|(quiet, flooded)| flooded.as_secs_f64() / quiet.as_secs_f64());
        row.push(times.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}")));
    }
    row.push(format!("{:.0}", sent as f64 / seconds));
    row.push(format!("{:.0}", requests as f64 / seconds));
    Ok(row)
}

fn page(visitor: u8) -> String {
    format!("/page/{visitor}")
}

/// The requests of a visitor: most for a stored page.
fn request(visitor: u8, number: usize) -> Visit {
    if number.is_multiple_of(OWN_EVERY) {
        return Visit { target: format!("/own/{visitor}/{number}"), kind: VisitKind::Own };
    }
    Visit { target: page(visitor), kind: VisitKind::Stored }
}
