//! `GET /dashboard/data`, `GET /dashboard/history` and `GET /dashboard/summary` at the admin
//! address: the figures behind the dashboard.
//!
//! Invariant: a reading changes nothing and takes no lock that a hit takes. Texts from clients are
//! bounded where they are noted.

use crate::control::status::status;
use crate::memory::measures::SiteMeasures;
use crate::memory::minutes::{LastMinute, Percentiles};
use crate::memory::path_groups::OTHER;
use crate::shared::Shared;
use crate::upkeep::history_writer::rows_in;
use crate::upkeep::sampler::minute_of;
use crate::upkeep::weekly::worst_of_both;
use api::dashboard::{
    CostFigures, DashboardData, History, MissFigures, PageFigures, PathGroupFigures, ROWS_MAX, ReasonFigures,
    SiteFigures, VerdictCount, VerdictFigures,
};
use history::{MINUTES, MINUTES_OF_DAY, SummaryFacts, Table, WeekFigures, summary};
use platform::HashMap;
use semantics::{Reason, Verdict};
use std::sync::Arc;

/// The time of a history that does not state it: a day.
const MINUTES_DEFAULT: u64 = MINUTES_OF_DAY;

/// Minutes of a week.
const WEEK: u64 = 7 * MINUTES_OF_DAY;

/// Longest URL of a page in characters.
const URL_CHARS_MAX: usize = 240;

/// Advice that asks for nothing.
const NOTHING: &str = "nothing to do.";

/// The present figures.
pub(crate) fn data(shared: &Shared) -> DashboardData {
    let last = shared.minutes.last();
    let now = shared.clock.monotonic();
    let costs = shared.origin_work.costs(now).into_iter().take(ROWS_MAX);
    DashboardData {
        at_secs: shared.clock.now().as_secs(),
        status: status(shared),
        machine: machine(shared, &last),
        sites: sites(shared, &last),
        verdicts: verdicts(shared),
        history_off: shared.minutes.is_off(),
        reasons: reasons(shared),
        hottest: hottest(shared),
        misses: misses(shared),
        costs: costs
            .map(|(key, work)| CostFigures {
                kind: key.kind,
                name: key.name.into(),
                site: key.site.into(),
                requests: work.requests.round() as u64,
                origin_micros: work.micros as u64,
            })
            .collect(),
    }
}

/// The figures of the last minute, with the present memory of the process.
fn machine(shared: &Shared, last: &LastMinute) -> api::dashboard::MachineFigures {
    api::dashboard::MachineFigures {
        memory_bytes_max: shared.plan.memory_bytes,
        resident_bytes: shared.system.processes.as_ref().and_then(|_| platform::resident_bytes()),
        ..last.machine
    }
}

/// The sites of the configuration, then the requests without a site.
fn sites(shared: &Shared, last: &LastMinute) -> Vec<SiteFigures> {
    let measures = shared.sites.measures();
    let mut sites: Vec<&SiteMeasures> = Vec::new();
    for site in shared.sites.iter() {
        // Sites beyond the limit share figures.
        if sites.iter().all(|known| known.label() != site.measures.label()) {
            sites.push(&site.measures);
        }
    }
    sites.push(measures.no_site());
    sites.into_iter().map(|site| site_figures(site, last)).collect()
}

/// The requests of each verdict, those at sites that the configuration no longer has included.
fn verdicts(shared: &Shared) -> Vec<VerdictCount> {
    let mut all = [0; Verdict::ALL.len()];
    for site in shared.sites.measures().all() {
        all.iter_mut().zip(requests_of(&site)).for_each(|(sum, requests)| *sum += requests);
    }
    let counted = Verdict::ALL.into_iter().zip(all);
    counted.map(|(verdict, requests)| VerdictCount { verdict: verdict.name().to_owned(), requests }).collect()
}

/// The requests of a site, by verdict.
fn requests_of(site: &SiteMeasures) -> [u64; Verdict::ALL.len()] {
    let mut requests = [0; Verdict::ALL.len()];
    for reason in Reason::ALL {
        if let Some(sum) = requests.get_mut(reason.verdict() as usize) {
            *sum += site.requests(*reason);
        }
    }
    requests
}

