//! Taking the transfer coding off a body (RFC 9112 sections 6 and 7), piece by piece, either handing out the
//! content as slices or merely counting it.
//!
//! Invariant: one state machine feeds both ways of reading, and it takes its input octet by octet as far as
//! framing is concerned, so that the cuts between reads never change the result. An error is final: asked
//! again, the decoder repeats it. It does not decode content codings and does not merge trailers into the
//! header, which RFC 9110 section 6.5.1 leaves to whoever knows the fields.

use crate::chunk_extension::ExtensionPart;
use crate::error::BodyError;
use crate::framing::BodyFraming;
use crate::head;
use crate::limits::{Limits, Strictness};
use crate::octets;
use bytes::{Buf, Bytes, BytesMut};
use message::Fields;

/// Reads one body.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
    strictness: Strictness,
    limits: Limits,
    extension_bytes: usize,
    /// The trailer section as far as it came; without any allocation while there is no trailer field.
    trailer: BytesMut,
    trailer_fields: Option<Fields>,
}

/// What [`BodyDecoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The input is used up as far as possible.
    NeedMore,
    /// Content; never empty.
    Data(Bytes),
    /// The body is complete; the trailer fields if there were any. What is left in the buffer belongs to the
    /// next message.
    End(Option<Fields>),
}

/// What [`BodyDecoder::skim`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skimmed {
    /// Octets of the input that belong to this body: all of them unless `done`.
    pub consumed: usize,
    /// How many of those were content.
    pub content_bytes: u64,
    /// The body is complete.
    pub done: bool,
}

impl BodyDecoder {
    /// A strict decoder with default limits for a body framed like this.
    pub fn new(framing: BodyFraming) -> Self {
        Self::with_limits(framing, &Limits::DEFAULT, Strictness::Strict)
    }

    /// A decoder for a body framed like this.
    pub fn with_limits(framing: BodyFraming, limits: &Limits, strictness: Strictness) -> Self {
        let state = match framing {
            BodyFraming::Empty | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(remaining_bytes) => State::Length { remaining_bytes },
            BodyFraming::Chunked => State::Size { size: 0, digits: 0 },
            BodyFraming::UntilClose => State::UntilClose,
        };
        Self {
            state,
            strictness,
            limits: *limits,
            extension_bytes: 0,
            trailer: BytesMut::new(),
            trailer_fields: None,
        }
    }

    /// Takes the next piece of the body from the front of `buf`. Call it until it says
    /// [`Decoded::NeedMore`] or [`Decoded::End`].
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, BodyError> {
        let (framing_bytes, event) = self.advance(buf)?;
        buf.advance(framing_bytes);
        Ok(match event {
            Event::NeedMore => Decoded::NeedMore,
            Event::Content(bytes) => Decoded::Data(buf.split_to(bytes).freeze()),
            Event::End => Decoded::End(self.trailer_fields.take()),
        })
    }

    /// Reads as much of the body as is in `input` without keeping any of it.
    pub fn skim(&mut self, input: &[u8]) -> Result<Skimmed, BodyError> {
        self.skim_with(input, |_| {})
    }

    /// As [`BodyDecoder::skim`], handing each run of content octets to `content`, in order. After an error
    /// the runs before the fault have been handed out.
    pub fn skim_with(&mut self, input: &[u8], mut content: impl FnMut(&[u8])) -> Result<Skimmed, BodyError> {
        let mut rest = input;
        let mut content_bytes = 0;
        loop {
            let (framing_bytes, event) = self.advance(rest)?;
            rest = rest.get(framing_bytes..).unwrap_or_default();
            match event {
                Event::Content(bytes) => {
                    let (run, after) = rest.split_at_checked(bytes).unwrap_or((rest, &[]));
                    content(run);
                    content_bytes += run.len() as u64;
                    rest = after;
                }
                Event::NeedMore | Event::End => {
                    let done = event == Event::End;
                    return Ok(Skimmed { consumed: input.len() - rest.len(), content_bytes, done });
                }
            }
        }
    }

    /// Whether the body is complete without another octet.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Judges an end of the connection at this point: `Ok` if the body is complete, else
    /// [`BodyError::Truncated`], or the error that came before.
    pub fn eof(&self) -> Result<(), BodyError> {
        match self.state {
            State::Done | State::UntilClose => Ok(()),
            State::Length { remaining_bytes } => {
                Err(BodyError::Truncated { missing_bytes: Some(remaining_bytes) })
            }
            State::Failed(error) => Err(error),
            _ => Err(BodyError::Truncated { missing_bytes: None }),
        }
    }

