//! The values of each minute and the summaries of weeks that the edge keeps in `state_directory`.
//!
//! Invariants: a minute that is in the file stays there, whatever ends the process. After an
//! orderly end no minute is missing in which the edge ran, unless the disk was ill when its process
//! ended. The summary of a week is written as soon as the week is over, or when the next process
//! has run for some minutes. At most 26 summaries remain, the newest ones, and other files stay.

use crate::fault::FaultAction;
use crate::life::Life;
use crate::plan::{LifeEnd, LifePlan};
use actors::{Moment, lock};
use edge::EmbeddedEdge;
use history::{HEADER_BYTES, MINUTES_OF_DAY, iso_week};
use platform::{Disk, SimulatedDisk};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use world::{DiskMode, START_SECONDS};

/// The directory.
pub(crate) const DIRECTORY: &str = "/past";

/// The values of each minute.
const MINUTES_FILE: &str = "/past/history";

/// The directory of the summaries, and a foreign file in it.
const SUMMARIES: &str = "/past/summaries";
const NOTES: &str = "notes.md";

/// Number of summaries that remain (docs/observing.md). Another one is there for a moment.
const SUMMARIES_MAX: usize = 26;

/// The pages of a past week. Its process was stopped before it wrote the summary.
const PAGES_FILE: &str = "/past/misses.json";
const PAGE: &str = "https://site.test/of-last-week";

/// Minutes that begin until a process has read the pages: it takes the lock, finds that it has it,
/// and has read them. An ill disk may take another one.
const READING_MINUTES: u64 = 3;

/// The longest time for a summary when the disk is well, in seconds.
const SUMMARY_SECS: u64 = 10;

const MINUTE_SECS: u64 = 60;

/// How often an edge that drains is looked at, and the longest time that its other work may take.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const END_SLACK: Duration = Duration::from_secs(1);

/// The state of the directory.
#[derive(Debug, Default)]
pub(crate) struct Past {
    has_begun: bool,
    /// The seconds that are recorded of each minute.
    minutes: BTreeMap<u64, u32>,
    summaries: BTreeSet<String>,
    /// Whether bytes in the directory have changed or were lost, or reads returned wrong ones.
    is_spoiled: bool,
    /// The events, for the report.
    counts: BTreeMap<&'static str, u64>,
}

/// The knowledge that the lives of a run share.
pub(crate) type SharedPast = Arc<Mutex<Past>>;

/// The time of a process, in seconds of the wall clock.
#[derive(Clone, Copy, Debug)]
struct Ran {
    from: u64,
    until: u64,
    /// Whether the disk was ill meanwhile.
    was_ill: bool,
}

impl Ran {
    /// The minutes that it ran from their first to their last second.
    const fn whole_minutes(self) -> std::ops::Range<u64> {
        self.from.div_ceil(MINUTE_SECS)..self.until / MINUTE_SECS
    }

    /// The minute in which the process has read the pages of the week before.
    const fn has_read(self) -> u64 {
        self.from / MINUTE_SECS + READING_MINUTES + self.was_ill as u64
    }

    /// Whether it must have written a summary that was due at a minute.
    const fn has_written(self, due: u64) -> bool {
        due * MINUTE_SECS + SUMMARY_SECS <= self.until
    }
}

impl Past {
    /// Bytes of a file have changed.
    pub(crate) fn damaged(&mut self, path: &Path) {
        self.is_spoiled |= path.starts_with(DIRECTORY);
    }

