//! Files of a directory, sent by Petasos, nginx with sendfile, and H2O: processor time of a request
//! for 1 kB, 100 kB and 100 MB, over HTTP/1.1 without TLS and over HTTP/2 with it.
//!
//! Invariant: in each round every server has every load once, in an order drawn from the seed. A
//! server's processor time comes from the system's account of its processes. Ratios are formed
//! within one round. All servers send the same files, which are in the system's memory. Every
//! response of a load is good and has the file's length. Slowness is no error.

mod servers;

use super::{markdown, optimised};
use anyhow::{Context, Result, ensure};
use servers::{FileServer, HOST, RunningServer, ServerDirectory};
use stats::{Random, median};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// A requested file.
struct BenchFile {
    name: &'static str,
    title: &'static str,
    bytes: usize,
    /// Connections at a time.
    connections: &'static str,
}

/// The files, in the order of the tables.
const FILES: [BenchFile; 3] = [
    BenchFile { name: "1k.txt", title: "1 kB", bytes: 1_000, connections: "32" },
    BenchFile { name: "100k.bin", title: "100 kB", bytes: 100_000, connections: "32" },
    BenchFile { name: "100m.bin", title: "100 MB", bytes: 100_000_000, connections: "4" },
];

/// Requests for each second of a load, of the file that a limit of time would cut off.
const LARGE_REQUESTS_PER_SEC: u16 = 32;

/// Requests in flight on a connection with HTTP/2.
const STREAMS: &str = "8";

/// Arguments of `cargo xtask bench static`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; every server has every load once in each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Duration of a load; 32 requests for 100 MB count as a second
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Workers, processes or threads of each server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Seed for the order in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run only loads whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Leave Petasos out, for figures of the others alone
    #[arg(long)]
    peers_only: bool,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    is_http2: bool,
    /// The place in [`FILES`].
    file: usize,
}

impl Load {
    /// All loads, in the order of the tables.
    fn all() -> impl Iterator<Item = (Self, &'static BenchFile)> {
        [false, true].into_iter().flat_map(|is_http2| {
            FILES.iter().enumerate().map(move |(file, shape)| (Self { is_http2, file }, shape))
        })
    }

    fn name(self, file: &BenchFile) -> String {
        format!("{} over {}", file.title, if self.is_http2 { "HTTP/2 with TLS" } else { "HTTP/1.1" })
    }

    /// Runs the load; returns the number of responses.
    fn run(self, file: &BenchFile, server: &RunningServer<'_>, seconds: u16) -> Result<u64> {
        let json = Path::new(servers::DIRECTORY).join("load.json");
        let url = server.url(self.is_http2, file.name);
        let mut command = Command::new(optimised("petasos")?);
        command.args(["bench", &url, "-H", &format!("Host: {HOST}"), "--threads", "1"]);
        // The processor time of the servers counts, also if the generator is the limit.
        command.arg("--accept-invalid");
        command.args(["-c", file.connections, "--json"]).arg(&json);
        if file.bytes > 1_000_000 {
            command.args(["-n", &(LARGE_REQUESTS_PER_SEC * seconds).to_string()]);
        } else {
            command.args(["-t", &format!("{seconds}s")]);
        }
        if self.is_http2 {
            let streams = if file.bytes > 1_000_000 { "1" } else { STREAMS };
            command.args(["--insecure", "--http", "2", "--pipeline", streams]);
        }
        let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
        ensure!(
            output.status.success(),
            "petasos bench ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let run: serde_json::Value = serde_json::from_slice(&std::fs::read(&json)?)?;
        let number = |place: &str| {
            run.pointer(place).and_then(serde_json::Value::as_u64).with_context(|| format!("no {place}"))
        };
        let (good, bad) = (number("/good")?, number("/failed")? + number("/length_differs")?);
        ensure!(good > 0 && bad == 0, "{good} responses are good and {bad} are not");
        Ok(good)
    }
}

/// Runs the loads and prints a table for each.
///
/// # Errors
/// If a server does not start, or a load fails.
pub(super) fn run(args: &Args) -> Result<()> {
    let compared: Vec<_> = FileServer::ALL
        .into_iter()
        .filter(|server| !args.peers_only || *server != FileServer::Petasos)
        .collect();
    let directory = ServerDirectory::settle(&optimised("petasos")?, &FILES)?;
    println!("{}. {} workers each.", directory.versions()?, args.workers);
    let mut figures: BTreeMap<(Load, FileServer), Vec<f64>> = BTreeMap::new();
    let mut random = Random::from_seed(args.seed);
    for round in 0..args.rounds {
        let mut servers = compared.clone();
        random.shuffle(&mut servers);
        for server in servers {
            let running = directory.start(server, args.workers)?;
            for (load, file) in Load::all().filter(|(load, file)| load.name(file).contains(&args.only)) {
                let name = load.name(file);
                let before = running.cpu_secs();
                let count = load
                    .run(file, &running, args.seconds)
                    .with_context(|| format!("{} with {name}", server.name()))?;
                let micros = (running.cpu_secs() - before) * 1e6 / count as f64;
                ensure!(micros > 0.0, "{} needed no processor time", server.name());
                eprintln!("round {round}, {}, {name}: {micros:.1} us each, {count} requests", server.name());
                figures.entry((load, server)).or_default().push(micros);
            }
        }
    }
    print(args, &compared, &figures);
    Ok(())
}

fn print(args: &Args, compared: &[FileServer], figures: &BTreeMap<(Load, FileServer), Vec<f64>>) {
    for (load, file) in Load::all() {
        let own = figures.get(&(load, FileServer::Petasos));
        let rows = compared.iter().filter_map(|server| {
            let figures = figures.get(&(load, *server))?;
            let ratios = own.map(|own| own.iter().zip(figures).map(|(own, other)| own / other).collect());
            let ratio = ratios.and_then(|ratios: Vec<f64>| median(&ratios));
            let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            Some(vec![server.name().to_owned(), format!("{:.1}", median(figures)?), ratio])
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        let head = ["server", "CPU of a request, us", "Petasos needs times"];
        println!("\n### {}, {} rounds\n\n{}", load.name(file), args.rounds, markdown(&head, &rows));
    }
}
