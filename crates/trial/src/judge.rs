//! Judges the findings of a visit: which pages can be answered from memory, and why the others
//! cannot.
//!
//! Invariant: a page counts as answered from memory only if the temporary edge did so. Everything
//! else comes from the findings of `why`.

use crate::configuration;
use crate::layers::layers;
use crate::report::{
    Comparison, EverybodysCookie, FORMAT, FailedPage, LoadReport, PageClass, PageReport, TrialReport,
};
use crate::sameness::Sameness;
use crate::visitor::{PageFacts, SiteVisit};
use address::HttpUrl;
use record::CacheVerdict;
use std::collections::BTreeMap;
use std::time::Duration;
use why::findings::{Cacheable, CookieSet, Findings, SpotNature, SuggestedSetting};

/// The reason of a page whose path the profile never shares.
const PASS_PATH: &str = "pass-path";

/// The reason of a page that sets a cookie.
const SETS_COOKIE: &str = "store-refused-set-cookie";

/// Share of the pages, without the personal ones, that a cookie for everybody keeps out.
const NEARLY_ALL_PERCENT: usize = 90;

/// The advice for a cookie that no known software sets.
const COOKIE_REMEDY: &str =
    "Let the application set it only for visitors who log in, fill a cart or send a form.";

/// Added to the remedy if the pages have form tokens of the session.
const TOKEN_REMEDY: &str = "Load form tokens by a script, or put them only into pages with a form.";

/// Builds the report of a visit. `is_insecure` says that the site's certificate is not verified.
pub fn trial_report(url: &HttpUrl, is_local: bool, is_insecure: bool, visit: &SiteVisit) -> TrialReport {
    let mut pages: Vec<PageReport> = visit.pages.iter().map(page).collect();
    let with_cookie = visit.pages.iter().filter_map(|page| page.logged_in.as_ref());
    let cookie_changes_nothing =
        !visit.pages.iter().any(|page| page.is_changed_by_cookie) && with_cookie.clone().next().is_some();
    if cookie_changes_nothing {
        // Then equal pages say nothing about a logged-in visitor. A difference still counts.
        for page in &mut pages {
            page.logged_in.take_if(|found| !found.is_difference());
        }
    }
    let logged_in: Vec<Sameness> = pages.iter().filter_map(|page| page.logged_in.clone()).collect();
    let first = visit.pages.first().map(|page| &page.findings);
    let mut report = TrialReport {
        format: FORMAT,
        url: url.to_string(),
        is_on_this_machine: is_local,
        software: first.map(|findings| findings.software.clone()).unwrap_or_default(),
        profile: first.map(|findings| findings.verdict.profile.clone()).unwrap_or_default(),
        everybodys_cookie: everybodys_cookie(visit, &pages),
        layers: first.map(layers).unwrap_or_default(),
        first_byte_ms: median(visit.pages.iter().map(|page| page.first_byte)),
        anonymous: Comparison::of(pages.iter().map(|page| &page.anonymous)),
        logged_in: (!logged_in.is_empty()).then(|| Comparison::of(logged_in.iter())),
        cookie_changes_nothing,
        pages,
        failed: visit
            .failed
            .iter()
            .map(|(url, what)| FailedPage { url: url.clone(), what: what.clone() })
            .collect(),
        skipped: visit.skipped.clone(),
        stopped: visit.stopped.clone(),
        is_in_trouble: visit.is_in_trouble,
        load: LoadReport::NotMade { reason: "nothing was loaded yet".to_owned() },
        configuration: String::new(),
    };
    report.configuration = configuration::proposed(url, is_insecure, &report);
    report
}

fn page(facts: &PageFacts) -> PageReport {
    let findings = &facts.findings;
    let verdict = &findings.verdict;
    let is_from_memory = matches!(facts.verdict, Some(CacheVerdict::Hit | CacheVerdict::Stale));
    let reason = verdict.reason.map(str::to_owned).or_else(|| facts.reason.clone());
    let is_personal = is_for_one(facts) || has_token(findings);
    let (class, remedy) = if is_from_memory {
        (PageClass::Memory, None)
    } else if is_personal {
        (PageClass::Personal, None)
    } else if verdict.cacheable == Cacheable::WithSettings {
        let lines: Vec<String> = findings.settings.iter().map(line).collect();
        (PageClass::Setting, Some(lines.join("\n")))
    } else {
        (PageClass::Application, advice(findings))
    };
    PageReport {
        url: facts.url.to_string(),
        class,
        verdict: facts.verdict.map(CacheVerdict::name),
        reason: reason.filter(|_| class != PageClass::Memory),
        remedy,
        server_ms: millis(facts.server_time),
        anonymous: facts.anonymous.clone(),
        logged_in: facts.logged_in.clone(),
    }
}