    /// The events of all lives, for the report.
    pub(crate) const fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Puts the files of an earlier process on the disk: as many summaries as remain, another file,
    /// and the pages of the week before.
    fn begin(&mut self, disk: &SimulatedDisk) -> std::io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let summaries = Path::new(SUMMARIES);
        let older = (1..=SUMMARIES_MAX as u64).map(|week| format!("2025-W{week:02}.md"));
        for name in older.chain([NOTES.to_owned()]) {
            disk.replace(&summaries.join(&name), b"# Kept\n")?;
            self.summaries.insert(name);
        }
        let (year, week) = last_week();
        let page = format!(
            "{{\"week\":[{year},{week}],\"pages\":[{{\"url\":\"{PAGE}\",\"reason\":\"miss-absent\",\
             \"requests\":3,\"origin_micros\":5000}}],\"before\":[]}}"
        );
        disk.replace(Path::new(PAGES_FILE), page.as_bytes())
    }

    fn has_summary(&self, week: (u64, u64)) -> bool {
        self.summaries.contains(&summary_name(week))
    }

    fn count(&mut self, what: &'static str, count: usize) {
        if count > 0 {
            *self.counts.entry(what).or_default() += count as u64;
        }
    }

    /// Compares the minutes in the file with those before, and with those that must be there.
    /// `torn_from`: the process was killed in an operation, so that the minutes from this one on,
    /// which it may have written, can be lost.
    fn check_minutes(
        &mut self,
        content: &[u8],
        expected: impl Iterator<Item = u64>,
        torn_from: Option<u64>,
    ) -> Option<String> {
        let now = minutes_in(content);
        let is_kept = |(minute, secs): &(&u64, &u32)| now.get(minute).is_some_and(|now| now >= *secs);
        let is_safe = |(minute, _): &(&u64, &u32)| torn_from.is_none_or(|torn| **minute < torn);
        let lost = self.minutes.iter().filter(is_safe).find(|known| !is_kept(known));
        let lost = lost.map(|(minute, secs)| format!("{secs} s of the minute {minute} are no longer kept"));
        let mut expected = expected;
        let missing = expected.find(|minute| !now.contains_key(minute));
        let missing = missing.map(|minute| format!("the values of the minute {minute} are missing"));
        self.count("minutes written", now.len().saturating_sub(self.minutes.len()));
        self.minutes = now;
        lost.or(missing).filter(|_| !self.is_spoiled)
    }

    /// Compares the summaries with those before. `is_undisturbed`: no write can have failed.
    fn check_summaries(&mut self, names: BTreeSet<String>, is_undisturbed: bool) -> Option<String> {
        let known = std::mem::replace(&mut self.summaries, names);
        let names = &self.summaries;
        let is_new = |name: &&String| !known.contains(*name);
        let written = names.iter().filter(is_new).count();
        let count = names.iter().filter(|name| *name != NOTES).count();
        let oldest = names.iter().find(|name| *name != NOTES);
        let removed_newer = known.difference(names).find(|name| oldest.is_some_and(|oldest| *name > oldest));
        let max = SUMMARIES_MAX + usize::from(written == 0 || !is_undisturbed);
        let fault = if count > max {
            Some(format!("{count} summaries remain"))
        } else {
            removed_newer.map(|name| format!("{name} is removed before older ones"))
        };
        let of_last = usize::from(is_new(&&summary_name(last_week())) && self.has_summary(last_week()));
        self.count("summaries of the week before", of_last);
        self.count("summaries of weeks that ended", written - of_last);
        fault.filter(|_| !self.is_spoiled)
    }
}

/// The week before that in which the first life begins.
const fn last_week() -> (u64, u64) {
    iso_week(START_SECONDS / MINUTE_SECS - 7 * MINUTES_OF_DAY)
}

/// The name of the summary of a week.
fn summary_name((year, week): (u64, u64)) -> String {
    format!("{year}-W{week:02}.md")
}

/// The minutes in a file, with their seconds. None of a file that has no header.
fn minutes_in(content: &[u8]) -> BTreeMap<u64, u32> {
    let newest = content.get(HEADER_BYTES..).map_or(0, newest_minute);
    let rows = history::read(content, newest).unwrap_or_default();
    rows.iter().map(|row| (row.minute, row.secs)).collect()
}

/// The newest minute of all records.
fn newest_minute(records: &[u8]) -> u64 {
    let rows = records.chunks(history::RECORD_BYTES).filter_map(history::Row::of_record);
    rows.map(|row| row.minute).max().unwrap_or(0)
}

/// The files in a directory.
fn names_in(disk: &SimulatedDisk, directory: &str) -> BTreeSet<String> {
    let entries = disk.list(Path::new(directory)).unwrap_or_default();
    entries.into_iter().map(|(name, _)| name).collect()
}

impl Life {
    /// Prepares the directory before the first life that keeps its past.
    pub(crate) fn begin_past(&self) {
        if self.society.settings.keeps_past {
            let begun = lock(&self.society.past).begin(self.world.disk().content());
            begun.unwrap_or_else(|error| self.violate(format!("no past is prepared: {error}")));
        }
    }

