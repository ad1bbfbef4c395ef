//! Parses response heads (RFC 9112 sections 2, 4 and 6) in two ways with the same result. The
//! reverse proxy gets owned slices; the load tester's hot loop reads heads in place, without any
//! allocation.

use crate::error::{HeadError, ResponseError};
use crate::framing::{BodyFraming, Facts, FramingMethod};
use crate::head::{self, Spans};
use crate::limits::{Limits, Strictness};
use bytes::BytesMut;
use httparse::ParserConfig;
use message::{Method, ResponseHead, Status, Version};

/// A response head, and its consequences for the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Version, status, reason and fields as received.
    pub head: ResponseHead,
    /// How the end of the body is determined.
    pub framing: BodyFraming,
    /// Whether the connection may carry another request once the body was read. False after 101 and
    /// after a 2xx to CONNECT, because the connection then speaks another protocol.
    pub persistent: bool,
}

/// The result of reading a response head in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseSkim {
    /// Size of the head in bytes. The body starts after it.
    pub head_bytes: usize,
    /// The protocol version.
    pub version: Version,
    /// The status code. After 1xx another head follows.
    pub status: Status,
    /// How the end of the body is determined.
    pub framing: BodyFraming,
    /// Whether the connection may carry another request, as for [`Response::persistent`].
    pub persistent: bool,
}

/// Parses the response head at the start of `buf`, in response to a request with `request_method`.
///
/// `None` means that more bytes are needed; they stay in `buf`. On success the head is split off,
/// and names, values and reason are slices of it. Informational responses (1xx) are returned like
/// any other.
///
/// # Errors
///
/// [`ResponseError`]. `buf` is unchanged, and the connection is of no further use.
pub fn parse_response(
    buf: &mut BytesMut,
    request_method: &Method,
    limits: &Limits,
    strictness: Strictness,
) -> Result<Option<Response>, ResponseError> {
    parse(buf, FramingMethod::by(request_method), limits, strictness)
}

/// [`parse_response`] for the methods that differ.
pub(crate) fn parse(
    buf: &mut BytesMut,
    method: FramingMethod,
    limits: &Limits,
    strictness: Strictness,
) -> Result<Option<Response>, ResponseError> {
    let mut table = head::table();
    let Some(found) = tokenize(buf, &mut table, method, limits, strictness)? else {
        return Ok(None);
    };
    let skim = found.skim;
    let octets = buf.get(..skim.head_bytes).unwrap_or_default();
    let spans = Spans::new(octets, found.headers);
    let reason = reason_range(octets);
    let mut head = buf.split_to(skim.head_bytes);
    if strictness == Strictness::Tolerant {
        spans.unfold(&mut head);
    }
    let head = head.freeze();
    Ok(Some(Response {
        head: ResponseHead {
            version: skim.version,
            status: skim.status,
            reason: head.slice(reason),
            fields: spans.fields(&head),
        },
        framing: skim.framing,
        persistent: skim.persistent,
    }))
}

/// Reads the response head at the start of `input` in place, tolerantly and without any allocation.
///
/// The result agrees with [`parse_response`] in [`Strictness::Tolerant`] mode. `answers_head` is
/// whether the request's method was HEAD. `None` means that more bytes are needed.
///
/// # Errors
///
/// [`ResponseError`]. The connection is of no further use.
pub fn skim_response(
    input: &[u8],
    answers_head: bool,
    limits: &Limits,
) -> Result<Option<ResponseSkim>, ResponseError> {
    skim(
        input,
        if answers_head { FramingMethod::Head } else { FramingMethod::Other },
        limits,
        Strictness::Tolerant,
    )
}

/// [`skim_response`] for the methods that differ, in either mode.
pub(crate) fn skim(
    input: &[u8],
    method: FramingMethod,
    limits: &Limits,
    strictness: Strictness,
) -> Result<Option<ResponseSkim>, ResponseError> {
    let mut table = head::table();
    let found = tokenize(input, &mut table, method, limits, strictness)?;
    Ok(found.map(|found| found.skim))
}

impl ResponseSkim {
    /// The value of the first field line called `name`. `input` must be the same as in the call of
    /// [`skim_response`]. White space around the value is trimmed; a folded value keeps its line
    /// ends.
    pub fn field<'a>(&self, input: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let mut rest = input.get(..self.head_bytes)?;
        rest = rest.get(head::empty_lines_bytes(rest)..)?;
        loop {
            rest = rest.get(memchr::memchr(b'\n', rest)? + 1..)?;
            let (candidate, after) = rest.split_at_checked(name.len())?;
            if !candidate.eq_ignore_ascii_case(name.as_bytes()) {
                continue;
            }
            if let Some(value) = after.trim_ascii_start().strip_prefix(b":") {
                return Some(value.get(..value_bytes(value)).unwrap_or(value).trim_ascii());
            }
        }
    }
}

