//! Refuses or reduces a request that would fetch one URL with unknown query parameters too many.
//!
//! Invariant: hits are never counted. The URLs themselves are counted in `memory`.

use crate::control::counters::Metric;
use crate::request::lookup::Wanted;
use crate::request::refusal::Refusal;
use crate::request::step::Step;
use crate::request::visit::Visit;
use semantics::{BeyondLimit, has_unknown_parameters, without_unknown_parameters};

impl<'a> Visit<'a> {
    /// The next step of a request that needs a fetch but exceeds the limit of unknown parameters;
    /// `None` for any other request.
    pub(crate) fn flooded(&self, wanted: &Wanted<'a>) -> Option<Step<'a>> {
        let (site, policy) = (wanted.subject.site, wanted.subject.site.policy());
        let limit = policy.unknown_parameters?;
        if wanted.must_fetch || !has_unknown_parameters(wanted.key.target(), policy) {
            return None;
        }
        let flood = &site.parameter_flood;
        let wait = flood.admit(&wanted.key, limit.per_minute, self.begun.monotonic).err()?;
        self.cells().count(Metric::ParameterFloods);
        if limit.beyond == BeyondLimit::Refuse {
            return Some(Step::Refuse(Refusal::parameter_flood(wait)));
        }
        let mut subject = wanted.subject.clone();
        subject.target = without_unknown_parameters(&subject.target, policy);
        // It has no unknown parameter left, so it is not counted again.
        let mut page = Wanted::new(self.shared, subject, self.head(), wanted.directives.clone());
        page.left_out = wanted.left_out;
        Some(Step::Lookup(page))
    }
}
