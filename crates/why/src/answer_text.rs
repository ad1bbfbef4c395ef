//! Formats a running edge's answer as text for a terminal of 80 columns.
//!
//! Invariant: the edge's statements come first and are not changed. The software of a cookie and
//! the advice about it come from the same tables as for other sites.

use crate::lines::{TextLines, bytes_text, seconds_text};
use address::HttpUrl;
use api::why::{Cause, FormAnswer, KeyAnswer, OriginDemand, SiteAnswer, StoredAnswer, WhyReply};
use difference::is_hidden;
use profiles::{AUTO, CookiePurpose, Policy, known_cookie};
use semantics::is_static_path;

/// Column where the text beside the labels begins.
const FACTS_COLUMN: usize = 13;

/// Formats the answer about `url` as text.
pub fn answer_text(url: &HttpUrl, answer: &WhyReply) -> String {
    let mut lines = TextLines::default();
    lines.paragraph(0, &url.to_string());
    lines.gap();
    lines.paragraph(0, &format!("{}: {}", answer.verdict.to_uppercase(), answer.reason));
    lines.paragraph(2, &answer.advice);
    if let Some(cause) = &answer.culprit {
        culprit(&mut lines, answer, cause);
    }
    lines.gap();
    asks(&mut lines, answer);
    store(&mut lines, url, answer);
    if let Some(key) = &answer.key {
        key_facts(&mut lines, url, key);
    }
    if let Some(site) = &answer.site {
        let text = format!("{}, profile {}, origin {}", site.name, profile(site), site.origin);
        fact(&mut lines, "site", &text);
        if let Some(uncompressed) = &site.uncompressed {
            fact(&mut lines, "coding", uncompressed);
        }
    }
    lines.into_text()
}

/// The profile as configured, and the detected one for `auto`.
fn profile(site: &SiteAnswer) -> String {
    match &site.recognised_by {
        Some(signs) => {
            let since = site.recognised_since.as_ref().map(|since| format!(", since {since}"));
            format!("{} ({}, by {signs}{})", site.profile, site.rules, since.unwrap_or_default())
        }
        None if site.profile == AUTO => format!("{AUTO} ({} so far)", site.rules),
        None => site.profile.clone(),
    }
}

fn fact(lines: &mut TextLines, label: &str, text: &str) {
    lines.labelled(2, label, FACTS_COLUMN, text);
}

/// The cause, and the known facts about it.
fn culprit(lines: &mut TextLines, answer: &WhyReply, cause: &Cause) {
    lines.gap();
    let row = if cause.kind == "cookie" { known_cookie(cause.name.as_bytes()) } else { None };
    let whose = row.map_or_else(String::new, |row| format!(" ({}, {})", row.software, row.purpose.name()));
    let is_set = answer.reason == "store-refused-set-cookie";
    let what = match cause.kind.as_str() {
        "cookie" if is_set => "Set-Cookie:".to_owned(),
        kind => format!("the {kind}"),
    };
    fact(lines, "culprit", &format!("{what} {}{whose}", cause.name));
    match row {
        Some(row) if is_set => {
            fact(lines, "to do", row.remedy);
            // A token in the page works only with its cookie. So the cookie must not be stripped
            // from a page that is shared with the token.
            if row.purpose != CookiePurpose::FormToken
                && let Some(setting) = setting(answer, cause)
            {
                fact(lines, "or", &setting);
            }
        }
        _ => {
            for setting in [static_path(answer), setting(answer, cause)].into_iter().flatten() {
                fact(lines, "to do", &setting);
            }
        }
    }
}

/// The setting for a file whose response does not prove that it is static, or that varies by
/// cookie.
fn static_path(answer: &WhyReply) -> Option<String> {
    let is_by_cookie = ["pass-cookie", "pass-unknown-cookie"].contains(&answer.reason.as_str());
    let target = &answer.key.as_ref()?.target;
    if !is_by_cookie || !is_static_path(target.as_bytes(), &Policy::default_profile()) {
        return None;
    }
    let path = target.split('?').next()?;
    let folder = path.get(..=path.rfind('/')?)?;
    let paths = if folder == "/" { path.to_owned() } else { format!("{folder}*") };
    Some(format!(
        "The path is that of a static file, but the response does not prove that it is one. If no cookie changes \
         it, set static_paths = [\"{paths}\"] for the site."
    ))
}

/// The setting with which the request would be looked up or the response stored.
fn setting(answer: &WhyReply, cause: &Cause) -> Option<String> {
    // The application or a client chose the name; in a list, these signs would end the text.
    let is_plain = !cause.name.contains(['"', '\\']) && !cause.name.chars().any(is_hidden);
    let key = match answer.reason.as_str() {
        "pass-unknown-cookie" if is_plain => "noise_cookies",
        "pass-unknown-field" if is_plain => "noise_fields",
        "store-refused-set-cookie" if is_plain => {
            return Some(format!(
                "If every visitor gets this cookie and no page contains a token that belongs to it, set \
                 stripped_cookies = [\"{}\"] for the site.",
                cause.name
            ));
        }
        _ => return None,
    };
    Some(format!("If it never changes a page, set {key} = [\"{}\"] for the site.", cause.name))
}

