//! A browser's private cache (RFC 9111): the responses that a returning visitor still has.
//!
//! Invariant: a stale response is never used without revalidation, and a response is used only for
//! requests that match its `Vary`. `semantics` makes these decisions. Directives for shared caches
//! only are removed first. The cache stores the content that the caller gives it, which may be less
//! than the response's content.

use bytes::Bytes;
use message::{Fields, RequestHead, ResponseHead, Status, list_members, names};
use semantics::{
    Directives, Freshness, Judgement, Moment, Policy, Reuse, VariantKey, VaryRule, judge_response,
    not_modified_speaks_of, reuse, updated_head, validation_fields,
};
use std::collections::HashMap;
use url::Url;

/// Bytes that one visitor's cache may hold: contents and header fields. The cache is emptied when
/// the next response does not fit.
pub const CACHE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Responses that one visitor's cache may hold. The cache is emptied when it is full.
pub const CACHE_ENTRIES_MAX: usize = 2_000;

/// The private cache of one visitor, with one response per URL.
#[derive(Clone, Debug, Default)]
pub struct PrivateCache {
    stored: HashMap<Url, CachedResponse>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct CachedResponse {
    head: ResponseHead,
    freshness: Freshness,
    rule: VaryRule,
    key: VariantKey,
    content: Bytes,
}

/// Result of a cache lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheLookup {
    /// No usable response is stored.
    Nothing,
    /// The stored response is fresh: its head and the stored content.
    Fresh(ResponseHead, Bytes),
    /// The stored response must be revalidated: the conditional header fields to send.
    Ask(Fields),
}

impl PrivateCache {
    /// Looks up the response for a request to `url` with the header fields `request`.
    pub fn look(&self, url: &Url, request: &Fields, now: Moment) -> CacheLookup {
        let Some(stored) = self.stored.get(url).filter(|stored| stored.rule.matches(request, &stored.key))
        else {
            return CacheLookup::Nothing;
        };
        match reuse(&stored.freshness, &Directives::default(), &policy(), now) {
            // A stale response without refresh needs `max-stale` in the request. The directives are
            // empty here, so this case does not occur.
            Reuse::Fresh { .. } | Reuse::Stale { refresh: false, .. } => {
                CacheLookup::Fresh(stored.head.clone(), stored.content.clone())
            }
            Reuse::Stale { .. } | Reuse::Revalidate(_) => {
                let fields = validation_fields(&stored.head);
                if fields.is_empty() { CacheLookup::Nothing } else { CacheLookup::Ask(fields) }
            }
        }
    }

    /// Stores a response if RFC 9111 allows it and its status is 200 or 301. The response stored
    /// for `url` before is removed in any case.
    ///
    /// `content` is the part of the content that the caller needs later. `times` are the moments
    /// when the request was sent and when the response head arrived.
    pub fn store(
        &mut self,
        url: &Url,
        request: &RequestHead,
        head: &ResponseHead,
        content: Bytes,
        times: (Moment, Moment),
    ) {
        self.remove(url);
        let Some(stored) = judged(request, head, content, times) else { return };
        let weight = stored.weight();
        if weight > CACHE_BYTES_MAX {
            return;
        }
        if self.bytes + weight > CACHE_BYTES_MAX || self.stored.len() >= CACHE_ENTRIES_MAX {
            self.stored.clear();
            self.bytes = 0;
        }
        self.bytes += weight;
        self.stored.insert(url.clone(), stored);
    }

    /// Takes the 304 to a revalidation that [`CacheLookup::Ask`] demanded, and updates the stored
    /// response.
    ///
    /// Returns the updated head and the content, or `None` if the 304 does not match the stored
    /// response (RFC 9111 section 4.3.4). `times` are as in [`PrivateCache::store`].
    pub fn confirm(
        &mut self,
        url: &Url,
        request: &RequestHead,
        not_modified: &ResponseHead,
        times: (Moment, Moment),
    ) -> Option<(ResponseHead, Bytes)> {
        let stored = self.stored.get(url)?;
        if !not_modified_speaks_of(&stored.head, not_modified) {
            return None;
        }
        let head = updated_head(&stored.head, not_modified);
        let content = stored.content.clone();
        self.store(url, request, &head, content.clone(), times);
        Some((head, content))
    }

