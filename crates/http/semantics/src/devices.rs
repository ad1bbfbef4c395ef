//! Device classes, which receive different pages.
//!
//! Invariant: the class is the only part of `User-Agent` in the key. On a shared fetch, only the
//! constant of the class is forwarded. No browser therefore chooses the page that other browsers of
//! its class receive.

use message::{Fields, names};
use profiles::{DeviceClass, Forwarding, Policy};

/// The `User-Agent` of a fetch whose response may be shared.
pub const SHARED_USER_AGENT: &str = "Mozilla/5.0 (compatible; Petasos)";

/// The `User-Agent` of a fetch whose response is shared among mobile devices. It contains the words
/// that WordPress and common libraries look for in a telephone's field.
pub const SHARED_MOBILE_USER_AGENT: &str = "Mozilla/5.0 (Linux; Android 10; Mobile; compatible; Petasos)";

/// The words that WordPress' `wp_is_mobile` looks for in a mobile device's field.
const MOBILE_WORDS: [&str; 7] =
    ["Mobile", "Android", "Silk/", "Kindle", "BlackBerry", "Opera Mini", "Opera Mobi"];

/// Whether pages differ by device class.
pub(crate) fn has_classes(policy: &Policy) -> bool {
    policy.device_class != DeviceClass::None && policy.forwarding == Forwarding::Keyed
}

/// The constant of the device class of a request.
pub(crate) fn shared_user_agent(fields: &Fields, policy: &Policy) -> &'static str {
    let agent = fields.first(names::USER_AGENT).map_or(&[][..], |agent| agent);
    let has = |word: &&str| agent.windows(word.len()).any(|part| part == word.as_bytes());
    if has_classes(policy) && MOBILE_WORDS.iter().any(has) {
        SHARED_MOBILE_USER_AGENT
    } else {
        SHARED_USER_AGENT
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARED_MOBILE_USER_AGENT, shared_user_agent};
    use crate::{SHARED_USER_AGENT, VaryRule, looked_up_head, shared_fields};
    use message::{Fields, Method, RequestHead, Version};
    use profiles::{DeviceClass, Policy};

    const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148";
    const TABLET: &str = "Mozilla/5.0 (Linux; Android 14; Tablet)";
    const DESKTOP: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

    fn request(agent: &'static str) -> RequestHead {
        let fields = [("Host", "a.test"), ("User-Agent", agent)].into_iter().collect();
        RequestHead { method: Method::Get, target: "/".into(), version: Version::Http11, fields }
    }

    #[test]
    fn device_class_is_keyed_and_its_constant_is_forwarded() {
        let policy = Policy { device_class: DeviceClass::Mobile, ..Policy::wordpress() };
        let rule = VaryRule::from_response(&Fields::new(), &policy).unwrap();
        for (agent, constant) in [
            (PHONE, SHARED_MOBILE_USER_AGENT),
            (TABLET, SHARED_MOBILE_USER_AGENT),
            (DESKTOP, SHARED_USER_AGENT),
        ] {
            let looked_up = looked_up_head(&request(agent), &policy, false).unwrap();
            for known in [&VaryRule::default(), &rule] {
                for head in [&request(agent), &looked_up] {
                    let forwarded = shared_fields(&head.fields, known, &policy);
                    assert_eq!(forwarded.only("User-Agent").unwrap(), constant, "{agent}");
                    assert_eq!(rule.key(&forwarded), rule.key(&looked_up.fields), "{agent}");
                }
            }
            assert_eq!(shared_user_agent(&looked_up.fields, &policy), constant, "a constant keeps its class");
        }
        let key = |agent| rule.key(&looked_up_head(&request(agent), &policy, false).unwrap().fields);
        assert_eq!(key(PHONE), key(TABLET));
        assert_ne!(key(PHONE), key(DESKTOP));
    }

    #[test]
    fn without_classes_every_device_gets_the_same_page() {
        let policy = Policy::wordpress();
        assert!(looked_up_head(&request(PHONE), &policy, false).is_none());
        let forwarded = shared_fields(&request(PHONE).fields, &VaryRule::default(), &policy);
        assert_eq!(forwarded.only("User-Agent").unwrap(), SHARED_USER_AGENT);
        assert!(VaryRule::from_response(&Fields::new(), &policy).unwrap().names().is_empty());
    }
}
