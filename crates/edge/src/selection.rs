//! For which clients the origin has selected a response that is not stored.
//!
//! Invariant: the fetch whose answer may be shared carries only the fields that every client is taken to send alike, so
//! the origin may have negotiated for nobody. A client gets its answer only if its own request selects the same.

use message::{Fields, ResponseHead};
use profiles::{Forwarding, Policy};
use semantics::{Reason, VariantKey, VaryRule};

/// The clients for which a response is.
#[derive(Debug)]
pub(crate) enum Selection {
    /// All: the fetch carried what its client sent, or the response is an error of the origin, or it says `Vary: *`.
    All,
    /// Those whose request selects this variant.
    Variant(VaryRule, VariantKey),
    /// None: the response depends on the address of its client.
    None,
}

impl Selection {
    /// For a response to a fetch with the fields `sent`, where earlier responses have stated the rule `known`.
    pub(crate) fn of(known: &VaryRule, sent: &Fields, response: &ResponseHead, policy: &Policy) -> Self {
        // To ask again would double the load of an origin that fails.
        if policy.forwarding == Forwarding::Everything || response.status.is_server_error() {
            return Self::All;
        }
        match VaryRule::from_response(&response.fields, policy) {
            Ok(rule) => {
                let rule = known.union(&rule);
                let variant = rule.stored_key(sent, &response.fields);
                Self::Variant(rule, variant)
            }
            // Nothing says on what it depends, so a second request would prove nothing.
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
