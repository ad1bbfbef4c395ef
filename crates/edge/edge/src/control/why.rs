//! *why*: explains what would happen to a request, and why. It asks the pipeline for its decisions
//! without carrying them out.
//!
//! Invariants: a question changes nothing: no counter, no position in the eviction order, no fetch.
//! The answer is the outcome of the next request. If that depends on the origin's response, the
//! document says so. As in the pipeline, `semantics` decides whether a stored response may be used.

use crate::control::purge_orders::{self, Unserved};
use crate::control::uncompressed::Uncompressed;
use crate::fetch::base::Base;
use crate::fetch::disk_reads;
use crate::memory::detection::Detected;
use crate::memory::hit_for_miss::Remembered;
use crate::memory::leak_guard::is_guarded;
use crate::request::client::head_limits;
use crate::request::foreign_ports::is_beyond_foreign_ports;
use crate::request::forward;
use crate::request::guard::{Subject, guard};
use crate::request::key::Classified;
use crate::request::leak_guard::withheld;
use crate::request::lookup::{Decision, LookupResult, PageRequest, Touch, freshness};
use crate::request::refusal::Refusal;
use crate::shared::Shared;
use bytes::BytesMut;
use h1::{BodyFraming, Request, Strictness};
use message::{Fields, Method, RequestHead, ResponseHead, Version, names};
use net::Peer;
use semantics::{Culprit, Moment, Policy, Reason, Verdict, downstream_head, explain_request, recheck};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use store::{Key, Lookup, Object};

/// The version of [`Answer`]. It increases when a member changes its meaning or is removed.
pub const FORMAT: u32 = 1;

/// Maximum size of a question as JSON, in bytes.
pub(crate) const QUESTION_BYTES_MAX: usize = 256 * 1024;

/// The request that a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The page's URL, `http` or `https`, as a visitor types it.
    pub url: String,
    /// The method.
    #[serde(default = "get")]
    pub method: String,
    /// Further header fields, as name and value, in order. A `Host` among them replaces the URL's.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// What would happen to the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Answer {
    /// [`FORMAT`].
    pub format: u32,
    /// The verdict, as in docs/reasons.md.
    pub verdict: String,
    /// The reason of the verdict.
    pub reason: String,
    /// The reason's advice for the operator.
    pub advice: String,
    /// What the request demands of the origin.
    pub asks: Asks,
    /// The part of the request, or of the last response, that is the cause.
    pub culprit: Option<Cause>,
    /// The site that the request belongs to; none if no site has this host name.
    pub site: Option<SiteAnswer>,
    /// The cache key; none if the request is refused before a key is computed.
    pub key: Option<KeyAnswer>,
    /// The stored response for the request, even if it may not be used.
    pub stored: Option<StoredAnswer>,
    /// Whether variants of the page are stored, but none for this request.
    pub other_variants_only: bool,
    /// Why the last response for the page could not be shared, if a hit-for-miss entry exists.
    pub remembered: Option<RememberedAnswer>,
    /// Whether the page is being fetched now.
    pub is_being_fetched: bool,
    /// What the client would receive if the origin failed now; none for an error.
    pub if_origin_fails: Option<Substitute>,
}

/// What a request demands of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// A background refresh that the request does not wait for.
    Renewal,
    /// A conditional request for the stored response. If the origin confirms it, the request is a
    /// hit.
    Confirmation,
    /// The page or a missing part of it, in a fetch that other requests may share.
    Page,
    /// A response for this request alone.
    OwnAnswer,
}

/// A part of a message that is the cause of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Cause {
    /// `cookie`, `field`, `parameter`, `path`, `method` or `directive`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// The site of the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SiteAnswer {
    /// Its first name, or `any`.
    pub name: String,
    /// Its profile, as configured.
    pub profile: String,
    /// The profile whose rules are in force. It differs from `profile` for `auto` and for profile
    /// files.
    #[serde(default)]
    pub rules: String,
    /// The signs that the site was detected by, for `auto`.
    #[serde(default)]
    pub recognised_by: Option<String>,
    /// When it was detected, as an HTTP date.
    #[serde(default)]
    pub recognised_since: Option<String>,
    /// The URL of the origin.
    pub origin: String,
    /// A sentence about a large uncompressed text from the origin, if one was seen.
    #[serde(default)]
    pub uncompressed: Option<String>,
}

