//! The pages that a write has changed, once its response has proven it.
//!
//! Invariant: if a rule cannot name the changed pages, everything counts as changed.

use crate::form::{ParameterValue, parameter, query_parameter};
use crate::invalidation::resolve;
use crate::json_values::json_values;
use crate::writes::{WriteExchange, is_at, path_of, query_of};
use bytes::Bytes;
use message::{Fields, names};
use profiles::{Changes, Policy, WriteRule, is_identity};

/// The maximum number of post identities that one write may name. More count as everything.
const IDENTITIES_MAX: usize = 64;

/// The pages that a write has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteReach {
    /// Any page of the host may have changed.
    Everything,
    /// These pages have changed. Other pages may show a part of them, such as a title in a list of
    /// related posts.
    Pages(ChangedPages),
}

/// The pages that a write has changed, named in three ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPages {
    /// Targets of changed pages.
    pub targets: Vec<Bytes>,
    /// Identities of changed posts. Pages that show one of them have changed.
    pub identities: Vec<Bytes>,
    /// Whether every page that does not identify its post has changed.
    pub lists: bool,
}

/// The post that a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The post with this number.
    Post(Bytes),
    /// The page does not identify one post: it shows several, or the application hides the number.
    Unknown,
}

/// The post that a stored response shows; `None` for a file, and if the profile has no rule for
/// this path.
pub fn identity_of(target: &[u8], response: &Fields, policy: &Policy) -> Option<Identity> {
    let path = path_of(target);
    let mut rules = policy
        .identities
        .iter()
        .filter(|rule| !rule.except.iter().any(|pattern| pattern.matches(&path)))
        .peekable();
    rules.peek()?;
    let found = rules.find_map(|rule| {
        let mut lines = response.all(&rule.name);
        lines.find_map(|line| rule.number.find(line).map(Bytes::copy_from_slice))
    });
    Some(found.map_or(Identity::Unknown, Identity::Post))
}

/// The pages that a request has changed under a rule that applies. `path` is the path that the
/// application acts on.
pub(crate) fn changed_by(
    rule: &WriteRule,
    path: &[u8],
    exchanged: WriteExchange<'_>,
    policy: &Policy,
) -> WriteReach {
    let identities = identities(rule, exchanged);
    let is_nameless = match rule.changes {
        Changes::Everything => true,
        Changes::Fronts => false,
        Changes::Lists => policy.identities.is_empty(),
        Changes::Page => policy.identities.is_empty() || identities.is_empty(),
    };
    if is_nameless || identities.len() > IDENTITIES_MAX {
        return WriteReach::Everything;
    }
    let matching = rule.paths.iter().find(|pattern| pattern.matches(path));
    let base = matching.map_or(&[][..], |pattern| pattern.start_in(path));
    let fronts = policy.fronts.iter().map(|front| Bytes::from([base, front.as_bytes()].concat()));
    let targets = fronts.chain(named_pages(rule, exchanged)).collect();
    WriteReach::Pages(ChangedPages { targets, identities, lists: rule.changes != Changes::Fronts })
}

/// The numbers of posts named by the response, or by the request that it confirms. Sorted, without
/// duplicates.
fn identities(rule: &WriteRule, exchanged: WriteExchange<'_>) -> Vec<Bytes> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    json_values(exchanged.content.unwrap_or_default(), &mut |path, value| {
        if rule.changed_ids.iter().any(|wanted| is_at(path, wanted)) {
            found.push(value.to_vec());
        }
    });
    let content = exchanged.content.unwrap_or_default();
    found.extend(rule.changed_contents.iter().filter_map(|number| number.find(content)).map(<[u8]>::to_vec));
    let asked = query_of(exchanged.target);
    for name in &rule.changed_parameters {
        if let ParameterValue::Is(value) = parameter(asked, exchanged.form, exchanged.form_is_whole, name) {
            found.push(value);
        }
    }
    let location = exchanged.answer.fields.only(names::LOCATION);
    let led_to = location.map(|location| query_of(location)).unwrap_or_default();
    for name in &rule.changed_locations {
        if let ParameterValue::Is(value) = query_parameter(led_to, name) {
            found.extend(value.split(|&byte| byte == b',').map(<[u8]>::to_vec));
        }
    }
    let mut found: Vec<_> = found.into_iter().filter(|text| is_identity(text)).map(Bytes::from).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The pages that the response names, and the changed pages below them.
fn named_pages(rule: &WriteRule, exchanged: WriteExchange<'_>) -> Vec<Bytes> {
    let resolved = |reference: &[u8]| {
        // The scheme of the connection is not known here. The reference names at most one of the
        // two.
        let mut schemes = [true, false].into_iter();
        schemes.find_map(|https| resolve(https, exchanged.host, exchanged.target, reference))
    };
    let mut pages = Vec::new();
    json_values(exchanged.content.unwrap_or_default(), &mut |path, value| {
        if rule.changed_links.iter().any(|wanted| is_at(path, wanted)) {
            pages.extend(resolved(value));
        }
    });
    let redirects = (300..400).contains(&exchanged.answer.status.code());
    if redirects && !rule.changed_below.is_empty() {
        let location = exchanged.answer.fields.only(names::LOCATION);
        pages.extend(location.and_then(|location| resolved(location)));
    }
    let below: Vec<_> = pages
        .iter()
        .filter(|page| page.ends_with(b"/") && !page.contains(&b'?'))
        .flat_map(|page| rule.changed_below.iter().map(move |below| [page, below.as_bytes()].concat()))
        .collect();
    pages.into_iter().chain(below).map(Bytes::from).collect()
}

#[cfg(test)]
mod tests {
    use super::{Identity, identity_of};
    use bytes::Bytes;
    use message::Fields;
    use profiles::Policy;

    #[test]
    fn identity_is_the_number_in_the_short_link() {
        let identity = |target: &str, link: Option<&'static str>, policy: &Policy| {
            let mut fields = Fields::new();
            fields.push("Link", "<http://a.test/wp-json/>; rel=\"https://api.w.org/\"");
            if let Some(link) = link {
                fields.push("link", link);
            }
            identity_of(target.as_bytes(), &fields, policy)
        };
        let wordpress = Policy::wordpress();
        let link = Some("<http://a.test/?p=5>; rel=shortlink");
        assert_eq!(identity("/a/", link, &wordpress), Some(Identity::Post(Bytes::from_static(b"5"))));
        assert_eq!(
            identity("/", Some("<http://a.test/>; rel=shortlink"), &wordpress),
            Some(Identity::Unknown)
        );
        assert_eq!(identity("/a/", None, &wordpress), Some(Identity::Unknown));
        assert_eq!(identity("/wp-content/a.css?ver=1", link, &wordpress), None);
        assert_eq!(identity("/a/", link, &Policy::default_profile()), None);
    }
}
