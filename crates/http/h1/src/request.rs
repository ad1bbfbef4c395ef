//! Parses request heads (RFC 9112 sections 2, 3 and 6). Bodies are read by [`crate::BodyDecoder`].

use crate::error::{HeadError, RequestError, TargetError};
use crate::framing::{BodyFraming, Facts};
use crate::head::{self, Spans};
use crate::limits::{Limits, Strictness};
use crate::octets;
use crate::target::{self, Target};
use bytes::BytesMut;
use message::{Method, RequestHead, Version, list_members};

/// A request head, and its consequences for the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method, target, version and fields as received.
    pub head: RequestHead,
    /// How the end of the body is determined; never [`BodyFraming::UntilClose`].
    pub framing: BodyFraming,
    /// Whether another request may follow on this connection.
    pub persistent: bool,
    /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 section
    /// 10.1.1). Only in HTTP/1.1 and only if there is a body.
    pub expect_continue: bool,
    /// Whether the client asks to switch protocols (RFC 9110 section 7.8). This needs HTTP/1.1, the
    /// field Upgrade, and the connection option `upgrade`.
    pub upgrade: bool,
}

/// Parses the request head at the start of `buf`.
///
/// `None` means that more bytes are needed; the bytes stay in `buf`. If the connection ends now,
/// the request is truncated unless `buf` is empty. On success the head is split off, and names,
/// values and target are slices of it.
///
/// Empty lines before the request line are skipped, as RFC 9112 section 2.2 advises.
///
/// # Errors
///
/// [`RequestError`]. `buf` is unchanged, and the connection is of no further use.
pub fn parse_request(
    buf: &mut BytesMut,
    limits: &Limits,
    strictness: Strictness,
) -> Result<Option<Request>, RequestError> {
    let (window, window_full) = head::window(buf, limits);
    let mut table = head::table();
    let mut parsed = httparse::Request::new(&mut []);
    let head_bytes = match parsed.parse_with_uninit_headers(window, head::rows(&mut table, limits)) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if !window_full => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(too_large(window)),
        Err(httparse::Error::Version) => return version_fault(window, window_full),
        Err(fault) => return Err(name_fault(fault, window)),
    };
    let octets = window.get(..head_bytes).unwrap_or(window);
    let target = parsed.path.unwrap_or_default().as_bytes();
    let method = Method::from_token(parsed.method.unwrap_or_default().as_bytes());
    let version = head::version(parsed.version);
    let facts = RequestFacts::of(parsed.headers);

    if strictness == Strictness::Strict {
        check_start(octets)?;
        head::check_line_ends(octets, parsed.headers)?;
    }
    if target.len() > limits.target_bytes_max {
        return Err(RequestError::TargetTooLong);
    }
    check_target(&method, target, strictness)?;
    facts.check_host(version, strictness)?;
    let (framing, persistent) = facts.framing.request(version, strictness)?;

    let spans = Spans::new(octets, parsed.headers);
    let (target_start, target_bytes) = (head::offset(octets, target), target.len());
    let head = buf.split_to(head_bytes).freeze();
    Ok(Some(Request {
        head: RequestHead {
            method,
            target: head.slice(target_start..target_start + target_bytes),
            version,
            fields: spans.fields(&head),
        },
        framing,
        persistent,
        expect_continue: facts.expect_continue && version == Version::Http11 && !framing.is_empty(),
        upgrade: facts.upgrade && facts.framing.upgrade && version == Version::Http11,
    }))
}

/// The statements of a request's field lines that the parser needs.
#[derive(Default)]
struct RequestFacts {
    framing: Facts,
    hosts: u32,
    host_invalid: bool,
    expect_continue: bool,
    upgrade: bool,
}

impl RequestFacts {
    fn of(headers: &[httparse::Header<'_>]) -> Self {
        let mut facts = Self::default();
        for header in headers {
            facts.observe(header.name.as_bytes(), header.value);
        }
        facts
    }

    fn observe(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts = self.hosts.saturating_add(1);
                self.host_invalid |= target::check_authority(value).is_err();
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.expect_continue |=
                    list_members(value).any(|member| member.eq_ignore_ascii_case(b"100-continue"));
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrade |= !value.is_empty(),
            _ => self.framing.observe(name, value),
        }
    }