/// The cache key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeyAnswer {
    /// `http` or `https`.
    pub scheme: String,
    /// The host, as the origin receives it.
    pub host: String,
    /// Path and query, without the parameters that the site's profile ignores.
    pub target: String,
    /// Whether it is another target that `No-Vary-Search` makes equivalent to the request's.
    #[serde(default)]
    pub is_equivalent: bool,
    /// Request fields that select among variants, as far as they are known.
    pub variant_fields: Vec<String>,
}

/// The stored response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct StoredAnswer {
    /// The status.
    pub status: u16,
    /// Bytes of content that are stored.
    pub content_bytes: u64,
    /// Whether only a part of the content is stored.
    pub is_part: bool,
    /// Its age in seconds.
    pub age_secs: u64,
    /// Its freshness lifetime in seconds.
    pub lifetime_secs: u64,
    /// The rest of its lifetime in seconds; negative when stale.
    pub ttl_secs: i64,
    /// Seconds after its lifetime in which it may be served while it is refreshed.
    pub stale_while_revalidate_secs: u64,
    /// Seconds after its lifetime in which it may be served while the origin fails.
    pub stale_if_error_secs: u64,
    /// Whether this is allowed only because the site's `stale_on_error` overrides the response.
    pub stale_if_error_overrides: bool,
    /// Whether the response demands validation before each use.
    pub is_validated_always: bool,
    /// Whether the response demands validation, but the site's profile uses it for `lifetime_secs`
    /// without.
    #[serde(default)]
    pub no_cache_overridden: bool,
    /// Whether a soft purge has made it stale.
    pub is_purged_softly: bool,
    /// The value of `Location`, for a redirect.
    #[serde(default)]
    pub location: Option<String>,
    /// The origin's `Cache-Control`.
    pub cache_control: Option<String>,
    /// The `Cache-Control` that clients receive instead by the profile; `None` if it is the same.
    pub sent_cache_control: Option<String>,
}

/// The hit-for-miss entry of a page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RememberedAnswer {
    /// The reason.
    pub reason: String,
    /// The reason's advice for the operator.
    pub advice: String,
    /// The part of the response that was the cause.
    pub culprit: Option<Cause>,
}

/// A response that replaces an origin error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Substitute {
    /// The verdict.
    pub verdict: String,
    /// The reason.
    pub reason: String,
}

fn get() -> String {
    "GET".to_owned()
}

/// Answers a question.
///
/// # Errors
/// A text that says what is wrong with the question.
pub(crate) fn answer(shared: &Arc<Shared>, question: &Question) -> Result<Answer, String> {
    let simulated = SimulatedRequest::new(shared, question)?;
    let request = match simulated.request {
        Ok(request) => request,
        Err(refusal) => return Ok(Answer::new(refusal.reason)),
    };
    if purge::is_purge_method(&request.head.method) {
        let reason = match purge_orders::read_order(shared, simulated.peer, &request.head) {
            Ok(_) => Reason::Purged,
            Err(Unserved::Forbidden(_)) => Reason::PurgeForbidden,
            Err(Unserved::Malformed(_)) => Reason::PurgeMalformed,
        };
        return Ok(Answer::new(reason));
    }
    match guard(shared, simulated.peer, &request) {
        Ok(subject) => Ok(of_subject(shared, &subject, &request)),
        Err(refusal) => Ok(Answer::new(refusal.reason)),
    }
}

/// The request of a question, as it would arrive.
struct SimulatedRequest {
    /// The parsed request, or the response of a request that cannot be parsed.
    request: Result<Request, Refusal>,
    /// The client's address.
    peer: Peer,
}