/// The request to the origin, and the consequence if the origin fails.
fn asks(lines: &mut TextLines, answer: &WhyReply) {
    let text = match answer.asks {
        OriginDemand::Nothing => "no request",
        OriginDemand::Renewal => "a background refresh, for which this request does not wait",
        OriginDemand::Confirmation => {
            "a conditional request; if the stored response is still right, the verdict is hit-revalidated"
        }
        OriginDemand::Page => "a fetch whose response other requests may share",
        OriginDemand::OwnAnswer => "this request; its response is for this client alone",
    };
    fact(lines, "to origin", text);
    if answer.is_being_fetched {
        fact(lines, "", "a fetch of the page is in progress");
    }
    if let Some(context) = &answer.context {
        let text = match &context.name {
            Some(name) => format!("{name}; visitors with the same one share pages"),
            None if context.is_asked => "unknown; the next request asks the origin".to_owned(),
            None => "none".to_owned(),
        };
        fact(lines, "context", &text);
    }
    match &answer.if_origin_fails {
        Some(substitute) => {
            let text = format!("{} instead of an error: {}", substitute.verdict, substitute.reason);
            fact(lines, "on failure", &text);
        }
        None if answer.asks != OriginDemand::Nothing => fact(lines, "on failure", "an error"),
        None => {}
    }
}

/// The stored response, and the reason why the last response was not stored.
fn store(lines: &mut TextLines, url: &HttpUrl, answer: &WhyReply) {
    match &answer.stored {
        Some(stored) if answer.verdict == "pass" => {
            let text = format!("for others: {}, {}", stored.status, bytes_text(stored.content_bytes));
            fact(lines, "stored", &text);
        }
        Some(stored) => stored_facts(lines, url, stored),
        None if answer.other_variants_only => fact(lines, "stored", "other variants only"),
        None => fact(lines, "stored", "nothing"),
    }
    if let Some(remembered) =
        answer.remembered.as_ref().filter(|remembered| remembered.reason != answer.reason)
    {
        let cause = remembered.culprit.as_ref();
        let cause = cause.map_or_else(String::new, |cause| format!(" (the {} {})", cause.kind, cause.name));
        fact(lines, "last time", &format!("{}{cause}: {}", remembered.reason, remembered.advice));
    }
}

/// Whether a redirect leads to the URL in question.
fn leads_to_itself(url: &HttpUrl, location: &str) -> bool {
    let target = url.join(location).unwrap_or_else(|| location.to_owned());
    target == url.to_string()
}

fn stored_facts(lines: &mut TextLines, url: &HttpUrl, stored: &StoredAnswer) {
    let part = if stored.is_part { " of a part of the content" } else { "" };
    let size = bytes_text(stored.content_bytes);
    fact(lines, "stored", &format!("{}, {size}{part}, {} old", stored.status, seconds_text(stored.age_secs)));
    if !stored.forms.is_empty() {
        let form = |form: &FormAnswer| format!("{} ({})", form.coding, bytes_text(form.content_bytes));
        let forms: Vec<String> = stored.forms.iter().map(form).collect();
        fact(lines, "compressed", &forms.join(", "));
    }
    if let Some(template) = &stored.template {
        fact(lines, "template", template);
    }
    if let Some(location) = &stored.location {
        fact(lines, "leads to", location);
        if leads_to_itself(url, location) {
            fact(
                lines,
                "",
                "the application does not learn that the visitor uses https, and redirects for ever: set \
                 proto = \"https\", or list the proxy that speaks TLS in trusted_proxies",
            );
        }
    }
    let lifetime = seconds_text(stored.lifetime_secs);
    let left = match u64::try_from(stored.ttl_secs) {
        _ if stored.lifetime_secs == 0 => format!("no (lifetime {lifetime})"),
        Ok(left) if left > 0 => format!("for {} more (lifetime {lifetime})", seconds_text(left)),
        _ => format!("no (lifetime {lifetime}, ended {} ago)", seconds_text(stored.ttl_secs.unsigned_abs())),
    };
    fact(lines, "fresh", &left);
    if stored.is_validated_always {
        fact(lines, "", "the response says no-cache: Petasos asks the application before each use");
    }
    if stored.no_cache_overridden {
        fact(
            lines,
            "",
            "by the profile, although the response says no-cache; static_ttl_max limits this time",
        );
    }
    if stored.is_purged_softly {
        fact(lines, "", "a soft purge has made the response stale");
    }
    if let Some(sent) = &stored.sent_cache_control {
        let stated = stored.cache_control.as_deref().unwrap_or("nothing");
        let by = if sent.starts_with("max-age") { "browser_caching" } else { "the profile" };
        fact(lines, "sent", &format!("Cache-Control: {sent}, by {by}; the application says {stated}"));
    }
    if stored.stale_while_revalidate_secs > 0 {
        let text = format!(
            "for {} after its lifetime, during a refresh",
            seconds_text(stored.stale_while_revalidate_secs)
        );
        fact(lines, "stale", &text);
    }
    if stored.stale_if_error_secs > 0 {
        let why = if stored.stale_if_error_overrides {
            ", although the response forbids this (stale_on_error = \"override\")"
        } else {
            ""
        };
        let time = seconds_text(stored.stale_if_error_secs);
        fact(lines, "stale", &format!("for {time} after its lifetime, if the application fails{why}"));
    }
}

