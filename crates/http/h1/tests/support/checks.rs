//! Properties that must hold for any input. The property tests call these functions with generated
//! input, and the seed tests with the committed seeds. The fuzz targets of this crate call them
//! with their own input.
//!
//! Each function panics if a property does not hold. The properties are agreements: between
//! divisions of the input, between the parsers, with the writer, and with a reference. Other tests
//! check whether the results are right.

#[path = "exchanges.rs"]
mod exchanges;
#[path = "reference.rs"]
mod reference;

pub(crate) use exchanges::exchanges;

use bytes::BytesMut;
use message::{Fields, Method, RequestHead};
use petasos_h1::{
    BodyDecoder, BodyError, BodyFraming, Decoded, Limits, Request, RequestError, Response, ResponseError,
    Strictness, parse_request, parse_response, skim_response, write_request_head, write_response_head,
};

/// Limits that short inputs can exceed.
const TIGHT: Limits = Limits {
    head_bytes_max: 120,
    fields_max: 3,
    target_bytes_max: 16,
    chunk_extension_bytes_max: 6,
    trailer_bytes_max: 20,
};

const STRICTNESSES: [Strictness; 2] = [Strictness::Strict, Strictness::Tolerant];

/// Sizes of reads in bytes, each compared with a single read of all input.
const PIECES_BYTES: [usize; 3] = [1, 2, 7];

/// Checks `octets` as everything that a client sends over one connection.
pub(crate) fn requests(octets: &[u8]) {
    for limits in [Limits::DEFAULT, TIGHT] {
        let [strict, tolerant] = STRICTNESSES.map(|strictness| {
            let whole = read_requests(octets, octets.len(), &limits, strictness);
            for piece_bytes in PIECES_BYTES {
                let in_pieces = read_requests(octets, piece_bytes, &limits, strictness);
                assert_eq!(in_pieces, whole, "in pieces of {piece_bytes} and whole, {strictness:?}");
            }
            whole
        });
        for (request, body) in &strict.messages {
            assert_ne!(request.framing, BodyFraming::UntilClose);
            assert_request_survives_writing(request);
            assert!(body.error.is_none_or(|error| strict.error == Some(RequestFault::Body(error))));
        }
        let accepted = strict.messages.iter().take_while(|(_, body)| body.complete).count();
        assert_eq!(
            strict.messages.get(..accepted),
            tolerant.messages.get(..accepted),
            "what strict accepts, tolerant reads the same way"
        );
    }
}

/// Checks `octets` as everything that a server sends over one connection.
pub(crate) fn responses(octets: &[u8]) {
    for limits in [Limits::DEFAULT, TIGHT] {
        for method in [Method::Get, Method::Head, Method::Connect] {
            let [strict, tolerant] = STRICTNESSES.map(|strictness| {
                let whole = read_response(octets, octets.len(), &method, &limits, strictness);
                for piece_bytes in PIECES_BYTES {
                    let in_pieces = read_response(octets, piece_bytes, &method, &limits, strictness);
                    assert_eq!(in_pieces, whole, "in pieces of {piece_bytes} and whole, {strictness:?}");
                }
                whole
            });
            if let Ok(Some((response, body, head_bytes))) = &strict {
                assert_response_survives_writing(response, &method);
                let Ok(Some(tolerant)) = &tolerant else { panic!("tolerant mode says {tolerant:?}") };
                assert_eq!((response, *head_bytes), (&tolerant.0, tolerant.2));
                if body.error.is_none() {
                    assert_eq!(*body, tolerant.1, "what strict accepts, tolerant reads the same way");
                }
            }
            if method != Method::Connect {
                assert_skim_agrees(octets, method == Method::Head, &limits, &tolerant);
            }
        }
    }
}

