//! *key*: decides whether a request is looked up, and by which key and head.
//!
//! Invariant: nothing here has a side effect. [`PageRequest`] records the parts of the request that
//! the look-up ignores; before delivery, the response is checked against them.

use crate::request::guard::RequestSubject;
use crate::request::lookup::PageRequest;
use crate::shared::Shared;
use message::RequestHead;
use profiles::Forwarding;
use semantics::{LeftOut, Reason, RequestClass, is_static_path, looked_up_head, without_origin};
use store::Lookup;

/// The outcome for a request whose site is known.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost each look-up an allocation"
)]
pub(crate) enum KeyOutcome<'a> {
    /// It is looked up, by the given head if it differs from the head that the client sent.
    LookUp(PageRequest<'a>, Option<Box<RequestHead>>),
    /// It is sent to the origin for its client alone.
    Pass(RequestSubject<'a>, Reason),
}

impl<'a> KeyOutcome<'a> {
    pub(crate) fn new(
        shared: &Shared,
        subject: RequestSubject<'a>,
        sent: &RequestHead,
        has_content: bool,
    ) -> Self {
        let policy = subject.site.policy();
        let class = subject.class_of(shared, sent, has_content);
        let left_out = LeftOut::of(&class, sent, policy);
        let directives = match class {
            RequestClass::Lookup(directives) | RequestClass::LookupStatic { directives, .. } => directives,
            RequestClass::Pass(reason) => return Self::Pass(subject, reason),
        };
        let looks_like_file = is_static_path(&subject.target, policy);
        let is_keyed = policy.forwarding == Forwarding::Keyed;
        let mut looked_up = looked_up_head(sent, policy, left_out.has_cookies());
        let mut page_request =
            PageRequest::new(shared, subject, looked_up.as_ref().unwrap_or(sent), directives);
        page_request.left_out = left_out;
        let plain = without_origin(looked_up.as_ref().unwrap_or(sent)).filter(|_| is_keyed);
        if let Some(plain) = plain {
            page_request.left_out = left_out.and_origin();
            // For an object that is only on disk this is unknown; it is read first and checked
            // then.
            if page_request.stored_answers(shared, &plain).unwrap_or(true) {
                looked_up = Some(plain);
            } else {
                page_request.left_out = left_out;
            }
        }
        if let Some(reason) =
            page_request.left_out.reason().filter(|_| left_out.has_cookies() && !looks_like_file)
        {
            let head = looked_up.as_ref().unwrap_or(sent);
            // A page on disk is not read for every visitor with a session.
            let answers = page_request.stored_answers(shared, head).unwrap_or(false)
                || shared.files.reason(&page_request.key, shared.clock.monotonic()).is_some();
            if !answers {
                return Self::Pass(page_request.subject, reason);
            }
        }
        Self::LookUp(page_request, looked_up.map(Box::new))
    }
}

impl PageRequest<'_> {
    /// Whether the stored response, looked up by `head`, answers the request with its ignored
    /// parts. `None` if it is only on disk.
    fn stored_answers(&self, shared: &Shared, head: &RequestHead) -> Option<bool> {
        match shared.store.peek(&self.key, &head.fields) {
            Lookup::Found { object, .. } => Some(self.is_answered_by(&object, head)),
            Lookup::Shelved(_) => None,
            Lookup::NoVariant | Lookup::Absent => Some(false),
        }
    }
}
