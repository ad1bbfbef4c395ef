//! Generates nearly correct messages for property tests; random bytes rarely get past the first
//! line.

#![expect(clippy::indexing_slicing, reason = "the index is taken below the length")]

use proptest::collection::vec;
use proptest::prelude::*;

/// Concatenates parts, then replaces, removes or doubles a few bytes.
pub(crate) fn damaged(parts: impl Strategy<Value = Vec<&'static str>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = vec(
        (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(&b"\0\r\n\t :;,0aZ\x7f\xff"[..])),
        0..4,
    );
    (parts, damage).prop_map(|(parts, damage)| {
        let mut octets = parts.concat().into_bytes();
        for (index, kind, octet) in damage {
            if octets.is_empty() {
                break;
            }
            let at = index.index(octets.len());
            match kind {
                0 => octets[at] = octet,
                1 => drop(octets.remove(at)),
                2 => octets.insert(at, octets[at]),
                _ => octets.insert(at, octet),
            }
        }
        octets
    })
}

pub(crate) fn one_of(parts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(parts)
}

pub(crate) const REQUEST_LINES: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "GET /a?b=c HTTP/1.0\r\n",
    "POST /form HTTP/1.1\r\n",
    "HEAD http://other.example/x HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT h.example:443 HTTP/1.1\r\n",
    "PURGE /a HTTP/1.1\r\n",
    "\r\nGET / HTTP/1.1\r\n",
    "GET /\n",
    "GET / HTTP/1.1\n",
    "GET / HTTP/2.0\r\n",
];

pub(crate) const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 100 Continue\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "HTTP/1.1 404 \u{fc}\r\n",
    "HTTP/1.1 500 Oops\n",
    "\r\nHTTP/1.1 200 OK\r\n",
    "HTTP/1.1 099 Low\r\n",
];

pub(crate) const FIELD_LINES: &[&str] = &[
    "Host: a.example\r\n",
    "host: [::1]:8080\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: +5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding: gzip, Chunked\r\n",
    "Transfer-Encoding: chunked, gzip\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive, Upgrade\r\n",
    "Upgrade: websocket\r\n",
    "Expect: 100-continue\r\n",
    "X-Empty:\r\n",
    "X-Padded: \t a b \t\r\n",
    "X-Latin: \u{fc}\r\n",
    "X-Space : 1\r\n",
    "X-Folded: a\r\n b\r\n",
    "X-Lf: 1\n",
];

pub(crate) const CHUNK_PARTS: &[&str] = &[
    "5\r\nabcde\r\n",
    "1\r\n\n\r\n",
    "0a\r\n0123456789\r\n",
    "3;x=\"y\"\r\nabc\r\n",
    "3 ;x\r\nabc\r\n",
    "3 \r\nabc\r\n",
    "2\nab\n",
    "ffffffffffffffff\r\nz",
    "00000000000000001\r\n",
    "0\r\n\r\n",
    "0\r\nX: 1\r\n\r\n",
    "0\r\nX: 1\r\nY : 2\r\n\r\n",
    "0;e\r\nZ: \t9 \n\n",
];

/// A start line, fields, an empty line, and a body that may not fit them.
pub(crate) fn message(start_lines: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    let fields = vec(one_of(FIELD_LINES), 0..5);
    let body = vec(prop_oneof![one_of(CHUNK_PARTS), Just("abcde"), Just("")], 0..3);
    (one_of(start_lines), prop::bool::weighted(0.7), fields, body).prop_map(|(start, host, fields, body)| {
        let mut parts = vec![start];
        parts.extend(host.then_some("Host: h.example\r\n"));
        parts.extend(fields);
        parts.push("\r\n");
        parts.extend(body);
        parts
    })
}
