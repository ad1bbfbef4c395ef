//! docs/why.md, rendered from the tables of this crate. A test compares the file with this text, and the list of the
//! document's members with a document.

use crate::findings::FORMAT;
use crate::known::KNOWN_COOKIES;
use crate::probe::{NOISE_COOKIES, NOISE_PARAMETERS, Probe, UNKNOWN_COOKIE};
use crate::remedy::{KNOWN_VALUES, LIFETIME_ADVICE};
use crate::{CONTENT_BYTES_MAX, PAUSE_DEFAULT, TIME_MAX};
use std::fmt::Write;

/// The members of the JSON document of `--direct`, as paths, and what they say.
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
    ("settings[].value", "Its value."),
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

/// What `petasos why` does and says, as Markdown.
pub fn why_reference() -> String {
    let mut page = format!(
        "# petasos why\n\n\
         Why is this page answered from the cache, or not, whose fault is it, and what would help?\n\n\
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
        "\nThe plain answer is judged by the rules that the accelerator itself goes by, under the profile `default`; if the page\n\
         is refused for the lack of a lifetime only, the setting that gives it one is named (`--profile wordpress` where\n\
         WordPress was recognised, `--ttl` elsewhere). What stands behind the first obstacle is found by judging the answer\n\
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
    tables(&mut page);
    page
}

/// The tables of what is known by name.
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
        Probe::Conditional => {
            "`If-None-Match` and `If-Modified-Since` of the plain answer, if it has what they need".to_owned()
        }
        Probe::PlainAgain => "nothing".to_owned(),
    }
}

/// Text that may stand in a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
