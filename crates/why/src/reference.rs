//! Renders docs/why.md from the tables of this crate. One test compares the file with this text.
//! Two more compare the lists of members with real documents.

use crate::findings::FORMAT;
use crate::probe::{NOISE_COOKIES, NOISE_PARAMETERS, Probe, UNKNOWN_COOKIE, VIA};
use crate::remedy::{KNOWN_VALUES, LIFETIME_ADVICE};
use crate::{ADMIN_DEFAULT, CONTENT_BYTES_MAX, PAUSE_DEFAULT, TIME_MAX};
use profiles::KNOWN_COOKIES;
use std::fmt::Write;

/// The members of the JSON document of `--direct`, as paths, with their descriptions.
pub const DIRECT_MEMBERS: &[(&str, &str)] = &[
    (
        "format",
        "The number 1. It changes if a member changes its meaning or is removed; new members may be added.",
    ),
    ("url", "The URL of the page."),
    ("verified", "Whether the server's certificate was verified; also true without TLS."),
    ("page.status", "The status code of the plain response."),
    ("page.status_text", "The registered name of the status; empty if it has none."),
    ("page.content_type", "The media type as stated, or null."),
    ("page.content_bytes", "Size of the content in bytes, without content coding."),
    ("page.is_cut", "Whether the content is longer and only its beginning was read."),
    ("page.location", "The target of a redirect, or null."),
    ("page.caching_fields[]", "The fields that control caches, as `Name: value`."),
    ("page.strict_fault", "The fault for which Petasos would refuse the response, or null."),
    (
        "verdict.cacheable",
        "`yes`; `revalidated`: stored, but the application is asked before each use; `with-settings`: with \
         the settings in `settings`; `no`.",
    ),
    ("verdict.profile", "The profile by which the page was judged."),
    ("verdict.reason", "The reason, as in [reasons.md](reasons.md), or null."),
    ("verdict.advice", "The advice of the reason, or null."),
    ("verdict.lifetime_secs", "Whole lifetime in seconds, with the settings in `settings`, or null."),
    (
        "verdict.ttl_secs",
        "Remaining lifetime in seconds when the response arrived, negative if it was stale, or null.",
    ),
    (
        "verdict.stale_while_revalidate_secs",
        "Seconds after the lifetime in which it may be sent while a refresh runs, or null.",
    ),
    (
        "verdict.stale_if_error_secs",
        "Seconds after the lifetime in which it may be sent if the application fails, or null.",
    ),
    (
        "obstacles[].reason",
        "A reason that prevents sharing, the most important first; the first is the verdict's reason.",
    ),
    ("obstacles[].advice", "The advice of the reason."),
    (
        "obstacles[].culprit.kind",
        "The kind of cause: `cookie`, `field`, `parameter`, `path`, `method` or `directive`; `culprit` may \
         be null.",
    ),
    ("obstacles[].culprit.name", "The name of the cause."),
    ("obstacles[].culprit.value", "A field's value, or null. Values of cookies are never shown."),
    ("obstacles[].culprit.software", "The software that sets it, or null."),
    ("obstacles[].remedy", "Advice on how to change the application; may be empty."),
    ("obstacles[].source", "The source of a remedy that is specific to a system, or null."),
    ("obstacles[].solved_by_setting", "Whether the settings in `settings` remove this obstacle."),
    (
        "settings[].key",
        "A setting of Petasos, see [settings.md](settings.md), that makes the page shareable.",
    ),
    ("settings[].value", "The setting's value; a list as in the configuration file."),
    ("software[].name", "The name of a system that the site runs on."),
    ("software[].evidence", "The sign by which Petasos detected it."),
    ("fronts[].request", "A request whose response has a field of a cache in front of the site."),
    ("fronts[].field", "The name of this field."),
    ("fronts[].value", "The value of this field."),
    ("fronts[].software", "The software that sets this field, or null."),
    ("fronts[].says", "The result that the cache reports: `hit`, `miss`, `pass` or `other`."),
    ("cookies[].name", "A cookie that the plain response sets."),
    ("cookies[].software", "The software that sets it, or null."),
    ("cookies[].purpose", "The purpose of the cookie, or null."),
    (
        "cookies[].request",
        "`looked-up` if Petasos ignores the cookie in requests, else the reason for which these requests \
         pass.",
    ),
    ("changes[].request", "A request whose response was compared with the plain response."),
    (
        "changes[].result",
        "`same`; `spots`; `different`; `other-answer`: status or fields differ; `unknown`: two plain \
         responses differ throughout; `unanswered`. A difference that also occurs between two plain \
         responses does not count.",
    ),
    ("changes[].fields[]", "The fields that differ, as `Name: value`."),
    ("changes[].spots_count", "Number of spots in which the contents differ."),
    ("changes[].spots[].line", "The line number of one of the first spots, from 1."),
    (
        "changes[].spots[].looks_like",
        "`form-token`, `time`, `number`, `identifier`, `parameter` (the request's own) or `text`.",
    ),
    ("changes[].spots[].before", "The text before the spot."),
    ("changes[].spots[].plain", "The text of the plain response in the spot."),
    ("changes[].spots[].other", "The text of the other response in the spot."),
    (
        "compression.coding",
        "The content coding of the response, or null; `compression` is null if no request accepted a coding.",
    ),
    ("compression.content_bytes", "Size of the content in bytes with this coding."),
    ("compression.vary_names_it", "Whether Vary names Accept-Encoding."),
    (
        "compression.survives_via",
        "Whether the response to a request with Via, which Petasos sends, is also compressed; null if no \
         such request was sent.",
    ),
    ("validation.etag", "The entity tag, or null."),
    ("validation.last_modified", "The date of the last change, or null."),
    ("validation.conditional_status", "The status of the response to a conditional request, or null."),
    ("validation.works", "Whether that response was a 304 whose validators match the plain response."),
    ("hints[]", "Further advice, in sentences."),
    ("requests[].request", "The name of a request that was sent."),
    ("requests[].status", "The status of its response, or null."),
    ("requests[].error", "The error if there was no response, or null."),
    ("requests[].head_ms", "Milliseconds from sending the request to the response's head, or null."),
    ("requests[].whole_ms", "Milliseconds to the end of the content, or null."),
];

