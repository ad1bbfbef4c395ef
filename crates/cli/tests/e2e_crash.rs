//! The real binary with a disk is killed again and again under load and purges. `cargo xtask long
//! crash` runs the same test for thousands of lives.

use testkit::crash;

#[test]
fn kill_keeps_promised_objects_and_all_purges() {
    let tally = crash::run(0, 12, &mut |_| {}).unwrap_or_else(|problem| panic!("{problem}"));
    // With smaller counts the run would have tested nothing.
    assert!(tally.lives == 12 && tally.purges > 50 && tally.kept > 100 && tally.hits > 500, "{tally}");
    assert!(tally.refused + tally.cut < tally.requests / 20, "{tally}");
}
