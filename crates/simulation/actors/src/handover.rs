//! Hand-overs to another process in the record.
//!
//! Invariant: a hand-over explains no error, except the end of a tunnel: the old process ends what
//! has no end of its own. All rules hold for the responses of both processes.

use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::routing::Routing;
use crate::rules::Rule;
use std::sync::Arc;

impl Ledger {
    /// Records that another process serves in place of the edge from now on. Pages from before a
    /// reload may come back, as after a start. A lost directory is back if that process uses it.
    pub fn handed_over(&mut self, at: Moment, uses_directory: bool) {
        self.note(at, || "another process has taken over".to_owned());
        self.handovers.push((at, self.rules.routings.clone()));
        self.lost_directory = self.lost_directory.filter(|_| !uses_directory);
        self.permit_retired_pages();
    }

    /// Records that a process has failed that may have had the directory since `begun`. Nothing
    /// beside the directory is left for records, so no purge is durable until the next start.
    pub fn directory_is_lost(&mut self, begun: Moment) {
        self.note(begun, || "the edge gives up its directory".to_owned());
        self.lost_directory.get_or_insert(begun);
    }

    /// Records that a process that will fail may have the directory since `begun`. It answers no
    /// question whether a purge is durable, and the edge asks for as long as the process has the
    /// directory.
    pub fn directory_is_away(&mut self, begun: Moment) {
        self.note(begun, || "another process has the directory".to_owned());
        self.away_directory.push((begun, None));
    }

    /// Records that the process that had the directory has ended.
    pub fn directory_is_back(&mut self, at: Moment) {
        for (_, ended) in &mut self.away_directory {
            ended.get_or_insert(at);
        }
    }

    /// Whether the edge had no directory at a moment from `begun` to `ended`.
    pub(crate) fn lacked_directory(&self, begun: Moment, ended: Moment) -> bool {
        let overlaps =
            |away: &(Moment, Option<Moment>)| away.0 <= ended && away.1.is_none_or(|back| back >= begun);
        self.lost_directory.is_some_and(|since| since <= ended) || self.away_directory.iter().any(overlaps)
    }

    /// The routes of processes that may still serve a connection from this moment, because they end
    /// only after its last request.
    pub(crate) fn routings_of_old_processes(&self, connected: Moment) -> impl Iterator<Item = &Arc<Routing>> {
        let earlier = self.handovers.iter().filter(move |(at, _)| *at >= connected);
        earlier.flat_map(|(_, routings)| routings)
    }

    /// Whether another process has taken over from one moment to another, the last one included.
    pub(crate) fn has_handed_over(&self, from: Moment, to: Moment) -> bool {
        self.handovers.iter().any(|(at, _)| (from..=to).contains(at))
    }

    /// Counts an attempt of a process that behaved as it should.
    pub fn count_handover(&mut self, name: &str) {
        *self.tally_mut().handovers.entry(name.to_owned()).or_default() += 1;
    }

    /// Records a wrong outcome of an attempt to take over. A fault explains it only where both
    /// processes wait for the disk. After a kill nothing is expected.
    pub fn handover_failed(&mut self, begun: Moment, at: Moment, text: String) {
        self.note(at, || text.clone());
        let is_ill = self.is_disk_damaged || self.is_disk_ill(begun, at);
        if !self.is_dead() && !is_ill && !self.explains_by_edge(begun, at) {
            self.violate(Rule::Administration, at, text);
        }
    }

    /// Whether a hand-over before `ended` explains that a tunnel ended, or maintenance that there
    /// is none.
    pub(crate) fn explains_end_of_tunnel(&mut self, begun: Moment, ended: Moment) -> bool {
        self.explains(begun, ended)
            || self.by_rules_of(begun, |ledger| ledger.rules.is_maintained())
            || self.handovers.iter().any(|(at, _)| *at <= ended && at.plus(self.rules.grace) >= begun)
    }
}
