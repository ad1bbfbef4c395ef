//! *authorise*: lets users of the password file through to a site or route with `basic_auth`.
//!
//! Invariant: later steps and the origin do not see the password, so users of the site share its
//! pages.

use crate::memory::password_checks::PasswordResult;
use crate::request::refusal::Refusal;
use crate::request::step::Step;
use crate::request::visit::Visit;
use config::PasswordPlan;
use message::{RequestHead, names};
use passwords::Credentials;
use std::sync::Arc;

/// The credentials of a request; `None` if it has none, or several.
pub(crate) fn credentials_of(head: &RequestHead) -> Option<Credentials> {
    head.fields.only(names::AUTHORIZATION).and_then(|value| Credentials::read(value))
}

/// The response to a request that is not let through.
pub(crate) fn refusal_of(result: PasswordResult, plan: &PasswordPlan) -> Option<Refusal> {
    match result {
        PasswordResult::Right => None,
        PasswordResult::Wrong => Some(Refusal::unauthorised(&plan.realm)),
        PasswordResult::Busy => Some(Refusal::password_queue_full()),
    }
}

impl<'a> Visit<'a> {
    /// *authorise*: checks the password. The request then starts anew without it.
    pub(crate) async fn authorise(&mut self, plan: &'a Arc<PasswordPlan>, given: Credentials) -> Step<'a> {
        let result = self.shared.password_checks.check(&plan.file, given).await;
        if let Some(refusal) = refusal_of(result, plan) {
            return Step::Refuse(refusal);
        }
        self.is_authorised = true;
        self.request = self.changed.authorised.get_or_init(|| {
            let mut request = self.request.clone();
            request.head.fields.remove(names::AUTHORIZATION);
            request
        });
        Step::Guard
    }
}
