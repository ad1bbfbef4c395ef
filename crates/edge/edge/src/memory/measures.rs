//! The figures of each site: its requests by reason, and their times by verdict.
//!
//! Invariants: a worker writes only to its own cells, so workers do not contend for a cache line.
//! Figures belong to the label of a site, so a reload keeps them. Their number is bounded: the
//! sites beyond [`SITES_MAX`] share the figures of [`REST`].

use crate::memory::path_groups::{GroupCounts, PathGroups};
use crate::memory::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use crate::memory::times::{BOUNDS, TimeCells, TimeFigures, bound_of, micros_of};
use clock::Timestamp;
use request_log::TraceId;
use semantics::{Reason, Verdict};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum number of labels with figures of their own, those of removed sites included.
const SITES_MAX: usize = 256;

/// The label of requests that reached the pages of no site. No host has this name.
const NO_SITE: &str = "-";

/// The label of the sites beyond [`SITES_MAX`].
const REST: &str = "(other)";

/// Number of verdicts.
const VERDICTS: usize = Verdict::ALL.len();

/// Buckets of the metric, with that of infinity.
pub(crate) const EXEMPLARS: usize = BOUNDS.len() + 1;

/// The figures of all sites. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct MeasureTable(Arc<Tables>);

#[derive(Debug)]
struct Tables {
    workers: usize,
    no_site: Arc<SiteMeasures>,
    /// In the order in which the sites were configured first.
    sites: RwLock<Vec<Arc<SiteMeasures>>>,
}

/// The figures of one site.
#[derive(Debug)]
pub(crate) struct SiteMeasures {
    label: Box<str>,
    workers: Box<[SiteCells]>,
}

/// The figures of one site and worker. The alignment keeps two workers from sharing a cache line.
/// Most sites never see most reasons and verdicts, so memory is taken when it is needed.
#[repr(align(128))]
#[derive(Debug, Default)]
struct SiteCells {
    reasons: OnceLock<Box<[AtomicU64]>>,
    verdicts: [OnceLock<Box<VerdictCells>>; VERDICTS],
    groups: PathGroups,
}

#[derive(Debug, Default)]
struct VerdictCells {
    times: TimeCells,
    exemplars: OnceLock<Box<Exemplars>>,
}

/// The last traced request of each bucket of the metric. Only readings of the metrics contend with
/// the worker for the lock.
type Exemplars = Mutex<[Option<Exemplar>; EXEMPLARS]>;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exemplar {
    pub(crate) trace: TraceId,
    pub(crate) micros: u64,
    pub(crate) at: Timestamp,
}

impl MeasureTable {
    /// No figures yet, for this many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let no_site = Arc::new(SiteMeasures::new(NO_SITE, workers));
        Self(Arc::new(Tables { workers, no_site, sites: RwLock::default() }))
    }

    /// The figures of the site with this label.
    pub(crate) fn of(&self, label: &str) -> Arc<SiteMeasures> {
        let mut sites = self.0.sites.write().unwrap_or_else(PoisonError::into_inner);
        let known = |sites: &[Arc<SiteMeasures>], label: &str| {
            sites.iter().find(|site| *site.label == *label).cloned()
        };
        let label = if known(&sites, label).is_some() || sites.len() < SITES_MAX { label } else { REST };
        known(&sites, label).unwrap_or_else(|| {
            let site = Arc::new(SiteMeasures::new(label, self.0.workers));
            sites.push(Arc::clone(&site));
            site
        })
    }

    /// The figures of requests that reached the pages of no site.
    pub(crate) fn no_site(&self) -> &SiteMeasures {
        &self.0.no_site
    }

    /// All figures: first those of no site, then those of each site.
    pub(crate) fn all(&self) -> Vec<Arc<SiteMeasures>> {
        let sites = self.0.sites.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.0.no_site).chain(&*sites).cloned().collect()
    }

    /// Number of requests with this reason at all sites.
    pub(crate) fn requests(&self, reason: Reason) -> u64 {
        self.all().iter().map(|site| site.requests(reason)).sum()
    }
}

impl SiteMeasures {
    fn new(label: &str, workers: usize) -> Self {
        let workers = (0..workers.max(1)).map(|_| SiteCells::default()).collect();
        Self { label: label.into(), workers }
    }

