//! The cookies that a response sets, and the ones that keep it from being shared.
//!
//! Invariant: a cookie is removed from a response only if the policy declares it noise or stripped,
//! and the response is to be shared. Any other cookie keeps the response from being shared. Under a
//! policy that forwards everything, every cookie is meaningful.

use bytes::Bytes;
use message::{Fields, names};
use profiles::{Forwarding, Policy};

/// The `Set-Cookie` lines of a response whose cookies are not noise.
pub(crate) fn meaningful_cookies<'a>(
    response: &'a Fields,
    policy: &'a Policy,
) -> impl Iterator<Item = &'a Bytes> {
    response.all(names::SET_COOKIE).filter(|line| !is_noise(line, policy))
}

/// Removes noise cookies from a response to share. No page depends on them, and no
/// client may receive a cookie that was made for another one.
pub fn strip_noise_cookies(response: &mut Fields, policy: &Policy) {
    if response.has(names::SET_COOKIE) {
        response.retain(|field| !(field.is(names::SET_COOKIE) && is_noise(&field.value, policy)));
    }
}

/// The name of the cookie in a `Set-Cookie` line (RFC 6265 section 5.2).
pub(crate) fn set_cookie_name(line: &[u8]) -> &[u8] {
    line.split(|byte| b"=;".contains(byte)).next().unwrap_or_default().trim_ascii()
}

/// Whether the cookie is noise, or is removed by the operator from responses to fetches without
/// cookies.
fn is_noise(line: &[u8], policy: &Policy) -> bool {
    let name = set_cookie_name(line);
    let mut meaningless = policy.noise_cookies.iter().chain(&policy.stripped_cookies);
    policy.forwarding == Forwarding::Keyed && meaningless.any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::{meaningful_cookies, strip_noise_cookies};
    use message::Fields;
    use profiles::{Pattern, Policy};

    fn fields(lines: &[&'static str]) -> Fields {
        let mut fields = Fields::new();
        fields.push("Content-Type", "text/html");
        lines.iter().for_each(|line| fields.push("Set-Cookie", *line));
        fields
    }

    #[test]
    fn only_noise_cookies_are_removed() {
        let policy = Policy::wordpress();
        let mixed =
            ["_ga=1; path=/", "PHPSESSID=2", " pll_language =en; Secure", "_gatex=3", "x_ga=4", "session"];
        let mut response = fields(&mixed);
        let meaningful: Vec<_> = meaningful_cookies(&response, &policy).cloned().collect();
        assert_eq!(meaningful, ["PHPSESSID=2", "_gatex=3", "x_ga=4", "session"]);
        strip_noise_cookies(&mut response, &policy);
        assert_eq!(response.all("Set-Cookie").cloned().collect::<Vec<_>>(), meaningful);
        assert!(response.has("Content-Type"));
    }

    #[test]
    fn stripped_cookie_still_marks_a_session_in_requests() {
        let mut policy = Policy::default_profile();
        policy.stripped_cookies.push(Pattern::new("PHPSESSID"));
        let mut response = fields(&["PHPSESSID=1", "cart=2"]);
        assert_eq!(meaningful_cookies(&response, &policy).cloned().collect::<Vec<_>>(), ["cart=2"]);
        strip_noise_cookies(&mut response, &policy);
        assert_eq!(response.all("Set-Cookie").count(), 1);
        assert!(!policy.noise_cookies.iter().any(|noise| noise.matches(b"PHPSESSID")));
    }

    #[test]
    fn rfc_profile_has_no_noise_cookies() {
        let mut policy = Policy::rfc();
        policy.noise_cookies.push(Pattern::new("_ga"));
        let mut response = fields(&["_ga=1"]);
        strip_noise_cookies(&mut response, &policy);
        assert!(response.has("Set-Cookie") && meaningful_cookies(&response, &policy).count() == 1);
    }
}
