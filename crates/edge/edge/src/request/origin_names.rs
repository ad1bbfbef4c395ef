//! How messages to operators name the origins of a site.
//!
//! Invariant: a message has at most [`NAMED_MAX`] addresses, however many origins there are.

use config::SitePlan;
use std::fmt;

/// Origins that are named one by one.
const NAMED_MAX: usize = 3;

/// The origins of a site: `the origin http://a`, or `one of the origins http://a and http://b`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginNames<'a>(pub(crate) &'a SitePlan);

impl OriginNames<'_> {
    /// The addresses alone, as in `http://a and http://b and 2 others`.
    pub(crate) fn addresses(self) -> String {
        let others = &self.0.balance.others;
        let all = std::iter::once(&self.0.origin).chain(others.iter().map(|other| &other.url));
        let mut names: Vec<_> = all.take(NAMED_MAX).map(ToString::to_string).collect();
        match (1 + others.len()).saturating_sub(NAMED_MAX) {
            0 => {}
            1 => names.push("another".to_owned()),
            more => names.push(format!("{more} others")),
        }
        names.join(" and ")
    }
}

impl fmt::Display for OriginNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plural = !self.0.balance.others.is_empty();
        f.write_str(if is_plural { "one of the origins " } else { "the origin " })?;
        f.write_str(&self.addresses())
    }
}

#[cfg(test)]
mod tests {
    use super::OriginNames;
    use config::{EdgePlan, OriginMember};

    #[test]
    fn failures_name_all_of_a_few_origins() {
        let mut plan = EdgePlan::for_origin("http://a:1".parse().unwrap());
        let mut names = Vec::new();
        for number in 2..6 {
            names.push(OriginNames(&plan.sites[0]).to_string());
            plan.sites[0].balance.others.push(OriginMember::parse(&format!("http://b:{number}")).unwrap());
        }
        names.push(OriginNames(&plan.sites[0]).to_string());
        let expected = [
            "the origin http://a:1",
            "one of the origins http://a:1 and http://b:2",
            "one of the origins http://a:1 and http://b:2 and http://b:3",
            "one of the origins http://a:1 and http://b:2 and http://b:3 and another",
            "one of the origins http://a:1 and http://b:2 and http://b:3 and 2 others",
        ];
        assert_eq!(names, expected);
    }
}
