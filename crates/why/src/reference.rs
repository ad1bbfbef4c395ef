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
    ("format", "The number 1. It changes when a member changes its meaning or goes away; new ones may come."),
    ("url", "The page."),
    ("verified", "Whether the server's certificate was verified; true without TLS too."),
    ("page.status", "The status code of the plain answer."),
    ("page.status_text", "Its registered name; empty if it has none."),
    ("page.content_type", "The media type as stated, or null."),
    ("page.content_bytes", "Octets of content without content coding."),
    ("page.is_cut", "Whether the content is longer and was not read further."),
    ("page.location", "Where a redirect leads, or null."),
    ("page.caching_fields[]", "The fields that guide caches, as `Name: value`."),
    ("page.strict_fault", "What Petasos would refuse the answer for, or null."),
    (
        "verdict.cacheable",
        "`yes`; `revalidated`: kept, but the application is asked each time; `with-settings`: under `settings`; `no`.",
    ),
    ("verdict.profile", "The profile that judged."),
    ("verdict.reason", "The one reason, as in [reasons.md](reasons.md), or null."),
    ("verdict.advice", "What the reason says, or null."),
    ("verdict.lifetime_secs", "For how long it is fresh in all, with the settings that are named, or null."),
    ("verdict.ttl_secs", "For how long it still was when it arrived, negative if it was stale, or null."),
    (
        "verdict.stale_while_revalidate_secs",
        "For how long after that it may be shown while it is refreshed, or null.",
    ),
    (
        "verdict.stale_if_error_secs",
        "For how long after that it may be shown while the application fails, or null.",
    ),
    ("obstacles[].reason", "What is in the way, the weightiest first; the first is the verdict's reason."),
    ("obstacles[].advice", "What the reason says."),
    (
        "obstacles[].culprit.kind",
        "`cookie`, `field`, `parameter`, `path`, `method` or `directive`; `culprit` may be null.",
    ),
    ("obstacles[].culprit.name", "Its name."),
    ("obstacles[].culprit.value", "A field's value, or null. Values of cookies are never shown."),
    ("obstacles[].culprit.software", "Whose it is, or null."),
    ("obstacles[].remedy", "What to do in the application; may be empty."),
    ("obstacles[].source", "Where a system's own remedy is from, or null."),
    ("obstacles[].solved_by_setting", "Whether `settings` are enough against it."),
    (
        "settings[].key",
        "A setting of Petasos, see [settings.md](settings.md), that makes the page shareable.",
    ),
    ("settings[].value", "Its value; a list as the configuration file has it."),
    ("software[].name", "What the site runs on."),
    ("software[].evidence", "What gave it away."),
    ("fronts[].request", "A question at which a cache in front spoke."),
    ("fronts[].field", "The field it spoke in."),
    ("fronts[].value", "What it said."),
    ("fronts[].software", "Whose field that is, or null."),
    ("fronts[].says", "`hit`, `miss`, `pass` or `other`."),
    ("cookies[].name", "A cookie that the plain answer sets."),
    ("cookies[].software", "Whose it is, or null."),
    ("cookies[].purpose", "What it is for, or null."),
    (
        "cookies[].request",
        "`looked-up` if Petasos ignores it in requests, else the reason for which they pass.",
    ),
    ("changes[].request", "A question that was compared with the plain one."),
    (
        "changes[].result",
        "`same`; `spots`; `different`; `other-answer`: status or fields differ; `unknown`: two plain answers differ \
         throughout; `unanswered`. What differs between two plain answers too does not count.",
    ),
    ("changes[].fields[]", "What differs beside the content, as `Name: value`."),
    ("changes[].spots_count", "In how many spots the contents differ."),
    ("changes[].spots[].line", "The line of one of the first of them, from 1."),
    (
        "changes[].spots[].looks_like",
        "`form-token`, `time`, `number`, `identifier`, `parameter` (the question's own) or `text`.",
    ),
    ("changes[].spots[].before", "What stands before it."),
    ("changes[].spots[].plain", "What the plain answer has there."),
    ("changes[].spots[].other", "What the other has."),
    (
        "compression.coding",
        "The content coding that was chosen, or null; `compression` is null if nobody asked.",
    ),
    ("compression.content_bytes", "Octets of content with it."),
    ("compression.vary_names_it", "Whether Vary names Accept-Encoding."),
    (
        "compression.survives_via",
        "Whether a request with Via, such as Petasos sends, gets a coding too; null if that was not asked.",
    ),
    ("validation.etag", "The entity tag, or null."),
    ("validation.last_modified", "The date of the last change, or null."),
    ("validation.conditional_status", "The status a conditional request got, or null."),
    ("validation.works", "Whether that was a 304 that speaks of the plain answer."),
    ("hints[]", "What else is worth knowing, in sentences."),
    ("requests[].request", "A question that was put."),
    ("requests[].status", "The status of its answer, or null."),
    ("requests[].error", "Why there was none, or null."),
    ("requests[].head_ms", "Milliseconds from sending it to the answer's head, or null."),
    ("requests[].whole_ms", "Milliseconds to the end of the content, or null."),
];

