//! Requests that no client sent, in the form in which they would arrive.
//!
//! Invariant: such a request differs in nothing from one that a listener has parsed, so that the
//! steps of the pipeline decide about it as about a client's.

use crate::request::arrival::Arrival;
use crate::request::client::head_limits;
use crate::request::refusal::Refusal;
use crate::shared::Shared;
use api::why::Question;
use bytes::BytesMut;
use h1::{BodyFraming, Request, Strictness};
use message::{Fields, Method, RequestHead, Version, names};
use net::Peer;
use std::net::SocketAddr;

/// The request of a question, as it would arrive.
pub(crate) struct SimulatedRequest {
    /// The parsed request, or the response of a request that cannot be parsed.
    pub(crate) request: Result<Request, Refusal>,
    /// How it would arrive.
    pub(crate) arrival: Arrival,
}

impl SimulatedRequest {
    /// The request that `question` describes.
    ///
    /// # Errors
    /// A text that says what is wrong with the question.
    pub(crate) fn new(shared: &Shared, question: &Question) -> Result<Self, String> {
        let (https, authority, target) = split_url(&question.url)?;
        let mut fields = Fields::new();
        let has_host = question.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(names::HOST));
        if !has_host {
            fields.push(names::HOST, authority.to_owned());
        }
        for (name, value) in &question.headers {
            fields.push(name.clone(), value.clone());
        }
        let method = Method::from_token(question.method.as_bytes());
        // Without a listener with TLS, an https request comes through a trusted proxy that says so.
        // A purge is simulated from an address in `purge_peers`, because the address decides.
        let purging = purge::is_purge_method(&method);
        let listener = listener_of(shared, https);
        let is_secured = https && shared.listeners.tls(listener).is_some();
        let peers = if purging { &shared.plan.purge_peers } else { &shared.plan.trusted_proxies };
        let proxy = peers.iter().next().filter(|_| https && !is_secured || purging);
        let peer = proxy.map_or(Peer::Unix, |proxy| Peer::Ip(SocketAddr::new(proxy.first(), 0)));
        if proxy.is_some() && !purging && !fields.has(names::X_FORWARDED_PROTO) {
            fields.push(names::X_FORWARDED_PROTO, "https");
        }
        let head = RequestHead { method, target: target.into(), version: Version::Http11, fields };
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, &head).map_err(|error| format!("the request: {error}"))?;
        let limits = head_limits(&shared.limits);
        let request = match h1::parse_request(&mut octets, &limits, Strictness::Strict) {
            Ok(Some(request)) if request.framing == BodyFraming::Empty => Ok(request),
            Ok(_) => {
                return Err("a question about a request with content is not possible; leave its content out"
                    .to_owned());
            }
            Err(error) => Err(Refusal::malformed(error)),
        };
        Ok(Self { request, arrival: Arrival { listener, is_secured, ..Arrival::from(peer) } })
    }
}

/// The number of the listener where a request with this scheme arrives: the first that has TLS or
/// has none, otherwise the first.
fn listener_of(shared: &Shared, https: bool) -> usize {
    let mut listeners = shared.plan.listeners.iter();
    listeners.position(|listener| listener.tls.is_some() == https).unwrap_or(0)
}

/// Splits a URL into: whether it is https, the authority, and the target without fragment.
fn split_url(url: &str) -> Result<(bool, &str, String), String> {
    let wrong = || format!("`{url}` is not an http or https URL");
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let https = scheme.eq_ignore_ascii_case("https");
    if !https && !scheme.eq_ignore_ascii_case("http") {
        return Err(wrong());
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains('@') {
        return Err(wrong());
    }
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok((https, authority, target))
}

#[cfg(test)]
mod tests {
    use super::split_url;

    #[test]
    fn url_is_split_into_scheme_authority_and_target() {
        assert_eq!(split_url("http://a.test"), Ok((false, "a.test", "/".to_owned())));
        assert_eq!(split_url("HTTPS://a.test:1?q#f"), Ok((true, "a.test:1", "/?q".to_owned())));
        assert_eq!(split_url("http://[::1]:8/a/b"), Ok((false, "[::1]:8", "/a/b".to_owned())));
        for wrong in ["a.test", "ftp://a/", "http://", "http:///a", "http://u@a/"] {
            assert!(split_url(wrong).is_err(), "{wrong}");
        }
    }
}
