//! The content codings that Petasos makes, and those that clients accept (RFC 9110 section 12.5.3).
//!
//! Invariant: a coding that a client gives the weight zero is never among those that it accepts.

use message::{Fields, names};

/// A content coding that Petasos makes (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstd,
    /// gzip.
    Gzip,
}

impl Coding {
    /// All codings, the one that Petasos prefers first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// The name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The coding with this name, in any case. `x-gzip` is gzip (RFC 9110 section 8.4.1.3).
    pub fn by_name(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Brotli => 1,
            Self::Zstd => 2,
            Self::Gzip => 4,
        }
    }
}

/// A set of content codings, such as those that a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings(u8);

impl AcceptedCodings {
    /// No coding.
    pub const NONE: Self = Self(0);
    /// Brotli and gzip.
    pub const BROTLI_AND_GZIP: Self = Self(Coding::Brotli.bit() | Coding::Gzip.bit());

    /// The codings that a request's `Accept-Encoding` lists with a weight above zero (RFC 9110
    /// section 12.5.3). A missing field accepts none. Other weights do not matter. `*` does not
    /// count, because clients that accept a coding name it.
    pub fn of(fields: &Fields) -> Self {
        let mut accepted = Self::NONE;
        for member in fields.list(names::ACCEPT_ENCODING) {
            let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            if let Some(coding) = parts.next().and_then(Coding::by_name)
                && !parts.any(is_zero_weight)
            {
                accepted.0 |= coding.bit();
            }
        }
        accepted
    }

    /// The set of these codings.
    pub fn of_codings(codings: &[Coding]) -> Self {
        codings.iter().fold(Self::NONE, |set, coding| Self(set.0 | coding.bit()))
    }

    /// Whether it has this coding.
    pub const fn has(self, coding: Coding) -> bool {
        self.0 & coding.bit() != 0
    }

    /// Whether it has no coding.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The field value of a shared fetch.
    ///
    /// It is one of two constants, so that a client cannot tell the origin anything else through
    /// this field. gzip is always offered, because Petasos decodes it for clients that refuse it.
    pub const fn offer(self) -> &'static str {
        if self.has(Coding::Brotli) && self.has(Coding::Gzip) { "br, gzip" } else { "gzip" }
    }

    /// The field value that asks for exactly these codings.
    pub fn value(self) -> String {
        let named: Vec<_> = Coding::ALL.into_iter().filter(|coding| self.has(*coding)).collect();
        match &named[..] {
            [] => "identity".to_owned(),
            named => named.iter().map(|coding| coding.name()).collect::<Vec<_>>().join(", "),
        }
    }
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
    use super::{AcceptedCodings, Coding};
    use message::Fields;

    fn accepted(value: &'static str) -> AcceptedCodings {
        let mut fields = Fields::new();
        fields.push("Accept-Encoding", value);
        AcceptedCodings::of(&fields)
    }

    #[test]
    fn accepted_codings_are_those_with_a_weight() {
        let set = |codings: &[Coding]| AcceptedCodings::of_codings(codings);
        let all = set(&Coding::ALL);
        assert_eq!(accepted("gzip, deflate, br, zstd"), all);
        assert_eq!(accepted("zstd;q=0.001,BR;Q=1 , x-gzip;q=0.9"), all);
        assert_eq!(accepted("gzip, deflate, br, zstd;q=0"), AcceptedCodings::BROTLI_AND_GZIP);
        assert_eq!(accepted("GZIP;q=0.5, br;q=0"), set(&[Coding::Gzip]));
        assert_eq!(accepted("gzip;q=0, br"), set(&[Coding::Brotli]));
        assert_eq!(accepted("x-gzip"), set(&[Coding::Gzip]));
        for value in ["gzip; q=0.000", "*", "identity", "", "deflate", "gzipp", "br ; q=0."] {
            assert_eq!(accepted(value), AcceptedCodings::NONE, "{value}");
        }
        assert_eq!(AcceptedCodings::of(&Fields::new()), AcceptedCodings::NONE);
    }

    #[test]
    fn offer_is_one_of_two_constants() {
        for value in ["gzip, br", "br, gzip, zstd"] {
            assert_eq!(accepted(value).offer(), "br, gzip");
        }
        for value in ["", "gzip", "br", "zstd", "zstd, gzip"] {
            assert_eq!(accepted(value).offer(), "gzip");
        }
    }

    #[test]
    fn value_lists_exactly_the_codings() {
        assert_eq!(AcceptedCodings::NONE.value(), "identity");
        for value in ["br, gzip", "br, zstd, gzip", "zstd"] {
            assert_eq!(accepted(value).value(), value);
        }
    }
}