fn site_figures(site: &SiteMeasures, last: &LastMinute) -> SiteFigures {
    let verdicts = Verdict::ALL.into_iter().zip(requests_of(site)).filter(|(_, requests)| *requests > 0);
    let verdicts = verdicts.map(|(verdict, requests)| {
        let found = last.percentiles.get(&(site.label().into(), verdict)).copied();
        let micros = |choose: fn(&Percentiles) -> u64| found.as_ref().map(choose);
        VerdictFigures {
            verdict: verdict.name().to_owned(),
            requests,
            p50_micros: micros(|found| found.p50),
            p95_micros: micros(|found| found.p95),
            p99_micros: micros(|found| found.p99),
        }
    });
    SiteFigures {
        site: site.label().to_owned(),
        verdicts: verdicts.collect(),
        path_groups: path_groups(site),
    }
}

/// The largest groups. The others, and what belongs to none, are the last entry.
fn path_groups(site: &SiteMeasures) -> Vec<PathGroupFigures> {
    let mut groups: Vec<_> = site.path_groups().into_iter().collect();
    groups.sort_by_key(|(group, counts)| (&**group == OTHER, std::cmp::Reverse(counts.requests)));
    let rest = groups.split_off(groups.len().min(ROWS_MAX - 1));
    if let Some((_, mut counts)) = rest.first().cloned() {
        rest.iter().skip(1).for_each(|(_, more)| counts.add(*more));
        groups.push((OTHER.into(), counts));
    }
    let figures = groups.into_iter().map(|(group, counts)| PathGroupFigures {
        group: group.into(),
        requests: counts.requests,
        hits: counts.hits,
    });
    figures.collect()
}

fn reasons(shared: &Shared) -> Vec<ReasonFigures> {
    let sites = shared.sites.measures().all();
    let counted = Reason::ALL.iter().map(|reason| {
        let requests = sites.iter().map(|site| site.requests(*reason)).sum::<u64>();
        (*reason, requests)
    });
    let mut counted: Vec<_> = counted.filter(|(_, requests)| *requests > 0).collect();
    counted.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    let figures = counted.into_iter().map(|(reason, requests)| {
        let (meaning, fix) = meaning_and_fix(reason);
        let (reason, verdict) = (reason.name().to_owned(), reason.verdict().name().to_owned());
        ReasonFigures { reason, verdict, requests, meaning, fix }
    });
    figures.collect()
}

/// What a reason means, and what to do about it.
fn meaning_and_fix(reason: Reason) -> (String, String) {
    let advice = reason.advice();
    let Some((meaning, fix)) = advice.split_once("; ").or_else(|| advice.split_once(". ")) else {
        return (advice.to_owned(), String::new());
    };
    let mut letters = fix.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let fix = if fix == NOTHING { String::new() } else { first + letters.as_str() };
    (format!("{meaning}."), fix)
}

/// The stored pages with the most requests. Variants of one page, and pages that differ only in
/// their query, are one entry, because a query may hold a secret.
fn hottest(shared: &Shared) -> Vec<PageFigures> {
    let mut pages: HashMap<String, f64> = HashMap::default();
    for (page, requests) in shared.hot_pages.counted() {
        let scheme = if page.key.is_https() { "https" } else { "http" };
        let path = page.key.target().split(|byte| *byte == b'?').next().unwrap_or_default();
        let (host, path) = (String::from_utf8_lossy(page.key.host()), String::from_utf8_lossy(path));
        let url: String = format!("{scheme}://{host}{path}").chars().take(URL_CHARS_MAX).collect();
        *pages.entry(url).or_default() += requests;
    }
    let mut pages: Vec<_> = pages.into_iter().collect();
    pages.sort_by(|(one_url, one), (url, other)| other.total_cmp(one).then_with(|| one_url.cmp(url)));
    let figures = pages.into_iter().take(ROWS_MAX);
    figures.map(|(url, requests)| PageFigures { url, requests: requests.round() as u64 }).collect()
}

fn misses(shared: &Shared) -> Vec<MissFigures> {
    let pages = shared.origin_work.pages(shared.clock.monotonic()).into_iter().take(ROWS_MAX);
    let figures = pages.map(|(url, page)| MissFigures {
        url: url.into(),
        reason: page.reason.map(|reason| reason.name().to_owned()).unwrap_or_default(),
        requests: page.work.requests.round() as u64,
        origin_micros: page.work.micros as u64,
    });
    figures.collect()
}

