//! Formats the findings as text for a terminal of 80 columns.
//!
//! Invariant: the text states nothing that is not in the findings. The verdict comes before the
//! explanations.

use crate::findings::{
    Cacheable, Compression, Findings, Obstacle, ProbeDifference, ResponseSameness, SpotNature, SpotText,
    SuggestedSetting,
};
use crate::front::CacheAction;
use crate::lines::{TextLines, bytes_text, seconds_text};

/// Column where the text beside the labels of the page's summary begins.
const LABEL_COLUMN: usize = 11;

/// Column where the text beside the labels of the facts begins.
const FACTS_COLUMN: usize = 21;

/// Greatest age on arrival, in seconds, for which the remaining lifetime is not shown.
const AGE_SHOWN_MIN_SECS: u64 = 2;

/// Formats the findings as text.
pub fn report(findings: &Findings) -> String {
    let mut lines = TextLines::default();
    lines.paragraph(0, &findings.url);
    page(&mut lines, findings);
    lines.gap();
    verdict(&mut lines, findings);
    obstacles(&mut lines, findings);
    facts(&mut lines, findings);
    if !findings.hints.is_empty() {
        lines.gap();
        lines.paragraph(0, "Worth knowing");
        for hint in &findings.hints {
            lines.labelled(2, "-", 4, hint);
        }
    }
    lines.into_text()
}

/// The page's status, size and fields, its software, and caches in front.
fn page(lines: &mut TextLines, findings: &Findings) {
    let page = &findings.page;
    let mut parts = vec![format!("{} {}", page.status, page.status_text).trim().to_owned()];
    parts.extend(page.content_type.clone());
    let more = if page.is_cut { "more than " } else { "" };
    parts.push(format!("{more}{}", bytes_text(page.content_bytes)));
    let plain = findings.requests.first().and_then(|asked| asked.head_ms);
    parts.extend(plain.map(|ms| format!("first byte after {ms} ms")));
    lines.paragraph(2, &parts.join(", "));
    for field in &page.caching_fields {
        lines.paragraph(2, field);
    }
    if !findings.software.is_empty() {
        let named = findings.software.iter();
        let named: Vec<_> =
            named.map(|software| format!("{} ({})", software.name, software.evidence)).collect();
        lines.labelled(2, "runs on", LABEL_COLUMN, &named.join(", "));
    }
    fronts(lines, findings);
}

/// The statements of caches in front, for the plain probe and for its repetition.
fn fronts(lines: &mut TextLines, findings: &Findings) {
    let said = |request| findings.fronts.iter().filter(move |said| said.request == request);
    for first in said("plain") {
        let front = &first.front;
        let mut text = format!("{}: {}", front.field, front.value);
        let again = said("plain_again").find(|again| again.front.field == front.field);
        if let Some(again) = again.filter(|again| again.front.value != front.value) {
            text.push_str(&format!(", then {}", again.front.value));
        }
        let meaning = [front.software, meaning(again.unwrap_or(first).front.says)];
        let meaning: Vec<&str> = meaning.into_iter().flatten().collect();
        if !meaning.is_empty() {
            text.push_str(&format!(" ({})", meaning.join(", ")));
        }
        lines.labelled(2, "in front", LABEL_COLUMN, &text);
    }
}

/// The meaning of a cache's statement, in words.
const fn meaning(says: CacheAction) -> Option<&'static str> {
    match says {
        CacheAction::Hit => Some("answered from a cache"),
        CacheAction::Miss => Some("fetched from the application"),
        CacheAction::Pass => Some("passed to the application"),
        CacheAction::Other => None,
    }
}

