//! Settings that would have no effect: each becomes a problem with its place.

use crate::Diagnostic;
use crate::setting::SettingValue;
use document::Place;
use profiles::LETTER;
use semantics::is_void_declaration;

/// Settings about cookies, static files and compression that the profile `rfc` ignores, each with
/// the advice to the operator.
const UNUSED_BY_LETTER: [(&str, &str); 12] = [
    ("static_files", OF_COOKIES),
    ("static_paths", OF_COOKIES),
    ("browser_caching", OF_STATEMENTS),
    ("stripped_cookies", OF_COOKIES),
    ("logged_in", OF_COOKIES),
    (
        "static_ttl_max",
        "leave it out, or choose another profile: `rfc` assumes a tenth of the time since the last change for every \
         response that states no lifetime, and at most a day",
    ),
    ("compression.enabled", OF_CODINGS),
    ("compression.codings", OF_CODINGS),
    ("compression.types", OF_CODINGS),
    ("compression.size_min", OF_CODINGS),
    ("compression.size_max", OF_CODINGS),
    ("compression.misses", OF_CODINGS),
];
const OF_CODINGS: &str =
    "leave it out, or choose another profile: `rfc` forwards Accept-Encoding and sends what the origin sends";
const OF_STATEMENTS: &str =
    "leave it out, or choose another profile: `rfc` sends browsers what the application states";
const OF_COOKIES: &str =
    "leave it out, or choose another profile: `rfc` forwards every cookie and trusts the origin's response";

/// Finds the settings of one site that have no effect. `value` returns a setting if the operator
/// wrote it, and `place` returns where.
pub(crate) fn void_settings(
    profile: &str,
    value: impl Fn(&'static str) -> Option<SettingValue>,
    place: impl Fn(&'static str) -> Option<Place>,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for (key, forwarded) in [("noise_fields", false), ("forwarded_fields", true)] {
        let Some(SettingValue::Texts(names)) = value(key) else { continue };
        for name in names.iter().filter(|name| is_void_declaration(name, forwarded)) {
            let place = place(key).unwrap_or(Place::Default);
            let problem = Diagnostic::new(format!("`{key}` has no effect on `{name}`"), place);
            problems.push(problem.with_help(help(name, forwarded)));
        }
    }
    let has_ports = matches!(value("ports"), Some(SettingValue::Ports(ports)) if !ports.is_empty());
    if has_ports && value("host").is_some() {
        let place = place("ports").unwrap_or(Place::Default);
        let problem = Diagnostic::new("`ports` has no effect with `host`", place);
        problems.push(
            problem.with_help("leave `ports` out: Petasos stores all pages by the name and port in `host`"),
        );
    }
    let in_vain = |key: &'static str| match value(key) {
        Some(SettingValue::Switch(on)) => on,
        Some(SettingValue::Texts(names)) => !names.is_empty(),
        Some(SettingValue::Duration(_) | SettingValue::Size(_) | SettingValue::Text(_)) => true,
        _ => false,
    };
    let unused = if profile == LETTER { &UNUSED_BY_LETTER[..] } else { &[] };
    for (key, help) in unused.iter().copied().filter(|(key, _)| in_vain(key)) {
        let place = place(key).unwrap_or(Place::Default);
        let problem = Diagnostic::new(format!("`{key}` has no effect with the profile `rfc`"), place);
        problems.push(problem.with_help(help));
    }
    problems
}

/// The advice for a header field on which `noise_fields` or `forwarded_fields` has no effect.
/// `forwarded` is true for `forwarded_fields`.
fn help(name: &str, forwarded: bool) -> &'static str {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if is("Origin") {
        return "leave it out: each Origin has its own variant, unless the response without one says \
                Access-Control-Allow-Origin: *";
    }
    if is("Accept") {
        return "leave it out: a client that accepts only some types gets a stored response of one of these types";
    }
    if is("Cookie") {
        return "name the cookies in noise_cookies";
    }
    if forwarded {
        "leave it out: Petasos forwards the field only if it is in the key, or writes it itself"
    } else {
        "leave it out: Petasos knows the field, and a response to it may be for one client only"
    }
}
