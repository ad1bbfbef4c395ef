//! The record of what happened, and the oracle that judges it.
//!
//! Invariant: all events have one total order, the order in which they were recorded, because many
//! events have the same simulated time. The ledger depends on nothing but the recorded events.

use crate::access_lines::LogRecord;
use crate::application::SaveForm;
use crate::content::ContentId;
use crate::event::{
    Asked, Begun, Fault, FaultId, FaultPlace, Lie, Purge, PurgeAnswer, PurgeId, RequestId, Scope, Stamp,
};
use crate::exchange::{Ask, Ending, Reply};
use crate::judge_listed::ListedRecord;
use crate::moment::Moment;
use crate::operator::AdminCall;
use crate::ordered::OrderedPurge;
use crate::reload::RetiredRules;
use crate::routing::{Routing, is_own_reason};
use crate::rules::{Rule, Rules, Violation};
use crate::site::SitePlan;
use crate::traces::TraceRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::MemoryMeter;

/// Largest number of lines in the log.
const LOG_LINES_MAX: usize = 100_000;

/// Largest number of violations that are kept; further ones are counted only.
const VIOLATIONS_MAX: usize = 100;

/// Longest time until the edge uses a disk again that has failed.
const DISK_BACK_MAX: Duration = Duration::from_secs(5);

/// The most variants of a page in which the edge has a content at the same time.
pub const VARIANTS_MAX: u32 = 8;

/// The ledger as all actors share it.
pub type SharedLedger = Arc<Mutex<Ledger>>;

/// Numbers of a run, for reports and coverage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that ended, by the way they ended.
    pub endings: BTreeMap<String, u64>,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by the detail of `Cache-Status`.
    pub reasons: BTreeMap<String, u64>,
    /// Purges by their answer.
    pub purges: BTreeMap<String, u64>,
    /// Purges by their dialect, and by the field of the response that ordered them.
    pub dialects: BTreeMap<String, u64>,
    /// Reloads by the change of the configuration.
    pub reloads: BTreeMap<String, u64>,
    /// Processes that wanted to take over, by their conduct.
    pub handovers: BTreeMap<String, u64>,
    /// Calls of the admin address by their kind.
    pub calls: BTreeMap<String, u64>,
    /// What assembled pages had in the places of their fragments.
    pub fragments: BTreeMap<String, u64>,
    /// All violations, also those that were not kept.
    pub violations: u64,
}

/// The record and its oracle.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) site: Arc<SitePlan>,
    pub(crate) rules: Rules,
    number: u64,
    pub(crate) begun: BTreeMap<ContentId, Begun>,
    edits: BTreeMap<(String, u64), Stamp>,
    requests: Vec<Asked>,
    pub(crate) purges: Vec<Purge>,
    pub(crate) faults: Vec<Fault>,
    violations: Vec<Violation>,
    log: Vec<String>,
    tally: Tally,
    pub(crate) is_disk_damaged: bool,
    /// Whether bodies on the disk may lack bytes: after damage, and after a power cut, which loses
    /// writes that were not synced. Their checksums find that when they are read.
    pub(crate) may_lack_bytes: bool,
    /// Contents whose delivery from the store broke off, with the time.
    pub(crate) broken: BTreeMap<ContentId, (Stamp, u32)>,
    /// Whether the edge was killed and has not started again.
    is_dead: bool,
    /// The rules before each reload of this life.
    pub(crate) retired: Vec<RetiredRules>,
    /// When other processes have taken over, with the routes that the old ones have.
    pub(crate) handovers: Vec<(Moment, Vec<Arc<Routing>>)>,
    /// Since when the edge has no directory, because another process has failed with it.
    pub(crate) lost_directory: Option<Moment>,
    /// When processes that failed had the directory: since, and until.
    pub(crate) away_directory: Vec<(Moment, Option<Moment>)>,
    memory: MemoryMeter,
    /// What the origin has seen of runs that fill the cache.
    pub(crate) listed: ListedRecord,
    /// The traces of this life, if the edge exports them.
    pub(crate) traces: Option<TraceRecord>,
    /// The requests of this life, if the edge has an access log.
    pub(crate) log_lines: Option<LogRecord>,
}

/// Whether a fault at this place can keep the edge from writing.
const fn is_of_disk(place: FaultPlace) -> bool {
    matches!(place, FaultPlace::Disk | FaultPlace::SlowDisk | FaultPlace::Medium)
}