    /// Reads framing octets until content begins, the body ends or the input is used up. Gives the number
    /// of framing octets and what comes after them; content counts as read.
    fn advance(&mut self, input: &[u8]) -> Result<(usize, Event), BodyError> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            match self.state {
                State::Done => return Ok((used, Event::End)),
                State::Failed(error) => return Err(error),
                _ if rest.is_empty() => return Ok((used, Event::NeedMore)),
                State::UntilClose => return Ok((used, Event::Content(rest.len()))),
                State::Length { remaining_bytes } => {
                    let (bytes, left) = take(rest, remaining_bytes);
                    self.state =
                        if left == 0 { State::Done } else { State::Length { remaining_bytes: left } };
                    return Ok((used, Event::Content(bytes)));
                }
                State::Data { remaining_bytes } => {
                    let (bytes, left) = take(rest, remaining_bytes);
                    self.state =
                        if left == 0 { State::DataEnd } else { State::Data { remaining_bytes: left } };
                    return Ok((used, Event::Content(bytes)));
                }
                State::Trailer { line_bytes } => match self.read_trailer(rest, line_bytes) {
                    Ok(bytes) => used += bytes,
                    Err(error) => return self.fail(error),
                },
                state => match rest.first().map(|&octet| self.after(state, octet)) {
                    Some(Ok(next)) => {
                        self.state = next;
                        used += 1;
                    }
                    Some(Err(error)) => return self.fail(error),
                    None => return Ok((used, Event::NeedMore)),
                },
            }
        }
    }

    fn fail<T>(&mut self, error: BodyError) -> Result<T, BodyError> {
        self.state = State::Failed(error);
        Err(error)
    }

    /// The state after one octet of chunk framing: a size line, or the line end after a chunk's data.
    fn after(&mut self, state: State, octet: u8) -> Result<State, BodyError> {
        let tolerant = self.strictness == Strictness::Tolerant;
        match (state, octet) {
            (State::Size { digits: 0, .. }, octet) if !octet.is_ascii_hexdigit() => Err(BodyError::ChunkSize),
            (State::Size { size, digits }, octet) if octet.is_ascii_hexdigit() => {
                if digits == CHUNK_SIZE_DIGITS_MAX {
                    return Err(BodyError::ChunkSizeTooLong);
                }
                Ok(State::Size { size: size << 4 | u64::from(hex_value(octet)), digits: digits + 1 })
            }
            (State::Size { size, .. } | State::SizeBlank { size }, b' ' | b'\t') => {
                self.count_extension_octet()?;
                Ok(State::SizeBlank { size })
            }
            (State::Size { size, .. } | State::SizeBlank { size }, b';') => {
                self.count_extension_octet()?;
                Ok(State::Extension { size, part: ExtensionPart::BeforeName })
            }
            // An extension that has not ended; a bare LF has a name of its own.
            (State::Extension { part, .. }, b'\r') if !tolerant && !part.may_end() => {
                Err(BodyError::ChunkExtension)
            }
            // Blanks may only stand before an extension (RFC 9112 section 7.1.1), but some servers pad
            // their sizes with them.
            (State::SizeBlank { .. }, b'\r' | b'\n') if !tolerant => Err(BodyError::ChunkSize),
            (State::Size { size, .. } | State::SizeBlank { size } | State::Extension { size, .. }, b'\r') => {
                Ok(State::SizeLf { size })
            }
            (State::Size { size, .. } | State::SizeBlank { size } | State::Extension { size, .. }, b'\n') => {
                if tolerant {
                    Ok(chunk(size))
                } else {
                    Err(BodyError::BareLf)
                }
            }
            (State::Size { .. } | State::SizeBlank { .. }, _) => Err(BodyError::ChunkSize),
            (State::Extension { size, part }, octet) => {
                let any = || octets::is_text_octet(octet).then_some(part);
                let next = if tolerant { any() } else { part.after(octet) };
                let part = next.ok_or(BodyError::ChunkExtension)?;
                self.count_extension_octet()?;
                Ok(State::Extension { size, part })
            }
            (State::SizeLf { size }, b'\n') => Ok(chunk(size)),
            (State::SizeLf { .. }, _) => Err(BodyError::LineEnd),
            (State::DataEnd, b'\r') => Ok(State::DataLf),
            (State::DataEnd, b'\n') if tolerant => Ok(NEXT_CHUNK),
            (State::DataEnd, b'\n') => Err(BodyError::BareLf),
            (State::DataLf, b'\n') => Ok(NEXT_CHUNK),
            (_, _) => Err(BodyError::ChunkEnd),
        }
    }

    fn count_extension_octet(&mut self) -> Result<(), BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > self.limits.chunk_extension_bytes_max {
            return Err(BodyError::ChunkExtensionsTooLarge);
        }
        Ok(())
    }

    /// Reads up to one line of the trailer section; `line_bytes` of it came before. Gives the octets used.
    fn read_trailer(&mut self, input: &[u8], line_bytes: usize) -> Result<usize, BodyError> {
        if self.trailer.is_empty() && input.starts_with(b"\r\n") && self.limits.trailer_bytes_max >= 2 {
            self.state = State::Done;
            return Ok(2);
        }
        let line_end = memchr::memchr(b'\n', input);
        let bytes = line_end.map_or(input.len(), |at| at + 1);
        if self.trailer.len() + bytes > self.limits.trailer_bytes_max {
            return Err(BodyError::TrailerTooLarge);
        }
        self.trailer.extend_from_slice(input.get(..bytes).unwrap_or(input));
        if line_end.is_none() {
            self.state = State::Trailer { line_bytes: line_bytes + bytes };
            return Ok(bytes);
        }
        let line = self.trailer.get(self.trailer.len() - line_bytes - bytes..).unwrap_or_default();
        if !matches!(line, b"\r\n" | b"\n") {
            self.state = State::Trailer { line_bytes: 0 };
            return Ok(bytes);
        }
        let section = std::mem::take(&mut self.trailer);
        let fields = head::parse_trailer(section, self.limits.fields_max, self.strictness)
            .map_err(BodyError::Trailer)?;
        self.trailer_fields = Some(fields).filter(|fields| !fields.is_empty());
        self.state = State::Done;
        Ok(bytes)
    }
}

