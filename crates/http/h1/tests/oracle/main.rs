//! Compares this crate with hyper: both read the same messages from the same bytes. Messages that
//! strict mode accepts are read by hyper in the same way, without exception. Messages that only
//! hyper reads are refused here for a reason with an example in [`REFUSED_REQUESTS`] or
//! [`REFUSED_RESPONSES`].

#[path = "../support/generate.rs"]
mod generate;
mod hyper;
mod message;

use ::message::Method;
use generate::{CHUNK_PARTS, REQUEST_LINES, STATUS_LINES, damaged, message as nearly_right, one_of};
use message::{Fault, Message};
use petasos_h1::{BodyError, FramingError, HeadError, RequestError, ResponseError, Strictness, TargetError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Requests that strict mode refuses, with its reason. hyper's server reads at least one request of
/// each.
#[rustfmt::skip]
const REFUSED_REQUESTS: &[(&str, Fault)] = &[
    // Two readings of the length; hyper uses one of them.
    ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", framing(FramingError::TransferEncodingWithContentLength)),
    ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", framing(FramingError::ContentLengthRepeated)),
    ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", framing(FramingError::ContentLengthsDiffer)),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: +1\r\n\r\n0\r\n\r\n", framing(FramingError::ContentLengthInvalid)),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", framing(FramingError::TransferCodingUnsupported)),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", framing(FramingError::TransferEncodingRepeated)),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n", Fault::Body(BodyError::ChunkSize)),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\nGET / HTTP/1.1\r\n\r\n", Fault::Body(BodyError::Trailer(HeadError::BareLf))),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;\0\r\na\r\n0\r\n\r\n", Fault::Body(BodyError::ChunkExtension)),
    ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n", Fault::Body(BodyError::ChunkSizeTooLong)),
    // Lines that end in LF alone.
    ("GET / HTTP/1.1\nHost: h\r\n\r\n", Fault::Request(RequestError::Head(HeadError::BareLf))),
    // hyper leaves Host to its user; in Petasos it selects the site.
    ("GET / HTTP/1.1\r\n\r\n", Fault::Request(RequestError::HostMissing)),
    ("GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", Fault::Request(RequestError::HostRepeated)),
    ("GET / HTTP/1.1\r\nHost: h;\"\r\n\r\n", Fault::Request(RequestError::HostInvalid)),
    // Targets that are URIs but not request targets.
    ("GET h HTTP/1.1\r\nHost: h\r\n\r\n", Fault::Request(RequestError::Target(TargetError::Form))),
    ("CONNECT h:x HTTP/1.1\r\nHost: h\r\n\r\n", Fault::Request(RequestError::Target(TargetError::Authority))),
    ("GET /\" HTTP/1.1\r\nHost: h\r\n\r\n", Fault::Request(RequestError::Target(TargetError::Octet))),
];