/// Checks `octets` as a chunked body with more bytes after it.
pub(crate) fn chunked(octets: &[u8]) {
    for strictness in STRICTNESSES {
        let whole = read_body(octets, octets.len(), &Limits::DEFAULT, strictness);
        reference::assert_agrees(octets, strictness, &whole);
        for limits in [Limits::DEFAULT, TIGHT] {
            let whole = read_body(octets, octets.len(), &limits, strictness);
            for piece_bytes in PIECES_BYTES {
                let in_pieces = read_body(octets, piece_bytes, &limits, strictness);
                assert_eq!(in_pieces, whole, "in pieces of {piece_bytes} and whole, {strictness:?}");
            }
            for piece_bytes in [1, 7, octets.len()] {
                let skimmed = skim_body(octets, piece_bytes, &limits, strictness);
                assert_eq!(skimmed, Body { trailer: None, ..whole.clone() }, "skimmed and decoded");
            }
        }
    }
}

/// The part of a body that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Body {
    /// The content.
    pub(crate) content: Vec<u8>,
    /// Bytes of the input that belong to the body; 0 after an error.
    pub(crate) wire_bytes: usize,
    /// Whether the body is complete.
    pub(crate) complete: bool,
    /// The trailer fields.
    pub(crate) trailer: Option<Fields>,
    /// The fault, if there was one.
    pub(crate) error: Option<BodyError>,
}

#[derive(Debug, PartialEq)]
enum RequestFault {
    Head(RequestError),
    Body(BodyError),
}

#[derive(Debug, Default, PartialEq)]
struct Requests {
    messages: Vec<(Request, Body)>,
    error: Option<RequestFault>,
    left: Vec<u8>,
}

/// Reads all requests of a client from reads of `piece_bytes` bytes.
fn read_requests(octets: &[u8], piece_bytes: usize, limits: &Limits, strictness: Strictness) -> Requests {
    let mut buf = BytesMut::new();
    let mut read = Requests::default();
    let mut decoder: Option<BodyDecoder> = None;
    for piece in octets.chunks(piece_bytes.max(1)) {
        buf.extend_from_slice(piece);
        loop {
            if let (Some(body), Some((_, so_far))) = (&mut decoder, read.messages.last_mut()) {
                decode_available(body, &mut buf, so_far);
                if let Some(error) = so_far.error {
                    read.error = Some(RequestFault::Body(error));
                    return read;
                }
                if !so_far.complete {
                    break;
                }
                decoder = None;
            }
            match parse_request(&mut buf, limits, strictness) {
                Ok(Some(request)) => {
                    decoder = Some(BodyDecoder::with_limits(request.framing, limits, strictness));
                    read.messages.push((request, Body::default()));
                }
                Ok(None) => break,
                Err(error) => {
                    read.error = Some(RequestFault::Head(error));
                    return read;
                }
            }
        }
    }
    read.left = buf.to_vec();
    read
}

type ReadResponse = Result<Option<(Response, Body, usize)>, ResponseError>;

/// Reads one response from reads of `piece_bytes` bytes. Returns the size of its head too.
fn read_response(
    octets: &[u8],
    piece_bytes: usize,
    method: &Method,
    limits: &Limits,
    strictness: Strictness,
) -> ReadResponse {
    let mut buf = BytesMut::new();
    let mut pieces = octets.chunks(piece_bytes.max(1));
    let mut read_bytes = 0;
    let response = loop {
        let Some(piece) = pieces.next() else { return Ok(None) };
        buf.extend_from_slice(piece);
        read_bytes += piece.len();
        if let Some(response) = parse_response(&mut buf, method, limits, strictness)? {
            break response;
        }
    };
    let head_bytes = read_bytes - buf.len();
    let mut decoder = BodyDecoder::with_limits(response.framing, limits, strictness);
    let mut body = Body::default();
    decode_available(&mut decoder, &mut buf, &mut body);
    for piece in pieces {
        buf.extend_from_slice(piece);
        decode_available(&mut decoder, &mut buf, &mut body);
    }
    Ok(Some((response, body, head_bytes)))
}

fn read_body(octets: &[u8], piece_bytes: usize, limits: &Limits, strictness: Strictness) -> Body {
    let mut decoder = BodyDecoder::with_limits(BodyFraming::Chunked, limits, strictness);
    let (mut buf, mut body) = (BytesMut::new(), Body::default());
    for piece in octets.chunks(piece_bytes.max(1)) {
        buf.extend_from_slice(piece);
        decode_available(&mut decoder, &mut buf, &mut body);
    }
    body
}

