//! TLS and HTTP/2 of Petasos, nginx, HAProxy and H2O: new connections, hits over kept connections,
//! and the memory of idle connections.
//!
//! Invariant: in each round every server has every load once, in an order drawn from the seed. A
//! server's processor time comes from the system's account of its processes. Ratios are formed
//! within one round. Slowness is no error.

mod connections;
mod servers;

use super::{markdown, optimised};
use anyhow::{Context, Result, ensure};
use connections::{Resumption, idle_bytes, shake_hands};
use servers::{RunningServer, SecuredServer, ServerDirectory};
use stats::{Random, median};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{Origin, allow_descriptors, response};

/// Sizes of the pages, in bytes.
pub(super) const SIZES: [usize; 2] = [13_000, 12];

/// Concurrent connections of the loads.
const CONNECTIONS: &str = "32";

/// Requests in flight on a connection with HTTP/2.
const STREAMS: &str = "8";

/// Open descriptors of this process: idle connections and some more.
const DESCRIPTORS: u64 = 12_000;

/// Arguments of `cargo xtask bench tls`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; every server has every load once in each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Duration of a load
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Workers, processes or threads of each server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Idle connections whose memory is measured; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 9_900, value_parser = clap::value_parser!(u16).range(0..=9_900))]
    idle: u16,
    /// Seed for the order in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run only loads whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    /// New connections with one request each.
    Connections(Resumption),
    /// Requests over kept connections, for a page of this size.
    Hits { is_http2: bool, size: usize },
}

impl Load {
    /// All loads, in the order of the tables.
    fn all() -> Vec<Self> {
        let connections = [Resumption::None, Resumption::Ticket].map(Self::Connections);
        let hits =
            [false, true].into_iter().flat_map(|is_http2| SIZES.map(|size| Self::Hits { is_http2, size }));
        connections.into_iter().chain(hits).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Connections(Resumption::None) => "full handshakes".to_owned(),
            Self::Connections(Resumption::Ticket) => "resumed handshakes".to_owned(),
            Self::Hits { is_http2: false, size } => format!("hits of {size} B over TLS"),
            Self::Hits { is_http2: true, size } => format!("hits of {size} B over HTTP/2"),
        }
    }

    /// Runs the load; returns the number of connections or responses.
    fn run(self, server: &RunningServer<'_>, args: &Args) -> Result<u64> {
        match self {
            Self::Connections(resumption) => {
                shake_hands(server.address, &server.trust, resumption, args.seconds.into())
            }
            Self::Hits { is_http2, size } => hits(server, is_http2, size, args.seconds),
        }
    }
}

/// Runs the loads and prints a table for each.
///
/// # Errors
/// If a server does not start, or a load fails.
pub(super) fn run(args: &Args) -> Result<()> {
    allow_descriptors(DESCRIPTORS);
    let origin = Origin::start(|seen| {
        let size = seen.target().trim_start_matches('/').trim_end_matches(".html").parse().unwrap_or(2);
        response("200 OK", &["Content-Type: text/html", "Cache-Control: max-age=3600"], &vec![b'x'; size])
    });
    let directory = ServerDirectory::settle(&optimised("petasos")?)?;
    println!("{}. {} workers each.", directory.versions()?, args.workers);
    let mut figures: BTreeMap<(Load, SecuredServer), Vec<f64>> = BTreeMap::new();
    let mut random = Random::from_seed(args.seed);
    for round in 0..args.rounds {
        let mut servers = SecuredServer::ALL.to_vec();
        random.shuffle(&mut servers);
        for server in servers {
            let running = directory.start(server, origin.address(), args.workers)?;
            for load in Load::all().into_iter().filter(|load| load.name().contains(&args.only)) {
                let measured = measure(load, &running, args)
                    .with_context(|| format!("{} with {}", server.name(), load.name()))?;
                let Some(per_second) = measured else {
                    eprintln!("{} does not support {}", server.name(), load.name());
                    continue;
                };
                eprintln!(
                    "round {round}, {}, {}: {per_second:.0} per CPU second",
                    server.name(),
                    load.name()
                );
                figures.entry((load, server)).or_default().push(per_second);
            }
        }
    }
    print_loads(args, &figures);
    if args.idle > 0 { print_idle(args, &directory, &origin) } else { Ok(()) }
}

/// Runs a load once; returns the server's work in one second of its processor time. `None`: it does
/// not support the load.
fn measure(load: Load, running: &RunningServer<'_>, args: &Args) -> Result<Option<f64>> {
    let before = running.cpu_secs();
    let count = load.run(running, args)?;
    if count == 0 {
        return Ok(None);
    }
    let cpu_secs = running.cpu_secs() - before;
    ensure!(cpu_secs > 0.0, "the server did nothing");
    Ok(Some(count as f64 / cpu_secs))
}

fn print_loads(args: &Args, figures: &BTreeMap<(Load, SecuredServer), Vec<f64>>) {
    for load in Load::all() {
        let own = figures.get(&(load, SecuredServer::Petasos));
        let Some(own) = own.filter(|figures| !figures.is_empty()) else { continue };
        let rows = SecuredServer::ALL.iter().filter_map(|server| {
            let figures = figures.get(&(load, *server))?;
            let ratios: Vec<f64> = own.iter().zip(figures).map(|(own, other)| own / other).collect();
            let (ratio, typical) = (median(&ratios)?, median(figures)?);
            Some(vec![server.name().to_owned(), format!("{typical:.0}"), format!("{ratio:.2}")])
        });
        let head = ["server", "per CPU second", "Petasos is times"];
        println!(
            "\n### {}, {} rounds\n\n{}",
            load.name(),
            args.rounds,
            markdown(&head, &rows.collect::<Vec<_>>())
        );
    }
}

fn print_idle(args: &Args, directory: &ServerDirectory, origin: &Origin) -> Result<()> {
    let mut rows = Vec::new();
    for server in SecuredServer::ALL {
        let mut row = vec![server.name().to_owned()];
        for is_http2 in [false, true] {
            let running = directory.start(server, origin.address(), args.workers)?;
            let bytes = idle_bytes(&running, is_http2, args.idle.into())
                .with_context(|| format!("idle connections of {}", server.name()))?;
            row.push(format!("{:.1}", bytes / 1024.0));
        }
        rows.push(row);
    }
    let head = ["server", "TLS, KiB each", "HTTP/2, KiB each"];
    println!("\n### {} idle connections\n\n{}", args.idle, markdown(&head, &rows));
    Ok(())
}

/// Loads a page over kept connections; returns the number of responses.
fn hits(server: &RunningServer<'_>, is_http2: bool, size: usize, seconds: u16) -> Result<u64> {
    let json = Path::new("target/bench-tls/load.json");
    let url = format!("https://{}/{size}.html", server.address);
    let mut command = Command::new(optimised("petasos")?);
    command.args(["bench", &url, "--insecure", "--accept-invalid", "--threads", "1", "-c", CONNECTIONS]);
    command.args(["-t", &format!("{seconds}s"), "--json"]).arg(json);
    if is_http2 {
        command.args(["--http", "2", "--pipeline", STREAMS]);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "petasos bench ended with {status}");
    let run: serde_json::Value = serde_json::from_slice(&std::fs::read(json)?)?;
    let count = run.pointer("/good").and_then(serde_json::Value::as_u64);
    count.context("the run states no number of responses")
}
