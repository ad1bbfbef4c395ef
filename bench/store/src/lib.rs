//! Measures the store alone: the memory of an object, the duration of look-ups and purges, the
//! resident memory under churn, and the hit ratio of a trace.
//!
//! Invariant: a program with this library only prints figures, one a line in the form
//! `name: value unit`. It judges nothing. There is one program for each compared allocator, because
//! a program has only one global allocator.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "commands whose output is their result")]

mod churn;
mod figure;
mod filled;
mod hits;
mod lru;
mod memory;
mod overhead;
mod pages;
mod purges;
mod ratio;

use std::process::ExitCode;

/// The measurements, by name.
const MEASUREMENTS: &[(&str, fn())] = &[
    ("overhead", overhead::measure),
    ("hits", hits::measure),
    ("purges", purges::measure),
    ("rss", churn::measure),
    ("ratio", ratio::measure),
];

/// Runs the measurements that the command line names, or all of them if it names none. Prints
/// `allocator` first. The exit code is 2 for an unknown name.
pub fn run(allocator: &str) -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| MEASUREMENTS.iter().all(|(known, _)| known != name)) {
        let known: Vec<_> = MEASUREMENTS.iter().map(|(name, _)| *name).collect();
        eprintln!("error: nothing is called {unknown}; there are {}", known.join(", "));
        return ExitCode::from(2);
    }
    println!("allocator: {allocator}");
    for (name, measure) in MEASUREMENTS {
        if wanted.is_empty() || wanted.iter().any(|asked| asked == name) {
            println!("{name}");
            measure();
        }
    }
    ExitCode::SUCCESS
}