/// The number of bytes up to a line end that no folded line follows.
fn value_bytes(value: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', value)
        .find(|&line_end| !matches!(value.get(line_end + 1), Some(b' ' | b'\t')))
        .unwrap_or(value.len())
}

/// A tokenized head with the values that follow from it.
struct TokenizedHead<'t, 'a> {
    skim: ResponseSkim,
    headers: &'t [httparse::Header<'a>],
}

fn tokenize<'t, 'a>(
    input: &'a [u8],
    table: &'t mut head::HeaderSlots<'a>,
    method: FramingMethod,
    limits: &Limits,
    strictness: Strictness,
) -> Result<Option<TokenizedHead<'t, 'a>>, ResponseError> {
    let (window, window_full) = head::window(input, limits);
    let tolerant = strictness == Strictness::Tolerant;
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(tolerant)
        .allow_obsolete_multiline_headers_in_responses(tolerant);
    let mut parsed = httparse::Response::new(&mut []);
    let rows = head::rows(table, limits);
    let head_bytes = match config.parse_response_with_uninit_headers(&mut parsed, window, rows) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if !window_full => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(HeadError::TooLarge.into()),
        Err(fault) => return Err(name_fault(fault, window, tolerant)),
    };
    let octets = window.get(..head_bytes).unwrap_or(window);
    if !tolerant {
        if head::empty_lines_bytes(octets) > 0 {
            return Err(ResponseError::EmptyLine);
        }
        head::check_line_ends(octets, parsed.headers)?;
    }
    let status = parsed.code.and_then(Status::from_code).ok_or(ResponseError::StatusLine)?;
    let version = head::version(parsed.version);
    let mut facts = Facts::default();
    for header in parsed.headers.iter() {
        facts.observe(header.name.as_bytes(), header.value);
    }
    let (framing, persistent) = facts.response(version, strictness, status, method)?;
    let skim = ResponseSkim { head_bytes, version, status, framing, persistent };
    Ok(Some(TokenizedHead { skim, headers: parsed.headers }))
}

/// The position of the reason phrase in a complete head: after `HTTP/1.1 200 `, up to the line's
/// end. The tokenizer does not return reasons with non-ASCII bytes, and accepts a line without the
/// space.
fn reason_range(head: &[u8]) -> std::ops::Range<usize> {
    const BEFORE_REASON_BYTES: usize = "HTTP/1.1 200 ".len();
    let line_start = head::empty_lines_bytes(head);
    let line = head.get(line_start..).unwrap_or_default();
    let line = line.get(..memchr::memchr(b'\n', line).unwrap_or(line.len())).unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let end = line_start + line.len();
    (line_start + BEFORE_REASON_BYTES).min(end)..end
}

#[cold]
fn name_fault(fault: httparse::Error, window: &[u8], tolerant: bool) -> ResponseError {
    head::name_fault(fault, window, tolerant).map_or(ResponseError::StatusLine, ResponseError::Head)
}

#[cfg(test)]
mod tests {
    use super::{Response, parse_response, skim_response};
    use crate::error::{HeadError, ResponseError};
    use crate::framing::BodyFraming;
    use crate::limits::{Limits, Strictness};
    use bytes::BytesMut;
    use message::{Method, Status, Version};

    fn parse(wire: &str, strictness: Strictness) -> Result<Option<Response>, ResponseError> {
        parse_response(&mut BytesMut::from(wire), &Method::Get, &Limits::DEFAULT, strictness)
    }

