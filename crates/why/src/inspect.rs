//! Turns the responses of a site into findings. Pure: no request is sent here.
//!
//! Invariant: `semantics` decides, from the plain response, whether the page may be shared. All
//! other findings only accompany that verdict.

use crate::change::changes;
use crate::findings::{
    Cacheable, Compression, FORMAT, Findings, FrontStatement, PlainResponse, ProbeDifference,
    ResponseSameness, SentProbe, SpotNature, SpotText, Validation,
};
use crate::front::fronts;
use crate::remedy::has_password_field;
use crate::verdict::judge;
use crate::visit::ProbeResponses;
use crate::{FetchedResponse, Probe};
use difference::text_of;
use message::{Fields, Status, names};
use profiles::recognise;
use semantics::{not_modified_speaks_of, parse_date};
use std::time::Duration;

/// Least difference of the server's clock that is reported. Lifetimes are computed from the
/// server's dates.
const CLOCK_SKEW_MIN: Duration = Duration::from_secs(10);

/// Fields that guide caches, in the order of display.
const CACHING_FIELDS: [&str; 9] = [
    names::SURROGATE_CONTROL,
    names::CDN_CACHE_CONTROL,
    names::CACHE_CONTROL,
    names::PRAGMA,
    names::EXPIRES,
    names::VARY,
    names::ETAG,
    names::LAST_MODIFIED,
    "No-Vary-Search",
];

/// Evaluates the responses of a visit.
pub fn inspect(visit: &ProbeResponses) -> Findings {
    let plain = &visit.plain;
    let head = plain.document_head();
    let software = recognise(&plain.head.fields, &head, &plain.content);
    let changes = changes(visit);
    let is_token = |spot: &SpotText| spot.looks_like == SpotNature::FormToken;
    let has_token =
        changes.iter().any(|change| change.request == "plain_again" && change.spots.iter().any(is_token));
    let judged = judge(plain, &head, &software, has_token);
    let mut findings = Findings {
        format: FORMAT,
        url: visit.url.to_string(),
        verified: visit.verified,
        page: page(visit),
        verdict: judged.verdict,
        obstacles: judged.obstacles,
        settings: judged.settings,
        software,
        fronts: fronts_said(visit),
        cookies: judged.cookies,
        changes,
        compression: compression(visit),
        validation: validation(visit),
        hints: Vec::new(),
        requests: visit.asked().map(|(probe, answer)| asked(probe, answer)).collect(),
    };
    findings.hints = hints(visit, &findings);
    findings
}

fn page(visit: &ProbeResponses) -> PlainResponse {
    let plain = &visit.plain;
    let fields = &plain.head.fields;
    let location = first(fields, names::LOCATION);
    let caching_fields = CACHING_FIELDS
        .iter()
        .flat_map(|name| fields.all(name).map(move |value| format!("{name}: {}", text_of(value))));
    PlainResponse {
        status: plain.head.status.code(),
        status_text: plain.head.status.reason(),
        content_type: first(fields, names::CONTENT_TYPE),
        content_bytes: plain.content.len() as u64,
        is_cut: plain.is_cut,
        location: location.map(|location| visit.url.join(&location).unwrap_or(location)),
        caching_fields: caching_fields.collect(),
        strict_fault: plain.strict_fault.as_ref().map(ToString::to_string),
    }
}

fn first(fields: &Fields, name: &str) -> Option<String> {
    fields.first(name).map(|value| text_of(value))
}

fn fronts_said(visit: &ProbeResponses) -> Vec<FrontStatement> {
    let mut said = Vec::new();
    for (probe, answer) in visit.asked() {
        let Ok(answer) = answer else { continue };
        let fronts = fronts(&answer.head.fields).into_iter();
        said.extend(fronts.map(|front| FrontStatement { request: probe.name(), front }));
    }
    said
}

fn asked<E: ToString>(probe: Probe, answer: Result<&FetchedResponse, &E>) -> SentProbe {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (answer, error) = match answer {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error.to_string())),
    };
    SentProbe {
        request: probe.name(),
        status: answer.map(|answer| answer.head.status.code()),
        error,
        head_ms: answer.map(|answer| millis(answer.arrived.since(answer.sent))),
        whole_ms: answer.map(|answer| millis(answer.ended.since(answer.sent))),
    }
}

