//! Cookies by name: who sets them, what they are for, and what to do when one keeps a page from being shared.
//!
//! What a row says and how one is found stands here; the rows are tables of their own, by whose cookies they are.
//!
//! Invariant: a row stands in a table only with the source that says so, and the first row that matches counts, so
//! exact names stand before families. The tables say what a cookie most probably is; nothing is decided by them:
//! whether a page may be shared decides `semantics`, by the profile.

mod frameworks;
mod in_front;
mod measurement;
mod systems;
mod wordpress;

use crate::Pattern;
use std::sync::LazyLock;

/// What a cookie is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Who the visitor is, or what is remembered of the visit.
    Session,
    /// A token against forged forms.
    FormToken,
    /// A language, a currency, a display setting.
    Preference,
    /// Which server of several answers.
    Balancing,
    /// Protection against robots.
    Protection,
    /// Audience measurement.
    Analytics,
    /// Whether the visitor agreed to cookies.
    Consent,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCookie {
    /// The name, with `*` for any run of characters.
    pub name: &'static str,
    /// Whose it is.
    pub software: &'static str,
    /// What it is for.
    pub purpose: Use,
    /// What makes the application set it, and what to do about that: one or two sentences.
    pub remedy: &'static str,
    /// Where that is written.
    pub source: &'static str,
}

/// All rows, in the order in which they are asked: systems before the frameworks they are written with, whose families
/// are wide.
pub const KNOWN_COOKIES: &[KnownCookie] = &joined();

/// The row for the cookie called `name`; cookies' names are told apart by case.
pub fn known_cookie(name: &[u8]) -> Option<&'static KnownCookie> {
    static PATTERNS: LazyLock<Vec<Pattern>> =
        LazyLock::new(|| KNOWN_COOKIES.iter().map(|row| Pattern::new(row.name)).collect());
    let rows = PATTERNS.iter().zip(KNOWN_COOKIES);
    rows.filter(|(pattern, row)| pattern.matches(name) && row.is_spelled(name)).map(|(_, row)| row).next()
}

impl KnownCookie {
    /// Whether the letters of the row stand in `name` in the same case: `SESS0a1b` is Drupal's, `session` is not.
    fn is_spelled(&self, name: &[u8]) -> bool {
        let mut parts = self.name.split('*').filter(|part| !part.is_empty());
        parts.all(|part| name.windows(part.len()).any(|window| window == part.as_bytes()))
    }
}

impl Use {
    /// In words.
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
    purpose: Use,
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

/// The tables as one; it does not compile if their lengths do not add up.
const fn joined() -> [KnownCookie; ROWS] {
    let mut rows = [row("", "", Use::Session, "", ""); ROWS];
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
    fn cookies_are_found_by_name_or_family() {
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
    fn no_row_hides_behind_an_earlier_one() {
        for row in KNOWN_COOKIES {
            let found = known_cookie(row.name.replace('*', "0").as_bytes()).unwrap();
            assert_eq!(found.name, row.name);
        }
    }

    #[test]
    fn every_row_says_what_to_do_in_sentences_and_where_it_is_from() {
        for row in KNOWN_COOKIES {
            assert!(row.remedy.ends_with('.') && row.remedy.starts_with(char::is_uppercase), "{}", row.name);
            assert!(!row.source.is_empty() && !row.software.is_empty(), "{}", row.name);
        }
    }
}
