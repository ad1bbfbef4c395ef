//! How Petasos, nginx, Varnish and HAProxy serve visitors while their application fails: it refuses
//! connections, hangs, is slow, answers each second request with an error, flaps, or truncates its
//! responses.
//!
//! Invariant: every server has the same failure, the same visitors and a fresh application. The
//! pages of the visitors were stored and have expired. The figures are not judged.

use super::attacks::origin::{AttackOrigin, PageFault};
use super::attacks::peers::{ComparedServer, PEERS, PeerArgs, PeerDirectory};
use super::attacks::{EXPIRY, SETUP};
use super::markdown;
use super::visitors::{MEASURED, Visit, VisitKind, VisitedServer, millis, percentile};
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Workers of the application.
const WORKERS: usize = 16;
/// Number of pages.
const PAGES: usize = 40;
/// Time for which a flapping application refuses connections, and for which it accepts them.
const FLAP: Duration = Duration::from_secs(1);

/// A failure of the application.
#[derive(Clone, Copy, Debug)]
enum OriginFailure {
    Nothing,
    Refuses,
    Hangs,
    Flaps,
    Responses(PageFault),
}

const FAILURES: [(&str, OriginFailure); 7] = [
    ("nothing", OriginFailure::Nothing),
    ("refuses connections", OriginFailure::Refuses),
    ("hangs", OriginFailure::Hangs),
    ("takes a second for a page", OriginFailure::Responses(PageFault::Slow(Duration::from_secs(1)))),
    ("half of the responses are 503", OriginFailure::Responses(PageFault::HalfErrors)),
    ("flaps every second", OriginFailure::Flaps),
    ("truncates responses", OriginFailure::Responses(PageFault::Truncated)),
];

/// Runs the failures and prints one table for each.
///
/// # Errors
/// If a server does not start.
pub(super) fn run(args: &PeerArgs) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => super::optimised("petasos")?,
    };
    let directory = PeerDirectory::settle(&program, &SETUP)?;
    println!("{}. The application has {WORKERS} workers.", directory.versions()?);
    for (name, failure) in FAILURES.iter().filter(|(name, _)| name.contains(&args.only)) {
        let mut rows = Vec::new();
        for peer in PEERS {
            let row =
                turn(*failure, peer, &directory).with_context(|| format!("{} and {name}", peer.name()))?;
            eprintln!("{name}: {}", row.join(", "));
            rows.push(row);
        }
        let head = ["server", "without a page", "p50 ms", "p99 ms", "requests to the application a second"];
        println!("\n### {name}\n\n{}", markdown(&head, &rows));
    }
    Ok(())
}

/// Lets the application fail behind one server. Returns a row of the table.
fn turn(failure: OriginFailure, peer: ComparedServer, directory: &PeerDirectory) -> Result<Vec<String>> {
    let origin = AttackOrigin::start(WORKERS)?;
    let running = directory.start(peer, origin.address())?;
    let server = VisitedServer::new(running.address);
    for number in 0..PAGES {
        // Stores the page. A server that does not answer has no figures below.
        let _ = server.ask(0, &page(number));
    }
    std::thread::sleep(EXPIRY);
    let before = origin.requests();
    let is_over = AtomicBool::new(false);
    let visits = std::thread::scope(|threads| {
        match failure {
            OriginFailure::Nothing => {}
            OriginFailure::Refuses => origin.refuse(),
            OriginFailure::Hangs => origin.hang(),
            OriginFailure::Responses(fault) => origin.fail(fault),
            OriginFailure::Flaps => {
                threads.spawn(|| flap(&origin, &is_over));
            }
        }
        let visits = server.visit(|visitor, number| Visit {
            target: page(usize::from(visitor) * 7 + number * 31),
            kind: VisitKind::Stored,
        });
        is_over.store(true, Ordering::Relaxed);
        visits
    });
    let requests = (origin.requests() - before) as f64 / MEASURED.as_secs_f64();
    let all = visits.refused + visits.stored.len();
    let [p50, p99] = [50, 99].map(|percent| millis(percentile(visits.stored.clone(), percent)));
    let refused = format!("{} of {all}", visits.refused);
    Ok(vec![peer.name().to_owned(), refused, p50, p99, format!("{requests:.0}")])
}

fn page(number: usize) -> String {
    format!("/stale/{}", number % PAGES)
}

fn flap(origin: &AttackOrigin, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        origin.refuse();
        std::thread::sleep(FLAP);
        if let Err(error) = origin.revive() {
            eprintln!("error: {error:#}");
            return;
        }
        std::thread::sleep(FLAP);
    }
}
