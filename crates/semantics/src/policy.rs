//! The policy of a site: plain data that a profile fills and the configuration may widen.
//!
//! Invariant: an unknown cookie or request field is never taken for harmless; only what a list here names is.
//! The decisions that read this data stand in `request`, `judge` and `freshness`.

use message::names;
use std::time::Duration;

/// A pattern over octets in which `*` stands for any run of them, empty included. Names of cookies and fields,
/// paths and parameters are compared without regard to ASCII case: a pattern that matches too much makes a
/// request pass, or removes a cookie that nobody would otherwise have kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// The pattern written as `text`.
    pub fn new(text: &str) -> Self {
        Self(text.to_ascii_lowercase().into_bytes().into())
    }

    /// Whether the whole of `octets` matches. Takes time in proportion to the product of both lengths at most.
    pub fn matches(&self, octets: &[u8]) -> bool {
        let (mut rest, mut pattern) = (octets, &*self.0);
        // Where to go on when the run that the last `*` took turns out too short.
        let mut retry: Option<(&[u8], &[u8])> = None;
        loop {
            match (pattern.split_first(), rest.split_first()) {
                (Some((b'*', after)), _) => {
                    retry = Some((after, rest));
                    pattern = after;
                }
                (Some((expected, after)), Some((octet, others)))
                    if *expected == octet.to_ascii_lowercase() =>
                {
                    (pattern, rest) = (after, others);
                }
                (None, None) => return true,
                _ => {
                    let Some((after, [_, shorter @ ..])) = retry else { return false };
                    retry = Some((after, shorter));
                    (pattern, rest) = (after, shorter);
                }
            }
        }
    }
}

/// Patterns as a profile lists them.
fn patterns(list: &[&str]) -> Vec<Pattern> {
    list.iter().map(|text| Pattern::new(text)).collect()
}

/// What a cookie means that no pattern of the policy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCookie {
    /// It may change the answer: the request passes.
    Pass,
    /// It is noise: removed from a fetch whose answer may be shared.
    Ignore,
}

/// A field that speaks to caches of our kind and replaces `Cache-Control` for them (RFC 9213).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetedField {
    /// `CDN-Cache-Control`, a structured dictionary.
    CdnCacheControl,
    /// `Surrogate-Control` of the Edge Architecture Specification.
    SurrogateControl,
}

impl TargetedField {
    /// The targeted field with this name, in any case; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(names::CDN_CACHE_CONTROL) {
            return Some(Self::CdnCacheControl);
        }
        name.eq_ignore_ascii_case(names::SURROGATE_CONTROL).then_some(Self::SurrogateControl)
    }
}

/// What of a request goes along on a fetch whose answer may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// Only what is in the key, or constant.
    Keyed,
    /// Every end-to-end field that the visitor sent. The answer is trusted to name in `Vary` whatever it depends on.
    Everything,
}

/// When the answer to a request with `Authorization` may be stored and shared (RFC 9111 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Never from the store, and only an answer that says `public` is taken for one that could be shared.
    WithPublic,
    /// As the RFC says: `public`, `s-maxage` and `must-revalidate` each permit it.
    AsStated,
}

/// What a response's ban on staleness means while the origin fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleOnError {
    /// It holds.
    Obey,
    /// `must-revalidate`, `proxy-revalidate` and the ban that goes with `s-maxage` are lifted; `no-cache` holds.
    Override,
}

