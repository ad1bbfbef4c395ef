//! The target without what only measures where a visitor came from.
//!
//! Invariant: what is taken out of a target is neither in the key nor forwarded on a fetch whose answer may be shared,
//! as both are made of the result. Only whole parameters that the policy names go; where a parameter may be read in
//! two ways, it stays.

use crate::{Policy, canonical_target};
use bytes::Bytes;
use std::borrow::Cow;

/// The target by which a page is known: `target` without the tracking parameters of the policy, in one spelling where
/// the policy says that the application treats all alike. Without anything to change it is the same octets, and
/// nothing was copied.
///
/// Parameters are told apart by `&` alone. An application may also split them at `;`, so one with a `;` in it stays.
pub fn keyed_target(target: &Bytes, policy: &Policy) -> Bytes {
    let kept = untracked(target, policy);
    if !policy.equal_spellings {
        return kept;
    }
    match canonical_target(&kept) {
        Cow::Owned(canonical) => Bytes::from(canonical),
        Cow::Borrowed(_) => kept,
    }
}

fn untracked(target: &Bytes, policy: &Policy) -> Bytes {
    let Some(mark) = target.iter().position(|&octet| octet == b'?') else { return target.clone() };
    let (path, query) = (target.slice(..mark), target.slice(mark + 1..));
    let is_tracking = |parameter: &&[u8]| {
        let name = parameter.split(|&octet| octet == b'=').next().unwrap_or_default();
        !parameter.contains(&b';') && policy.tracking_parameters.iter().any(|pattern| pattern.matches(name))
    };
    let parameters = || query.split(|&octet| octet == b'&');
    if !parameters().any(|parameter| is_tracking(&parameter)) {
        return target.clone();
    }
    let kept: Vec<&[u8]> = parameters().filter(|parameter| !is_tracking(parameter)).collect();
    if kept.is_empty() {
        return path;
    }
    Bytes::from([&path[..], b"?", &kept.join(&b'&')].concat())
}

#[cfg(test)]
mod tests {
    use super::keyed_target;
    use crate::Policy;
    use bytes::Bytes;

    #[test]
    fn tracking_parameters_go_and_nothing_else_does() {
        let policy = Policy::default_profile();
        for (target, expected) in [
            ("/", "/"),
            ("/a?b=1&c=2", "/a?b=1&c=2"),
            ("/?", "/?"),
            ("/?utm_source=x", "/"),
            ("/a?utm_source=x&utm_medium=y&b=1&fbclid=z", "/a?b=1"),
            ("/a?b=1&gclid=x&c=2", "/a?b=1&c=2"),
            ("/a?gclid&b", "/a?b"),
            ("/a?b=utm_source&c=?utm_source=1", "/a?b=utm_source&c=?utm_source=1"),
            ("/a?&utm_term=1&", "/a?&"),
            // A path may look like anything.
            ("/utm_source=1", "/utm_source=1"),
            ("/a&utm_source=1?b", "/a&utm_source=1?b"),
            // To some applications this is two parameters.
            ("/a?utm_source=x;id=5", "/a?utm_source=x;id=5"),
            ("/a?id=5;utm_source=x&utm_term=1", "/a?id=5;utm_source=x"),
            // Not the name, as it stands.
            ("/a?my_utm_source=1&xfbclid=2&utm%5Fsource=3", "/a?my_utm_source=1&xfbclid=2&utm%5Fsource=3"),
        ] {
            let target = Bytes::from_static(target.as_bytes());
            assert_eq!(keyed_target(&target, &policy), expected, "{target:?}");
            assert_eq!(keyed_target(&target, &Policy::rfc()), target);
        }
    }
}
