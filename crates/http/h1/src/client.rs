//! The client's side of one exchange: reads a server's bytes in response to one request (RFC 9112),
//! up to the end of the response.
//!
//! Invariants:
//!
//! * The events depend only on the bytes, never on how they were split into reads.
//! * A response ends with [`ResponseEvent::End`] only where its framing says so. A truncated
//!   response ends with an error, and an error is final.
//! * A connection is reusable only if the response allows it, is complete, and no byte follows it.
//!
//! The module does no I/O. The caller writes the request, reads the connection, limits time and
//! content, and decides whether to repeat a request.
//!
//! # Example
//!
//! ```
//! use bytes::BytesMut;
//! use message::Method;
//! use petasos_h1::client::{Exchange, ResponseEvent, Terms};
//!
//! let mut exchange = Exchange::new(&Method::Get, Terms::TOLERANT);
//! let mut connection = ["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 2\r\n\r\nh", "i"].into_iter();
//! let (mut input, mut content) = (BytesMut::new(), Vec::new());
//! let end = loop {
//!     match exchange.next(&mut input)? {
//!         Some(ResponseEvent::Informational(_)) => {}
//!         Some(ResponseEvent::Head(response)) => assert_eq!(response.head.status.code(), 200),
//!         Some(ResponseEvent::Data(octets)) => content.extend_from_slice(&octets),
//!         Some(ResponseEvent::End(end)) => break end,
//!         None => match connection.next() {
//!             Some(piece) => input.extend_from_slice(piece.as_bytes()),
//!             // The server closed the connection: the end of some responses; truncates others.
//!             None => break exchange.close()?,
//!         },
//!     }
//! };
//! assert!(end.is_reusable);
//! assert_eq!(content, b"hi");
//! # Ok::<(), petasos_h1::ExchangeError>(())
//! ```

use crate::decoder::{BodyDecoder, BodySkim, Decoded};
use crate::error::{BodyError, ExchangeError, ResponseError};
use crate::framing::{BodyFraming, FramingMethod};
use crate::limits::{Limits, Strictness};
use crate::response::{self, Response, ResponseSkim};
use bytes::{Bytes, BytesMut};
use message::{Fields, Method, ResponseHead, Status, names};

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The largest heads and trailers.
    pub limits: Limits,
    /// How far heads and bodies may deviate from the grammar.
    ///
    /// In strict mode, a connection is not reused after a response to HEAD and after a 304 that
    /// announces content. A broken server may send that content late, and the next request on the
    /// connection would take it for its response.
    pub strictness: Strictness,
    /// The largest number of informational responses before the final one.
    pub informational_max: u32,
}

/// Reads the responses to one request.
///
/// [`Exchange::next`] hands out heads and content as slices of the input. [`Exchange::skim`] leaves
/// them where they are, and allocates nothing unless a head arrives in several pieces. An exchange
/// uses one of them only.
#[derive(Debug)]
pub struct Exchange {
    terms: Terms,
    method: FramingMethod,
    stage: ExchangeStage,
    has_begun: bool,
    /// Informational heads so far.
    informational: u32,
    /// The status of the final head, and whether it allows another request on the connection.
    status: Option<Status>,
    is_persistent: bool,
    /// The beginning of a head that [`Exchange::skim`] has seen and whose end has not arrived.
    partial_head: Vec<u8>,
}

/// A part of the response, in this order: any number of informational heads, the head, any number
/// of pieces of content, the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseEvent {
    /// The head of a 1xx response other than 101. Another head follows.
    Informational(ResponseHead),
    /// The head of the final response, or of 101 (Switching Protocols). After 101, and after 2xx in
    /// response to CONNECT, the rest of the input belongs to the other protocol.
    Head(Response),
    /// A piece of the content; never empty.
    Data(Bytes),
    /// The response is complete.
    End(ResponseEnd),
}

/// The end of a complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseEnd {
    /// The trailer fields, if there were any.
    pub trailer: Option<Fields>,
    /// Whether the connection may carry another request, provided that this one was sent whole.
    pub is_reusable: bool,
}

/// The result of reading in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeSkim {
    /// Bytes of the input that belong to this exchange: all of them unless `is_complete`.
    pub consumed: usize,
    /// Whether the response is complete.
    pub is_complete: bool,
    /// Whether the connection may carry another request, as for [`ResponseEnd::is_reusable`]. False
    /// unless `is_complete`.
    pub is_reusable: bool,
}

#[derive(Debug)]
enum ExchangeStage {
    Head,
    Body(BodyDecoder),
    Over,
    Failed(ExchangeError),
}

