//! The caching instructions for visitors' browsers and for caches between them and the edge, which
//! no purge reaches.
//!
//! Invariant: the sent instructions are never laxer than those that the application states. A
//! static file without instructions gets a lifetime. The age and the validators do not change, so a
//! downstream cache can still revalidate its copy (RFC 9111 section 4.3). The stored response keeps
//! the application's instructions.

use crate::Directives;
use crate::coding::with_vary;
use crate::compression::CompressionRules;
use message::{Fields, ResponseHead, names};
use profiles::{Downstream, Policy};

/// Media types of content that editors change: pages and feeds.
const PAGES: [&str; 8] = [
    "text/html",
    "application/xhtml+xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/rdf+xml",
    "application/feed+json",
    "application/xml",
    "text/xml",
];

/// The head to be sent under the policy; `None` if it is the same as `head`. `lifetime` is the
/// result of [`browser_lifetime`](crate::browser_lifetime) for the response, or `None` for one that
/// may be meant for this client alone. `rules` are given if Petasos may make coded forms of the
/// response.
pub fn downstream_head(
    head: &ResponseHead,
    lifetime: Option<&'static str>,
    policy: &Policy,
    rules: Option<&CompressionRules>,
) -> Option<ResponseHead> {
    let named = with_vary(head, policy, rules);
    with_cache_control(named.as_ref().unwrap_or(head), lifetime, policy).or(named)
}

fn with_cache_control(
    head: &ResponseHead,
    lifetime: Option<&'static str>,
    policy: &Policy,
) -> Option<ResponseHead> {
    if let Some(lifetime) = lifetime.filter(|_| !head.fields.has(names::CACHE_CONTROL)) {
        let mut sent = head.clone();
        sent.fields.push(names::CACHE_CONTROL, lifetime);
        return Some(sent);
    }
    if policy.downstream == Downstream::AsStated || !is_page(&head.fields) {
        return None;
    }
    let stated = Directives::of_response(&head.fields);
    // A qualified `no-cache` or `private` concerns only some fields, not the page.
    let is_strict = |scope: &crate::DirectiveScope| scope.is_present() && scope.names().is_empty();
    if stated.no_store || is_strict(&stated.no_cache) || is_strict(&stated.private) {
        return None;
    }
    let mut sent = head.clone();
    sent.fields.retain(|field| !field.is(names::CACHE_CONTROL) && !field.is(names::EXPIRES));
    sent.fields
        .push(names::CACHE_CONTROL, if stated.no_transform { "no-cache, no-transform" } else { "no-cache" });
    Some(sent)
}

fn is_page(fields: &Fields) -> bool {
    let media_type =
        fields.first(names::CONTENT_TYPE).and_then(|value| value.split(|octet| *octet == b';').next());
    let media_type = media_type.unwrap_or_default().trim_ascii();
    PAGES.iter().any(|page| media_type.eq_ignore_ascii_case(page.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::downstream_head;
    use message::{ResponseHead, Status};
    use profiles::Policy;

    /// The head to send for a response with these fields, as lines.
    fn sent(policy: &Policy, lines: &[(&'static str, &'static str)]) -> Option<Vec<String>> {
        let head = ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(Status::OK) };
        let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
        let line = |field: &message::Field| format!("{}: {}", text(&field.name), text(&field.value));
        Some(downstream_head(&head, None, policy, None)?.fields.iter().map(line).collect())
    }

    const HTML: (&str, &str) = ("Content-Type", "text/html; charset=UTF-8");

    #[test]
    fn page_is_revalidated_downstream_before_each_use() {
        for stated in [
            &[][..],
            &[("Cache-Control", "s-maxage=18000, must-revalidate, max-age=0")],
            &[("Cache-Control", "public, max-age=900"), ("Expires", "Sun, 19 Nov 1978 05:00:00 GMT")],
            &[("cache-control", "no-cache=\"Set-Cookie\", max-age=5"), ("Cache-Control", "immutable")],
        ] {
            let lines: Vec<_> =
                [HTML, ("Age", "7"), ("ETag", "\"1\"")].iter().chain(stated).copied().collect();
            let expected = [
                "Content-Type: text/html; charset=UTF-8",
                "Age: 7",
                "ETag: \"1\"",
                "Cache-Control: no-cache",
            ];
            assert_eq!(sent(&Policy::wordpress(), &lines).unwrap(), expected);
        }
        let transform =
            [("Content-Type", "Application/RSS+xml"), ("Cache-Control", "max-age=5, no-transform")];
        let told = sent(&Policy::wordpress(), &transform).unwrap();
        assert_eq!(told[1], "Cache-Control: no-cache, no-transform");
    }

    #[test]
    fn stricter_responses_and_other_types_are_unchanged() {
        for stated in ["no-store", "private, max-age=60", "no-cache, must-revalidate, max-age=0"] {
            assert_eq!(sent(&Policy::wordpress(), &[HTML, ("Cache-Control", stated)]), None, "{stated}");
        }
        for other in ["text/css", "image/svg+xml", "application/json", "text/html5"] {
            let fields = [("Content-Type", other), ("Cache-Control", "max-age=31536000, immutable")];
            assert_eq!(sent(&Policy::wordpress(), &fields), None, "{other}");
        }
        assert_eq!(
            sent(&Policy::wordpress(), &[("Cache-Control", "max-age=5")]),
            None,
            "without a media type"
        );
        for policy in [Policy::rfc(), Policy::default_profile()] {
            assert_eq!(sent(&policy, &[HTML, ("Cache-Control", "max-age=5")]), None);
        }
    }
}
