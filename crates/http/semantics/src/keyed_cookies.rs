//! Keyed cookies: cookies that tell pages apart. They are in the key and are forwarded; no other
//! cookie of the client is forwarded with them.
//!
//! Invariant: the same bytes are compared and forwarded. They consist of the keyed cookies alone,
//! in the policy's order. A request with the same keyed cookie twice is ambiguous and is not
//! shared. A response that sets a keyed cookie is not shared either.

use crate::devices::{has_classes, shared_user_agent};
use crate::selecting::says_nothing;
use bytes::Bytes;
use message::{Field, Fields, RequestHead, names};
use profiles::Policy;

/// The request for the look-up and the shared fetch; `None` if it is the request as sent.
///
/// Three changes are possible:
///
/// - Fields that mean nothing are removed.
/// - Cookies are reduced to the keyed ones, if the policy has keyed cookies or the request is
///   looked up `without_cookies`.
/// - `User-Agent` is replaced by the constant of its device class, if pages differ by device class.
pub fn looked_up_head(request: &RequestHead, policy: &Policy, without_cookies: bool) -> Option<RequestHead> {
    let is_reduced =
        (without_cookies || !policy.keyed_cookies.is_empty()) && request.fields.has(names::COOKIE);
    let is_empty = |field: &Field| says_nothing(field, &request.fields, policy);
    if !is_reduced && !has_classes(policy) && !request.fields.iter().any(is_empty) {
        return None;
    }
    let sent = request;
    let mut request = request.clone();
    request.fields.retain(|field| !says_nothing(field, &sent.fields, policy));
    if has_classes(policy) {
        let agent = shared_user_agent(&request.fields, policy);
        request.fields.set(names::USER_AGENT, agent);
    }
    if !is_reduced {
        return Some(request);
    }
    let keyed = keyed_cookies(&request.fields, policy);
    request.fields.remove(names::COOKIE);
    if let Some(keyed) = keyed {
        request.fields.push(names::COOKIE, keyed);
    }
    Some(request)
}

/// The keyed cookies of a request as one `Cookie` line; `None` if it has none of them.
pub(crate) fn keyed_cookies(fields: &Fields, policy: &Policy) -> Option<Bytes> {
    let pair = |name: &String| pairs(fields).find(|pair| name_of(pair) == name.as_bytes());
    let found: Vec<&[u8]> = policy.keyed_cookies.iter().filter_map(pair).collect();
    (!found.is_empty()).then(|| Bytes::from(found.join(&b"; "[..])))
}

/// The names of the cookies of a request that are not keyed.
pub fn other_cookies<'a>(fields: &'a Fields, policy: &'a Policy) -> impl Iterator<Item = &'a [u8]> {
    pairs(fields).map(name_of).filter(|name| !name.is_empty() && !is_keyed(name, policy))
}

/// Whether a cookie of this name is keyed. Names of cookies are case-sensitive.
pub(crate) fn is_keyed(name: &[u8], policy: &Policy) -> bool {
    policy.keyed_cookies.iter().any(|keyed| keyed.as_bytes() == name)
}

/// A keyed cookie that the request carries more than once.
pub(crate) fn repeated<'a>(fields: &'a Fields, policy: &Policy) -> Option<&'a [u8]> {
    let names = |name: &[u8]| pairs(fields).filter(|pair| name_of(pair) == name).count();
    pairs(fields).map(name_of).find(|name| is_keyed(name, policy) && names(name) > 1)
}

/// The cookies, split at every semicolon, even inside quotes. Every application splits at least
/// there.
fn pairs(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    fields.all(names::COOKIE).flat_map(|line| line.split(|&octet| octet == b';')).map(<[u8]>::trim_ascii)
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|&octet| octet == b'=').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::{looked_up_head, other_cookies};
    use crate::{Reason, RequestClass, VaryRule, classify_request, shared_fields};
    use message::{Fields, Method, RequestHead, Version};
    use profiles::Policy;

    fn policy() -> Policy {
        Policy { keyed_cookies: vec!["Currency".to_owned(), "group".to_owned()], ..Policy::default_profile() }
    }

    fn request(cookie: &str) -> RequestHead {
        let mut fields = Fields::new();
        if !cookie.is_empty() {
            fields.push("Cookie", cookie.to_owned());
        }
        RequestHead { method: Method::Get, target: "/".into(), version: Version::Http11, fields }
    }

    /// The variant key of a request with this cookie line, and the forwarded cookie line.
    fn variant(cookie: &str) -> (Vec<u8>, Option<String>) {
        let policy = policy();
        let sent = request(cookie);
        let head = looked_up_head(&sent, &policy, false).unwrap_or(sent);
        let rule = VaryRule::from_response(&Fields::new(), &policy).unwrap();
        let forwarded = shared_fields(&head.fields, &VaryRule::default(), &policy);
        assert_eq!(rule.key(&forwarded), rule.key(&head.fields), "{cookie}");
        assert_eq!(shared_fields(&head.fields, &rule, &policy), forwarded, "{cookie}");
        assert_eq!(
            shared_fields(&request(cookie).fields, &rule, &policy).first("Cookie"),
            forwarded.first("Cookie")
        );
        let line = forwarded.first("Cookie").map(|line| line.escape_ascii().to_string());
        (rule.key(&head.fields).octets().to_vec(), line)
    }

    #[test]
    fn variant_has_exactly_its_keyed_cookies() {
        assert_eq!(variant("_ga=1; group=b; Currency=EUR").1.as_deref(), Some("Currency=EUR; group=b"));
        assert_eq!(variant("group=b;Currency=EUR"), variant("Currency=EUR; _ga=2; group=b"));
        assert_eq!(variant("_ga=1"), variant(""));
        assert_eq!(variant("currency=EUR").1, None, "another cookie");
        let all = [
            "",
            "group=b",
            "Currency=b",
            "group=c",
            "Currency=EUR; group=b",
            "group=",
            "group=b,c",
            "group=b, c",
        ];
        for (place, one) in all.iter().enumerate() {
            for other in &all[place + 1..] {
                assert_ne!(variant(one).0, variant(other).0, "{one} {other}");
            }
        }
    }

    #[test]
    fn other_cookies_are_those_outside_the_key() {
        let policy = policy();
        let others = |cookie: &str| -> Vec<Vec<u8>> {
            other_cookies(&request(cookie).fields, &policy).map(<[u8]>::to_vec).collect()
        };
        assert_eq!(others("_ga=1; group=b;; =x; Currency=EUR; lang"), [&b"_ga"[..], b"lang"]);
        assert!(others("group=b").is_empty());
    }

    #[test]
    fn keyed_cookie_is_neither_session_nor_unknown() {
        let passes = |cookie: &str| match classify_request(&request(cookie), false, &policy()) {
            RequestClass::LookupStatic { otherwise: reason, .. } | RequestClass::Pass(reason) => Some(reason),
            RequestClass::Lookup(_) => None,
        };
        assert_eq!(passes("Currency=EUR; group=b; _ga=1"), None);
        assert_eq!(passes("Currency=EUR; theme=1"), Some(Reason::PassUnknownCookie));
        assert_eq!(passes("Currency=EUR; sessionid=1"), Some(Reason::PassCookie));
        assert_eq!(passes("currency=EUR"), Some(Reason::PassUnknownCookie));
        assert_eq!(passes("group=b; _ga=1; group=c"), Some(Reason::PassCookie));
    }
}
