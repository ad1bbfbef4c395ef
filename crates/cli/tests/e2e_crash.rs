//! The real binary with a disk is killed again and again under load and purges. `cargo xtask long crash` does this for
//! thousands of lives.

use testkit::crash;

#[test]
fn what_was_promised_outlives_the_process_and_what_was_purged_does_not() {
    let tally = crash::run(0, 12, &mut |_| {}).unwrap_or_else(|problem| panic!("{problem}"));
    // Without these nothing was tested.
    assert!(tally.lives == 12 && tally.purges > 50 && tally.kept > 100 && tally.hits > 500, "{tally}");
    assert!(tally.refused + tally.cut < tally.requests / 20, "{tally}");
}
