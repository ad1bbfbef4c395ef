//! Compares load generators: how many requests each sends in one second of its processor time,
//! against a responder fast enough for all of them.
//!
//! Invariant: every generator takes one turn in each round, in an order drawn from the seed. It
//! uses one thread if it has an option for that. The responder counts the requests, never the
//! generator. A generator's processor time is the time that the system charges to its process.
//! Goals apply to ratios within one round only. A turn that fails or does not end is reported as
//! missing, and the other turns go on.

mod generator;

use super::{build, markdown};
use crate::{packages, place};
use anyhow::{Context, Result, bail};
use clock::Clock;
use generator::{GENERATORS, GeneratorTurn, LoadGenerator, LoadParameters, TurnOutcome};
use petasos_null::Responder;
use platform::SystemClock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stats::{Random, median};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Debian packages of the peers.
const PACKAGES: [&str; 5] = ["wrk", "apache2-utils", "nghttp2-client", "hey", "siege"];
/// Directory for the peers' files, relative to the repository.
const DIRECTORY: &str = "target/bench/load";
/// Sizes of the response's content, in bytes: a page of 13 kB and an almost empty one.
const SIZES: [usize; 2] = [13_000, 12];
/// The measured generator. The others are compared with it.
const OURS: &str = "petasos";
/// The generator with the least possible cost.
const BARE: &str = "bare loop";

/// Arguments of `cargo xtask bench load`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; every generator has one turn in each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Duration of a turn
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Concurrent connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=255))]
    connections: u16,
    /// Seed for the order of the generators in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compare with this generator only; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// A ratio that Petasos should reach against a peer.
struct Goal {
    peer: &'static str,
    /// Content size that the goal applies to; `None` for all sizes.
    content_bytes: Option<usize>,
    keep_alive: Option<bool>,
    ratio_min: f64,
}

/// The goals.
const GOALS: [Goal; 4] = [
    Goal { peer: "wrk", content_bytes: Some(13_000), keep_alive: Some(true), ratio_min: 1.2 },
    Goal { peer: "wrk", content_bytes: Some(12), keep_alive: Some(true), ratio_min: 1.0 },
    Goal { peer: "ab", content_bytes: None, keep_alive: Some(false), ratio_min: 2.0 },
    Goal { peer: BARE, content_bytes: None, keep_alive: None, ratio_min: 1.0 / 1.2 },
];

/// Figures of one generator, round by round; `None` for a missing turn.
#[derive(Default)]
struct GeneratorFigures {
    /// Requests for each second of clock time.
    rates: Vec<Option<f64>>,
    /// Requests for each second of the generator's processor time.
    per_cpu: Vec<Option<f64>>,
    /// Reasons of the missing turns.
    missing: Vec<String>,
}

/// The responder.
struct LoadTarget {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// If a generator is not installed or cannot be started, or on an interruption.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    packages::ensure(&PACKAGES)?;
    build("petasos-null")?;
    let directory = std::path::absolute(DIRECTORY)?;
    let _lock = place::lock(&directory)?;
    let chosen = chosen(&args.only)?;
    let turns = 4 * usize::from(args.rounds) * chosen.len();
    eprintln!("{turns} turns of {} s, {} s in all", args.seconds, turns * usize::from(args.seconds));
    for content_bytes in SIZES {
        let target = LoadTarget::start(content_bytes)?;
        for keep_alive in [true, false] {
            let load = LoadParameters {
                address: target.address,
                connections: args.connections,
                seconds: args.seconds,
                keep_alive,
            };
            let all = measure(args, &chosen, &target, &load, &directory, &interrupted)?;
            print(content_bytes, &load, &chosen, &all);
        }
    }
    Ok(())
}

/// The generators that take part.
fn chosen(only: &[String]) -> Result<Vec<&'static LoadGenerator>> {
    if let Some(unknown) = only.iter().find(|name| GENERATORS.iter().all(|known| known.name != **name)) {
        let names: Vec<_> = GENERATORS.iter().map(|generator| generator.name).collect();
        bail!("there is no generator `{unknown}`, only {}", names.join(", "));
    }
    let is_wanted = |name: &str| name == OURS || only.is_empty() || only.iter().any(|wanted| wanted == name);
    Ok(GENERATORS.iter().filter(|generator| is_wanted(generator.name)).collect())
}

impl LoadTarget {
    /// Starts the responder in a thread that lives as long as the program.
    fn start(content_bytes: usize) -> Result<Self> {
        let responder =
            Responder::bind("Content-Type: text/plain\r\n", &vec![b'x'; content_bytes], Vec::new())?;
        let address = responder.address();
        let requests = responder.requests();
        std::thread::Builder::new().name("responder".to_owned()).spawn(move || {
            if let Err(error) = responder.serve() {
                eprintln!("error: the responder ended: {error}");
            }
        })?;
        Ok(Self { address, requests })
    }
}