/// The members of the edge's answer, as paths, with their descriptions.
pub const ANSWER_MEMBERS: &[(&str, &str)] = &[
    ("format", "The number 1. It changes when a member changes its meaning or goes away; new ones may come."),
    ("verdict", "What would be done with the request, as in [reasons.md](reasons.md)."),
    (
        "reason",
        "The one reason. For a fetch, the reason to fetch, or that of the last answer if that is remembered.",
    ),
    ("advice", "What the reason says."),
    (
        "asks",
        "What the application is asked: `nothing`; `renewal`: nothing that the request waits for; `confirmation`: whether \
         the stored answer is still right, and if it is, the verdict is `hit` with `hit-revalidated`; `page`: the page, in \
         a fetch that others may share; `own-answer`: an answer for this request alone.",
    ),
    (
        "culprit.kind",
        "`cookie`, `field`, `parameter`, `path`, `method` or `directive`; `culprit` may be null.",
    ),
    ("culprit.name", "The part of the request, or of the last answer, that is the cause."),
    ("site.name", "The site's first name, or `any`; `site` is null if no site has the name."),
    ("site.profile", "Its profile, as configured."),
    ("site.rules", "The profile whose rules are in force; differs for `auto` and for a file."),
    (
        "site.recognised_by",
        "The signs that the site's profile was detected by, for `auto`; null until it is.",
    ),
    ("site.recognised_since", "Since when, as a date of HTTP."),
    ("site.origin", "The application behind it."),
    (
        "site.uncompressed",
        "What was seen, as a sentence, if the application sent a large text without compression although gzip was \
         offered; else null.",
    ),
    ("key.scheme", "`http` or `https`; `key` is null if the request is refused before it has one."),
    ("key.host", "The host, as the application gets it."),
    (
        "key.target",
        "The path and the query, without the parameters that change no page by the site's profile.",
    ),
    ("key.is_equivalent", "Whether `No-Vary-Search` makes the target stand for the request's own."),
    ("key.variant_fields[]", "The request fields that select among variants, as far as known."),
    (
        "stored.status",
        "The status of what is stored for the request, whether it may be used or not; `stored` may be null.",
    ),
    ("stored.content_bytes", "Octets of content that are there."),
    ("stored.is_part", "Whether that is a part only."),
    ("stored.age_secs", "How old it is."),
    ("stored.lifetime_secs", "How long it is fresh in all."),
    ("stored.ttl_secs", "How long it still is; below zero when stale."),
    (
        "stored.stale_while_revalidate_secs",
        "How long after its lifetime it may be shown while it is renewed.",
    ),
    (
        "stored.stale_if_error_secs",
        "How long after its lifetime it may be shown while the application fails.",
    ),
    (
        "stored.stale_if_error_overrides",
        "Whether that is so only because the site's `stale_on_error` says `override`.",
    ),
    ("stored.is_validated_always", "Whether it says that it must be confirmed before each use."),
    (
        "stored.no_cache_overridden",
        "Whether it says so and the site's profile uses it all the same, for `stored.lifetime_secs`.",
    ),
    ("stored.is_purged_softly", "Whether a soft purge has made it stale."),
    ("stored.location", "Where it redirects to, or null."),
    ("stored.cache_control", "What the application says in `Cache-Control`."),
    (
        "stored.sent_cache_control",
        "What visitors get in its place, by the site's profile; `null` if they get the same.",
    ),
    ("other_variants_only", "Whether other variants of the page are stored and none for this request."),
    (
        "remembered.reason",
        "Why the last answer for the page could not be shared; `remembered` is null if nothing is known.",
    ),
    ("remembered.advice", "What that reason says."),
    ("remembered.culprit.kind", "As above; `culprit` may be null."),
    ("remembered.culprit.name", "The part of that answer that was the cause."),
    ("is_being_fetched", "Whether the page is being fetched right now."),
    (
        "if_origin_fails.verdict",
        "What would be done if the application failed now; `if_origin_fails` is null for an error.",
    ),
    ("if_origin_fails.reason", "The reason for that."),
];

