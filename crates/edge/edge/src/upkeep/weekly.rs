//! Writes a summary of each week into `state_directory`, and keeps the pages that cost the origins
//! the most in this week and the one before.
//!
//! Invariants: one piece of work runs at a time, on a thread for disks, and only the end of the
//! process waits for it. The pages of a week stay in their file until its summary is written: a
//! write that fails is repeated each minute, and a process that does not run when a week ends
//! writes its summary when it starts. A file that the disk does not give is read again each minute,
//! and nothing is written over it. What was counted in the hour before an unclean end is lost.

use crate::memory::origin_work::{PageList, PageWork, Work};
use crate::shared::Shared;
use crate::upkeep::history_writer::{read_at_most, rows_in};
use history::{MINUTES, MINUTES_OF_DAY, SummaryFacts, Table, WeekFigures, WorstMiss, iso_week, summary};
use platform::{Disk, HashMap};
use semantics::Reason;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The file of the pages.
const PAGES_FILE: &str = "misses.json";

/// The directory of the summaries.
const SUMMARIES: &str = "summaries";

/// Number of summaries that are kept: half a year.
const SUMMARIES_MAX: usize = 26;

/// Maximum number of pages that are kept of a week.
const PAGES_MAX: usize = 64;

/// How often the pages are written, in minutes.
const SAVE_EVERY: u32 = 60;

/// Largest file of pages that is read.
const PAGES_BYTES_MAX: u64 = 1 << 20;

/// A year and a week of it.
type Week = (u64, u64);

/// The pages of a week and of the week before.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct StoredWeeks {
    week: Week,
    pages: Vec<StoredPage>,
    before: Vec<StoredPage>,
}

/// What a page has cost in a week.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct StoredPage {
    url: String,
    reason: String,
    requests: u64,
    origin_micros: u64,
}

/// A week whose summary is not written yet.
#[derive(Clone, Debug)]
struct DueWeek {
    week: Week,
    pages: Vec<StoredPage>,
}

/// The work on summaries.
#[derive(Debug, Default)]
pub(crate) struct Weekly {
    /// The week that the pages are counted for. `None`: the file was not read yet.
    week: Option<Week>,
    /// The week that this process has ended last.
    ended: Option<Week>,
    /// The last week, until its summary is written.
    due: Option<DueWeek>,
    /// Minutes since the pages were written.
    unsaved: u32,
    reading: Option<oneshot::Receiver<io::Result<StoredWeeks>>>,
    writing: Option<Writing>,
}

/// A write that is under way. It returns the week whose summary it has written, if any.
type Writing = oneshot::Receiver<io::Result<Option<Week>>>;

impl Weekly {
    /// Does what is due in the minute `now`.
    pub(crate) fn tick(&mut self, shared: &Shared, now: u64) {
        let Some(directory) = shared.plan.state_directory.clone() else { return };
        let disk = Arc::clone(&shared.system.disk);
        if self.is_writing(shared) {
            return;
        }
        let week = iso_week(now);
        let Some(counted) = self.week else {
            return self.read(shared, (disk, directory), now);
        };
        if counted < week {
            shared.origin_work.end_week();
            self.ended = Some(counted);
            let pages = weeks_of(shared, week).before;
            self.fall_due(DueWeek { week: counted, pages }, now);
        } else if counted > week && self.ended == Some(week) {
            // The clock was ahead and had ended this week, which goes on.
            shared.origin_work.resume_week();
            (self.ended, self.due) = (None, None);
        }
        self.week = Some(week);
        self.unsaved += 1;
        if self.due.is_some() || self.unsaved >= SAVE_EVERY {
            self.unsaved = 0;
            self.write(shared, (disk, directory), (week, now));
        }
    }

    /// Writes the pages for the next process, and a summary that is due, for as long as a disk may
    /// take.
    pub(crate) async fn end(&mut self, shared: &Shared, now: u64) {
        self.finish_writing(shared).await;
        let (Some(week), Some(directory)) = (self.week, shared.plan.state_directory.clone()) else { return };
        if self.writing.is_none() {
            self.write(shared, (Arc::clone(&shared.system.disk), directory), (week, now));
            self.finish_writing(shared).await;
        }
    }

    /// Waits for the write that is under way, for as long as a disk may take.
    async fn finish_writing(&mut self, shared: &Shared) {
        let Some(writing) = &mut self.writing else { return };
        if let Ok(written) = tokio::time::timeout(shared.limits.disk_timeout, writing).await {
            self.writing = None;
            written.into_iter().for_each(|written| self.take(shared, written));
        }
    }

