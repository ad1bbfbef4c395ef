//! A few seconds in the life of the real binary with a disk, little memory, visitors of all kinds, purges and a rotated
//! log. `cargo xtask long soak` does this for ten minutes, in which the origin fails too.

use std::time::Duration;
use testkit::{binary, soak};

#[test]
fn each_error_of_a_short_soak_has_a_cause_and_nothing_grows() {
    let plan = soak::Plan { seed: 1, length: Duration::from_secs(4), program: binary() };
    let report = soak::run(&plan, &|_| {});
    println!("{report}");
    assert!(report.problems.is_empty());
    // Without these nothing was tested.
    for what in ["purges and writes", "pages from the store", "slow uploads", "rotations by SIGHUP"] {
        assert!(report.tally.contains_key(what), "no {what}");
    }
}
