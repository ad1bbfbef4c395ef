//! Pages that are put together from a template and five fragments: Petasos and Varnish with ESI,
//! nginx with server side includes.
//!
//! Invariant: nothing assembled is stored by any server. Each server has one core, and the load and
//! the application share another. In each round every server has one load of each kind, in an order
//! drawn from the seed, and ratios are formed within one round. Every page is compared with the
//! expected one before it is loaded. Slowness is no error.

mod servers;
mod site;
mod visitor;

use super::guards::use_second_core;
use super::page_load::PageLoad;
use super::{markdown, optimised};
use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use servers::{DIRECTORY, EsiServers};
use stats::{Random, median};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use visitor::{EsiVisitor, Received};

/// Arguments of `cargo xtask bench esi`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; every server has one load of each kind in each
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Duration of a load
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Requests for the page with a slow fragment
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    visits: u16,
    /// Seed for the order in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Test this binary of Petasos instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// A kind of page: the name of its column, its target and the coding that the client accepts.
type Kind = (&'static str, &'static str, &'static str);

const ASSEMBLED: Kind = ("identity", "/plain/page", "");
const COMPRESSED: Kind = ("gzip", "/gzip/page", "gzip");
const WHOLE: Kind = ("in one piece", "/plain/whole", "");
const KINDS: [Kind; 3] = [ASSEMBLED, COMPRESSED, WHOLE];

/// The server with which the others are compared.
const COMPARED: &str = "varnish";

/// Requests before a load, and the pause after each.
const WARM_REQUESTS: u32 = 20;
const WARM_PAUSE: Duration = Duration::from_millis(50);

/// Pages for each second of processor time, by server and kind, of each round.
type Rates = BTreeMap<(&'static str, &'static str), Vec<f64>>;

/// Runs the loads and the visits, and prints their tables.
///
/// # Errors
/// If a server does not start, a page is not the expected one, or a load fails.
pub(super) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => optimised("petasos")?,
    };
    use_second_core();
    let origin = site::start();
    let servers = EsiServers::start(&program, origin.address())?;
    println!("{}. A page of {} bytes.", servers.versions()?, site::whole().len());
    print_rates(args, &servers)?;
    print_times(args, &servers)
}

fn print_rates(args: &Args, servers: &EsiServers) -> Result<()> {
    let mut bytes = BTreeMap::new();
    for (name, address) in servers.addresses() {
        for kind in KINDS {
            let received = warm(address, kind).with_context(|| format!("{name} with {}", kind.1))?;
            bytes.insert((name, kind.0), received.content.len());
        }
    }
    let rates = rates(args, servers)?;
    let none = Vec::new();
    let of = |server, kind| rates.get(&(server, kind)).unwrap_or(&none);
    let row = |(name, _): (&'static str, SocketAddr)| {
        let mut row = vec![name.to_owned()];
        for (kind, ..) in KINDS {
            let own = of(name, kind);
            let ratios: Vec<f64> =
                own.iter().zip(of(COMPARED, kind)).map(|(own, other)| own / other).collect();
            row.push(bytes.get(&(name, kind)).map_or_else(String::new, usize::to_string));
            row.push(median(own).map_or_else(String::new, |rate| format!("{rate:.0}")));
            row.push(median(&ratios).map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        }
        row
    };
    let rows: Vec<_> = servers.addresses().map(row).collect();
    let titles = KINDS.map(|(kind, ..)| {
        [format!("{kind}: bytes"), "pages per CPU second".to_owned(), format!("times {COMPARED}")]
    });
    let titles: Vec<_> = titles.iter().flatten().map(String::as_str).collect();
    let head: Vec<_> = ["server"].into_iter().chain(titles).collect();
    println!("\n### Five cached fragments, {} rounds\n\n{}", args.rounds, markdown(&head, &rows));
    Ok(())
}

/// Loads every kind of page from every server in each round.
fn rates(args: &Args, servers: &EsiServers) -> Result<Rates> {
    let mut turns: Vec<_> = servers.addresses().flat_map(|server| KINDS.map(|kind| (server, kind))).collect();
    let mut random = Random::from_seed(args.seed);
    let mut rates = Rates::new();
    for round in 0..args.rounds {
        random.shuffle(&mut turns);
        for &((name, address), (kind, target, coding)) in &turns {
            let before = servers.cpu_secs(name);
            let load = PageLoad { address, target, coding, seconds: args.seconds };
            let pages = load.run(&Path::new(DIRECTORY).join("load.json"))?;
            let rate = pages as f64 / (servers.cpu_secs(name) - before);
            eprintln!("round {round}, {name}, {kind}: {rate:.0} pages per CPU second");
            rates.entry((name, kind)).or_default().push(rate);
        }
    }
    Ok(rates)
}

/// Requests a page until everything of it is stored, also in the sent form. Returns the last
/// response.
fn warm(address: SocketAddr, (_, target, coding): Kind) -> Result<Received> {
    let mut visitor = EsiVisitor::connect(address)?;
    let expected = site::whole();
    for _ in 0..WARM_REQUESTS {
        let received = visitor.get(target, coding)?;
        ensure!(plain(&received)? == expected, "{target} is another page");
        // Petasos makes coded forms in the background, those of fragments after that of a template.
        std::thread::sleep(WARM_PAUSE);
    }
    visitor.get(target, coding)
}

/// The content of a response without its coding.
fn plain(received: &Received) -> Result<Vec<u8>> {
    if received.coding != "gzip" {
        return Ok(received.content.clone());
    }
    let mut plain = Vec::new();
    GzDecoder::new(&received.content[..]).read_to_end(&mut plain)?;
    Ok(plain)
}

/// Visits the page with a slow fragment, the page without one, and the page in one piece in turn.
fn print_times(args: &Args, servers: &EsiServers) -> Result<()> {
    let kinds = [("slow fragment", "/plain/slow-page", ""), ASSEMBLED, WHOLE];
    let mut rows = Vec::new();
    for (name, address) in servers.addresses() {
        let mut times: BTreeMap<_, Vec<[f64; 2]>> = BTreeMap::new();
        for kind in kinds {
            warm(address, kind).with_context(|| format!("{name} with {}", kind.1))?;
        }
        let mut visitor = EsiVisitor::connect(address)?;
        for _ in 0..args.visits {
            for (kind, target, coding) in kinds {
                let received = visitor.get(target, coding)?;
                let millis = [received.first, received.whole].map(|time| time.as_secs_f64() * 1000.0);
                times.entry(kind).or_default().push(millis);
            }
        }
        let mut row = vec![name.to_owned()];
        for (kind, ..) in kinds {
            let both = times.remove(kind).unwrap_or_default();
            let (mut first, mut whole): (Vec<f64>, Vec<f64>) =
                both.into_iter().map(|[first, whole]| (first, whole)).unzip();
            row.extend([typical(&mut first), typical(&mut whole)]);
        }
        rows.push(row);
    }
    let titles = kinds.map(|(kind, ..)| [format!("{kind}: first byte"), "whole".to_owned()]);
    let head: Vec<_> = ["server"].into_iter().chain(titles.iter().flatten().map(String::as_str)).collect();
    let slow = Duration::as_millis(&site::SLOW);
    println!("\n### One fragment of {slow} ms among five: ms, median and p95 of {} visits\n", args.visits);
    println!("{}", markdown(&head, &rows));
    Ok(())
}

/// The median and the 95th percentile.
fn typical(times: &mut [f64]) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    format!("{:.2}, {:.2}", at(50), at(95))
}
