//! The end of a message's body (RFC 9112 section 6.3) and the persistence of its connection
//! (section 9.3).
//!
//! Invariant: one function decides for requests and one for responses, for the copying and the
//! skimming parser alike. This module reads no body.

use crate::error::FramingError;
use crate::limits::Strictness;
use crate::octets;
use message::{Fields, Method, Status, Version, list_members, names};

/// How the end of a message's body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyFraming {
    /// There is no body.
    Empty,
    /// The body has this many bytes.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
    /// The body ends with the connection; responses only.
    UntilClose,
}

impl BodyFraming {
    /// Whether the body is known to have no bytes.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Empty | Self::Length(0))
    }

    /// Makes `fields` announce this framing: removes Content-Length and Transfer-Encoding, then
    /// adds the needed one.
    ///
    /// Do not call this for a response to HEAD or for a 304, which announce the length of a body
    /// that they do not have.
    pub fn announce(self, fields: &mut Fields) {
        fields.retain(|field| !field.is(names::CONTENT_LENGTH) && !field.is(names::TRANSFER_ENCODING));
        match self {
            Self::Empty | Self::UntilClose => {}
            Self::Length(bytes) => fields.push(names::CONTENT_LENGTH, bytes.to_string()),
            Self::Chunked => fields.push(names::TRANSFER_ENCODING, "chunked"),
        }
    }
}

/// The method of the request, as far as the framing of its response depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramingMethod {
    Head,
    Connect,
    Other,
}

impl FramingMethod {
    pub(crate) fn by(method: &Method) -> Self {
        match method {
            Method::Head => Self::Head,
            Method::Connect => Self::Connect,
            _ => Self::Other,
        }
    }
}

/// The statements of a head's field lines about framing and persistence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    content_length: Option<u64>,
    content_length_repeated: bool,
    content_length_fault: Option<FramingError>,
    transfer_encoding: Option<TransferEncoding>,
    close: bool,
    keep_alive: bool,
    /// Whether the connection option `upgrade` was present.
    pub(crate) upgrade: bool,
}

/// All Transfer-Encoding lines of a head together.
#[derive(Clone, Copy, Debug, Default)]
struct TransferEncoding {
    lines: u32,
    chunked_count: u32,
    /// Whether there was anything besides the one word `chunked`, for example an empty list member.
    others: bool,
    chunked_last: bool,
    /// Whether a list member is empty or does not start with the name of a coding. RFC 9110 lets
    /// recipients skip empty members, but not all do; for those the last coding is another one.
    malformed: bool,
}