impl Ledger {
    /// An empty record.
    pub fn new(site: Arc<SitePlan>, rules: Rules) -> Self {
        Self {
            site,
            rules,
            number: 0,
            begun: BTreeMap::new(),
            edits: BTreeMap::new(),
            requests: Vec::new(),
            purges: Vec::new(),
            faults: Vec::new(),
            violations: Vec::new(),
            log: Vec::new(),
            is_disk_damaged: false,
            may_lack_bytes: false,
            broken: BTreeMap::new(),
            is_dead: false,
            retired: Vec::new(),
            handovers: Vec::new(),
            lost_directory: None,
            away_directory: Vec::new(),
            memory: MemoryMeter::default(),
            listed: ListedRecord::default(),
            traces: None,
            log_lines: None,
            tally: Tally {
                endings: BTreeMap::new(),
                statuses: BTreeMap::new(),
                reasons: BTreeMap::new(),
                purges: BTreeMap::new(),
                reloads: BTreeMap::new(),
                handovers: BTreeMap::new(),
                calls: BTreeMap::new(),
                dialects: BTreeMap::new(),
                fragments: BTreeMap::new(),
                violations: 0,
            },
        }
    }

    /// An empty record that actors can share.
    pub fn shared(site: Arc<SitePlan>, rules: Rules) -> SharedLedger {
        Arc::new(Mutex::new(Self::new(site, rules)))
    }

    /// The bounds, which a life may change while it runs.
    pub const fn rules_mut(&mut self) -> &mut Rules {
        &mut self.rules
    }

    /// The edge starts. It knows nothing about earlier faults, so they explain nothing from now on.
    pub fn starts(&mut self) {
        self.faults.iter_mut().for_each(|fault| fault.is_past = true);
        self.is_dead = false;
        self.lost_directory = None;
        self.away_directory.clear();
        self.handovers.clear();
        self.traces = None;
        self.log_lines = None;
        self.forget_reloads();
    }

    /// Whether the edge was killed and has not started again.
    pub(crate) const fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The edge starts with other settings. A stored response may still have the lifetime that it
    /// got in an earlier life, and the clock may have jumped since.
    pub fn restarts(&mut self, rules: Rules) {
        let age_slack = self.rules.age_slack.max(rules.age_slack);
        self.rules = Rules { age_slack, ..rules.lasting_as(&self.rules) };
    }

    /// Counts the memory of the bodies that the actors of this record hold.
    pub const fn memory(&self) -> &MemoryMeter {
        &self.memory
    }

    /// Violations so far, the first ones.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Numbers so far.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) const fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// All events as lines, if the rules say `trace`.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// Takes the next place in the order of events.
    pub const fn stamp(&mut self, at: Moment) -> Stamp {
        self.number += 1;
        Stamp { at, number: self.number }
    }

    /// Adds a line to the log.
    pub fn note(&mut self, at: Moment, event: impl FnOnce() -> String) {
        if self.rules.trace && self.log.len() < LOG_LINES_MAX {
            self.log.push(format!("{:4} {at}: {}", self.number, event()));
        }
    }

    pub(crate) fn violate(&mut self, rule: Rule, at: Moment, text: String) {
        self.tally.violations += 1;
        let violation = Violation { rule, at, text };
        self.note(at, || format!("VIOLATION of {violation}"));
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }

    /// Records that the author edited the page at `path`.
    pub fn edited(&mut self, at: Moment, path: &str, version: u64) {
        let stamp = self.stamp(at);
        self.edits.insert((path.to_owned(), version), stamp);
        self.note(at, || format!("{path} is edited, version {version}"));
    }

    /// Records that the origin begins to answer with `id`, or confirms it. `received` is the place
    /// of the request, taken by [`Ledger::stamp`] when it arrived, with the version of that moment.
    /// `tags` are those that the response has, and `modified_secs` the second of the edit.
    pub fn origin_begins(
        &mut self,
        received: Stamp,
        id: &ContentId,
        tags: &[String],
        modified_secs: u64,
        is_confirmation: bool,
    ) {
        let tags: BTreeSet<String> = tags.iter().cloned().collect();
        let begun = self
            .begun
            .entry(id.clone())
            .and_modify(|begun| begun.tags = begun.tags.intersection(&tags).cloned().collect())
            .or_insert_with(|| Begun { tags: tags.clone(), ..Begun::default() });
        if begun.last.number < received.number {
            begun.last = received;
        }
        begun.open += 1;
        begun.modified_secs = modified_secs;
        let verb = if is_confirmation { "confirms" } else { "answers with" };
        self.note(received.at, || format!("the origin {verb} {id} (event {})", received.number));
    }

