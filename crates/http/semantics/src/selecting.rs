//! Request fields that change the page although responses often do not name them in `Vary`. They
//! are `Origin`, and fields of scripts that ask for a part of a page.
//!
//! Invariant: these fields are sent on every fetch for a request that carries them, and are in the
//! key of the variant that the fetch returns. A request without such a field never receives that
//! variant, and a request with it receives no other one.

use crate::VaryRule;
use bytes::Bytes;
use message::{Field, Fields, RequestHead, names};
use profiles::{Forwarding, Policy};

/// The names of the fields. An operator may declare each of them noise, except the first.
const SELECTING: &[&str] = &[
    ORIGIN,
    "HX-Boosted",
    "HX-Current-URL",
    "HX-History-Restore-Request",
    "HX-Prompt",
    "HX-Request",
    "HX-Target",
    "HX-Trigger",
    "HX-Trigger-Name",
    "Service-Worker-Navigation-Preload",
    "Turbo-Frame",
    "X-Inertia",
    "X-Inertia-Partial-Component",
    "X-Inertia-Partial-Data",
    "X-Inertia-Version",
    "X-PJAX",
    "X-PJAX-Container",
    REQUESTED_WITH,
];

/// The site of a script that makes a request (RFC 6454).
pub(crate) const ORIGIN: &str = "Origin";

const REQUESTED_WITH: &str = "X-Requested-With";

/// One bit for each length that a name in the list has. Every lookup checks every field of the
/// request, so most names must be rejected quickly.
const LENGTHS: u64 = {
    let mut lengths = 0;
    let mut rest = SELECTING;
    while let [name, after @ ..] = rest {
        lengths |= 1 << name.len();
        rest = after;
    }
    lengths
};

/// One bit for each initial letter of a name in the list, for the same reason.
const INITIALS: u32 = {
    let mut initials = 0;
    let mut rest = SELECTING;
    while let [name, after @ ..] = rest {
        initials |= initial(name.as_bytes());
        rest = after;
    }
    initials
};

/// The bit of the first letter of `name`, in either case.
const fn initial(name: &[u8]) -> u32 {
    match name {
        [first, ..] if first.is_ascii_alphabetic() => 1 << (first.to_ascii_lowercase() - b'a'),
        _ => 0,
    }
}

