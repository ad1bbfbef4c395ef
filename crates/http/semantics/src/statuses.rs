//! The meaning of a status for storing its response.

use crate::Directives;
use message::Status;
use profiles::{Forwarding, Policy};

/// Whether a response with this status may be stored without a stated lifetime (RFC 9111 section 3,
/// RFC 9110 section 15.1).
pub(crate) fn is_heuristically_cacheable(status: Status, directives: &Directives) -> bool {
    directives.public || HEURISTIC_STATUSES.contains(&status.code())
}

/// Whether responses with this status are stored at all when they state a lifetime.
pub(crate) fn is_storable_status(status: u16, policy: &Policy) -> bool {
    let personal = policy.forwarding == Forwarding::Keyed && PERSONAL_STATUSES.contains(&status);
    let refuses = REFUSING_STATUSES.contains(&status);
    (200..600).contains(&status) && !UNSTORABLE_STATUSES.contains(&status) && !refuses && !personal
}

/// Whether the status refuses this client because of its identity, its location or its request
/// rate. The response says nothing about other clients, so it is never shared.
pub fn is_refusal(status: Status) -> bool {
    REFUSING_STATUSES.contains(&status.code())
}

/// Statuses that refuse a client. See [`is_refusal`].
pub(crate) const REFUSING_STATUSES: [u16; 5] = [401, 403, 407, 429, 451];

/// Statuses that are never stored. 226, 304, 412, 416, 417 and 425 answer a condition or a field
/// outside the key. 421 concerns one hop. RFC 6585 forbids storing 428, 431 and 511.
const UNSTORABLE_STATUSES: [u16; 10] = [226, 304, 412, 416, 417, 421, 425, 428, 431, 511];

/// Statuses that complain about the client or this one connection. Only the profile `rfc` stores
/// them.
const PERSONAL_STATUSES: [u16; 2] = [408, 426];

/// Final statuses that Petasos can reuse and that do not complain about one request or one moment.
/// They are stored for as long as the response states.
pub(crate) const LASTING_STATUSES: [u16; 14] =
    [200, 203, 204, 206, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414];

/// Statuses that RFC 9110 defines as heuristically cacheable, that is, without a stated lifetime.
const HEURISTIC_STATUSES: [u16; 12] = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];

/// Statuses whose caching requirements Petasos meets, for `must-understand`.
pub(crate) const UNDERSTOOD_STATUSES: [u16; 20] =
    [200, 203, 204, 206, 300, 301, 302, 303, 307, 308, 400, 404, 405, 410, 414, 500, 501, 502, 503, 504];
