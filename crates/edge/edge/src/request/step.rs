//! The steps of a request, each with the results of earlier steps that it needs.
//!
//! Invariant: ARCHITECTURE.md and `pipeline` describe exactly these steps. A test compares them.

use crate::fetch::coalesced_fetch::FetchProgress;
use crate::memory::private_copies::PrivateFetch;
use crate::request::context::{ContextFetch, ContextRequest};
use crate::request::delivery::Delivery;
use crate::request::files::FileRequest;
use crate::request::guard::RequestSubject;
use crate::request::lookup::PageRequest;
use crate::request::refusal::Refusal;
use config::PasswordPlan;
use passwords::Credentials;
use purge::{PurgeOrder, PurgeReply};
use semantics::Reason;
use std::sync::Arc;
use store::ShelvedObject;

/// Defines the steps and the list of their names, so that the list cannot lack one.
macro_rules! steps {
    ($lifetime:lifetime: $($(#[$doc:meta])* $name:ident $(($($part:ty),+))?,)+) => {
        /// A step and the results of earlier steps that it needs.
        pub(crate) enum Step<$lifetime> {
            $($(#[$doc])* $name $(($($part),+))?,)+
        }

        #[cfg(test)]
        const STEPS: &[&str] = &[$(stringify!($name)),+];
    };
}

steps! { 'a:
    /// Checks limits, framing, method and host.
    Guard,
    /// Carries out the purge order that the request is.
    Purge,
    /// Carries out the order of a request that wants its page fetched again.
    Refresh(PurgeOrder),
    /// Checks the password of the site or route.
    Authorise(&'a Arc<PasswordPlan>, Credentials),
    /// Looks for the file that answers.
    Files(FileRequest<'a>),
    /// Computes the cache key.
    Key(RequestSubject<'a>),
    /// Learns the context of a visitor's session, and looks for a page of that context.
    Context(Box<ContextRequest<'a>>),
    /// Asks the store.
    Lookup(PageRequest<'a>),
    /// Compares a hit of a visitor with cookies with the origin's response, if it is sampled.
    LeakGuard(PageRequest<'a>),
    /// Reads an object from disk.
    Read(PageRequest<'a>, ShelvedObject),
    /// Waits for a coalesced fetch.
    Wait(FetchWait<'a>),
    /// Sends the client's own request to the origin.
    Pass(PassRequest<'a>),
    /// Sends a response.
    Deliver(Delivery),
    /// Sends an error made by the edge.
    Refuse(Refusal),
    /// Answers an order.
    Reply(PurgeReply, Reason),
}

/// A request that waits for a coalesced fetch.
pub(crate) struct FetchWait<'a> {
    pub(crate) page_request: PageRequest<'a>,
    /// Why it was not answered from the store.
    pub(crate) reason: Reason,
    pub(crate) receiver: watch::Receiver<FetchProgress>,
    /// Whether the request is the leader of the fetch.
    pub(crate) leads: bool,
}

/// A request whose response is for its client alone.
pub(crate) struct PassRequest<'a> {
    pub(crate) subject: RequestSubject<'a>,
    pub(crate) reason: Reason,
    /// The look-up, if the response could have been shared. The response is then judged for the
    /// benefit of later requests.
    pub(crate) page_request: Option<PageRequest<'a>>,
    /// The fetch of the visitor's session, if the response may be kept for it.
    pub(crate) private: Option<Arc<PrivateFetch>>,
    /// What the request has to do with the context of its visitor.
    pub(crate) context: Option<ContextPass>,
}

/// A request that passes on a site where visitors with the same context share pages.
pub(crate) enum ContextPass {
    /// It has a context for which its response may be kept.
    Fetch(Arc<ContextFetch>),
    /// It has no context, for this reason.
    Without(Reason),
}

impl<'a> PassRequest<'a> {
    /// A request whose response says nothing about other requests.
    pub(crate) const fn alone(subject: RequestSubject<'a>, reason: Reason) -> Self {
        Self { subject, reason, page_request: None, private: None, context: None }
    }

    /// The reason that the client and the log learn.
    pub(crate) fn shown_reason(&self) -> Reason {
        match &self.context {
            Some(ContextPass::Fetch(_)) => Reason::PassContext,
            Some(ContextPass::Without(reason)) => *reason,
            None if self.private.is_some() => Reason::PassPrivate,
            None => self.reason,
        }
    }
}

impl<'a> PageRequest<'a> {
    /// Sends the request to the origin without sharing, after a look-up.
    pub(crate) fn pass(self, reason: Reason) -> Step<'a> {
        let subject = self.subject.clone();
        match self.left_out.reason() {
            // If the look-up ignored a part of the request, the response says nothing about clients
            // that do not send that part.
            Some(reason) => Step::Pass(PassRequest::alone(subject, reason)),
            None => {
                Step::Pass(PassRequest { page_request: Some(self), ..PassRequest::alone(subject, reason) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::STEPS;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The name of a step in documents: `LeakGuard` is `leak guard`.
    fn in_words(name: &str) -> String {
        let spaced = name.char_indices().map(|(at, letter)| match letter {
            letter if letter.is_uppercase() && at > 0 => format!(" {}", letter.to_lowercase()),
            letter => letter.to_lowercase().to_string(),
        });
        spaced.collect()
    }

    /// The names in brackets, by which the drawings mark steps of the enum.
    fn drawn(drawing: &str) -> BTreeSet<String> {
        let names = drawing.split('[').skip(1).filter_map(|rest| rest.split(']').next());
        names.map(str::to_owned).collect()
    }

    fn section<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
        let rest = text.split_once(begin).unwrap_or_else(|| panic!("no `{begin}`")).1;
        rest.split_once(end).unwrap_or_else(|| panic!("no `{end}` after `{begin}`")).0
    }

    #[test]
    fn drawings_and_table_have_exactly_the_steps_of_the_enum() {
        let steps: BTreeSet<_> = STEPS.iter().map(|name| in_words(name)).collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(root.join("../../../ARCHITECTURE.md")).unwrap();
        let pipeline = section(&page, "## Request pipeline", "\n### ");
        let drawing: Vec<_> = pipeline.lines().filter(|line| line.starts_with("    ")).collect();
        assert_eq!(drawn(&drawing.join("\n")), steps, "the drawing in ARCHITECTURE.md");
        let table = section(pipeline, "| step | action |\n|---|---|\n", "\n\n");
        let named = table.lines().filter_map(|row| row.split('|').nth(1));
        let named: BTreeSet<_> = named.map(|name| name.trim().trim_matches('*').to_owned()).collect();
        assert_eq!(named, steps, "the table in ARCHITECTURE.md");
        let file = std::fs::read_to_string(root.join("src/request/pipeline.rs")).unwrap();
        assert_eq!(drawn(section(&file, "//! ```text", "//! ```")), steps, "the drawing in pipeline.rs");
    }
}