/// What a site's operator decides about sharing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The profile's name, as configured and as printed.
    pub name: &'static str,
    /// Freshness of 200 and 301 answers to GET that state none, and of 404 where `not_found_ttl` gives none. `None`:
    /// they are shared only if the origin confirms them each time, which takes a validator.
    pub default_ttl: Option<Duration>,
    /// Cookies that mark a session: the request passes.
    pub session_cookies: Vec<Pattern>,
    /// Cookies that never change a page; they win over `session_cookies`.
    pub noise_cookies: Vec<Pattern>,
    /// What every other cookie means.
    pub unknown_cookie: UnknownCookie,
    /// Request fields that never change a page, beside those every profile knows.
    pub noise_fields: Vec<Pattern>,
    /// Request fields that are forwarded as the visitor sent them although they are in no key. The application is
    /// trusted to name in `Vary` what changes a page; trace identifiers need no Vary.
    pub forwarded_fields: Vec<Pattern>,
    /// Paths that are never shared, compared after one percent-decoding.
    pub bypass_paths: Vec<Pattern>,
    /// Query parameters whose presence makes a request pass.
    pub bypass_parameters: Vec<Pattern>,
    /// Targeted fields in order: the first valid one that is present counts.
    pub targeted_fields: Vec<TargetedField>,
    /// A request's `no-cache`, `max-age` or `min-fresh` cannot demand a response younger than this. Request
    /// directives are advice (RFC 9111 section 5.2.1); with this floor a crowd that presses reload costs the
    /// origin one fetch a page in this time.
    pub reload_age_min: Duration,
    /// What goes along on a fetch whose answer may be shared.
    pub forwarding: Forwarding,
    /// Whether an answer that sets a cookie is stored when it states a lifetime.
    pub stores_cookies: bool,
    /// When the answer to a request with credentials may be shared.
    pub credentials: Credentials,
    /// Whether a lifetime is guessed from `Last-Modified` where none is stated (RFC 9111 section 4.2.2).
    pub heuristics: bool,
    /// Freshness of 404 and 410 answers: given to those that state none, and the most for those that state one.
    /// `None`: as stated.
    pub not_found_ttl: Option<Duration>,
    /// The longest freshness of an error that states one, and of a status whose meaning for reuse is not known; one
    /// that states none is not stored. `None`: as stated.
    pub error_ttl: Option<Duration>,
    /// What a response's ban on staleness means while the origin fails.
    pub stale_on_error: StaleOnError,
    /// How long after its lifetime a response that says nothing of `stale-if-error` may answer while the origin
    /// fails; zero: not at all.
    pub stale_on_error_max: Duration,
}

impl Policy {
    /// The profile for a site of which nothing is known.
    pub fn default_profile() -> Self {
        Self {
            name: "default",
            default_ttl: None,
            session_cookies: patterns(SESSION_COOKIES),
            noise_cookies: patterns(NOISE_COOKIES),
            unknown_cookie: UnknownCookie::Pass,
            noise_fields: Vec::new(),
            forwarded_fields: Vec::new(),
            bypass_paths: Vec::new(),
            bypass_parameters: Vec::new(),
            targeted_fields: vec![TargetedField::SurrogateControl, TargetedField::CdnCacheControl],
            reload_age_min: Duration::from_secs(5),
            forwarding: Forwarding::Keyed,
            stores_cookies: false,
            credentials: Credentials::WithPublic,
            heuristics: false,
            not_found_ttl: Some(Duration::from_secs(30)),
            error_ttl: Some(Duration::from_secs(5)),
            stale_on_error: StaleOnError::Obey,
            stale_on_error_max: Duration::from_secs(24 * 3600),
        }
    }

    /// The letter of RFC 9111: everything is forwarded, answers are shared as they and their `Vary` state, and
    /// lifetimes are guessed where the RFC allows it. For applications that are known to state the truth.
    pub fn rfc() -> Self {
        Self {
            name: "rfc",
            session_cookies: Vec::new(),
            noise_cookies: Vec::new(),
            reload_age_min: Duration::ZERO,
            forwarding: Forwarding::Everything,
            stores_cookies: true,
            credentials: Credentials::AsStated,
            heuristics: true,
            not_found_ttl: None,
            error_ttl: None,
            ..Self::default_profile()
        }
    }

    /// The profile for WordPress, which sends no freshness for the pages of anonymous visitors and marks
    /// everyone else by cookies. The TTL is far below the twelve hours that a nonce in a page lives.
    pub fn wordpress() -> Self {
        let mut policy = Self::default_profile();
        policy.name = "wordpress";
        policy.default_ttl = Some(Duration::from_secs(300));
        policy.session_cookies.extend(patterns(WORDPRESS_SESSION_COOKIES));
        policy.noise_cookies.extend(patterns(WORDPRESS_NOISE_COOKIES));
        policy.bypass_paths = patterns(WORDPRESS_PATHS);
        policy.bypass_parameters = patterns(WORDPRESS_PARAMETERS);
        policy
    }

