//! Where a message's body ends (RFC 9112 section 6.3) and whether the connection outlives it (section 9.3).
//!
//! Invariant: one function decides for requests, one for responses, and the copying and the skimming parser
//! both go through them. Nothing here reads a body.

use crate::error::FramingError;
use crate::limits::Strictness;
use crate::octets;
use message::{Fields, Status, Version, list_members, names};

/// How the end of a message's body is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyFraming {
    /// There is no body.
    Empty,
    /// This many octets.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
    /// Everything until the connection ends; responses only.
    UntilClose,
}

impl BodyFraming {
    /// Whether the body is known to have no octet.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Empty | Self::Length(0))
    }

    /// Makes `fields` announce exactly this framing: removes Content-Length and Transfer-Encoding, then adds
    /// the one that is needed. A response to HEAD and a 304 announce a length they do not have; do not call
    /// this for them.
    pub fn announce(self, fields: &mut Fields) {
        fields.retain(|field| !field.is(names::CONTENT_LENGTH) && !field.is(names::TRANSFER_ENCODING));
        match self {
            Self::Empty | Self::UntilClose => {}
            Self::Length(bytes) => fields.push(names::CONTENT_LENGTH, bytes.to_string()),
            Self::Chunked => fields.push(names::TRANSFER_ENCODING, "chunked"),
        }
    }
}

/// What a response's framing depends on besides the response itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Head,
    Connect,
    Other,
}

/// What the field lines of one head say about framing and persistence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    content_length: Option<u64>,
    content_length_repeated: bool,
    content_length_fault: Option<FramingError>,
    transfer_encoding: Option<TransferEncoding>,
    close: bool,
    keep_alive: bool,
    /// The connection option `upgrade` was there.
    pub(crate) upgrade: bool,
}

/// All Transfer-Encoding lines of a head taken together.
#[derive(Clone, Copy, Debug, Default)]
struct TransferEncoding {
    lines: u32,
    chunked_count: u32,
    /// Something other than the one word `chunked` was there, an empty list member included.
    others: bool,
    chunked_last: bool,
    /// A list member is empty or does not start with the name of a coding. RFC 9110 lets recipients skip
    /// empty members, but not all do, and then the last coding is another one for them.
    malformed: bool,
}

