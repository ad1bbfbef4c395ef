//! The settings of filling the cache, as rows of the settings table.

use crate::row::row;
use crate::setting::{Setting, SettingKind, SettingScope};

/// The words of `warm.on`.
pub(crate) const OCCASIONS: &[&str] = &["start", "purge"];

/// The greatest value of `warm.rate`, in pages a second.
pub(crate) const RATE_MAX: u64 = 1_000;

pub(crate) const WARM: &[Setting] = &[
    row(
        "warm.url",
        SettingScope::Host,
        SettingKind::Text,
        None,
        "URL of the site's front page as visitors write it, for example `https://www.example.org/`. Petasos \
         then fills the cache by itself with the pages of the site's sitemaps, at the occasions in \
         `warm.on`: docs/warming.md describes it. If left out: it does so only after `petasos warm`.",
    ),
    row(
        "warm.sitemaps",
        SettingScope::Host,
        SettingKind::Urls,
        None,
        "Sitemaps and feeds (RSS, Atom) with the pages for `warm.url`, as URLs or as paths such as \
         `/sitemap.xml`. `[]`: none. If left out: those that robots.txt names, or the first at one of the \
         usual places.",
    ),
    row(
        "warm.urls",
        SettingScope::Host,
        SettingKind::Text,
        None,
        "File with further pages for `warm.url`: one URL or path in a line. Petasos reads it each time that \
         it begins to fill the cache. If left out: no further pages.",
    ),
    row(
        "warm.rate",
        SettingScope::Host,
        SettingKind::Count(1, RATE_MAX),
        None,
        "Largest number of pages that Petasos requests per second to fill the cache. If left out: as many as \
         the origin answers without becoming slower.",
    ),
    row(
        "warm.on",
        SettingScope::Host,
        SettingKind::Choices(OCCASIONS),
        None,
        "Occasions at which Petasos begins to fill the cache. `start`: at a start with an empty cache. \
         `purge`: after a purge of all pages of the site. If left out: both.",
    ),
];
