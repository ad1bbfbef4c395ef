//! Servers that hold a thousand pages, a tenth of `--objects`, and all of `--objects`. A page has 1
//! kB, four tags out of 50,000, and one tag for its part. Measures the memory for each page, and
//! prepares the servers for [`super::hits`] and [`super::purges`].
//!
//! Invariant: a server counts as filled when every response was right and the application received
//! exactly one request for each page.

use super::origin::BenchPage;
use super::server::{BenchProgram, BenchServer, ServerBase};
use super::table::{FigureTable, FigureTarget};
use super::visitors::ConnectedVisitors;
use super::{StoreBench, hits, purges};
use anyhow::{Result, ensure};
use clock::Clock as _;
use platform::SystemClock;
use std::time::Duration;

/// Size of a page's content, in bytes.
const CONTENT_BYTES: u32 = 1_000;
/// Memory limit of a server: more than all pages need.
const MEMORY: &str = "8G";
/// Number of connections that fill a server.
const FILLERS: usize = 64;
/// Longest duration of filling.
const FILL_MAX: Duration = Duration::from_secs(600);
/// Pause before memory is read, so that background work can finish.
const REST: Duration = Duration::from_millis(1_500);
/// Maximum overhead of a page beyond its head and content, in bytes.
const OVERHEAD_MOST: f64 = 300.0;

/// The parts to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelectedParts {
    pub(super) overhead: bool,
    pub(super) hits: bool,
    pub(super) purges: bool,
}

/// A server with its pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilledServer {
    pub(super) server: BenchServer,
    pub(super) pages: u64,
    /// Resident memory for each page, in bytes.
    page_resident: f64,
}

/// Runs and prints the chosen parts.
pub(super) fn measure(base: &ServerBase, bench: &StoreBench<'_>, wanted: SelectedParts) -> Result<()> {
    let all = bench.args.objects;
    let names = [
        (BenchProgram::Petasos, "petasos-few", 1_000),
        (BenchProgram::Petasos, "petasos-some", all / 10),
        (BenchProgram::Petasos, "petasos-all", all),
        (BenchProgram::Varnish, "varnish-few", 1_000),
        (BenchProgram::Varnish, "varnish-some", all / 10),
        (BenchProgram::Varnish, "varnish-all", all),
    ];
    let is_needed = |pages: u64| wanted.hits || pages == all;
    let needed = names.into_iter().filter(|(.., pages)| is_needed(*pages));
    let filled = needed
        .map(|(kind, name, pages)| FilledServer::new(base, bench, kind, name, pages))
        .collect::<Result<Vec<_>>>()?;
    if wanted.overhead {
        let mut table = bench.alone.overhead()?;
        overhead(&filled, all, &mut table);
        bench.print("overhead", &table);
    }
    if wanted.hits {
        let mut table = bench.alone.hits()?;
        hits::measure(base, bench, &filled, &mut table)?;
        bench.print("hits", &table);
    }
    if wanted.purges {
        let mut table = bench.alone.purges()?;
        let all: Vec<_> = filled.into_iter().filter(|filled| filled.pages == all).collect();
        purges::measure(base, bench, &all, &mut table)?;
        bench.print("purges", &table);
    }
    Ok(())
}

/// The page with this number.
pub(super) const fn page(number: u64) -> BenchPage {
    BenchPage { bytes: CONTENT_BYTES, number }
}

/// Requests the first `pages` pages from a server.
///
/// # Errors
/// If a response is wrong, if filling takes too long, or if the application did not receive exactly
/// one request for each page.
pub(super) fn fill(
    base: &ServerBase,
    bench: &StoreBench<'_>,
    server: &BenchServer,
    pages: u64,
) -> Result<()> {
    let clock = SystemClock::new();
    let before = base.origin.requests();
    let begun = clock.monotonic();
    let mut numbers = 0..pages;
    let mut visitors = ConnectedVisitors::gather(server.address, FILLERS, &bench.interrupted)?;
    let asked = visitors.ask(None, || {
        if clock.monotonic().since(begun) < FILL_MAX { numbers.next().map(page) } else { None }
    })?;
    let took = clock.monotonic().since(begun);
    eprintln!("{}: filled with {} pages in {took:.1?}, {} wrong", server.name, asked.right, asked.wrong);
    ensure!(asked.right == pages, "{} has {} of {pages} pages in {took:.1?}", server.name, asked.right);
    let fetched = base.origin.requests() - before;
    ensure!(fetched == pages, "{} asked the application {fetched} times for {pages} pages", server.name);
    Ok(())
}

impl FilledServer {
    fn new(
        base: &ServerBase,
        bench: &StoreBench<'_>,
        kind: BenchProgram,
        name: &'static str,
        pages: u64,
    ) -> Result<Self> {
        let server = base.server(kind, name)?;
        base.start(server, MEMORY, "", BenchServer::answers)?;
        let resident = || {
            std::thread::sleep(REST);
            base.resident_bytes(&server)
        };
        let empty = resident();
        fill(base, bench, &server, pages)?;
        let page_resident = resident().saturating_sub(empty) as f64 / pages as f64;
        Ok(Self { server, pages, page_resident })
    }
}

/// Adds the rows for the memory of each page.
fn overhead(filled: &[FilledServer], pages: u64, table: &mut FigureTable) {
    let octets = page(pages).head().len() as f64 + f64::from(CONTENT_BYTES);
    let each = |kind| {
        let found = filled.iter().find(|filled| filled.server.kind == kind && filled.pages == pages);
        found.map(|filled| filled.page_resident)
    };
    let petasos = each(BenchProgram::Petasos);
    let varnish = each(BenchProgram::Varnish);
    let what = format!("whole program: resident for each of {pages} pages");
    table.add(what, "octets", petasos, varnish, FigureTarget::None);
    let beside = |resident: Option<f64>| resident.map(|resident| resident - octets);
    let what = format!("whole program: beside the {octets} octets of head and content");
    table.add(what, "octets", beside(petasos), beside(varnish), FigureTarget::Most(OVERHEAD_MOST));
}