impl SimulatedRequest {
    fn new(shared: &Shared, question: &Question) -> Result<Self, String> {
        let (https, authority, target) = split_url(&question.url)?;
        let mut fields = Fields::new();
        let has_host = question.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(names::HOST));
        if !has_host {
            fields.push(names::HOST, authority.to_owned());
        }
        for (name, value) in &question.headers {
            fields.push(name.clone(), value.clone());
        }
        let method = Method::from_token(question.method.as_bytes());
        // The edge itself speaks no TLS: an https request comes through a trusted proxy that says
        // so. A purge is simulated from an address in `purge_peers`, because the address decides.
        let purging = purge::is_purge_method(&method);
        let peers = if purging { &shared.plan.purge_peers } else { &shared.plan.trusted_proxies };
        let proxy = peers.iter().next().filter(|_| https || purging);
        let peer = proxy.map_or(Peer::Unix, |proxy| Peer::Ip(SocketAddr::new(proxy.first(), 0)));
        if proxy.is_some() && !purging && !fields.has(names::X_FORWARDED_PROTO) {
            fields.push(names::X_FORWARDED_PROTO, "https");
        }
        let head = RequestHead { method, target: target.into(), version: Version::Http11, fields };
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, &head).map_err(|error| format!("the request: {error}"))?;
        let limits = head_limits(&shared.limits);
        let request = match h1::parse_request(&mut octets, &limits, Strictness::Strict) {
            Ok(Some(request)) if request.framing == BodyFraming::Empty => Ok(request),
            Ok(_) => {
                return Err("a question about a request with content is not possible; leave its content out"
                    .to_owned());
            }
            Err(error) => Err(Refusal::malformed(error)),
        };
        Ok(Self { request, peer })
    }
}

