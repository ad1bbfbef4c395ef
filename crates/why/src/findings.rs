//! What was found out about a page, as plain data: the JSON document of `petasos why --direct --json` is this.
//!
//! Invariant: every fact stands here once, in the words of the protocol; how it is shown on a terminal is `text`'s
//! part. docs/why.md describes every member.

use crate::front::{Front, Says};
use profiles::Software;
use serde::Serialize;

/// The version of the document. It changes when a member changes its meaning or goes away.
pub const FORMAT: u32 = 1;

/// Everything about one page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// [`FORMAT`].
    pub format: u32,
    /// The page's URL.
    pub url: String,
    /// Whether the server's certificate was verified; true also where there is none to verify.
    pub verified: bool,
    /// The plain answer.
    pub page: Page,
    /// Whether the page may be shared, and for how long.
    pub verdict: Verdict,
    /// What is in the way of sharing it, the weightiest first.
    pub obstacles: Vec<Obstacle>,
    /// Settings of Petasos under which the page is shared as it is; empty if none are needed or none would do.
    pub settings: Vec<Setting>,
    /// What the site runs on.
    pub software: Vec<Software>,
    /// What caches in front of the site said.
    pub fronts: Vec<FrontSaid>,
    /// The cookies that the plain answer sets.
    pub cookies: Vec<CookieSet>,
    /// What became different when the question did.
    pub changes: Vec<Change>,
    /// Whether the site compresses.
    pub compression: Option<Compression>,
    /// Whether the page can be revalidated.
    pub validation: Validation,
    /// What else is worth knowing, in sentences.
    pub hints: Vec<String>,
    /// The questions that were put, in their order.
    pub requests: Vec<Asked>,
}

/// The plain answer in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// The status in words, where it has a registered name.
    pub status_text: &'static str,
    /// The media type, as stated.
    pub content_type: Option<String>,
    /// Octets of content without content coding.
    pub content_bytes: u64,
    /// Whether the content is longer and was not read further.
    pub is_cut: bool,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// `Cache-Control` and its relatives, as stated, as `Name: value`.
    pub caching_fields: Vec<String>,
    /// What a strict reader of HTTP/1, as Petasos is one, refuses the answer for.
    pub strict_fault: Option<String>,
}

/// Whether a page may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cacheable {
    /// As it is.
    Yes,
    /// It is kept, but the application is asked at each request whether it is still right.
    Revalidated,
    /// With settings of Petasos that are named; the application stays as it is.
    WithSettings,
    /// Not before the application, or the request, changes.
    No,
}

/// The verdict on a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the page may be shared.
    pub cacheable: Cacheable,
    /// The profile that judged.
    pub profile: String,
    /// The one reason why not, as in docs/reasons.md; absent if the page is shared as it is.
    pub reason: Option<&'static str>,
    /// What that reason says to an operator.
    pub advice: Option<&'static str>,
    /// How long it is fresh in all, in seconds, with the settings that are named.
    pub lifetime_secs: Option<u64>,
    /// How long it was still fresh when it arrived, in seconds.
    pub ttl_secs: Option<i64>,
    /// How long after that it may be shown while it is being refreshed, in seconds.
    pub stale_while_revalidate_secs: Option<u64>,
    /// How long after that it may be shown while the application fails, in seconds.
    pub stale_if_error_secs: Option<u64>,
}

/// One thing in the way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Obstacle {
    /// The reason, as in docs/reasons.md.
    pub reason: &'static str,
    /// What the reason says to an operator.
    pub advice: &'static str,
    /// The part of the message that is the cause.
    pub culprit: Option<Culprit>,
    /// What to do in the application; empty if there is nothing.
    pub remedy: String,
    /// Where the remedy is from, if it is a system's own.
    pub source: Option<&'static str>,
    /// Whether a setting of Petasos is enough.
    pub solved_by_setting: bool,
}

