//! The stampede: many visitors request the same page at the same time. No cache has stored it, and
//! the application is slow. Ideally this costs one request to the application and little more time
//! than that request.
//!
//! Invariant: every server takes one turn in each round, in an order drawn from the seed, with a
//! new page and new connections. Times count from just before the first request is sent. The row
//! *origin alone* sends the same crowd to the application directly, which answers every request. It
//! shows the cost of the crowd and the machine without any cache.

use super::crowd::{ConnectedCrowd, RushResult};
use super::markdown;
use super::servers::Servers;
use anyhow::{Context, Result, bail};
use clock::Clock;
use petasos_null::Responder;
use platform::SystemClock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stats::Random;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Time that the application takes for a page.
const ORIGIN_TIME: Duration = Duration::from_millis(300);
/// Goal: time in addition to [`ORIGIN_TIME`] until the last visitor has the page.
const GOAL_SURPLUS: Duration = Duration::from_millis(50);
/// Size of the page, in bytes.
const PAGE_BYTES: usize = 13_000;
/// Timeout for the slowest visitor.
const LIMIT: Duration = Duration::from_secs(20);
/// Time for servers to accept all connections before the requests.
const SETTLE: Duration = Duration::from_millis(300);
/// File descriptors in addition to those of the visitors.
const DESCRIPTORS_SPARE: u64 = 500;
/// Name of the row without a server.
const ALONE: &str = "origin alone";

/// Arguments of `cargo xtask bench stampede`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Visitors who send the request at once, each on its own connection
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: u16,
    /// Measured rounds; one more round before them warms the servers up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Seed for the order of the servers in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// One server's turn in one round.
struct ServerTurn {
    name: &'static str,
    origin_requests: usize,
    rush: RushResult,
}

/// The application.
struct StampedeOrigin {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    content: Vec<u8>,
}

/// Runs the benchmark and prints its table.
///
/// # Errors
/// If a server does not start, or on an interruption. All servers are stopped then.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    ensure_descriptors(args.clients)?;
    let clock = SystemClock::new();
    let origin = StampedeOrigin::start()?;
    let servers = Servers::start(origin.address)?;
    let mut order: Vec<_> = servers.addresses().chain([(ALONE, origin.address)]).collect();
    let mut random = Random::from_seed(args.seed);
    let mut turns = Vec::new();
    for round in 0..=args.rounds {
        random.shuffle(&mut order);
        for &(name, address) in &order {
            let target = format!("/{}/{round}/{}", clock.now().as_micros(), name.replace(' ', "-"));
            let turn = origin.visit(name, address, &target, args.clients.into(), &clock, &interrupted)?;
            eprintln!("round {round} of {}: {}", args.rounds, turn.describe());
            // Round 0 only warms the servers up.
            turns.extend((round > 0).then_some(turn));
        }
    }
    drop(servers);
    print(args, &turns);
    Ok(())
}

/// Raises the limit on open files, if necessary, for this process and the servers that it starts.
/// The usual limit is 1024.
pub(super) fn ensure_descriptors(clients: u16) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    // nginx sometimes needs two descriptors for each visitor. Without a server in between, both
    // ends of each connection are in this process.
    let needed = u64::from(clients) * 2 + DESCRIPTORS_SPARE;
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .with_context(|| format!("{clients} visitors need {needed} descriptors (`ulimit -Hn`)"))
}

impl StampedeOrigin {
    /// Starts the application in a thread that lives as long as the program.
    fn start() -> Result<Self> {
        let content: Vec<u8> =
            (0_u32..).flat_map(|line| format!("{line:07}\n").into_bytes()).take(PAGE_BYTES).collect();
        let fields = "Content-Type: text/plain\r\nCache-Control: max-age=60\r\n";
        let responder = Responder::bind(fields, &content, vec![ORIGIN_TIME])?;
        let address = responder.address();
        let requests = responder.requests();
        std::thread::Builder::new().name("origin".to_owned()).spawn(move || {
            if let Err(error) = responder.serve() {
                eprintln!("error: the application ended: {error}");
            }
        })?;
        Ok(Self { address, requests, content })
    }

