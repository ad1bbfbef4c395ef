//! A purge that the response to a write orders.
//!
//! Invariant: the value of the field means the scope, as docs/purging.md says.

use crate::event::Scope;
use crate::site::SitePlan;
use std::fmt;
use world::Random;

/// The field in which a visitor tells the origin what the response shall order.
pub(crate) const ORDER_FIELD: &str = "X-Sim-Orders";

/// The fields by which a response purges.
const FIELDS: [&str; 4] =
    ["X-LiteSpeed-Purge", "X-LiteSpeed-Purge2", "X-Cache-Invalidate", "Cache-Group-Invalidation"];

/// A purge that the response to a write orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedPurge {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// The pages that it means.
    pub scope: Scope,
    /// Whether it is soft.
    pub is_soft: bool,
}

impl OrderedPurge {
    /// The fields by which a response can purge.
    pub const FIELDS: [&str; 4] = FIELDS;

    /// A purge by chance; `None` if the site has no pages.
    pub fn random(random: &mut Random, site: &SitePlan) -> Option<Self> {
        let page = random.choice(&site.pages)?;
        let other = random.choice(&site.pages)?;
        let drawn = random.choice(&FIELDS).copied()?;
        let is_unfit = site.has_ports && drawn == "Cache-Group-Invalidation";
        let field = if is_unfit { "X-Cache-Invalidate" } else { drawn };
        let section = page.path.split('/').nth(1).unwrap_or_default();
        let mut tags = vec![format!("page-{}", page.number)];
        if random.percent(40) {
            tags.push(format!("section-{}", other.number % 3));
        }
        let wants_soft = random.percent(30);
        let form = random.below(10);
        let is_soft = wants_soft && field.starts_with("X-LiteSpeed");
        let stale = if is_soft { "stale," } else { "" };
        let (value, scope) = match (field, form) {
            ("Cache-Group-Invalidation", _) => {
                let groups: Vec<_> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
                (groups.join(", "), Scope::AnyTag(tags))
            }
            ("X-Cache-Invalidate", 0) => ("/*".to_owned(), Scope::Everything),
            ("X-Cache-Invalidate", 1..4) => (format!("/{section}/*"), Scope::Prefix(format!("/{section}/"))),
            ("X-Cache-Invalidate", _) => (page.path.clone(), Scope::Target(page.path.clone())),
            (_, 0) => (format!("{stale}*"), Scope::Everything),
            (_, 1..4) => (format!("{stale}{}", page.path), Scope::Target(page.path.clone())),
            _ => (format!("public,{stale}tag={}", tags.join(",tag=")), Scope::AnyTag(tags)),
        };
        Some(Self { field, value, scope, is_soft })
    }

    /// The same order, in a response of one host of the site. It means the pages of that host.
    pub(crate) fn at(self, site: &SitePlan, is_other: bool) -> Self {
        Self { scope: self.scope.at(site, is_other), ..self }
    }

    /// The line of the request that asks the origin for this purge.
    pub(crate) fn line(&self) -> String {
        format!("{ORDER_FIELD}: {self}\r\n")
    }
}

/// Reads what the response shall order: a field and its value.
pub(crate) fn read(text: &str) -> Option<(&'static str, String)> {
    let (name, value) = text.split_once(": ")?;
    let field = FIELDS.into_iter().find(|field| *field == name)?;
    Some((field, value.to_owned()))
}

impl fmt::Display for OrderedPurge {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.field, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::{OrderedPurge, read};
    use crate::event::Scope;
    use crate::site::SitePlan;
    use invalidation::Mode;
    use message::{Method, ResponseHead, Status};
    use purge::{OrderItem, PurgeScope, signals};
    use world::Random;

    /// Whether the edge's reading means the pages of a scope.
    fn agrees(item: &OrderItem, scope: &Scope) -> bool {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        match (&item.scope, scope) {
            (PurgeScope::Target { target, .. }, Scope::Target(expected)) => text(target) == *expected,
            (PurgeScope::Prefix { prefix, .. }, Scope::Prefix(expected)) => text(prefix) == *expected,
            (PurgeScope::Tags { any_of, .. }, Scope::AnyTag(tags)) => {
                // A group's tag begins with its origin.
                any_of.iter().zip(tags).all(|(found, tag)| text(found).ends_with(tag.as_str()))
                    && any_of.len() == tags.len()
            }
            (PurgeScope::Everything { .. } | PurgeScope::Host { .. }, Scope::Everything) => true,
            _ => false,
        }
    }

    #[test]
    fn edge_reads_each_order_as_it_is_meant() {
        let site = SitePlan::random(&mut Random::new(5), "a.test");
        let mut fields = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let order = OrderedPurge::random(&mut Random::new(seed), &site).unwrap();
            assert_eq!(read(&order.to_string()), Some((order.field, order.value.clone())));
            let mut answer = ResponseHead::new(Status::OK);
            answer.fields.push(order.field, order.value.clone());
            let read = signals(&Method::Post, &answer, false, b"a.test");
            assert!(read.malformed.is_empty() && read.invalidations.len() == 1, "{order}: {read:?}");
            let item = &read.invalidations[0];
            let mut scope = order.scope.clone();
            if let (Scope::AnyTag(tags), "Cache-Group-Invalidation") = (&mut scope, order.field) {
                tags.sort();
                tags.dedup();
            }
            assert!(agrees(item, &scope), "{order}: {item:?}");
            assert_eq!(item.mode == Mode::Soft, order.is_soft, "{order}");
            fields.insert(order.field);
        }
        assert_eq!(fields.len(), OrderedPurge::FIELDS.len());
    }
}