/// The members of the edge's answer, as paths, with their descriptions.
pub const ANSWER_MEMBERS: &[(&str, &str)] = &[
    (
        "format",
        "The number 1. It changes if a member changes its meaning or is removed; new members may be added.",
    ),
    ("verdict", "The verdict that the request would get, as in [reasons.md](reasons.md)."),
    (
        "reason",
        "The reason for the verdict. For a fetch: the reason to fetch or, if the edge remembers the last \
         response, that response's reason.",
    ),
    ("advice", "The advice of the reason."),
    (
        "asks",
        "The request that the application would get. `nothing`: none. `renewal`: a background refresh, for \
         which the request does not wait. `confirmation`: a conditional request; if the stored response is \
         still right, the verdict is `hit` with `hit-revalidated`. `page`: a fetch that other requests may \
         share. `own-answer`: a request for this client alone.",
    ),
    (
        "culprit.kind",
        "The kind of cause: `cookie`, `field`, `parameter`, `path`, `method` or `directive`; `culprit` may \
         be null.",
    ),
    ("culprit.name", "The part of the request, or of the last response, that is the cause."),
    ("site.name", "The site's first name, or `any`; `site` is null if no site has the requested host name."),
    ("site.profile", "The site's profile, as configured."),
    (
        "site.rules",
        "The profile whose rules are in force; it differs from `site.profile` for `auto` and for a file.",
    ),
    (
        "site.recognised_by",
        "The signs by which the site's profile was detected, for `auto`; null before a detection.",
    ),
    ("site.recognised_since", "The time of the detection, as an HTTP date."),
    ("site.origin", "The address of the site's origin."),
    (
        "site.uncompressed",
        "A sentence, if the application sent a large text without compression although the request accepted \
         gzip; else null.",
    ),
    ("key.scheme", "`http` or `https`; `key` is null if the request is refused before it has a key."),
    ("key.host", "The host, as the application gets it."),
    (
        "key.target",
        "The path and the query, without the parameters that change no page by the site's profile.",
    ),
    ("key.is_equivalent", "Whether `No-Vary-Search` makes this target equivalent to the request's own."),
    ("key.variant_fields[]", "The request fields that select among variants, as far as known."),
    (
        "stored.status",
        "The status of the stored response for the request, even if it may not be used; `stored` may be \
         null.",
    ),
    ("stored.content_bytes", "Size of the stored content in bytes."),
    ("stored.is_part", "Whether only a part of the content is stored."),
    ("stored.forms[].coding", "The content coding of a form that Petasos has made of the stored response."),
    ("stored.forms[].content_bytes", "Size of this form's content in bytes."),
    (
        "stored.template",
        "If the stored response declares an ESI template: the numbers of its includes and faults, or why it is \
         refused.",
    ),
    ("stored.age_secs", "Age of the stored response in seconds."),
    ("stored.lifetime_secs", "Whole lifetime of the stored response in seconds."),
    ("stored.ttl_secs", "Remaining lifetime in seconds; below zero if the response is stale."),
    (
        "stored.stale_while_revalidate_secs",
        "Seconds after the end of the lifetime in which it may be sent while a refresh runs.",
    ),
    (
        "stored.stale_if_error_secs",
        "Seconds after the end of the lifetime in which it may be sent if the application fails.",
    ),
    (
        "stored.stale_if_error_overrides",
        "Whether the stale response may replace an error only because the site's `stale_on_error` says \
         `override`.",
    ),
    ("stored.is_validated_always", "Whether the stored response demands revalidation before each use."),
    (
        "stored.no_cache_overridden",
        "Whether the response says `no-cache` and the site's profile nevertheless uses it, for \
         `stored.lifetime_secs`.",
    ),
    ("stored.is_purged_softly", "Whether a soft purge has made the response stale."),
    ("stored.location", "The target of the stored redirect, or null."),
    ("stored.cache_control", "The `Cache-Control` of the application."),
    (
        "stored.sent_cache_control",
        "The `Cache-Control` that visitors get instead, by the site's profile or `browser_caching`; `null` \
         if they get the application's.",
    ),
    ("other_variants_only", "Whether other variants of the page are stored and none for this request."),
    (
        "remembered.reason",
        "The reason why the last response for the page could not be shared; `remembered` is null if none is \
         known.",
    ),
    ("remembered.advice", "The advice of that reason."),
    ("remembered.culprit.kind", "The same kinds as `culprit.kind`; `culprit` may be null."),
    ("remembered.culprit.name", "The part of that response that was the cause."),
    ("is_being_fetched", "Whether a fetch of the page is in progress."),
    (
        "if_origin_fails.verdict",
        "The verdict if the application failed now; `if_origin_fails` is null for an error.",
    ),
    ("if_origin_fails.reason", "The reason for that verdict."),
    (
        "context.name",
        "A short form of the visitor's context, or null if it is unknown. `context` is null unless \
         `logged_in` is `context` and the request has a session.",
    ),
    ("context.is_asked", "Whether the next request asks the origin for the context."),
];

