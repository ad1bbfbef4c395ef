//! Writes heads and chunked framing.
//!
//! Invariant: no value can end its line or section early, so none can become a field, a head or a
//! body. A section with a fault is not written at all. The writer adds and reorders nothing.
//! Framing fields are the caller's, see [`BodyFraming::announce`](crate::BodyFraming::announce).

use crate::error::WriteError;
use crate::octets;
use bytes::{BufMut, Bytes};
use message::{Field, Fields, Method, RequestHead, ResponseHead, Status, Version};

/// The line end after a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Writes a request head: request line, field lines, empty line.
///
/// # Errors
///
/// [`WriteError`] for an invalid method, target, name or value. Nothing is written.
pub fn write_request_head(out: &mut impl BufMut, head: &RequestHead) -> Result<(), WriteError> {
    check_fields(&head.fields)?;
    write_request_line(out, &head.method, &head.target, head.version)?;
    put_fields(out, &head.fields);
    write_head_end(out);
    Ok(())
}

/// Writes a response head: status line, field lines, empty line.
///
/// # Errors
///
/// [`WriteError`] for an invalid reason, name or value. Nothing is written.
pub fn write_response_head(out: &mut impl BufMut, head: &ResponseHead) -> Result<(), WriteError> {
    check_fields(&head.fields)?;
    write_status_line(out, head.version, head.status, &head.reason)?;
    put_fields(out, &head.fields);
    write_head_end(out);
    Ok(())
}

/// Writes a request line.
///
/// # Errors
///
/// [`WriteError`] for an invalid method or target. Nothing is written.
pub fn write_request_line(
    out: &mut impl BufMut,
    method: &Method,
    target: &[u8],
    version: Version,
) -> Result<(), WriteError> {
    if !octets::is_token(method.as_bytes()) {
        return Err(WriteError::Method);
    }
    // Strict requests allow fewer bytes. The load tester sends the targets that it is given, so
    // only bytes that would split the line are refused: spaces and control bytes.
    if target.is_empty() || target.iter().any(|octet| octet.is_ascii_control() || *octet == b' ') {
        return Err(WriteError::Target);
    }
    out.put_slice(method.as_bytes());
    out.put_u8(b' ');
    out.put_slice(target);
    out.put_u8(b' ');
    out.put_slice(version_octets(version));
    out.put_slice(b"\r\n");
    Ok(())
}

/// Writes a status line. The reason may be empty; the space before it is always written (RFC 9112
/// section 4).
///
/// # Errors
///
/// [`WriteError::Reason`] if the reason has a control byte. Nothing is written.
pub fn write_status_line(
    out: &mut impl BufMut,
    version: Version,
    status: Status,
    reason: &[u8],
) -> Result<(), WriteError> {
    if !octets::is_text(reason) {
        return Err(WriteError::Reason);
    }
    out.put_slice(version_octets(version));
    out.put_u8(b' ');
    put_decimal(out, u64::from(status.code()));
    out.put_u8(b' ');
    out.put_slice(reason);
    out.put_slice(b"\r\n");
    Ok(())
}

/// Writes field lines, without the empty line that ends a section.
///
/// # Errors
///
/// [`WriteError`] for an invalid name or value. Nothing is written.
pub fn write_fields(out: &mut impl BufMut, fields: &Fields) -> Result<(), WriteError> {
    check_fields(fields)?;
    put_fields(out, fields);
    Ok(())
}

/// Writes one field line.
///
/// # Errors
///
/// [`WriteError`] for an invalid name or value. Nothing is written.
pub fn write_field(out: &mut impl BufMut, name: &str, value: &[u8]) -> Result<(), WriteError> {
    check_field(name.as_bytes(), value)?;
    put_field(out, name.as_bytes(), value);
    Ok(())
}

