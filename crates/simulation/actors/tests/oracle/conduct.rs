//! Errors and their explanations, promptness, fields of the edge, answers to purges.

use crate::history::{History, ask, bare, content, reply};
use petasos_actors::{Ask, Ending, FaultPlace, Moment, PurgeAnswer, Reply, Rule, Scope, VARIANTS_MAX};
use std::time::Duration;

fn closed() -> Reply {
    Reply::default()
}

#[test]
fn errors_need_an_active_fault() {
    for answer in [bare(502, "origin-timeout"), closed()] {
        let mut history = History::new();
        history.visit(ask("/a"), &answer);
        history.violates(Rule::Errors);
        let mut history = History::new();
        let at = history.now();
        let fault = history.ledger.fault_begins(at, FaultPlace::Origin, "reset");
        history.visit(ask("/a"), &answer);
        history.pass(100);
        history.visit(ask("/a"), &answer);
        let at = history.now();
        history.ledger.fault_ends(at, fault);
        history.pass(10);
        history.visit(ask("/a"), &answer);
        history.is_right();
        history.pass(10);
        history.visit(ask("/a"), &answer);
        history.violates(Rule::Errors);
    }
}

#[test]
fn misconduct_of_the_visitor_explains_errors() {
    for (answer, misbehaves, is_right) in [
        (closed(), true, true),
        (closed(), false, false),
        (bare(408, "request-timeout"), true, true),
        (bare(408, "request-timeout"), false, false),
        (bare(429, "parameter-flood"), false, true),
        (bare(403, "purge-forbidden"), true, false),
    ] {
        let mut history = History::new();
        history.visit(Ask { misbehaves, ..ask("/a") }, &answer);
        let expected: &[Rule] = if is_right { &[] } else { &[Rule::Errors] };
        assert_eq!(history.violated(), expected, "{answer:?} {misbehaves}");
    }
}

#[test]
fn damaged_content_breaks_off_once_for_each_variant() {
    let broken = || {
        let mut answer = reply(&content("/a", 1), "hit-fresh");
        answer.ending = Ending::Cut;
        answer
    };
    let damages: [fn(&mut History); 2] = [
        |history| history.ledger.disk_is_damaged(),
        |history| {
            let at = history.now();
            history.ledger.killed(at, Some(true));
            history.ledger.starts();
        },
    ];
    for damage in damages {
        let mut history = History::new();
        history.origin(&content("/a", 1));
        damage(&mut history);
        history.visit(ask("/a"), &broken());
        history.origin(&content("/a", 1));
        (0..VARIANTS_MAX).for_each(|_| history.visit(ask("/a"), &broken()));
        history.is_right();
        history.visit(ask("/a"), &broken());
        history.violates(Rule::Integrity);
    }
}

#[test]
fn changed_bytes_explain_no_endless_breaks() {
    let id = content("/a", 1);
    let broken = Reply { ending: Ending::Cut, ..reply(&id, "hit-fresh") };
    let mut history = History::new();
    history.origin(&id);
    let at = history.now();
    let fault = history.ledger.fault_begins(at, FaultPlace::Medium, "damage");
    history.ledger.fault_ends(at, fault);
    history.ledger.disk_is_damaged();
    let at = history.now();
    let early = history.ledger.request_begins(at, ask("/a"));
    history.visit(ask("/a"), &broken);
    // It had the damaged body before the first break.
    let at = history.now();
    history.ledger.request_ends(at, early, &broken);
    history.is_right();
    let other = Reply { ending: Ending::Cut, ..reply(&id, "miss-absent") };
    history.visit(ask("/a"), &other);
    history.is_right();
    (1..VARIANTS_MAX).for_each(|_| history.visit(ask("/a"), &broken));
    history.is_right();
    history.visit(ask("/a"), &broken);
    history.violates(Rule::Integrity);
}

#[test]
fn malformed_response_is_never_explained() {
    let mut history = History::new();
    let at = history.now();
    history.ledger.fault_begins(at, FaultPlace::Origin, "garbage");
    let answer = Reply { ending: Ending::Malformed("bad head".to_owned()), ..Reply::default() };
    history.visit(Ask { misbehaves: true, ..ask("/a") }, &answer);
    history.violates(Rule::Integrity);
}

/// A request that ends this many seconds after its beginning.
fn slow(first_byte_secs: u64, end_secs: u64, own_secs: u64) -> History {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    let begun = history.now();
    let id = history.ledger.request_begins(begun, ask("/a"));
    let mut answer = reply(&content("/a", 1), "hit-fresh");
    answer.first_byte = Some(begun.plus(Duration::from_secs(first_byte_secs)));
    answer.own_delay = Duration::from_secs(own_secs);
    history.ledger.request_ends(begun.plus(Duration::from_secs(end_secs)), id, &answer);
    history
}

