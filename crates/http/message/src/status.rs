//! Status codes (RFC 9110 section 15). Any three-digit code is represented unchanged. The first
//! digit gives the meaning of an unknown code.

use std::fmt;

/// A three-digit status code, 100 to 999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

impl Status {
    /// The status with this code; `None` unless the code has three digits.
    pub const fn from_code(code: u16) -> Option<Self> {
        if code >= 100 && code <= 999 { Some(Self(code)) } else { None }
    }

    /// The code as a number.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// 1xx: another response follows (RFC 9110 section 15.2).
    pub const fn is_informational(self) -> bool {
        self.0 < 200
    }

    /// 2xx.
    pub const fn is_success(self) -> bool {
        self.0 >= 200 && self.0 < 300
    }

    /// 5xx.
    pub const fn is_server_error(self) -> bool {
        self.0 >= 500 && self.0 < 600
    }

    /// Whether a response with this status never has content (RFC 9110 section 6.4.1).
    pub const fn has_no_content(self) -> bool {
        self.is_informational() || matches!(self.0, 204 | 304)
    }

    /// The registered reason phrase; empty for codes that are not in this table.
    pub const fn reason(self) -> &'static str {
        match self.0 {
            100 => "Continue",
            101 => "Switching Protocols",
            103 => "Early Hints",
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            203 => "Non-Authoritative Information",
            204 => "No Content",
            206 => "Partial Content",
            300 => "Multiple Choices",
            301 => "Moved Permanently",
            302 => "Found",
            303 => "See Other",
            304 => "Not Modified",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            409 => "Conflict",
            410 => "Gone",
            411 => "Length Required",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            416 => "Range Not Satisfiable",
            417 => "Expectation Failed",
            421 => "Misdirected Request",
            426 => "Upgrade Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            _ => "",
        }
    }

    /// 103 Early Hints.
    pub const EARLY_HINTS: Self = Self(103);
    /// 200 OK.
    pub const OK: Self = Self(200);
    /// 206 Partial Content.
    pub const PARTIAL_CONTENT: Self = Self(206);
    /// 301 Moved Permanently.
    pub const MOVED_PERMANENTLY: Self = Self(301);
    /// 304 Not Modified.
    pub const NOT_MODIFIED: Self = Self(304);
    /// 400 Bad Request.
    pub const BAD_REQUEST: Self = Self(400);
    /// 404 Not Found.
    pub const NOT_FOUND: Self = Self(404);
    /// 416 Range Not Satisfiable.
    pub const RANGE_NOT_SATISFIABLE: Self = Self(416);
    /// 502 Bad Gateway.
    pub const BAD_GATEWAY: Self = Self(502);
    /// 503 Service Unavailable.
    pub const SERVICE_UNAVAILABLE: Self = Self(503);
    /// 504 Gateway Timeout.
    pub const GATEWAY_TIMEOUT: Self = Self(504);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn only_three_digits_are_a_status() {
        assert_eq!(Status::from_code(99), None);
        assert_eq!(Status::from_code(1000), None);
        assert_eq!(Status::from_code(799).map(Status::code), Some(799));
    }

    #[test]
    fn statuses_without_content() {
        let no_content = |code| Status::from_code(code).unwrap().has_no_content();
        assert!(no_content(100) && no_content(204) && no_content(304));
        assert!(!no_content(200) && !no_content(205));
    }
}
