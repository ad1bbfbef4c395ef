//! Content codings: processor time of a hit in each coding, bytes sent for a page beside nginx and
//! Caddy, and the work of the encoder thread while a crawler visits a large site.
//!
//! Invariant: in each round every coding has its loads, in an order drawn from the seed. Ratios are
//! formed within one round. Each coding is compared with an uncompressed page of the same length,
//! whose load comes right before or after, because the kernel's work depends on the length alone.
//! Slowness is no error.

mod crawl;
mod servers;

use super::page_load::PageLoad;
use super::{markdown, optimised};
use anyhow::{Context, Result, ensure};
use servers::{EdgeForm, EncodingServer, ServerDirectory};
use stats::{Random, median};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Origin, response};

/// Where a load writes its run.
const RUN: &str = "target/bench-encodings/load.json";

/// `Accept-Encoding` of each coding; the empty one is identity.
const CODINGS: [&str; 4] = ["", "br", "zstd", "gzip"];

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Arguments of `cargo xtask bench encodings`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The page; without it, the front page of the WordPress lab, which is started for it
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Rounds; every coding has one load in each
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Duration of a load
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Pages that the crawler visits; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pages: u32,
    /// Seed for the order in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the loads and prints the tables.
///
/// # Errors
/// If a server does not start, or a load fails.
pub(super) fn run(args: &Args) -> Result<()> {
    let page = match &args.page {
        Some(file) => fs::read(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => crate::lab::wordpress_page()?,
    };
    let directory = ServerDirectory::settle(&optimised("petasos")?)?;
    println!("{}. A page of {} bytes.", directory.versions()?, page.len());
    print_bytes(&directory, &page)?;
    print_hits(args, &directory, &page)?;
    if args.pages > 0 { crawl::print(args.pages, &directory, &page) } else { Ok(()) }
}

/// An origin with the page at `/`, and an uncompressible page of N bytes at `/plain/N`.
fn origin(page: &[u8]) -> Origin {
    let page = page.to_vec();
    Origin::start(move |seen| {
        let fresh = "Cache-Control: max-age=36000";
        match seen.target().strip_prefix("/plain/").and_then(|bytes| bytes.parse::<usize>().ok()) {
            Some(bytes) => response("200 OK", &["Content-Type: image/png", fresh], &vec![b'x'; bytes]),
            None => {
                response("200 OK", &["Content-Type: text/html; charset=UTF-8", fresh, "ETag: \"1\""], &page)
            }
        }
    })
}

fn print_bytes(directory: &ServerDirectory, page: &[u8]) -> Result<()> {
    let origin = origin(page);
    let mut rows = Vec::new();
    for (server, name, target) in [
        (EncodingServer::Petasos, "petasos", "/"),
        (EncodingServer::Nginx, "nginx, gzip level 1", "/"),
        (EncodingServer::Nginx, "nginx, gzip level 6", "/6"),
        (EncodingServer::Caddy, "caddy", "/"),
    ] {
        let running = directory.start(server, origin.address(), EdgeForm::default())?;
        let mut row = vec![name.to_owned()];
        for coding in CODINGS {
            warm(running.address, target, coding)?;
            let (bytes, sent) = content(running.address, target, coding)?;
            row.push(if sent == coding { bytes.to_string() } else { "-".to_owned() });
        }
        rows.push(row);
    }
    println!("\n### Bytes of content\n\n{}", markdown(&["server", "identity", "br", "zstd", "gzip"], &rows));
    Ok(())
}

fn print_hits(args: &Args, directory: &ServerDirectory, page: &[u8]) -> Result<()> {
    let origin = origin(page);
    let running = directory.start(EncodingServer::Petasos, origin.address(), EdgeForm::default())?;
    let mut loads = Vec::new();
    for coding in CODINGS {
        warm(running.address, "/", coding)?;
        let (bytes, sent) = content(running.address, "/", coding)?;
        ensure!(sent == coding, "{coding:?} was not sent");
        warm(running.address, &format!("/plain/{bytes}"), "")?;
        loads.push((coding, ["/".to_owned(), format!("/plain/{bytes}")]));
    }
    let mut figures: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    let mut random = Random::from_seed(args.seed);
    for round in 0..args.rounds {
        random.shuffle(&mut loads);
        loads.iter_mut().for_each(|(_, targets)| random.shuffle(targets));
        for (coding, target) in
            loads.iter().flat_map(|(coding, both)| both.iter().map(move |one| (coding, one)))
        {
            let before = running.cpu_secs();
            let load = PageLoad { address: running.address, target, coding, seconds: args.seconds };
            let count = load.run(Path::new(RUN))?;
            let micros = (running.cpu_secs() - before) * 1e6 / count as f64;
            eprintln!("round {round}, {coding:?} {target}: {micros:.2} us");
            figures.entry((coding, target == "/")).or_default().push(micros);
        }
    }
    let none = Vec::new();
    let of = |coding, coded| figures.get(&(coding, coded)).unwrap_or(&none);
    let rows = CODINGS.map(|coding| {
        let (own, plain, identity) = (of(coding, true), of(coding, false), of("", true));
        let ratio = |other: &[f64]| {
            let ratios: Vec<f64> = own.iter().zip(other).map(|(own, other)| own / other).collect();
            median(&ratios).map_or_else(String::new, |ratio| format!("{ratio:.3}"))
        };
        let typical = median(own).map_or_else(String::new, |micros| format!("{micros:.2}"));
        let name = if coding.is_empty() { "identity" } else { coding };
        vec![name.to_owned(), typical, ratio(plain), ratio(identity)]
    });
    let head = ["coding", "CPU us per hit", "times identity of that length", "times identity of the page"];
    println!("\n### Hits, {} rounds\n\n{}", args.rounds, markdown(&head, &rows));
    Ok(())
}

/// Requests a page until it is stored in this coding, if the server codes it at all.
fn warm(address: SocketAddr, target: &str, coding: &str) -> Result<()> {
    for _ in 0..50 {
        if content(address, target, coding)?.1 == coding {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The length of the content of a response, and its coding.
fn content(address: SocketAddr, target: &str, coding: &str) -> Result<(usize, String)> {
    let accepted = if coding.is_empty() { "identity" } else { coding };
    let answer = testkit::Client::connect(address).get(target, &[&format!("Accept-Encoding: {accepted}")]);
    ensure!(answer.status == 200, "{target} has status {}", answer.status);
    Ok((answer.body.len(), answer.field("Content-Encoding").unwrap_or_default().to_owned()))
}
