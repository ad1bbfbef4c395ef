//! Request methods (RFC 9110 section 9). Unknown methods are represented, not refused, because the
//! pipeline decides about them.

use bytes::Bytes;
use std::fmt;

/// A request method. Methods are case-sensitive (RFC 9110 section 9.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// CONNECT.
    Connect,
    /// DELETE.
    Delete,
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// OPTIONS.
    Options,
    /// PATCH (RFC 5789).
    Patch,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// TRACE.
    Trace,
    /// Any other token.
    Other(Bytes),
}

impl Method {
    /// The method named by `token`. The caller has checked that it is an HTTP token.
    pub fn from_token(token: &[u8]) -> Self {
        match token {
            b"CONNECT" => Self::Connect,
            b"DELETE" => Self::Delete,
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"TRACE" => Self::Trace,
            other => Self::Other(Bytes::copy_from_slice(other)),
        }
    }

    /// The method's token as sent.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Connect => b"CONNECT",
            Self::Delete => b"DELETE",
            Self::Get => b"GET",
            Self::Head => b"HEAD",
            Self::Options => b"OPTIONS",
            Self::Patch => b"PATCH",
            Self::Post => b"POST",
            Self::Put => b"PUT",
            Self::Trace => b"TRACE",
            Self::Other(token) => token,
        }
    }

    /// Whether the method is safe: the request only reads (RFC 9110 section 9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Whether repeating the request has the same intended effect as sending it once (RFC 9110
    /// section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn tokens_round_trip_and_case_matters() {
        for token in [&b"GET"[..], b"PURGE", b"get"] {
            assert_eq!(Method::from_token(token).as_bytes(), token);
        }
        assert_ne!(Method::from_token(b"get"), Method::Get);
    }

    #[test]
    fn safe_methods_are_idempotent_and_post_is_neither() {
        assert!(Method::Get.is_safe() && Method::Get.is_idempotent());
        assert!(!Method::Put.is_safe() && Method::Put.is_idempotent());
        assert!(!Method::Post.is_idempotent());
        assert!(!Method::from_token(b"PURGE").is_safe());
    }
}
