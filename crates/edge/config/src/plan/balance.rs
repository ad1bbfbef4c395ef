//! Several origins of a site: which they are, and how Petasos checks them.
//!
//! Invariant: all origins of a site use TLS, or none does, because they have the same settings. No
//! origin is named twice.

use crate::levels::SettingLevels;
use crate::origin_member::OriginMember;
use crate::setting::SettingValue;
use address::OriginUrl;
use document::{Diagnostic, Place};
use std::time::Duration;

/// The origins of a site beside the first, and how requests are spread over all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginBalance {
    /// The weight of the first origin.
    pub weight: u32,
    /// The other origins.
    pub others: Vec<OriginMember>,
    /// The path of Petasos's health checks of each origin. `None`: it checks origins that have
    /// failed, if there are others, by the path `/`.
    pub check_path: Option<String>,
    /// The time between two checks.
    pub check_interval: Duration,
    /// Whether the limit of requests at a time adapts to the response times of each origin.
    pub is_limit_adaptive: bool,
}

/// The largest number of origins of a site. Each choice looks at all of them.
const ORIGINS_MAX: usize = 64;

/// The shortest time between two checks of an origin.
const CHECK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The default of `origin_check_interval`.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Default for OriginBalance {
    fn default() -> Self {
        Self {
            weight: 1,
            others: Vec::new(),
            check_path: None,
            check_interval: CHECK_INTERVAL,
            is_limit_adaptive: false,
        }
    }
}

impl OriginBalance {
    /// The origins in words. `first` is the first one.
    pub(super) fn explain(&self, first: &OriginUrl) -> String {
        let first = OriginMember { url: first.clone(), weight: self.weight };
        let all = std::iter::once(&first).chain(&self.others).map(ToString::to_string);
        let all = all.collect::<Vec<_>>().join(" and ");
        let path = self.check_path.iter().map(|path| format!(", checked by {path}"));
        let limit = if self.is_limit_adaptive { ", with an adaptive limit" } else { "" };
        path.fold(all, |text, path| text + &path) + limit
    }
}

/// The origins of a site; `None` if it has none.
pub(super) fn resolve(levels: &SettingLevels<'_>) -> Option<(OriginUrl, OriginBalance)> {
    let Some(SettingValue::Origins(mut origins)) = levels.value("origin") else { return None };
    if origins.is_empty() {
        return None;
    }
    let first = origins.remove(0);
    let balance = OriginBalance {
        weight: first.weight,
        others: origins,
        check_path: levels.text("origin_check").map(str::to_owned),
        check_interval: levels.duration("origin_check_interval").unwrap_or(CHECK_INTERVAL),
        is_limit_adaptive: levels.text("origin_limit") == Some("adaptive"),
    };
    Some((first.url, balance))
}

/// The faults in the origins of a site.
pub(super) fn problems(
    (first, balance): &(OriginUrl, OriginBalance),
    levels: &SettingLevels<'_>,
) -> Vec<Diagnostic> {
    let problem = |key: &'static str, text: String, help: &str| {
        Diagnostic::new(text, levels.place(key).unwrap_or(Place::Default)).with_help(help)
    };
    let urls: Vec<_> = std::iter::once(first).chain(balance.others.iter().map(|other| &other.url)).collect();
    let mut problems = Vec::new();
    if urls.len() > ORIGINS_MAX {
        let text = format!("the site has {} origins, and {ORIGINS_MAX} are possible", urls.len());
        problems.push(problem("origin", text, "put a balancer before some of them"));
    }
    if let Some(twice) =
        urls.iter().enumerate().find(|(place, url)| urls.iter().take(*place).any(|earlier| earlier == *url))
    {
        let text = format!("the site has the origin {} twice", twice.1);
        problems.push(problem("origin", text, "name it once, with a weight if it shall get more requests"));
    }
    if let Some(other) = urls.iter().find(|url| url.is_https() != first.is_https()) {
        let text = format!("the origins {first} and {other} do not both use TLS");
        problems.push(problem("origin", text, "write https:// for all origins of a site, or for none"));
    }
    if let Some(path) = balance.check_path.as_ref().filter(|path| !is_target(path)) {
        let text = format!("`origin_check`: `{path}` is not a path");
        problems.push(problem("origin_check", text, "write for example origin_check = \"/healthz\""));
    }
    if balance.check_interval < CHECK_INTERVAL_MIN {
        let text = "`origin_check_interval` is shorter than a second".to_owned();
        problems.push(problem("origin_check_interval", text, "write 1s or more"));
    }
    problems
}

/// Whether a request can have this target.
fn is_target(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

#[cfg(test)]
mod tests {
    use crate::EdgePlan;

    fn load(text: &str) -> Result<EdgePlan, String> {
        super::super::loading::load(text, &[])
    }

    #[test]
    fn list_names_the_origins_with_their_weights() {
        let text = "origin = ['http://a weight=2', 'http://b']\norigin_check = '/up'\n";
        let plan = load(text).unwrap();
        let site = &plan.sites[0];
        assert_eq!((site.origin.to_string(), site.balance.weight), ("http://a:80".to_owned(), 2));
        assert_eq!(site.balance.others[0].to_string(), "http://b:80");
        let words = "origin http://a:80 weight=2 and http://b:80, checked by /up, profile";
        assert!(plan.explain().contains(words), "{}", plan.explain());
        let single = load("origin = 'http://a'").unwrap().sites[0].balance.clone();
        assert!(single.others.is_empty() && !single.is_limit_adaptive);
        let adaptive = load("origin = 'http://a'\norigin_limit = 'adaptive'").unwrap();
        assert!(adaptive.sites[0].balance.is_limit_adaptive);
    }

    #[test]
    fn origins_over_tls_have_names_of_their_own() {
        let names = |text: &str| {
            let tls = load(text).unwrap().sites[0].origin_tls.clone().unwrap();
            (tls.name, tls.other_names)
        };
        let text = "origin = ['https://a.test', 'https://b.test.']\n";
        assert_eq!(names(text), ("a.test".to_owned(), vec!["b.test".to_owned()]));
        assert_eq!(names(&format!("{text}origin_name = 'c'")), ("c".to_owned(), vec!["c".to_owned()]));
    }

    #[test]
    fn origins_that_contradict_each_other_are_errors() {
        for (text, said) in [
            ("origin = ['http://a', 'http://b', 'http://a:80']", "twice"),
            ("origin = ['http://a', 'https://b']", "do not both use TLS"),
            ("origin = ['http://a', 'http://b weight=0']", "weight=N"),
            ("origin = []", "the list is empty"),
            ("origin = 'http://a'\norigin_check = 'up'", "not a path"),
            ("origin = 'http://a'\norigin_check_interval = '0.1s'", "shorter than a second"),
        ] {
            let fault = load(text).unwrap_err();
            assert!(fault.contains(said) && fault.contains("petasos.toml:"), "{text}: {fault}");
        }
    }
}