    fn remove(&mut self, url: &Url) {
        if let Some(stored) = self.stored.remove(url) {
            self.bytes = self.bytes.saturating_sub(stored.weight());
        }
    }
}

impl CachedResponse {
    fn weight(&self) -> usize {
        self.content.len() + self.head.fields.wire_bytes()
    }
}

/// The policy of a private cache: RFC 9111 without targeted fields such as `CDN-Cache-Control`.
fn policy() -> Policy {
    Policy { targeted_fields: Vec::new(), ..Policy::rfc() }
}

fn judged(
    request: &RequestHead,
    head: &ResponseHead,
    content: Bytes,
    times: (Moment, Moment),
) -> Option<CachedResponse> {
    if !matches!(head.status, Status::OK | Status::MOVED_PERMANENTLY) {
        return None;
    }
    let policy = policy();
    let mut asked = request.clone();
    // The restriction on `Authorization` holds for shared caches only (RFC 9111 section 3.5).
    asked.fields.remove(names::AUTHORIZATION);
    let Judgement::Store(storable) = judge_response(&asked, &unshared(head), times.0, times.1, &policy)
    else {
        return None;
    };
    let rule = VaryRule::from_response(&head.fields, &policy).ok()?;
    let key = rule.key(&request.fields);
    Some(CachedResponse { head: head.clone(), freshness: storable.freshness, rule, key, content })
}

/// The head without the directives for shared caches (RFC 9111 sections 5.2.2.7 to 5.2.2.10).
fn unshared(head: &ResponseHead) -> ResponseHead {
    const SHARED_ONLY: [&[u8]; 4] = [b"private", b"s-maxage", b"proxy-revalidate", b"public"];
    let mut unshared = head.clone();
    unshared.fields.remove(names::CACHE_CONTROL);
    for value in head.fields.all(names::CACHE_CONTROL) {
        let own: Vec<&[u8]> = list_members(value)
            .filter(|member| {
                let name = member.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
                !SHARED_ONLY.iter().any(|shared| name.eq_ignore_ascii_case(shared))
            })
            .collect();
        unshared.fields.push(names::CACHE_CONTROL, own.join(&b", "[..]));
    }
    unshared
}

#[cfg(test)]
mod tests {
    use super::{CacheLookup, PrivateCache};
    use bytes::Bytes;
    use clock::{Monotonic, Timestamp};
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use semantics::Moment;
    use url::Url;

    fn at(secs: u64) -> Moment {
        Moment {
            wall: Timestamp::from_secs(1_800_000_000 + secs),
            monotonic: Monotonic::from_nanos(secs * 1_000_000_000),
        }
    }

    fn request(fields: &[(&'static str, &'static str)]) -> RequestHead {
        let fields = fields.iter().fold(Fields::new(), |mut all, &(name, value)| {
            all.push(name, value);
            all
        });
        RequestHead { method: Method::Get, target: "/a".into(), version: Version::Http11, fields }
    }

    fn answer(status: Status, fields: &[(&'static str, &'static str)]) -> ResponseHead {
        ResponseHead { fields: request(fields).fields, ..ResponseHead::new(status) }
    }

    fn url() -> Url {
        Url::parse("http://h/a").unwrap()
    }

    fn kept(fields: &[(&'static str, &'static str)], after_secs: u64) -> CacheLookup {
        let mut cache = PrivateCache::default();
        cache.store(&url(), &request(&[]), &answer(Status::OK, fields), Bytes::from("x"), (at(0), at(0)));
        cache.look(&url(), &Fields::new(), at(after_secs))
    }

