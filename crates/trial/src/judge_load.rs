//! Judges the measured load: whether there is a factor, and its meaning.
//!
//! Invariant: there is no factor for a site that gives every visitor a cookie, for one that failed
//! or became slower during the visit or under the load, or for one on another machine.

use crate::factor::{across, factor};
use crate::measure::{LoadResult, LoadTarget, RoundFigures, SideFigures, USERS};
use crate::report::{Factors, LoadFigures, LoadReport, PageReport, TrialReport};
use address::HttpUrl;
use std::time::Duration;

/// The pages to load: those that are answered from memory and are the same through Petasos.
///
/// # Errors
/// Why nothing may be loaded, as the rest of a sentence after "because".
pub fn load_target(report: &TrialReport, edge: &HttpUrl, is_verified: bool) -> Result<LoadTarget, String> {
    if !report.is_on_this_machine {
        return Err("the site is not on this machine".to_owned());
    }
    if let Some(cause) = report.stopped.as_ref().filter(|_| report.is_in_trouble) {
        return Err(format!("the visit had to end early ({cause})"));
    }
    if let Some(cookie) = &report.everybodys_cookie {
        return Err(format!("every visitor gets the cookie {}, which no factor would mention", cookie.name));
    }
    let loaded: Vec<&PageReport> = report.pages.iter().filter(|page| page.is_same_from_memory()).collect();
    let pages: Vec<HttpUrl> = loaded.iter().filter_map(|page| HttpUrl::parse(&page.url).ok()).collect();
    if pages.is_empty() {
        return Err("no page is answered from memory and the same".to_owned());
    }
    let slowest_ms = loaded.iter().map(|page| page.server_ms).fold(0.0, f64::max);
    Ok(LoadTarget {
        pages,
        edge: edge.clone(),
        slowest: Duration::from_secs_f64(slowest_ms / 1000.0),
        is_verified,
    })
}

/// The report with the result of the load. `None` if the user interrupted it.
pub fn with_load(mut report: TrialReport, result: LoadResult) -> Option<TrialReport> {
    report.load = match result {
        LoadResult::Interrupted => return None,
        LoadResult::NotMade(reason) => LoadReport::NotMade { reason },
        LoadResult::GaveIn(reason) => LoadReport::GaveIn { reason },
        LoadResult::Rounds(rounds) => match figures(&report.pages, rounds) {
            Some(figures) => LoadReport::Made(Box::new(figures)),
            None => LoadReport::NotMade { reason: "no round had a good response".to_owned() },
        },
    };
    Some(report)
}

fn figures(pages: &[PageReport], rounds: Vec<RoundFigures>) -> Option<LoadFigures> {
    let pairs: Vec<(f64, f64)> =
        rounds.iter().map(|round| (round.today.pages_per_s, round.with_petasos.pages_per_s)).collect();
    let from_memory = factor(&pairs)?;
    let times: Vec<(f64, bool)> =
        pages.iter().map(|page| (page.server_ms, page.is_same_from_memory())).collect();
    let today = medians(rounds.iter().map(|round| &round.today));
    let with_petasos = medians(rounds.iter().map(|round| &round.with_petasos));
    Some(LoadFigures {
        users: USERS,
        keep_alive: pages.iter().any(|page| page.url.starts_with("https:")),
        pages: pages.iter().filter(|page| page.is_same_from_memory()).count(),
        // Otherwise the site alone would be faster than measured, and the factor too large.
        factors: (!today.is_generator_limit && today.is_valid && with_petasos.is_valid)
            .then(|| Factors { from_memory, across_pages: across(&times, from_memory) }),
        is_at_least: with_petasos.is_generator_limit,
        today,
        with_petasos,
        rounds,
    })
}

