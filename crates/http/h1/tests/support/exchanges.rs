//! Properties of a client's exchange: agreement between divisions of the input, between the two
//! ways of reading, and with a slow model. The model sees all input at once and keeps no state.

use super::PIECES_BYTES;
use super::reference::{self, Verdict};
use bytes::BytesMut;
use message::{Fields, Method, ResponseHead};
use petasos_h1::client::{Exchange, ResponseEvent, Terms};
use petasos_h1::{
    BodyError, BodyFraming, ExchangeError, HeadError, Limits, Response, Strictness, parse_response,
};

/// Truncated forms of an input that are tried, beside the one that misses a single byte.
const CUTS: usize = 3;

/// Checks `octets` as everything that a server sends in response to one request.
pub(crate) fn exchanges(octets: &[u8]) {
    for strictness in [Strictness::Strict, Strictness::Tolerant] {
        let roomy = Terms { limits: Limits::DEFAULT, strictness, informational_max: 100 };
        let tight = Terms { limits: super::TIGHT, strictness, informational_max: 1 };
        for method in [Method::Get, Method::Head, Method::Connect] {
            let whole = check(octets, &method, roomy);
            check(octets, &method, tight);
            check_cuts(octets, &whole, &method, roomy);
        }
    }
}

/// All events of an exchange for an input.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    informational: Vec<ResponseHead>,
    head: Option<Response>,
    content: Vec<u8>,
    trailer: Option<Fields>,
    end: Option<Ending>,
    /// The result if the connection ends after the input: the bytes that belong to the response.
    closed: Option<Result<(), ExchangeError>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Complete { wire_bytes: usize, is_reusable: bool },
    Failed(ExchangeError),
}

/// Checks that the outcome is the model's, however the input is divided and read.
fn check(octets: &[u8], method: &Method, terms: Terms) -> Outcome {
    let whole = read(octets, octets.len(), method, terms);
    assert_fits(octets, &whole, method, terms);
    for piece_bytes in PIECES_BYTES.into_iter().chain([octets.len()]) {
        let in_pieces = read(octets, piece_bytes, method, terms);
        assert_eq!(in_pieces, whole, "in pieces of {piece_bytes} and whole, {method} {terms:?}");
        let skimmed = skim(octets, piece_bytes, method, terms);
        let Outcome { content, end, closed, .. } = &whole;
        assert_eq!(skimmed, (content.clone(), *end, *closed), "skimmed in pieces of {piece_bytes}");
    }
    whole
}

/// Checks that a response that was cut off is never complete.
fn check_cuts(octets: &[u8], whole: &Outcome, method: &Method, terms: Terms) {
    let step = octets.len() / CUTS + 1;
    let last = match whole.end {
        Some(Ending::Complete { wire_bytes, .. }) => wire_bytes.saturating_sub(1),
        _ => 0,
    };
    for cut in (0..octets.len()).step_by(step).chain([last]) {
        let part = read(&octets[..cut], cut, method, terms);
        assert_fits(&octets[..cut], &part, method, terms);
        if let Some(Ending::Complete { wire_bytes, .. }) = whole.end
            && cut < wire_bytes
        {
            assert_eq!(part.end, None, "complete after {cut} of {wire_bytes} bytes");
            assert!(matches!(part.closed, Some(Err(_))), "complete after {cut} of {wire_bytes} bytes");
            assert!(whole.content.starts_with(&part.content));
        }
    }
}

/// Reads in pieces of `piece_bytes` bytes.
fn read(octets: &[u8], piece_bytes: usize, method: &Method, terms: Terms) -> Outcome {
    let mut exchange = Exchange::new(method, terms);
    let (mut input, mut outcome) = (BytesMut::new(), Outcome::default());
    let mut fed_bytes = 0;
    for piece in octets.chunks(piece_bytes.max(1)) {
        input.extend_from_slice(piece);
        fed_bytes += piece.len();
        advance(&mut exchange, &mut input, &mut outcome, fed_bytes);
    }
    assert_eq!(exchange.has_begun(), !octets.is_empty());
    assert_eq!(exchange.status(), outcome.head.as_ref().map(|response| response.head.status));
    outcome.closed = Some(exchange.close().map(|end| assert!(!end.is_reusable && end.trailer.is_none())));
    outcome
}

