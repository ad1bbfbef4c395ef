//! The stampede: many visitors ask at once for a page that nobody has stored and that the application takes its time
//! for. What it should cost is one request to the application, and hardly more time than that takes.
//!
//! Invariant: in every round each server has its turn, in an order of its own drawn from the seed, with a page and
//! connections of its own; times count from the moment before the first request was sent. The row *origin alone* is
//! the same crowd before the application itself, which answers each request by itself: what the crowd and the
//! machine cost without any server between.

use super::crowd::{Crowd, Rush};
use super::markdown;
use super::servers::Servers;
use anyhow::{Context, Result, bail};
use petasos_null::Responder;
use platform::{Clock, SystemClock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stats::Random;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What the application takes for a page.
const ORIGIN_TIME: Duration = Duration::from_millis(300);
/// What may come on top of it until the last visitor has the page.
const GOAL_SURPLUS: Duration = Duration::from_millis(50);
/// The size of the page, in octets.
const PAGE_BYTES: usize = 13_000;
/// How long the slowest visitor is waited for.
const LIMIT: Duration = Duration::from_secs(20);
/// How long servers have to take the connections in before the rush.
const SETTLE: Duration = Duration::from_millis(300);
/// Descriptors beside those of the visitors.
const DESCRIPTORS_SPARE: u64 = 500;
/// The name of the row without a server.
const ALONE: &str = "origin alone";

/// What `cargo xtask bench stampede` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Visitors who ask at once, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: u16,
    /// Rounds that count; one more before them warms the servers up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Draws the order of the servers in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// One server's turn in one round.
struct Turn {
    name: &'static str,
    origin_requests: usize,
    rush: Rush,
}

/// The application.
struct Origin {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    content: Vec<u8>,
}

/// Runs the benchmark and prints its table.
///
/// # Errors
/// If a server does not start, or on an interruption; all servers are stopped then.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    ensure_descriptors(args.clients)?;
    let clock = SystemClock::new();
    let origin = Origin::start()?;
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
            // The first round only warms up.
            turns.extend((round > 0).then_some(turn));
        }
    }
    drop(servers);
    print(args, &turns);
    Ok(())
}

/// Sees to it that this process and the servers it starts may open the descriptors they need: the usual limit is
/// 1024.
pub(super) fn ensure_descriptors(clients: u16) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    // nginx needs two for each visitor at times; without a server between, both ends are here.
    let needed = u64::from(clients) * 2 + DESCRIPTORS_SPARE;
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .with_context(|| format!("{clients} visitors need {needed} descriptors (`ulimit -Hn`)"))
}

impl Origin {
    /// Starts the application in a thread that lives as long as the program.
    fn start() -> Result<Self> {
        let content: Vec<u8> =
            (0_u32..).flat_map(|line| format!("{line:07}\n").into_bytes()).take(PAGE_BYTES).collect();
        let fields = "Content-Type: text/plain\r\nCache-Control: max-age=60\r\n";
        let responder = Responder::bind(fields, &content, vec![ORIGIN_TIME])?;
        let (address, requests) = (responder.address(), responder.requests());
        std::thread::Builder::new().name("origin".to_owned()).spawn(move || {
            if let Err(error) = responder.serve() {
                eprintln!("error: the application ended: {error}");
            }
        })?;
        Ok(Self { address, requests, content })
    }

    /// One server's turn.
    fn visit(
        &self,
        name: &'static str,
        address: SocketAddr,
        target: &str,
        clients: usize,
        clock: &dyn Clock,
        interrupted: &AtomicBool,
    ) -> Result<Turn> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\n\r\n");
        let crowd = Crowd::gather(address, clients).with_context(|| format!("before {name}"))?;
        std::thread::sleep(SETTLE);
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let before = self.requests.load(Ordering::Relaxed);
        let rush = crowd
            .rush(request.as_bytes(), &self.content, LIMIT, clock, interrupted)
            .with_context(|| format!("before {name}"))?;
        Ok(Turn { name, origin_requests: self.requests.load(Ordering::Relaxed) - before, rush })
    }
}

impl Turn {
    /// First, median and slowest right answer.
    fn times(&self) -> Option<[Duration; 3]> {
        let right = &self.rush.right;
        Some([*right.first()?, *right.get(right.len() / 2)?, *right.last()?])
    }

    fn describe(&self) -> String {
        let Rush { right, wrong, missing } = &self.rush;
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

/// Prints one row a server: what it did in the rounds.
fn print(args: &Args, turns: &[Turn]) {
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

fn row(name: &str, turns: &[Turn], args: &Args, goal: Duration) -> Vec<String> {
    let of = |figure: fn(&Turn) -> usize| -> Vec<usize> {
        turns.iter().filter(|turn| turn.name == name).map(figure).collect()
    };
    let (requests, right) = (of(|turn| turn.origin_requests), of(|turn| turn.rush.right.len()));
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

/// The middle one; the upper of two.
fn median<T: Copy + Ord>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// `1`, or `1 to 3` where they differ.
fn range<T: Copy + Ord>(values: Vec<T>, show: impl Fn(T) -> String) -> String {
    match (values.iter().min(), values.iter().max()) {
        (Some(&least), Some(&most)) if least < most => format!("{} to {}", show(least), show(most)),
        (Some(&only), _) => show(only),
        _ => "-".to_owned(),
    }
}

/// In milliseconds, with one decimal.
fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::{median, ms, range};
    use std::time::Duration;

    #[test]
    fn figures_are_shown_as_they_are() {
        assert_eq!(median(vec![3, 1, 2]), Some(2));
        assert_eq!(median(Vec::<u8>::new()), None);
        assert_eq!(range(vec![1, 1], |value: u8| value.to_string()), "1");
        assert_eq!(range(vec![2, 1, 3], |value: u8| value.to_string()), "1 to 3");
        assert_eq!(ms(Duration::from_micros(350_049)), "350.0");
    }
}
