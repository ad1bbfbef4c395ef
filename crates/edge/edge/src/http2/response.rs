//! Translates the heads of responses from HTTP/1 to HTTP/2 (RFC 9113 section 8.3.2).
//!
//! Invariant: only heads that the edge has serialised are translated. Fields of the connection are
//! left out: HTTP/2 has frames for their purposes.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use message::Fields;

/// Fields of a connection with HTTP/1 (RFC 9113 section 8.2.2), and those of a handshake for
/// WebSocket that HTTP/2 does not have (RFC 8441 section 5).
const LEFT_OUT: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "sec-websocket-accept", "transfer-encoding", "upgrade"];

/// Translates a head in pieces of whole lines. `None`: it is no head; the edge writes none such.
pub(crate) fn translate(pieces: &[&Bytes]) -> Option<Response<()>> {
    let mut response = Response::new(());
    // The status line and the empty line are no fields.
    let lines = pieces.iter().map(|piece| memchr::memchr_iter(b'\n', piece).count()).sum::<usize>();
    *response.headers_mut() = HeaderMap::with_capacity(lines.saturating_sub(2));
    let mut status = None;
    for piece in pieces {
        let mut begin = 0;
        while let Some(end) = memchr::memchr(b'\n', piece.get(begin..)?).map(|at| begin + at) {
            let line = piece.get(begin..end.saturating_sub(1))?;
            match status {
                None => status = Some(status_of(line)?),
                Some(_) if line.is_empty() => {}
                Some(_) => put(response.headers_mut(), piece, (begin, line))?,
            }
            begin = end + 1;
        }
    }
    *response.status_mut() = status?;
    Some(response)
}

/// The fields of a trailer. Those that cannot be sent are left out.
pub(crate) fn trailer(fields: &Fields) -> HeaderMap {
    let mut trailer = HeaderMap::new();
    for field in fields.iter() {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&field.name), HeaderValue::from_bytes(&field.value))
            && !LEFT_OUT.contains(&name.as_str())
        {
            trailer.append(name, value);
        }
    }
    trailer
}

/// The code in a status line, `HTTP/1.1 200 OK`.
fn status_of(line: &[u8]) -> Option<StatusCode> {
    StatusCode::from_bytes(line.get(9..12)?).ok()
}

/// Adds the field in a line of `piece` that begins at `begin`. Its value is not copied.
fn put(fields: &mut HeaderMap, piece: &Bytes, (begin, line): (usize, &[u8])) -> Option<()> {
    let colon = memchr::memchr(b':', line)?;
    let name = HeaderName::from_bytes(line.get(..colon)?).ok()?;
    if LEFT_OUT.contains(&name.as_str()) {
        return Some(());
    }
    let blanks = line.get(colon + 1..)?.iter().take_while(|octet| **octet == b' ').count();
    let value = piece.slice(begin + colon + 1 + blanks..begin + line.len());
    fields.append(name, HeaderValue::from_maybe_shared(value).ok()?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::translate;
    use bytes::Bytes;

    #[test]
    fn head_loses_the_fields_of_the_connection() {
        let first = Bytes::from_static(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nEmpty: \r\n",
        );
        let rest = Bytes::from_static(b"Age: 10\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
        let response = translate(&[&first, &rest]).unwrap();
        assert_eq!(response.status(), 200);
        let fields: Vec<_> = response
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        assert_eq!(
            fields,
            ["content-type=text/html", "set-cookie=a=1", "set-cookie=b=2", "empty=", "age=10"]
        );
    }

    #[test]
    fn bytes_that_are_no_head_are_refused() {
        for octets in ["", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno field\r\n\r\n"] {
            assert!(translate(&[&Bytes::from_static(octets.as_bytes())]).is_none(), "{octets:?}");
        }
    }
}