/// Takes all events that the input so far has. `fed_bytes` is the number of bytes so far.
fn advance(exchange: &mut Exchange, input: &mut BytesMut, outcome: &mut Outcome, fed_bytes: usize) {
    loop {
        let event = exchange.next(input);
        assert!(
            outcome.head.is_none()
                || !matches!(event, Ok(Some(ResponseEvent::Informational(_) | ResponseEvent::Head(_))))
        );
        match event {
            Ok(None) => return,
            Ok(Some(ResponseEvent::Informational(head))) => outcome.informational.push(head),
            Ok(Some(ResponseEvent::Head(response))) => outcome.head = Some(response),
            Ok(Some(ResponseEvent::Data(data))) => {
                assert!(!data.is_empty(), "an empty piece of content");
                outcome.content.extend_from_slice(&data);
            }
            Ok(Some(ResponseEvent::End(end))) => {
                assert!(!end.is_reusable || input.is_empty());
                // With more input, the end is reported again.
                outcome.trailer = outcome.trailer.take().or(end.trailer);
                let wire_bytes = match outcome.end {
                    Some(Ending::Complete { wire_bytes, .. }) => wire_bytes,
                    _ => fed_bytes - input.len(),
                };
                outcome.end = Some(Ending::Complete { wire_bytes, is_reusable: end.is_reusable });
                return;
            }
            Err(error) => {
                assert_eq!(exchange.next(input), Err(error), "an error is final");
                outcome.end = Some(Ending::Failed(error));
                return;
            }
        }
    }
}

type Skimmed = (Vec<u8>, Option<Ending>, Option<Result<(), ExchangeError>>);

fn skim(octets: &[u8], piece_bytes: usize, method: &Method, terms: Terms) -> Skimmed {
    let mut exchange = Exchange::new(method, terms);
    let (mut content, mut end, mut wire_bytes) = (Vec::new(), None, 0);
    for piece in octets.chunks(piece_bytes.max(1)) {
        match exchange.skim(piece, |run| content.extend_from_slice(run)) {
            Ok(taken) if taken.is_complete => {
                wire_bytes += taken.consumed;
                end = Some(Ending::Complete { wire_bytes, is_reusable: taken.is_reusable });
            }
            Ok(taken) => {
                assert!(taken.consumed == piece.len() && !taken.is_reusable);
                wire_bytes += taken.consumed;
            }
            Err(error) => {
                end = Some(Ending::Failed(error));
                break;
            }
        }
    }
    (content, end, Some(exchange.close().map(|_| ())))
}

