//! Purges and writes: what may be served after them. Ages.

use crate::history::{History, ask, content, reply};
use petasos_actors::{Ask, FaultPlace, HeldCopy, OrderedPurge, PurgeAnswer, Rule, Scope};
use std::time::Duration;

fn target() -> Scope {
    Scope::Target("/a".to_owned())
}

/// A stored page `/a` that was edited and purged.
fn purged(is_soft: bool) -> History {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    history.purge(target(), is_soft);
    history
}

#[test]
fn purged_version_is_stale() {
    let mut history = purged(false);
    history.hit(1);
    history.violates(Rule::Staleness);
    let text = history.ledger.violations()[0].to_string();
    for part in ["GET /a of visitor 1", "\"/a 1 - - -\"", "hard purge \"PURGE\" sent at 0.003 s", "event 3"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn new_version_and_refetched_version_are_not_stale() {
    let mut history = purged(false);
    history.origin(&content("/a", 2));
    history.hit(2);
    history.is_right();
    history.hit(1);
    history.violates(Rule::Staleness);
    let mut history = purged(false);
    history.origin(&content("/a", 1));
    history.hit(1);
    history.is_right();
}

#[test]
fn fetch_between_sending_and_answer_is_not_stale() {
    let mut history = History::new();
    let at = history.now();
    let purge = history.ledger.purge_sent(at, "PURGE", target(), false);
    history.origin(&content("/a", 1));
    let at = history.now();
    history.ledger.purge_answered(at, purge, PurgeAnswer::Done, false);
    history.hit(1);
    history.is_right();
}

#[test]
fn fetch_that_arrived_before_the_sending_is_stale() {
    let mut history = History::new();
    let (id, at) = (content("/a", 1), history.now());
    let received = history.ledger.stamp(at);
    history.purge(target(), false);
    history.ledger.origin_begins(received, &id, &[], 0, false);
    let at = history.now();
    history.ledger.origin_ends(at, &id);
    history.hit(1);
    history.violates(Rule::Staleness);
}

#[test]
fn request_before_the_answer_and_lost_purges_bind_nobody() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    let at = history.now();
    let purge = history.ledger.purge_sent(at, "PURGE", target(), false);
    let at = history.now();
    let request = history.ledger.request_begins(at, ask("/a"));
    let at = history.now();
    history.ledger.purge_answered(at, purge, PurgeAnswer::Done, false);
    let at = history.now();
    history.ledger.request_ends(at, request, &reply(&content("/a", 1), "hit-fresh"));
    history.is_right();
    let mut history = History::new();
    history.origin(&content("/a", 1));
    let at = history.now();
    history.ledger.fault_begins(at, FaultPlace::Network, "partition");
    history.purge_answered(target(), false, PurgeAnswer::Lost);
    history.purge_answered(target(), false, PurgeAnswer::Failed(502));
    history.hit(1);
    history.is_right();
}

#[test]
fn soft_purge_permits_stale_responses_for_their_time() {
    let stale = |history: &mut History, reason| {
        history.visit(ask("/a"), &reply(&content("/a", 1), reason));
    };
    let mut history = purged(true);
    history.pass(5);
    stale(&mut history, "stale-while-revalidate");
    stale(&mut history, "stale-on-error");
    history.is_right();
    stale(&mut history, "hit-fresh");
    history.violates(Rule::Staleness);
    let mut history = purged(true);
    history.pass(12);
    stale(&mut history, "stale-while-revalidate");
    history.violates(Rule::Staleness);
    let mut history = purged(false);
    stale(&mut history, "stale-on-error");
    history.violates(Rule::Staleness);
}

#[test]
fn each_scope_covers_its_pages() {
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
    for (scope, is_covered) in [
        (Scope::Target("/b".to_owned()), false),
        (Scope::Target("/a?page=2".to_owned()), false),
        (Scope::Prefix("/a".to_owned()), true),
        (Scope::Prefix("/b".to_owned()), false),
        (Scope::AnyTag(tags(&["other", "page"])), true),
        (Scope::AnyTag(tags(&["other"])), false),
        (Scope::AllTags(tags(&["all", "page"])), true),
        (Scope::AllTags(tags(&["other", "page"])), false),
        (Scope::Everything, true),
    ] {
        let mut history = History::new();
        history.origin(&content("/a", 1));
        history.purge(scope.clone(), false);
        history.hit(1);
        assert_eq!(history.violated().len(), usize::from(is_covered), "{scope}");
    }
}

#[test]
fn tags_count_only_if_every_response_had_them() {
    for (first, second, is_covered) in
        [(["page"], ["page"], true), (["page"], ["wrong"], false), (["wrong"], ["page"], false)]
    {
        let mut history = History::new();
        history.origin_with(&content("/a", 1), &first);
        history.origin_with(&content("/a", 1), &second);
        history.purge(Scope::AnyTag(vec!["page".to_owned()]), false);
        history.hit(1);
        assert_eq!(history.violated().len(), usize::from(is_covered), "{first:?} {second:?}");
    }
}

pub(crate) fn write(history: &mut History, edits: bool, status: u16) {
    let at = history.now();
    let post = Ask { method: "POST".to_owned(), is_write: true, ..ask("/a") };
    let request = history.ledger.request_begins(at, post);
    // A fetch that reaches the origin after the POST was sent, but before the edit.
    history.origin(&content("/a", 1));
    if edits {
        let at = history.now();
        history.ledger.edited(at, "/a", 2);
    }
    let at = history.now();
    let mut answer = reply(&content("/a", 2), "pass-method");
    answer.status = Some(status);
    history.ledger.request_ends(at, request, &answer);
}

#[test]
fn successful_write_counts_as_a_hard_purge_from_its_edit_on() {
    for status in [200, 204, 303] {
        let mut history = History::new();
        write(&mut history, true, status);
        history.hit(1);
        history.violates(Rule::Staleness);
    }
    let mut history = History::new();
    write(&mut history, true, 200);
    history.origin(&content("/a", 2));
    history.hit(2);
    history.is_right();
    // Without a recorded edit, the write counts from its sending on.
    let mut history = History::new();
    write(&mut history, false, 200);
    history.hit(1);
    history.is_right();
}

#[test]
fn purge_ordered_by_a_write_counts_if_the_origin_sent_it() {
    let order = OrderedPurge {
        field: "X-LiteSpeed-Purge",
        value: "page".to_owned(),
        scope: Scope::AnyTag(vec!["page".to_owned()]),
        is_soft: false,
    };
    for (is_sent, status) in [(true, 200), (true, 500), (false, 200)] {
        let mut history = History::new();
        let at = history.now();
        history.ledger.fault_begins(at, FaultPlace::Origin, "empty 200");
        history.origin(&content("/a", 1));
        let post =
            Ask { method: "POST".to_owned(), is_write: true, orders: Some(order.clone()), ..ask("/b") };
        let mut answer = crate::history::bare(status, "pass-method");
        if is_sent {
            answer.fields.push("X-Sim", content("/b", 2).to_string());
        }
        history.visit(post, &answer);
        history.hit(1);
        assert_eq!(history.violated().len(), usize::from(is_sent && status == 200), "{is_sent} {status}");
    }
}

#[test]
fn failed_write_invalidates_nothing() {
    let mut history = History::new();
    let at = history.now();
    history.ledger.fault_begins(at, FaultPlace::Origin, "status 500");
    write(&mut history, true, 500);
    history.hit(1);
    history.is_right();
}

#[test]
fn kill_loses_undurable_purges_only() {
    for (answer, is_kept) in [(PurgeAnswer::Undurable, false), (PurgeAnswer::Done, true)] {
        let mut history = History::new();
        let at = history.now();
        let fault = history.ledger.fault_begins(at, FaultPlace::Disk, "full disk");
        let at = history.now();
        history.ledger.fault_ends(at, fault);
        history.origin(&content("/a", 1));
        history.purge_answered(target(), false, answer);
        history.hit(1);
        assert_eq!(history.violated(), [Rule::Staleness], "{answer:?} is in force before the kill");
        history.ledger.lose_undurable_purges();
        history.hit(1);
        assert_eq!(history.violated().len(), 1 + usize::from(is_kept), "{answer:?}");
    }
}

#[test]
fn kill_loses_writes_during_disk_faults_only() {
    for (place, is_kept) in [(FaultPlace::Disk, false), (FaultPlace::Origin, true)] {
        let mut history = History::new();
        let at = history.now();
        history.ledger.fault_begins(at, place, "fault");
        write(&mut history, true, 200);
        history.ledger.lose_undurable_purges();
        history.hit(1);
        assert_eq!(history.violated().len(), usize::from(is_kept), "{place:?}");
    }
}

#[test]
fn power_cut_makes_purges_soft_unless_they_are_power_safe() {
    for (power_safe, fresh, stale) in [(false, 1, 0), (true, 1, 1)] {
        for (reason, violations) in [("hit-fresh", fresh), ("stale-on-error", stale)] {
            let mut history = purged(false);
            history.ledger.power_cut(power_safe);
            history.visit(ask("/a"), &reply(&content("/a", 1), reason));
            assert_eq!(history.violated().len(), violations, "{power_safe} {reason}");
        }
    }
}

#[test]
fn power_cut_loses_undurable_purges() {
    let mut history = History::new();
    let at = history.now();
    history.ledger.fault_begins(at, FaultPlace::Disk, "full disk");
    history.origin(&content("/a", 1));
    history.purge_answered(target(), false, PurgeAnswer::Undurable);
    history.ledger.power_cut(true);
    history.hit(1);
    history.is_right();
}

#[test]
fn version_is_too_old_after_lifetime_and_permitted_staleness() {
    for (secs, reason, is_right) in [
        (60, "hit-fresh", true),
        (62, "hit-fresh", false),
        (70, "stale-while-revalidate", true),
        (72, "stale-while-revalidate", false),
        (3600, "stale-on-error", true),
        (25 * 3600, "stale-on-error", false),
    ] {
        let mut history = History::new();
        history.pass(100);
        history.origin(&content("/a", 1));
        history.pass(secs);
        history.visit(ask("/a"), &reply(&content("/a", 1), reason));
        let expected: &[Rule] = if is_right { &[] } else { &[Rule::Age] };
        assert_eq!(history.violated(), expected, "{secs} {reason}");
    }
}

#[test]
fn confirmation_makes_a_version_young_again() {
    let mut history = History::new();
    let id = content("/a", 1);
    history.origin(&id);
    history.pass(100);
    let at = history.now();
    let received = history.ledger.stamp(at);
    history.ledger.origin_begins(received, &id, &[], 0, true);
    history.pass(500);
    history.hit(1);
    history.is_right();
    let at = history.now();
    history.ledger.origin_ends(at, &id);
    history.pass(62);
    history.hit(1);
    history.violates(Rule::Age);
}

#[test]
fn stated_age_is_not_less_than_the_true_one() {
    for (age, rule) in [("30", None), ("31", None), ("20", Some(Rule::Fields)), ("x", Some(Rule::Fields))] {
        let mut history = History::new();
        history.origin(&content("/a", 1));
        history.pass(30);
        let mut answer = reply(&content("/a", 1), "hit-fresh");
        answer.fields.push("Age", age);
        history.visit(ask("/a"), &answer);
        assert_eq!(history.violated(), rule.into_iter().collect::<Vec<_>>(), "{age}");
    }
}

/// A 304 for version 1 of `/a`, after a purge and with these later contents at the origin.
fn confirmed(date_secs: Option<u64>, later: &[u64]) -> History {
    let mut history = purged(false);
    for version in later {
        history.origin(&content("/a", *version));
    }
    let held = HeldCopy { id: content("/a", 1), date_secs };
    let mut answer = crate::history::bare(304, "hit-fresh");
    answer.own_delay = Duration::ZERO;
    history.visit(Ask { held: Some(held), ..ask("/a") }, &answer);
    history
}

#[test]
fn not_modified_confirms_only_what_may_be_served() {
    confirmed(None, &[2]).violates(Rule::Staleness);
    confirmed(None, &[1]).is_right();
    // Version 2 was edited in second 1002. A date of that second means it too.
    confirmed(Some(1002), &[2]).is_right();
    confirmed(Some(1001), &[2]).violates(Rule::Staleness);
}

#[test]
fn not_modified_needs_a_condition() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    history.visit(ask("/a"), &crate::history::bare(304, "hit-fresh"));
    history.violates(Rule::Integrity);
}
