//! Translates a request from HTTP/2 to HTTP/1 (RFC 9113 section 8.3).
//!
//! Invariant: the strict parser of HTTP/1 checks the translation, so that a request with HTTP/2 is
//! accepted only if the same request with HTTP/1 would be. No byte of a request can become framing
//! of HTTP/1: names and values hold no line break, and the connection fields that HTTP/2 forbids
//! are never copied.

use bytes::{BufMut as _, BytesMut};
use h1::{Limits, Request, RequestError, Strictness};
use http::request::Parts;
use http::{HeaderName, Method, header};

/// Fields that state the framing or the state of a connection with HTTP/1. In HTTP/2 they are
/// malformed (RFC 9113 section 8.2.2).
const OF_HTTP1: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A request of a client with HTTP/2.
#[derive(Debug)]
pub(crate) struct Translated {
    /// The request with HTTP/1.
    pub(crate) request: Request,
    /// Whether the client asks for a tunnel with another protocol (RFC 8441). The request then asks
    /// to switch protocols.
    pub(crate) is_tunnel: bool,
    /// The size of the head in HTTP/1.
    pub(crate) head_bytes: usize,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestFault {
    /// A violation of HTTP/2, which ends the stream (RFC 9113 section 8.1.1).
    Malformed,
    /// The translation is no correct request with HTTP/1.
    Refused(RequestError),
}

impl From<RequestError> for RequestFault {
    fn from(error: RequestError) -> Self {
        Self::Refused(error)
    }
}

/// Translates a request. `has_content`: more frames follow its head. `key` is the random part of a
/// handshake for WebSocket (RFC 6455 section 4.1), 16 bytes in base64.
///
/// # Errors
/// [`RequestFault`].
pub(crate) fn translate(
    parts: &Parts,
    has_content: bool,
    limits: &Limits,
    key: impl Fn() -> String,
) -> Result<Translated, RequestFault> {
    if parts.headers.keys().any(is_of_http1) || parts.headers.values().any(is_padded) {
        return Err(RequestFault::Malformed);
    }
    let is_tunnel = protocol(parts) == Some("websocket");
    let mut octets = BytesMut::with_capacity(512);
    put_request_line(&mut octets, parts, is_tunnel)?;
    put_host(&mut octets, parts)?;
    put_fields(&mut octets, parts, is_tunnel);
    if is_tunnel {
        put_field(&mut octets, b"connection", b"upgrade");
        put_field(&mut octets, b"upgrade", b"websocket");
        put_field(&mut octets, b"sec-websocket-key", key().as_bytes());
    } else if has_content && !parts.headers.contains_key(header::CONTENT_LENGTH) {
        put_field(&mut octets, b"transfer-encoding", b"chunked");
    } else if !has_content && states_content(parts) {
        return Err(RequestFault::Malformed);
    }
    octets.put_slice(b"\r\n");
    let head_bytes = octets.len();
    match h1::parse_request(&mut octets, limits, Strictness::Strict)? {
        // A rest would be another request.
        Some(request) if octets.is_empty() => Ok(Translated { request, is_tunnel, head_bytes }),
        _ => Err(RequestFault::Malformed),
    }
}

/// The protocol of an extended CONNECT (RFC 8441 section 4).
fn protocol(parts: &Parts) -> Option<&str> {
    parts.extensions.get::<h2::ext::Protocol>().map(h2::ext::Protocol::as_str)
}

/// Whether the request states a content although none follows.
fn states_content(parts: &Parts) -> bool {
    parts.headers.get_all(header::CONTENT_LENGTH).iter().any(|length| length != "0")
}

fn is_of_http1(name: &HeaderName) -> bool {
    OF_HTTP1.contains(&name.as_str())
}

/// Whether a value begins or ends with a space, which is malformed (RFC 9113 section 8.2.1).
fn is_padded(value: &http::HeaderValue) -> bool {
    let is_blank = |octet: Option<&u8>| matches!(octet, Some(b' ' | b'\t'));
    is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last())
}

