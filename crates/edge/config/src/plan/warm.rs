//! When and with which pages the edge fills its cache.

use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use ::document::{Diagnostic, Place};
use address::HttpUrl;
use std::path::PathBuf;

/// The settings that do nothing without `warm.url`.
const VOID_ALONE: [&str; 4] = ["warm.sitemaps", "warm.urls", "warm.rate", "warm.on"];

/// How the edge fills its cache with the pages of a site by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmPlan {
    /// The front page as visitors write it.
    pub url: String,
    /// Sitemaps and feeds. `None`: none. Empty: those that the site names.
    pub sitemaps: Option<Vec<String>>,
    /// The file with further pages.
    pub urls: Option<PathBuf>,
    /// Most pages in a second. `None`: as many as the response times permit.
    pub rate: Option<u32>,
    /// Whether it begins at a start with an empty cache.
    pub on_start: bool,
    /// Whether it begins after a purge of all pages of the site.
    pub on_purge: bool,
}

impl WarmPlan {
    /// The plan of a site; `None` if only a command fills its cache.
    pub(super) fn resolve(levels: &SettingLevels<'_>) -> Option<Self> {
        let texts = |key| match levels.stated(key) {
            Some(SettingValue::Texts(texts)) => Some(texts.clone()),
            _ => None,
        };
        let occasions = texts("warm.on");
        let begins = |word: &str| occasions.as_ref().is_none_or(|words| words.iter().any(|own| own == word));
        Some(Self {
            url: levels.text("warm.url")?.to_owned(),
            sitemaps: match texts("warm.sitemaps") {
                Some(none) if none.is_empty() => None,
                stated => Some(stated.unwrap_or_default()),
            },
            urls: levels.text("warm.urls").map(PathBuf::from),
            rate: levels.count("warm.rate").and_then(|rate| u32::try_from(rate).ok()),
            on_start: begins("start"),
            on_purge: begins("purge"),
        })
    }
}

/// Refuses a `warm.url` that cannot be parsed or belongs to another site, and settings without
/// effect.
pub(super) fn problems(levels: &SettingLevels<'_>) -> Vec<Diagnostic> {
    let place = |key| levels.place(key).unwrap_or(Place::Default);
    let Some(url) = levels.text("warm.url") else {
        let void = VOID_ALONE.into_iter().filter(|key| levels.stated(key).is_some());
        return void
            .map(|key| {
                let problem =
                    Diagnostic::new(format!("`{key}` has no effect without `warm.url`"), place(key));
                problem.with_help("write warm.url = \"https://www.example.org/\", the site's front page")
            })
            .collect();
    };
    let names = match levels.stated("names") {
        Some(SettingValue::Hosts(names)) => names.as_slice(),
        _ => &[],
    };
    let is_named = |host: &str| {
        let is = |name: &String| match name.strip_prefix('*') {
            Some(parent) => host.ends_with(parent),
            None => host == name,
        };
        names.is_empty() || names.iter().any(is)
    };
    match HttpUrl::parse(url) {
        Err(error) => vec![Diagnostic::new(format!("`warm.url`: {error}"), place("warm.url"))],
        Ok(url) if !is_named(&url.host()) => {
            let text = format!("`warm.url` is of another site: {} is not among `names`", url.host());
            vec![
                Diagnostic::new(text, place("warm.url")).with_help("write the URL of this site's front page"),
            ]
        }
        Ok(_) => Vec::new(),
    }
}