/// The reference of `petasos why` as Markdown.
pub fn why_reference() -> String {
    let mut page = format!(
        "# petasos why\n\n\
         `petasos why` explains whether a page can be answered from the cache. It names the cause, and the\n\
         change that would help.\n\n\
         ## A running edge: `petasos why URL`\n\n    \
         petasos why https://www.example.org/ -H 'Cookie: theme=dark'\n\n\
         The command asks the edge at its admin address (`--admin`, {ADMIN_DEFAULT}) how it would answer a GET\n\
         for this page with these fields. The edge runs the request through its pipeline without side\n\
         effects: it fetches and counts nothing, and extends no response's stay in the store. A URL with\n\
         https means a request to the first listener with TLS or, if there is none, through the first of\n\
         `trusted_proxies`. A purge method means a request of the first of `purge_peers`. Exit code 0: the\n\
         edge has answered; 2: it has not.\n\n\
         `--json` prints the edge's JSON document. Other programs get the same document by `POST /why` at the\n\
         admin address, with `Content-Type: application/json`. Send `url` and, if needed, `method` and\n\
         `headers`, a list of names and values.\n\n    \
         curl -s -H 'Content-Type: application/json' http://{ADMIN_DEFAULT}/why \\\n         \
         -d '{{\"url\": \"http://www.example.org/\", \"headers\": [[\"Cookie\", \"theme=dark\"]]}}'\n\n\
         | member | meaning |\n|---|---|\n"
    );
    for (member, what) in ANSWER_MEMBERS {
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| `{member}` | {} |", escaped(what));
    }
    direct(&mut page);
    tables(&mut page);
    page
}