fn put_request_line(octets: &mut BytesMut, parts: &Parts, is_tunnel: bool) -> Result<(), RequestFault> {
    // An extended CONNECT for another protocol stays one, and is refused as CONNECT.
    let is_connect = parts.method == Method::CONNECT && !is_tunnel;
    let method = if is_tunnel { "GET" } else { parts.method.as_str() };
    octets.put_slice(method.as_bytes());
    octets.put_u8(b' ');
    let authority = parts.uri.authority().map_or("", http::uri::Authority::as_str);
    if is_connect {
        octets.put_slice(authority.as_bytes());
        if parts.uri.port().is_none() && protocol(parts).is_some() {
            // The target of CONNECT needs a port. That of an extended one is a URL, which has one.
            octets.put_slice(if parts.uri.scheme_str() == Some("http") { &b":80"[..] } else { b":443" });
        }
    } else {
        let target = parts.uri.path_and_query().ok_or(RequestFault::Malformed)?;
        // A later step refuses a target with another scheme. The scheme of the web is that of the
        // listener or of the proxy in front, as with HTTP/1.
        if let Some(scheme) = parts.uri.scheme_str().filter(|scheme| !["http", "https"].contains(scheme)) {
            octets.put_slice(scheme.as_bytes());
            octets.put_slice(b"://");
            octets.put_slice(authority.as_bytes());
        }
        octets.put_slice(target.as_str().as_bytes());
    }
    octets.put_slice(b" HTTP/1.1\r\n");
    Ok(())
}

/// Writes the host. A field Host beside the pseudo-field must be the same (RFC 9113 section 8.3.1).
fn put_host(octets: &mut BytesMut, parts: &Parts) -> Result<(), RequestFault> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let (stated, further) = (hosts.next(), hosts.next());
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    match (authority, stated.map(http::HeaderValue::as_bytes)) {
        _ if further.is_some() => return Err(RequestError::HostRepeated.into()),
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            return Err(RequestFault::Malformed);
        }
        (Some(host), _) | (None, Some(host)) => put_field(octets, b"host", host),
        // The parser names the fault.
        (None, None) => {}
    }
    Ok(())
}