fn compression(visit: &ProbeResponses) -> Option<Compression> {
    let answer = visit.answer(Probe::Compressed)?;
    let coding = answer.content_coding().map(text_of);
    let names_it = |name: &[u8]| name == b"*" || name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes());
    Some(Compression {
        coding,
        content_bytes: answer.content.len() as u64,
        vary_names_it: answer.head.fields.list(names::VARY).any(names_it),
        survives_via: visit.answer(Probe::CompressedVia).map(|answer| answer.content_coding().is_some()),
    })
}

fn validation(visit: &ProbeResponses) -> Validation {
    let plain = &visit.plain.head;
    let answer = visit.answer(Probe::Conditional);
    Validation {
        etag: first(&plain.fields, names::ETAG),
        last_modified: first(&plain.fields, names::LAST_MODIFIED),
        conditional_status: answer.map(|answer| answer.head.status.code()),
        works: answer.is_some_and(|answer| {
            answer.head.status == Status::NOT_MODIFIED && not_modified_speaks_of(plain, &answer.head)
        }),
    }
}

/// Further hints, in sentences.
fn hints(visit: &ProbeResponses, findings: &Findings) -> Vec<String> {
    let plain = &visit.plain;
    let mut hints = Vec::new();
    if !findings.verified && visit.url.is_https() {
        hints.push(
            "The server's certificate was not verified; the response may come from an attacker.".to_owned(),
        );
    }
    if findings.page.status >= 500 {
        hints.push(format!(
            "The application answers {}. Repair it, then run the command again. A lifetime on an error lets caches \
             store the error.",
            findings.page.status
        ));
    }
    hints.extend(redirect_hint(&findings.url, findings.page.location.as_deref()));
    if has_password_field(&plain.content) {
        hints.push(
            "The page asks for a password. Leave a log-in page unshared; its form has a token for one visitor."
                .to_owned(),
        );
    }
    if let Some(fault) = &findings.page.strict_fault {
        hints.push(format!("Petasos would answer 502 and not forward this response: {fault}."));
    }
    hints.extend(clock_hint(plain));
    if findings.was_answered_by_a_front() {
        hints.push("A cache in front answered; the application's own response may differ.".to_owned());
    }
    if let Some(coding) = plain.content_coding() {
        hints.push(format!(
            "The page has the coding {} although the request accepted none, so its content was not examined.",
            text_of(coding)
        ));
    }
    hints.extend(coding_hint(findings));
    hints.extend(via_hint(findings));
    hints.extend(vary_hint(plain));
    hints.extend(content_hints(findings));
    if findings.page.is_cut {
        hints.push("The page is very long; only its beginning was read.".to_owned());
    }
    hints
}

/// Names the target of a redirect, and explains redirects that loop.
fn redirect_hint(url: &str, location: Option<&str>) -> Option<String> {
    let location = location?;
    let secure = url.strip_prefix("http://").map(|rest| format!("https://{rest}"));
    let command = command(location);
    Some(if location == url {
        "This redirect leads to the page itself, so browsers give up. If a proxy in front speaks TLS, let the proxy \
         send X-Forwarded-Proto, and let the application believe it."
            .to_owned()
    } else if secure.as_deref() == Some(location) {
        format!(
            "The application redirects to https. Behind a proxy that speaks TLS this is a loop, unless Petasos tells \
             the application that visitors use https: set proto = \"https\", or list the proxy in trusted_proxies. \
             To examine the target: {command}"
        )
    } else {
        format!("This is a redirect. To examine its target: {command}")
    })
}

/// The command that examines a location. A site chooses the location, and a user may paste the
/// command into a shell, so it is quoted if it has any character with a meaning there.
fn command(location: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-%=".contains(&byte);
    if location.bytes().all(is_plain) {
        return format!("petasos why --direct {location}");
    }
    format!("petasos why --direct '{}'", location.replace('\'', "%27"))
}

/// Reports a server's clock that is wrong. A cache's response was created earlier, by the time in
/// its Age.
fn clock_hint(plain: &FetchedResponse) -> Option<String> {
    let date = plain.head.fields.only(names::DATE).and_then(|value| parse_date(value))?;
    let age = first(&plain.head.fields, names::AGE).and_then(|age| age.parse().ok()).unwrap_or(0);
    let made = date.plus(Duration::from_secs(age));
    let behind = plain.sent.wall.since(made);
    let ahead = made.since(plain.arrived.wall);
    let (off, which) = if behind > ahead { (behind, "behind") } else { (ahead, "ahead of") };
    (off >= CLOCK_SKEW_MIN).then(|| {
        format!(
            "The server's clock is {} s {which} this machine's, and caches count lifetimes from the server's dates. \
             Set both clocks by NTP.",
            off.as_secs()
        )
    })
}

