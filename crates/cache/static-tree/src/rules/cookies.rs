//! Cookies with which a request is not answered from the tree.
//!
//! Invariant: a cookie that makes a request pass at the edge also keeps it from the tree.

use profiles::{Pattern, Policy, UnknownCookie};

/// A regular expression, to be matched without case, that finds such a cookie in the field
/// `Cookie`.
pub(super) fn regex(policy: &Policy) -> String {
    let any_of = |patterns: &[Pattern]| patterns.iter().map(glob_regex).collect::<Vec<_>>().join("|");
    let noise = match &policy.noise_cookies[..] {
        [] => String::new(),
        noise => format!("(?!(?:{})=)", any_of(noise)),
    };
    let start = format!("(?:^|;)[ \\t]*{noise}");
    match policy.unknown_cookie {
        UnknownCookie::Pass => format!("{start}[^; \\t]"),
        // A policy without session cookies excludes no request: this expression never matches.
        UnknownCookie::Ignore if policy.session_cookies.is_empty() => "(?!)".to_owned(),
        UnknownCookie::Ignore => format!("{start}(?:{})=", any_of(&policy.session_cookies)),
    }
}

fn glob_regex(pattern: &Pattern) -> String {
    let special = |character: char| !character.is_ascii_alphanumeric() && !matches!(character, '_' | '-');
    let part = |character| match character {
        '*' => "[^;=]*".to_owned(),
        other if special(other) => format!("[{other}]"),
        other => other.to_string(),
    };
    pattern.to_string().chars().map(part).collect()
}

/// Lua patterns for lower-case cookie names: those of noise cookies, and those of session cookies.
///
/// The second list is `None` if every cookie that is not noise keeps a request from the tree.
pub(super) fn lua(policy: &Policy) -> (Vec<String>, Option<Vec<String>>) {
    let all = |patterns: &[Pattern]| patterns.iter().map(glob_lua).collect();
    let session = (policy.unknown_cookie == UnknownCookie::Ignore).then(|| all(&policy.session_cookies));
    (all(&policy.noise_cookies), session)
}

fn glob_lua(pattern: &Pattern) -> String {
    let part = |character: char| match character {
        '*' => ".*".to_owned(),
        other if other.is_ascii_alphanumeric() => other.to_string(),
        other => format!("%{other}"),
    };
    format!("^{}$", pattern.to_string().chars().map(part).collect::<String>())
}
