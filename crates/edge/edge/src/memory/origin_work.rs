//! What takes the origins' time: which pages, and which cookies and parameters.
//!
//! Invariants: only requests that went to an origin take the lock. The number of entries and the
//! length of each text are bounded, and neither values of cookies nor of parameters are kept.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use crate::memory::times::{TimeCells, TimeFigures, micros_of};
use crate::memory::top::Top;
use api::dashboard::CostKind;
use clock::Monotonic;
use semantics::Reason;
use std::time::Duration;

/// Maximum number of pages, and of cookies and parameters.
const PAGES_MAX: usize = 256;
const COSTS_MAX: usize = 128;

/// Time after which a request counts half.
const HALF_LIFE: Duration = Duration::from_secs(600);

/// Least time between two times that the past fades.
const FADE_EVERY: Duration = Duration::from_secs(1);

/// The work of all origins.
#[derive(Debug)]
pub(crate) struct OriginWork {
    /// The times of each worker's requests to origins.
    times: Vec<AlignedTimes>,
    tables: Mutex<WorkTables>,
}

/// The alignment keeps two workers from sharing a cache line.
#[repr(align(128))]
#[derive(Debug, Default)]
struct AlignedTimes(TimeCells);

#[derive(Debug)]
struct WorkTables {
    pages: Top<Box<str>, PageWork>,
    costs: Top<CostKey, Work>,
    /// The pages of this week and of the one before. They do not fade.
    week: Top<Box<str>, PageWork>,
    week_before: PageList,
    faded: Option<Monotonic>,
}

/// A cookie or a parameter of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CostKey {
    pub(crate) kind: CostKind,
    pub(crate) name: Box<str>,
    pub(crate) site: Box<str>,
}

/// Requests to origins, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) requests: f64,
    pub(crate) micros: f64,
}

/// The work for one page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PageWork {
    pub(crate) work: Work,
    /// That of the last request.
    pub(crate) reason: Option<Reason>,
}

/// Pages by their URLs.
pub(crate) type PageList = Vec<(Box<str>, PageWork)>;

/// One request to an origin.
#[derive(Debug)]
pub(crate) struct OneRequest {
    pub(crate) url: String,
    pub(crate) reason: Reason,
    /// From the connection until the head of the response.
    pub(crate) time: Duration,
    pub(crate) costs: Vec<CostKey>,
}

impl Work {
    fn add(&mut self, micros: f64) {
        self.requests += 1.0;
        self.micros += micros;
    }

    fn fade(&mut self, left: f64) {
        self.requests *= left;
        self.micros *= left;
    }
}

/// The pages of a table, those with the most time first.
fn sorted(pages: &Top<Box<str>, PageWork>) -> PageList {
    let mut pages: Vec<_> = pages.iter().map(|(url, work)| (url.clone(), *work)).collect();
    pages.sort_by(|(_, one), (_, other)| other.work.micros.total_cmp(&one.work.micros));
    pages
}

