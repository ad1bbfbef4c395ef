//! A form of messages in which two parsers can be compared, and the conversion of ours into it.

use bytes::BytesMut;
use message::{Fields, Method, Version};
use petasos_h1::{
    BodyDecoder, BodyError, BodyFraming, Decoded, Limits, RequestError, ResponseError, Strictness, Target,
    TargetForm, parse_request, parse_response,
};

/// A complete message. Field names are in lower case and sorted; fields of the same name keep their
/// order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) start: Start,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailer: Vec<(String, Vec<u8>)>,
}

impl Message {
    /// Whether Connection has non-ASCII bytes. hyper then ignores all its options and goes by the
    /// version; this crate uses the valid ones. The framing is the same, but persistence may
    /// differ.
    pub(crate) fn has_opaque_connection(&self) -> bool {
        self.fields.iter().any(|(name, value)| name == "connection" && !value.is_ascii())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    Request { method: String, target: String, http11: bool },
    Response { status: u16, http11: bool },
}

/// Why this crate stopped reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Request(RequestError),
    Response(ResponseError),
    Body(BodyError),
}

/// Reads everything that a client sends before it closes: the complete requests, and the fault
/// after them if there is one. A truncated message is not a fault here.
pub(crate) fn requests(octets: &[u8], strictness: Strictness) -> (Vec<Message>, Option<Fault>) {
    let mut buf = BytesMut::from(octets);
    let mut seen = Vec::new();
    loop {
        let request = match parse_request(&mut buf, &Limits::DEFAULT, strictness) {
            Ok(Some(request)) => request,
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(Fault::Request(error))),
        };
        let start = Start::Request {
            method: request.head.method.to_string(),
            target: target(&request.head.method, &request.head.target),
            http11: request.head.version == Version::Http11,
        };
        match body(&mut buf, request.framing, strictness) {
            Ok(Some((content, trailer))) => {
                seen.push(Message { start, fields: lines(&request.head.fields), content, trailer });
            }
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(Fault::Body(error))),
        }
        // hyper reads no more requests after CONNECT, whatever the response.
        if !request.persistent || request.head.method == Method::Connect {
            return (seen, None);
        }
    }
}

/// Reads everything that a server sends before it closes: the final response if it is complete.
pub(crate) fn response(
    octets: &[u8],
    method: &Method,
    strictness: Strictness,
) -> Result<Option<Message>, Fault> {
    let mut buf = BytesMut::from(octets);
    loop {
        let parsed =
            parse_response(&mut buf, method, &Limits::DEFAULT, strictness).map_err(Fault::Response)?;
        let Some(response) = parsed else { return Ok(None) };
        let status = response.head.status;
        if status.is_informational() && status.code() != 101 {
            continue;
        }
        let start =
            Start::Response { status: status.code(), http11: response.head.version == Version::Http11 };
        let body = body(&mut buf, response.framing, strictness).map_err(Fault::Body)?;
        return Ok(body.map(|(content, trailer)| Message {
            start,
            fields: lines(&response.head.fields),
            content,
            trailer,
        }));
    }
}

/// The target as hyper spells it: an absolute-form without a path gets one.
fn target(method: &Method, octets: &[u8]) -> String {
    let mut target = String::from_utf8_lossy(octets).into_owned();
    if let Ok(Target { form: TargetForm::Absolute, authority: Some(authority), path_and_query: b"/", .. }) =
        Target::split(method, octets)
        && octets.ends_with(authority)
    {
        target.push('/');
    }
    target
}

type Content = (Vec<u8>, Vec<(String, Vec<u8>)>);

/// Reads the body at the start of `buf`, which holds all input; `None` if the body is truncated.
fn body(
    buf: &mut BytesMut,
    framing: BodyFraming,
    strictness: Strictness,
) -> Result<Option<Content>, BodyError> {
    let mut decoder = BodyDecoder::with_limits(framing, &Limits::DEFAULT, strictness);
    let mut content = Vec::new();
    loop {
        match decoder.decode(buf)? {
            Decoded::Data(data) => content.extend_from_slice(&data),
            Decoded::End(trailer) => {
                return Ok(Some((content, trailer.as_ref().map(lines).unwrap_or_default())));
            }
            Decoded::NeedMore => return Ok(decoder.eof().is_ok().then_some((content, Vec::new()))),
        }
    }
}

fn lines(fields: &Fields) -> Vec<(String, Vec<u8>)> {
    let mut lines: Vec<_> = fields
        .iter()
        .map(|field| (String::from_utf8_lossy(&field.name).to_ascii_lowercase(), field.value.to_vec()))
        .collect();
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    lines
}
