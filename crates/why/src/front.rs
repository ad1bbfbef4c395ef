//! Reads the fields with which caches in front of a site describe what they did.
//!
//! Invariant: the statements are reported and not checked. Several caches may have described one
//! response.

use difference::text_of;
use message::{Fields, names};
use serde::Serialize;

/// The statement of one cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheStatement {
    /// The name of the field.
    pub field: &'static str,
    /// The value of the field.
    pub value: String,
    /// The software that writes the field, if the name tells.
    pub software: Option<&'static str>,
    /// The meaning of the value.
    pub says: CacheAction,
}

/// What a cache states about its handling of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheAction {
    /// It answered from its store.
    Hit,
    /// It asked the origin.
    Miss,
    /// It let the request pass without a lookup.
    Pass,
    /// The value is unknown, or says nothing about this.
    Other,
}

/// Fields that caches write, and the software that writes them. Many caches write `Cache-Status`,
/// `X-Cache`, `X-Cache-Hits` and `Age`.
const FIELDS: &[(&str, Option<&str>)] = &[
    (names::CACHE_STATUS, None),
    ("CF-Cache-Status", Some("Cloudflare")),
    ("X-Varnish", Some("Varnish")),
    ("X-Drupal-Cache", Some("Drupal's page cache")),
    ("X-Drupal-Dynamic-Cache", Some("Drupal's dynamic page cache")),
    ("X-LiteSpeed-Cache", Some("LiteSpeed")),
    ("X-Litespeed-Cache-Control", Some("LiteSpeed")),
    ("X-FastCGI-Cache", Some("nginx")),
    ("X-Proxy-Cache", Some("nginx")),
    ("X-Cache-Status", Some("nginx")),
    ("X-Nginx-Cache", Some("nginx")),
    ("X-Magento-Cache-Debug", Some("Magento's page cache")),
    ("X-Symfony-Cache", Some("Symfony's HttpCache")),
    ("X-Wagtail-Cache", Some("wagtail-cache")),
    ("X-Vercel-Cache", Some("Vercel")),
    ("X-Nextjs-Cache", Some("Next.js")),
    ("X-Azure-Ref", Some("Azure Front Door")),
    ("X-Amz-Cf-Pop", Some("CloudFront")),
    ("X-Served-By", Some("Fastly")),
    ("X-Sucuri-Cache", Some("Sucuri")),
    ("X-WP-CF-Super-Cache", Some("Super Page Cache")),
    ("X-Rocket-Nginx-Serving-Static", Some("WP Rocket")),
    ("X-Cache-Handler", Some("a WordPress page cache")),
    ("X-Kinsta-Cache", Some("Kinsta")),
    ("X-Cache", None),
    ("X-Cache-Hits", None),
    (names::AGE, None),
];

/// The statements in these response fields, in the order of `FIELDS`.
pub(crate) fn fronts(fields: &Fields) -> Vec<CacheStatement> {
    let mut found = Vec::new();
    for &(field, software) in FIELDS {
        for value in fields.all(field) {
            let value = text_of(value);
            let says = says(field, &value);
            found.push(CacheStatement { field, software, says, value });
        }
    }
    found
}

fn says(field: &str, value: &str) -> CacheAction {
    let number = value.trim().parse::<u64>();
    match field {
        names::AGE => {
            return number.map_or(CacheAction::Other, |age| {
                if age > 0 { CacheAction::Hit } else { CacheAction::Other }
            });
        }
        "X-Cache-Hits" => {
            let last = value.rsplit(',').next().unwrap_or_default().trim().parse::<u64>();
            return last.map_or(CacheAction::Other, |hits| {
                if hits > 0 { CacheAction::Hit } else { CacheAction::Miss }
            });
        }
        // Two numbers mean a hit: the second identifies the request that filled the cache.
        "X-Varnish" => {
            return if value.split_whitespace().count() > 1 { CacheAction::Hit } else { CacheAction::Miss };
        }
        "X-Served-By" | "X-Amz-Cf-Pop" | "X-Azure-Ref" => return CacheAction::Other,
        _ => {}
    }
    // In a list of several caches, the last entry is from the cache nearest to the client.
    let listed = matches!(field, names::CACHE_STATUS | "X-Cache");
    let nearest = if listed { value.rsplit(',').next().unwrap_or_default() } else { value };
    let lower = nearest.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&[
        "fwd=bypass",
        "fwd=request",
        "fwd=method",
        "bypass",
        "dynamic",
        "pass",
        "uncacheable",
        "no-cache",
    ]) {
        CacheAction::Pass
    } else if says(&["fwd=", "miss", "expired", "revalidated"]) {
        CacheAction::Miss
    } else if says(&["hit", "stale", "cached", "fresh"]) {
        CacheAction::Hit
    } else {
        CacheAction::Other
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheAction, fronts};
    use message::Fields;

    fn said(name: &'static str, value: &'static str) -> CacheAction {
        let mut fields = Fields::new();
        fields.push(name, value);
        fronts(&fields)[0].says
    }

    #[test]
    fn fields_of_known_caches_are_understood() {
        for (name, value, expected) in [
            ("Cache-Status", "ExampleCache; hit; ttl=30", CacheAction::Hit),
            ("Cache-Status", "ExampleCache; fwd=uri-miss; stored", CacheAction::Miss),
            ("Cache-Status", "ExampleCache; fwd=bypass", CacheAction::Pass),
            ("CF-Cache-Status", "HIT", CacheAction::Hit),
            ("CF-Cache-Status", "DYNAMIC", CacheAction::Pass),
            ("CF-Cache-Status", "MISS", CacheAction::Miss),
            ("X-Varnish", "32770", CacheAction::Miss),
            ("X-Varnish", "32771 32769", CacheAction::Hit),
            ("X-Cache", "Hit from cloudfront", CacheAction::Hit),
            ("X-Cache", "MISS, HIT", CacheAction::Hit),
            ("X-Cache-Hits", "0, 3", CacheAction::Hit),
            ("X-Cache-Hits", "0", CacheAction::Miss),
            ("Age", "12", CacheAction::Hit),
            ("Age", "0", CacheAction::Other),
            ("X-Drupal-Cache", "UNCACHEABLE (response policy)", CacheAction::Pass),
            ("X-Served-By", "cache-fra-1", CacheAction::Other),
        ] {
            assert_eq!(said(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn fields_unrelated_to_caches_are_ignored() {
        let mut fields = Fields::new();
        fields.push("Server", "nginx");
        fields.push("Via", "1.1 varnish");
        assert_eq!(fronts(&fields), []);
    }
}
