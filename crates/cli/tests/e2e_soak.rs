//! A few seconds of the real binary with a disk, little memory, visitors of all kinds, purges,
//! reloads and a rotated log. `cargo xtask soak` runs it for ten minutes and makes the origins fail
//! too.

use std::time::Duration;
use testkit::{binary, soak};

/// Durations of the load, in seconds. The next one is tried if the machine was too busy for all
/// kinds of visits to finish.
const LENGTHS_S: [u64; 4] = [4, 8, 16, 32];

/// Kinds of events that must have occurred; without them the run would have tested nothing.
const NEEDED: [&str; 6] = [
    "purges and writes",
    "pages from the store",
    "slow uploads",
    "rotations by SIGUSR1",
    "reloads",
    "streams",
];

#[test]
fn each_error_of_a_short_soak_has_a_cause() {
    let is_whole = LENGTHS_S.iter().any(|seconds| {
        let plan = soak::SoakPlan { seed: 1, length: Duration::from_secs(*seconds), program: binary() };
        let report = soak::run(&plan, &|_| {});
        println!("{report}");
        assert!(report.problems.is_empty());
        NEEDED.iter().all(|what| report.tally.contains_key(what))
    });
    assert!(is_whole, "needed: {NEEDED:?}");
}