    /// Whether a write is under way. Reports one that has failed.
    fn is_writing(&mut self, shared: &Shared) -> bool {
        let Some(writing) = &mut self.writing else { return false };
        let written = match writing.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return true,
            Ok(written) => Some(written),
            Err(oneshot::error::TryRecvError::Closed) => None,
        };
        self.writing = None;
        written.into_iter().for_each(|written| self.take(shared, written));
        false
    }

    /// Takes the result of a write, and reports one that has failed.
    fn take(&mut self, shared: &Shared, written: io::Result<Option<Week>>) {
        match written {
            Ok(Some(week)) => self.due = self.due.take().filter(|due| due.week != week),
            Ok(None) => {}
            Err(error) => {
                let problem = format!("the weekly summary cannot be kept in state_directory: {error}");
                shared.complaints.tell(&problem, shared.clock.monotonic());
            }
        }
    }

    /// Notes that a week has ended, unless its minutes are no longer kept or are in the future: the
    /// clock may have jumped.
    fn fall_due(&mut self, due: DueWeek, now: u64) {
        self.due = first_minute_of(due.week, now).map(|_| due);
    }

    /// Reads the pages of the process before this one.
    fn read(&mut self, shared: &Shared, (disk, directory): (Arc<dyn Disk>, PathBuf), now: u64) {
        let Some(reading) = &mut self.reading else {
            self.reading = Some(shared.disk_threads.begin(move || load(&*disk, &directory)));
            return;
        };
        let stored = match reading.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return,
            Ok(stored) => stored,
            Err(oneshot::error::TryRecvError::Closed) => Ok(StoredWeeks::default()),
        };
        self.reading = None;
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                let problem = format!("{PAGES_FILE} in state_directory cannot be read: {error}");
                return shared.complaints.tell(&problem, shared.clock.monotonic());
            }
        };
        let week = iso_week(now);
        self.week = Some(week);
        if stored.week == week {
            shared.origin_work.restore_week(works(&stored.pages), works(&stored.before));
            return;
        }
        if is_before(stored.week, now) {
            shared.origin_work.restore_week(Vec::new(), works(&stored.pages));
        }
        self.fall_due(DueWeek { week: stored.week, pages: stored.pages }, now);
        if self.due.is_some() {
            self.write(shared, (disk, directory), (week, now));
        }
    }

    /// Writes the pages of `week`, after the summary that is due.
    fn write(
        &mut self,
        shared: &Shared,
        (disk, directory): (Arc<dyn Disk>, PathBuf),
        (week, now): (Week, u64),
    ) {
        let weeks = weeks_of(shared, week);
        let memory = shared.minutes.rows();
        let due = self.due.clone().and_then(|due| Some((first_minute_of(due.week, now)?, due)));
        self.writing = Some(shared.disk_threads.begin(move || {
            let written = due.as_ref().map(|(_, due)| due.week);
            if let Some((first, DueWeek { week, pages })) = due {
                let table = Table::new(rows_in(&*disk, &directory, now), &memory);
                let text = summary_of(&table, week, first, &misses(&pages));
                // Before the new week, so that the next start writes a summary that is missing.
                write_summary(&*disk, &directory, week, &text)?;
            }
            save(&*disk, &directory, &weeks)?;
            Ok(written)
        }));
    }
}

/// Whether a week is the one before that of the minute `now`.
fn is_before(week: Week, now: u64) -> bool {
    iso_week(now.saturating_sub(7 * MINUTES_OF_DAY)) == week
}

/// The first minute of a week that has ended and whose minutes are kept; `None` of other weeks.
fn first_minute_of(week: Week, now: u64) -> Option<u64> {
    let today = now - now % MINUTES_OF_DAY;
    let days = (0..MINUTES / MINUTES_OF_DAY).map_while(|days| today.checked_sub(days * MINUTES_OF_DAY));
    let last = days.filter(|_| iso_week(now) != week).find(|minute| iso_week(*minute) == week)?;
    Some(last.saturating_sub(6 * MINUTES_OF_DAY))
}

fn summary_of(table: &Table, (year, week): Week, first: u64, misses: &[WorstMiss]) -> String {
    let length = 7 * MINUTES_OF_DAY;
    summary(&SummaryFacts {
        title: format!("Week {year}-W{week:02}"),
        week: WeekFigures::of(table.range(first, first + length)),
        before: WeekFigures::of(table.range(first.saturating_sub(length), first)),
        misses,
    })
}