    /// The names [`Policy::profile`] knows.
    pub const PROFILES: &'static [&'static str] = &["default", "rfc", "wordpress"];

    /// The profile called `name`; `None` if there is none.
    pub fn profile(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::default_profile()),
            "rfc" => Some(Self::rfc()),
            "wordpress" => Some(Self::wordpress()),
            _ => None,
        }
    }
}

/// Session cookies of common frameworks. An unknown cookie passes anyway; a name here gives the better reason.
const SESSION_COOKIES: &[&str] = &[
    "*sess*",
    "*token*",
    "*auth*",
    "*login*",
    "*logged*",
    "*csrf*",
    "*xsrf*",
    "*user*",
    "sid",
    "*.sid",
    "jsessionid*",
    "asp.net*",
    "__ac",
    "fe_typo_user",
    "be_typo_user",
    "no_cache",
    "remember*",
];

/// Cookies of audience measurement, read by scripts in the browser and never by the page's application.
const NOISE_COOKIES: &[&str] = &[
    "_ga",
    "_ga_*",
    "_gid",
    "_gat",
    "_gat_*",
    "_gac_*",
    "_gcl_*",
    "__utm*",
    "_fbp",
    "_fbc",
    "_hj*",
    "_pk_*",
    "_clck",
    "_clsk",
    "_uetsid",
    "_uetvid",
    "_ym_*",
    "__gads",
    "__gpi",
    "__hstc",
    "__hssc",
    "__hssrc",
    "hubspotutk",
    "_mkto_trk",
    "_scid",
    "_tt_*",
    "_ttp",
    "_pin_unauth",
    "_rdt_uuid",
    "__cf_bm",
    "_cfuvid",
    "has_js",
];

const WORDPRESS_SESSION_COOKIES: &[&str] = &[
    "wordpress_*",
    "wp-postpass_*",
    "comment_author_*",
    "woocommerce_*",
    "wp_woocommerce_*",
    "edd_*",
    "wp-*",
    "wp_*",
];

/// The test cookie and the screen settings say nothing about who the visitor is.
const WORDPRESS_NOISE_COOKIES: &[&str] = &["wordpress_test_cookie", "wp-settings-*"];

const WORDPRESS_PATHS: &[&str] = &[
    "*/wp-admin",
    "*/wp-admin/*",
    "*/wp-login.php*",
    "*/wp-cron.php*",
    "*/xmlrpc.php*",
    "*/wp-comments-post.php*",
    "*/wp-signup.php*",
    "*/wp-activate.php*",
    "*/wp-trackback.php*",
    "*/wp-mail.php*",
    "*/wp-json",
    "*/wp-json/*",
    "*/wc-api/*",
];

const WORDPRESS_PARAMETERS: &[&str] = &[
    "preview",
    "preview_*",
    "customize_*",
    "unapproved",
    "moderation-hash",
    "rest_route",
    "doing_wp_cron",
    "_wpnonce",
    "add-to-cart",
    "remove_item",
    "wc-ajax",
    "wc-api",
    "edd_action",
];

#[cfg(test)]
mod tests {
    use super::{Pattern, Policy};

    #[test]
    fn patterns_match_the_whole() {
        let cases = [
            ("abc", "aBc", true),
            ("abc", "abcd", false),
            ("abc", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("ab*", "ab", true),
            ("ab*", "xab", false),
            ("*ab", "aab", true),
            ("*ab", "aba", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "acb", false),
            ("*a*", "xay", true),
            ("*aab", "aaaab", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn every_profile_is_found_by_its_name() {
        for name in Policy::PROFILES {
            assert_eq!(Policy::profile(name).unwrap().name, *name);
        }
        assert_eq!(Policy::profile("rails"), None);
    }
}
