//! Measures the store by itself: what an object costs beside its octets, what a look-up and a purge take, how much
//! memory the process has under churn, and how many requests of a trace it answers.
//!
//! Invariant: a program with this library prints figures, one a line as `name: value unit`, and judges nothing. It is
//! built once for each allocator that is compared, as an allocator is a matter of the whole program.

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

/// What can be measured, by the name it is asked for.
const MEASUREMENTS: &[(&str, fn())] = &[
    ("overhead", overhead::measure),
    ("hits", hits::measure),
    ("purges", purges::measure),
    ("rss", churn::measure),
    ("ratio", ratio::measure),
];

/// Runs the measurements that the arguments name; all of them without any. `allocator` is printed before.
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