/// The medians of one side. The generator was the limit if it was so in any round, and all rounds
/// must be valid.
fn medians<'a>(rounds: impl Iterator<Item = &'a SideFigures>) -> SideFigures {
    let rounds: Vec<&SideFigures> = rounds.collect();
    let median = |value: &dyn Fn(&SideFigures) -> Option<f64>| {
        let mut values: Vec<f64> = rounds.iter().filter_map(|round| value(round)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    SideFigures {
        pages_per_s: median(&|of| Some(of.pages_per_s)).unwrap_or_default(),
        p95_ms: median(&|of| Some(of.p95_ms)).unwrap_or_default(),
        cpu_ms_per_page: median(&|of| of.cpu_ms_per_page),
        is_generator_limit: rounds.iter().any(|round| round.is_generator_limit),
        is_valid: rounds.iter().all(|round| round.is_valid),
    }
}

#[cfg(test)]
mod tests {
    use super::{load_target, with_load};
    use crate::measure::{LoadResult, RoundFigures, SideFigures};
    use crate::report::{EverybodysCookie, Factors, LoadReport, PageClass};
    use crate::sameness::Sameness;
    use crate::testing::{page, report};
    use address::HttpUrl;

    fn edge() -> HttpUrl {
        HttpUrl::parse("http://127.0.0.1:9/").unwrap()
    }

    fn side(pages_per_s: f64) -> SideFigures {
        SideFigures {
            pages_per_s,
            p95_ms: 1.0,
            cpu_ms_per_page: Some(2.0),
            is_generator_limit: false,
            is_valid: true,
        }
    }

    fn round(today: f64, with_petasos: f64) -> RoundFigures {
        RoundFigures { today: side(today), with_petasos: side(with_petasos) }
    }

    #[test]
    fn only_same_pages_from_memory_are_loaded() {
        let mut pages = [PageClass::Memory, PageClass::Memory, PageClass::Personal].map(page).to_vec();
        for kept_out in [Sameness::Differs(vec![String::new()]), Sameness::Unknown] {
            pages[1].anonymous = kept_out;
            let target = load_target(&report(pages.clone()), &edge(), true).unwrap();
            assert_eq!(target.pages.len(), 1);
        }
    }

    #[test]
    fn cookie_for_everybody_trouble_and_remote_site_are_not_loaded() {
        let mut with_cookie = report(vec![page(PageClass::Memory)]);
        with_cookie.everybodys_cookie = Some(EverybodysCookie {
            name: "sid".to_owned(),
            software: None,
            pages: 1,
            rule: None,
            remedy: String::new(),
        });
        assert!(load_target(&with_cookie, &edge(), true).unwrap_err().contains("the cookie sid"));
        let mut troubled = report(vec![page(PageClass::Memory)]);
        troubled.stopped = Some("it became slower".to_owned());
        assert!(load_target(&troubled, &edge(), true).is_ok(), "the time was up");
        troubled.is_in_trouble = true;
        assert!(load_target(&troubled, &edge(), true).unwrap_err().contains("(it became slower)"));
        let mut remote = report(vec![page(PageClass::Memory)]);
        remote.is_on_this_machine = false;
        assert!(load_target(&remote, &edge(), true).is_err());
        assert!(load_target(&report(vec![page(PageClass::Setting)]), &edge(), true).is_err());
    }

    #[test]
    fn factor_across_pages_counts_the_others_at_their_time() {
        let pages = [PageClass::Memory, PageClass::Application].map(page).to_vec();
        let rounds = vec![round(10.0, 1000.0), round(10.0, 2000.0), round(10.0, 500.0)];
        let judged = with_load(report(pages), LoadResult::Rounds(rounds)).unwrap();
        let LoadReport::Made(figures) = judged.load else { panic!("no figures") };
        let Factors { from_memory, across_pages } = figures.factors.unwrap();
        assert_eq!((from_memory.low, from_memory.times, from_memory.high), (50.0, 100.0, 200.0));
        // Both pages take the same time, so at best half of it remains.
        assert!((across_pages.times - 2.0 / 1.01).abs() < 1e-9);
    }

    #[test]
    fn limits_of_the_generator_are_told() {
        let judged = |change: &dyn Fn(&mut RoundFigures)| {
            let mut rounds = vec![round(10.0, 100.0), round(10.0, 100.0)];
            change(&mut rounds[1]);
            let judged =
                with_load(report(vec![page(PageClass::Memory)]), LoadResult::Rounds(rounds)).unwrap();
            let LoadReport::Made(figures) = judged.load else { panic!("no figures") };
            (figures.factors.is_some(), figures.is_at_least)
        };
        assert_eq!(judged(&|_| ()), (true, false));
        assert_eq!(judged(&|round| round.with_petasos.is_generator_limit = true), (true, true));
        assert_eq!(judged(&|round| round.today.is_generator_limit = true), (false, false));
        assert!(!judged(&|round| round.with_petasos.is_valid = false).0);
    }

    #[test]
    fn site_that_gave_in_gets_no_factor() {
        let judged =
            with_load(report(vec![page(PageClass::Memory)]), LoadResult::GaveIn("it broke".to_owned()));
        assert_eq!(judged.unwrap().load, LoadReport::GaveIn { reason: "it broke".to_owned() });
        assert!(with_load(report(Vec::new()), LoadResult::Interrupted).is_none());
    }
}