/// More digits than this overflow a `u64`, or are zeros that nobody needs.
const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

const NEXT_CHUNK: State = State::Size { size: 0, digits: 0 };

/// Where in a body the decoder is.
#[derive(Clone, Copy, Debug)]
enum State {
    Length {
        remaining_bytes: u64,
    },
    UntilClose,
    /// In the digits of a chunk size.
    Size {
        size: u64,
        digits: u8,
    },
    /// In blanks after a chunk size.
    SizeBlank {
        size: u64,
    },
    Extension {
        size: u64,
        part: ExtensionPart,
    },
    /// Before the LF of a chunk size line.
    SizeLf {
        size: u64,
    },
    Data {
        remaining_bytes: u64,
    },
    /// Before the CR after a chunk's data.
    DataEnd,
    /// Before the LF after a chunk's data.
    DataLf,
    /// In the trailer section, this far into a line.
    Trailer {
        line_bytes: usize,
    },
    Done,
    Failed(BodyError),
}

/// What stopped [`BodyDecoder::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    NeedMore,
    Content(usize),
    End,
}

/// The state after a complete chunk size line.
fn chunk(size: u64) -> State {
    if size == 0 { State::Trailer { line_bytes: 0 } } else { State::Data { remaining_bytes: size } }
}

/// How many octets of `input` belong to a run of `remaining_bytes`, and what remains of it then.
fn take(input: &[u8], remaining_bytes: u64) -> (usize, u64) {
    let bytes = usize::try_from(remaining_bytes).unwrap_or(usize::MAX).min(input.len());
    (bytes, remaining_bytes - bytes as u64)
}