/// Splits a URL into: whether it is https, the authority, and the target without fragment.
fn split_url(url: &str) -> Result<(bool, &str, String), String> {
    let wrong = || format!("`{url}` is not an http or https URL");
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let https = scheme.eq_ignore_ascii_case("https");
    if !https && !scheme.eq_ignore_ascii_case("http") {
        return Err(wrong());
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains('@') {
        return Err(wrong());
    }
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok((https, authority, target))
}

/// The answer for a request that passed the guard. Runs *key* and *lookup* as the pipeline does,
/// and adds the state of the page.
fn of_subject(shared: &Arc<Shared>, subject: &Subject<'_>, request: &Request) -> Answer {
    let (head, policy, now) = (&request.head, subject.site.policy(), Moment::read(&*shared.clock));
    let (page_request, reduced) = match Classified::new(shared, subject.clone(), head, false) {
        Classified::Pass(_, reason) => (Err(reason), None),
        Classified::LookUp(page_request, head) => (Ok(page_request), head),
    };
    let key = page_request.as_ref().map_or_else(|_| subject.key(), |page_request| page_request.key.clone());
    let head = reduced.as_deref().unwrap_or(head);
    let remembered = shared.hit_for_miss.recall(&key, now.monotonic);
    // Blocks on the disk. That is acceptable for an operator's question, but not for a client's
    // request.
    if let Lookup::Shelved(shelved) = shared.store.peek(&key, &head.fields) {
        disk_reads::read_blocking(shared, &key, shelved);
    }
    let decided = match &page_request {
        Err(reason) => {
            let culprit = explain_request(head, false, policy).and_then(|(_, culprit)| culprit);
            let culprit = culprit.as_ref().map(Cause::from);
            Answer { culprit, asks: Asks::OwnAnswer, ..Answer::new(*reason) }
        }
        // With all cookies, as in the pipeline.
        Ok(page_request) => match withheld(shared, page_request, &request.head, now)
            .filter(|_| is_guarded(&request.head.fields, policy))
        {
            Some(withheld) => {
                let culprit = Some(Cause::from(&withheld.culprit));
                Answer { culprit, asks: Asks::OwnAnswer, ..Answer::new(Reason::PassLeakGuard) }
            }
            None => {
                let decided = looked_up(shared, page_request, head, remembered.as_ref(), now);
                let is_left_out =
                    page_request.left_out.reason().is_some_and(|own| own.name() == decided.reason);
                let culprit = explain_request(&request.head, false, policy).filter(|_| is_left_out);
                let culprit = culprit.and_then(|(_, culprit)| culprit);
                Answer { culprit: culprit.as_ref().map(Cause::from).or(decided.culprit), ..decided }
            }
        },
    };
    // A stale response never replaces the response to a client's own request.
    let is_pass = decided.verdict == Verdict::Pass.name();
    let stale = page_request.ok().filter(|_| decided.asks != Asks::Nothing && !is_pass);
    let stale = stale.and_then(|page_request| page_request.stale_instead(shared, head, now));
    let (stored, other_variants_only) = match shared.store.peek(&key, &head.fields) {
        Lookup::Found { object, softened } => {
            (Some(stored_answer(&object, key.target(), softened, policy, now)), false)
        }
        Lookup::NoVariant => (None, true),
        Lookup::Shelved(_) | Lookup::Absent => (None, false),
    };
    let found = subject.site.detection.found();
    Answer {
        site: Some(SiteAnswer {
            name: subject.site.label().to_owned(),
            profile: subject.site.plan.profile.clone(),
            rules: subject.site.policy().name.clone(),
            recognised_by: found.as_ref().map(Detected::evidence),
            recognised_since: found.as_ref().map(Detected::since_text),
            origin: subject.site.origin.url().to_string(),
            uncompressed: subject.site.uncompressed.found().map(Uncompressed::text),
        }),
        key: Some(key_answer(shared, &key, key.target() != subject.key().target())),
        stored,
        other_variants_only,
        remembered: remembered.map(RememberedAnswer::from),
        is_being_fetched: shared.fetches.is_under_way(&key),
        if_origin_fails: stale.map(|delivery| Substitute::new(delivery.account.reason)),
        ..decided
    }
}

/// The pipeline's decision after a look-up.
fn looked_up(
    shared: &Shared,
    page_request: &PageRequest<'_>,
    head: &RequestHead,
    remembered: Option<&Remembered>,
    now: Moment,
) -> Answer {
    match page_request.decide(shared, head, Touch::No, now) {
        Decision::Deliver(delivery) | Decision::StaleInstead(delivery, _) => {
            Answer::new(delivery.account.reason)
        }
        Decision::Refresh(delivery, _) => {
            Answer { asks: Asks::Renewal, ..Answer::new(delivery.account.reason) }
        }
        // The object could not be read, or was evicted at once, so it will be fetched.
        Decision::Read(_) => Answer { asks: Asks::Page, ..Answer::new(Reason::MissAbsent) },
        Decision::OnlyIfCached => Answer::new(Reason::OnlyIfCached),
        Decision::Pass(reason) => match page_request.left_out.reason() {
            Some(reason) => Answer { asks: Asks::OwnAnswer, ..Answer::new(reason) },
            None => alone(reason, head, remembered),
        },
        Decision::Fetch { .. }
            if is_beyond_foreign_ports(shared, page_request, &head.fields, now.monotonic) =>
        {
            Answer { asks: Asks::OwnAnswer, ..Answer::new(Reason::PassForeignPort) }
        }
        Decision::Fetch { reason, .. } => {
            let confirms = match page_request.find(shared, head, Touch::No, now) {
                LookupResult::Fetch(_, Some(base)) => is_confirmation(page_request, &base, head),
                LookupResult::Fetch(_, None)
                | LookupResult::Deliver(_)
                | LookupResult::Refresh(..)
                | LookupResult::OnDisk(_)
                | LookupResult::Unfit
                | LookupResult::Unusable => false,
            };
            Answer { asks: if confirms { Asks::Confirmation } else { Asks::Page }, ..Answer::new(reason) }
        }
    }
}

/// Whether the fetch is a conditional request for the stored response.
fn is_confirmation(page_request: &PageRequest<'_>, base: &Base, head: &RequestHead) -> bool {
    let policy = page_request.subject.site.policy();
    let asks = forward::fetch_fields(page_request.range.as_deref(), Some(base), &head.fields, policy);
    asks.has(names::IF_NONE_MATCH) || asks.has(names::IF_MODIFIED_SINCE)
}

/// The answer for a look-up that sends its own request: because of its method, or because the page
/// could not be shared the last time. The remembered reason will apply again unless the origin's
/// response has changed.
fn alone(reason: Reason, head: &RequestHead, remembered: Option<&Remembered>) -> Answer {
    let judged = remembered.filter(|_| head.method == Method::Get && !head.fields.has(names::RANGE));
    let culprit = judged.and_then(|remembered| remembered.culprit.as_ref()).map(Cause::from);
    let reason = judged.map_or(reason, |remembered| remembered.reason);
    Answer { asks: Asks::OwnAnswer, culprit, ..Answer::new(reason) }
}

fn key_answer(shared: &Shared, key: &Key, is_equivalent: bool) -> KeyAnswer {
    let text = |octets: &[u8]| octets.escape_ascii().to_string();
    KeyAnswer {
        scheme: if key.is_https() { "https" } else { "http" }.to_owned(),
        host: text(key.host()),
        target: text(key.target()),
        is_equivalent,
        variant_fields: shared.store.known_rule(key).names().iter().map(|name| text(name)).collect(),
    }
}

fn stored_answer(
    object: &Arc<Object>,
    target: &[u8],
    softened: bool,
    policy: &Policy,
    now: Moment,
) -> StoredAnswer {
    let freshness = freshness(object, softened, policy);
    let head = object.head();
    let cache_control = |head: &ResponseHead| {
        let lines: Vec<_> =
            head.fields.all(names::CACHE_CONTROL).map(|value| value.escape_ascii().to_string()).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    };
    StoredAnswer {
        status: head.status.code(),
        location: head.fields.only(names::LOCATION).map(|value| difference::text_of(value)),
        cache_control: cache_control(&head),
        sent_cache_control: downstream_head(&head, policy).as_ref().and_then(cache_control),
        content_bytes: object.content_bytes(),
        is_part: object.part().is_some(),
        age_secs: freshness.age(now).as_secs(),
        lifetime_secs: freshness.lifetime.as_secs(),
        ttl_secs: freshness.ttl_secs(now),
        stale_while_revalidate_secs: freshness.while_revalidate.as_secs(),
        stale_if_error_secs: freshness.if_error.as_secs(),
        stale_if_error_overrides: freshness.overridden,
        is_validated_always: freshness.validate_always,
        no_cache_overridden: recheck(target, &head, policy).is_some(),
        is_purged_softly: softened,
    }
}

impl Answer {
    /// An answer with this reason that demands nothing of the origin.
    fn new(reason: Reason) -> Self {
        Self {
            format: FORMAT,
            verdict: reason.verdict().name().to_owned(),
            reason: reason.name().to_owned(),
            advice: reason.advice().to_owned(),
            asks: Asks::Nothing,
            culprit: None,
            site: None,
            key: None,
            stored: None,
            other_variants_only: false,
            remembered: None,
            is_being_fetched: false,
            if_origin_fails: None,
        }
    }
}

impl Substitute {
    fn new(reason: Reason) -> Self {
        Self { verdict: reason.verdict().name().to_owned(), reason: reason.name().to_owned() }
    }
}

impl From<&Culprit> for Cause {
    fn from(culprit: &Culprit) -> Self {
        Self { kind: culprit.kind.name().to_owned(), name: culprit.name.escape_ascii().to_string() }
    }
}

impl From<Remembered> for RememberedAnswer {
    fn from(remembered: Remembered) -> Self {
        Self {
            reason: remembered.reason.name().to_owned(),
            advice: remembered.reason.advice().to_owned(),
            culprit: remembered.culprit.as_ref().map(Cause::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Asks, Question, answer, split_url};
    use crate::shared::Shared;
    use address::Prefix;
    use config::Plan;
    use platform::SystemClock;
    use semantics::Policy;
    use std::sync::Arc;

    fn plan() -> Plan {
        Plan::for_origin("http://127.0.0.1:9".parse().unwrap())
    }

    fn ask(plan: &Plan, method: &str, url: &str, headers: &[(&str, &str)]) -> Answer {
        let shared = Arc::new(Shared::new(plan.clone(), None, Arc::new(SystemClock::new())));
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (url, method) = (url.to_owned(), method.to_owned());
        answer(&shared, &Question { url, method, headers: headers.collect() }).unwrap()
    }

    #[test]
    fn url_is_split_into_scheme_authority_and_target() {
        assert_eq!(split_url("http://a.test"), Ok((false, "a.test", "/".to_owned())));
        assert_eq!(split_url("HTTPS://a.test:1?q#f"), Ok((true, "a.test:1", "/?q".to_owned())));
        assert_eq!(split_url("http://[::1]:8/a/b"), Ok((false, "[::1]:8", "/a/b".to_owned())));
        for wrong in ["a.test", "ftp://a/", "http://", "http:///a", "http://u@a/"] {
            assert!(split_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn request_refused_by_the_guard_is_explained_as_refused() {
        let mut named = plan();
        named.sites[0].names = vec!["a.test".to_owned()];
        let refused = ask(&named, "GET", "http://b.test/", &[]);
        assert_eq!((refused.verdict.as_str(), refused.reason.as_str()), ("refused", "unknown-site"));
        assert_eq!((refused.site, refused.key), (None, None));
        assert_eq!(ask(&named, "GET", "http://x/", &[("Host", "a.test")]).reason, "miss-absent");
        assert_eq!(
            ask(&plan(), "GET", "http://a.test/", &[("Host", "a.test"), ("Host", "b")]).reason,
            "bad-request"
        );
        let long = "x".repeat(40_000);
        assert_eq!(ask(&plan(), "GET", "http://a.test/", &[("Cookie", &long)]).reason, "head-too-large");
    }

    #[test]
    fn passing_request_names_its_culprit() {
        let passed = ask(&plan(), "GET", "http://a.test/x?y", &[("Cookie", "_ga=1; PHPSESSID=2")]);
        assert_eq!((passed.verdict.as_str(), passed.reason.as_str()), ("pass", "pass-cookie"));
        let culprit = passed.culprit.unwrap();
        assert_eq!((culprit.kind.as_str(), culprit.name.as_str()), ("cookie", "PHPSESSID"));
        assert_eq!(passed.asks, Asks::OwnAnswer);
        let key = passed.key.unwrap();
        assert_eq!((key.scheme.as_str(), key.host.as_str(), key.target.as_str()), ("http", "a.test", "/x?y"));
        assert_eq!(ask(&plan(), "POST", "http://a.test/", &[]).reason, "pass-method");
    }

    #[test]
    fn https_needs_a_trusted_proxy_or_a_public_https_site() {
        let scheme = |plan: &Plan, url: &str| ask(plan, "GET", url, &[]).key.unwrap().scheme;
        let mut behind_a_proxy = plan();
        behind_a_proxy.trusted_proxies = ["10.0.0.1".parse::<Prefix>().unwrap()].into_iter().collect();
        assert_eq!(scheme(&behind_a_proxy, "https://a.test/"), "https");
        assert_eq!(scheme(&behind_a_proxy, "http://a.test/"), "http");
        assert_eq!(scheme(&plan(), "https://a.test/"), "http", "no proxy states the scheme");
        let mut public = plan();
        public.sites[0].public_https = true;
        assert_eq!(scheme(&public, "http://a.test/"), "https");
    }

    #[test]
    fn look_up_in_an_empty_store_demands_the_page() {
        let absent = ask(&plan(), "GET", "http://a.test/", &[]);
        assert_eq!((absent.reason.as_str(), absent.asks), ("miss-absent", Asks::Page));
        let cached_only = ask(&plan(), "GET", "http://a.test/", &[("Cache-Control", "only-if-cached")]);
        assert_eq!((cached_only.verdict.as_str(), cached_only.asks), ("refused", Asks::Nothing));
        assert_eq!(ask(&plan(), "HEAD", "http://a.test/", &[]).asks, Asks::Page);
        let mut wordpress = plan();
        wordpress.sites[0].policy = Policy::wordpress();
        assert_eq!(ask(&wordpress, "GET", "http://a.test/wp-admin/", &[]).reason, "pass-path");
    }
}
