//! Splits request targets into the parts of the four forms of RFC 9112 section 3.2. It checks the
//! bytes and neither decodes, normalises nor resolves them.

use crate::error::TargetError;
use crate::octets;
use message::{Method, RequestHead, names};

/// The form of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetForm {
    /// `/path?query`.
    Origin,
    /// `scheme://authority/path?query`.
    Absolute,
    /// `host:port`, with CONNECT only.
    Authority,
    /// `*`, with OPTIONS only.
    Asterisk,
}

/// The parts of a target, as slices of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The target's form.
    pub form: TargetForm,
    /// The scheme as received, any case; absolute-form only.
    pub scheme: Option<&'a [u8]>,
    /// `host [":" port]`, checked; absolute-form and authority-form only.
    pub authority: Option<&'a [u8]>,
    /// Path and query as received. Empty in authority-form only: an absolute-form without a path
    /// has `/` here, or `*` with OPTIONS (RFC 9112 section 3.2.4). An absolute-form without a path
    /// but with a query keeps its bare `?query`.
    pub path_and_query: &'a [u8],
}

impl<'a> Target<'a> {
    /// Splits `target` by the rules for `method`.
    ///
    /// # Errors
    /// [`TargetError`] for bytes that no target may contain, for a form that the method does not
    /// allow, and for an invalid authority. An authority is `host [":" port]`; RFC 9110 section
    /// 4.2.4 forbids user information here.
    pub fn split(method: &Method, target: &'a [u8]) -> Result<Self, TargetError> {
        if !octets::TARGET.has_all(target) {
            return Err(TargetError::Octet);
        }
        match (method, target) {
            (Method::Connect, authority) => Self::split_authority_form(authority),
            (_, [b'/', ..]) => {
                Ok(Self { form: TargetForm::Origin, scheme: None, authority: None, path_and_query: target })
            }
            (Method::Options, b"*") => {
                Ok(Self { form: TargetForm::Asterisk, scheme: None, authority: None, path_and_query: target })
            }
            (_, absolute) => Self::split_absolute_form(method, absolute),
        }
    }

    /// The path without the query.
    pub fn path(&self) -> &'a [u8] {
        self.split_query().0
    }

    /// The query without its question mark; `None` if there is no question mark.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.split_query().1
    }

    fn split_query(&self) -> (&'a [u8], Option<&'a [u8]>) {
        match memchr::memchr(b'?', self.path_and_query) {
            Some(at) => {
                let (path, query) = self.path_and_query.split_at(at);
                (path, query.get(1..))
            }
            None => (self.path_and_query, None),
        }
    }

    fn split_authority_form(authority: &'a [u8]) -> Result<Self, TargetError> {
        check_authority(authority)?;
        let (_, port) = split_port(authority);
        if port.is_none_or(<[u8]>::is_empty) {
            return Err(TargetError::Form);
        }
        Ok(Self {
            form: TargetForm::Authority,
            scheme: None,
            authority: Some(authority),
            path_and_query: b"",
        })
    }

    fn split_absolute_form(method: &Method, target: &'a [u8]) -> Result<Self, TargetError> {
        let scheme_bytes = memchr::memchr(b':', target).ok_or(TargetError::Form)?;
        let (scheme, rest) = target.split_at(scheme_bytes);
        let rest = rest.strip_prefix(b"://").ok_or(TargetError::Form)?;
        if !is_scheme(scheme) {
            return Err(TargetError::Form);
        }
        let authority_bytes = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (authority, path_and_query) = rest.split_at(authority_bytes);
        check_authority(authority)?;
        let path_and_query = match path_and_query {
            [] if *method == Method::Options => b"*",
            [] => b"/",
            given => given,
        };
        Ok(Self {
            form: TargetForm::Absolute,
            scheme: Some(scheme),
            authority: Some(authority),
            path_and_query,
        })
    }
}