/// The value of a hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        letter => (letter | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyDecoder, Decoded, Skimmed};
    use crate::error::{BodyError, HeadError};
    use crate::framing::BodyFraming;
    use crate::limits::{Limits, Strictness};
    use bytes::BytesMut;

    fn chunked_with(change: impl FnOnce(&mut Limits)) -> BodyDecoder {
        let mut limits = Limits::DEFAULT;
        change(&mut limits);
        BodyDecoder::with_limits(BodyFraming::Chunked, &limits, Strictness::Strict)
    }

    fn skim(decoder: &mut BodyDecoder, wire: &str) -> Result<Skimmed, BodyError> {
        decoder.skim(wire.as_bytes())
    }

    #[test]
    fn bodies_of_known_length_end_by_themselves_and_leave_the_rest() {
        for framing in [BodyFraming::Empty, BodyFraming::Length(0)] {
            let mut buf = BytesMut::from("next");
            let mut decoder = BodyDecoder::new(framing);
            assert!(decoder.is_done());
            assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End(None)));
            assert_eq!(buf, "next");
        }
        let mut buf = BytesMut::from("abcdenext");
        let mut decoder = BodyDecoder::new(BodyFraming::Length(5));
        assert_eq!(decoder.decode(&mut buf), Ok(Decoded::Data("abcde".into())));
        assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End(None)));
        assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End(None)));
        assert_eq!(buf, "next");
    }

    #[test]
    fn the_end_of_the_connection_is_judged() {
        let mut decoder = BodyDecoder::new(BodyFraming::Length(5));
        assert_eq!(skim(&mut decoder, "abc").map(|skimmed| skimmed.done), Ok(false));
        assert_eq!(decoder.eof(), Err(BodyError::Truncated { missing_bytes: Some(2) }));
        assert_eq!(skim(&mut decoder, "de").map(|skimmed| skimmed.done), Ok(true));
        assert_eq!(decoder.eof(), Ok(()));

        let mut decoder = BodyDecoder::new(BodyFraming::UntilClose);
        assert_eq!(decoder.eof(), Ok(()));
        assert_eq!(skim(&mut decoder, "abc"), Ok(Skimmed { consumed: 3, content_bytes: 3, done: false }));
        assert_eq!(decoder.eof(), Ok(()));

        let whole = "3\r\nabc\r\n0\r\nX: y\r\n\r\n";
        for cut in 0..whole.len() {
            let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
            assert_eq!(skim(&mut decoder, &whole[..cut]).map(|skimmed| skimmed.done), Ok(false));
            assert_eq!(decoder.eof(), Err(BodyError::Truncated { missing_bytes: None }), "cut at {cut}");
        }
    }

    #[test]
    fn skimming_counts_content_and_stops_at_the_end() {
        let mut content = Vec::new();
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        let wire = b"3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\nHTTP/1.1";
        let skimmed = decoder.skim_with(wire, |run| content.push(run.to_vec()));
        assert_eq!(skimmed, Ok(Skimmed { consumed: wire.len() - 8, content_bytes: 13, done: true }));
        assert_eq!(content, [&b"abc"[..], b"0123456789"]);
    }

    #[test]
    fn an_error_is_final() {
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        assert_eq!(skim(&mut decoder, "x"), Err(BodyError::ChunkSize));
        assert_eq!(skim(&mut decoder, "0\r\n\r\n"), Err(BodyError::ChunkSize));
        assert_eq!(decoder.eof(), Err(BodyError::ChunkSize));
    }

    #[test]
    fn the_largest_chunk_size_fits_and_one_more_digit_does_not() {
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        assert_eq!(skim(&mut decoder, "FFFFFFFFffffffff\r\nab").map(|skimmed| skimmed.content_bytes), Ok(2));
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        assert_eq!(skim(&mut decoder, "00000000000000001"), Err(BodyError::ChunkSizeTooLong));
    }

    #[test]
    fn extensions_count_over_the_whole_body() {
        let wire = "1;abc\r\nx\r\n1 ;a\r\nx\r\n0\r\n\r\n";
        let mut decoder = chunked_with(|limits| limits.chunk_extension_bytes_max = 7);
        assert_eq!(skim(&mut decoder, wire).map(|skimmed| skimmed.done), Ok(true));
        let mut decoder = chunked_with(|limits| limits.chunk_extension_bytes_max = 6);
        assert_eq!(skim(&mut decoder, wire), Err(BodyError::ChunkExtensionsTooLarge));
    }

    #[test]
    fn trailers_have_their_limits() {
        let wire = "0\r\nX: y\r\nZ: z\r\n\r\n";
        let mut decoder = chunked_with(|limits| limits.trailer_bytes_max = 14);
        assert_eq!(skim(&mut decoder, wire).map(|skimmed| skimmed.done), Ok(true));
        let mut decoder = chunked_with(|limits| limits.trailer_bytes_max = 13);
        assert_eq!(skim(&mut decoder, wire), Err(BodyError::TrailerTooLarge));
        let mut decoder = chunked_with(|limits| limits.fields_max = 1);
        assert_eq!(skim(&mut decoder, wire), Err(BodyError::Trailer(HeadError::TooManyFields)));
    }

    #[test]
    fn trailers_are_handed_out_once() {
        let mut buf = BytesMut::from("0\r\nX-Sum: 1\r\nEmpty:\r\n\r\n");
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        let Ok(Decoded::End(Some(trailer))) = decoder.decode(&mut buf) else { panic!("no trailer") };
        assert_eq!(trailer.only("x-sum").unwrap(), "1");
        assert_eq!(trailer.only("empty").unwrap(), "");
        assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End(None)));
    }

    #[test]
    fn tolerance_of_the_chunked_coding() {
        let wire = "3 \t\nabc\n0\r\nX: y\n\n";
        let decoder =
            || BodyDecoder::with_limits(BodyFraming::Chunked, &Limits::DEFAULT, Strictness::Tolerant);
        assert_eq!(
            skim(&mut decoder(), wire),
            Ok(Skimmed { consumed: wire.len(), content_bytes: 3, done: true })
        );
        for (wire, fault) in [
            ("3 x\r\nabc\r\n", BodyError::ChunkSize),
            ("3\r\nabcd\r\n", BodyError::ChunkEnd),
            ("3;\x01\r\nabc\r\n", BodyError::ChunkExtension),
        ] {
            assert_eq!(skim(&mut decoder(), wire), Err(fault));
        }
    }
}