    /// Waits until the values of the last minute are written, as the end of the program does.
    pub(crate) async fn wait_for_past(&self) {
        // Two writes that may be under way, and two more. Each may take the time of a disk.
        let within = self.society.settings.disk_timeout * 4 + END_SLACK;
        let writes = async {
            while lock(&self.edge).as_ref().is_some_and(EmbeddedEdge::keeps_past) {
                sleep(LOOK_EVERY).await;
            }
        };
        if timeout(within, writes).await.is_err() {
            self.violate(format!("the values of the last minute are not written within {within:?}"));
        }
    }

    /// Judges what the life has left in the directory. It ran from `begun`, and since the wall
    /// clock had `from` seconds.
    pub(crate) fn check_past(&self, plan: &LifePlan, begun: Moment, from: u64) {
        if !self.society.settings.keeps_past {
            return;
        }
        let mut past = lock(&self.society.past);
        past.is_spoiled |= spoils(plan);
        let has_jumped = plan.faults.iter().any(|fault| matches!(fault.action, FaultAction::ClockJump(..)));
        let is_orderly = plan.end == LifeEnd::Orderly;
        let was_ill = lock(&self.society.ledger).is_disk_ill(begun, self.timeline.now());
        let ran = Ran { from, until: lock(&self.drained_at).unwrap_or(0), was_ill };
        // Minutes that wait for the disk are lost with their process.
        let is_sole = plan.handovers.is_empty() && plan.drains_at_ms.is_none();
        let is_complete = is_orderly && !has_jumped && (!was_ill || is_sole);
        // Faults are over before the pages are read.
        let is_undisturbed = is_orderly && !has_jumped && plan.handovers.is_empty();
        let torn = matches!(plan.end, LifeEnd::KillInOperation(..));
        let torn_from = torn.then_some(if has_jumped { 0 } else { from / MINUTE_SECS });
        let disk = self.world.disk().content();
        let content = disk.read(Path::new(MINUTES_FILE)).unwrap_or_default();
        let expected = ran.whole_minutes().filter(|_| is_complete);
        let of_minutes = past.check_minutes(&content, expected, torn_from);
        let names = names_in(disk, SUMMARIES);
        let of_summaries = past.check_summaries(names, is_undisturbed);
        let missing = is_undisturbed.then(|| missing_summary(&past, disk, ran)).flatten();
        let fault = of_minutes.or(of_summaries).or(missing);
        drop(past);
        fault.into_iter().for_each(|fault| self.violate(fault));
    }
}

/// A missing summary, or a wrong one.
fn missing_summary(past: &Past, disk: &SimulatedDisk, ran: Ran) -> Option<String> {
    let week_end = (START_SECONDS / MINUTE_SECS).next_multiple_of(MINUTES_OF_DAY);
    let sees_end = ran.has_read() < week_end && ran.has_written(week_end);
    let of_start = sees_end.then(|| iso_week(week_end - 1));
    let of_last = ran.has_written(ran.has_read()).then(last_week);
    of_start.into_iter().chain(of_last).filter(|_| !past.is_spoiled).find_map(|week| {
        let name = summary_name(week);
        let content = disk.read(&Path::new(SUMMARIES).join(&name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&content);
        let has_page = week != last_week() || text.contains(PAGE);
        let is_whole = text.starts_with("# Week") && has_page && text.ends_with('\n');
        (!is_whole).then(|| format!("{name} is missing or no whole summary"))
    })
}

/// Whether a life may leave wrong bytes in the directory. Nothing there is synced, so a power cut
/// may take any part of it.
fn spoils(plan: &LifePlan) -> bool {
    let is_wrong = |action| match action {
        FaultAction::Damage(_) => true,
        // A write that ends in the middle may leave half a record.
        FaultAction::Disk(DiskMode { misread_permille, short_permille, .. }) => {
            misread_permille > 0 || short_permille > 0
        }
        _ => false,
    };
    matches!(plan.end, LifeEnd::PowerCut(_)) || plan.faults.iter().any(|fault| is_wrong(fault.action))
}