/// The reference of `petasos why` as Markdown.
pub fn why_reference() -> String {
    let mut page = format!(
        "# petasos why\n\n\
         Why is this page answered from the cache, or not, whose fault is it, and what would help?\n\n\
         ## A running edge: `petasos why URL`\n\n    \
         petasos why https://www.example.org/ -H 'Cookie: theme=dark'\n\n\
         The edge is asked at its admin address (`--admin`, {ADMIN_DEFAULT}) what would become of a GET for this page with these\n\
         fields. It takes the request through its own steps and leaves out what they do: nothing is fetched, counted or kept for\n\
         longer. A URL with https means a request that comes through the first of `trusted_proxies`, as the edge itself speaks\n\
         no TLS; a purge method means a request of the first of `purge_peers`. Exit code 0: there is an answer; 2: there is none.\n\n\
         `--json` prints the document that the edge gives. It is also there for other programs: `POST /why` at the admin\n\
         address, `Content-Type: application/json`, with `url` and, if need be, `method` and `headers`, a list of names and\n\
         values.\n\n    \
         curl -s -H 'Content-Type: application/json' http://{ADMIN_DEFAULT}/why \\\n         \
         -d '{{\"url\": \"http://www.example.org/\", \"headers\": [[\"Cookie\", \"theme=dark\"]]}}'\n\n\
         | member | what it says |\n|---|---|\n"
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
    let _ = write!(
        page,
        "\n\
         ## Any site: `petasos why --direct URL`\n\n\
         It needs no Petasos in front of the site, no account and no set-up.\n\n    \
         petasos why --direct https://www.example.org/\n\n\
         The page is asked for {count} times at most, one request after the other, with a pause between them (`--pause`,\n\
         {pause} ms), {time} s at most for each and {bytes} MiB of content. Redirects are reported, not followed; no other host\n\
         is contacted. A page that answers with a redirect or an error is asked for twice.\n\n\
         | question | what is different |\n|---|---|\n",
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
        "\nThe plain answer is judged by the rules that the accelerator itself goes by, under the profile that `auto` chooses for it;\n\
         if the page is refused for the lack of a lifetime only, the setting that gives it one is named (`--profile wordpress`\n\
         where WordPress can only be guessed, `--ttl` elsewhere). What stands behind the first obstacle is found by judging the answer\n\
         again without it.\n\n\
         `-H 'Name: value'` adds a field to every question, such as a cookie or a `Host`. Certificates are verified by the system's\n\
         trust store; `SSL_CERT_FILE` names another, `--insecure` believes any. Exit code 0: the page was judged, whatever the\n\
         verdict; 2: it could not be.\n\n\
         ### The JSON document\n\n\
         `--json` prints the same facts. `[]` stands for the elements of a list. Format {FORMAT}.\n\n\
         | member | what it says |\n|---|---|\n"
    );
    for (member, what) in DIRECT_MEMBERS {
        let _ = writeln!(page, "| `{member}` | {} |", escaped(what));
    }
}

/// The tables of known cookies, field values and systems.
fn tables(page: &mut String) {
    page.push_str(
        "\n## Cookies that are known by name\n\n\
         `*` stands for any run of characters; the first row that matches counts. These rows explain a verdict and never\n\
         make one: what a cookie means to the accelerator, the site's profile says.\n\n\
         | cookie | whose | for | what to do when it is in the way | source |\n|---|---|---|---|---|\n",
    );
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
        "\n## Field values that give their writer away\n\n\
         | field | whose | what to do | source |\n|---|---|---|---|\n",
    );
    for row in KNOWN_VALUES {
        let (remedy, source) = (escaped(row.remedy), escaped(row.source));
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
            "what Petasos itself asks for a visitor without cookies; without content coding".to_owned()
        }
        Probe::NoiseCookies => format!("`Cookie: {NOISE_COOKIES}`"),
        Probe::NoiseParameters => format!("`{NOISE_PARAMETERS}` in the query"),
        Probe::UnknownCookie => format!("`Cookie: {UNKNOWN_COOKIE}`"),
        Probe::Compressed => "`Accept-Encoding: br, gzip`".to_owned(),
        Probe::CompressedVia => format!("`Accept-Encoding: br, gzip` and `Via: {VIA}`"),
        Probe::Conditional => {
            "`If-None-Match` and `If-Modified-Since` of the plain answer, if it has what they need".to_owned()
        }
        Probe::PlainAgain => "nothing".to_owned(),
    }
}

/// Escapes text for a cell of a Markdown table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
