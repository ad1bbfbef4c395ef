//! The grammar of chunk extensions (RFC 9112 section 7.1.1), byte by byte. Their meaning is
//! ignored.

use crate::octets::{self, TOKEN};

/// The decoder's position in a chunk extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionPart {
    /// After the semicolon.
    BeforeName,
    Name,
    /// In blanks after a name.
    AfterName,
    /// After the equals sign.
    BeforeValue,
    Token,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    /// After the closing quote of a quoted string.
    QuotedEnd,
    /// In blanks after a value.
    AfterValue,
}

impl ExtensionPart {
    /// The position after one more byte; `None` if the grammar does not allow the byte.
    pub(crate) fn after(self, octet: u8) -> Option<Self> {
        let is_blank = matches!(octet, b' ' | b'\t');
        match (self, octet) {
            (Self::Quoted, b'"') => Some(Self::QuotedEnd),
            (Self::Quoted, b'\\') => Some(Self::Escaped),
            (Self::Quoted | Self::Escaped, octet) => octets::is_text_octet(octet).then_some(Self::Quoted),
            (Self::Name | Self::AfterName | Self::Token | Self::QuotedEnd | Self::AfterValue, b';') => {
                Some(Self::BeforeName)
            }
            (Self::Name | Self::AfterName, b'=') => Some(Self::BeforeValue),
            (Self::BeforeValue, b'"') => Some(Self::Quoted),
            (Self::Name | Self::AfterName, _) if is_blank => Some(Self::AfterName),
            (Self::Token | Self::QuotedEnd | Self::AfterValue, _) if is_blank => Some(Self::AfterValue),
            (Self::BeforeName | Self::BeforeValue, _) if is_blank => Some(self),
            (Self::BeforeName | Self::Name, octet) if TOKEN.has(octet) => Some(Self::Name),
            (Self::BeforeValue | Self::Token, octet) if TOKEN.has(octet) => Some(Self::Token),
            _ => None,
        }
    }

    /// Whether the line may end here. Blanks are allowed only before a semicolon or around an
    /// equals sign.
    pub(crate) const fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::QuotedEnd)
    }
}