/// Writes one field line with a decimal value, such as Content-Length or Age.
///
/// # Errors
///
/// [`WriteError::FieldName`] if the name is not a token. Nothing is written.
pub fn write_decimal_field(out: &mut impl BufMut, name: &str, value: u64) -> Result<(), WriteError> {
    check_field(name.as_bytes(), b"")?;
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    put_decimal(out, value);
    out.put_slice(b"\r\n");
    Ok(())
}

/// Writes the empty line that ends a head.
pub fn write_head_end(out: &mut impl BufMut) {
    out.put_slice(b"\r\n");
}

/// Writes the size line of a chunk. The caller writes the chunk's data and [`CHUNK_END`] after it.
///
/// # Panics
/// If `data_bytes` is zero: a chunk without data is the last chunk, see [`write_last_chunk`].
pub fn write_chunk_size(out: &mut impl BufMut, data_bytes: usize) {
    assert!(data_bytes > 0, "a chunk without data would end the body");
    let mut digits = [0; 16];
    let mut rest = data_bytes;
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef".get(rest & 0xf).copied().unwrap_or(b'0');
        rest >>= 4;
        length += 1;
        if rest == 0 {
            break;
        }
    }
    out.put_slice(digits.get(digits.len() - length..).unwrap_or_default());
    out.put_slice(b"\r\n");
}

/// Writes a complete chunk. Writes nothing if `data` is empty, because that would end the body.
pub fn write_chunk(out: &mut impl BufMut, data: &[u8]) {
    if !data.is_empty() {
        write_chunk_size(out, data.len());
        out.put_slice(data);
        out.put_slice(CHUNK_END);
    }
}

/// Writes the end of a chunked body: the last chunk and the trailer section.
///
/// # Errors
///
/// [`WriteError`] for an invalid trailer field. Nothing is written.
pub fn write_last_chunk(out: &mut impl BufMut, trailer: Option<&Fields>) -> Result<(), WriteError> {
    if let Some(fields) = trailer {
        check_fields(fields)?;
    }
    out.put_slice(b"0\r\n");
    if let Some(fields) = trailer {
        put_fields(out, fields);
    }
    out.put_slice(b"\r\n");
    Ok(())
}

fn check_fields(fields: &Fields) -> Result<(), WriteError> {
    fields.iter().try_for_each(|Field { name, value }| check_field(name, value))
}

#[inline]
fn check_field(name: &[u8], value: &[u8]) -> Result<(), WriteError> {
    if !octets::is_token(name) {
        return Err(WriteError::FieldName(Bytes::copy_from_slice(name)));
    }
    if !octets::is_text(value) {
        return Err(WriteError::FieldValue(Bytes::copy_from_slice(name)));
    }
    Ok(())
}

fn put_fields(out: &mut impl BufMut, fields: &Fields) {
    for Field { name, value } in fields {
        put_field(out, name, value);
    }
}

#[inline]
fn put_field(out: &mut impl BufMut, name: &[u8], value: &[u8]) {
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}

fn put_decimal(out: &mut impl BufMut, number: u64) {
    let mut digits = [0; 20];
    let mut rest = number;
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        length += 1;
        if rest == 0 {
            break;
        }
    }
    out.put_slice(digits.get(digits.len() - length..).unwrap_or_default());
}

fn version_octets(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    }
}