impl Terms {
    /// Tolerant, with default limits, and with any number of informational responses. For clients
    /// whose time is limited, and which do not keep informational heads.
    pub const TOLERANT: Self =
        Self { limits: Limits::DEFAULT, strictness: Strictness::Tolerant, informational_max: u32::MAX };
}

impl Exchange {
    /// Reads the responses to a request with this method.
    pub fn new(method: &Method, terms: Terms) -> Self {
        Self {
            terms,
            method: FramingMethod::by(method),
            stage: ExchangeStage::Head,
            has_begun: false,
            informational: 0,
            status: None,
            is_persistent: false,
            partial_head: Vec::new(),
        }
    }

    /// Starts over, for another request with the same method. Keeps buffers.
    pub fn restart(&mut self) {
        self.stage = ExchangeStage::Head;
        self.has_begun = false;
        self.informational = 0;
        self.status = None;
        self.partial_head.clear();
    }

    /// Whether a byte of a response has arrived.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The status of the final head, once that has arrived.
    pub fn status(&self) -> Option<Status> {
        self.status
    }

    /// Takes the next event from the front of `input`. `None` means that more bytes are needed.
    /// After the end, it returns the end again and leaves `input` unchanged.
    ///
    /// # Errors
    ///
    /// [`ExchangeError`]. Later calls return it again.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<ResponseEvent>, ExchangeError> {
        debug_assert!(self.partial_head.is_empty(), "an exchange is either skimmed or not");
        self.has_begun |= !input.is_empty();
        let trailer = match &mut self.stage {
            ExchangeStage::Head => return self.next_head(input),
            ExchangeStage::Body(decoder) => match decoder.decode(input) {
                Ok(Decoded::NeedMore) => return Ok(None),
                Ok(Decoded::Data(octets)) => return Ok(Some(ResponseEvent::Data(octets))),
                Ok(Decoded::End(trailer)) => trailer,
                Err(error) => return self.fail(error.into()),
            },
            ExchangeStage::Over => None,
            ExchangeStage::Failed(error) => return Err(*error),
        };
        self.stage = ExchangeStage::Over;
        Ok(Some(ResponseEvent::End(ResponseEnd {
            trailer,
            is_reusable: self.is_persistent && input.is_empty(),
        })))
    }

    /// Reads the part of the response in `input`, and passes each run of content to `content`, in
    /// order.
    ///
    /// # Errors
    ///
    /// [`ExchangeError`]. Later calls return it again. The runs before the fault have been passed
    /// on by then.
    pub fn skim(&mut self, input: &[u8], content: impl FnMut(&[u8])) -> Result<ExchangeSkim, ExchangeError> {
        let (method, Terms { limits, strictness, .. }) = (self.method, self.terms);
        self.skim_with(input, |octets| response::skim(octets, method, &limits, strictness), content)
    }

    /// Reads as [`Exchange::skim`] does, but has the heads read by `read_head`. Its input starts
    /// with a head, whose end may be missing; its result must be that of
    /// [`skim_response`](crate::skim_response), which it may remember from an equal head.
    ///
    /// # Errors
    ///
    /// [`ExchangeError`], as for [`Exchange::skim`].
    pub fn skim_with(
        &mut self,
        input: &[u8],
        mut read_head: impl FnMut(&[u8]) -> Result<Option<ResponseSkim>, ResponseError>,
        content: impl FnMut(&[u8]),
    ) -> Result<ExchangeSkim, ExchangeError> {
        self.has_begun |= !input.is_empty();
        let more = ExchangeSkim { consumed: input.len(), is_complete: false, is_reusable: false };
        let mut rest = input;
        let body = loop {
            match &mut self.stage {
                ExchangeStage::Head => match self.skim_head(rest, &mut read_head)? {
                    Some(after) => rest = after,
                    None => return Ok(more),
                },
                ExchangeStage::Body(decoder) => break decoder.skim_with(rest, content),
                ExchangeStage::Over => break Ok(BodySkim { consumed: 0, content_bytes: 0, done: true }),
                ExchangeStage::Failed(error) => return Err(*error),
            }
        };
        match body {
            Ok(body) if !body.done => Ok(more),
            Ok(body) => {
                self.stage = ExchangeStage::Over;
                rest = rest.get(body.consumed..).unwrap_or_default();
                let is_reusable = self.is_persistent && rest.is_empty();
                Ok(ExchangeSkim { consumed: input.len() - rest.len(), is_complete: true, is_reusable })
            }
            Err(error) => self.fail(error.into()),
        }
    }

    /// The server closed the connection, and all input was read. This ends a response without a
    /// length, and leaves a complete one complete. The connection is not reusable.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Closed`] before the final head, [`BodyError::Truncated`] within the
    /// content, or the error that was returned before.
    pub fn close(&mut self) -> Result<ResponseEnd, ExchangeError> {
        match &self.stage {
            ExchangeStage::Head => return self.fail(ExchangeError::Closed),
            ExchangeStage::Body(decoder) => {
                if let Err(error) = decoder.eof() {
                    return self.fail(error.into());
                }
            }
            ExchangeStage::Over => {}
            ExchangeStage::Failed(error) => return Err(*error),
        }
        self.stage = ExchangeStage::Over;
        self.is_persistent = false;
        Ok(ResponseEnd { trailer: None, is_reusable: false })
    }

    /// The error for a connection that broke. A response whose end is the end of its connection
    /// needs an orderly one.
    pub fn broken(&self) -> ExchangeError {
        match &self.stage {
            ExchangeStage::Body(decoder) => {
                decoder.eof().err().unwrap_or(BodyError::Truncated { missing_bytes: None }).into()
            }
            ExchangeStage::Head | ExchangeStage::Over => ExchangeError::Closed,
            ExchangeStage::Failed(error) => *error,
        }
    }

    fn next_head(&mut self, input: &mut BytesMut) -> Result<Option<ResponseEvent>, ExchangeError> {
        let response = match response::parse(input, self.method, &self.terms.limits, self.terms.strictness) {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(None),
            Err(error) => return self.fail(error.into()),
        };
        let Response { head, framing, persistent } = &response;
        let field = |name| head.fields.first(name).map(|value| &value[..]);
        let is_persistent = *persistent && !self.may_send_late(head.status, field);
        if self.accept(head.status, *framing, is_persistent)? {
            return Ok(Some(ResponseEvent::Head(response)));
        }
        Ok(Some(ResponseEvent::Informational(response.head)))
    }

    /// Reads one head in place. Returns the bytes after it, or `None` if more are needed.
    fn skim_head<'a>(
        &mut self,
        input: &'a [u8],
        read_head: &mut impl FnMut(&[u8]) -> Result<Option<ResponseSkim>, ResponseError>,
    ) -> Result<Option<&'a [u8]>, ExchangeError> {
        let kept_bytes = self.partial_head.len();
        if kept_bytes > 0 {
            self.partial_head.extend_from_slice(input);
        }
        let octets = if kept_bytes > 0 { &self.partial_head } else { input };
        let head = match read_head(octets) {
            Ok(Some(head)) => head,
            Ok(None) => {
                if kept_bytes == 0 {
                    self.partial_head.extend_from_slice(input);
                }
                return Ok(None);
            }
            Err(error) => return self.fail(error.into()),
        };
        let is_persistent =
            head.persistent && !self.may_send_late(head.status, |name| head.field(octets, name));
        self.partial_head.clear();
        self.accept(head.status, head.framing, is_persistent)?;
        // The kept bytes were not a whole head, so the head ends within the new bytes.
        Ok(Some(input.get(head.head_bytes.saturating_sub(kept_bytes)..).unwrap_or_default()))
    }

    /// Takes a complete head. Returns whether it is the final one.
    fn accept(
        &mut self,
        status: Status,
        framing: BodyFraming,
        is_persistent: bool,
    ) -> Result<bool, ExchangeError> {
        let is_final = !status.is_informational() || status.code() == 101;
        if is_final {
            let decoder = BodyDecoder::with_limits(framing, &self.terms.limits, self.terms.strictness);
            self.stage = ExchangeStage::Body(decoder);
            self.status = Some(status);
            self.is_persistent = is_persistent;
            return Ok(true);
        }
        if self.informational == self.terms.informational_max {
            return self.fail(ExchangeError::TooManyInformational);
        }
        self.informational += 1;
        Ok(false)
    }

    /// Whether content may come late although this response has none, as [`Terms::strictness`]
    /// describes. Other empty responses that announce content are never persistent.
    fn may_send_late<'a>(&self, status: Status, field: impl Fn(&'static str) -> Option<&'a [u8]>) -> bool {
        if self.terms.strictness == Strictness::Tolerant {
            return false;
        }
        // In strict mode there is at most one Content-Length, so that the first one is all.
        let announces = || {
            field(names::TRANSFER_ENCODING).is_some()
                || field(names::CONTENT_LENGTH)
                    .is_some_and(|length| length.iter().any(|digit| *digit != b'0'))
        };
        self.method == FramingMethod::Head || (status == Status::NOT_MODIFIED && announces())
    }

    #[cold]
    fn fail<T>(&mut self, error: ExchangeError) -> Result<T, ExchangeError> {
        self.stage = ExchangeStage::Failed(error);
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::{Exchange, ExchangeSkim, ResponseEvent, Terms};
    use crate::error::{BodyError, ExchangeError, HeadError};
    use crate::limits::{Limits, Strictness};
    use bytes::BytesMut;
    use message::Method;

    const STRICT: Terms = Terms { strictness: Strictness::Strict, ..Terms::TOLERANT };

    /// The results of an exchange for `wire`, followed by the end of the connection: a line for
    /// each event, and the error.
    fn read(method: &Method, terms: Terms, wire: &str) -> Vec<String> {
        let mut exchange = Exchange::new(method, terms);
        let mut input = BytesMut::from(wire);
        let mut lines = Vec::new();
        loop {
            let event = match exchange.next(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => match exchange.close() {
                    Ok(end) => ResponseEvent::End(end),
                    Err(error) => {
                        lines.push(format!("error: {error}"));
                        return lines;
                    }
                },
                Err(error) => {
                    lines.push(format!("error: {error}"));
                    return lines;
                }
            };
            match event {
                ResponseEvent::Informational(head) => lines.push(format!("informational {}", head.status)),
                ResponseEvent::Head(response) => lines.push(format!("head {}", response.head.status)),
                ResponseEvent::Data(octets) => lines.push(format!("data {}", octets.escape_ascii())),
                ResponseEvent::End(end) => {
                    let trailer = end.trailer.map_or(0, |fields| fields.iter().count());
                    lines.push(format!("end, {trailer} trailer fields, reusable {}", end.is_reusable));
                    return lines;
                }
            }
        }
    }

    fn get(wire: &str) -> Vec<String> {
        read(&Method::Get, STRICT, wire)
    }

    const END: &str = "end, 0 trailer fields, reusable true";
    const LAST: &str = "end, 0 trailer fields, reusable false";

    #[test]
    fn events_come_in_the_order_of_the_response() {
        assert_eq!(
            get("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\
                 Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n"),
            [
                "informational 100",
                "informational 103",
                "head 200",
                "data abc",
                "data de",
                "end, 1 trailer fields, reusable true"
            ]
        );
        assert_eq!(get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"), ["head 200", "data ab", END]);
        assert_eq!(get("HTTP/1.1 204 Empty\r\n\r\n"), ["head 204", END]);
        assert_eq!(get("HTTP/1.1 200 OK\r\n\r\nab"), ["head 200", "data ab", LAST]);
    }

    #[test]
    fn connection_is_reusable_only_if_nothing_follows() {
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n";
        assert_eq!(get(&format!("{length}\r\na")), ["head 200", "data a", END]);
        assert_eq!(get(&format!("{length}\r\nab")), ["head 200", "data a", LAST]);
        assert_eq!(get(&format!("{length}Connection: close\r\n\r\na")), ["head 200", "data a", LAST]);
        assert_eq!(get("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), ["head 200", LAST]);
    }

    #[test]
    fn strict_mode_reuses_no_connection_with_late_content() {
        for (method, head, strict) in [
            (Method::Head, "200 OK\r\nContent-Length: 1\r\n", LAST),
            (Method::Head, "200 OK\r\n", LAST),
            (Method::Get, "304 Same\r\nContent-Length: 1\r\n", LAST),
            (Method::Get, "304 Same\r\nTransfer-Encoding: chunked\r\n", LAST),
            (Method::Get, "304 Same\r\nContent-Length: 00\r\n", END),
            (Method::Get, "304 Same\r\n", END),
        ] {
            let wire = format!("HTTP/1.1 {head}\r\n");
            assert_eq!(read(&method, STRICT, &wire)[1], strict, "{wire}");
            assert_eq!(read(&method, Terms::TOLERANT, &wire)[1], END, "{wire}");
            let mut exchange = Exchange::new(&method, STRICT);
            let taken = exchange.skim(wire.as_bytes(), |_| {}).unwrap();
            assert_eq!(taken.is_reusable, strict == END, "{wire}");
        }
    }

    #[test]
    fn early_end_of_the_connection_is_an_error() {
        let closed = "error: the connection ended before the response";
        let truncated = "error: the connection ended before the body did";
        assert_eq!(get(""), [closed]);
        assert_eq!(get("HTTP/1.1 200 OK\r\nCon"), [closed]);
        assert_eq!(get("HTTP/1.1 103 Early\r\n\r\n"), ["informational 103", closed]);
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(get(&format!("{length}ab")), ["head 200", "data ab", truncated]);
        assert_eq!(get(length), ["head 200", truncated]);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n";
        assert_eq!(get(chunked), ["head 200", "data ab", truncated]);
    }

    #[test]
    fn broken_connection_ends_no_response() {
        let after = |wire: &str| {
            let mut exchange = Exchange::new(&Method::Get, STRICT);
            let mut input = BytesMut::from(wire);
            while exchange.next(&mut input).unwrap().is_some() {}
            exchange.broken()
        };
        let truncated = |missing_bytes| ExchangeError::Body(BodyError::Truncated { missing_bytes });
        assert_eq!(after("HTTP/1.1 2"), ExchangeError::Closed);
        assert_eq!(after("HTTP/1.1 200 OK\r\n\r\nab"), truncated(None));
        assert_eq!(after("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), truncated(Some(3)));
    }

    #[test]
    fn informational_responses_are_limited() {
        let terms = Terms { informational_max: 2, ..STRICT };
        let early = "HTTP/1.1 103 Early\r\n\r\n";
        let last = "HTTP/1.1 204 Empty\r\n\r\n";
        let two = read(&Method::Get, terms, &format!("{early}{early}{last}"));
        assert_eq!(two, ["informational 103", "informational 103", "head 204", END]);
        let three = format!("{early}{early}{early}{last}");
        assert_eq!(read(&Method::Get, terms, &three)[2], "error: too many informational responses");
        let mut exchange = Exchange::new(&Method::Get, terms);
        let skimmed = exchange.skim(three.as_bytes(), |_| {});
        assert_eq!(skimmed, Err(ExchangeError::TooManyInformational));
        assert_eq!(exchange.skim(b"", |_| {}), Err(ExchangeError::TooManyInformational));
    }

    #[test]
    fn bytes_after_a_switch_of_protocols_stay_in_the_input() {
        for (method, wire) in [
            (Method::Get, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nearly"),
            (Method::Connect, "HTTP/1.1 200 OK\r\n\r\nearly"),
        ] {
            let mut exchange = Exchange::new(&method, STRICT);
            let mut input = BytesMut::from(wire);
            assert!(matches!(exchange.next(&mut input), Ok(Some(ResponseEvent::Head(_)))));
            assert_eq!(input, "early");
            let mut exchange = Exchange::new(&method, STRICT);
            let taken = exchange.skim(wire.as_bytes(), |_| {}).unwrap();
            let consumed = wire.len() - "early".len();
            assert_eq!(taken, ExchangeSkim { consumed, is_complete: true, is_reusable: false });
        }
    }

    #[test]
    fn heads_are_limited_and_errors_are_final() {
        let limits = Limits { head_bytes_max: 20, ..Limits::DEFAULT };
        let mut exchange = Exchange::new(&Method::Get, Terms { limits, ..STRICT });
        let too_large = Err(ExchangeError::Head(HeadError::TooLarge.into()));
        let mut input = BytesMut::from("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(exchange.next(&mut input), too_large);
        assert_eq!(exchange.next(&mut BytesMut::new()), too_large);
        assert_eq!(
            exchange.close(),
            Err(HeadError::TooLarge).map_err(|error| ExchangeError::Head(error.into()))
        );
        assert!(exchange.has_begun() && exchange.status().is_none());
        exchange.restart();
        assert!(!exchange.has_begun());
        assert_eq!(exchange.next(&mut BytesMut::new()), Ok(None));
    }

    #[test]
    fn pipelined_responses_are_skimmed_one_after_the_other() {
        let wire =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nc";
        for piece_bytes in [1, 3, wire.len()] {
            let mut exchange = Exchange::new(&Method::Get, Terms::TOLERANT);
            let mut contents = vec![Vec::new()];
            for mut piece in wire.chunks(piece_bytes) {
                while !piece.is_empty() {
                    let content = contents.last_mut().unwrap();
                    let taken = exchange.skim(piece, |run| content.extend_from_slice(run)).unwrap();
                    piece = &piece[taken.consumed..];
                    if taken.is_complete {
                        exchange.restart();
                        contents.push(Vec::new());
                    }
                }
            }
            assert_eq!(contents, [&b"ab"[..], b"c", b""], "in pieces of {piece_bytes}");
        }
    }
}