/// Panics unless the outcome is the model's.
fn assert_fits(octets: &[u8], outcome: &Outcome, method: &Method, terms: Terms) {
    let mut rest = BytesMut::from(octets);
    let mut informational = Vec::new();
    let closed_error = Some(Err(ExchangeError::Closed));
    let response = loop {
        match parse_response(&mut rest, method, &terms.limits, terms.strictness) {
            Ok(Some(response)) if (100..200).contains(&response.head.status.code()) => {
                if response.head.status.code() == 101 {
                    break response;
                }
                if informational.len() == terms.informational_max as usize {
                    assert_eq!(outcome.end, Some(Ending::Failed(ExchangeError::TooManyInformational)));
                    return;
                }
                informational.push(response.head);
            }
            Ok(Some(response)) => break response,
            Ok(None) => {
                assert_eq!((outcome.end, outcome.closed, &outcome.head), (None, closed_error, &None));
                assert_eq!(outcome.informational, informational);
                return;
            }
            Err(error) => {
                assert_eq!(outcome.end, Some(Ending::Failed(error.into())));
                assert_eq!(outcome.closed, Some(Err(error.into())));
                return;
            }
        }
    };
    assert_eq!((&outcome.informational, outcome.head.as_ref()), (&informational, Some(&response)));
    let head_bytes = octets.len() - rest.len();
    let body = body(&rest, response.framing, outcome, terms.strictness);
    match body {
        Body::Whole { content, wire_bytes } => {
            assert_eq!(outcome.content, content);
            let is_reusable = may_persist(&response, method, terms.strictness) && wire_bytes == rest.len();
            let wire_bytes = head_bytes + wire_bytes;
            assert_eq!(outcome.end, Some(Ending::Complete { wire_bytes, is_reusable }));
            assert_eq!(outcome.closed, Some(Ok(())));
        }
        Body::Part { content, missing_bytes } => {
            assert_eq!((&outcome.content, outcome.end), (&content, None));
            let truncated = BodyError::Truncated { missing_bytes };
            assert_eq!(outcome.closed, Some(Err(truncated.into())));
        }
        Body::UntilClose => {
            assert_eq!((&outcome.content[..], outcome.end), (&rest[..], None));
            assert_eq!(outcome.closed, Some(Ok(())));
        }
        Body::Wrong => {
            assert!(matches!(outcome.end, Some(Ending::Failed(ExchangeError::Body(_)))), "{outcome:?}");
            assert!(matches!(outcome.closed, Some(Err(_))));
        }
    }
}

enum Body {
    Whole { content: Vec<u8>, wire_bytes: usize },
    Part { content: Vec<u8>, missing_bytes: Option<u64> },
    UntilClose,
    Wrong,
}

fn body(octets: &[u8], framing: BodyFraming, outcome: &Outcome, strictness: Strictness) -> Body {
    let bytes = match framing {
        BodyFraming::UntilClose => return Body::UntilClose,
        BodyFraming::Chunked => return chunked(octets, outcome, strictness),
        BodyFraming::Empty => 0,
        BodyFraming::Length(bytes) => bytes,
    };
    match usize::try_from(bytes).ok().and_then(|bytes| octets.get(..bytes)) {
        Some(content) => Body::Whole { content: content.to_vec(), wire_bytes: content.len() },
        None => Body::Part { content: octets.to_vec(), missing_bytes: Some(bytes - octets.len() as u64) },
    }
}

fn chunked(octets: &[u8], outcome: &Outcome, strictness: Strictness) -> Body {
    let is_limit = matches!(
        outcome.end,
        Some(Ending::Failed(ExchangeError::Body(
            BodyError::ChunkExtensionsTooLarge
                | BodyError::TrailerTooLarge
                | BodyError::Trailer(HeadError::TooManyFields)
        )))
    );
    match reference::read(octets, strictness == Strictness::Tolerant) {
        // The reference has no limits.
        _ if is_limit => Body::Wrong,
        Verdict::Wrong => Body::Wrong,
        // The decoder may already report a fault in the unfinished line; the reference does not.
        Verdict::Unfinished { .. } if matches!(outcome.end, Some(Ending::Failed(_))) => Body::Wrong,
        Verdict::Unfinished { content } => Body::Part { content, missing_bytes: None },
        Verdict::Complete { content, wire_bytes, trailer } => {
            let fields = outcome.trailer.iter().flat_map(|fields| fields.iter());
            let fields: Vec<_> = fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
            assert_eq!(fields, trailer);
            Body::Whole { content, wire_bytes }
        }
    }
}

/// Whether the connection may be used again if no byte follows the response.
fn may_persist(response: &Response, method: &Method, strictness: Strictness) -> bool {
    let head = &response.head;
    let announces = head.fields.has("Transfer-Encoding")
        || head.fields.all("Content-Length").any(|length| length.iter().any(|digit| *digit != b'0'));
    let late = *method == Method::Head || (head.status.code() == 304 && announces);
    response.persistent && !(strictness == Strictness::Strict && late)
}
