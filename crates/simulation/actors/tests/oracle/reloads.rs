//! Reloads: which rules hold before and after their answers.

use crate::history::{History, ask, content, reply};
use petasos_actors::{Moment, ReloadId, Rule, Rules, Scope};
use std::time::Duration;

fn rules(assumed_secs: u64) -> Rules {
    let assumed_max = Duration::from_secs(assumed_secs);
    Rules { assumed_max, age_slack: Duration::from_secs(1), trace: true, ..Rules::default() }
}

fn order(history: &mut History, assumed_secs: u64, keeps_pages: bool) -> ReloadId {
    let at = history.now();
    let drops = (!keeps_pages).then_some(Scope::Everything);
    history.ledger.reload_sent(at, "reload 1", rules(assumed_secs), drops)
}

fn answer(history: &mut History, id: ReloadId) {
    let at = history.now();
    history.ledger.reload_answered(at, id);
}

/// A request for a page that states no lifetime begins.
fn begin(history: &mut History) -> petasos_actors::RequestId {
    let at = history.now();
    history.ledger.request_begins(at, ask("/unstated"))
}

fn end(history: &mut History, id: petasos_actors::RequestId) {
    let at = history.now();
    history.ledger.request_ends(at, id, &reply(&content("/unstated", 1), "hit-fresh"));
}

#[test]
fn page_from_before_a_change_of_its_rules_is_stale() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    let reload = order(&mut history, 0, false);
    history.hit(1);
    history.is_right();
    answer(&mut history, reload);
    history.hit(1);
    history.violates(Rule::Staleness);
}

#[test]
fn page_is_kept_if_its_rules_stay_or_after_a_start() {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    let reload = order(&mut history, 0, true);
    answer(&mut history, reload);
    history.hit(1);
    let reload = order(&mut history, 0, false);
    answer(&mut history, reload);
    history.ledger.starts();
    history.hit(1);
    history.is_right();
}

#[test]
fn request_from_before_the_answer_may_follow_either_rules() {
    let mut history = History::new();
    *history.ledger.rules_mut() = rules(40);
    history.origin(&content("/unstated", 1));
    history.pass(20);
    let early = begin(&mut history);
    let reload = order(&mut history, 2, true);
    answer(&mut history, reload);
    end(&mut history, early);
    history.is_right();
}

#[test]
fn later_request_follows_the_new_rules_only() {
    let mut history = History::new();
    *history.ledger.rules_mut() = rules(2);
    let reload = order(&mut history, 40, false);
    answer(&mut history, reload);
    history.origin(&content("/unstated", 1));
    history.pass(20);
    let late = begin(&mut history);
    end(&mut history, late);
    history.is_right();
    let reload = order(&mut history, 2, false);
    answer(&mut history, reload);
    history.origin(&content("/unstated", 1));
    history.pass(20);
    let late = begin(&mut history);
    end(&mut history, late);
    history.violates(Rule::Age);
}

#[test]
fn wrong_answer_is_a_violation_unless_the_edge_ends() {
    let mut history = History::new();
    let (begun, at) = (history.now(), history.now());
    history.ledger.killed(at, None);
    history.ledger.reload_failed(begun, at, "status 500".to_owned());
    history.is_right();
    history.ledger.starts();
    history.ledger.reload_failed(Moment::default(), at, "status 500".to_owned());
    history.violates(Rule::Administration);
}
