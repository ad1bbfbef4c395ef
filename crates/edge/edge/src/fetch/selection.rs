//! The clients that may receive a response which is not stored.
//!
//! Invariant: a shared fetch carries only fields that are the same for all clients, so the origin
//! may have negotiated for none of them. A client receives the response only if its own request
//! selects the same variant.

use message::{Fields, ResponseHead};
use profiles::{Forwarding, Policy};
use semantics::{Reason, VariantKey, VaryRule};

/// The clients that a response is for.
#[derive(Debug)]
pub(crate) enum Selection {
    /// All clients: the fetch carried its client's fields, or the response is an origin error or
    /// has `Vary: *`.
    All,
    /// Clients whose request selects this variant.
    Variant(VaryRule, VariantKey),
    /// No client: the response depends on the client's address.
    None,
}

impl Selection {
    /// The clients of a response to a fetch with the fields `sent`, if earlier responses have
    /// stated the rule `known`.
    pub(crate) fn of(known: &VaryRule, sent: &Fields, response: &ResponseHead, policy: &Policy) -> Self {
        // A second request would double the load on a failing origin.
        if policy.forwarding == Forwarding::Everything || response.status.is_server_error() {
            return Self::All;
        }
        match VaryRule::from_response(&response.fields, policy) {
            Ok(rule) => {
                let rule = known.union(&rule);
                let variant = rule.stored_key(sent, &response.fields);
                Self::Variant(rule, variant)
            }
            // `Vary: *` does not say what the response depends on, so a second request would prove
            // nothing.
            Err(Reason::StoreRefusedVaryStar) => Self::All,
            Err(_) => Self::None,
        }
    }

    /// Whether the response is for a client that sent these fields.
    pub(crate) fn includes(&self, client: &Fields) -> bool {
        match self {
            Self::All => true,
            Self::Variant(rule, variant) => rule.matches(client, variant),
            Self::None => false,
        }
    }
}