#[test]
fn responses_come_within_their_bounds() {
    slow(70, 590, 0).is_right();
    slow(80, 590, 0).violates(Rule::Promptness);
    slow(70, 610, 0).violates(Rule::Promptness);
    slow(80, 610, 20).is_right();
    let mut history = History::new();
    let timed_out = Reply { ending: Ending::TimedOut, ..Reply::default() };
    history.visit(ask("/a"), &timed_out);
    history.violates(Rule::Promptness);
}

#[test]
fn stored_stale_response_comes_earlier_than_a_new_one() {
    let late = |is_stored_before: bool, ill_before: Option<u64>| {
        let mut history = History::new();
        history.ledger.rules_mut().stale_first_byte_max = Duration::from_secs(10);
        let stored = content("/a", 1);
        if is_stored_before {
            history.origin(&stored);
        }
        if let Some(secs) = ill_before {
            let at = history.now();
            let fault = history.ledger.fault_begins(at, FaultPlace::Disk, "hangs");
            history.ledger.fault_ends(at, fault);
            history.pass(secs);
        }
        let begun = history.now();
        let id = history.ledger.request_begins(begun, ask("/a"));
        if !is_stored_before {
            history.origin(&stored);
        }
        let mut answer = reply(&stored, "stale-on-error");
        let late = begun.plus(Duration::from_secs(20));
        answer.first_byte = Some(late);
        history.ledger.request_ends(late, id, &answer);
        history
    };
    late(true, None).violates(Rule::Promptness);
    late(true, Some(4)).is_right();
    late(true, Some(6)).violates(Rule::Promptness);
    late(false, None).is_right();
}

#[test]
fn larger_content_is_stored_when_it_is_on_the_disk() {
    let late = |secs: u64, is_ill: bool| {
        let mut history = History::new();
        history.ledger.rules_mut().stale_first_byte_max = Duration::from_secs(10);
        history.ledger.rules_mut().stored_at_once_max = 100;
        let large = content("/a", 1);
        history.origin(&large);
        if is_ill {
            let at = history.now();
            let fault = history.ledger.fault_begins(at, FaultPlace::Disk, "slow");
            history.ledger.fault_ends(at, fault);
        }
        history.pass(secs);
        let begun = history.now();
        let id = history.ledger.request_begins(begun, ask("/a"));
        let mut answer = reply(&large, "stale-on-error");
        let late = begun.plus(Duration::from_secs(20));
        answer.first_byte = Some(late);
        history.ledger.request_ends(late, id, &answer);
        history
    };
    late(0, false).is_right();
    late(20, true).is_right();
    late(2, false).violates(Rule::Promptness);
}

#[test]
fn unfinished_request_is_found_at_the_end() {
    let mut history = History::new();
    let at = history.now();
    history.ledger.request_begins(at, ask("/a"));
    history.ledger.request_begins(at, Ask { misbehaves: true, ..ask("/b") });
    history.ledger.finish(Moment::from_millis(599_000));
    history.is_right();
    history.ledger.finish(Moment::from_millis(601_000));
    history.violates(Rule::Promptness);
}

#[test]
fn edge_states_its_reason() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    let mut answer = reply(&content("/a", 1), "hit-fresh");
    answer.fields.remove("Cache-Status");
    history.visit(ask("/a"), &answer);
    history.violates(Rule::Fields);
    let mut history = History::new();
    history.ledger.rules_mut().through_edge = false;
    history.origin(&content("/a", 1));
    history.visit(ask("/a"), &answer);
    history.is_right();
}

#[test]
fn purges_are_carried_out_unless_a_fault_explains_it() {
    let faulty = |place, answer| {
        let mut history = History::new();
        if let Some(place) = place {
            let at = history.now();
            history.ledger.fault_begins(at, place, "fault");
        }
        history.purge_answered(Scope::Everything, false, answer);
        history.violated()
    };
    for answer in [PurgeAnswer::Lost, PurgeAnswer::Failed(503), PurgeAnswer::Undurable] {
        assert_eq!(faulty(None, answer), [Rule::Purging], "{answer:?}");
        assert_eq!(faulty(Some(FaultPlace::Disk), answer), [], "{answer:?}");
    }
    assert_eq!(faulty(Some(FaultPlace::Disk), PurgeAnswer::Refused(403)), [Rule::Purging]);
    assert_eq!(faulty(None, PurgeAnswer::Done), []);
}

#[test]
fn log_and_tally_tell_what_happened() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    history.purge(Scope::Everything, false);
    history.hit(1);
    let log = history.ledger.log().join("\n");
    for part in ["the origin answers with /a 1 - -", "PURGE is sent: everything", "VIOLATION of staleness"] {
        assert!(log.contains(part), "{part} in {log}");
    }
    let tally = history.ledger.tally();
    assert_eq!((tally.reasons.get("hit-fresh"), tally.violations), (Some(&1), 1));
    assert_eq!(tally.purges.get("Done"), Some(&1));
}