    /// Records that a response or confirmation with `id` ended at the origin.
    pub fn origin_ends(&mut self, at: Moment, id: &ContentId) {
        if let Some(begun) = self.begun.get_mut(id) {
            begun.open = begun.open.saturating_sub(1);
            begun.ended = begun.ended.max(at);
        }
    }

    /// Records that the origin lies about the length of a response with `id`.
    pub fn origin_lies(&mut self, at: Moment, id: &ContentId, lie: Lie) {
        let begun = self.begun.entry(id.clone()).or_default();
        match lie {
            Lie::LooksWhole(bytes) => {
                begun.whole_bytes.insert(bytes);
                begun.announced_bytes.insert(bytes);
            }
            Lie::Announces(bytes) => {
                begun.announced_bytes.insert(bytes);
            }
        }
        self.note(at, || format!("the origin lies about {id}: {lie:?}"));
    }

    /// Records that a purge is about to be sent. `order` describes it for messages.
    pub fn purge_sent(&mut self, at: Moment, order: &str, scope: Scope, is_soft: bool) -> PurgeId {
        let sent = self.stamp(at);
        self.note(at, || format!("{order} is sent: {scope}, soft: {is_soft}"));
        let (order, answered, is_write) = (order.to_owned(), None, false);
        self.purges.push(Purge { order, scope, is_soft, is_write, sent, answered, is_durable: false });
        PurgeId(self.purges.len() - 1)
    }

    /// Records the answer to a purge. `misbehaves`: the client broke the protocol, so that the edge
    /// may refuse it.
    pub fn purge_answered(&mut self, at: Moment, id: PurgeId, answer: PurgeAnswer, misbehaves: bool) {
        let stamp = self.stamp(at);
        if self.is_dead {
            return;
        }
        let Some(purge) = self.purges.get_mut(id.0) else { return };
        if matches!(answer, PurgeAnswer::Done | PurgeAnswer::Undurable) {
            purge.answered = Some(stamp);
            purge.is_durable = answer == PurgeAnswer::Done;
        }
        let (order, sent) = (purge.order.clone(), purge.sent);
        let target = match &purge.scope {
            Scope::Target(target) | Scope::TargetBeyond(target, _) => Some(target.clone()),
            _ => None,
        };
        *self.tally.purges.entry(format!("{answer:?}")).or_default() += 1;
        self.note(at, || format!("{order} (event {}) is answered: {answer:?}", sent.number));
        let is_at_risk = self.is_disk_damaged || self.lacked_directory(sent.at, at);
        let is_lost = answer == PurgeAnswer::Undurable && is_at_risk;
        // A purge by GET fetches its page, which may be a template without memory.
        let lacks_memory =
            answer == PurgeAnswer::Failed(503) && target.is_some_and(|target| self.may_lack_memory(&target));
        let is_explained = misbehaves || is_lost || lacks_memory || self.explains(sent.at, at);
        match answer {
            PurgeAnswer::Refused(status) if !misbehaves => {
                let text = format!("{order}, sent at {}, was refused with status {status}", sent.at);
                self.violate(Rule::Purging, at, text);
            }
            PurgeAnswer::Failed(_) | PurgeAnswer::Lost | PurgeAnswer::Undurable if !is_explained => {
                let text = format!("{order}, sent at {}, ended as {answer:?} without a fault", sent.at);
                self.violate(Rule::Purging, at, text);
            }
            _ => {}
        }
    }

    /// Records that a fault begins, which explains errors until its end and some time after it.
    pub fn fault_begins(&mut self, at: Moment, place: FaultPlace, name: &str) -> FaultId {
        self.note(at, || format!("fault {name} begins at {place:?}"));
        self.faults.push(Fault { place, begun: at, ended: None, is_past: false });
        FaultId(self.faults.len() - 1)
    }

    /// Records that a fault ends.
    pub fn fault_ends(&mut self, at: Moment, id: FaultId) {
        if let Some(fault) = self.faults.get_mut(id.0) {
            fault.ended = Some(at);
        }
        self.note(at, || format!("fault {} ends", id.0));
    }

