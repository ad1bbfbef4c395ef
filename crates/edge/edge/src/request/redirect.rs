//! The redirection of plain requests to https.
//!
//! Invariant: a listener that redirects serves no page to a plain request, except for the listed
//! paths.

use crate::request::arrival::Arrival;
use crate::request::guard::{Admitted, is_https};
use crate::request::refusal::Refusal;
use crate::shared::Shared;
use h1::{EffectiveAuthority, split_port};
use message::RequestHead;

/// The response to a plain request that its listener redirects; `None` if it is served.
pub(crate) fn redirected(
    shared: &Shared,
    arrival: Arrival,
    admitted: &Admitted<'_>,
    head: &RequestHead,
) -> Option<Refusal> {
    let redirect = shared.plan.listeners.get(arrival.listener)?.redirect.as_ref()?;
    let path = admitted.target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if is_https(arrival, admitted.trusted, head) || redirect.except.iter().any(|except| except.matches(path))
    {
        return None;
    }
    let Some(host) = host_of(shared, admitted, head) else { return Some(Refusal::nameless()) };
    // `*` is the target of a request about the whole server (RFC 9110 section 9.3.7).
    let target =
        if *admitted.target == *b"*" { "/".into() } else { String::from_utf8_lossy(&admitted.target) };
    Some(Refusal::redirect(format!("https://{host}{target}")))
}

/// The site's name as the client knows it, with the port of https if that is not the default. A
/// public name is complete.
fn host_of(shared: &Shared, admitted: &Admitted<'_>, head: &RequestHead) -> Option<String> {
    let asked = EffectiveAuthority::of(head).map(|effective| effective.authority);
    if let Some(public) = admitted.site().and_then(|site| site.plan.public_host.as_ref()) {
        return Some(public.clone());
    }
    let host = match asked {
        Some(asked) => split_port(asked).0,
        // HTTP/1.0 without Host.
        None => admitted.names().iter().find(|name| !name.starts_with("*."))?.as_bytes(),
    };
    let port = shared.plan.https_port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(std::str::from_utf8(host).ok()?.to_owned() + &port)
}
