//! The findings about a page as plain data. This is the JSON document of `petasos why --direct
//! --json`.
//!
//! Invariant: every fact occurs once, in the terms of the protocol. `text` formats the findings for
//! a terminal. docs/why.md describes every member.

use crate::front::{CacheAction, CacheStatement};
use profiles::Software;
use serde::Serialize;

/// The version of the document. It changes when a member is removed or changes its meaning.
pub const FORMAT: u32 = 1;

/// All findings about one page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// [`FORMAT`].
    pub format: u32,
    /// The page's URL.
    pub url: String,
    /// Whether the server's certificate was verified. True also without a certificate.
    pub verified: bool,
    /// The plain response.
    pub page: PlainResponse,
    /// Whether the page may be shared, and for how long.
    pub verdict: PageVerdict,
    /// The obstacles to sharing, the weightiest first.
    pub obstacles: Vec<Obstacle>,
    /// Settings of Petasos under which the unchanged page may be shared. Empty if none are needed
    /// or none suffice.
    pub settings: Vec<SuggestedSetting>,
    /// The software that the site runs on.
    pub software: Vec<Software>,
    /// Statements of caches in front of the site.
    pub fronts: Vec<FrontStatement>,
    /// The cookies that the plain response sets.
    pub cookies: Vec<CookieSet>,
    /// Differences between the responses to the probes and the plain response.
    pub changes: Vec<ProbeDifference>,
    /// Compression of the page. `None` if the compressed probe has no response.
    pub compression: Option<Compression>,
    /// Whether the page can be revalidated.
    pub validation: Validation,
    /// Further hints, in sentences.
    pub hints: Vec<String>,
    /// The probes that were sent, in their order.
    pub requests: Vec<SentProbe>,
}

/// Summary of the plain response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlainResponse {
    /// The status code.
    pub status: u16,
    /// The status in words. Empty if it has no registered name.
    pub status_text: &'static str,
    /// The value of Content-Type.
    pub content_type: Option<String>,
    /// Size of the content that was read, in bytes. Includes a content coding that the site applied
    /// unasked.
    pub content_bytes: u64,
    /// Whether the content is longer and only its beginning was read.
    pub is_cut: bool,
    /// The target of a redirect, as an absolute URL where it can be resolved.
    pub location: Option<String>,
    /// `Cache-Control` and related fields, as `Name: value`.
    pub caching_fields: Vec<String>,
    /// The fault for which Petasos would refuse the response.
    pub strict_fault: Option<String>,
}

/// Whether a page may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cacheable {
    /// The page may be shared without any change.
    Yes,
    /// The page may be stored, but the origin must validate it before each use.
    Revalidated,
    /// The page may be shared under the listed settings of Petasos, without a change of the
    /// application.
    WithSettings,
    /// The page may not be shared unless the application or the request changes.
    No,
}

/// The verdict on a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageVerdict {
    /// Whether the page may be shared.
    pub cacheable: Cacheable,
    /// The name of the profile whose rules were applied.
    pub profile: String,
    /// The first reason against sharing, as in docs/reasons.md. `None` if there is none.
    pub reason: Option<&'static str>,
    /// The advice of that reason to an operator.
    pub advice: Option<&'static str>,
    /// The whole freshness lifetime, in seconds, under the listed settings.
    pub lifetime_secs: Option<u64>,
    /// The remaining freshness lifetime on arrival, in seconds. Negative if the response arrived
    /// stale.
    pub ttl_secs: Option<i64>,
    /// How long after its lifetime the page may be served while it is refreshed, in seconds.
    pub stale_while_revalidate_secs: Option<u64>,
    /// How long after its lifetime the page may be served while the origin fails, in seconds.
    pub stale_if_error_secs: Option<u64>,
}

/// One obstacle to sharing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Obstacle {
    /// The reason, as in docs/reasons.md.
    pub reason: &'static str,
    /// The advice of the reason to an operator.
    pub advice: &'static str,
    /// The part of the message that causes the obstacle.
    pub culprit: Option<ObstacleCulprit>,
    /// Advice for the application. Empty if there is none.
    pub remedy: String,
    /// The source of the remedy, if it is specific to a system.
    pub source: Option<&'static str>,
    /// Whether a setting of Petasos removes the obstacle.
    pub solved_by_setting: bool,
}

