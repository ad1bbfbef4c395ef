//! Removes query parameters that only track where a visitor came from.
//!
//! Invariant: a removed parameter is neither in the key nor forwarded on a shared fetch, because
//! both use the resulting target. Only whole parameters that the policy names are removed. A
//! parameter that may be parsed in two ways stays.

use crate::{Policy, canonical_target};
use bytes::Bytes;
use std::borrow::Cow;

/// The target that identifies a page in the key: `target` without the policy's tracking parameters.
///
/// It is in its canonical spelling if the policy says that the application treats equivalent
/// spellings alike. If nothing changes, the result shares the bytes of `target` and nothing is
/// copied.
///
/// Parameters are separated by `&` alone. An application may separate them by `;` too, so a
/// parameter with a `;` in it stays.
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
    let path = target.slice(..mark);
    let query = target.slice(mark + 1..);
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
    fn only_tracking_parameters_are_removed() {
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
            // A path may contain any text.
            ("/utm_source=1", "/utm_source=1"),
            ("/a&utm_source=1?b", "/a&utm_source=1?b"),
            // Some applications read two parameters here.
            ("/a?utm_source=x;id=5", "/a?utm_source=x;id=5"),
            ("/a?id=5;utm_source=x&utm_term=1", "/a?id=5;utm_source=x"),
            // These names differ from the policy's patterns, compared byte by byte.
            ("/a?my_utm_source=1&xfbclid=2&utm%5Fsource=3", "/a?my_utm_source=1&xfbclid=2&utm%5Fsource=3"),
        ] {
            let target = Bytes::from_static(target.as_bytes());
            assert_eq!(keyed_target(&target, &policy), expected, "{target:?}");
            assert_eq!(keyed_target(&target, &Policy::rfc()), target);
        }
    }
}
