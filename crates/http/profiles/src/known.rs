//! Known cookies: which software sets each, its purpose, and the remedy if it prevents sharing of a
//! page.
//!
//! This module defines the rows and the search; the rows themselves are in one table per kind of
//! software.
//!
//! Invariant: each row names its source. The first row that matches counts, so exact names come
//! before families. A row states the most probable origin of a cookie and decides nothing:
//! `semantics` decides by the profile whether a page may be shared.

mod frameworks;
mod in_front;
mod measurement;
mod systems;
mod wordpress;

use crate::Pattern;
use std::sync::LazyLock;

/// The purpose of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CookiePurpose {
    /// Identifies the visitor, or the data of the visit.
    Session,
    /// A token against forged form submissions.
    FormToken,
    /// A language, a currency, or a display setting.
    Preference,
    /// The server that a load balancer chose.
    Balancing,
    /// Protection against robots.
    Protection,
    /// Audience measurement.
    Analytics,
    /// Whether the visitor agreed to cookies.
    Consent,
}

/// A row of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCookie {
    /// The name, with `*` for any run of characters.
    pub name: &'static str,
    /// The software that sets it.
    pub software: &'static str,
    /// The purpose.
    pub purpose: CookiePurpose,
    /// Why the application sets it, and advice, in one or two sentences.
    pub remedy: &'static str,
    /// The source of this information.
    pub source: &'static str,
}

/// All rows, in the order of the search. Systems come before the frameworks that they are written
/// in, whose families are wide.
pub const KNOWN_COOKIES: &[KnownCookie] = &joined();

/// The row for the cookie called `name`. Letter case counts.
pub fn known_cookie(name: &[u8]) -> Option<&'static KnownCookie> {
    static PATTERNS: LazyLock<Vec<Pattern>> =
        LazyLock::new(|| KNOWN_COOKIES.iter().map(|row| Pattern::new(row.name)).collect());
    let rows = PATTERNS.iter().zip(KNOWN_COOKIES);
    rows.filter(|(pattern, row)| pattern.matches(name) && row.is_spelled(name)).map(|(_, row)| row).next()
}

impl KnownCookie {
    /// Whether `name` contains the letters of the row in the same case: `SESS0a1b` is Drupal's,
    /// `session` is not.
    fn is_spelled(&self, name: &[u8]) -> bool {
        let mut parts = self.name.split('*').filter(|part| !part.is_empty());
        parts.all(|part| name.windows(part.len()).any(|window| window == part.as_bytes()))
    }
}

impl CookiePurpose {
    /// The purpose in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::FormToken => "form token",
            Self::Preference => "preference",
            Self::Balancing => "load balancing",
            Self::Protection => "protection",
            Self::Analytics => "analytics",
            Self::Consent => "consent",
        }
    }
}

const fn row(
    name: &'static str,
    software: &'static str,
    purpose: CookiePurpose,
    remedy: &'static str,
    source: &'static str,
) -> KnownCookie {
    KnownCookie { name, software, purpose, remedy, source }
}

const TABLES: [&[KnownCookie]; 5] =
    [wordpress::ROWS, systems::ROWS, frameworks::ROWS, in_front::ROWS, measurement::ROWS];

const ROWS: usize = wordpress::ROWS.len()
    + systems::ROWS.len()
    + frameworks::ROWS.len()
    + in_front::ROWS.len()
    + measurement::ROWS.len();

/// Joins the tables. The evaluation fails at compile time if their lengths do not add up.
const fn joined() -> [KnownCookie; ROWS] {
    let mut rows = [row("", "", CookiePurpose::Session, "", ""); ROWS];
    let (mut places, mut tables): (&mut [KnownCookie], &[&[KnownCookie]]) = (&mut rows, &TABLES);
    while let Some((table, others)) = tables.split_first() {
        let (here, behind) = places.split_at_mut(table.len());
        here.copy_from_slice(table);
        (places, tables) = (behind, others);
    }
    assert!(places.is_empty(), "a table is missing");
    rows
}

#[cfg(test)]
mod tests {
    use super::{KNOWN_COOKIES, known_cookie};

    fn software(name: &str) -> Option<&'static str> {
        known_cookie(name.as_bytes()).map(|row| row.software)
    }

    #[test]
    fn known_cookies_are_found_by_name_or_family() {
        for (name, expected) in [
            ("PHPSESSID", Some("PHP")),
            ("wordpress_logged_in_0a1b", Some("WordPress")),
            ("wp_woocommerce_session_0a1b", Some("WooCommerce")),
            ("woocommerce_cart_hash", Some("WooCommerce")),
            ("wp-wpml_current_language", Some("WPML")),
            ("_icl_current_language", Some("WPML (before 4)")),
            ("pll_language", Some("Polylang")),
            ("PrestaShop-0a1b2c", Some("PrestaShop")),
            ("fe_typo_user", Some("TYPO3")),
            ("SSESS0a1b", Some("Drupal")),
            ("SESS0a1b", Some("Drupal")),
            ("sessionid", Some("Django")),
            ("laravel_session", Some("Laravel")),
            ("wiki_session", Some("Rails, MediaWiki and others")),
            ("csrftoken", Some("Django")),
            ("__cfduid", Some("Cloudflare (until 2021)")),
            ("session", None),
            ("phpsessid", None),
            ("theme", None),
        ] {
            assert_eq!(software(name), expected, "{name}");
        }
    }

    #[test]
    fn no_row_is_hidden_by_an_earlier_one() {
        for row in KNOWN_COOKIES {
            let found = known_cookie(row.name.replace('*', "0").as_bytes()).unwrap();
            assert_eq!(found.name, row.name);
        }
    }

    #[test]
    fn every_row_has_a_remedy_and_a_source() {
        for row in KNOWN_COOKIES {
            assert!(row.remedy.ends_with('.') && row.remedy.starts_with(char::is_uppercase), "{}", row.name);
            assert!(!row.source.is_empty() && !row.software.is_empty(), "{}", row.name);
        }
    }
}
