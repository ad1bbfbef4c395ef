//! The answers of routes that need no origin: maintenance pages, redirections and fixed responses.
//!
//! Invariant: a redirection leads to the host that the configuration names, or to the host that the
//! request named and that belongs to the site.

use crate::hosts::Route;
use crate::request::refusal::Refusal;
use config::{RedirectAnswer, RouteAction};
use h1::{EffectiveAuthority, split_port};
use message::RequestHead;
use std::net::IpAddr;

/// The response of a route to a request; `None` if the pages of its site answer. `client` is the
/// address of the client, if it is known.
pub(crate) fn answer(
    route: &Route,
    client: impl FnOnce() -> Option<IpAddr>,
    head: &RequestHead,
    target: &[u8],
) -> Option<Refusal> {
    if let Some(maintenance) = &route.plan.maintenance
        && !client().is_some_and(|client| maintenance.except.contains(client))
    {
        return Some(Refusal::maintenance(&maintenance.page));
    }
    match &route.plan.action {
        RouteAction::Pages(_) | RouteAction::Files(_) => None,
        RouteAction::Redirect(redirect) => {
            Some(Refusal::moved(redirect.status, location(redirect, head, target)))
        }
        RouteAction::Fixed(answer) => Some(Refusal::fixed(answer)),
    }
}

/// The URL of a redirection.
fn location(redirect: &RedirectAnswer, head: &RequestHead, target: &[u8]) -> String {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    // `*` is the target of a request about the whole server (RFC 9110 section 9.3.7).
    let uri = if target == b"*" { "/".to_owned() } else { text(target) };
    let (path, query) = uri.split_at(uri.find('?').unwrap_or(uri.len()));
    let authority = EffectiveAuthority::of(head).map(|effective| effective.authority);
    let host = authority.map(|authority| text(split_port(authority).0)).unwrap_or_default();
    let parts = [("{host}", &host[..]), ("{path}", path), ("{query}", query), ("{uri}", &uri)];
    let mut url = String::with_capacity(redirect.template.len() + uri.len());
    let mut rest = &redirect.template[..];
    // A part of the request that contains a placeholder is not replaced again.
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        url.push_str(before);
        match parts.iter().find_map(|(name, part)| Some((part, from.strip_prefix(name)?))) {
            Some((part, after)) => {
                url.push_str(part);
                rest = after;
            }
            None => {
                url.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    url.push_str(rest);
    url
}

#[cfg(test)]
mod tests {
    use super::location;
    use config::RedirectAnswer;
    use message::{Fields, Method, RequestHead, Version};

    #[test]
    fn redirection_takes_parts_of_the_url() {
        let mut fields = Fields::new();
        fields.push("Host", "A.test:8080");
        let head = RequestHead { method: Method::Get, target: "/".into(), version: Version::Http11, fields };
        for (template, target, url) in [
            ("https://b.test{uri}", "/a?b=c", "https://b.test/a?b=c"),
            ("https://b.test{uri}", "*", "https://b.test/"),
            ("https://{host}/new{path}{query}", "/a?b", "https://A.test/new/a?b"),
            ("/x{path}", "//evil.test/", "/x//evil.test/"),
            ("http://b/{path}", "/{query}?q", "http://b//{query}"),
        ] {
            let redirect = RedirectAnswer { template: template.to_owned(), status: 308 };
            assert_eq!(location(&redirect, &head, target.as_bytes()), url);
        }
    }
}