    /// Whether a fault explains an error of a request from `begun` to `ended`.
    pub(crate) fn explains(&self, begun: Moment, ended: Moment) -> bool {
        self.faults.iter().any(|fault| self.overlaps(fault, begun, ended))
    }

    /// Whether a fault other than changed bytes on the disk explains an error.
    pub(crate) fn explains_beside_medium(&self, begun: Moment, ended: Moment) -> bool {
        let others = self.faults.iter().filter(|fault| fault.place != FaultPlace::Medium);
        others.into_iter().any(|fault| self.overlaps(fault, begun, ended))
    }

    /// Whether a fault of the disk explains that nothing was written from `begun` to `ended`.
    pub fn is_disk_ill(&self, begun: Moment, ended: Moment) -> bool {
        self.faults.iter().any(|fault| is_of_disk(fault.place) && self.overlaps(fault, begun, ended))
    }

    /// Whether the disk fails at this moment, or did shortly before, so that the edge does not use
    /// it.
    pub(crate) fn is_disk_failing(&self, at: Moment) -> bool {
        self.faults.iter().any(|fault| {
            let is_over = fault.is_past || fault.ended.is_some_and(|end| end.plus(DISK_BACK_MAX) < at);
            fault.place == FaultPlace::Disk && !is_over
        })
    }

    /// Whether the end of the edge explains an error.
    pub(crate) fn explains_by_edge(&self, begun: Moment, ended: Moment) -> bool {
        let of_edge = self.faults.iter().filter(|fault| fault.place == FaultPlace::Edge);
        of_edge.into_iter().any(|fault| self.overlaps(fault, begun, ended))
    }

    fn overlaps(&self, fault: &Fault, begun: Moment, ended: Moment) -> bool {
        let grace = if fault.is_past { Duration::ZERO } else { self.rules.grace };
        let is_over = fault.ended.is_some_and(|end| end.plus(grace) < begun);
        fault.begun <= ended && !is_over
    }

    /// The edge was killed: purges that it called not durable no longer count. A write has no
    /// answer that could say so. It no longer counts if the disk was failing at that time, or if
    /// the edge had no directory.
    pub fn lose_undurable_purges(&mut self) {
        let is_lost = |ledger: &Self, purge: &Purge| {
            let Some(answered) = purge.answered else { return false };
            let (sent, answered) = (purge.sent.at, answered.at);
            let is_at_risk = ledger.is_disk_ill(sent, answered) || ledger.lacked_directory(sent, answered);
            if purge.is_write { is_at_risk } else { !purge.is_durable }
        };
        let lost: Vec<_> = self.purges.iter().map(|purge| is_lost(self, purge)).collect();
        for (purge, _) in self.purges.iter_mut().zip(lost).filter(|(_, is_lost)| *is_lost) {
            purge.answered = None;
        }
    }

    /// The machine lost its power. Unless purges are `power_safe`, the edge validates each stored
    /// response before it uses it. Until then a hard purge has the force of a soft one.
    pub fn power_cut(&mut self, power_safe: bool) {
        self.lose_undurable_purges();
        if !power_safe {
            self.purges.iter_mut().for_each(|purge| purge.is_soft = true);
        }
    }

    /// The process of the edge ended at once, with the power of the machine if `power_cut` is
    /// given, which says whether purges are safe from that. Requests and responses under way end:
    /// what a dying process still answers reaches nobody.
    pub fn killed(&mut self, at: Moment, power_cut: Option<bool>) {
        self.note(at, || format!("the edge is killed, power cut: {}", power_cut.is_some()));
        self.may_lack_bytes |= power_cut.is_some();
        match power_cut {
            Some(power_safe) => self.power_cut(power_safe),
            None => self.lose_undurable_purges(),
        }
        self.is_dead = true;
        self.requests.iter_mut().for_each(|asked| asked.ended = true);
        for begun in self.begun.values_mut().filter(|begun| begun.open > 0) {
            begun.open = 0;
            begun.ended = begun.ended.max(at);
        }
        for fault in self.faults.iter_mut().filter(|fault| fault.ended.is_none()) {
            fault.ended = Some(at);
        }
    }

    /// The edge ends although clients are left: nobody answers them any more.
    pub fn leaves(&mut self, at: Moment) {
        self.note(at, || "the edge leaves its clients".to_owned());
        self.is_dead = true;
        self.requests.iter_mut().for_each(|asked| asked.ended = true);
    }

