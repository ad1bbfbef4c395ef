//! Decodes bodies (RFC 9112 sections 6 and 7) piece by piece. The content is either handed out as
//! slices or only counted.
//!
//! Invariant: both ways of reading use one state machine, which takes framing byte by byte. The
//! division of the input into reads therefore never changes the result. An error is final: later
//! calls return it again. The decoder does not decode content codings. It does not merge trailers
//! into the header, which RFC 9110 section 6.5.1 leaves to recipients that know the fields.

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
    state: DecoderState,
    strictness: Strictness,
    limits: Limits,
    extension_bytes: usize,
    /// The trailer section so far. It allocates nothing while there is no trailer field.
    trailer: BytesMut,
    trailer_fields: Option<Fields>,
}

/// The result of [`BodyDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// More input is needed; all of the present input is consumed.
    NeedMore,
    /// A piece of the content; never empty.
    Data(Bytes),
    /// The body is complete, with its trailer fields if there were any. The rest of the buffer
    /// belongs to the next message.
    End(Option<Fields>),
}

/// The result of [`BodyDecoder::skim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodySkim {
    /// Bytes of the input that belong to this body: all of them unless `done`.
    pub consumed: usize,
    /// Bytes of these that are content.
    pub content_bytes: u64,
    /// Whether the body is complete.
    pub done: bool,
}

impl BodyDecoder {
    /// Creates a strict decoder with default limits for a body with this framing.
    pub fn new(framing: BodyFraming) -> Self {
        Self::with_limits(framing, &Limits::DEFAULT, Strictness::Strict)
    }

