//! Query parameters that the application does not read, according to the policy.
//!
//! Invariant: a parameter is known only if its whole name, as PHP and others decode it, matches a
//! pattern of the policy. A parameter without a name is unknown, so no variation of an empty query
//! gives a separate page.

use crate::spelling::percent_decoded;
use bytes::Bytes;
use profiles::Policy;

/// Whether the target has a parameter that the policy does not know.
pub fn has_unknown_parameters(target: &[u8], policy: &Policy) -> bool {
    let Some((_, query)) = split(target) else { return false };
    !query.is_empty() && parameters(query).any(|parameter| !is_known(parameter, policy))
}

/// The target without the parameters that the policy does not know.
pub fn without_unknown_parameters(target: &Bytes, policy: &Policy) -> Bytes {
    let Some((path, query)) = split(target) else { return target.clone() };
    let known: Vec<&[u8]> = parameters(query).filter(|parameter| is_known(parameter, policy)).collect();
    if known.is_empty() {
        return target.slice(..path.len());
    }
    Bytes::from([path, b"?", &known.join(&b'&')].concat())
}

fn split(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let mark = target.iter().position(|&byte| byte == b'?')?;
    let (path, query) = target.split_at(mark);
    Some((path, query.get(1..).unwrap_or_default()))
}

fn parameters(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    query.split(|&byte| byte == b'&')
}

/// Whether the policy lists the parameter. Like PHP, it takes `tag[]=a` and `tag[x]=a` for `tag`.
fn is_known(parameter: &[u8], policy: &Policy) -> bool {
    let name = percent_decoded(parameter.split(|&byte| byte == b'=').next().unwrap_or_default());
    let name = name.split(|&byte| byte == b'[').next().unwrap_or_default();
    !name.is_empty() && policy.known_parameters.iter().any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::{has_unknown_parameters, without_unknown_parameters};
    use bytes::Bytes;
    use profiles::Policy;

    #[test]
    fn unlisted_parameters_are_unknown_and_removed() {
        let policy = Policy::wordpress();
        for (target, expected) in [
            ("/", None),
            ("/?", None),
            ("/?s=a&paged=2", None),
            ("/shop/?filter_color=red&orderby=price&min_price=1", None),
            ("/?tag[]=a&tag%5B1%5D=b", None),
            ("/?P=5", None),
            ("/?x=1", Some("/")),
            ("/?12345", Some("/")),
            ("/?&&", Some("/")),
            ("/?=1", Some("/")),
            ("/?s=a&x=1", Some("/?s=a")),
            ("/?xs=a&s=b", Some("/?s=b")),
            ("/?s%00=a", Some("/")),
        ] {
            let target = Bytes::from_static(target.as_bytes());
            assert_eq!(has_unknown_parameters(&target, &policy), expected.is_some(), "{target:?}");
            if let Some(expected) = expected {
                assert_eq!(without_unknown_parameters(&target, &policy), expected);
            }
        }
        for (profile, target) in [
            ("mediawiki", "/index.php?title=A&action=history"),
            ("drupal", "/?q=node/1&page=2"),
            ("joomla", "/index.php?option=com_content&view=article&id=5&Itemid=1"),
            ("typo3", "/index.php?id=5&tx_news%5Bnews%5D=7&cHash=a"),
        ] {
            let policy = crate::tests::policy_of(profile);
            assert!(!has_unknown_parameters(target.as_bytes(), &policy), "{target}");
        }
        assert!(has_unknown_parameters(b"/?s=a", &Policy::default_profile()), "default knows none");
    }
}