    /// The wall clock of the edge jumped by `seconds`, so ages may be wrong by as much.
    pub fn clock_jumps(&mut self, at: Moment, seconds: u64) {
        self.note(at, || format!("the wall clock jumps by {seconds} s"));
        self.rules.age_slack = self.rules.age_slack.saturating_add(Duration::from_secs(seconds));
    }

    /// Stored bytes have changed. The next start may refuse the directory, because a damaged file
    /// can look like one of another program. Purges are then never durable.
    pub const fn disk_is_damaged(&mut self) {
        (self.is_disk_damaged, self.may_lack_bytes) = (true, true);
        if let Some(log) = &mut self.log_lines {
            log.is_damaged = true;
        }
    }

    /// Records the answer to a call of the admin address about the page at `path`, and what is
    /// wrong with it. After a kill the edge need not answer.
    pub fn call_answered(&mut self, at: Moment, call: AdminCall, path: &str, fault: Option<String>) {
        self.count_call(format!("{call:?}"));
        self.note(at, || format!("{call:?} of {path} is answered"));
        if let Some(fault) = fault.filter(|_| !self.is_dead) {
            self.violate(Rule::Administration, at, format!("{call:?} of {path}: {fault}"));
        }
    }

    /// Counts a call of the admin address of this kind.
    pub(crate) fn count_call(&mut self, kind: String) {
        *self.tally.calls.entry(kind).or_default() += 1;
    }

    /// Records what is wrong with a stream of the log. After a kill the edge need not go on with
    /// it.
    pub(crate) fn following_fails(&mut self, at: Moment, number: u64, fault: String) {
        if !self.is_dead {
            self.violate(Rule::Administration, at, format!("follower {number}: {fault}"));
        }
    }

    /// The number of requests that began at `from` or later, and whose responses were complete
    /// `slack` before `until`.
    pub(crate) fn answered_between(&self, from: Moment, until: Moment, slack: Duration) -> u64 {
        let is_within = |asked: &&Asked| {
            asked.begun.at >= from && asked.completed.is_some_and(|at| at.plus(slack) <= until)
        };
        self.requests.iter().filter(is_within).count() as u64
    }

    /// Records an answer of the dashboard, and what is wrong with it. `name` begins with that of
    /// the call. After a kill the edge need not answer.
    pub fn dashboard_answered(&mut self, at: Moment, name: &str, fault: Option<String>) {
        let call = name.split(' ').next().unwrap_or_default();
        *self.tally.calls.entry(format!("dashboard: {call}")).or_default() += 1;
        self.note(at, || format!("the dashboard answers {name}"));
        if let Some(fault) = fault.filter(|_| !self.is_dead) {
            self.violate(Rule::Administration, at, format!("dashboard, {name}: {fault}"));
        }
    }

    /// Records the answer to an attempt that must be refused, and what is wrong with it. After a
    /// kill the edge need not answer.
    pub fn attempt_answered(&mut self, at: Moment, name: &str, fault: Option<(Rule, String)>) {
        self.note(at, || format!("{name} is answered"));
        if let Some((rule, fault)) = fault.filter(|_| !self.is_dead) {
            self.violate(rule, at, format!("{name}: {fault}"));
        }
    }

    /// Records that a request is about to be sent.
    pub fn request_begins(&mut self, at: Moment, ask: Ask) -> RequestId {
        let begun = self.stamp(at);
        self.note(at, || format!("{ask} begins"));
        // No edge is left to answer a request that begins at the moment of a kill.
        self.requests.push(Asked { ask, begun, ended: self.is_dead, completed: None });
        RequestId(self.requests.len() - 1)
    }

