//! Verdicts on a noisy machine. A server compared with itself gets none, and a difference of 5% is
//! found if some figure is precise enough.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use petasos_report::compare::{
    CompareOptions, ComparedMetric, ComparisonVerdict, Side, SideComparison, compare,
};
use petasos_report::run::{Round, Run, SOURCE_PETASOS};
use stats::Random;

const RECORDED: &str = include_str!("data/runs.csv");

/// Sum of eight uniform numbers: nearly normal, with deviation 1.
fn bell(random: &mut Random) -> f64 {
    let uniform = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
    ((0..8).map(|_| uniform(random)).sum::<f64>() - 4.0) * (12.0_f64 / 8.0).sqrt()
}

/// Kind of noise on the simulated machine.
#[derive(Clone, Copy, Debug)]
enum SimulatedNoise {
    /// Throughput varies by 10% from run to run, the median by 2%.
    Stalls,
    /// All figures vary by 4%.
    Even,
    /// Like `Even`, and one run in ten is 33% slower.
    OddRuns,
    /// Like `Even`, while the machine becomes slower by a third over ten runs.
    Drift,
}

fn simulated(noise: SimulatedNoise, number: u64, times_slower: f64, random: &mut Random) -> Run {
    let (of_rate, of_median) = match noise {
        SimulatedNoise::Stalls => (0.10, 0.02),
        SimulatedNoise::Even | SimulatedNoise::OddRuns | SimulatedNoise::Drift => (0.04, 0.04),
    };
    let odd = matches!(noise, SimulatedNoise::OddRuns) && random.below(10) == 0;
    let drift = if matches!(noise, SimulatedNoise::Drift) { 1.0 + number as f64 / 30.0 } else { 1.0 };
    let slower = times_slower * drift * if odd { 1.33 } else { 1.0 };
    let rate = 2_000.0 * (of_rate * bell(random)).exp() / slower;
    let median_us = 4_000.0 * (of_median * bell(random)).exp() * slower;
    run(number, rate, 8e6 / rate, [median_us, median_us * 1.5, median_us * 3.0].map(|value| value as u64))
}

fn run(number: u64, good_per_s: f64, mean_us: f64, percentiles_us: [u64; 3]) -> Run {
    let round = Some(Round { comparison: "simulated".to_owned(), number });
    let mut run = Run { good_per_s: Some(good_per_s), round, ..Run::of_source(SOURCE_PETASOS) };
    let latency = &mut run.good_times.latency;
    latency.mean_us = Some(mean_us);
    [latency.p50_us, latency.p95_us, latency.p99_us] = percentiles_us.map(Some);
    run
}

fn against(a: Vec<Run>, b: Vec<Run>) -> SideComparison {
    let side = |name: &str, runs| Side { name: name.to_owned(), runs };
    compare(&[side("a", a), side("b", b)], CompareOptions::default()).unwrap().against.remove(0)
}

/// Forty comparisons of ten rounds each, with the second side slower by a factor.
fn forty(noise: SimulatedNoise, times_slower: f64) -> Vec<SideComparison> {
    let mut random = Random::from_seed(14);
    let mut rounds = |times_slower| -> Vec<Run> {
        (1..=10).map(|number| simulated(noise, number, times_slower, &mut random)).collect()
    };
    (0..40).map(|_| against(rounds(1.0), rounds(times_slower))).collect()
}

fn count(comparisons: &[SideComparison], verdict: ComparisonVerdict) -> usize {
    comparisons.iter().filter(|against| against.verdict == verdict).count()
}

#[test]
fn same_server_gets_no_verdict_in_40_comparisons() {
    for noise in
        [SimulatedNoise::Stalls, SimulatedNoise::Even, SimulatedNoise::OddRuns, SimulatedNoise::Drift]
    {
        let none = count(&forty(noise, 1.0), ComparisonVerdict::NoDifferenceShown);
        assert_eq!(none, 40, "{noise:?}");
    }
}

/// The recorded runs of one kind, in their rounds.
fn recorded(kind: &str) -> Vec<Run> {
    let rows = RECORDED.lines().filter(|line| !line.starts_with(['#', 'r'])).map(|line| line.split(','));
    let rows = rows.map(Iterator::collect::<Vec<&str>>).filter(|row| row[1] == kind);
    let number = |row: &[&str], place: usize| row[place].parse::<u64>().unwrap();
    rows.map(|row| {
        let percentiles = [4, 5, 6].map(|place| number(&row, place));
        run(number(&row, 0), row[2].parse().unwrap(), row[3].parse().unwrap(), percentiles)
    })
    .collect()
}

#[test]
fn recorded_runs_of_one_server_get_no_verdict() {
    let first = recorded("a1");
    let same = recorded("a2");
    let slower = recorded("b");
    let chunks = |other: &[Run]| -> Vec<SideComparison> {
        let pairs = first.chunks_exact(10).zip(other.chunks_exact(10));
        pairs.map(|(a, b)| against(a.to_vec(), b.to_vec())).collect()
    };
    assert_eq!(count(&chunks(&same), ComparisonVerdict::NoDifferenceShown), 100);
    let found = count(&chunks(&slower), ComparisonVerdict::Slower);
    assert!(found >= 90, "a tenth slower: found {found} times in 100");
}

#[test]
fn five_percent_is_found_by_the_least_noisy_figure() {
    let comparisons = forty(SimulatedNoise::Stalls, 1.05);
    let found = count(&comparisons, ComparisonVerdict::Slower);
    assert!(found >= 32, "found {found} times in 40");
    assert_eq!(count(&comparisons, ComparisonVerdict::Faster), 0);
    let quieter = comparisons.iter().filter(|against| against.on != ComparedMetric::Throughput).count();
    assert!(quieter >= 38, "a percentile was chosen {quieter} times in 40");
}

#[test]
fn comparison_without_verdict_tells_the_needed_rounds() {
    for against in forty(SimulatedNoise::Even, 1.0) {
        let noise = against.noise.unwrap();
        let rounds = against.rounds_for_5_percent.unwrap();
        assert!((0.02..0.08).contains(&noise) && (7..=90).contains(&rounds), "{noise} {rounds}");
        let end = format!("a difference of 5% takes {rounds} rounds.");
        assert!(against.sentence.ends_with(&end), "{}", against.sentence);
    }
}