    fn is_fresh(fields: &[(&'static str, &'static str)], after_secs: u64) -> bool {
        matches!(kept(fields, after_secs), CacheLookup::Fresh(..))
    }

    #[test]
    fn private_responses_are_stored_and_shared_directives_ignored() {
        assert!(is_fresh(&[("Cache-Control", "private, max-age=60")], 59));
        assert!(is_fresh(&[("Cache-Control", "max-age=60, s-maxage=0")], 59));
        assert!(is_fresh(&[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=1")], 59));
        assert!(!is_fresh(&[("Cache-Control", "s-maxage=60")], 1));
        assert!(!is_fresh(&[("Cache-Control", "max-age=60")], 60));
        assert_eq!(kept(&[("Cache-Control", "no-store"), ("ETag", "\"1\"")], 0), CacheLookup::Nothing);
        assert!(!is_fresh(&[("CDN-Cache-Control", "max-age=60")], 1));
    }

    #[test]
    fn stale_response_with_validator_is_revalidated() {
        let CacheLookup::Ask(fields) = kept(&[("Cache-Control", "no-cache"), ("ETag", "\"1\"")], 0) else {
            panic!()
        };
        assert_eq!(fields.only("If-None-Match").unwrap(), "\"1\"");
        assert!(matches!(kept(&[("Cache-Control", "max-age=1"), ("ETag", "\"1\"")], 5), CacheLookup::Ask(_)));
        assert_eq!(kept(&[("Cache-Control", "max-age=1")], 5), CacheLookup::Nothing);
    }

    #[test]
    fn matching_304_makes_a_stale_response_fresh() {
        let mut cache = PrivateCache::default();
        let first = answer(Status::OK, &[("Cache-Control", "max-age=10"), ("ETag", "\"1\"")]);
        cache.store(&url(), &request(&[]), &first, Bytes::from("x"), (at(0), at(0)));
        assert!(matches!(cache.look(&url(), &Fields::new(), at(20)), CacheLookup::Ask(_)));
        let other = answer(Status::NOT_MODIFIED, &[("ETag", "\"2\"")]);
        assert_eq!(cache.confirm(&url(), &request(&[]), &other, (at(20), at(20))), None);
        let same = answer(Status::NOT_MODIFIED, &[("ETag", "\"1\"")]);
        let (_, content) = cache.confirm(&url(), &request(&[]), &same, (at(20), at(20))).unwrap();
        assert_eq!(content, "x");
        assert!(matches!(cache.look(&url(), &Fields::new(), at(25)), CacheLookup::Fresh(..)));
    }

    #[test]
    fn response_is_not_used_when_a_varying_field_differs() {
        let mut cache = PrivateCache::default();
        let head = answer(Status::OK, &[("Cache-Control", "max-age=10"), ("Vary", "Cookie")]);
        cache.store(&url(), &request(&[("Cookie", "a=1")]), &head, Bytes::new(), (at(0), at(0)));
        assert!(matches!(
            cache.look(&url(), &request(&[("Cookie", "a=1")]).fields, at(1)),
            CacheLookup::Fresh(..)
        ));
        assert_eq!(cache.look(&url(), &request(&[("Cookie", "a=2")]).fields, at(1)), CacheLookup::Nothing);
    }

    #[test]
    fn stored_bytes_stay_within_the_limit() {
        let mut cache = PrivateCache::default();
        let head = answer(Status::OK, &[("Cache-Control", "max-age=10")]);
        for number in 0..40 {
            let url = Url::parse(&format!("http://h/{number}")).unwrap();
            cache.store(&url, &request(&[]), &head, Bytes::from(vec![0; 1024 * 1024]), (at(0), at(0)));
        }
        assert!(cache.bytes <= super::CACHE_BYTES_MAX);
        assert_eq!(cache.bytes, cache.stored.values().map(super::CachedResponse::weight).sum::<usize>());
    }
}