    /// Records the end of a request, and judges its response.
    pub fn request_ends(&mut self, at: Moment, id: RequestId, reply: &Reply) {
        let ended = self.stamp(at);
        if self.is_dead {
            return;
        }
        let Some(asked) = self.requests.get_mut(id.0) else { return };
        asked.ended = true;
        asked.completed = reply.is_complete().then_some(at);
        let asked = asked.clone();
        let status = reply.status.unwrap_or_default();
        let (ending, reason) = (reply.ending.to_string(), reply.reason());
        self.note(at, || {
            let sim = reply.field("X-Sim").unwrap_or("no X-Sim");
            format!(
                "{} (event {}): {status} {sim}, {} bytes, {ending}, {reason}",
                asked.ask,
                asked.begun.number,
                reply.body.len()
            )
        });
        let ending = if matches!(reply.ending, Ending::Malformed(_)) { "malformed".into() } else { ending };
        *self.tally.endings.entry(ending).or_default() += 1;
        if let Some(status) = reply.status {
            *self.tally.statuses.entry(status).or_default() += 1;
        }
        self.count_reason(reason);
        self.trace_ends(&asked, reply);
        self.log_answer(&asked, reply);
        self.by_rules_of(asked.begun.at, |ledger| {
            ledger.judge(&asked, ended, reply);
            ledger.record_write(&asked, ended, reply);
        });
    }

    /// A successful write counts as a hard purge of its page from its answer on, and as the purge
    /// that its response orders. It was sent at the edit that its response names, if the origin
    /// edited the page.
    fn record_write(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        let is_success = reply.status.is_some_and(|status| (200..400).contains(&status));
        let is_written = asked.ask.is_write && !is_own_reason(reply.reason());
        if !is_written || !is_success || !reply.is_complete() {
            return;
        }
        let named = reply.field("X-Sim").and_then(ContentId::parse);
        let edit = named.and_then(|id| self.edits.get(&(asked.ask.target.clone(), id.version)));
        let sent = edit.copied().unwrap_or(asked.begun);
        if self.rules.writes_count {
            self.purges.push(Purge {
                order: asked.ask.to_string(),
                scope: Scope::Target(asked.ask.target.clone()),
                is_soft: false,
                is_write: true,
                sent,
                answered: Some(ended),
                is_durable: true,
            });
        }
        // A response without content of the site orders nothing.
        let Some(orders) = asked.ask.orders.clone().filter(|_| reply.field("X-Sim").is_some()) else {
            return;
        };
        *self.tally.dialects.entry(orders.field.to_owned()).or_default() += 1;
        let OrderedPurge { field, value, scope, is_soft } = orders;
        self.note(ended.at, || format!("{field}: {value} is in force: {scope}, soft: {is_soft}"));
        self.purges.push(Purge {
            order: format!("{field}: {value}, response to {}", asked.ask),
            scope,
            is_soft,
            is_write: true,
            sent,
            answered: Some(ended),
            is_durable: true,
        });
    }

    /// Records the answer to a request for the start page, which only shows the application.
    pub(crate) fn start_answered(&mut self, begun: Moment, at: Moment, name: &str, reply: &Reply) {
        self.note(at, || format!("{name} got the start page: {:?}, {}", reply.status, reply.ending));
        self.judge_answer(begun, at, &format!("the start page for {name}"), reply);
    }

