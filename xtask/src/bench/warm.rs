//! How much visitors notice while Petasos fills its cache with 1,000 pages after a purge of
//! everything: their times then, beside those in calm and after a purge without filling.
//!
//! Invariant: all phases have the same application and the same visitors. The figures are not
//! judged.

use super::attacks::origin::{AttackOrigin, PageFault};
use super::markdown;
use super::visitors::{MEASURED, Visit, VisitKind, VisitedServer, Visits, millis, percentile};
use anyhow::{Context, Result, ensure};
use clock::{Clock as _, Monotonic};
use platform::SystemClock;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Client, Edge};

/// Pages of the site.
const PAGES: usize = 1_000;

/// Workers of the application, and the time that each takes for a page.
const WORKERS: usize = 4;
const PAGE_TIME: Duration = Duration::from_millis(20);

/// One of this many requests of a visitor is for a page of the visitor's own.
const OWN_EVERY: usize = 4;

/// Phases of [`MEASURED`] in which the filling must end.
const PHASES_MAX: usize = 10;

/// Arguments of the benchmark.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Test this binary of Petasos instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Visits in calm, after a purge, and after a purge with subsequent filling.
///
/// # Errors
/// If Petasos does not start, or does not fill its cache.
pub(super) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => {
            // Only the server is built with optimisation; the load is too light to need it.
            super::build("petasos")?;
            super::optimised("petasos")?
        }
    };
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    let list = directory.path().join("urls");
    std::fs::write(&list, (0..PAGES).map(|number| format!("/page/{number}\n")).collect::<String>())?;
    let warm = format!(
        "[warm]\nurl = 'http://bench.test/'\nsitemaps = []\nurls = '{}'\non = ['purge']\n",
        list.display()
    );
    let origin = AttackOrigin::start(WORKERS)?;
    origin.fail(PageFault::Slow(PAGE_TIME));
    let own = format!("http://{}", origin.address());
    let start = |settings: &str, name: &str| edge(&program, &own, &directory.path().join(name), settings);
    let plain = start("", "plain.toml")?;
    let server = VisitedServer::new(plain.address);
    // Every page that visitors request is stored before the calm is measured.
    for number in 0..PAGES {
        server.ask(0, &format!("/page/{number}")).context("a page has no response")?;
    }
    let calm = server.visit(visit);
    purge_all(&plain)?;
    let purged = server.visit(visit);
    drop(plain);
    let filling = start(&warm, "warm.toml")?;
    let (filled, took) = while_filling(&filling)?;
    let mut rows = Vec::new();
    for (name, visits) in [("calm", &calm), ("after a purge", &purged), ("while filling", &filled)] {
        let mut row = vec![name.to_owned()];
        for times in [&visits.own, &visits.stored] {
            row.extend([50, 95].map(|percent| millis(percentile(times.clone(), percent))));
        }
        row.push(visits.refused.to_string());
        rows.push(row);
    }
    let head = ["phase", "own p50, ms", "own p95, ms", "pages p50, ms", "pages p95, ms", "without a page"];
    println!("\n{}", markdown(&head, &rows));
    let p95 = |visits: &Visits| percentile(visits.own.clone(), 95).unwrap_or_default().as_secs_f64();
    let mut text = String::new();
    write!(text, "{PAGES} pages were filled in {:.1} s. ", took.as_secs_f64())?;
    write!(text, "Visitors' p95 at the application: {:.2} times that in calm.", p95(&filled) / p95(&calm))?;
    println!("{text}");
    Ok(())
}

fn edge(program: &Path, origin: &str, file: &Path, settings: &str) -> Result<Edge> {
    std::fs::write(file, settings)?;
    let file = file.to_str().context("the directory has a name in UTF-8")?;
    Ok(Edge::of_build(Some(program), origin, &[file, "--purge-peers", "127.0.0.1"]))
}

/// The request of a visitor: a page of the visitor's own, or one of the site's.
fn visit(visitor: u8, number: usize) -> Visit {
    let place = usize::from(visitor) * 37 + number * 101;
    if number % OWN_EVERY == usize::from(visitor) % OWN_EVERY {
        Visit { target: format!("/own/{place}"), kind: VisitKind::Own }
    } else {
        Visit { target: format!("/page/{}", place % PAGES), kind: VisitKind::Stored }
    }
}

fn purge_all(edge: &Edge) -> Result<()> {
    let request = "PURGE / HTTP/1.1\r\nHost: bench.test\r\nClear-Cache: true\r\n\r\n";
    let answer = Client::connect(edge.address).try_ask(request).context("no answer to a purge")?;
    ensure!(answer.status == 200, "the purge was refused: {}", answer.status);
    Ok(())
}

/// The visits while the cache is filled after a purge, and how long that took.
fn while_filling(edge: &Edge) -> Result<(Visits, Duration)> {
    let (server, clock) = (VisitedServer::new(edge.address), SystemClock::new());
    purge_all(edge)?;
    let begun = clock.monotonic();
    let left = || edge.metric("petasos_warm_pages_left", "") > 0.0;
    let ended = std::thread::scope(|threads| {
        let watch = threads.spawn(|| {
            let looked_at = || {
                ["warmed", "warm_fresh"].map(|name| edge.metric(&format!("petasos_{name}_pages_total"), ""))
            };
            while left() || looked_at().iter().sum::<f64>() < PAGES as f64 {
                std::thread::sleep(Duration::from_millis(50));
                if clock.monotonic().since(begun) > MEASURED * 10 {
                    break;
                }
            }
            clock.monotonic()
        });
        let mut visits = Visits::default();
        for _ in 0..PHASES_MAX {
            let Visits { stored, own, refused } = server.visit(visit);
            visits.stored.extend(stored);
            visits.own.extend(own);
            visits.refused += refused;
            if watch.is_finished() {
                break;
            }
        }
        watch.join().map(|ended: Monotonic| (visits, ended.since(begun)))
    });
    ended.map_err(|_| anyhow::anyhow!("the watch of the metrics has panicked"))
}
