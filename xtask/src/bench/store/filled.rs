//! Servers that hold a thousand, a hundred thousand and a million pages of 1 kB, each with four tags out of 50,000 and
//! one more: what a page costs, and what [`super::hits`] and [`super::purges`] measure with them.
//!
//! Invariant: a server counts as filled when every page was answered rightly and the application was asked once for
//! each.

use super::origin::Page;
use super::server::{Kind, Server, Stand};
use super::table::{Table, Target};
use super::visitors::Visitors;
use super::{Bench, hits, purges};
use anyhow::{Result, ensure};
use platform::{Clock as _, SystemClock};
use std::time::Duration;

/// The size of a page's content, in octets.
const CONTENT_BYTES: u32 = 1_000;
/// What the store may use: more than all pages need.
const MEMORY: &str = "8G";
/// Visitors who fill a server.
const FILLERS: usize = 64;
/// How long filling may take.
const FILL_MAX: Duration = Duration::from_secs(600);
/// How long a server has to come to rest before its memory is looked at.
const REST: Duration = Duration::from_millis(1_500);
/// Octets that a page may cost beside its head and content.
const OVERHEAD_MOST: f64 = 300.0;

/// Which parts are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) overhead: bool,
    pub(super) hits: bool,
    pub(super) purges: bool,
}

/// A server with its pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    pub(super) server: Server,
    pub(super) pages: u64,
    /// Resident memory for each page.
    page_resident: f64,
}

/// Prints the parts that are wanted.
pub(super) fn measure(stand: &Stand, bench: &Bench<'_>, wanted: Wanted) -> Result<()> {
    let all = bench.args.objects;
    let names = [
        (Kind::Petasos, "petasos-few", 1_000),
        (Kind::Petasos, "petasos-some", all / 10),
        (Kind::Petasos, "petasos-all", all),
        (Kind::Varnish, "varnish-few", 1_000),
        (Kind::Varnish, "varnish-some", all / 10),
        (Kind::Varnish, "varnish-all", all),
    ];
    let is_needed = |pages: u64| wanted.hits || pages == all;
    let needed = names.into_iter().filter(|(.., pages)| is_needed(*pages));
    let filled = needed
        .map(|(kind, name, pages)| Filled::new(stand, bench, kind, name, pages))
        .collect::<Result<Vec<_>>>()?;
    if wanted.overhead {
        let mut table = bench.alone.overhead()?;
        overhead(&filled, all, &mut table);
        bench.print("overhead", &table);
    }
    if wanted.hits {
        let mut table = bench.alone.hits()?;
        hits::measure(stand, bench, &filled, &mut table)?;
        bench.print("hits", &table);
    }
    if wanted.purges {
        let mut table = bench.alone.purges()?;
        let all: Vec<_> = filled.into_iter().filter(|filled| filled.pages == all).collect();
        purges::measure(stand, bench, &all, &mut table)?;
        bench.print("purges", &table);
    }
    Ok(())
}

/// A page of those that servers are filled with.
pub(super) const fn page(number: u64) -> Page {
    Page { bytes: CONTENT_BYTES, number }
}

/// Asks a server for its first `pages` pages.
///
/// # Errors
/// If an answer is wrong, if it takes too long, or if the application was not asked once for each.
pub(super) fn fill(stand: &Stand, bench: &Bench<'_>, server: &Server, pages: u64) -> Result<()> {
    let (clock, before) = (SystemClock::new(), stand.origin.requests());
    let (begun, mut numbers) = (clock.monotonic(), 0..pages);
    let mut visitors = Visitors::gather(server.address, FILLERS, &bench.interrupted)?;
    let asked = visitors
        .ask(None, || numbers.next().filter(|_| clock.monotonic().since(begun) < FILL_MAX).map(page))?;
    let took = clock.monotonic().since(begun);
    eprintln!("{}: filled with {} pages in {took:.1?}, {} wrong", server.name, asked.right, asked.wrong);
    ensure!(asked.right == pages, "{} has {} of {pages} pages in {took:.1?}", server.name, asked.right);
    let fetched = stand.origin.requests() - before;
    ensure!(fetched == pages, "{} asked the application {fetched} times for {pages} pages", server.name);
    Ok(())
}

impl Filled {
    fn new(stand: &Stand, bench: &Bench<'_>, kind: Kind, name: &'static str, pages: u64) -> Result<Self> {
        let server = stand.server(kind, name)?;
        stand.start(server, MEMORY, "", Server::answers)?;
        let resident = || {
            std::thread::sleep(REST);
            stand.resident_bytes(&server)
        };
        let empty = resident();
        fill(stand, bench, &server, pages)?;
        let page_resident = resident().saturating_sub(empty) as f64 / pages as f64;
        Ok(Self { server, pages, page_resident })
    }
}

/// Adds what a page costs.
fn overhead(filled: &[Filled], pages: u64, table: &mut Table) {
    let octets = page(pages).head().len() as f64 + f64::from(CONTENT_BYTES);
    let each = |kind| {
        let found = filled.iter().find(|filled| filled.server.kind == kind && filled.pages == pages);
        found.map(|filled| filled.page_resident)
    };
    let (petasos, varnish) = (each(Kind::Petasos), each(Kind::Varnish));
    let what = format!("whole program: resident for each of {pages} pages");
    table.add(what, "octets", petasos, varnish, Target::None);
    let beside = |resident: Option<f64>| resident.map(|resident| resident - octets);
    let what = format!("whole program: beside the {octets} octets of head and content");
    table.add(what, "octets", beside(petasos), beside(varnish), Target::Most(OVERHEAD_MOST));
}
