//! A short search with the first seeds, and what makes a longer one worth its time: runs that can
//! be repeated, and defects that are found.

use defects::Defect;
use petasos_lives::{RunOptions, RunOutcome, RunPlan, run, shrink};
use std::process::Command;

fn lived(seed: u64, options: &RunOptions) -> RunOutcome {
    run(&RunPlan::of_seed(seed), options)
}

/// Runs every second seed, so that two tests share the work.
fn search(first: u64) {
    let mut failures = Vec::new();
    for seed in (first..=200).step_by(2) {
        let outcome = lived(seed, &RunOptions::default());
        failures.extend(outcome.failures.first().map(|failure| format!("seed {seed}: {failure}")));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn odd_seeds_violate_nothing() {
    search(1);
}

#[test]
fn even_seeds_violate_nothing() {
    search(2);
}

#[test]
fn run_is_repeated_event_by_event() {
    let options = RunOptions { trace: true, ..RunOptions::default() };
    // The last three depend on the order in which receivers of one value are woken.
    for seed in [5, 8, 124, 234, 262] {
        let (one, two) = (lived(seed, &options), lived(seed, &options));
        assert!(one.trace.len() > 100);
        assert_eq!(one.trace, two.trace);
        assert_eq!((one.hash, one.log), (two.hash, two.log));
    }
}

#[test]
fn other_process_shows_the_same_events() {
    let shown = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-simulate"));
        let output = command.args(["--seed", "6", "--trace"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (one, two) = (shown(), shown());
    let without_hash = lived(6, &RunOptions::default());
    assert!(one.contains(&format!("hash of all events: {:016x}", without_hash.hash)));
    assert!(one == two, "the events of two processes differ");
}

#[test]
fn planted_defect_is_found_and_its_plan_shrunk() {
    let options = RunOptions { defect: Some(Defect::JoinOtherVariant), ..RunOptions::default() };
    let fails = |plan: &RunPlan| run(plan, &options).failures.first().is_some_and(|text| is_integrity(text));
    let plan = (1..20).map(RunPlan::of_seed).find(|plan| fails(plan));
    let plan = plan.expect("a seed that finds the defect");
    let (small, runs) = shrink(&plan, 60, fails);
    assert!(runs <= 60 && small.elements().len() < plan.elements().len() / 4, "{small}");
    assert!(fails(&small));
    assert!(run(&small, &RunOptions::default()).failures.is_empty());
}

fn is_integrity(failure: &str) -> bool {
    failure.starts_with("integrity")
}