/// Runs all turns. The result is in the order of `chosen`.
fn measure(
    args: &Args,
    chosen: &[&LoadGenerator],
    target: &LoadTarget,
    load: &LoadParameters,
    directory: &Path,
    interrupted: &AtomicBool,
) -> Result<Vec<GeneratorFigures>> {
    let clock = SystemClock::new();
    let mut random = Random::from_seed(args.seed);
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    let mut all: Vec<GeneratorFigures> = chosen.iter().map(|_| GeneratorFigures::default()).collect();
    for _ in 0..args.rounds {
        random.shuffle(&mut order);
        for &index in &order {
            let (Some(generator), Some(turns)) = (chosen.get(index), all.get_mut(index)) else { continue };
            let Some(command) = generator.command(load, directory)? else { continue };
            turns.take(&command, target, &clock).with_context(|| format!("{} failed", generator.name))?;
            // Relaxed is enough: the flag guards no other data.
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
        }
    }
    Ok(all)
}

impl GeneratorFigures {
    /// Runs one turn of the generator.
    fn take(&mut self, turn: &GeneratorTurn, target: &LoadTarget, clock: &SystemClock) -> Result<()> {
        let before = target.requests.load(Ordering::Relaxed);
        let begun = clock.monotonic();
        let ran = turn.run()?;
        let took = clock.monotonic().since(begun);
        let requests = (target.requests.load(Ordering::Relaxed) - before) as f64;
        let (rate, per_cpu) = match ran {
            TurnOutcome::Whole(cpu) if requests > 0.0 => {
                (Some(requests / took.as_secs_f64()), Some(requests / cpu.as_secs_f64()))
            }
            TurnOutcome::Whole(_) => {
                self.missing.push("it sent no request".to_owned());
                (None, None)
            }
            TurnOutcome::Missing(reason) => {
                self.missing.push(reason);
                (None, None)
            }
        };
        self.rates.push(rate);
        self.per_cpu.push(per_cpu);
        Ok(())
    }
}

fn print(content_bytes: usize, load: &LoadParameters, chosen: &[&LoadGenerator], all: &[GeneratorFigures]) {
    let connections = if load.keep_alive { "kept" } else { "one for each request" };
    println!("\n{content_bytes} octets, {} connections, {connections}:\n", load.connections);
    let ours = chosen.iter().position(|generator| generator.name == OURS).and_then(|index| all.get(index));
    let per_cpu = ours.map(|turns| turns.per_cpu.as_slice()).unwrap_or_default();
    let figure = |value: Option<f64>, places: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}"))
    };
    let rows: Vec<Vec<String>> = chosen
        .iter()
        .zip(all)
        .map(|(generator, turns)| {
            vec![
                generator.name.to_owned(),
                figure(middle(&turns.rates), 0),
                figure(middle(&turns.per_cpu), 0),
                figure(ratio(per_cpu, &turns.per_cpu), 2),
            ]
        })
        .collect();
    let head = ["generator", "requests/s", "requests/CPU-s", "Petasos is times this"];
    println!("{}", markdown(&head, &rows));
    for (generator, turns) in chosen.iter().zip(all) {
        if let Some(reason) = turns.missing.first() {
            let missing = turns.missing.len();
            let of = turns.rates.len();
            println!("{}: {missing} of {of} turns are missing: {reason}", generator.name);
        }
    }
    for goal in GOALS.iter().filter(|goal| goal.holds_for(content_bytes, load.keep_alive)) {
        let peer =
            chosen.iter().position(|generator| generator.name == goal.peer).and_then(|index| all.get(index));
        let Some(ratio) = peer.and_then(|turns| ratio(per_cpu, &turns.per_cpu)) else { continue };
        let word = if ratio >= goal.ratio_min { "reached" } else { "NOT reached" };
        println!("goal: {:.2} times {}: {word}, {ratio:.2}", goal.ratio_min, goal.peer);
    }
}

impl Goal {
    fn holds_for(&self, content_bytes: usize, keep_alive: bool) -> bool {
        self.content_bytes.is_none_or(|bytes| bytes == content_bytes)
            && self.keep_alive.is_none_or(|kept| kept == keep_alive)
    }
}

/// The median over the rounds whose turn is not missing.
fn middle(turns: &[Option<f64>]) -> Option<f64> {
    median(&turns.iter().copied().flatten().collect::<Vec<f64>>())
}

/// The median of the ratios within each round. Rounds in which either turn is missing are left out.
fn ratio(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Option<f64> {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| Some((*ours)? / (*theirs)?));
    middle(&ratios.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{GOALS, chosen, middle, ratio};

    #[test]
    fn ratio_is_the_median_of_ratios_within_rounds() {
        // A busy machine in the second round slows both generators down.
        let turns = |rates: &[f64]| -> Vec<Option<f64>> { rates.iter().map(|rate| Some(*rate)).collect() };
        assert_eq!(ratio(&turns(&[20.0, 2.0, 40.0]), &turns(&[10.0, 1.0, 10.0])), Some(2.0));
        assert_eq!(ratio(&turns(&[1.0]), &[]), None);
        // A round with a missing turn is left out.
        assert_eq!(ratio(&turns(&[20.0, 2.0, 40.0]), &[Some(10.0), None, Some(20.0)]), Some(2.0));
        assert_eq!((middle(&[None, Some(3.0)]), middle(&[None])), (Some(3.0), None));
    }

    #[test]
    fn every_peer_of_a_goal_is_a_generator() {
        for goal in &GOALS {
            let names: Vec<_> =
                chosen(&[goal.peer.to_owned()]).unwrap().iter().map(|found| found.name).collect();
            assert!(names.contains(&"petasos") && names.contains(&goal.peer), "{names:?}");
        }
        assert!(chosen(&["jmeter".to_owned()]).is_err());
    }
}
