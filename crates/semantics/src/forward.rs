//! Which request fields are forwarded. What is not in the key is not forwarded.
//!
//! A response that is shared must not depend on anything that only one client sent, or that client chooses
//! what everybody sees. Trusting the origin to name in `Vary` whatever it reads is not enough: it often does
//! not. So on a fetch whose answer may be shared
//!
//! 1. `Host` is forwarded: it is in the key, as is the target;
//! 2. `Accept-Encoding` is forwarded as one of three constants, and a coded response always varies on it;
//! 3. `Accept` and `User-Agent` are sent as constants;
//! 4. every other field, and those two as the client sent them, is forwarded exactly if a known Vary of this
//!    key names it: then it is part of the variant's key, in the same normalised form;
//! 5. everything else stays here.
//!
//! The first answer for a key is therefore fetched without negotiation. If it turns out to vary on a field that
//! the client sent, the answer belongs to another variant than the client's (`rule.key` of the client's fields
//! differs from that of the forwarded ones); the client's own variant is then fetched with the rule known.
//! A field that is not in our table makes the request pass, so nobody misses it.

use crate::request_fields::{Role, role};
use crate::vary::{AcceptedCodings, normalised_value};
use crate::{Policy, VaryRule};
use message::{Field, Fields, names};

/// The `User-Agent` of a fetch whose answer may be shared.
pub const SHARED_USER_AGENT: &str = "Mozilla/5.0 (compatible; Petasos)";

/// The fields of a fetch whose answer may be shared. `known` is what the responses of this key are known to
/// vary on; the default rule if nothing is known. The edge adds the fields that it writes itself; to keep the
/// invariant these must be the same for every client.
pub fn shared_fields(fields: &Fields, known: &VaryRule, policy: &Policy) -> Fields {
    let mut forwarded: Fields =
        fields.iter().filter(|field| role(&field.name, policy) == Role::Keyed).cloned().collect();
    forwarded.push(names::ACCEPT_ENCODING, AcceptedCodings::of(fields).value());
    if !known.selects_on(b"accept") {
        forwarded.push("Accept", "*/*");
    }
    if !known.selects_on(b"user-agent") {
        forwarded.push(names::USER_AGENT, SHARED_USER_AGENT);
    }
    for name in known.names().iter().filter(|name| &name[..] != b"accept-encoding") {
        if let Some(value) = normalised_value(fields, name) {
            forwarded.push(name.clone(), value);
        }
    }
    forwarded
}

/// The fields of a request that is forwarded for its client alone: all but those that claim another URL, host,
/// scheme, method or client address than the connection's own. Fields of one hop are the wire's business and
/// are kept here.
pub fn passed_fields(fields: &Fields, policy: &Policy) -> Fields {
    let keep = |field: &&Field| role(&field.name, policy) != Role::Override && !is_claim(field);
    fields.iter().filter(keep).cloned().collect()
}

/// Fields that only the edge, or a proxy it trusts, may write.
fn is_claim(field: &Field) -> bool {
    [names::X_FORWARDED_FOR, names::X_FORWARDED_HOST, names::X_FORWARDED_PROTO, names::FORWARDED, "X-Real-IP"]
        .iter()
        .any(|name| field.is(name))
}