/// The part of a message that causes an obstacle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObstacleCulprit {
    /// `cookie`, `field`, `parameter`, `path`, `method` or `directive`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its value. `None` for cookies, because their values may be secret.
    pub value: Option<String>,
    /// The software that the part belongs to, if known.
    pub software: Option<&'static str>,
}

/// A setting of Petasos.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuggestedSetting {
    /// The key in the configuration file.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// A cache's statement, and the probe it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontStatement {
    /// The name of the probe.
    pub request: &'static str,
    /// The statement.
    #[serde(flatten)]
    pub front: CacheStatement,
}

/// A cookie that a response sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CookieSet {
    /// Its name.
    pub name: String,
    /// The software that sets it, if known.
    pub software: Option<&'static str>,
    /// Its purpose, if known.
    pub purpose: Option<&'static str>,
    /// How Petasos treats a request with the cookie: `looked-up`, or the reason why it passes.
    pub request: &'static str,
}

/// How a response differs from the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseSameness {
    /// No difference, except those that also occur between two plain responses.
    Same,
    /// The contents differ only in spots.
    Spots,
    /// The contents differ throughout.
    Different,
    /// The status or a field differs. The contents were not compared.
    OtherAnswer,
    /// Two plain responses already differ throughout, so the contents cannot be compared.
    Unknown,
    /// There was no response.
    Unanswered,
}

/// The difference between a probe's response and the plain one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeDifference {
    /// The probe: `plain_again`, `noise_cookies`, `noise_parameters` or `unknown_cookie`.
    pub request: &'static str,
    /// The kind of difference.
    pub result: ResponseSameness,
    /// The status and the fields for caches that differ, as `Name: value` or `Name: (none)`.
    pub fields: Vec<String>,
    /// Number of spots that differ.
    pub spots_count: usize,
    /// The first spots.
    pub spots: Vec<SpotText>,
}

/// A spot where two contents differ, as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpotText {
    /// The line in the plain response, counted from 1.
    pub line: usize,
    /// The guessed nature of the spot.
    pub looks_like: SpotNature,
    /// The text before the spot, which both contents share.
    pub before: String,
    /// The spot's text in the plain response.
    pub plain: String,
    /// The spot's text in the other response.
    pub other: String,
}

/// The guessed nature of a spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpotNature {
    /// A nonce or a token against request forgery.
    FormToken,
    /// A date or a time.
    Time,
    /// A person's name.
    Name,
    /// A number.
    Number,
    /// A long run of letters and digits.
    Identifier,
    /// The query parameters that the probe added.
    Parameter,
    /// Anything else.
    Text,
}

/// Compression of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compression {
    /// The content coding that the site chose. `None`: no coding.
    pub coding: Option<String>,
    /// Size of the compressed content, in bytes.
    pub content_bytes: u64,
    /// Whether `Vary` names `Accept-Encoding`.
    pub vary_names_it: bool,
    /// Whether a request with `Via` receives a coding too. `None`: that probe was not sent, or had
    /// no response.
    pub survives_via: Option<bool>,
}

/// Revalidation of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// The entity tag.
    pub etag: Option<String>,
    /// The value of Last-Modified.
    pub last_modified: Option<String>,
    /// The status of the response to the conditional probe. `None`: it was not sent, or had no
    /// response.
    pub conditional_status: Option<u16>,
    /// Whether that was a 304 that refers to the plain response. Then a cache can revalidate the
    /// page.
    pub works: bool,
}

/// A probe that was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentProbe {
    /// The name of the probe.
    pub request: &'static str,
    /// The status of the response. `None` if there was none.
    pub status: Option<u16>,
    /// The error, if there was no response.
    pub error: Option<String>,
    /// Milliseconds from sending the request to the end of the response's head.
    pub head_ms: Option<u64>,
    /// Milliseconds from sending the request to the end of the content.
    pub whole_ms: Option<u64>,
}

impl Findings {
    /// The JSON document, indented, with a final line break.
    pub fn to_json(&self) -> String {
        // Serialising plain data with string keys cannot fail.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// Whether a cache in front of the site answered the plain probe from its store.
    pub fn was_answered_by_a_front(&self) -> bool {
        self.fronts.iter().any(|said| said.request == "plain" && said.front.says == CacheAction::Hit)
    }
}