fn verdict(lines: &mut TextLines, findings: &Findings) {
    let verdict = &findings.verdict;
    let lifetime = seconds_text(verdict.lifetime_secs.unwrap_or(0));
    let reason = verdict.reason.unwrap_or_default();
    let headline = match verdict.cacheable {
        Cacheable::Yes => {
            let left = u64::try_from(verdict.ttl_secs.unwrap_or(0)).unwrap_or(0);
            let used = verdict.lifetime_secs.unwrap_or(0).saturating_sub(left);
            let left = if used <= AGE_SHOWN_MIN_SECS {
                String::new()
            } else {
                format!(" ({} of it left)", seconds_text(left))
            };
            let error = if findings.page.status >= 500 { "AN ERROR, AND " } else { "" };
            format!("{error}CACHEABLE as it is, for {lifetime}{left}.")
        }
        Cacheable::Revalidated => {
            format!(
                "STORED, BUT REVALIDATED BEFORE EACH USE: {reason}. The application answers every request with a \
                 short 304."
            )
        }
        Cacheable::WithSettings => {
            let settings = settings_text(&findings.settings);
            format!("CACHEABLE with {settings}, for {lifetime}. As it is: {reason}.")
        }
        Cacheable::No => format!("NOT CACHEABLE: {reason}"),
    };
    lines.paragraph(0, &headline);
    if let Some(advice) = verdict.advice {
        lines.paragraph(2, advice);
    }
    for (secs, what) in [
        (verdict.stale_while_revalidate_secs, "during a refresh"),
        (verdict.stale_if_error_secs, "if the application fails"),
    ] {
        if let Some(secs) = secs.filter(|secs| *secs > 0 && verdict.cacheable != Cacheable::No) {
            lines.paragraph(
                2,
                &format!("A cache may send it for {} after its lifetime {what}.", seconds_text(secs)),
            );
        }
    }
}

fn obstacles(lines: &mut TextLines, findings: &Findings) {
    if findings.obstacles.is_empty() {
        return;
    }
    lines.gap();
    let several = findings.obstacles.len() > 1;
    if several {
        lines.paragraph(0, "Obstacles, the most important first");
    }
    for (index, obstacle) in findings.obstacles.iter().enumerate() {
        let title = title(obstacle);
        let indent = if several { 5 } else { 2 };
        if several {
            let separator = if title.is_empty() { "" } else { ": " };
            let text = format!("{}{separator}{title}", obstacle.reason);
            lines.labelled(2, &format!("{}.", index + 1), indent, &text);
        } else if !title.is_empty() {
            lines.labelled(indent, "culprit", indent + LABEL_COLUMN - 2, &title);
        }
        let mut labelled = |label, text: &str| lines.labelled(indent, label, indent + LABEL_COLUMN - 2, text);
        if !obstacle.remedy.is_empty() {
            labelled("to do", &obstacle.remedy);
        }
        let setting = findings.settings.iter().find(|setting| is_against(setting, obstacle));
        if obstacle.solved_by_setting
            && let Some(setting) = setting
        {
            let effect = match setting.key {
                "stripped_cookies" => {
                    "shares the page without the cookie; visitors get the cookie with the first response that is not shared"
                }
                "static_paths" => "ignores the cookies of all static files there, in requests and responses",
                _ => "gives the page a lifetime",
            };
            labelled("or", &format!("{} {effect}.", settings_text(std::slice::from_ref(setting))));
        }
    }
}

/// Whether the setting removes the obstacle.
fn is_against(setting: &SuggestedSetting, obstacle: &Obstacle) -> bool {
    let is_of_cookies = matches!(setting.key, "stripped_cookies" | "static_paths");
    is_of_cookies == obstacle.reason.contains("cookie")
}

/// Settings as the user writes them: a flag if one suffices, otherwise lines of the configuration
/// file.
fn settings_text(settings: &[SuggestedSetting]) -> String {
    match settings {
        [SuggestedSetting { key: key @ ("ttl" | "profile"), value }] => {
            format!("petasos serve --{key} {value}")
        }
        _ => {
            let quoted =
                |value: &str| if value.starts_with('[') { value.to_owned() } else { format!("\"{value}\"") };
            let lines: Vec<_> = settings
                .iter()
                .map(|setting| format!("{} = {}", setting.key, quoted(&setting.value)))
                .collect();
            format!("{} in the configuration file", lines.join(" and "))
        }
    }
}

/// The culprit in one line. Empty if there is none.
fn title(obstacle: &Obstacle) -> String {
    let Some(culprit) = &obstacle.culprit else {
        return String::new();
    };
    let whose = culprit.software.map_or_else(String::new, |software| format!(" ({software})"));
    match (&culprit.value, culprit.kind) {
        (_, "cookie") if obstacle.reason.starts_with("store-") => {
            format!("Set-Cookie: {}{whose}", culprit.name)
        }
        (Some(value), _) => format!("{}: {value}{whose}", culprit.name),
        (None, kind) => format!("the {kind} {}{whose}", culprit.name),
    }
}

