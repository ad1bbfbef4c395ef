//! The encoder thread while a crawler visits a large site, and the times of a visitor beside.
//!
//! Invariant: in all forms of the crawl, the crawler sends one request after the other, and the
//! visitor requests one stored page without a coding at a fixed rate.

use super::LOOK_EVERY;
use super::servers::{EdgeForm, EncodingServer, RunningServer, ServerDirectory};
use crate::bench::markdown;
use anyhow::{Result, anyhow, ensure};
use clock::Clock as _;
use platform::SystemClock;
use stats::quantile;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, Origin, response};

/// How long the encoder may take after the last request.
const PATIENCE: Duration = Duration::from_secs(600);

/// The time between two requests of the visitor.
const VISIT_EVERY: Duration = Duration::from_millis(2);

/// A thorough crawler looks at the queue of the encoder each time after this many pages, and waits
/// while more orders than this do.
const PAGES_PER_LOOK: u32 = 250;
const WAITING_MAX: u64 = 500;

/// The codings that the crawler accepts, as a browser does.
const ACCEPTED: &str = "Accept-Encoding: gzip, br, zstd";

/// A form of the crawl.
struct CrawlForm {
    name: &'static str,
    edge: EdgeForm<'static>,
    /// Whether the crawler waits while many orders do, and goes on until all pages have forms.
    /// Otherwise it visits each page three times without a pause.
    is_thorough: bool,
}

/// How a crawl ended.
struct Crawled {
    /// Duration of the crawl, and until the encoder had nothing to do, in seconds.
    secs: [f64; 2],
    /// Response times of the visitor in milliseconds, meanwhile and then.
    visits_ms: [Vec<f64>; 2],
}

/// Runs all forms of the crawl and prints their table.
pub(super) fn print(pages: u32, directory: &ServerDirectory, page: &[u8]) -> Result<()> {
    let edge = |memory, compresses| EdgeForm { memory, compresses };
    let forms = [
        CrawlForm { name: "three visits, compression off", edge: edge("2GiB", false), is_thorough: false },
        CrawlForm { name: "three visits", edge: edge("2GiB", true), is_thorough: false },
        CrawlForm { name: "three visits, 256 MiB", edge: edge("256MiB", true), is_thorough: false },
        CrawlForm { name: "no faster than the encoder", edge: edge("2GiB", true), is_thorough: true },
    ];
    let page = page.to_vec();
    let origin = Origin::start(move |seen| {
        // Each page differs from the others, as the pages of a site do.
        let own = format!("<!-- {} -->", seen.target().repeat(20));
        let content = [&page[..], own.as_bytes()].concat();
        response("200 OK", &["Content-Type: text/html", "Cache-Control: max-age=36000"], &content)
    });
    let mut rows = Vec::new();
    for form in &forms {
        let running = directory.start(EncodingServer::Petasos, origin.address(), form.edge)?;
        let crawled = crawl(&running, pages, form.is_thorough)?;
        rows.push(row(form, &running, &crawled)?);
    }
    let head = [
        "crawl",
        "crawl, s",
        "coded after, s",
        "encoder CPU, s",
        "coded",
        "dropped",
        "void",
        "forms, MiB",
        "peak resident, MiB",
        "hits beside, p50 ms",
        "p99 ms",
        "p99 ms, encoder alone",
    ];
    println!("\n### A crawl of {pages} pages\n\n{}", markdown(&head, &rows));
    Ok(())
}

fn row(form: &CrawlForm, running: &RunningServer<'_>, crawled: &Crawled) -> Result<Vec<String>> {
    let metric = |name| running.metric(name).map(|value| value.to_string());
    let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
    let [crawl, coded] = crawled.secs;
    let [beside, after] = &crawled.visits_ms;
    let at = |times: &[f64], share| quantile(times, share).map_or_else(String::new, |ms| format!("{ms:.2}"));
    Ok(vec![
        form.name.to_owned(),
        format!("{crawl:.1}"),
        format!("{coded:.1}"),
        format!("{:.1}", running.thread_cpu_secs("petasos-encode")),
        metric("petasos_encodings_total")?,
        metric("petasos_encodings_dropped_total")?,
        metric("petasos_encodings_void_total")?,
        mib(running.metric("petasos_store_form_bytes")?),
        mib(running.peak_bytes()),
        at(beside, 0.5),
        at(beside, 0.99),
        at(after, 0.99),
    ])
}

/// Crawls the site, and waits until the encoder has nothing to do.
fn crawl(running: &RunningServer<'_>, pages: u32, is_thorough: bool) -> Result<Crawled> {
    let (clock, address) = (SystemClock::new(), running.address);
    let begun = clock.monotonic();
    let passed = || clock.monotonic().since(begun);
    let (is_crawled, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let visitor = scope.spawn(|| visit(address, &is_crawled, &is_over));
        let work = || {
            let mut visits = 0;
            let mut client = Client::connect(address);
            loop {
                for number in 0..pages {
                    while is_thorough
                        && number % PAGES_PER_LOOK == 0
                        && running.metric("petasos_encodings_waiting")? > WAITING_MAX
                    {
                        thread::sleep(LOOK_EVERY);
                    }
                    let answer = client.get(&format!("/{number}"), &[ACCEPTED]);
                    ensure!(answer.status == 200, "the crawler got {}", answer.status);
                }
                visits += 1;
                let is_done = running.metric("petasos_encodings_total")? >= u64::from(pages);
                if visits >= 3 && (!is_thorough || is_done || passed() > PATIENCE) {
                    break;
                }
            }
            let crawled = passed();
            is_crawled.store(true, Ordering::Relaxed);
            while running.metric("petasos_encodings_waiting")? > 0 && passed() < crawled + PATIENCE {
                thread::sleep(LOOK_EVERY);
            }
            Ok([crawled, passed()].map(|time| time.as_secs_f64()))
        };
        let secs = work();
        is_over.store(true, Ordering::Relaxed);
        let visits_ms = visitor.join().map_err(|_| anyhow!("the visitor panicked"))?;
        Ok(Crawled { secs: secs?, visits_ms })
    })
}

/// Requests one page at a fixed rate until the end. Returns the response times in milliseconds,
/// during the crawl and after it.
fn visit(address: SocketAddr, is_crawled: &AtomicBool, is_over: &AtomicBool) -> [Vec<f64>; 2] {
    let clock = SystemClock::new();
    let mut client = Client::connect(address);
    let [mut beside, mut after] = [Vec::new(), Vec::new()];
    while !is_over.load(Ordering::Relaxed) {
        let begun = clock.monotonic();
        client.get("/visited", &["Accept-Encoding: identity"]);
        let time = clock.monotonic().since(begun);
        let times = if is_crawled.load(Ordering::Relaxed) { &mut after } else { &mut beside };
        times.push(time.as_secs_f64() * 1e3);
        thread::sleep(VISIT_EVERY.saturating_sub(time));
    }
    [beside, after]
}
