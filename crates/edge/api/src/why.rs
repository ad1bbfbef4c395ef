//! `POST /why`: a question about a request, and the answer.

use serde::{Deserialize, Serialize};

/// The path of the call.
pub const PATH: &str = "/why";

/// The version of [`WhyReply`]. It increases when a member changes its meaning or is removed.
pub const FORMAT: u32 = 1;

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

/// The fate of the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct WhyReply {
    /// [`FORMAT`].
    pub format: u32,
    /// The verdict, as in docs/reasons.md.
    pub verdict: String,
    /// The reason of the verdict.
    pub reason: String,
    /// The reason's advice for the operator.
    pub advice: String,
    /// The demands of the request on the origin.
    pub asks: OriginDemand,
    /// The part of the request or of the last response that caused the verdict.
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
    /// The response if the origin failed now; none for an error.
    pub if_origin_fails: Option<Substitute>,
    /// The context of the visitor, if visitors with the same one share pages of the site.
    #[serde(default)]
    pub context: Option<ContextAnswer>,
}

/// The context of a visitor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ContextAnswer {
    /// A short form of the context, which is the same for visitors with the same one until the
    /// process ends. None if the context is unknown.
    pub name: Option<String>,
    /// Whether the next request asks the origin for the context.
    pub is_asked: bool,
}

/// The demands of a request on the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginDemand {
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

/// A part of a message that caused a decision.
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
    /// Known request fields that select among variants.
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
    /// The coded forms that Petasos has made of it.
    #[serde(default)]
    pub forms: Vec<FormAnswer>,
    /// The state of the ESI template; `None` if the response declares none.
    #[serde(default)]
    pub template: Option<String>,
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

/// A coded form of the stored response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FormAnswer {
    /// The content coding.
    pub coding: String,
    /// Bytes of coded content.
    pub content_bytes: u64,
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