/// The authority that a request is for, and whether the request contradicts itself about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveAuthority<'a> {
    /// `host [":" port]` as received.
    pub authority: &'a [u8],
    /// Whether the target has an authority and Host spells another one. Letter case does not count;
    /// a default port that only one of them spells out does. RFC 9112 section 3.2.2 lets the target
    /// win, so a proxy must forward the request with a new Host or refuse it.
    pub host_differs: bool,
}

impl<'a> EffectiveAuthority<'a> {
    /// The authority of `head`: the target's if it has one, else Host (RFC 9112 section 3.3).
    /// `None` if there is neither, which HTTP/1.0 permits, or if the target has no valid form.
    pub fn of(head: &'a RequestHead) -> Option<Self> {
        let host = head.fields.first(names::HOST).map(|host| &host[..]);
        let in_target = Target::split(&head.method, &head.target).ok()?.authority;
        match (in_target, host) {
            (Some(authority), Some(host)) => {
                Some(Self { authority, host_differs: !authority.eq_ignore_ascii_case(host) })
            }
            (Some(authority), None) => Some(Self { authority, host_differs: false }),
            (None, Some(authority)) => Some(Self { authority, host_differs: false }),
            (None, None) => None,
        }
    }
}

/// Splits `host [":" port]` at the colon before the port. The port is `None` without that colon.
/// The brackets of an IP literal belong to the host.
pub fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let bracket = memchr::memrchr(b']', authority).unwrap_or(0);
    match memchr::memrchr(b':', authority) {
        Some(colon) if colon >= bracket => {
            let (host, port) = authority.split_at(colon);
            (host, port.get(1..))
        }
        _ => (authority, None),
    }
}

/// Checks `uri-host [":" port]` (RFC 9110 section 7.2). The host must not be empty, as `http` and
/// `https` require (section 4.2). The port must be below 65536, or empty.
pub(crate) fn check_authority(authority: &[u8]) -> Result<(), TargetError> {
    let (host, port) = split_port(authority);
    let host_valid = match host {
        [] => false,
        [b'[', literal @ .., b']'] => !literal.is_empty() && octets::IP_LITERAL.has_all(literal),
        name => octets::HOST.has_all(name),
    };
    let port_valid = port.is_none_or(|port| {
        port.is_empty() || octets::decimal(port).is_some_and(|number| number <= u64::from(u16::MAX))
    });
    if host_valid && port_valid { Ok(()) } else { Err(TargetError::Authority) }
}

