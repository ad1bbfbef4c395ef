//! A few seconds in the life of the real binary with a disk, little memory, visitors of all kinds, purges and a rotated
//! log. `cargo xtask long soak` does this for ten minutes, in which the origin fails too.

use std::time::Duration;
use testkit::{binary, soak};

/// How long the load lasts, in seconds: longer where the machine is too busy for all kinds of visits to end.
const LENGTHS_S: [u64; 4] = [4, 8, 16, 32];

/// Without these nothing was tested.
const NEEDED: [&str; 4] =
    ["purges and writes", "pages from the store", "slow uploads", "rotations by SIGHUP"];

#[test]
fn each_error_of_a_short_soak_has_a_cause() {
    let is_whole = LENGTHS_S.iter().any(|seconds| {
        let plan = soak::Plan { seed: 1, length: Duration::from_secs(*seconds), program: binary() };
        let report = soak::run(&plan, &|_| {});
        println!("{report}");
        assert!(report.problems.is_empty());
        NEEDED.iter().all(|what| report.tally.contains_key(what))
    });
    assert!(is_whole, "needed: {NEEDED:?}");
}
