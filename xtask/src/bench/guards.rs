//! Floods Petasos, nginx, Varnish and HAProxy, each with limits for its clients, in front of an
//! application with few workers. Honest visitors send requests before and during each flood.
//!
//! Invariant: every server has the same flood, the same visitors and a fresh application. The
//! server has one core; application, visitors and attackers share another, and attackers have the
//! lowest priority. The figures are not judged.
//!
//! The first row is a loop that answers at once and has no application. Its loss under a flood
//! shows the cost of the attackers' own work on this machine, which every server bears, too.

mod floods;

use super::attacks::origin::AttackOrigin;
use super::attacks::peers::{ComparedServer, PEERS, PeerArgs, PeerDirectory, PeerSetup};
use super::markdown;
use super::visitors::{MEASURED, VISITORS, Visit, VisitKind, VisitedServer, Visits, millis, percentile};
use anyhow::{Context, Result};
use floods::{FLOODS, Flood};
use petasos_null::Responder;
use probe::{ProcFs, ProcessStat};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::allow_descriptors;

/// Workers of the application. Each takes 10 ms for a page, so it answers 1,600 requests a second.
const WORKERS: usize = 16;
/// One of this many requests of a visitor is for an uncacheable page.
const OWN_EVERY: usize = 5;
/// Time for a flood to take effect before the visits.
const SETTLE: Duration = Duration::from_secs(3);
/// Time limit of the bare loop for a head: the default of Petasos.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
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
        let mut rows = vec![bare_turn(flood)?];
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
            "processor seconds: server, all others",
        ];
        println!("\n### {}\n\n{}", flood.name, markdown(&head, &rows));
    }
    Ok(())
}

/// Keeps the server's core free of this program, if the machine has a second core.
pub(super) fn use_second_core() {
    let second = sched_getaffinity(None).ok().filter(|all| all.is_set(1));
    if second.is_some() {
        use_core(1);
    }
}

/// Runs this thread, and those that it starts, on one core.
fn use_core(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // Without it the figures are only noisier.
    let _ = sched_setaffinity(None, &cores);
}

/// The results of a flood.
struct FloodFigures {
    quiet: Visits,
    flooded: Visits,
    /// Units of the flood, and requests to the application, in [`MEASURED`].
    sent: u64,
    requests: usize,
    /// Processor seconds of the server, and of this program with visitors, attackers and
    /// application.
    server_secs: f64,
    own_secs: f64,
}

/// Floods a loop on the server's core. Returns its row of the table.
fn bare_turn(flood: &Flood) -> Result<Vec<String>> {
    let responder = Responder::bind("", b"page", Vec::new())?.with_head_timeout(HEAD_TIMEOUT);
    let server = VisitedServer::new(responder.address());
    let (is_ready, ready) = std::sync::mpsc::channel();
    // It serves until the program ends, and costs nothing without connections.
    std::thread::spawn(move || {
        use_core(0);
        let _ = is_ready.send(rustix::thread::gettid().as_raw_nonzero().get());
        let _ = responder.serve();
    });
    let stat = format!("/proc/self/task/{}/stat", ready.recv()?);
    let ticks = || {
        let stat = std::fs::read_to_string(&stat).ok().and_then(|text| ProcessStat::parse(&text));
        stat.map_or(0, |stat| stat.own_ticks)
    };
    let mut figures = flooded(flood, &server, || secs(ticks()), || 0);
    // The loop is a part of this program.
    figures.own_secs -= figures.server_secs;
    (figures.quiet.own, figures.flooded.own) = (Vec::new(), Vec::new());
    Ok(row("bare loop", figures))
}

/// Runs a flood against one server. Returns its row of the table.
fn turn(flood: &Flood, peer: ComparedServer, directory: &PeerDirectory) -> Result<Vec<String>> {
    let origin = AttackOrigin::start(WORKERS)?;
    let running = directory.start(peer, origin.address())?;
    let server = VisitedServer::new(running.address);
    for visitor in 0..VISITORS {
        // Stores the page. A server that does not answer has no figures below.
        let _ = server.ask(visitor, &page(visitor));
    }
    Ok(row(peer.name(), flooded(flood, &server, || running.cpu_secs(), || origin.requests())))
}

/// Visits a server without and with a flood.
fn flooded(
    flood: &Flood,
    server: &VisitedServer,
    server_secs: impl Fn() -> f64,
    requests: impl Fn() -> usize,
) -> FloodFigures {
    let quiet = server.visit(request);
    let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let own_ticks = || ProcFs::system().process(std::process::id()).map_or(0, |stat| stat.own_ticks);
    std::thread::scope(|threads| {
        for number in 0..flood.attackers {
            let (is_over, sent) = (&is_over, &sent);
            threads.spawn(move || {
                // Without it the attackers take time from visitors.
                let _ = rustix::process::setpriority_process(None, 19);
                (flood.attack)(server, number, &|| is_over.load(Ordering::Relaxed), sent);
            });
        }
        std::thread::sleep(SETTLE);
        let read = || (requests(), sent.load(Ordering::Relaxed), server_secs(), secs(own_ticks()));
        let before = read();
        let flooded = server.visit(request);
        let after = read();
        is_over.store(true, Ordering::Relaxed);
        FloodFigures {
            quiet,
            flooded,
            requests: after.0 - before.0,
            sent: after.1 - before.1,
            server_secs: after.2 - before.2,
            own_secs: after.3 - before.3,
        }
    })
}

/// Clock ticks in seconds.
fn secs(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn row(name: &str, figures: FloodFigures) -> Vec<String> {
    let FloodFigures { quiet, flooded, sent, requests, server_secs, own_secs } = figures;
    let refused = flooded.refused;
    let all = refused + flooded.stored.len() + flooded.own.len();
    let mut row = vec![name.to_owned(), format!("{refused} of {all}")];
    for (quiet, flooded) in [(quiet.stored, flooded.stored), (quiet.own, flooded.own)] {
        let (quiet, flooded) = (percentile(quiet, 99), percentile(flooded, 99));
        row.push(format!("{}, {}", millis(quiet), millis(flooded)));
        let times = quiet.zip(flooded).map(|(quiet, flooded)| flooded.as_secs_f64() / quiet.as_secs_f64());
        row.push(times.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}")));
    }
    let seconds = MEASURED.as_secs_f64();
    row.push(format!("{:.0}", sent as f64 / seconds));
    row.push(format!("{:.0}", requests as f64 / seconds));
    row.push(format!("{server_secs:.2}, {own_secs:.2}"));
    row
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