    /// Records the answer to a save of the page `named`. If it proves the write, it counts as a
    /// purge of the page, sent at the edit that it names. What only a profile understands counts
    /// where the site's profile is in force.
    pub(crate) fn save_answered(
        &mut self,
        begun: Moment,
        at: Moment,
        order: &str,
        named: &str,
        form: SaveForm,
        reply: &Reply,
    ) {
        let answered = self.stamp(at);
        self.note(at, || format!("{order} is answered: {:?}, {}", reply.status, reply.ending));
        self.judge_answer(begun, at, order, reply);
        let is_success = reply.is_complete() && reply.status.is_some_and(|status| status < 400);
        let id = reply.field("X-Sim").and_then(ContentId::parse).filter(|_| is_success && !self.is_dead);
        let Some(id) = id else { return };
        *self.tally.dialects.entry(order.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        let Some(sent) = self.edits.get(&(named.to_owned(), id.version)).copied() else { return };
        let is_soft = !form.is_standard();
        let of_other_profiles = |ledger: &mut Self| {
            let realms = ledger.rules.routings.iter().flat_map(|routing| routing.realms_of_other_profiles());
            realms.collect::<BTreeSet<_>>()
        };
        let others = self.by_rules_of(begun, of_other_profiles);
        let counts = |ledger: &mut Self| match is_soft {
            true => ledger.rules.saves_count && !others.contains(&id.realm),
            false => ledger.rules.writes_count,
        };
        if !self.by_rules_of(begun, counts) {
            return;
        }
        let named = named.to_owned();
        let is_named = form.names_page();
        self.purges.push(Purge {
            order: order.to_owned(),
            scope: if is_named { Scope::Target(named) } else { Scope::TargetBeyond(named, others) },
            is_soft,
            is_write: true,
            sent,
            answered: Some(answered),
            is_durable: true,
        });
    }

    /// Judges whether a request of an editor was answered at all.
    fn judge_answer(&mut self, begun: Moment, at: Moment, name: &str, reply: &Reply) {
        let by_route = is_own_reason(reply.reason()) && self.may_answer_without_origin(begun);
        let is_answered =
            reply.is_complete() && (by_route || reply.status.is_some_and(|status| status < 500));
        if !is_answered && !self.is_dead && !self.explains(begun, at) {
            let text = format!("{name} got {:?} without a fault, {}", reply.status, reply.ending);
            self.violate(Rule::Errors, at, text);
        }
    }

    /// Counts the reason of a response, if it has one.
    pub(crate) fn count_reason(&mut self, reason: &str) {
        if !reason.is_empty() {
            *self.tally.reasons.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// Counts what an assembled page had in the place of a fragment.
    pub(crate) fn count_fragment(&mut self, name: &str) {
        *self.tally.fragments.entry(name.to_owned()).or_default() += 1;
    }

    /// Counts a purge in this dialect.
    pub(crate) fn count_dialect(&mut self, name: String) {
        *self.tally.dialects.entry(name).or_default() += 1;
    }

    /// Ends the record: requests that have not ended within their bound are violations.
    pub fn finish(&mut self, at: Moment) {
        let bound = self.rules.end_max;
        let late = |asked: &&Asked| !asked.ended && !asked.ask.misbehaves && at.since(asked.begun.at) > bound;
        let late: Vec<_> = self.requests.iter().filter(late).cloned().collect();
        for asked in late {
            let text = format!("{}, begun at {}, has not ended", asked.ask, asked.begun.at);
            self.violate(Rule::Promptness, at, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Rules};
    use crate::application::SaveForm;
    use crate::content::{ContentId, NONE};
    use crate::event::Scope;
    use crate::exchange::{Ending, Reply};
    use crate::moment::Moment;
    use crate::routing::{RouteAnswer, RoutePages, Routing, SiteRoute};
    use crate::site::SitePlan;
    use message::Fields;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use world::Random;

    /// The scope of a save of `/a` by this form, answered in this realm, where a route has pages
    /// of its own with another profile.
    fn saved(form: SaveForm, realm: &str) -> Option<Scope> {
        let route = SiteRoute {
            number: 0,
            only_other: None,
            path: Some("/a*".to_owned()),
            method: None,
            is_for_noise: false,
            language: None,
            is_told: false,
            is_stored: false,
            adds: false,
            answer: RouteAnswer::Pages(RoutePages {
                is_own: true,
                has_default_profile: true,
                ..RoutePages::default()
            }),
        };
        let routing = Routing { routes: vec![route], is_told: false, is_maintained: false };
        let rules = Rules { routings: vec![Arc::new(routing)], saves_count: true, ..Rules::default() };
        let mut ledger = Ledger::new(Arc::new(SitePlan::random(&mut Random::new(1), "a.test")), rules);
        let none = || NONE.to_owned();
        let id = ContentId {
            target: "/a".to_owned(),
            version: 2,
            user: none(),
            language: none(),
            realm: realm.to_owned(),
        };
        let at = Moment::from_millis(1);
        ledger.edited(at, "/a", 2);
        let mut fields = Fields::new();
        fields.push("X-Sim", id.to_string());
        let reply = Reply { ending: Ending::Complete, status: Some(302), fields, ..Reply::default() };
        ledger.save_answered(at, Moment::from_millis(2), "a save", "/a", form, &reply);
        ledger.purges.pop().map(|purge| purge.scope)
    }

    #[test]
    fn save_without_a_page_means_pages_of_the_profile() {
        let other = BTreeSet::from(["r0".to_owned()]);
        assert_eq!(saved(SaveForm::Screen, NONE), Some(Scope::TargetBeyond("/a".to_owned(), other)));
        assert_eq!(saved(SaveForm::Rest, NONE), Some(Scope::Target("/a".to_owned())));
        assert_eq!(saved(SaveForm::Rest, "r0"), None, "the route's profile understands no save");
        assert_eq!(saved(SaveForm::Form, "r0"), Some(Scope::Target("/a".to_owned())));
    }
}