/// Responses that hyper's client reads and strict mode refuses, with the method of the request and
/// the reason.
#[rustfmt::skip]
const REFUSED_RESPONSES: &[(Method, &str, Fault)] = &[
    (Method::Get, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", response(FramingError::TransferEncodingWithContentLength)),
    (Method::Get, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", response(FramingError::ContentLengthRepeated)),
    (Method::Head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", response(FramingError::ContentLengthsDiffer)),
    (Method::Head, "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", response(FramingError::ContentLengthInvalid)),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\na", response(FramingError::ChunkedNotLast)),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", response(FramingError::TransferCodingUnsupported)),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", response(FramingError::TransferEncodingRepeated)),
    (Method::Head, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", response(FramingError::TransferEncodingInHttp10)),
    (Method::Get, "HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\na", Fault::Response(ResponseError::Head(HeadError::BareLf))),
    (Method::Get, "\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", Fault::Response(ResponseError::EmptyLine)),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n", Fault::Body(BodyError::ChunkSize)),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\nGET / HTTP/1.1\r\n\r\n", Fault::Body(BodyError::Trailer(HeadError::BareLf))),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;\0\r\na\r\n0\r\n\r\n", Fault::Body(BodyError::ChunkExtension)),
    (Method::Get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n", Fault::Body(BodyError::ChunkSizeTooLong)),
];

/// Faults of strict mode in messages that tolerant mode reads and hyper does not.
const TOLERATED: &[Fault] = &[
    Fault::Response(ResponseError::Head(HeadError::BareLf)),
    Fault::Response(ResponseError::Head(HeadError::BlankBeforeColon)),
    Fault::Response(ResponseError::Head(HeadError::Folded)),
    Fault::Response(ResponseError::EmptyLine),
    response(FramingError::ContentLengthRepeated),
    response(FramingError::TransferEncodingInHttp10),
    response(FramingError::TransferEncodingRepeated),
    response(FramingError::TransferEncodingWithContentLength),
    response(FramingError::TransferCodingUnsupported),
    response(FramingError::ChunkedNotLast),
    Fault::Body(BodyError::BareLf),
    Fault::Body(BodyError::ChunkSize),
    Fault::Body(BodyError::Trailer(HeadError::BareLf)),
];

const fn framing(fault: FramingError) -> Fault {
    Fault::Request(RequestError::Framing(fault))
}

const fn response(fault: FramingError) -> Fault {
    Fault::Response(ResponseError::Framing(fault))
}

#[test]
fn refused_requests_are_read_by_hyper() {
    for (wire, fault) in REFUSED_REQUESTS {
        assert!(!hyper::requests(wire.as_bytes()).is_empty(), "hyper refuses {wire:?}");
        assert_eq!(
            message::requests(wire.as_bytes(), Strictness::Strict),
            (vec![], Some(*fault)),
            "{wire:?}"
        );
    }
}

#[test]
fn refused_responses_are_read_by_hyper() {
    for (method, wire, fault) in REFUSED_RESPONSES {
        assert!(hyper::response(wire.as_bytes(), method).is_some(), "hyper refuses {wire:?}");
        let ours = message::response(wire.as_bytes(), method, Strictness::Strict);
        assert_eq!(ours, Err(*fault), "{wire:?}");
    }
}

proptest! {
    // The seed is fixed. The tables above list the differences found with it and with a million
    // other inputs. A new difference needs a look, but should not fail an unrelated change.
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        rng_seed: RngSeed::Fixed(9112),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn requests(octets in damaged(vec(nearly_right(REQUEST_LINES), 1..3).prop_map(|all| all.concat()))) {
        let mut theirs = hyper::requests(&octets);
        let (mut ours, fault) = message::requests(&octets, Strictness::Strict);
        if let Some(last) = ours.iter().position(Message::has_opaque_connection) {
            ours.truncate(last + 1);
            theirs.truncate(last + 1);
        }
        prop_assert_eq!(theirs.get(..ours.len()), Some(&ours[..]), "we read what hyper does not");
        if theirs.len() > ours.len() {
            let documented = |fault| REFUSED_REQUESTS.iter().any(|(_, refused)| *refused == fault);
            prop_assert!(fault.is_some_and(documented), "hyper reads more, we say {fault:?}");
        }
    }

    #[test]
    fn responses(octets in damaged(nearly_right(STATUS_LINES)), head in any::<bool>()) {
        let method = if head { Method::Head } else { Method::Get };
        let theirs = hyper::response(&octets, &method);
        let strict = message::response(&octets, &method, Strictness::Strict);
        match &strict {
            Ok(ours) => prop_assert_eq!(ours, &theirs),
            Err(fault) if theirs.is_some() => prop_assert!(
                REFUSED_RESPONSES.iter().any(|(_, _, refused)| refused == fault),
                "hyper reads it, we say {fault:?}"
            ),
            Err(_) => {}
        }
        match (message::response(&octets, &method, Strictness::Tolerant), strict) {
            (Ok(Some(ours)), _) if theirs.is_some() => prop_assert_eq!(Some(ours), theirs),
            (Ok(Some(_)), Err(fault)) => prop_assert!(TOLERATED.contains(&fault), "we tolerate {fault:?}"),
            _ => {}
        }
    }

    #[test]
    fn chunked_bodies(parts in damaged(vec(one_of(CHUNK_PARTS), 0..5))) {
        let octets = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &parts].concat();
        let theirs = hyper::response(&octets, &Method::Get);
        let ours = message::response(&octets, &Method::Get, Strictness::Strict);
        match ours {
            Ok(ours) => prop_assert_eq!(ours, theirs),
            Err(fault) if theirs.is_some() => prop_assert!(
                REFUSED_RESPONSES.iter().any(|(_, _, refused)| *refused == fault),
                "hyper reads it, we say {fault:?}"
            ),
            Err(_) => {}
        }
    }
}