#[cfg(test)]
mod tests {
    use super::{
        write_chunk, write_chunk_size, write_decimal_field, write_field, write_fields, write_last_chunk,
        write_request_head, write_response_head, write_status_line,
    };
    use crate::error::WriteError;
    use bytes::Bytes;
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};

    fn request() -> RequestHead {
        let mut fields = Fields::new();
        fields.push("Host", "h");
        fields.push("X", "");
        RequestHead { method: Method::Get, target: "/a".into(), version: Version::Http11, fields }
    }

    #[test]
    fn heads_are_written_byte_for_byte() {
        let mut out = Vec::new();
        write_request_head(&mut out, &request()).unwrap();
        assert_eq!(out, b"GET /a HTTP/1.1\r\nHost: h\r\nX: \r\n\r\n");

        let mut head = ResponseHead::new(Status::NOT_FOUND);
        head.version = Version::Http10;
        head.fields.push("A", "b");
        out.clear();
        write_response_head(&mut out, &head).unwrap();
        assert_eq!(out, b"HTTP/1.0 404 Not Found\r\nA: b\r\n\r\n");
    }

    #[test]
    fn injected_bytes_are_refused_and_nothing_is_written() {
        let mut out = Vec::new();
        for octets in ["a\rb", "a\nb", "a\0b", "\r\n", "\x1b", "\x7f"] {
            let mut head = request();
            head.fields.push("Bad", octets);
            let fault = Err(WriteError::FieldValue(Bytes::from_static(b"Bad")));
            assert_eq!(write_request_head(&mut out, &head), fault);
            assert_eq!(write_field(&mut out, "Bad", octets.as_bytes()), fault);
            assert_eq!(write_fields(&mut out, &head.fields), fault);
            assert_eq!(write_last_chunk(&mut out, Some(&head.fields)), fault);

            let head = RequestHead { target: octets.into(), ..request() };
            assert_eq!(write_request_head(&mut out, &head), Err(WriteError::Target));
            let mut head = ResponseHead::new(Status::OK);
            head.reason = octets.into();
            assert_eq!(write_response_head(&mut out, &head), Err(WriteError::Reason));
        }
        for name in ["", "A b", "A:", "A\r\nB", "\u{fc}"] {
            let fault = Err(WriteError::FieldName(Bytes::from(name)));
            assert_eq!(write_field(&mut out, name, b"x"), fault);
            assert_eq!(write_decimal_field(&mut out, name, 1), fault);
        }
        for target in ["", "/a b", "/\t"] {
            let head = RequestHead { target: target.into(), ..request() };
            assert_eq!(write_request_head(&mut out, &head), Err(WriteError::Target));
        }
        let head = RequestHead { method: Method::Other("GET /".into()), ..request() };
        assert_eq!(write_request_head(&mut out, &head), Err(WriteError::Method));
        assert!(out.is_empty());
    }

    #[test]
    fn tabs_and_non_ascii_bytes_are_valid_values() {
        let mut out = Vec::new();
        write_field(&mut out, "X", b"a\tb \xfc").unwrap();
        assert_eq!(out, b"X: a\tb \xfc\r\n");
    }

    #[test]
    fn decimal_and_chunk_sizes_are_written_without_zeros() {
        for (number, digits) in [(0, "0"), (10, "10"), (u64::MAX, "18446744073709551615")] {
            let mut out = Vec::new();
            write_decimal_field(&mut out, "Age", number).unwrap();
            assert_eq!(out, format!("Age: {digits}\r\n").as_bytes());
        }
        for (size, digits) in [(1, "1"), (10, "a"), (256, "100"), (usize::MAX, "ffffffffffffffff")] {
            let mut out = Vec::new();
            write_chunk_size(&mut out, size);
            assert_eq!(out, format!("{digits}\r\n").as_bytes());
        }
        let mut out = Vec::new();
        write_status_line(&mut out, Version::Http11, Status::OK, b"").unwrap();
        assert_eq!(out, b"HTTP/1.1 200 \r\n");
    }

    #[test]
    fn chunked_body_is_written_with_trailer() {
        let mut trailer = Fields::new();
        trailer.push("X", "y");
        let mut out = Vec::new();
        write_chunk(&mut out, b"hello world!");
        write_chunk(&mut out, b"");
        write_last_chunk(&mut out, Some(&trailer)).unwrap();
        assert_eq!(out, b"c\r\nhello world!\r\n0\r\nX: y\r\n\r\n");
        out.clear();
        write_last_chunk(&mut out, None).unwrap();
        assert_eq!(out, b"0\r\n\r\n");
    }

    #[test]
    #[should_panic(expected = "a chunk without data")]
    fn empty_chunk_size_panics() {
        write_chunk_size(&mut Vec::new(), 0);
    }
}