/// The time that the query of a history states, in minutes.
///
/// # Errors
/// A text that says what is wrong with the query.
pub(crate) fn minutes_of(query: &[u8]) -> Result<u64, String> {
    let mut minutes = MINUTES_DEFAULT;
    for (name, value) in url::form_urlencoded::parse(query) {
        if name != "minutes" {
            return Err("There is one parameter here, `minutes`.".to_owned());
        }
        let stated = value.parse().ok().filter(|minutes| (1..=MINUTES).contains(minutes));
        minutes = stated.ok_or_else(|| format!("`minutes` is a number from 1 to {MINUTES}."))?;
    }
    Ok(minutes)
}

/// The last `minutes` minutes, in at most `values_max` values. `None` if the reading ended
/// unexpectedly.
pub(crate) async fn history(shared: &Arc<Shared>, minutes: u64, values_max: u64) -> Option<History> {
    let _turn = shared.minutes.readings.acquire().await.ok()?;
    let end = minute_of(shared);
    let table = table(shared, end).await;
    threads::run_aside(move || table.view(end, minutes, values_max)).await
}

/// The rows of the file and of memory.
async fn table(shared: &Shared, now: u64) -> Table {
    let file = match &shared.plan.state_directory {
        // Another process may keep its own past there. A file that cannot be written is read.
        Some(directory) if !shared.minutes.is_foreign() => {
            let (disk, directory) = (Arc::clone(&shared.system.disk), directory.clone());
            // While the disk hangs, one thread waits for it, and the past is that of memory.
            match Arc::clone(&shared.minutes.file_reading).try_acquire_owned() {
                Ok(turn) => {
                    let read = move || (rows_in(&*disk, &directory, now), turn).0;
                    shared.disk_threads.run(shared.limits.disk_timeout, read).await.unwrap_or_default()
                }
                Err(_) => Vec::new(),
            }
        }
        Some(_) | None => Vec::new(),
    };
    Table::new(file, &shared.minutes.rows())
}

/// The summary of the last seven days. `None` if the reading ended unexpectedly.
pub(crate) async fn last_week(shared: &Arc<Shared>) -> Option<String> {
    let _turn = shared.minutes.readings.acquire().await.ok()?;
    let end = minute_of(shared);
    let table = table(shared, end).await;
    Some(summary(&SummaryFacts {
        title: "The last 7 days".to_owned(),
        week: WeekFigures::of(table.range(end.saturating_sub(WEEK), end)),
        before: WeekFigures::of(table.range(end.saturating_sub(2 * WEEK), end.saturating_sub(WEEK))),
        misses: &worst_of_both(shared),
    }))
}

#[cfg(test)]
mod tests {
    use super::{data, meaning_and_fix, minutes_of};
    use crate::shared::Shared;
    use crate::system::System;
    use config::EdgePlan;
    use semantics::Reason;

    #[test]
    fn advice_is_split_into_meaning_and_fix() {
        let (meaning, fix) = meaning_and_fix(Reason::HitFresh);
        assert_eq!((&*meaning, &*fix), ("A fresh stored response answered the request.", ""));
        let (_, fix) = meaning_and_fix(Reason::UnknownSite);
        assert_eq!(fix, "Add it to the names of a site.");
        for reason in Reason::ALL {
            let (meaning, fix) = meaning_and_fix(*reason);
            assert!(meaning.ends_with('.') && (fix.is_empty() || fix.ends_with('.')), "{meaning} {fix}");
        }
    }

    #[test]
    fn every_reason_and_removed_site_counts() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Shared::new(plan, None, System::of_machine());
        let removed = shared.sites.measures().of("removed.test");
        for reason in Reason::ALL {
            removed.count(0, *reason);
        }
        let found = data(&shared);
        assert_eq!(found.reasons.len(), Reason::ALL.len());
        let counted: u64 = found.verdicts.iter().map(|verdict| verdict.requests).sum();
        assert_eq!((counted, found.status.requests), (Reason::ALL.len() as u64, counted));
        assert!(found.sites.iter().all(|site| site.verdicts.is_empty()), "the site is gone");
    }

    #[test]
    fn query_of_a_history_is_checked() {
        assert_eq!((minutes_of(b""), minutes_of(b"minutes=5")), (Ok(1440), Ok(5)));
        for wrong in [&b"minutes=0"[..], b"minutes=43201", b"minutes=x", b"minutes", b"days=1"] {
            assert!(minutes_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
