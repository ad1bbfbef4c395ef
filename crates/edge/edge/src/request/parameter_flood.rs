//! Refuses or reduces a request that would fetch one URL with unknown query parameters too many.
//!
//! Invariant: hits are never counted. The URLs themselves are counted in `memory`.

use crate::control::counters::Metric;
use crate::request::lookup::PageRequest;
use crate::request::refusal::Refusal;
use crate::request::step::Step;
use crate::request::visit::Visit;
use profiles::BeyondLimit;
use semantics::{has_unknown_parameters, without_unknown_parameters};

impl<'a> Visit<'a> {
    /// The next step of a request that needs a fetch but exceeds the limit of unknown parameters;
    /// `None` for any other request.
    pub(crate) fn flooded(&self, page_request: &PageRequest<'a>) -> Option<Step<'a>> {
        let (site, policy) = (page_request.subject.site, page_request.subject.site.policy());
        let limit = policy.unknown_parameters?;
        if page_request.must_fetch.is_some() || !has_unknown_parameters(page_request.key.target(), policy) {
            return None;
        }
        let flood = &site.parameter_flood;
        let wait = flood.admit(&page_request.key, limit.per_minute, self.begun.monotonic).err()?;
        self.cells().count(Metric::ParameterFloods);
        if limit.beyond == BeyondLimit::Refuse {
            return Some(Step::Refuse(Refusal::parameter_flood(wait)));
        }
        let mut subject = page_request.subject.clone();
        subject.target = without_unknown_parameters(&subject.target, policy);
        // It has no unknown parameter left, so it is not counted again.
        let mut page = PageRequest::new(self.shared, subject, self.head(), page_request.directives.clone());
        page.left_out = page_request.left_out;
        Some(Step::Lookup(page))
    }
}