/// The pages that are counted now.
fn weeks_of(shared: &Shared, week: Week) -> StoredWeeks {
    let (pages, before) = shared.origin_work.weeks();
    let stored = |pages: PageList| {
        let pages = pages.into_iter().take(PAGES_MAX).map(|(url, page)| StoredPage {
            url: url.into(),
            reason: page.reason.map(|reason| reason.name().to_owned()).unwrap_or_default(),
            requests: page.work.requests.round() as u64,
            origin_micros: page.work.micros as u64,
        });
        pages.collect()
    };
    StoredWeeks { week, pages: stored(pages), before: stored(before) }
}

/// The worst pages of this week and the one before together.
pub(crate) fn worst_of_both(shared: &Shared) -> Vec<WorstMiss> {
    let (pages, before) = shared.origin_work.weeks();
    let mut sums: HashMap<Box<str>, PageWork> = HashMap::default();
    for (url, page) in before.into_iter().chain(pages) {
        let sum = sums.entry(url).or_default();
        sum.work.requests += page.work.requests;
        sum.work.micros += page.work.micros;
        sum.reason = page.reason;
    }
    let pages = sums.into_iter().map(|(url, page)| StoredPage {
        url: url.into(),
        reason: page.reason.map(|reason| reason.name().to_owned()).unwrap_or_default(),
        requests: page.work.requests.round() as u64,
        origin_micros: page.work.micros as u64,
    });
    let mut pages: Vec<_> = pages.collect();
    pages.sort_by_key(|page| std::cmp::Reverse(page.origin_micros));
    misses(&pages)
}

fn reason_of(page: &StoredPage) -> Option<Reason> {
    Reason::ALL.iter().find(|reason| reason.name() == page.reason).copied()
}

fn misses(pages: &[StoredPage]) -> Vec<WorstMiss> {
    let miss = |page: &StoredPage| WorstMiss {
        url: page.url.clone(),
        reason: page.reason.clone(),
        advice: reason_of(page).map(|reason| reason.advice().to_owned()).unwrap_or_default(),
        requests: page.requests,
        origin_micros: page.origin_micros,
    };
    pages.iter().map(miss).collect()
}

fn works(pages: &[StoredPage]) -> PageList {
    let work = |page: &StoredPage| {
        let work = Work { requests: page.requests as f64, micros: page.origin_micros as f64 };
        (page.url.as_str().into(), PageWork { work, reason: reason_of(page) })
    };
    pages.iter().take(PAGES_MAX).map(work).collect()
}