/// Whether `octets` is a `scheme` (RFC 3986 section 3.1).
fn is_scheme(octets: &[u8]) -> bool {
    octets.first().is_some_and(u8::is_ascii_alphabetic)
        && octets.iter().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::{EffectiveAuthority, Target, TargetForm, check_authority, split_port};
    use crate::error::TargetError;
    use message::{Fields, Method, RequestHead, Version};

    fn split<'a>(method: &Method, target: &'a str) -> Result<Target<'a>, TargetError> {
        Target::split(method, target.as_bytes())
    }

    fn text(octets: &[u8]) -> String {
        octets.escape_ascii().to_string()
    }

    #[test]
    fn origin_form() {
        let target = split(&Method::Get, "/a/b?c=d?e").unwrap();
        assert_eq!((target.form, target.scheme, target.authority), (TargetForm::Origin, None, None));
        assert_eq!((text(target.path()), target.query().map(text)), ("/a/b".into(), Some("c=d?e".into())));
        assert_eq!(split(&Method::Get, "/a").unwrap().query(), None);
        assert_eq!(split(&Method::Get, "/a?").unwrap().query(), Some(&b""[..]));
        assert_eq!(split(&Method::Get, "//evil/x").unwrap().authority, None);
    }

    #[test]
    fn unencoded_brackets_of_browsers_are_accepted() {
        assert!(split(&Method::Get, "/a?filter[]=x|y&z={1}^`\\").is_ok());
        for octet in [" ", "\"", "<", ">", "#", "\x7f", "\u{e9}", "\t", "\0"] {
            assert_eq!(split(&Method::Get, &format!("/{octet}")), Err(TargetError::Octet), "{octet:?}");
        }
    }

    #[test]
    fn absolute_form() {
        let target = split(&Method::Get, "HTTP://h.example:80/a?b").unwrap();
        assert_eq!(target.form, TargetForm::Absolute);
        assert_eq!(target.scheme.map(text), Some("HTTP".into()));
        assert_eq!(target.authority.map(text), Some("h.example:80".into()));
        assert_eq!(text(target.path_and_query), "/a?b");
        assert_eq!(text(split(&Method::Get, "http://h").unwrap().path_and_query), "/");
        assert_eq!(text(split(&Method::Options, "http://h").unwrap().path_and_query), "*");
        let bare_query = split(&Method::Get, "http://h?b").unwrap();
        assert_eq!(
            (text(bare_query.path()), bare_query.query().map(text)),
            (String::new(), Some("b".into()))
        );
        for (target, fault) in [
            ("http:///a", TargetError::Authority),
            ("http://u@h/a", TargetError::Authority),
            ("http://u:p@h/a", TargetError::Authority),
            ("http://h\\evil/a", TargetError::Authority),
            ("1http://h/", TargetError::Form),
            ("http:/h/", TargetError::Form),
            ("://h/", TargetError::Form),
            ("", TargetError::Form),
            ("*", TargetError::Form),
        ] {
            assert_eq!(split(&Method::Get, target), Err(fault), "{target}");
        }
    }

    #[test]
    fn authority_form_needs_connect_and_a_port() {
        let target = split(&Method::Connect, "[::1]:443").unwrap();
        assert_eq!((target.form, target.authority), (TargetForm::Authority, Some(&b"[::1]:443"[..])));
        assert_eq!(split(&Method::Connect, "h"), Err(TargetError::Form));
        assert_eq!(split(&Method::Connect, "h:"), Err(TargetError::Form));
        assert_eq!(split(&Method::Connect, "/"), Err(TargetError::Authority));
        assert_eq!(split(&Method::Get, "h:443"), Err(TargetError::Form));
    }

    #[test]
    fn asterisk_form_needs_options() {
        assert_eq!(split(&Method::Options, "*").map(|target| target.form), Ok(TargetForm::Asterisk));
    }

    #[test]
    fn hosts_and_ports() {
        for good in ["h", "h:80", "h:", "192.0.2.1", "[2001:db8::1]:8080", "a_b.example", "%41", "h:65535"] {
            assert_eq!(check_authority(good.as_bytes()), Ok(()), "{good}");
        }
        for bad in
            ["", ":80", "h:80a", "h:65536", "a:b:c", "a b", "a/b", "a@b", "[::1", "[]", "[h", "::1", "a\"b"]
        {
            assert_eq!(check_authority(bad.as_bytes()), Err(TargetError::Authority), "{bad}");
        }
        assert_eq!(split_port(b"[::1]"), (&b"[::1]"[..], None));
        assert_eq!(split_port(b"[::1]:8"), (&b"[::1]"[..], Some(&b"8"[..])));
        assert_eq!(split_port(b":80"), (&b""[..], Some(&b"80"[..])));
        assert_eq!(split_port(b"h:"), (&b"h"[..], Some(&b""[..])));
    }

    #[test]
    fn authority_of_the_target_wins_over_host() {
        let effective = |target: &'static str, host: Option<&'static str>| {
            let mut fields = Fields::new();
            if let Some(host) = host {
                fields.push("Host", host);
            }
            let head =
                RequestHead { method: Method::Get, target: target.into(), version: Version::Http11, fields };
            EffectiveAuthority::of(&head).map(|found| (text(found.authority), found.host_differs))
        };
        assert_eq!(effective("http://A/x", Some("a")), Some(("A".into(), false)));
        assert_eq!(effective("http://a/x", Some("b")), Some(("a".into(), true)));
        assert_eq!(effective("http://a:80/x", Some("a")), Some(("a:80".into(), true)));
        assert_eq!(effective("http://a/x", None), Some(("a".into(), false)));
        assert_eq!(effective("/x", Some("b")), Some(("b".into(), false)));
        assert_eq!(effective("/x", None), None);
    }
}