/// Whether the field called `name` selects a variant whatever `Vary` says.
pub fn is_selecting(name: &[u8]) -> bool {
    // A shift by 64 or more would overflow. No name in the list is that long.
    name.len() < 64
        && LENGTHS >> name.len() & 1 == 1
        && INITIALS & initial(name) != 0
        && SELECTING.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The rule that selects on the fields of the list that the looked-up request carries. Under a
/// policy that forwards everything the rule is empty, because there the response's `Vary` alone
/// selects.
pub fn selecting_rule(fields: &Fields, policy: &Policy) -> VaryRule {
    if policy.forwarding == Forwarding::Everything {
        return VaryRule::of_names(Vec::new(), true);
    }
    let selecting = fields.iter().filter(|field| is_selecting(&field.name));
    VaryRule::of_names(selecting.map(|field| Bytes::from(field.name.to_ascii_lowercase())).collect(), false)
}

/// Whether the request carries a field of the list, but not of `names`.
pub(crate) fn is_beyond(fields: &Fields, names: &[Bytes]) -> bool {
    fields.iter().any(|field| {
        is_selecting(&field.name) && !names.iter().any(|name| name.eq_ignore_ascii_case(&field.name))
    })
}

/// Whether the field is in the list but has no meaning for this request. This holds if the operator
/// declared it noise, or if `Origin` names the site itself. It also holds if `X-Requested-With`
/// names an app, as embedded browsers send it.
pub(crate) fn says_nothing(field: &Field, fields: &Fields, policy: &Policy) -> bool {
    if policy.forwarding == Forwarding::Everything || !is_selecting(&field.name) {
        return false;
    }
    if field.is(ORIGIN) {
        return is_own_origin(&field.value, fields);
    }
    let names_an_app = field.is(REQUESTED_WITH) && !field.value.eq_ignore_ascii_case(b"XMLHttpRequest");
    names_an_app || policy.noise_fields.iter().any(|noise| noise.matches(&field.name))
}

/// The head without `Origin`; `None` if it has none.
pub fn without_origin(head: &RequestHead) -> Option<RequestHead> {
    head.fields.has(ORIGIN).then(|| {
        let mut head = head.clone();
        head.fields.remove(ORIGIN);
        head
    })
}

/// Whether `Origin` names the host that the request is sent to, with either scheme.
fn is_own_origin(origin: &[u8], fields: &Fields) -> bool {
    let Some(host) = fields.first(names::HOST) else { return false };
    let authority = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::{SELECTING, is_selecting, selecting_rule};
    use crate::{VaryRule, looked_up_head, shared_fields};
    use message::{Fields, Method, RequestHead, Version};
    use profiles::{Pattern, Policy};

    fn request(lines: &[(&'static str, &'static str)]) -> RequestHead {
        let mut fields: Fields = lines.iter().copied().collect();
        fields.push("Host", "example.org");
        RequestHead { method: Method::Get, target: "/".into(), version: Version::Http11, fields }
    }

    fn looked_up(lines: &[(&'static str, &'static str)], policy: &Policy) -> Vec<String> {
        let head = request(lines);
        let head = looked_up_head(&head, policy, false).unwrap_or(head);
        selecting_rule(&head.fields, policy)
            .names()
            .iter()
            .map(|name| name.escape_ascii().to_string())
            .collect()
    }

    #[test]
    fn names_are_found_in_any_case_and_others_are_not() {
        for name in SELECTING {
            assert!(is_selecting(name.to_ascii_lowercase().as_bytes()), "{name}");
        }
        assert!(!is_selecting(b"Accept") && !is_selecting(b"") && !is_selecting(&[b'a'; 300]));
    }

    #[test]
    fn fields_without_meaning_select_nothing() {
        let mut policy = Policy::default_profile();
        assert_eq!(
            looked_up(&[("Origin", "https://example.org"), ("X-Requested-With", "org.app")], &policy),
            [""; 0]
        );
        let said = [("Origin", "null"), ("X-Requested-With", "xmlhttprequest"), ("HX-Request", "true")];
        assert_eq!(looked_up(&said, &policy), ["hx-request", "origin", "x-requested-with"]);
        policy.noise_fields.push(Pattern::new("HX-*"));
        policy.noise_fields.push(Pattern::new("Origin"));
        assert_eq!(looked_up(&said, &policy), ["origin", "x-requested-with"]);
    }

    #[test]
    fn variant_of_a_selecting_field_is_for_its_value_alone() {
        let policy = Policy::default_profile();
        let asked = request(&[("Origin", "https://a.example")]);
        let rule = selecting_rule(&asked.fields, &policy);
        let sent = shared_fields(&asked.fields, &VaryRule::default(), &policy);
        assert_eq!(sent.first("Origin").map(|value| &value[..]), Some(&b"https://a.example"[..]));
        let key = rule.key(&sent);
        assert!(rule.matches(&asked.fields, &key));
        assert!(!rule.matches(&request(&[("Origin", "https://b.example")]).fields, &key));
        assert!(!rule.matches(&request(&[]).fields, &key));
    }

    #[test]
    fn commas_in_a_selecting_field_are_kept() {
        let policy = Policy::default_profile();
        let asked = request(&[("HX-Current-URL", "http://a/?x=1,,2"), ("HX-Prompt", "a,b")]);
        let sent = shared_fields(&asked.fields, &selecting_rule(&asked.fields, &policy), &policy);
        let value = |name| sent.first(name).map(|value| value.escape_ascii().to_string());
        assert_eq!(value("HX-Current-URL").as_deref(), Some("http://a/?x=1,,2"));
        assert_eq!(value("HX-Prompt").as_deref(), Some("a,b"));
    }

    #[test]
    fn page_without_a_selecting_field_is_not_for_requests_with_one() {
        let plain = request(&[]);
        let rule = VaryRule::default();
        let key = rule.key(&plain.fields);
        assert!(rule.matches(&plain.fields, &key));
        assert!(!rule.matches(&request(&[("HX-Request", "true")]).fields, &key));
    }
}