impl Facts {
    /// Takes note of one field line.
    #[inline]
    pub(crate) fn observe(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.observe_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.observe_content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.observe_transfer_encoding(value),
            _ => {}
        }
    }

    /// The framing of a request with these fields and whether the connection stays usable after it.
    pub(crate) fn request(
        &self,
        version: Version,
        strictness: Strictness,
    ) -> Result<(BodyFraming, bool), FramingError> {
        self.check(version, strictness)?;
        let persistent = self.persistent(version);
        match (self.transfer_encoding, self.content_length) {
            (Some(coding), _) if !coding.chunked_last => Err(FramingError::ChunkedNotLast),
            (Some(coding), _) if coding.others => Err(FramingError::TransferCodingUnsupported),
            (Some(_), _) => Ok((BodyFraming::Chunked, persistent && self.chunked_is_plain(version))),
            (None, None) => Ok((BodyFraming::Empty, persistent)),
            (None, Some(bytes)) => Ok((BodyFraming::Length(bytes), persistent)),
        }
    }

    /// The framing of a response with these fields and whether the connection stays usable after it.
    pub(crate) fn response(
        &self,
        version: Version,
        strictness: Strictness,
        status: Status,
        asked: Asked,
    ) -> Result<(BodyFraming, bool), FramingError> {
        self.check(version, strictness)?;
        let persistent = self.persistent(version);
        let switches = status.code() == 101 || (asked == Asked::Connect && status.is_success());
        if switches {
            return Ok((BodyFraming::Empty, false));
        }
        if asked == Asked::Head || status.code() == 304 {
            return Ok((BodyFraming::Empty, persistent));
        }
        if status.has_no_content() {
            // A peer that announces content where there cannot be any may well send it; nothing after this
            // head can be trusted to be a status line.
            let announced = self.transfer_encoding.is_some() || self.content_length.is_some_and(|n| n > 0);
            return Ok((BodyFraming::Empty, persistent && !announced));
        }
        match (self.transfer_encoding, self.content_length) {
            (Some(coding), _) if coding.chunked_last => {
                Ok((BodyFraming::Chunked, persistent && self.chunked_is_plain(version)))
            }
            (Some(_), _) | (None, None) => Ok((BodyFraming::UntilClose, false)),
            (None, Some(bytes)) => Ok((BodyFraming::Length(bytes), persistent)),
        }
    }

    /// Faults that do not depend on what kind of message this is.
    fn check(&self, version: Version, strictness: Strictness) -> Result<(), FramingError> {
        if let Some(fault) = self.content_length_fault {
            return Err(fault);
        }
        let coding = self.transfer_encoding.unwrap_or_default();
        if coding.chunked_count > 1 {
            return Err(FramingError::TransferEncodingRepeated);
        }
        if strictness == Strictness::Tolerant {
            return if coding.malformed { Err(FramingError::TransferCodingUnsupported) } else { Ok(()) };
        }
        if self.content_length_repeated {
            return Err(FramingError::ContentLengthRepeated);
        }
        if self.transfer_encoding.is_none() {
            return Ok(());
        }
        if version == Version::Http10 {
            return Err(FramingError::TransferEncodingInHttp10);
        }
        if self.content_length.is_some() {
            return Err(FramingError::TransferEncodingWithContentLength);
        }
        if coding.lines > 1 {
            return Err(FramingError::TransferEncodingRepeated);
        }
        if !coding.chunked_last {
            return Err(FramingError::ChunkedNotLast);
        }
        if coding.others {
            return Err(FramingError::TransferCodingUnsupported);
        }
        Ok(())
    }

    /// Persistence by version and connection options (RFC 9112 section 9.3).
    fn persistent(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }

    /// Whether a chunked body leaves the connection usable: not in HTTP/1.0 (RFC 9112 section 6.1) and not
    /// beside a Content-Length (section 6.3, item 3).
    fn chunked_is_plain(&self, version: Version) -> bool {
        version == Version::Http11 && self.content_length.is_none()
    }

    fn observe_transfer_encoding(&mut self, value: &[u8]) {
        let coding = self.transfer_encoding.get_or_insert_default();
        coding.lines = coding.lines.saturating_add(1);
        if value.eq_ignore_ascii_case(b"chunked") {
            coding.chunked_count = coding.chunked_count.saturating_add(1);
            coding.chunked_last = true;
            return;
        }
        coding.others = true;
        for member in value.split(|&octet| octet == b',').map(<[u8]>::trim_ascii) {
            let name = member.split(|&octet| octet == b';').next().unwrap_or_default().trim_ascii_end();
            coding.malformed |= !octets::is_token(name);
            coding.chunked_last = member.eq_ignore_ascii_case(b"chunked");
            coding.chunked_count = coding.chunked_count.saturating_add(u32::from(coding.chunked_last));
        }
    }

    fn observe_content_length(&mut self, value: &[u8]) {
        for member in value.split(|&octet| octet == b',') {
            match (octets::decimal(member.trim_ascii()), self.content_length) {
                (None, _) => self.content_length_fault = Some(FramingError::ContentLengthInvalid),
                (Some(bytes), None) => self.content_length = Some(bytes),
                (Some(bytes), Some(known)) if bytes == known => self.content_length_repeated = true,
                (Some(_), Some(_)) => {
                    self.content_length_fault.get_or_insert(FramingError::ContentLengthsDiffer);
                }
            }
        }
    }

    fn observe_connection(&mut self, value: &[u8]) {
        for option in list_members(value) {
            match option.len() {
                5 => self.close |= option.eq_ignore_ascii_case(b"close"),
                7 => self.upgrade |= option.eq_ignore_ascii_case(b"upgrade"),
                10 => self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive"),
                _ => {}
            }
        }
    }
}