fn key_facts(lines: &mut TextLines, url: &HttpUrl, key: &KeyAnswer) {
    fact(lines, "key", &format!("{}://{}{}", key.scheme, key.host, key.target));
    if key.is_equivalent {
        fact(lines, "", "No-Vary-Search makes this page equivalent to the requested one");
    } else if key.target != url.path_and_query() {
        fact(lines, "", "the site's profile leaves out parts of the URL that do not change the page");
    }
    if !key.variant_fields.is_empty() {
        fact(lines, "varies by", &key.variant_fields.join(", "));
    }
    if url.is_https() && key.scheme == "http" {
        fact(
            lines,
            "",
            "the edge does not learn that visitors use https: set proto = \"https\", or list the proxy that speaks \
             TLS in trusted_proxies",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::answer_text;
    use crate::ANSWER_MEMBERS;
    use address::HttpUrl;
    use api::why::{
        Cause, ContextAnswer, FormAnswer, KeyAnswer, OriginDemand, RememberedAnswer, SiteAnswer,
        StoredAnswer, Substitute, WhyReply,
    };
    use std::collections::BTreeSet;

    fn cause(kind: &str, name: &str) -> Option<Cause> {
        Some(Cause { kind: kind.to_owned(), name: name.to_owned() })
    }

    /// The answer for a request with an unknown cookie, while the page is stored for others.
    fn answer() -> WhyReply {
        WhyReply {
            format: 1,
            verdict: "pass".to_owned(),
            reason: "pass-unknown-cookie".to_owned(),
            advice: "The request carries a cookie that the profile does not know.".to_owned(),
            asks: OriginDemand::OwnAnswer,
            culprit: cause("cookie", "theme"),
            site: Some(SiteAnswer {
                name: "any".to_owned(),
                profile: "auto".to_owned(),
                rules: "wordpress".to_owned(),
                recognised_by: Some("X-Redirect-By: WordPress".to_owned()),
                recognised_since: Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
                origin: "http://127.0.0.1:8000".to_owned(),
                uncompressed: None,
            }),
            key: Some(KeyAnswer {
                scheme: "http".to_owned(),
                host: "a.test".to_owned(),
                target: "/page".to_owned(),
                is_equivalent: false,
                variant_fields: vec!["accept-encoding".to_owned()],
            }),
            stored: Some(StoredAnswer {
                status: 200,
                content_bytes: 12_345,
                is_part: false,
                forms: vec![FormAnswer { coding: "br".to_owned(), content_bytes: 2_345 }],
                template: None,
                age_secs: 70,
                lifetime_secs: 60,
                ttl_secs: -10,
                stale_while_revalidate_secs: 30,
                stale_if_error_secs: 86_400,
                stale_if_error_overrides: true,
                is_validated_always: false,
                no_cache_overridden: false,
                is_purged_softly: false,
                location: None,
                cache_control: Some("s-maxage=60, max-age=0".to_owned()),
                sent_cache_control: Some("no-cache".to_owned()),
            }),
            other_variants_only: false,
            remembered: Some(RememberedAnswer {
                reason: "store-refused-set-cookie".to_owned(),
                advice: "The response sets a cookie.".to_owned(),
                culprit: cause("cookie", "PHPSESSID"),
            }),
            is_being_fetched: true,
            context: Some(ContextAnswer { name: Some("0badcafe".to_owned()), is_asked: false }),
            if_origin_fails: Some(Substitute {
                verdict: "stale".to_owned(),
                reason: "stale-on-error-override".to_owned(),
            }),
        }
    }

    #[test]
    fn the_answer_fits_a_terminal() {
        let url = HttpUrl::parse("https://a.test/page").unwrap();
        let passed = answer();
        let text = answer_text(&url, &passed);
        assert!(text.contains("stored     for others: 200, 12.3 kB"), "{text}");
        let missed = WhyReply {
            verdict: "miss".to_owned(),
            reason: "miss-expired".to_owned(),
            culprit: None,
            ..passed
        };
        let text = answer_text(&url, &missed);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn no_vary_search_is_named_only_where_it_decides() {
        let told = |is_equivalent| {
            let key = answer().key.map(|key| KeyAnswer { is_equivalent, ..key });
            answer_text(
                &HttpUrl::parse("https://a.test/page?utm_source=x").unwrap(),
                &WhyReply { key, ..answer() },
            )
        };
        assert!(told(true).contains("No-Vary-Search"));
        assert!(
            !told(false).contains("No-Vary-Search") && told(false).contains("the site's profile leaves out")
        );
    }

    #[test]
    fn redirect_to_the_page_itself_is_called_a_loop() {
        let told = |location: &str| {
            let stored = answer().stored.map(|stored| StoredAnswer {
                status: 301,
                location: Some(location.to_owned()),
                ..stored
            });
            let answer = WhyReply { verdict: "hit".to_owned(), stored, ..answer() };
            answer_text(&HttpUrl::parse("https://a.test/page").unwrap(), &answer)
        };
        assert!(told("https://a.test/page").contains("redirects for ever"));
        assert!(!told("https://a.test/other").contains("redirects for ever"));
    }

    #[test]
    fn profile_that_overrides_no_cache_is_named() {
        let told = |no_cache_overridden| {
            let stored = answer().stored.map(|stored| StoredAnswer { no_cache_overridden, ..stored });
            let answer = WhyReply { verdict: "hit".to_owned(), stored, ..answer() };
            answer_text(&HttpUrl::parse("https://a.test/static/a.css").unwrap(), &answer)
        };
        assert!(told(true).contains("by the profile, although the response says no-cache"));
        assert!(!told(false).contains("although the response says no-cache"));
    }

    #[test]
    fn refusal_names_the_plug_in_and_the_remedy() {
        let answer = WhyReply {
            verdict: "miss".to_owned(),
            reason: "store-refused-set-cookie".to_owned(),
            culprit: cause("cookie", "pll_language"),
            stored: None,
            ..answer()
        };
        let text = answer_text(&HttpUrl::parse("http://a.test/").unwrap(), &answer);
        assert!(text.contains("Set-Cookie: pll_language (Polylang, preference)"), "{text}");
        assert!(text.contains("PLL_COOKIE") && text.contains("stored     nothing"), "{text}");
    }

    #[test]
    fn stripping_is_suggested_for_a_cookie_set_for_everyone() {
        let text = |name: &str| {
            let reason = "store-refused-set-cookie".to_owned();
            let answer = WhyReply { reason, culprit: cause("cookie", name), ..answer() };
            let text = answer_text(&HttpUrl::parse("http://a.test/").unwrap(), &answer);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for name in ["PHPSESSID", "unknown"] {
            let words = format!("stripped_cookies = [\"{name}\"]");
            assert!(text(name).contains(&words), "{}", text(name));
        }
        for name in ["csrftoken", "a\"]\nadmin = \"[::]:80", "a\\"] {
            assert!(!text(name).contains("stripped_cookies"), "{}", text(name));
        }
    }

    #[test]
    fn static_path_is_suggested_for_a_file_with_cookies() {
        let mut answer =
            WhyReply { reason: "pass-cookie".to_owned(), culprit: cause("cookie", "PHPSESSID"), ..answer() };
        let url = HttpUrl::parse("http://a.test/").unwrap();
        let mut text = |target: &str| {
            answer.key.as_mut().unwrap().target = target.to_owned();
            answer_text(&url, &answer).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(text("/wiki/img/a.png?v=1").contains("static_paths = [\"/wiki/img/*\"]"));
        assert!(text("/a.css").contains("static_paths = [\"/a.css\"]"));
        assert!(!text("/account").contains("static_paths"));
    }

    #[test]
    fn reference_lists_exactly_the_members_of_the_answer() {
        fn paths(value: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
            match value {
                serde_json::Value::Object(members) => members.iter().for_each(|(name, value)| {
                    let dot = if path.is_empty() { "" } else { "." };
                    paths(value, &format!("{path}{dot}{name}"), found);
                }),
                serde_json::Value::Array(elements) => {
                    elements.iter().for_each(|element| paths(element, &format!("{path}[]"), found));
                }
                _ => drop(found.insert(path.to_owned())),
            }
        }
        let mut found = BTreeSet::new();
        paths(&serde_json::to_value(answer()).unwrap(), "", &mut found);
        let described: BTreeSet<_> = ANSWER_MEMBERS.iter().map(|(member, _)| (*member).to_owned()).collect();
        assert_eq!(found, described);
    }
}
