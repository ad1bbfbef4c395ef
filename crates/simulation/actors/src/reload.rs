//! Reloads in the record: which rules hold for a request while they change.
//!
//! Invariant: a request that began before the answer to a reload may follow the old rules or the
//! new ones. A later request follows the new ones, and receives no page that the edge got under
//! others that its pages depend on.

use crate::event::{Purge, Scope};
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::routing::Routing;
use crate::rules::{Rule, Rules};
use std::sync::Arc;

/// A reload in the order in which they were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadId(usize);

/// The rules before a reload.
#[derive(Clone, Debug)]
pub(crate) struct RetiredRules {
    rules: Rules,
    /// When the reload was answered; `None` before.
    answered: Option<Moment>,
    /// The place among the purges, if the pages are not kept.
    purge: Option<usize>,
}

impl Ledger {
    /// Records that a reload to other rules is about to be ordered. `drops`: the pages that depend
    /// on what changes, if there are any.
    pub fn reload_sent(&mut self, at: Moment, name: &str, new: Rules, drops: Option<Scope>) -> ReloadId {
        let sent = self.stamp(at);
        self.note(at, || format!("{name} is ordered"));
        let old = self.rules.clone();
        // Pages that are kept may be those of an earlier life.
        let lasting = match &drops {
            Some(Scope::Everything) => new.clone(),
            _ => new.clone().lasting_as(&old),
        };
        self.rules = Rules {
            age_slack: old.age_slack.max(new.age_slack),
            // Requests under way when a fault ends may keep the old bounds for some time.
            first_byte_max: old.first_byte_max.max(new.first_byte_max),
            stale_first_byte_max: old.stale_first_byte_max.max(new.stale_first_byte_max),
            end_max: old.end_max.max(new.end_max),
            grace: old.grace.max(new.grace),
            ..lasting
        };
        let purge = drops.map(|scope| {
            self.purges.push(Purge {
                order: name.to_owned(),
                scope,
                is_soft: false,
                is_write: false,
                sent,
                answered: None,
                is_durable: true,
            });
            self.purges.len() - 1
        });
        self.retired.push(RetiredRules { rules: old, answered: None, purge });
        ReloadId(self.retired.len() - 1)
    }

    /// Records that a reload was answered as it should be. From now on only the new rules hold for
    /// new requests.
    pub fn reload_answered(&mut self, at: Moment, id: ReloadId) {
        let stamp = self.stamp(at);
        if self.is_dead() {
            return;
        }
        self.note(at, || "the reload is answered".to_owned());
        let Some(retired) = self.retired.get_mut(id.0) else { return };
        retired.answered = Some(at);
        let purge = retired.purge.and_then(|place| self.purges.get_mut(place));
        if let Some(purge) = purge {
            purge.answered = Some(stamp);
        }
    }

    /// Counts a reload that was answered as it should be.
    pub fn count_reload(&mut self, change: &str) {
        *self.tally_mut().reloads.entry(change.to_owned()).or_default() += 1;
    }

    /// Records a wrong answer to a reload. After a kill the edge need not answer, and while it
    /// drains it may refuse.
    pub fn reload_failed(&mut self, begun: Moment, at: Moment, text: String) {
        self.note(at, || text.clone());
        if !self.is_dead() && !self.explains_by_edge(begun, at) {
            self.violate(Rule::Administration, at, text);
        }
    }

    /// A start reads the configuration anew. Pages from before the last change may come back if the
    /// configuration is theirs again.
    pub(crate) fn forget_reloads(&mut self) {
        self.permit_retired_pages();
        self.retired.clear();
    }

    /// Pages from before a reload may come back, because another process has started.
    pub(crate) fn permit_retired_pages(&mut self) {
        for place in self.retired.iter().filter_map(|retired| retired.purge) {
            if let Some(purge) = self.purges.get_mut(place) {
                purge.answered = None;
            }
        }
    }

    /// The routes by all rules that this life of the edge has had.
    pub(crate) fn all_routings(&self) -> impl Iterator<Item = &Arc<Routing>> {
        let retired = self.retired.iter().flat_map(|retired| &retired.rules.routings);
        let of_old_processes = self.handovers.iter().flat_map(|(_, routings)| routings);
        self.rules.routings.iter().chain(retired).chain(of_old_processes)
    }

    /// Does `work` by the rules for what began at this moment.
    pub(crate) fn by_rules_of<T>(&mut self, begun: Moment, work: impl FnOnce(&mut Self) -> T) -> T {
        let under_way = |retired: &&RetiredRules| retired.answered.is_none_or(|answered| answered >= begun);
        let permitted = self.retired.iter().filter(under_way);
        let both = permitted.fold(self.rules.clone(), |rules, retired| either(&rules, &retired.rules));
        let kept = std::mem::replace(&mut self.rules, both);
        let result = work(self);
        self.rules = kept;
        result
    }
}

/// The rules of an edge that may follow either of these.
fn either(new: &Rules, old: &Rules) -> Rules {
    let routings = new.routings.iter().chain(&old.routings).cloned().collect();
    Rules {
        routings,
        missing_max: new.missing_max.max(old.missing_max),
        heuristic_max: new.heuristic_max.max(old.heuristic_max),
        writes_count: new.writes_count && old.writes_count,
        saves_count: new.saves_count && old.saves_count,
        fragments_may_fail: new.fragments_may_fail || old.fragments_may_fail,
        ..new.clone().lasting_as(old)
    }
}