/// Whether the page asks for a password, or the profile never shares its path.
fn is_for_one(facts: &PageFacts) -> bool {
    let reasons = [facts.findings.verdict.reason, facts.reason.as_deref()];
    facts.asks_for_password || reasons.contains(&Some(PASS_PATH))
}

/// Whether the page has a form token that changes with each response.
fn has_token(findings: &Findings) -> bool {
    let spots = findings.changes.iter().filter(|change| change.request == "plain_again");
    spots.flat_map(|change| &change.spots).any(|spot| spot.looks_like == SpotNature::FormToken)
}

/// The advice about the weightiest obstacle.
fn advice(findings: &Findings) -> Option<String> {
    let first = findings.obstacles.first()?;
    let advice = if first.remedy.is_empty() { first.advice } else { &first.remedy };
    Some(advice.to_owned())
}

/// A line of the configuration file.
fn line(setting: &SuggestedSetting) -> String {
    if setting.value.starts_with('[') {
        format!("{} = {}", setting.key, setting.value)
    } else {
        format!("{} = \"{}\"", setting.key, setting.value)
    }
}

/// The cookie that keeps nearly all pages from being shared: those that Petasos refuses to store
/// because they set it for a visitor without cookies.
///
/// Log-in forms and pages that the profile never shares do not count. Pages with a form token do:
/// often each page has one that belongs to the session. Then no rule is proposed, because visitors
/// would share the token.
fn everybodys_cookie(visit: &SiteVisit, pages: &[PageReport]) -> Option<EverybodysCookie> {
    let mut setting: BTreeMap<&str, Vec<(&CookieSet, &Findings)>> = BTreeMap::new();
    let mut all = 0;
    for (facts, page) in visit.pages.iter().zip(pages) {
        if page.class == PageClass::Personal && (is_for_one(facts) || !has_token(&facts.findings)) {
            continue;
        }
        all += 1;
        if page.reason.as_deref() != Some(SETS_COOKIE) {
            continue;
        }
        let has_it = |cookie: &&CookieSet| cookie.request != "looked-up";
        for cookie in facts.findings.cookies.iter().filter(has_it) {
            setting.entry(&cookie.name).or_default().push((cookie, &facts.findings));
        }
    }
    let (name, found) = setting.into_iter().max_by_key(|(_, found)| found.len())?;
    let (cookie, findings) = found.first()?;
    if found.len() * 100 < all * NEARLY_ALL_PERCENT {
        return None;
    }
    let has_tokens = found.iter().any(|(_, findings)| has_token(findings));
    let rule = findings.settings.iter().find(|setting| setting.key == "stripped_cookies").map(line);
    let remedy = findings.obstacles.iter().find(|obstacle| obstacle.reason == SETS_COOKIE);
    let remedy = remedy.map(|obstacle| obstacle.remedy.clone()).filter(|remedy| !remedy.is_empty());
    let remedy = remedy.unwrap_or_else(|| COOKIE_REMEDY.to_owned());
    Some(EverybodysCookie {
        name: name.to_owned(),
        software: cookie.software,
        pages: found.len(),
        rule: rule.filter(|_| !has_tokens),
        remedy: if has_tokens { format!("{remedy} {TOKEN_REMEDY}") } else { remedy },
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The upper median in milliseconds; 0 of no times.
fn median(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    millis(times.get(times.len() / 2).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{page, trial_report};
    use crate::report::PageClass;
    use crate::sameness::Sameness;
    use crate::testing::answer;
    use crate::visitor::{PageFacts, SiteVisit};
    use address::HttpUrl;
    use record::CacheVerdict;
    use std::time::Duration;
    use why::{Probe, ProbeResponses, has_password_field, inspect};

    const HTML: &str = "Content-Type: text/html";

    /// A page about whose second request the edge said `verdict`.
    fn facts(verdict: CacheVerdict, fields: &[&str], contents: [&str; 2]) -> PageFacts {
        let url = HttpUrl::parse("http://shop.test/").unwrap();
        let [plain, again] = contents.map(|content| answer(200, fields, content));
        let asks_for_password = has_password_field(&plain.content);
        let others = vec![(Probe::PlainAgain, Ok(again))];
        let findings = inspect(&ProbeResponses { url: url.clone(), verified: true, plain, others });
        PageFacts {
            url,
            findings,
            verdict: Some(verdict),
            reason: Some("miss-absent".to_owned()),
            asks_for_password,
            server_time: Duration::from_millis(20),
            first_byte: Duration::from_millis(10),
            anonymous: Sameness::Same,
            logged_in: None,
            is_changed_by_cookie: false,
        }
    }

    #[test]
    fn class_of_a_page_follows_from_what_was_observed() {
        let hit = page(&facts(CacheVerdict::Hit, &[HTML, "Cache-Control: s-maxage=60"], ["a"; 2]));
        assert_eq!((hit.class, hit.reason, hit.remedy), (PageClass::Memory, None, None));
        let setting = page(&facts(CacheVerdict::Miss, &[HTML], ["a"; 2]));
        assert_eq!((setting.class, setting.remedy.as_deref()), (PageClass::Setting, Some("ttl = \"5m\"")));
        let application = page(&facts(CacheVerdict::Miss, &[HTML, "Cache-Control: private"], ["a"; 2]));
        assert_eq!(application.class, PageClass::Application);
        assert_eq!(application.reason.as_deref(), Some("store-refused-private"));
        assert!(application.remedy.unwrap().contains("s-maxage"));
        let form = "<form><input type=password></form>";
        assert_eq!(page(&facts(CacheVerdict::Miss, &[HTML], [form; 2])).class, PageClass::Personal);
        let tokens =
            ["1a2b", "3c4d"].map(|token| format!("<p>A page</p><input name=csrf_token value={token}> end"));
        let tokens = [tokens[0].as_str(), tokens[1].as_str()];
        assert_eq!(page(&facts(CacheVerdict::Miss, &[HTML], tokens)).class, PageClass::Personal);
    }

    #[test]
    fn cookie_of_nearly_all_pages_is_everybodys() {
        let url = HttpUrl::parse("http://shop.test/").unwrap();
        let with_cookie = || {
            facts(CacheVerdict::Miss, &[HTML, "Cache-Control: s-maxage=60", "Set-Cookie: sid=1"], ["a"; 2])
        };
        let without = || facts(CacheVerdict::Hit, &[HTML, "Cache-Control: s-maxage=60"], ["a"; 2]);
        let cookie = |pages| {
            let visit = SiteVisit { pages, ..SiteVisit::default() };
            trial_report(&url, true, false, &visit).everybodys_cookie
        };
        // A personal page neither counts for nor against it.
        let form = "<form><input type=password></form>";
        let personal = facts(CacheVerdict::Miss, &[HTML, "Set-Cookie: sid=1"], [form; 2]);
        let found = cookie(vec![with_cookie(), personal]).unwrap();
        assert_eq!((found.name.as_str(), found.pages), ("sid", 1));
        assert_eq!(found.rule.as_deref(), Some("stripped_cookies = [\"sid\"]"));
        assert_eq!(cookie(vec![with_cookie(), without()]), None);
        // The token of a session on each page is part of the cause, and must not be shared.
        let tokens =
            ["1a2b", "3c4d"].map(|token| format!("<p>A page</p><input name=csrf_token value={token}> end"));
        let tokens = [tokens[0].as_str(), tokens[1].as_str()];
        let with_token = facts(CacheVerdict::Miss, &[HTML, "Set-Cookie: sid=1"], tokens);
        let found = cookie(vec![with_token.clone(), with_cookie()]).unwrap();
        assert_eq!((found.pages, found.rule.as_deref()), (2, None));
        assert!(found.remedy.contains("form tokens"), "{}", found.remedy);
        assert_eq!(cookie(vec![with_token, without()]), None);
        assert_eq!(cookie(vec![with_cookie(), facts(CacheVerdict::Miss, &[HTML], ["a"; 2])]), None);
    }

    #[test]
    fn cookie_that_changes_no_page_proves_nothing() {
        let url = HttpUrl::parse("http://shop.test/").unwrap();
        let visited = |is_changed_by_cookie, logged_in| {
            let page = facts(CacheVerdict::Hit, &[HTML, "Cache-Control: s-maxage=60"], ["a"; 2]);
            let page = PageFacts { is_changed_by_cookie, logged_in: Some(logged_in), ..page };
            trial_report(&url, true, false, &SiteVisit { pages: vec![page], ..SiteVisit::default() })
        };
        let idle = visited(false, Sameness::Same);
        assert!(idle.cookie_changes_nothing && idle.logged_in.is_none() && idle.pages[0].logged_in.is_none());
        let valid = visited(true, Sameness::Same);
        assert!(!valid.cookie_changes_nothing && valid.logged_in.is_some());
        assert!(visited(false, Sameness::Differs(Vec::new())).has_difference());
    }

    #[test]
    fn configuration_proposes_the_settings_as_comments() {
        let url = HttpUrl::parse("http://shop.test/").unwrap();
        let visit =
            SiteVisit { pages: vec![facts(CacheVerdict::Miss, &[HTML], ["a"; 2])], ..SiteVisit::default() };
        let text = trial_report(&url, true, false, &visit).configuration;
        assert!(text.contains("listen = \"127.0.0.1:8080\"\norigin = \"http://shop.test\"\n"), "{text}");
        assert!(text.contains("1 page more can be answered from memory:\n# ttl = \"5m\"\n"), "{text}");
    }
}
