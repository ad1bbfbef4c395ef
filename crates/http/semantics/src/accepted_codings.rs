//! The content codings that clients accept (RFC 9110 section 12.5.3).

use message::{Fields, names};

/// The content codings that a client accepts, as one of three classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedCodings {
    /// Brotli and gzip, as every browser accepts.
    BrotliAndGzip,
    /// Gzip, but not Brotli.
    Gzip,
    /// None of the codings that Petasos offers.
    Identity,
}

impl AcceptedCodings {
    /// The class of a request's `Accept-Encoding` (RFC 9110 section 12.5.3). A missing field
    /// accepts no coding.
    pub fn of(fields: &Fields) -> Self {
        let gzip = accepts_coding(fields, b"gzip") || accepts_coding(fields, b"x-gzip");
        match (gzip, gzip && accepts_coding(fields, b"br")) {
            (true, true) => Self::BrotliAndGzip,
            (true, false) => Self::Gzip,
            (false, _) => Self::Identity,
        }
    }

    /// The field value of a shared fetch.
    ///
    /// It is one of two constants, so that a client cannot tell the origin anything else through
    /// this field. gzip is always offered, because Petasos decodes it for clients that refuse it.
    pub const fn offer(self) -> &'static str {
        match self {
            Self::BrotliAndGzip => "br, gzip",
            Self::Gzip | Self::Identity => "gzip",
        }
    }

    /// The field value that asks for exactly these codings.
    pub const fn value(self) -> &'static str {
        match self {
            Self::BrotliAndGzip => "br, gzip",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }
}

/// Whether `coding` is listed with a weight above zero. `*` does not count, because clients that
/// accept gzip name it.
fn accepts_coding(fields: &Fields, coding: &[u8]) -> bool {
    fields.list(names::ACCEPT_ENCODING).any(|member| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding)) && !parts.any(is_zero_weight)
    })
}

/// Whether a parameter is `q=0`, `q=0.0` and so on.
pub(crate) fn is_zero_weight(parameter: &[u8]) -> bool {
    let Some((name, weight)) = parameter.split_at_checked(2) else { return false };
    name.eq_ignore_ascii_case(b"q=")
        && weight.first() == Some(&b'0')
        && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::AcceptedCodings;
    use message::Fields;

    #[test]
    fn accept_encoding_has_three_classes() {
        let accepted = |value| {
            let mut fields = Fields::new();
            fields.push("Accept-Encoding", value);
            AcceptedCodings::of(&fields)
        };
        assert_eq!(accepted("gzip, deflate, br, zstd"), AcceptedCodings::BrotliAndGzip);
        assert_eq!(accepted("GZIP;q=0.5, br;q=0"), AcceptedCodings::Gzip);
        assert_eq!(accepted("x-gzip"), AcceptedCodings::Gzip);
        for value in ["br", "gzip;q=0, br", "gzip; q=0.000", "*", "identity", "", "deflate", "gzipp"] {
            assert_eq!(accepted(value), AcceptedCodings::Identity, "{value}");
        }
        assert_eq!(AcceptedCodings::of(&Fields::new()), AcceptedCodings::Identity);
    }
}