    /// Creates a decoder for a body with this framing.
    pub fn with_limits(framing: BodyFraming, limits: &Limits, strictness: Strictness) -> Self {
        let state = match framing {
            BodyFraming::Empty | BodyFraming::Length(0) => DecoderState::Done,
            BodyFraming::Length(remaining_bytes) => DecoderState::Length { remaining_bytes },
            BodyFraming::Chunked => DecoderState::Size { size: 0, digits: 0 },
            BodyFraming::UntilClose => DecoderState::UntilClose,
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

    /// Takes the next piece of the body from the front of `buf`. Call it until it returns
    /// [`Decoded::NeedMore`] or [`Decoded::End`].
    ///
    /// # Errors
    ///
    /// [`BodyError`] if the body violates its framing or a limit.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, BodyError> {
        let (framing_bytes, event) = self.advance(buf)?;
        buf.advance(framing_bytes);
        Ok(match event {
            DecoderEvent::NeedMore => Decoded::NeedMore,
            DecoderEvent::Content(bytes) => Decoded::Data(buf.split_to(bytes).freeze()),
            DecoderEvent::End => Decoded::End(self.trailer_fields.take()),
        })
    }

    /// Reads the part of the body in `input` and counts its content.
    ///
    /// # Errors
    ///
    /// [`BodyError`], as for [`BodyDecoder::decode`].
    pub fn skim(&mut self, input: &[u8]) -> Result<BodySkim, BodyError> {
        self.skim_with(input, |_| {})
    }

    /// Reads as [`BodyDecoder::skim`] does, and passes each run of content to `content`, in order.
    ///
    /// # Errors
    ///
    /// [`BodyError`], as for [`BodyDecoder::decode`]. The runs before the fault have been passed on
    /// by then.
    pub fn skim_with(&mut self, input: &[u8], mut content: impl FnMut(&[u8])) -> Result<BodySkim, BodyError> {
        let mut rest = input;
        let mut content_bytes = 0;
        loop {
            let (framing_bytes, event) = self.advance(rest)?;
            rest = rest.get(framing_bytes..).unwrap_or_default();
            match event {
                DecoderEvent::Content(bytes) => {
                    let (run, after) = rest.split_at_checked(bytes).unwrap_or((rest, &[]));
                    content(run);
                    content_bytes += run.len() as u64;
                    rest = after;
                }
                DecoderEvent::NeedMore | DecoderEvent::End => {
                    let done = event == DecoderEvent::End;
                    return Ok(BodySkim { consumed: input.len() - rest.len(), content_bytes, done });
                }
            }
        }
    }

    /// Whether the body is complete; it needs no more bytes.
    pub fn is_done(&self) -> bool {
        matches!(self.state, DecoderState::Done)
    }

    /// Checks whether the connection may end at this point of the body.
    ///
    /// # Errors
    ///
    /// [`BodyError::Truncated`] if the body is incomplete, or the error that the decoder returned
    /// before.
    pub fn eof(&self) -> Result<(), BodyError> {
        match self.state {
            DecoderState::Done | DecoderState::UntilClose => Ok(()),
            DecoderState::Length { remaining_bytes } => {
                Err(BodyError::Truncated { missing_bytes: Some(remaining_bytes) })
            }
            DecoderState::Failed(error) => Err(error),
            _ => Err(BodyError::Truncated { missing_bytes: None }),
        }
    }

    /// Reads framing bytes until content begins, the body ends or the input is used up. Returns the
    /// number of framing bytes and the event after them. Content of such an event counts as read.
    fn advance(&mut self, input: &[u8]) -> Result<(usize, DecoderEvent), BodyError> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            match self.state {
                DecoderState::Done => return Ok((used, DecoderEvent::End)),
                DecoderState::Failed(error) => return Err(error),
                _ if rest.is_empty() => return Ok((used, DecoderEvent::NeedMore)),
                DecoderState::UntilClose => return Ok((used, DecoderEvent::Content(rest.len()))),
                DecoderState::Length { remaining_bytes } => {
                    let (bytes, left) = take(rest, remaining_bytes);
                    self.state = if left == 0 {
                        DecoderState::Done
                    } else {
                        DecoderState::Length { remaining_bytes: left }
                    };
                    return Ok((used, DecoderEvent::Content(bytes)));
                }
                DecoderState::Data { remaining_bytes } => {
                    let (bytes, left) = take(rest, remaining_bytes);
                    self.state = if left == 0 {
                        DecoderState::DataEnd
                    } else {
                        DecoderState::Data { remaining_bytes: left }
                    };
                    return Ok((used, DecoderEvent::Content(bytes)));
                }
                DecoderState::Trailer { line_bytes } => match self.read_trailer(rest, line_bytes) {
                    Ok(bytes) => used += bytes,
                    Err(error) => return self.fail(error),
                },
                state => match rest.first().map(|&octet| self.after(state, octet)) {
                    Some(Ok(next)) => {
                        self.state = next;
                        used += 1;
                    }
                    Some(Err(error)) => return self.fail(error),
                    None => return Ok((used, DecoderEvent::NeedMore)),
                },
            }
        }
    }

    fn fail<T>(&mut self, error: BodyError) -> Result<T, BodyError> {
        self.state = DecoderState::Failed(error);
        Err(error)
    }

    /// The state after one byte of chunk framing: a size line, or the line end after a chunk's
    /// data.
    fn after(&mut self, state: DecoderState, octet: u8) -> Result<DecoderState, BodyError> {
        let tolerant = self.strictness == Strictness::Tolerant;
        match (state, octet) {
            (DecoderState::Size { digits: 0, .. }, octet) if !octet.is_ascii_hexdigit() => {
                Err(BodyError::ChunkSize)
            }
            (DecoderState::Size { size, digits }, octet) if octet.is_ascii_hexdigit() => {
                if digits == CHUNK_SIZE_DIGITS_MAX {
                    return Err(BodyError::ChunkSizeTooLong);
                }
                Ok(DecoderState::Size { size: size << 4 | u64::from(hex_value(octet)), digits: digits + 1 })
            }
            (DecoderState::Size { size, .. } | DecoderState::SizeBlank { size }, b' ' | b'\t') => {
                self.count_extension_octet()?;
                Ok(DecoderState::SizeBlank { size })
            }
            (DecoderState::Size { size, .. } | DecoderState::SizeBlank { size }, b';') => {
                self.count_extension_octet()?;
                Ok(DecoderState::Extension { size, part: ExtensionPart::BeforeName })
            }
            // An unfinished extension. A bare LF is reported by its own error below.
            (DecoderState::Extension { part, .. }, b'\r') if !tolerant && !part.may_end() => {
                Err(BodyError::ChunkExtension)
            }
            // Blanks are allowed only before an extension (RFC 9112 section 7.1.1), but some
            // servers pad their chunk sizes with them.
            (DecoderState::SizeBlank { .. }, b'\r' | b'\n') if !tolerant => Err(BodyError::ChunkSize),
            (
                DecoderState::Size { size, .. }
                | DecoderState::SizeBlank { size }
                | DecoderState::Extension { size, .. },
                b'\r',
            ) => Ok(DecoderState::SizeLf { size }),
            (
                DecoderState::Size { size, .. }
                | DecoderState::SizeBlank { size }
                | DecoderState::Extension { size, .. },
                b'\n',
            ) => {
                if tolerant {
                    Ok(chunk(size))
                } else {
                    Err(BodyError::BareLf)
                }
            }
            (DecoderState::Size { .. } | DecoderState::SizeBlank { .. }, _) => Err(BodyError::ChunkSize),
            (DecoderState::Extension { size, part }, octet) => {
                let any = || octets::is_text_octet(octet).then_some(part);
                let next = if tolerant { any() } else { part.after(octet) };
                let part = next.ok_or(BodyError::ChunkExtension)?;
                self.count_extension_octet()?;
                Ok(DecoderState::Extension { size, part })
            }
            (DecoderState::SizeLf { size }, b'\n') => Ok(chunk(size)),
            (DecoderState::SizeLf { .. }, _) => Err(BodyError::LineEnd),
            (DecoderState::DataEnd, b'\r') => Ok(DecoderState::DataLf),
            (DecoderState::DataEnd, b'\n') if tolerant => Ok(NEXT_CHUNK),
            (DecoderState::DataEnd, b'\n') => Err(BodyError::BareLf),
            (DecoderState::DataLf, b'\n') => Ok(NEXT_CHUNK),
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

    /// Reads up to one line of the trailer section, after `line_bytes` bytes of it were read.
    /// Returns the number of bytes used.
    fn read_trailer(&mut self, input: &[u8], line_bytes: usize) -> Result<usize, BodyError> {
        if self.trailer.is_empty() && input.starts_with(b"\r\n") && self.limits.trailer_bytes_max >= 2 {
            self.state = DecoderState::Done;
            return Ok(2);
        }
        let line_end = memchr::memchr(b'\n', input);
        let bytes = line_end.map_or(input.len(), |at| at + 1);
        if self.trailer.len() + bytes > self.limits.trailer_bytes_max {
            return Err(BodyError::TrailerTooLarge);
        }
        self.trailer.extend_from_slice(input.get(..bytes).unwrap_or(input));
        if line_end.is_none() {
            self.state = DecoderState::Trailer { line_bytes: line_bytes + bytes };
            return Ok(bytes);
        }
        let line = self.trailer.get(self.trailer.len() - line_bytes - bytes..).unwrap_or_default();
        if !matches!(line, b"\r\n" | b"\n") {
            self.state = DecoderState::Trailer { line_bytes: 0 };
            return Ok(bytes);
        }
        let section = std::mem::take(&mut self.trailer);
        let fields = head::parse_trailer(section, self.limits.fields_max, self.strictness)
            .map_err(BodyError::Trailer)?;
        self.trailer_fields = Some(fields).filter(|fields| !fields.is_empty());
        self.state = DecoderState::Done;
        Ok(bytes)
    }
}

/// Longest chunk size in digits. With more digits the value overflows a `u64` or has needless
/// zeros.
const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

const NEXT_CHUNK: DecoderState = DecoderState::Size { size: 0, digits: 0 };

/// The decoder's position in a body.
#[derive(Clone, Copy, Debug)]
enum DecoderState {
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

/// The reason why [`BodyDecoder::advance`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderEvent {
    NeedMore,
    Content(usize),
    End,
}

/// The state after a complete chunk size line.
fn chunk(size: u64) -> DecoderState {
    if size == 0 {
        DecoderState::Trailer { line_bytes: 0 }
    } else {
        DecoderState::Data { remaining_bytes: size }
    }
}

/// The number of bytes of `input` that belong to a run of `remaining_bytes`, and the remainder of
/// that run.
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
    use super::{BodyDecoder, BodySkim, Decoded};
    use crate::error::{BodyError, HeadError};
    use crate::framing::BodyFraming;
    use crate::limits::{Limits, Strictness};
    use bytes::BytesMut;

    fn chunked_with(change: impl FnOnce(&mut Limits)) -> BodyDecoder {
        let mut limits = Limits::DEFAULT;
        change(&mut limits);
        BodyDecoder::with_limits(BodyFraming::Chunked, &limits, Strictness::Strict)
    }

    fn skim(decoder: &mut BodyDecoder, wire: &str) -> Result<BodySkim, BodyError> {
        decoder.skim(wire.as_bytes())
    }

    #[test]
    fn body_of_known_length_ends_and_leaves_the_rest() {
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
    fn end_of_connection_completes_or_truncates_the_body() {
        let mut decoder = BodyDecoder::new(BodyFraming::Length(5));
        assert_eq!(skim(&mut decoder, "abc").map(|skimmed| skimmed.done), Ok(false));
        assert_eq!(decoder.eof(), Err(BodyError::Truncated { missing_bytes: Some(2) }));
        assert_eq!(skim(&mut decoder, "de").map(|skimmed| skimmed.done), Ok(true));
        assert_eq!(decoder.eof(), Ok(()));

        let mut decoder = BodyDecoder::new(BodyFraming::UntilClose);
        assert_eq!(decoder.eof(), Ok(()));
        assert_eq!(skim(&mut decoder, "abc"), Ok(BodySkim { consumed: 3, content_bytes: 3, done: false }));
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
        assert_eq!(skimmed, Ok(BodySkim { consumed: wire.len() - 8, content_bytes: 13, done: true }));
        assert_eq!(content, [&b"abc"[..], b"0123456789"]);
    }

    #[test]
    fn error_is_final() {
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        assert_eq!(skim(&mut decoder, "x"), Err(BodyError::ChunkSize));
        assert_eq!(skim(&mut decoder, "0\r\n\r\n"), Err(BodyError::ChunkSize));
        assert_eq!(decoder.eof(), Err(BodyError::ChunkSize));
    }

    #[test]
    fn chunk_size_of_17_digits_is_refused() {
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        assert_eq!(skim(&mut decoder, "FFFFFFFFffffffff\r\nab").map(|skimmed| skimmed.content_bytes), Ok(2));
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        assert_eq!(skim(&mut decoder, "00000000000000001"), Err(BodyError::ChunkSizeTooLong));
    }

    #[test]
    fn extension_limit_covers_the_whole_body() {
        let wire = "1;abc\r\nx\r\n1 ;a\r\nx\r\n0\r\n\r\n";
        let mut decoder = chunked_with(|limits| limits.chunk_extension_bytes_max = 7);
        assert_eq!(skim(&mut decoder, wire).map(|skimmed| skimmed.done), Ok(true));
        let mut decoder = chunked_with(|limits| limits.chunk_extension_bytes_max = 6);
        assert_eq!(skim(&mut decoder, wire), Err(BodyError::ChunkExtensionsTooLarge));
    }

    #[test]
    fn trailers_are_limited_in_bytes_and_fields() {
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
    fn tolerant_mode_reads_bare_lf_and_padded_sizes() {
        let wire = "3 \t\nabc\n0\r\nX: y\n\n";
        let decoder =
            || BodyDecoder::with_limits(BodyFraming::Chunked, &Limits::DEFAULT, Strictness::Tolerant);
        assert_eq!(
            skim(&mut decoder(), wire),
            Ok(BodySkim { consumed: wire.len(), content_bytes: 3, done: true })
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
