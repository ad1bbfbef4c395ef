//! Petasos with a fixed and with an adaptive limit of requests at a time, before an application
//! with few workers and with more visitors than it can serve.
//!
//! Invariant: each row has a fresh application and a fresh Petasos. The figures are not judged.

use super::attacks::origin::{AttackOrigin, PageFault};
use super::attacks::peers::{ComparedServer, PeerDirectory, PeerSetup};
use super::markdown;
use super::visitors::{VisitedServer, millis, percentile};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Visitors, each with an address and one request at a time.
const VISITORS: u8 = 96;
/// Time for the limit to adapt before the measurement.
const SETTLE: Duration = Duration::from_secs(40);
/// Time of the measurement.
const MEASURED: Duration = Duration::from_secs(20);
/// One of this many pages is slow.
const SLOW_EVERY: usize = 10;

/// Arguments of the benchmark.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only applications whose title contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Test this binary of Petasos instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// The same setup with these lines in the configuration of Petasos.
const fn setup(petasos: &'static str) -> PeerSetup {
    PeerSetup {
        directory: "target/bench-limits",
        prefix: "",
        packages: &[],
        petasos,
        nginx: "",
        varnish: "",
        haproxy: "",
    }
}

static FIXED: PeerSetup = setup("");
static ADAPTIVE: PeerSetup = setup("origin_limit = \"adaptive\"\n");

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const APPLICATIONS: [(&str, usize, PageFault); 3] = [
    ("4 workers, 20 ms", 4, PageFault::Slow(ms(20))),
    ("4 workers, 5 ms and a tenth 200 ms", 4, PageFault::Mixed(ms(5), ms(200))),
    ("16 workers, 50 ms", 16, PageFault::Slow(ms(50))),
];

/// Runs the applications behind both limits and prints a table.
///
/// # Errors
/// If Petasos does not start.
pub(super) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => super::optimised("petasos")?,
    };
    let mut rows = Vec::new();
    for (name, workers, pages) in APPLICATIONS.into_iter().filter(|(name, ..)| name.contains(&args.only)) {
        for (limit, setup) in [("fixed", &FIXED), ("adaptive", &ADAPTIVE)] {
            let directory = PeerDirectory::settle(&program, setup)?;
            let row = turn(&format!("{name}, {limit}"), (workers, pages), &directory)
                .with_context(|| format!("{name}, {limit}"))?;
            eprintln!("{}", row.join(", "));
            rows.push(row);
        }
    }
    let head = [
        "application and limit",
        "responses a second",
        "p50 in the application, ms",
        "p99 in the application, ms",
        "p50 of visitors, ms",
        "p99 of visitors, ms",
        "without a page",
    ];
    println!("\n{}", markdown(&head, &rows));
    Ok(())
}

fn turn(name: &str, (workers, pages): (usize, PageFault), directory: &PeerDirectory) -> Result<Vec<String>> {
    let origin = AttackOrigin::start(workers)?;
    let running = directory.start(ComparedServer::Petasos, origin.address())?;
    let server = VisitedServer::new(running.address);
    origin.fail(pages);
    let (is_measured, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let times = Mutex::new((Vec::new(), 0_usize));
    let inside = std::thread::scope(|threads| {
        for visitor in 0..VISITORS {
            let (server, is_measured, is_over, times) = (&server, &is_measured, &is_over, &times);
            threads.spawn(move || {
                for number in usize::from(visitor).. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let kind = if number.is_multiple_of(SLOW_EVERY) { "slow" } else { "quick" };
                    let time = server.ask(visitor, &format!("/own/{kind}/{}", number % 100));
                    if is_measured.load(Ordering::Relaxed)
                        && let Ok(mut times) = times.lock()
                    {
                        match time {
                            Some(time) => times.0.push(time),
                            None => times.1 += 1,
                        }
                    }
                }
            });
        }
        std::thread::sleep(SETTLE);
        origin.take_times();
        is_measured.store(true, Ordering::Relaxed);
        std::thread::sleep(MEASURED);
        is_measured.store(false, Ordering::Relaxed);
        let inside = origin.take_times();
        is_over.store(true, Ordering::Relaxed);
        inside
    });
    let (times, failed) = times.into_inner().unwrap_or_default();
    let mut row = vec![name.to_owned(), format!("{:.0}", times.len() as f64 / MEASURED.as_secs_f64())];
    for times in [inside, times] {
        row.extend([50, 99].map(|percent| millis(percentile(times.clone(), percent))));
    }
    row.push(failed.to_string());
    Ok(row)
}