    /// Runs one server's turn.
    fn visit(
        &self,
        name: &'static str,
        address: SocketAddr,
        target: &str,
        clients: usize,
        clock: &dyn Clock,
        interrupted: &AtomicBool,
    ) -> Result<ServerTurn> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\n\r\n");
        let crowd = ConnectedCrowd::gather(address, clients).with_context(|| format!("before {name}"))?;
        std::thread::sleep(SETTLE);
        // Relaxed is enough: the flag guards no other data, and the received responses order the
        // count of requests.
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let before = self.requests.load(Ordering::Relaxed);
        let rush = crowd
            .rush(request.as_bytes(), &self.content, LIMIT, clock, interrupted)
            .with_context(|| format!("before {name}"))?;
        Ok(ServerTurn { name, origin_requests: self.requests.load(Ordering::Relaxed) - before, rush })
    }
}

impl ServerTurn {
    /// Times of the first, the median and the slowest right response.
    fn times(&self) -> Option<[Duration; 3]> {
        let right = &self.rush.right;
        Some([*right.first()?, *right.get(right.len() / 2)?, *right.last()?])
    }

    fn describe(&self) -> String {
        let RushResult { right, wrong, missing } = &self.rush;
        let times = self.times().map_or_else(String::new, |[first, median, slowest]| {
            format!(", first {}, median {}, slowest {} ms", ms(first), ms(median), ms(slowest))
        });
        format!(
            "{}: {} origin requests, {} right answers, {wrong} wrong, {missing} missing{times}",
            self.name,
            self.origin_requests,
            right.len()
        )
    }
}

/// Prints the table with one row for each server.
fn print(args: &Args, turns: &[ServerTurn]) {
    let goal = ORIGIN_TIME + GOAL_SURPLUS;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{} visitors ask at once for one cold page of {PAGE_BYTES} octets; the application takes {} ms. {} rounds, \
         seed {}, {cores} cores. Times are medians over the rounds; a range is the least and the most of a round.\n\
         Goal: one origin request a round, every answer right, the slowest within {} ms.\n",
        args.clients,
        ORIGIN_TIME.as_millis(),
        args.rounds,
        args.seed,
        goal.as_millis()
    );
    let head = [
        "server",
        "origin requests",
        "right answers",
        "first ms",
        "median ms",
        "slowest ms",
        "slowest, range",
        "goal",
    ];
    let rows: Vec<_> = [ALONE, "petasos", "varnish", "nginx"].map(|name| row(name, turns, args, goal)).into();
    print!("{}", markdown(&head, &rows));
}

fn row(name: &str, turns: &[ServerTurn], args: &Args, goal: Duration) -> Vec<String> {
    let of = |figure: fn(&ServerTurn) -> usize| -> Vec<usize> {
        turns.iter().filter(|turn| turn.name == name).map(figure).collect()
    };
    let requests = of(|turn| turn.origin_requests);
    let right = of(|turn| turn.rush.right.len());
    let times = |index: usize| -> Vec<Duration> {
        let own = turns.iter().filter(|turn| turn.name == name);
        own.filter_map(|turn| turn.times()?.get(index).copied()).collect()
    };
    let slowest = median(times(2));
    let all_right = right.iter().all(|right| *right == usize::from(args.clients));
    let met = all_right && requests.iter().all(|requests| *requests == 1) && slowest <= Some(goal);
    let shown = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), ms);
    vec![
        name.to_owned(),
        range(requests, |requests| requests.to_string()),
        range(right, |right| right.to_string()),
        shown(median(times(0))),
        shown(median(times(1))),
        shown(slowest),
        range(times(2), ms),
        if name == ALONE {
            "-"
        } else if met {
            "met"
        } else {
            "missed"
        }
        .to_owned(),
    ]
}

/// The median; for an even number of values, the upper of the two in the middle.
fn median<T: Copy + Ord>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The lowest and highest value as `1 to 3`, or just `1` if they are equal.
fn range<T: Copy + Ord>(values: Vec<T>, show: impl Fn(T) -> String) -> String {
    match (values.iter().min(), values.iter().max()) {
        (Some(&least), Some(&most)) if least < most => format!("{} to {}", show(least), show(most)),
        (Some(&only), _) => show(only),
        _ => "-".to_owned(),
    }
}

/// Milliseconds with one decimal place.
fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::{median, ms, range};
    use std::time::Duration;

    #[test]
    fn medians_and_ranges_are_formatted() {
        assert_eq!(median(vec![3, 1, 2]), Some(2));
        assert_eq!(median(Vec::<u8>::new()), None);
        assert_eq!(range(vec![1, 1], |value: u8| value.to_string()), "1");
        assert_eq!(range(vec![2, 1, 3], |value: u8| value.to_string()), "1 to 3");
        assert_eq!(ms(Duration::from_micros(350_049)), "350.0");
    }
}