fn decode_available(decoder: &mut BodyDecoder, buf: &mut BytesMut, body: &mut Body) {
    while !body.complete {
        let before_bytes = buf.len();
        match decoder.decode(buf) {
            Ok(Decoded::NeedMore) => {
                assert!(buf.is_empty(), "asks for more while it has some");
                body.wire_bytes += before_bytes;
                return;
            }
            Ok(Decoded::Data(data)) => {
                assert!(!data.is_empty(), "an empty piece of content");
                body.content.extend_from_slice(&data);
                body.wire_bytes += before_bytes - buf.len();
            }
            Ok(Decoded::End(trailer)) => {
                assert!(decoder.is_done() && decoder.eof().is_ok());
                body.complete = true;
                body.trailer = trailer;
                body.wire_bytes += before_bytes - buf.len();
            }
            Err(error) => {
                assert_eq!(decoder.decode(buf), Err(error), "an error is final");
                body.error = Some(error);
                body.wire_bytes = 0;
                return;
            }
        }
    }
}

fn skim_body(octets: &[u8], piece_bytes: usize, limits: &Limits, strictness: Strictness) -> Body {
    let mut decoder = BodyDecoder::with_limits(BodyFraming::Chunked, limits, strictness);
    let mut body = Body::default();
    for piece in octets.chunks(piece_bytes.max(1)) {
        let content_before = body.content.len();
        match decoder.skim_with(piece, |run| body.content.extend_from_slice(run)) {
            Ok(skimmed) => {
                assert_eq!(skimmed.content_bytes as usize, body.content.len() - content_before);
                assert!(skimmed.done || skimmed.consumed == piece.len(), "stopped early");
                body.wire_bytes += skimmed.consumed;
                body.complete = skimmed.done;
            }
            Err(error) => {
                body.error = Some(error);
                body.wire_bytes = 0;
                break;
            }
        }
    }
    body
}

fn assert_request_survives_writing(request: &Request) {
    let mut wire = BytesMut::new();
    write_request_head(&mut wire, &request.head).expect("what strict accepts can be written");
    let again = parse_request(&mut wire, &Limits::DEFAULT, Strictness::Strict);
    assert_eq!(again.as_ref(), Ok(&Some(request.clone())), "written and parsed again");
    assert!(wire.is_empty());
    let RequestHead { method, target, .. } = &request.head;
    petasos_h1::Target::split(method, target).expect("a strict request's target splits");
}

fn assert_response_survives_writing(response: &Response, method: &Method) {
    let mut wire = BytesMut::new();
    write_response_head(&mut wire, &response.head).expect("what strict accepts can be written");
    let again = parse_response(&mut wire, method, &Limits::DEFAULT, Strictness::Strict);
    assert_eq!(again.as_ref(), Ok(&Some(response.clone())), "written and parsed again");
    assert!(wire.is_empty());
}

fn assert_skim_agrees(octets: &[u8], answers_head: bool, limits: &Limits, parsed: &ReadResponse) {
    let skimmed = skim_response(octets, answers_head, limits);
    let (skim, response, head_bytes) = match (skimmed, parsed) {
        (Ok(Some(skim)), Ok(Some((response, _, head_bytes)))) => (skim, response, *head_bytes),
        (Ok(None), Ok(None)) => return,
        (Err(error), Err(parse_error)) if error == *parse_error => return,
        (skimmed, parsed) => panic!("skimmed {skimmed:?}, parsed {parsed:?}"),
    };
    assert_eq!(skim.head_bytes, head_bytes);
    assert_eq!((skim.version, skim.status), (response.head.version, response.head.status));
    assert_eq!((skim.framing, skim.persistent), (response.framing, response.persistent));
    for field in &response.head.fields {
        let name = std::str::from_utf8(&field.name).expect("a token is ASCII");
        let value = skim.field(octets, name).map(|value| {
            value.iter().map(|octet| if matches!(octet, b'\r' | b'\n') { b' ' } else { *octet }).collect()
        });
        let expected: Option<Vec<u8>> = response.head.fields.first(name).map(|value| value.to_vec());
        assert_eq!(value, expected, "the value of {name}");
    }
    assert_eq!(skim.field(octets, "x-none-such"), None);
}