    /// Checks Host (RFC 9112 section 3.2): exactly one and valid in HTTP/1.1, at most one in
    /// HTTP/1.0.
    fn check_host(&self, version: Version, strictness: Strictness) -> Result<(), RequestError> {
        if self.hosts > 1 {
            return Err(RequestError::HostRepeated);
        }
        if strictness == Strictness::Tolerant {
            return Ok(());
        }
        if self.hosts == 0 && version == Version::Http11 {
            return Err(RequestError::HostMissing);
        }
        if self.host_invalid { Err(RequestError::HostInvalid) } else { Ok(()) }
    }
}

/// Checks that the empty lines before the request line end with CR LF.
fn check_start(octets: &[u8]) -> Result<(), HeadError> {
    let empty_lines = octets.get(..head::empty_lines_bytes(octets)).unwrap_or_default();
    if empty_lines.chunks(2).all(|line| line == b"\r\n") { Ok(()) } else { Err(HeadError::BareLf) }
}

fn check_target(method: &Method, target: &[u8], strictness: Strictness) -> Result<(), TargetError> {
    match strictness {
        Strictness::Strict => Target::split(method, target).map(|_| ()),
        Strictness::Tolerant => Ok(()),
    }
}

/// The fault of a head that does not end within its limit. It is the target's if not even the
/// request line ends.
#[cold]
fn too_large(window: &[u8]) -> RequestError {
    let request_line_on = window.get(head::empty_lines_bytes(window)..).unwrap_or_default();
    if request_line_on.is_empty() || memchr::memchr(b'\n', request_line_on).is_some() {
        return HeadError::TooLarge.into();
    }
    RequestError::TargetTooLong
}

/// Names the fault in the place of the version, once its line has ended. `None` means that more
/// bytes are needed: the tokenizer stops at the first unexpected byte, and the fault depends on the
/// rest.
#[cold]
fn version_fault(window: &[u8], window_full: bool) -> Result<Option<Request>, RequestError> {
    let request_line_on = window.get(head::empty_lines_bytes(window)..).unwrap_or_default();
    let Some(end) = request_line_on.iter().position(|octet| matches!(octet, b'\r' | b'\n')) else {
        return if window_full { Err(too_large(window)) } else { Ok(None) };
    };
    let line = request_line_on.get(..end).unwrap_or_default();
    let version = line.splitn(3, |&octet| octet == b' ').nth(2).unwrap_or_default();
    Err(match version {
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => HeadError::Version.into(),
        _ => HeadError::VersionMalformed.into(),
    })
}

/// Names the tokenizer's fault. It reports one error for method and target. The method is at fault
/// unless it is a token with a space after it.
#[cold]
fn name_fault(fault: httparse::Error, window: &[u8]) -> RequestError {
    if let Some(fault) = head::name_fault(fault, window, false) {
        return fault.into();
    }
    let request_line_on = window.get(head::empty_lines_bytes(window)..).unwrap_or_default();
    let method_bytes =
        request_line_on.iter().position(|&octet| !octets::TOKEN.has(octet)).unwrap_or_default();
    if method_bytes > 0 && request_line_on.get(method_bytes) == Some(&b' ') {
        return RequestError::Target(TargetError::Octet);
    }
    RequestError::Method
}

#[cfg(test)]
mod tests {
    use super::{Request, parse_request};
    use crate::error::{HeadError, RequestError};
    use crate::limits::{Limits, Strictness};
    use bytes::BytesMut;
    use message::Method;

    fn parse(wire: &str, limits: &Limits, strictness: Strictness) -> Result<Option<Request>, RequestError> {
        parse_request(&mut BytesMut::from(wire), limits, strictness)
    }

    fn strict(wire: &str) -> Result<Option<Request>, RequestError> {
        parse(wire, &Limits::DEFAULT, Strictness::Strict)
    }

    #[test]
    fn parsed_parts_are_slices_of_the_buffer() {
        let mut buf = BytesMut::from("PURGE /a?b HTTP/1.1\r\nHost: h\r\nX:  y z \r\n\r\nrest");
        let place = buf.as_ptr() as usize..buf.as_ptr() as usize + buf.len();
        let request = parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap();
        assert_eq!(request.head.method, Method::from_token(b"PURGE"));
        assert_eq!(request.head.target, "/a?b");
        assert_eq!(request.head.fields.first("x").unwrap(), "y z");
        assert!(place.contains(&(request.head.target.as_ptr() as usize)));
        for field in &request.head.fields {
            assert!(place.contains(&(field.name.as_ptr() as usize)));
            assert!(place.contains(&(field.value.as_ptr() as usize)));
        }
        assert_eq!(buf, "rest");
    }