impl Facts {
    /// Records one field line.
    #[inline]
    pub(crate) fn observe(&mut self, name: &[u8], value: &[u8]) {
        // This runs for every field of every message; most differ from these names in length.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.observe_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.observe_content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.observe_transfer_encoding(value),
            _ => {}
        }
    }

    /// The framing of a request with these fields, and whether the connection is usable after it.
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

    /// The framing of a response with these fields, and whether the connection is usable after it.
    pub(crate) fn response(
        &self,
        version: Version,
        strictness: Strictness,
        status: Status,
        method: FramingMethod,
    ) -> Result<(BodyFraming, bool), FramingError> {
        self.check(version, strictness)?;
        let persistent = self.persistent(version);
        let switches = status.code() == 101 || (method == FramingMethod::Connect && status.is_success());
        if switches {
            return Ok((BodyFraming::Empty, false));
        }
        if method == FramingMethod::Head || status.code() == 304 {
            return Ok((BodyFraming::Empty, persistent));
        }
        if status.has_no_content() {
            // A peer that announces content where none is possible may send it. The bytes after
            // this head might then be content instead of a status line.
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

    /// Checks the rules that requests and responses share.
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

    /// Whether a chunked body leaves the connection usable. It does not in HTTP/1.0 (RFC 9112
    /// section 6.1) or together with a Content-Length (section 6.3, item 3).
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

#[cfg(test)]
mod tests {
    use super::{BodyFraming, Facts, FramingMethod};
    use crate::error::FramingError;
    use crate::limits::Strictness::{self, Strict, Tolerant};
    use message::Version::{Http10, Http11};
    use message::{Fields, Status, Version};

    type Verdict = Result<(BodyFraming, bool), FramingError>;

    fn facts(lines: &[(&str, &str)]) -> Facts {
        let mut facts = Facts::default();
        for (name, value) in lines {
            facts.observe(name.as_bytes(), value.as_bytes());
        }
        facts
    }

    fn request(version: Version, lines: &[(&str, &str)], strictness: Strictness) -> Verdict {
        facts(lines).request(version, strictness)
    }

    fn response(status: u16, lines: &[(&str, &str)], strictness: Strictness) -> Verdict {
        let status = Status::from_code(status).unwrap();
        facts(lines).response(Http11, strictness, status, FramingMethod::Other)
    }

    const LENGTH: (&str, &str) = ("content-length", "5");
    const CHUNKED: (&str, &str) = ("TRANSFER-ENCODING", "Chunked");

    #[test]
    fn a_request_without_a_length_has_no_body() {
        for strictness in [Strict, Tolerant] {
            assert_eq!(request(Http11, &[], strictness), Ok((BodyFraming::Empty, true)));
            assert_eq!(request(Http11, &[LENGTH], strictness), Ok((BodyFraming::Length(5), true)));
            assert_eq!(request(Http11, &[CHUNKED], strictness), Ok((BodyFraming::Chunked, true)));
        }
    }

    #[test]
    fn request_whose_last_coding_is_not_chunked_is_refused() {
        for strictness in [Strict, Tolerant] {
            for value in ["gzip", "chunked, gzip", "identity"] {
                let verdict = request(Http11, &[("Transfer-Encoding", value)], strictness);
                assert_eq!(verdict, Err(FramingError::ChunkedNotLast), "{value}");
            }
            let verdict = request(Http11, &[("Transfer-Encoding", "gzip, chunked")], strictness);
            assert_eq!(verdict, Err(FramingError::TransferCodingUnsupported));
        }
    }

    #[test]
    fn tolerated_double_framing_closes_the_connection() {
        let chunked_once = Ok((BodyFraming::Chunked, false));
        assert_eq!(request(Http11, &[LENGTH, CHUNKED], Tolerant), chunked_once);
        assert_eq!(response(200, &[CHUNKED, LENGTH], Tolerant), chunked_once);
        let keep_alive = ("Connection", "keep-alive");
        assert_eq!(request(Http10, &[CHUNKED, keep_alive], Tolerant), chunked_once);
    }

    #[test]
    fn repeated_length_is_tolerated_only_if_equal() {
        assert_eq!(response(200, &[LENGTH, LENGTH], Tolerant), Ok((BodyFraming::Length(5), true)));
        assert_eq!(
            response(200, &[("Content-Length", "5, 5")], Tolerant),
            Ok((BodyFraming::Length(5), true))
        );
        for lines in [&[LENGTH, ("Content-Length", "6")][..], &[("Content-Length", "5, 6")]] {
            assert_eq!(response(200, lines, Tolerant), Err(FramingError::ContentLengthsDiffer));
        }
        assert_eq!(
            response(200, &[("Content-Length", "5 bytes")], Tolerant),
            Err(FramingError::ContentLengthInvalid)
        );
    }

    #[test]
    fn response_framing_follows_rfc_9112_section_6_3() {
        for strictness in [Strict, Tolerant] {
            let ok = |framing, persistent| Ok((framing, persistent));
            // Item 1: the status excludes content; a Content-Length describes another response.
            assert_eq!(response(304, &[LENGTH], strictness), ok(BodyFraming::Empty, true));
            assert_eq!(response(304, &[CHUNKED], strictness), ok(BodyFraming::Empty, true));
            assert_eq!(response(204, &[], strictness), ok(BodyFraming::Empty, true));
            assert_eq!(response(103, &[], strictness), ok(BodyFraming::Empty, true));
            // Items 4, 6 and 8.
            assert_eq!(response(200, &[CHUNKED], strictness), ok(BodyFraming::Chunked, true));
            assert_eq!(response(200, &[LENGTH], strictness), ok(BodyFraming::Length(5), true));
            assert_eq!(response(200, &[], strictness), ok(BodyFraming::UntilClose, false));
        }
    }

    #[test]
    fn announced_content_after_204_closes_the_connection() {
        assert_eq!(response(204, &[("Content-Length", "1")], Strict), Ok((BodyFraming::Empty, false)));
        assert_eq!(response(204, &[CHUNKED], Strict), Ok((BodyFraming::Empty, false)));
        assert_eq!(response(204, &[("Content-Length", "0")], Strict), Ok((BodyFraming::Empty, true)));
    }

    #[test]
    fn responses_to_head_and_connect_have_no_body() {
        let to = |method, status| {
            let status = Status::from_code(status).unwrap();
            facts(&[LENGTH]).response(Http11, Strict, status, method)
        };
        assert_eq!(to(FramingMethod::Head, 200), Ok((BodyFraming::Empty, true)));
        assert_eq!(to(FramingMethod::Connect, 200), Ok((BodyFraming::Empty, false)));
        assert_eq!(to(FramingMethod::Connect, 407), Ok((BodyFraming::Length(5), true)));
        assert_eq!(to(FramingMethod::Other, 101), Ok((BodyFraming::Empty, false)));
    }

    #[test]
    fn tolerated_coding_ends_with_last_chunk_or_connection() {
        let coded = |value| response(200, &[("Transfer-Encoding", value)], Tolerant);
        assert_eq!(coded("gzip"), Ok((BodyFraming::UntilClose, false)));
        assert_eq!(coded("chunked, gzip"), Ok((BodyFraming::UntilClose, false)));
        assert_eq!(coded("gzip;q=1 , chunked"), Ok((BodyFraming::Chunked, true)));
        assert_eq!(coded("chunked, chunked"), Err(FramingError::TransferEncodingRepeated));
        assert_eq!(response(200, &[CHUNKED, CHUNKED], Tolerant), Err(FramingError::TransferEncodingRepeated));
        for malformed in ["", "chunked,", ",chunked", "chun ked", "\u{fc}, chunked"] {
            assert_eq!(coded(malformed), Err(FramingError::TransferCodingUnsupported), "{malformed}");
        }
    }

    #[test]
    fn persistence_by_version_and_option() {
        let persistent = |version, option| {
            request(version, &[("Connection", option)], Strict).map(|(_, persistent)| persistent)
        };
        // Unknown options have the same lengths as known ones, because `observe_connection`
        // compares lengths first.
        assert_eq!(persistent(Http11, ""), Ok(true));
        assert_eq!(persistent(Http11, "x, CLOSE"), Ok(false));
        assert_eq!(persistent(Http11, "close, clone"), Ok(false));
        assert_eq!(persistent(Http11, "closed"), Ok(true));
        assert_eq!(persistent(Http10, ""), Ok(false));
        assert_eq!(persistent(Http10, "Keep-Alive"), Ok(true));
        assert_eq!(persistent(Http10, "keep-alive, other-name"), Ok(true));
        assert_eq!(persistent(Http10, "keep-alive, close"), Ok(false));
        assert!(facts(&[("Connection", "upgrade, options")]).upgrade);
    }

    #[test]
    fn announcing_replaces_earlier_framing_fields() {
        let mut fields = Fields::new();
        fields.push("Content-Length", "1");
        fields.push("transfer-encoding", "chunked");
        BodyFraming::Length(12).announce(&mut fields);
        assert_eq!(fields.only("content-length").unwrap(), "12");
        assert!(!fields.has("transfer-encoding"));
        BodyFraming::Chunked.announce(&mut fields);
        assert_eq!(fields.only("transfer-encoding").unwrap(), "chunked");
        BodyFraming::UntilClose.announce(&mut fields);
        assert!(fields.is_empty());
    }
}