/// Writes all fields except the host. Several lines of Cookie become one (RFC 9113 section 8.2.3).
/// The data of a tunnel are no content.
fn put_fields(octets: &mut BytesMut, parts: &Parts, is_tunnel: bool) {
    let is_replaced = |name: &HeaderName| {
        let of_handshake = [header::CONTENT_LENGTH, header::SEC_WEBSOCKET_KEY];
        name == header::HOST || name == header::COOKIE || is_tunnel && of_handshake.contains(name)
    };
    let cookies: Vec<&[u8]> =
        parts.headers.get_all(header::COOKIE).iter().map(http::HeaderValue::as_bytes).collect();
    for (name, value) in &parts.headers {
        if !is_replaced(name) {
            put_field(octets, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if !cookies.is_empty() {
        put_field(octets, b"cookie", &cookies.join(&b"; "[..]));
    }
}

fn put_field(octets: &mut BytesMut, name: &[u8], value: &[u8]) {
    octets.put_slice(name);
    octets.put_slice(b": ");
    octets.put_slice(value);
    octets.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::{RequestFault, translate};
    use h1::{BodyFraming, Limits, RequestError};
    use http::request::Parts;

    const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

    fn parts(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn text(parts: &Parts, has_content: bool) -> Result<(String, BodyFraming), RequestFault> {
        let translated = translate(parts, has_content, &Limits::DEFAULT, || KEY.to_owned())?;
        let head = translated.request.head;
        let fields: Vec<_> = head
            .fields
            .iter()
            .map(|field| {
                format!("{}={}", String::from_utf8_lossy(&field.name), String::from_utf8_lossy(&field.value))
            })
            .collect();
        let target = String::from_utf8_lossy(&head.target).into_owned();
        Ok((format!("{} {target} {}", head.method, fields.join(" ")), translated.request.framing))
    }

    #[test]
    fn pseudo_fields_become_request_line_and_host() {
        let get = parts("GET", "https://a.test:8443/p?q=1", &[("accept", "*/*")]);
        assert_eq!(
            text(&get, false),
            Ok(("GET /p?q=1 host=a.test:8443 accept=*/*".to_owned(), BodyFraming::Empty))
        );
        let same = parts("GET", "https://a.test/", &[("host", "A.test")]);
        assert_eq!(text(&same, false).unwrap().0, "GET / host=a.test");
        let only_host = parts("GET", "/", &[("host", "a.test")]);
        assert_eq!(text(&only_host, false).unwrap().0, "GET / host=a.test");
        let connect = parts("CONNECT", "a.test:443", &[]);
        assert_eq!(
            text(&connect, true).unwrap().0,
            "CONNECT a.test:443 host=a.test:443 transfer-encoding=chunked"
        );
    }

    #[test]
    fn cookies_are_joined_and_repeated_fields_kept() {
        let fields = [("cookie", "a=1"), ("x", "1"), ("cookie", "b=2"), ("x", "2")];
        let found = text(&parts("GET", "https://a.test/", &fields), false).unwrap().0;
        assert_eq!(found, "GET / host=a.test x=1 x=2 cookie=a=1; b=2");
    }

    #[test]
    fn content_has_the_framing_of_its_length() {
        let with = |fields: &[(&str, &str)], has_content| {
            text(&parts("POST", "https://a.test/", fields), has_content).map(|(_, framing)| framing)
        };
        assert_eq!(with(&[("content-length", "5")], true), Ok(BodyFraming::Length(5)));
        assert_eq!(with(&[], true), Ok(BodyFraming::Chunked));
        assert_eq!(with(&[], false), Ok(BodyFraming::Empty));
        assert_eq!(with(&[("content-length", "5")], false), Err(RequestFault::Malformed));
        assert!(matches!(
            with(&[("content-length", "5"), ("content-length", "6")], true),
            Err(RequestFault::Refused(RequestError::Framing(_)))
        ));
        assert!(with(&[("content-length", "+5")], true).is_err());
    }

    #[test]
    fn fields_of_http1_and_padded_values_are_malformed() {
        for field in [
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("x", " padded"),
            ("x", "padded\t"),
        ] {
            let found = text(&parts("GET", "https://a.test/", &[field]), false);
            assert_eq!(found, Err(RequestFault::Malformed), "{field:?}");
        }
    }

    #[test]
    fn hosts_must_agree_and_be_valid() {
        let with = |uri: &str, hosts: &[&str]| {
            let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            text(&parts("GET", uri, &fields), false).map(|_| ())
        };
        assert_eq!(with("https://a.test/", &["b.test"]), Err(RequestFault::Malformed));
        assert_eq!(with("https://a.test/", &["a.test", "a.test"]), Err(RequestError::HostRepeated.into()));
        assert_eq!(with("/", &[]), Err(RequestError::HostMissing.into()));
        assert_eq!(with("/", &["a b"]), Err(RequestError::HostInvalid.into()));
        assert_eq!(with("https://user@a.test/", &[]), Err(RequestError::HostInvalid.into()));
    }

    #[test]
    fn extended_connect_asks_to_switch_protocols() {
        let mut connect = parts("CONNECT", "https://a.test/chat", &[("sec-websocket-version", "13")]);
        connect.extensions.insert(h2::ext::Protocol::from_static("websocket"));
        let translated = translate(&connect, true, &Limits::DEFAULT, || KEY.to_owned()).unwrap();
        assert!(translated.is_tunnel && translated.request.upgrade);
        assert_eq!(translated.request.framing, BodyFraming::Empty);
        let found = text(&connect, true).unwrap().0;
        assert_eq!(
            found,
            format!(
                "GET /chat host=a.test sec-websocket-version=13 connection=upgrade upgrade=websocket \
                 sec-websocket-key={KEY}"
            )
        );
        connect.extensions.insert(h2::ext::Protocol::from_static("connect-udp"));
        assert!(text(&connect, true).unwrap().0.starts_with("CONNECT a.test:443 "));
    }

    #[test]
    fn foreign_scheme_stays_in_the_target() {
        let found = text(&parts("GET", "ftp://a.test/x", &[]), false).unwrap().0;
        assert_eq!(found, "GET ftp://a.test/x host=a.test");
    }
}