    #[test]
    fn refused_or_incomplete_head_stays_in_the_buffer() {
        for wire in ["GET / HTTP/1.1\r\nHost: h\r\n", "GET / HTTP/1.1\r\n\r\n"] {
            let mut buf = BytesMut::from(wire);
            let parsed = parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict);
            assert!(!matches!(parsed, Ok(Some(_))));
            assert_eq!(buf, wire);
        }
    }

    #[test]
    fn fields_beyond_the_inline_table_keep_their_order() {
        let lines: String = (0..90).map(|number| format!("X-{number}: v{number}\r\n")).collect();
        let request = strict(&format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n")).unwrap().unwrap();
        assert_eq!(request.head.fields.len(), 91);
        for (number, field) in request.head.fields.iter().skip(1).enumerate() {
            assert_eq!(
                (&field.name[..], &field.value[..]),
                (format!("X-{number}").as_bytes(), format!("v{number}").as_bytes())
            );
        }
    }

    #[test]
    fn each_limit_is_exact() {
        let wire = "GET /abcd HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n";
        let with = |change: fn(&mut Limits)| {
            let mut limits = Limits::DEFAULT;
            change(&mut limits);
            parse(wire, &limits, Strictness::Strict).map(|request| request.is_some())
        };
        assert_eq!(wire.len(), 37);
        assert_eq!(with(|limits| limits.head_bytes_max = 37), Ok(true));
        assert_eq!(with(|limits| limits.head_bytes_max = 36), Err(HeadError::TooLarge.into()));
        assert_eq!(with(|limits| limits.head_bytes_max = 18), Err(RequestError::TargetTooLong));
        assert_eq!(with(|limits| limits.head_bytes_max = 0), Err(HeadError::TooLarge.into()));
        assert_eq!(with(|limits| limits.fields_max = 2), Ok(true));
        assert_eq!(with(|limits| limits.fields_max = 1), Err(HeadError::TooManyFields.into()));
        assert_eq!(with(|limits| limits.fields_max = 100_000), Ok(true));
        assert_eq!(with(|limits| limits.target_bytes_max = 5), Ok(true));
        assert_eq!(with(|limits| limits.target_bytes_max = 4), Err(RequestError::TargetTooLong));
    }

    #[test]
    fn endless_empty_lines_are_a_head_too_large() {
        let wire = "\r\n".repeat(Limits::HEAD_BYTES_MAX);
        assert_eq!(strict(&wire), Err(HeadError::TooLarge.into()));
    }

    #[test]
    fn expect_continue_counts_in_http11_with_a_body_only() {
        let expects = |version: &str, length: u8, value: &str| {
            let wire = format!(
                "POST / HTTP/{version}\r\nHost: h\r\nContent-Length: {length}\r\nExpect: {value}\r\n\r\n"
            );
            strict(&wire).unwrap().unwrap().expect_continue
        };
        assert!(expects("1.1", 1, "100-Continue"));
        assert!(!expects("1.1", 0, "100-continue"));
        assert!(!expects("1.0", 1, "100-continue"));
        assert!(!expects("1.1", 1, "200-ok"));
    }

    #[test]
    fn upgrade_needs_field_option_and_http11() {
        let upgrade = |version: &str, lines: &str| {
            strict(&format!("GET / HTTP/{version}\r\nHost: h\r\n{lines}\r\n")).unwrap().unwrap().upgrade
        };
        assert!(upgrade("1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"));
        assert!(upgrade("1.1", "Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade:\r\n"));
        assert!(!upgrade("1.1", "Upgrade: websocket\r\n"));
        assert!(!upgrade("1.1", "Connection: upgrade\r\n"));
        assert!(!upgrade("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n"));
    }

    #[test]
    fn tolerant_mode_reads_requests_that_strict_refuses() {
        let tolerant = |wire| parse(wire, &Limits::DEFAULT, Strictness::Tolerant);
        for wire in [
            "GET / HTTP/1.1\nHost: h\n\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET /\u{fc} HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
        ] {
            assert!(matches!(tolerant(wire), Ok(Some(_))), "{wire:?}");
            assert!(strict(wire).is_err(), "{wire:?}");
        }
        for (wire, fault) in [
            ("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", RequestError::HostRepeated),
            ("GET / HTTP/1.1\r\nX : y\r\n\r\n", HeadError::BlankBeforeColon.into()),
            ("GET / HTTP/1.1\r\nX: y\r\n z\r\n\r\n", HeadError::Folded.into()),
        ] {
            assert_eq!(tolerant(wire), Err(fault));
        }
    }
}
