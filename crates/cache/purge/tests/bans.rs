//! Bans in a real store: the responses that a ban means are removed, and the others stay.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use invalidation::Mode;
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use petasos_purge::{BanPattern, ConditionBan, HostPages, PurgeScope, read};
use profiles::Policy;
use semantics::{Freshness, Moment, VaryRule};
use std::sync::Arc;
use std::time::Duration;
use store::{
    Body, Invalidation, Key, Lookup, Object, Publication, PublishResult, Selector, SiteId, Store, StoreLimits,
};

/// Host, target, status, media type and tags of the stored responses.
const PAGES: &[(&str, &str, u16, &str, &[&str])] = &[
    ("a.test", "/news/1", 200, "text/html", &["node:1", "list"]),
    ("a.test", "/news/feed", 200, "application/rss+xml", &["list"]),
    ("a.test:8080", "/news/10", 200, "text/html", &["node:10"]),
    ("b.test", "/news/1", 404, "text/html", &[]),
];

fn key(host: &str, target: &'static str) -> Key {
    Key::new(SiteId(0), false, host.as_bytes(), Bytes::from_static(target.as_bytes()))
}

/// The indices of the pages that are still stored after a ban.
fn left_by(ban: impl Into<Arc<ConditionBan>>) -> Vec<usize> {
    let store = Store::new(StoreLimits::default(), 1);
    for &(host, target, status, media_type, tags) in PAGES {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        head.fields.push("Content-Type", media_type);
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let object = Arc::new(Object::new(&head, b"", Body::copy_of(b"x"), freshness));
        let rule = VaryRule::from_response(&head.fields, &Policy::default_profile()).unwrap();
        let variant = rule.key(&Fields::new());
        let tags: Vec<_> = tags.iter().map(|tag| Bytes::from_static(tag.as_bytes())).collect();
        let key = key(host, target);
        let begun = store.sequence();
        let published = store.publish(Publication { key: &key, rule, variant, object, tags: &tags, begun });
        assert_eq!(published, PublishResult::Stored);
    }
    let selector = Selector::Ban { site: SiteId(0), ban: ban.into() };
    store.invalidate(&Invalidation { selector, mode: Mode::Hard });
    let is_left = |&(_, &(host, target, ..)): &(usize, &(&str, &'static str, u16, &str, &[&str]))| {
        matches!(store.lookup(&key(host, target), &Fields::new()), Lookup::Found { .. })
    };
    PAGES.iter().enumerate().filter(is_left).map(|(number, _)| number).collect()
}

#[test]
fn ban_removes_matching_responses_and_keeps_others() {
    for (ban, left) in [
        ("req.url ~ ^/news/1", &[1][..]),
        ("req.http.host == a.test", &[3]),
        ("req.http.host == A.test.", &[3]),
        ("req.http.host == a.test:8080", &[0, 1, 3]),
        ("obj.status == 404", &[0, 1, 2]),
        ("obj.http.content-type ~ html && req.http.host ~ ^A", &[1, 3]),
        ("obj.http.x-cache-tags ~ (^|,)node:1(,|$)", &[1, 2, 3]),
        ("obj.http.xkey ~ list,node", &[1, 2, 3]),
        ("obj.http.x-missing != a", &[]),
        ("obj.http.x-missing ~ a", &[0, 1, 2, 3]),
    ] {
        assert_eq!(left_by(ConditionBan::parse(ban).unwrap()), left, "{ban}");
    }
    let pattern = BanPattern::compile(b"^/news/.*1").unwrap();
    assert_eq!(left_by(ConditionBan::of_pages(b"a.test", HostPages::Pattern(pattern))), [1, 3]);
}

#[test]
fn conditions_in_headers_are_a_ban() {
    let asked = |fields: &[(&'static str, &'static str)]| {
        let mut head = RequestHead {
            method: Method::from_token(b"BAN"),
            target: Bytes::from_static(b"/"),
            version: Version::Http11,
            fields: Fields::new(),
        };
        for (name, value) in fields {
            head.fields.push(*name, *value);
        }
        let order = read(&head).unwrap();
        match &order.invalidations[0].scope {
            PurgeScope::Ban { ban, .. } => Arc::clone(ban),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(left_by(asked(&[("X-Host", "^A\\.TEST$")])), [3]);
    assert_eq!(left_by(asked(&[("X-Url", "^/news/1"), ("X-Content-Type", "html")])), [1]);
    let tagged = [("X-Url", "^/news"), ("X-Cache-Tags", "(^|,)(list|node:10)(,|$)")];
    assert_eq!(left_by(asked(&tagged)), [3]);
    assert_eq!(left_by(asked(&[("X-Cache-Tags", "^node:[0-9]$")])), [1, 2, 3]);
}