fn coding_hint(findings: &Findings) -> Option<String> {
    let compression = findings.compression.as_ref()?;
    if compression.vary_names_it {
        return None;
    }
    let coding = compression.coding.as_ref()?;
    Some(format!(
        "Clients that accept {coding} get the page in this coding, but Vary does not name Accept-Encoding. \
         Petasos adds it; other caches may send a coded page to clients that cannot read it."
    ))
}

/// Reports a server that does not compress responses to requests with Via.
fn via_hint(findings: &Findings) -> Option<String> {
    let compression = findings.compression.as_ref()?;
    (compression.coding.is_some() && compression.survives_via == Some(false)).then(|| {
        "The page is compressed, but not for a request with Via, which every proxy adds. Set `gzip_proxied any` in the \
         nginx that answers, or via_to_origin = false in Petasos; otherwise visitors get it uncompressed."
            .to_owned()
    })
}

fn vary_hint(plain: &FetchedResponse) -> Option<String> {
    let names: Vec<&[u8]> = plain.head.fields.list(names::VARY).collect();
    let has = |wanted: &str| names.iter().any(|name| name.eq_ignore_ascii_case(wanted.as_bytes()));
    if has(names::USER_AGENT) {
        return Some(
            "Vary names User-Agent, so a cache needs a copy for nearly every browser. Leave it out, and let style \
             sheets adapt the page."
                .to_owned(),
        );
    }
    has(names::COOKIE).then(|| {
        "Vary names Cookie. Petasos still shares the page among visitors without meaningful cookies, because it \
         never forwards their cookies."
            .to_owned()
    })
}

/// Hints from the comparison of contents.
fn content_hints(findings: &Findings) -> Vec<String> {
    let mut hints = Vec::new();
    let change = |name: &str| findings.changes.iter().find(|change| change.request == name);
    let may_be_shared = findings.verdict.cacheable != Cacheable::No;
    let again = change("plain_again");
    if again.is_some_and(|again| again.spots.iter().any(|spot| spot.looks_like == SpotNature::FormToken)) {
        hints.push(
            "The page has a form token that is new each time. In a shared page, every visitor gets the same token \
             while the page is stored. Store the page for less time than the token is valid, or fetch the token by \
             script."
                .to_owned(),
        );
    } else if may_be_shared && again.is_some_and(|again| again.result == ResponseSameness::Different) {
        hints.push(
            "Two requests got two different pages. If each visitor should see a different page, do not share it."
                .to_owned(),
        );
    }
    let differs = |change: &ProbeDifference| {
        matches!(
            change.result,
            ResponseSameness::Spots | ResponseSameness::Different | ResponseSameness::OtherAnswer
        )
    };
    if change("noise_cookies").is_some_and(differs) {
        hints.push(
            "Cookies of audience measurement or of a consent banner change the page. Petasos does not forward cookies \
             of audience measurement, so its visitors get the page without them."
                .to_owned(),
        );
    }
    if change("unknown_cookie").is_some_and(differs) {
        hints.push(
            "A cookie that no application knows changes the page. Find the code that reads all cookies."
                .to_owned(),
        );
    }
    if change("noise_parameters").is_some_and(|change| change.result == ResponseSameness::OtherAnswer) {
        hints.push(
            "Parameters of advertisements change the response, so visitors of advertisements get another page."
                .to_owned(),
        );
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn location_is_quoted_for_a_shell() {
        assert_eq!(command("https://a.test/b-c?d=1"), "petasos why --direct 'https://a.test/b-c?d=1'");
        assert_eq!(command("https://a.test:8080/b_c/"), "petasos why --direct https://a.test:8080/b_c/");
        for hostile in ["https://a/;reboot", "https://a/$(reboot)", "https://a/'&reboot&'", "https://a/`x`"] {
            let command = command(hostile);
            let quoted = command.strip_prefix("petasos why --direct '").unwrap().strip_suffix('\'').unwrap();
            assert!(!quoted.contains('\''), "{command}");
        }
    }
}
