//! `GET /log`: the records of requests as they end, one JSON object per line.
//!
//! Invariant: every line is empty or one of [`LogLine`]. Members that a request does not have are
//! missing.

use serde::{Deserialize, Serialize};

/// The path of the stream.
pub const PATH: &str = "/log";

/// The parameter with the filter expression.
pub const WHERE: &str = "where";

/// A line of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum LogLine {
    /// Requests that were left out, because this client reads too slowly.
    Skipped {
        /// Their number.
        skipped: u64,
    },
    /// A request. Tried last, because every member may be missing.
    Request(Box<LoggedRequest>),
}

/// One request. Times are microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LoggedRequest {
    /// When its head was complete, as RFC 3339 writes it.
    pub at: String,
    /// The client's address.
    pub client: String,
    /// The address of the connection, if it is another one.
    pub peer: Option<String>,
    /// The method.
    pub method: String,
    /// The host that the client sent.
    pub host: Option<String>,
    /// Path and query.
    pub target: String,
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: String,
    /// The version of TLS, such as `TLSv1.3`.
    pub tls: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// Content bytes sent.
    pub bytes: u64,
    /// Bytes of the request.
    pub received: u64,
    /// Bytes sent, heads included.
    pub sent: u64,
    /// The site, as in metrics.
    pub site: Option<String>,
    /// The verdict.
    pub verdict: String,
    /// The reason of the verdict.
    pub reason: String,
    /// The cache key as a URL.
    pub key: Option<String>,
    /// The request's `Referer`.
    pub referer: Option<String>,
    /// The request's `User-Agent`.
    pub agent: Option<String>,
    /// The trace of the request.
    pub trace: Option<String>,
    /// The time of the request.
    pub time: u64,
    /// The parts of this time.
    pub phases: LoggedPhases,
    /// The request to the origin that the response came from.
    pub fetch: Option<LoggedFetch>,
}

/// The parts of a request's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LoggedPhases {
    /// Waiting for the disk.
    pub disk: u64,
    /// Waiting for the head of a shared fetch.
    pub wait: u64,
    /// Sending the client's own request, until the head of the response.
    pub pass: u64,
    /// All the rest.
    pub send: u64,
}

/// A request to the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LoggedFetch {
    /// Its number since the start.
    pub number: u64,
    /// Waiting for a turn at the origin.
    pub queue: u64,
    /// Making the connection.
    pub connect: u64,
    /// Waiting for the head of the response.
    pub first_byte: u64,
}

#[cfg(test)]
mod tests {
    use super::LogLine;

    #[test]
    fn lines_are_requests_or_numbers_of_skipped_ones() {
        let read = |text| serde_json::from_str::<LogLine>(text).unwrap();
        assert_eq!(read(r#"{"skipped":3}"#), LogLine::Skipped { skipped: 3 });
        let LogLine::Request(request) = read(r#"{"at":"x","status":200,"phases":{"send":4},"new":1}"#) else {
            panic!("it is a request");
        };
        assert_eq!((request.status, request.phases.send, request.fetch), (200, 4, None));
    }
}