/// The pages in their file; none without a file, or with one that is damaged.
///
/// # Errors
/// As the disk reports them.
fn load(disk: &dyn Disk, directory: &Path) -> io::Result<StoredWeeks> {
    match read_at_most(disk, &directory.join(PAGES_FILE), PAGES_BYTES_MAX) {
        Ok(content) => Ok(serde_json::from_slice(&content).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(StoredWeeks::default()),
        Err(error) => Err(error),
    }
}

fn save(disk: &dyn Disk, directory: &Path, weeks: &StoredWeeks) -> io::Result<()> {
    disk.create_directory(directory)?;
    disk.replace(&directory.join(PAGES_FILE), &serde_json::to_vec_pretty(weeks)?)
}

/// Writes a summary, and removes those beyond the number that is kept.
fn write_summary(disk: &dyn Disk, directory: &Path, (year, week): Week, text: &str) -> io::Result<()> {
    let summaries = directory.join(SUMMARIES);
    disk.create_directory(&summaries)?;
    disk.replace(&summaries.join(format!("{year}-W{week:02}.md")), text.as_bytes())?;
    let entries = disk.list(&summaries)?.into_iter();
    let mut names: Vec<_> = entries.map(|(name, _)| name).filter(|name| is_summary(name)).collect();
    names.sort_unstable();
    let excess = names.len().saturating_sub(SUMMARIES_MAX);
    names.iter().take(excess).try_for_each(|name| disk.remove(&summaries.join(name)))
}

/// Whether a file has the name of a summary.
fn is_summary(name: &str) -> bool {
    let parts = name.strip_suffix(".md").and_then(|name| name.split_once("-W"));
    let is_number =
        |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    parts.is_some_and(|(year, week)| is_number(year, 4) && is_number(week, 2))
}

#[cfg(test)]
mod tests {
    use super::{
        PAGES_FILE, SUMMARIES, SUMMARIES_MAX, StoredPage, StoredWeeks, Weekly, first_minute_of, is_before,
        load, save, write_summary,
    };
    use crate::memory::origin_work::OneRequest;
    use crate::shared::Shared;
    use crate::system::System;
    use clock::{ManualClock, Timestamp};
    use config::EdgePlan;
    use history::{MINUTES, MINUTES_OF_DAY, iso_week};
    use platform::SystemDisk;
    use semantics::Reason;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    /// Monday 2026-11-23 00:00, the first minute of 2026-W48.
    const MONDAY: u64 = 20_780 * MINUTES_OF_DAY;

    const WEEK: u64 = 7 * MINUTES_OF_DAY;

    fn edge(directory: &Path) -> Arc<Shared> {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.state_directory = Some(directory.to_owned());
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(MONDAY * 60)));
        Arc::new(Shared::new(plan, None, System { clock, ..System::of_machine() }))
    }

    fn miss(shared: &Shared, url: &str) {
        let (reason, time) = (Reason::MissAbsent, Duration::from_millis(250));
        let request = OneRequest { url: url.to_owned(), reason, time, costs: Vec::new() };
        shared.origin_work.note(request, shared.clock.monotonic());
    }

    /// Ticks until nothing is under way any more.
    fn settle(weekly: &mut Weekly, shared: &Shared, now: u64) {
        testkit::eventually("the work is done", || {
            weekly.tick(shared, now);
            weekly.week.is_some() && weekly.writing.is_none()
        });
    }

    fn end(weekly: &mut Weekly, shared: &Shared, now: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(weekly.end(shared, now));
    }

    #[test]
    fn week_whose_summary_cannot_be_written_stays_due() {
        let directory = tempfile::tempdir().unwrap();
        let (first, mut weekly) = (edge(directory.path()), Weekly::default());
        settle(&mut weekly, &first, MONDAY + 5);
        miss(&first, "http://a.test/shop");
        end(&mut weekly, &first, MONDAY + 6);
        // A file in the place of the directory of summaries.
        std::fs::write(directory.path().join(SUMMARIES), "").unwrap();
        weekly.tick(&first, MONDAY + WEEK);
        miss(&first, "http://a.test/next");
        end(&mut weekly, &first, MONDAY + WEEK + 90);
        let stored = load(&SystemDisk, directory.path()).unwrap();
        assert_eq!((stored.week, stored.pages.len()), ((2026, 48), 1), "the file keeps the week");
        std::fs::remove_file(directory.path().join(SUMMARIES)).unwrap();
        settle(&mut weekly, &first, MONDAY + WEEK + 91);
        let summary = || std::fs::read_to_string(directory.path().join(SUMMARIES).join("2026-W48.md"));
        assert!(summary().unwrap().contains("http://a.test/shop"));
        let stored = load(&SystemDisk, directory.path()).unwrap();
        assert_eq!((stored.week, stored.pages.len(), stored.before.len()), ((2026, 49), 1, 1));
        // The next process runs three weeks later.
        let (second, mut weekly) = (edge(directory.path()), Weekly::default());
        settle(&mut weekly, &second, MONDAY + 4 * WEEK);
        let late = std::fs::read_to_string(directory.path().join(SUMMARIES).join("2026-W49.md")).unwrap();
        assert!(late.contains("http://a.test/next"), "{late}");
        assert_eq!(load(&SystemDisk, directory.path()).unwrap().before, [], "it is not the week before");
    }

    #[test]
    fn ended_week_has_the_pages_of_both_processes() {
        let directory = tempfile::tempdir().unwrap();
        let (first, mut weekly) = (edge(directory.path()), Weekly::default());
        settle(&mut weekly, &first, MONDAY + 5);
        miss(&first, "http://a.test/shop");
        for minute in 0..70 {
            weekly.tick(&first, MONDAY + 6 + minute);
        }
        settle(&mut weekly, &first, MONDAY + 100);
        assert_eq!(load(&SystemDisk, directory.path()).unwrap().pages.len(), 1, "once an hour");
        miss(&first, "http://a.test/shop");
        end(&mut weekly, &first, MONDAY + 101);
        assert_eq!(load(&SystemDisk, directory.path()).unwrap().pages[0].requests, 2, "and at the end");
        let (second, mut weekly) = (edge(directory.path()), Weekly::default());
        settle(&mut weekly, &second, MONDAY + 200);
        miss(&second, "http://a.test/shop");
        settle(&mut weekly, &second, MONDAY + WEEK);
        let text = std::fs::read_to_string(directory.path().join(SUMMARIES).join("2026-W48.md")).unwrap();
        assert!(text.starts_with("# Week 2026-W48\n"), "{text}");
        assert!(text.contains("1. `http://a.test/shop`: 3 requests, 0.8 seconds."), "{text}");
        let stored = load(&SystemDisk, directory.path()).unwrap();
        assert_eq!((stored.week, stored.pages.len(), stored.before.len()), ((2026, 49), 0, 1));
    }

    #[test]
    fn week_that_ended_without_a_process_is_summarised_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let page = StoredPage {
            url: "http://a.test/x".to_owned(),
            reason: "miss-absent".to_owned(),
            requests: 3,
            origin_micros: 9,
        };
        let weeks = StoredWeeks { week: (2026, 48), pages: vec![page], before: Vec::new() };
        save(&SystemDisk, directory.path(), &weeks).unwrap();
        let (shared, mut weekly) = (edge(directory.path()), Weekly::default());
        settle(&mut weekly, &shared, MONDAY + WEEK + 60);
        let text = std::fs::read_to_string(directory.path().join(SUMMARIES).join("2026-W48.md")).unwrap();
        assert!(text.contains("1. `http://a.test/x`: 3 requests"), "{text}");
    }

    #[test]
    fn summaries_are_bounded_and_foreign_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        let summaries = directory.path().join(SUMMARIES);
        std::fs::create_dir_all(&summaries).unwrap();
        std::fs::write(summaries.join("notes.md"), "mine").unwrap();
        for week in 1..=SUMMARIES_MAX as u64 + 4 {
            write_summary(&SystemDisk, directory.path(), (2026, week), "x").unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(&summaries)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            (names.len(), &*names[0], &*names[SUMMARIES_MAX]),
            (SUMMARIES_MAX + 1, "2026-W05.md", "notes.md")
        );
    }

    #[test]
    fn damaged_file_of_pages_is_none() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(PAGES_FILE), "{\"week\": 1}").unwrap();
        assert_eq!(load(&SystemDisk, directory.path()).unwrap(), StoredWeeks::default());
    }

    #[test]
    fn file_of_pages_that_cannot_be_read_stays_until_it_can() {
        let directory = tempfile::tempdir().unwrap();
        let pages = directory.path().join(PAGES_FILE);
        std::fs::create_dir(&pages).unwrap();
        let (shared, mut weekly) = (edge(directory.path()), Weekly::default());
        for minute in 0..3 {
            weekly.tick(&shared, MONDAY + WEEK + minute);
            testkit::eventually("the read has failed", || {
                weekly.tick(&shared, MONDAY + WEEK + minute);
                weekly.reading.is_none()
            });
        }
        end(&mut weekly, &shared, MONDAY + WEEK + 3);
        assert!(pages.is_dir() && weekly.week.is_none());
        std::fs::remove_dir(&pages).unwrap();
        let page = StoredPage { url: "http://a.test/x".to_owned(), ..StoredPage::default() };
        let weeks = StoredWeeks { week: (2026, 48), pages: vec![page], before: Vec::new() };
        save(&SystemDisk, directory.path(), &weeks).unwrap();
        settle(&mut weekly, &shared, MONDAY + WEEK + 4);
        assert!(directory.path().join(SUMMARIES).join("2026-W48.md").exists());
    }

    #[test]
    fn week_goes_on_after_a_clock_that_was_ahead() {
        let directory = tempfile::tempdir().unwrap();
        let (shared, mut weekly) = (edge(directory.path()), Weekly::default());
        settle(&mut weekly, &shared, MONDAY + 5);
        miss(&shared, "http://a.test/shop");
        settle(&mut weekly, &shared, MONDAY + WEEK + 5);
        miss(&shared, "http://a.test/shop");
        for now in [MONDAY + 6, MONDAY + 7, MONDAY + WEEK] {
            settle(&mut weekly, &shared, now);
        }
        let text = std::fs::read_to_string(directory.path().join(SUMMARIES).join("2026-W48.md")).unwrap();
        assert!(text.contains("1. `http://a.test/shop`: 2 requests"), "{text}");
        assert!(!directory.path().join(SUMMARIES).join("2026-W49.md").exists());
    }

    #[test]
    fn week_before_begins_at_its_monday() {
        assert_eq!(iso_week(MONDAY), (2026, 48));
        for now in [MONDAY + WEEK, MONDAY + 2 * WEEK - 1] {
            assert_eq!((first_minute_of((2026, 48), now), is_before((2026, 48), now)), (Some(MONDAY), true));
        }
        assert!(!is_before((2026, 48), MONDAY + 2 * WEEK) && !is_before((0, 0), MONDAY));
        for (now, expected) in [
            (MONDAY + 5, None),
            (MONDAY - 5, None),
            (MONDAY + 5 * WEEK, Some(MONDAY)),
            (MONDAY + 7 * MINUTES_OF_DAY + MINUTES, None),
        ] {
            assert_eq!(first_minute_of((2026, 48), now), expected, "{now}");
        }
        assert_eq!(first_minute_of((0, 0), 7), None);
    }
}