fn facts(lines: &mut TextLines, findings: &Findings) {
    if findings.requests.len() < 2 {
        return;
    }
    lines.gap();
    lines.paragraph(0, "The page");
    for change in &findings.changes {
        fact(lines, change_label(change.request), &change_text(change));
        for spot in &change.spots {
            lines.labelled(4, "-", 6, &spot_line(spot));
        }
        for field in &change.fields {
            lines.labelled(4, "-", 6, field);
        }
    }
    for cookie in &findings.cookies {
        let mut text = format!("{}: ", cookie.name);
        text.push_str(&match (cookie.software, cookie.purpose) {
            (Some(software), Some(purpose)) => format!("{software}, {purpose}"),
            _ => "not known".to_owned(),
        });
        text.push_str(match cookie.request {
            "looked-up" => "; Petasos ignores it in requests",
            _ => "; Petasos passes requests with it to the application",
        });
        fact(lines, "sets a cookie", &text);
    }
    if let Some(compression) = &findings.compression {
        fact(lines, "compression", &compression_text(compression, findings.page.content_bytes));
    }
    if (200..300).contains(&findings.page.status) {
        fact(lines, "validators", &validation_text(findings));
    }
    for asked in &findings.requests {
        if let Some(error) = &asked.error {
            fact(lines, change_label(asked.request), &format!("no response: {error}"));
        }
    }
}

fn fact(lines: &mut TextLines, label: &str, text: &str) {
    lines.labelled(2, label, FACTS_COLUMN, text);
}

fn change_label(request: &str) -> &'static str {
    match request {
        "plain_again" => "requested again",
        "noise_cookies" => "analytics cookies",
        "noise_parameters" => "ad parameters",
        "unknown_cookie" => "an unknown cookie",
        "compressed" => "compression",
        _ => "validators",
    }
}

fn change_text(change: &ProbeDifference) -> String {
    let is_again = change.request == "plain_again";
    match change.result {
        ResponseSameness::Same if is_again => "the same, byte by byte".to_owned(),
        ResponseSameness::Same => "no change".to_owned(),
        ResponseSameness::Spots => {
            let count = change.spots_count;
            let spots = if count == 1 { "1 spot".to_owned() } else { format!("{count} spots") };
            let more = if count > change.spots.len() { "; the first ones follow" } else { "" };
            format!("the same except for {spots}{more}")
        }
        ResponseSameness::Different if is_again => "different throughout".to_owned(),
        ResponseSameness::Different => "another page".to_owned(),
        ResponseSameness::OtherAnswer => "another response".to_owned(),
        ResponseSameness::Unknown => "unknown, because the page differs each time".to_owned(),
        ResponseSameness::Unanswered => "no response".to_owned(),
    }
}

fn spot_line(spot: &SpotText) -> String {
    let kind = match spot.looks_like {
        SpotNature::FormToken => "a form token",
        SpotNature::Time => "a time",
        SpotNature::Name => "a name",
        SpotNature::Number => "a number",
        SpotNature::Identifier => "an identifier",
        SpotNature::Parameter => "the parameters",
        SpotNature::Text => "a text",
    };
    format!("line {}, {kind}: {}[{} | {}]", spot.line, spot.before, spot.plain, spot.other)
}

fn compression_text(compression: &Compression, plain_bytes: u64) -> String {
    match &compression.coding {
        None => "none; compression by the application's web server would save most of the bytes".to_owned(),
        Some(coding) => {
            let vary = if compression.vary_names_it { "" } else { "; Vary does not name Accept-Encoding" };
            let sizes =
                format!("{} instead of {}", bytes_text(compression.content_bytes), bytes_text(plain_bytes));
            format!("{coding}, {sizes}{vary}")
        }
    }
}

fn validation_text(findings: &Findings) -> String {
    let validation = &findings.validation;
    let mut named = Vec::new();
    named.extend(validation.etag.as_ref().map(|etag| format!("ETag {etag}")));
    named.extend(validation.last_modified.as_ref().map(|date| format!("Last-Modified {date}")));
    if named.is_empty() {
        return "none; a cache must fetch the whole page when its lifetime ends".to_owned();
    }
    let outcome = match validation.conditional_status {
        _ if validation.works => "a conditional request gets 304".to_owned(),
        Some(304) => "a conditional request gets a 304 with the validators of another page".to_owned(),
        Some(status) => format!("but a conditional request gets {status} and the whole page"),
        None => "not tried".to_owned(),
    };
    format!("{}; {outcome}", named.join(" and "))
}