/// The section about `--direct`.
fn direct(page: &mut String) {
    // Writing into a String cannot fail.
    let _ = write!(
        page,
        "\n\
         ## Any site: `petasos why --direct URL`\n\n\
         This command needs no Petasos in front of the site, no account and no set-up.\n\n    \
         petasos why --direct https://www.example.org/\n\n\
         The command sends at most {count} requests for the page, one after the other, with a pause between them\n\
         (`--pause`, {pause} ms). It allows at most {time} s for each request, and at most {bytes} MiB of content. It\n\
         reports redirects and does not follow them, and it contacts no other host. If the page answers with\n\
         a redirect or an error, the command sends only two requests.\n\n\
         | request | difference from the plain request |\n|---|---|\n",
        count = Probe::ALL.len(),
        pause = PAUSE_DEFAULT.as_millis(),
        time = TIME_MAX.as_secs(),
        bytes = CONTENT_BYTES_MAX >> 20,
    );
    for probe in Probe::ALL {
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| `{}` | {} |", probe.name(), question(probe));
    }
    let _ = write!(
        page,
        "\nThe command judges the plain response by the rules of the edge, with the profile that `auto` chooses\n\
         for the response. If the page is refused only because it states no lifetime, the command names the\n\
         setting that gives it one. This is `--profile wordpress` for a site that is probably WordPress, and\n\
         `--ttl` for others. To find further obstacles, the command judges the response again without the\n\
         first one.\n\n\
         `-H 'Name: value'` adds a field to every request, such as a cookie or a `Host`. The command verifies\n\
         certificates with the system's trust store; `SSL_CERT_FILE` names another one, and `--insecure`\n\
         accepts any certificate. Exit code 0: the command judged the page, whatever the verdict; 2: it could\n\
         not.\n\n\
         ### The JSON document\n\n\
         `--json` prints the same facts. `[]` means the elements of a list. Format {FORMAT}.\n\n\
         | member | meaning |\n|---|---|\n"
    );
    for (member, what) in DIRECT_MEMBERS {
        let _ = writeln!(page, "| `{member}` | {} |", escaped(what));
    }
}

/// The tables of known cookies, field values and systems.
fn tables(page: &mut String) {
    page.push_str(
        "\n## Cookies that are known by name\n\n\
         `*` matches any text; the first row that matches counts. These rows only explain a verdict. The\n\
         site's profile decides how Petasos treats a cookie.\n\n\
        | cookie | software | purpose | advice if it prevents sharing | source |\n|---|---|---|---|---|\n",
    );
    // Writing into a String cannot fail, here and below.
    for row in KNOWN_COOKIES {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            row.name,
            row.software,
            row.purpose.name(),
            escaped(row.remedy),
            escaped(row.source)
        );
    }
    page.push_str(
        "\n## Field values that identify their software\n\n\
        | field | software | what to do | source |\n|---|---|---|---|\n",
    );
    for row in KNOWN_VALUES {
        let remedy = escaped(row.remedy);
        let source = escaped(row.source);
        let _ = writeln!(page, "| `{}: {}` | {} | {remedy} | {source} |", row.field, row.value, row.software);
    }
    page.push_str("\n## How systems state a lifetime\n\n| system | what to do | source |\n|---|---|---|\n");
    for row in LIFETIME_ADVICE {
        let _ = writeln!(page, "| {} | {} | {} |", row.software, escaped(row.remedy), escaped(row.source));
    }
    page.push_str("\nThis page is rendered from the tables in the code by `cargo xtask docs`.\n");
}

fn question(probe: Probe) -> String {
    match probe {
        Probe::Plain => {
            "the request that Petasos sends for a visitor without cookies; without content coding".to_owned()
        }
        Probe::NoiseCookies => format!("`Cookie: {NOISE_COOKIES}`"),
        Probe::NoiseParameters => format!("`{NOISE_PARAMETERS}` in the query"),
        Probe::UnknownCookie => format!("`Cookie: {UNKNOWN_COOKIE}`"),
        Probe::Compressed => "`Accept-Encoding: br, gzip`".to_owned(),
        Probe::CompressedVia => format!("`Accept-Encoding: br, gzip` and `Via: {VIA}`"),
        Probe::Conditional => {
            "`If-None-Match` and `If-Modified-Since` with the plain response's validators, if any".to_owned()
        }
        Probe::PlainAgain => "nothing".to_owned(),
    }
}

/// Escapes text for a cell of a Markdown table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