/// The part of a message that is a cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Culprit {
    /// `cookie`, `field`, `parameter`, `path`, `method` or `directive`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its value; of cookies none, as they may be secret.
    pub value: Option<String>,
    /// Whose it is, where it is known.
    pub software: Option<&'static str>,
}

/// A setting of Petasos.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The key in the configuration file.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// A cache in front and the question it spoke about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontSaid {
    /// The question.
    pub request: &'static str,
    /// What was said.
    #[serde(flatten)]
    pub front: Front,
}

/// A cookie that an answer sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CookieSet {
    /// Its name.
    pub name: String,
    /// Whose it is, where it is known.
    pub software: Option<&'static str>,
    /// What it is for, where it is known.
    pub purpose: Option<&'static str>,
    /// What Petasos makes of a request that carries it: `looked-up`, or the reason for which it passes.
    pub request: &'static str,
}

/// How an answer differs from the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sameness {
    /// In nothing, but for what differs between two plain answers too.
    Same,
    /// In the spots that are named.
    Spots,
    /// Throughout.
    Different,
    /// The status or a field differs; the content was not compared.
    OtherAnswer,
    /// Two plain answers already differ throughout, so nothing can be said.
    Unknown,
    /// There was no answer.
    Unanswered,
}

/// What changed with a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The question: `plain_again`, `noise_cookies`, `noise_parameters` or `unknown_cookie`.
    pub request: &'static str,
    /// How the answer differs.
    pub result: Sameness,
    /// Fields that guide caches and differ, as `Name: value`, `Name: (none)`.
    pub fields: Vec<String>,
    /// How many spots differ.
    pub spots_count: usize,
    /// The first of them.
    pub spots: Vec<SpotText>,
}

/// A spot where two contents differ, as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpotText {
    /// The line in the plain answer, from 1.
    pub line: usize,
    /// What it looks like.
    pub looks_like: LooksLike,
    /// What stands before it in both.
    pub before: String,
    /// What the plain answer has there.
    pub plain: String,
    /// What the other answer has there.
    pub other: String,
}

/// What a spot looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LooksLike {
    /// A token against forged forms, or a nonce.
    FormToken,
    /// A date or a time.
    Time,
    /// Somebody's name.
    Name,
    /// A number.
    Number,
    /// A long run of letters and digits.
    Identifier,
    /// The parameters of the question.
    Parameter,
    /// Anything else.
    Text,
}

/// Compression.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compression {
    /// The content coding that was chosen; absent: none.
    pub coding: Option<String>,
    /// Octets of content with it.
    pub content_bytes: u64,
    /// Whether `Vary` names `Accept-Encoding`.
    pub vary_names_it: bool,
    /// Whether a request with `Via` gets a coding too; absent: that was not asked, or not answered.
    pub survives_via: Option<bool>,
}

/// Revalidation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// The entity tag.
    pub etag: Option<String>,
    /// The date of the last change.
    pub last_modified: Option<String>,
    /// The status that a conditional request got; absent if none was sent or answered.
    pub conditional_status: Option<u16>,
    /// Whether that was a 304 that speaks of the plain answer: then a cache can keep the page by asking.
    pub works: bool,
}

/// A question that was put.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Its name.
    pub request: &'static str,
    /// The status of the answer; absent if there was none.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub error: Option<String>,
    /// Milliseconds from sending it to the answer's head.
    pub head_ms: Option<u64>,
    /// Milliseconds from sending it to the end of the content.
    pub whole_ms: Option<u64>,
}

impl Findings {
    /// The JSON document, in lines, with a line end at the end.
    pub fn to_json(&self) -> String {
        // Plain data with string keys always serialises.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// Whether some cache in front answered the plain question from what it had.
    pub fn was_answered_by_a_front(&self) -> bool {
        self.fronts.iter().any(|said| said.request == "plain" && said.front.says == Says::Hit)
    }
}