    /// The site's label.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The cells of a worker.
    fn cells(&self, worker: usize) -> &SiteCells {
        #[expect(
            clippy::indexing_slicing,
            reason = "there is at least one worker, and the index is below the count"
        )]
        &self.workers[worker % self.workers.len()]
    }

    /// Counts a request that has no time.
    #[inline]
    pub(crate) fn count(&self, worker: usize, reason: Reason) {
        let reasons =
            self.cells(worker).reasons.get_or_init(|| Reason::ALL.iter().map(|_| 0.into()).collect());
        if let Some(cell) = reasons.get(reason.index()) {
            // Relaxed is enough: no other memory depends on a counter.
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request, its time, and the trace that it belongs to.
    #[inline]
    pub(crate) fn note(
        &self,
        worker: usize,
        reason: Reason,
        time: Duration,
        trace: Option<(TraceId, Timestamp)>,
    ) {
        self.count(worker, reason);
        let Some(verdict) = self.cells(worker).verdicts.get(reason.verdict() as usize) else { return };
        let (verdict, micros) = (verdict.get_or_init(Box::default), micros_of(time));
        verdict.times.add(micros);
        if let Some((trace, at)) = trace {
            // While they are read, an exemplar is left out.
            let exemplars = verdict.exemplars.get_or_init(Box::default).try_lock();
            if let Some(place) = exemplars.ok().as_mut().and_then(|all| all.get_mut(bound_of(micros))) {
                *place = Some(Exemplar { trace, micros, at });
            }
        }
    }

    /// Counts a request with this target for its path group, if it is sampled.
    #[inline]
    pub(crate) fn note_path(&self, worker: usize, target: &[u8], reason: Reason) {
        let is_hit = matches!(reason.verdict(), Verdict::Hit | Verdict::Stale);
        self.cells(worker).groups.note(target, is_hit);
    }

    /// The path groups, in the order of the alphabet.
    pub(crate) fn path_groups(&self) -> BTreeMap<Box<str>, GroupCounts> {
        let mut groups = BTreeMap::new();
        self.workers.iter().for_each(|cells| cells.groups.read(&mut groups));
        groups
    }

    /// Number of requests with this reason.
    pub(crate) fn requests(&self, reason: Reason) -> u64 {
        let reasons = self.workers.iter().filter_map(|cells| cells.reasons.get()?.get(reason.index()));
        reasons.map(|cell| cell.load(Ordering::Relaxed)).sum()
    }

    /// The times of requests with this verdict; `None` if there was none.
    pub(crate) fn times(&self, verdict: Verdict) -> Option<TimeFigures> {
        let mut figures = None;
        for cells in self.verdict_cells(verdict) {
            cells.times.read(figures.get_or_insert_default());
        }
        figures
    }

    /// The last traced requests with this verdict, by the bounds of the metric.
    pub(crate) fn exemplars(&self, verdict: Verdict) -> [Option<Exemplar>; EXEMPLARS] {
        let mut newest = [None; EXEMPLARS];
        for exemplars in self.verdict_cells(verdict).filter_map(|cells| cells.exemplars.get()) {
            for (newest, own) in newest.iter_mut().zip(*lock(exemplars)) {
                let is_newer = |own: &Exemplar| newest.is_none_or(|known: Exemplar| known.at < own.at);
                *newest = own.filter(is_newer).or(*newest);
            }
        }
        newest
    }

    fn verdict_cells(&self, verdict: Verdict) -> impl Iterator<Item = &VerdictCells> {
        self.workers.iter().filter_map(move |cells| Some(&**cells.verdicts.get(verdict as usize)?.get()?))
    }
}

/// Poison is ignored because no code that can panic runs under these locks.
fn lock(exemplars: &Exemplars) -> MutexGuard<'_, [Option<Exemplar>; EXEMPLARS]> {
    exemplars.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{EXEMPLARS, MeasureTable, REST, SITES_MAX};
    use clock::Timestamp;
    use request_log::TraceId;
    use semantics::{Reason, Verdict};
    use std::time::Duration;

    #[test]
    fn figures_are_summed_over_workers_and_kept_by_label() {
        let table = MeasureTable::new(2);
        let site = table.of("a.test");
        for (worker, millis) in [(0, 1), (1, 3), (1, 5)] {
            site.note(worker, Reason::HitFresh, Duration::from_millis(millis), None);
        }
        site.note(0, Reason::MissAbsent, Duration::from_millis(80), None);
        table.no_site().count(1, Reason::HitFresh);
        drop(site);
        let site = table.of("a.test");
        assert_eq!((site.requests(Reason::HitFresh), table.requests(Reason::HitFresh)), (3, 4));
        let hits = site.times(Verdict::Hit).unwrap();
        assert_eq!((hits.count(), hits.micros()), (3, 9000));
        assert_eq!(site.times(Verdict::Miss).unwrap().count(), 1);
        assert_eq!(site.times(Verdict::Pass), None);
        let labels: Vec<_> = table.all().iter().map(|site| site.label().to_owned()).collect();
        assert_eq!(labels, ["-", "a.test"]);
    }

    #[test]
    fn newest_exemplar_of_each_bound_is_kept() {
        let table = MeasureTable::new(2);
        let site = table.of("a.test");
        for (worker, bits, micros) in [(0, 1, 10), (1, 2, 20), (0, 3, 100_000_000)] {
            let trace = Some((TraceId::from_bits(bits), Timestamp::from_secs(bits as u64)));
            site.note(worker, Reason::HitFresh, Duration::from_micros(micros), trace);
        }
        let exemplars = site.exemplars(Verdict::Hit);
        assert_eq!(exemplars.iter().flatten().count(), 2);
        assert_eq!(exemplars[0].map(|found| (found.trace, found.micros)), Some((TraceId::from_bits(2), 20)));
        assert_eq!(exemplars[EXEMPLARS - 1].map(|found| found.trace), Some(TraceId::from_bits(3)));
        assert_eq!(site.exemplars(Verdict::Miss), [None; EXEMPLARS]);
    }

    #[test]
    fn sites_beyond_the_limit_share_figures() {
        let table = MeasureTable::new(1);
        for number in 0..SITES_MAX + 3 {
            table.of(&format!("{number}.test")).count(0, Reason::HitFresh);
        }
        let all = table.all();
        assert_eq!(all.len(), SITES_MAX + 2);
        let rest = all.last().unwrap();
        assert_eq!((rest.label(), rest.requests(Reason::HitFresh)), (REST, 3));
        table.of("1.test").count(0, Reason::HitFresh);
        assert_eq!(rest.requests(Reason::HitFresh), 3, "a known label keeps its figures");
    }
}