impl OriginWork {
    /// No work yet, for this many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let tables = WorkTables {
            pages: Top::new(PAGES_MAX),
            costs: Top::new(COSTS_MAX),
            week: Top::new(PAGES_MAX),
            week_before: Vec::new(),
            faded: None,
        };
        let times = (0..workers.max(1)).map(|_| AlignedTimes::default()).collect();
        Self { times, tables: Mutex::new(tables) }
    }

    /// Counts the time of a request to an origin.
    pub(crate) fn count(&self, worker: usize, time: Duration) {
        if let Some(AlignedTimes(cells)) = self.times.get(worker % self.times.len()) {
            cells.add(micros_of(time));
        }
    }

    /// The times of all requests to origins.
    pub(crate) fn times(&self) -> TimeFigures {
        let mut figures = TimeFigures::default();
        self.times.iter().for_each(|AlignedTimes(cells)| cells.read(&mut figures));
        figures
    }

    /// Counts a miss or pass for its page, cookies and parameters.
    pub(crate) fn note(&self, request: OneRequest, now: Monotonic) {
        let micros = micros_of(request.time) as f64;
        let mut tables = self.lock(now);
        // A page with many fast misses counts, too.
        let weight = micros.max(1.0);
        let url: Box<str> = request.url.into();
        let WorkTables { pages, week, .. } = &mut *tables;
        for page in [week.add(url.clone(), weight).0, pages.add(url, weight).0] {
            page.work.add(micros);
            page.reason = Some(request.reason);
        }
        for cost in request.costs {
            tables.costs.add(cost, weight).0.add(micros);
        }
    }

    /// The pages, those with the most time first.
    pub(crate) fn pages(&self, now: Monotonic) -> PageList {
        sorted(&self.lock(now).pages)
    }

    /// The cookies and parameters, those with the most time first.
    pub(crate) fn costs(&self, now: Monotonic) -> Vec<(CostKey, Work)> {
        let tables = self.lock(now);
        let mut costs: Vec<_> = tables.costs.iter().map(|(key, work)| (key.clone(), *work)).collect();
        costs.sort_by(|(_, one), (_, other)| other.micros.total_cmp(&one.micros));
        costs
    }

    /// The pages of this week and those of the week before, those with the most time first.
    pub(crate) fn weeks(&self) -> (PageList, PageList) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        (sorted(&tables.week), tables.week_before.clone())
    }

    /// Begins a new week.
    pub(crate) fn end_week(&self) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.week_before = sorted(&tables.week);
        tables.week = Top::new(PAGES_MAX);
    }

    /// Goes on with a week that [`Self::end_week`] has ended too early.
    pub(crate) fn resume_week(&self) {
        let before =
            std::mem::take(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner).week_before);
        self.restore_week(before, PageList::new());
    }

    /// Adds what a process before this one has counted in this week, and in the week before.
    pub(crate) fn restore_week(&self, pages: PageList, before: PageList) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        for (url, restored) in pages {
            let page = tables.week.add(url, restored.work.micros.max(1.0)).0;
            page.work.requests += restored.work.requests;
            page.work.micros += restored.work.micros;
            page.reason = page.reason.or(restored.reason);
        }
        tables.week_before = before;
    }

    /// The tables, in which the past has faded. Poison is ignored because no code that can panic
    /// runs under the lock.
    fn lock(&self, now: Monotonic) -> MutexGuard<'_, WorkTables> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.since(*tables.faded.get_or_insert(now));
        if since >= FADE_EVERY {
            let left = 0.5_f64.powf(since.as_secs_f64() / HALF_LIFE.as_secs_f64());
            tables.pages.fade(left, |page| page.work.fade(left));
            tables.costs.fade(left, |work| work.fade(left));
            tables.faded = Some(now);
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::{COSTS_MAX, CostKey, HALF_LIFE, OneRequest, OriginWork, PAGES_MAX};
    use api::dashboard::CostKind;
    use clock::Monotonic;
    use semantics::Reason;
    use std::time::Duration;

    fn request(url: &str, millis: u64, names: &[&str]) -> OneRequest {
        let cost = |name: &&str| CostKey { kind: CostKind::Cookie, name: (*name).into(), site: "any".into() };
        OneRequest {
            url: url.to_owned(),
            reason: Reason::MissAbsent,
            time: Duration::from_millis(millis),
            costs: names.iter().map(cost).collect(),
        }
    }

    #[test]
    fn slow_pages_come_first_and_the_past_fades() {
        let work = OriginWork::new(1);
        let now = Monotonic::default();
        work.note(request("/fast", 1, &["a"]), now);
        work.note(request("/fast", 1, &["a"]), now);
        work.note(request("/slow", 100, &["a", "b"]), now);
        let pages = work.pages(now);
        let urls: Vec<_> = pages.iter().map(|(url, page)| (&**url, page.work.requests)).collect();
        assert_eq!(urls, [("/slow", 1.0), ("/fast", 2.0)]);
        let costs: Vec<_> =
            work.costs(now).iter().map(|(key, work)| (key.name.clone(), work.micros)).collect();
        assert_eq!(costs, [("a".into(), 102_000.0), ("b".into(), 100_000.0)]);
        let faded = work.pages(now.plus(2 * HALF_LIFE));
        assert!((faded[0].1.work.micros - 25_000.0).abs() < 1.0, "{faded:?}");
    }

    #[test]
    fn flood_of_pages_and_names_is_bounded() {
        let work = OriginWork::new(1);
        for number in 0..2000 {
            let name = number.to_string();
            work.note(request(&format!("/{number}"), 1, &[&name]), Monotonic::default());
            work.note(request("/shop", 1, &["session"]), Monotonic::default());
        }
        let (pages, costs) = (work.pages(Monotonic::default()), work.costs(Monotonic::default()));
        assert_eq!((pages.len(), costs.len()), (PAGES_MAX, COSTS_MAX));
        assert_eq!((&*pages[0].0, pages[0].1.work.requests), ("/shop", 2000.0));
        assert_eq!((&*costs[0].0.name, costs[0].1.requests), ("session", 2000.0));
    }

    #[test]
    fn times_are_summed_over_workers() {
        let work = OriginWork::new(2);
        [0, 1, 5].into_iter().for_each(|worker| work.count(worker, Duration::from_millis(2)));
        assert_eq!((work.times().count(), work.times().micros()), (3, 6000));
    }
}