    #[test]
    fn parsing_and_skimming_give_the_same_values() {
        let wire = "HTTP/1.1 404 Not here\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
        let mut buf = BytesMut::from(wire);
        let response =
            parse_response(&mut buf, &Method::Get, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap();
        assert_eq!(buf, "no");
        assert_eq!((response.head.version, response.head.status), (Version::Http11, Status::NOT_FOUND));
        assert_eq!(response.head.reason, "Not here");
        assert_eq!((response.framing, response.persistent), (BodyFraming::Length(2), false));
        let skim = skim_response(wire.as_bytes(), false, &Limits::DEFAULT).unwrap().unwrap();
        assert_eq!((skim.version, skim.status), (Version::Http11, Status::NOT_FOUND));
        assert_eq!((skim.framing, skim.persistent), (BodyFraming::Length(2), false));
        assert_eq!(&wire[skim.head_bytes..], "no");
        let head = skim_response(wire.as_bytes(), true, &Limits::DEFAULT).unwrap().unwrap();
        assert_eq!(head.framing, BodyFraming::Empty);
    }

    #[test]
    fn reasons_are_kept_as_received() {
        for (line, reason) in [
            ("HTTP/1.1 200", ""),
            ("HTTP/1.1 200 ", ""),
            ("HTTP/1.0 200 O K", "O K"),
            ("HTTP/1.1 200 Gr\u{fc}n", "Gr\u{fc}n"),
        ] {
            for strictness in [Strictness::Strict, Strictness::Tolerant] {
                let response = parse(&format!("{line}\r\n\r\n"), strictness).unwrap().unwrap();
                assert_eq!(response.head.reason, reason);
            }
        }
    }

    #[test]
    fn informational_responses_are_returned() {
        let response = parse("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Strictness::Strict);
        let response = response.unwrap().unwrap();
        assert_eq!(response.head.status.code(), 103);
        assert_eq!((response.framing, response.persistent), (BodyFraming::Empty, true));
    }

    #[test]
    fn tolerated_deviations_are_read_as_the_rfc_says() {
        for (wire, name, value) in [
            ("HTTP/1.1 200 OK\nX: y\n\n", "x", "y"),
            ("\r\n\nHTTP/1.1 200 OK\r\nX: y\r\n\r\n", "x", "y"),
            ("HTTP/1.1 200 OK\r\nX \t: y\r\n\r\n", "x", "y"),
            ("HTTP/1.1 200 OK\r\nX: y\r\n\tz\r\n\r\n", "x", "y  \tz"),
            ("HTTP/1.1 200 OK\r\nX:\r\n y\r\n\r\n", "x", "y"),
        ] {
            assert!(parse(wire, Strictness::Strict).is_err(), "{wire:?}");
            let response = parse(wire, Strictness::Tolerant).unwrap().unwrap();
            assert_eq!(response.head.fields.only(name).unwrap(), value, "{wire:?}");
        }
    }

    #[test]
    fn tolerant_mode_refuses_other_deviations() {
        for (wire, fault) in [
            ("HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", HeadError::FieldValue.into()),
            ("HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", HeadError::FieldValue.into()),
            ("HTTP/1.1 200 OK\r\nX y: z\r\n\r\n", HeadError::BlankBeforeColon.into()),
            ("HTTP/1.1 200 OK\r\n X: z\r\n\r\n", HeadError::Folded.into()),
            (
                "HTTP/1.1 200 OK\r\nW : 1\r\nX: y\r\n z\r\nno colon\r\n\r\n",
                HeadError::BlankBeforeColon.into(),
            ),
            ("HTTP/1.1 200 OK\r\nW : 1\r\nX: y\r\n z\r\n(: y\r\n\r\n", HeadError::FieldName.into()),
            ("HTTP/1.1 200 OK\r\nX: y\r\n z\r\n(: y\r\n\r\n", HeadError::FieldName.into()),
            ("HTTP/1.1  200 OK\r\n\r\n", ResponseError::StatusLine),
            ("HTTP/3.0 200 OK\r\n\r\n", HeadError::Version.into()),
            ("<html>", HeadError::Version.into()),
        ] {
            assert_eq!(parse(wire, Strictness::Tolerant), Err(fault), "{wire:?}");
        }
    }

    #[test]
    fn skimmed_fields_are_found_by_their_whole_name() {
        let wire = b"\nHTTP/1.1 200 X: no\r\nX-Y: 1\r\nx :  2 \r\nX: 3\r\nLong: a\r\n b\r\nEmpty:\r\n\r\nLate: 4\r\n";
        let skim = skim_response(wire, false, &Limits::DEFAULT).unwrap().unwrap();
        assert_eq!(skim.field(wire, "X"), Some(&b"2"[..]));
        assert_eq!(skim.field(wire, "x-y"), Some(&b"1"[..]));
        assert_eq!(skim.field(wire, "long"), Some(&b"a\r\n b"[..]));
        assert_eq!(skim.field(wire, "Empty"), Some(&b""[..]));
        assert_eq!(skim.field(wire, "Late"), None);
        assert_eq!(skim.field(wire, ""), None);
    }

    #[test]
    fn unfinished_head_is_refused_at_its_limit() {
        let wire = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(Limits::HEAD_BYTES_MAX));
        let short = wire.get(..Limits::HEAD_BYTES_MAX - 1).unwrap();
        assert_eq!(parse(short, Strictness::Strict), Ok(None));
        assert_eq!(parse(&wire, Strictness::Strict), Err(HeadError::TooLarge.into()));
        let skimmed = skim_response(wire.as_bytes(), false, &Limits::DEFAULT);
        assert_eq!(skimmed, Err(HeadError::TooLarge.into()));
    }
}
