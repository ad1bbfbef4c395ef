//! Hand-overs: what they explain, and what purges are worth while nobody has the directory.

use crate::history::{History, content};
use crate::purges::write;
use petasos_actors::{PurgeAnswer, Rule, Scope};

fn lose_directory(history: &mut History) {
    let at = history.now();
    history.ledger.directory_is_lost(at);
}

#[test]
fn undurable_purge_needs_a_lost_directory() {
    let mut history = History::new();
    lose_directory(&mut history);
    history.purge_answered(Scope::Everything, false, PurgeAnswer::Undurable);
    history.is_right();
    let at = history.now();
    history.ledger.handed_over(at, true);
    history.purge_answered(Scope::Everything, false, PurgeAnswer::Undurable);
    history.violates(Rule::Purging);
}

#[test]
fn write_without_a_directory_may_be_lost_after_a_hand_over() {
    for uses_directory in [false, true] {
        let mut history = History::new();
        lose_directory(&mut history);
        write(&mut history, true, 200);
        let at = history.now();
        history.ledger.handed_over(at, uses_directory);
        history.ledger.lose_undurable_purges();
        history.hit(1);
        assert_eq!(history.violated().len(), usize::from(uses_directory), "{uses_directory}");
    }
}

#[test]
fn undurable_purge_needs_a_directory_that_is_away() {
    let mut history = History::new();
    let begun = history.now();
    history.ledger.directory_is_away(begun);
    history.purge_answered(Scope::Everything, false, PurgeAnswer::Undurable);
    let back = history.now();
    history.ledger.directory_is_back(back);
    history.is_right();
    history.purge_answered(Scope::Everything, false, PurgeAnswer::Undurable);
    history.violates(Rule::Purging);
}

#[test]
fn no_process_has_the_directory_after_a_start() {
    let mut history = History::new();
    let begun = history.now();
    history.ledger.directory_is_away(begun);
    history.ledger.starts();
    history.purge_answered(Scope::Everything, false, PurgeAnswer::Undurable);
    history.violates(Rule::Purging);
}

#[test]
fn purge_is_in_force_after_a_hand_over() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    history.purge(Scope::Everything, false);
    let at = history.now();
    history.ledger.handed_over(at, true);
    history.hit(1);
    history.violates(Rule::Staleness);
}

#[test]
fn attempt_may_fail_only_with_the_disk() {
    let mut history = History::new();
    let (begun, at) = (history.now(), history.now());
    history.ledger.handover_failed(begun, at, "no".to_owned());
    history.violates(Rule::Administration);
}
