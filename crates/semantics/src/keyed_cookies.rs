//! Cookies that tell pages apart: in the key, forwarded, and nothing else of the visitor's cookies with them.
//!
//! Invariant: what is compared and what is forwarded are the same octets, those cookies alone, in the policy's order. A
//! request that carries one of them twice could mean either, and is not shared; nor is a response that sets one.

use crate::Policy;
use crate::devices::{has_classes, shared_user_agent};
use crate::selecting::says_nothing;
use bytes::Bytes;
use message::{Field, Fields, RequestHead, names};

/// The request as it is looked up and shared, if that is not as it was sent: without fields that say nothing; where the
/// policy has cookies in its keys or the request is looked up `without_cookies`, with the cookies of its key only;
/// where pages differ by class of device, with the constant of its class.
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

/// The cookies of a request that are in its key, as a `Cookie` line; `None` if it has none of them.
pub(crate) fn keyed_cookies(fields: &Fields, policy: &Policy) -> Option<Bytes> {
    let pair = |name: &String| pairs(fields).find(|pair| name_of(pair) == name.as_bytes());
    let found: Vec<&[u8]> = policy.keyed_cookies.iter().filter_map(pair).collect();
    (!found.is_empty()).then(|| Bytes::from(found.join(&b"; "[..])))
}

/// The names of the cookies of a request that are not in its key.
pub fn other_cookies<'a>(fields: &'a Fields, policy: &'a Policy) -> impl Iterator<Item = &'a [u8]> {
    pairs(fields).map(name_of).filter(|name| !name.is_empty() && !is_keyed(name, policy))
}

/// Whether a cookie of this name is in the key. Names of cookies are told apart by case.
pub(crate) fn is_keyed(name: &[u8], policy: &Policy) -> bool {
    policy.keyed_cookies.iter().any(|keyed| keyed.as_bytes() == name)
}

/// The cookie in the key that the request carries more than once.
pub(crate) fn repeated<'a>(fields: &'a Fields, policy: &Policy) -> Option<&'a [u8]> {
    let names = |name: &[u8]| pairs(fields).filter(|pair| name_of(pair) == name).count();
    pairs(fields).map(name_of).find(|name| is_keyed(name, policy) && names(name) > 1)
}

/// Split at every semicolon, quoted or not, as every application does at least.
fn pairs(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    fields.all(names::COOKIE).flat_map(|line| line.split(|&octet| octet == b';')).map(<[u8]>::trim_ascii)
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|&octet| octet == b'=').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::{looked_up_head, other_cookies};
    use crate::{Policy, Reason, RequestClass, VaryRule, classify_request, shared_fields};
    use message::{Fields, Method, RequestHead, Version};

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

    /// The variant of a request with this cookie, and the cookie that is forwarded for it.
    fn variant(cookie: &str) -> (Vec<u8>, Option<String>) {
        let (policy, sent) = (policy(), request(cookie));
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
    fn a_variant_has_the_cookies_of_its_key_and_no_other() {
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
    fn other_cookies_are_those_that_no_key_has() {
        let policy = policy();
        let others = |cookie: &str| -> Vec<Vec<u8>> {
            other_cookies(&request(cookie).fields, &policy).map(<[u8]>::to_vec).collect()
        };
        assert_eq!(others("_ga=1; group=b;; =x; Currency=EUR; lang"), [&b"_ga"[..], b"lang"]);
        assert!(others("group=b").is_empty());
    }

    #[test]
    fn what_is_in_the_key_passes_for_nothing_else() {
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
