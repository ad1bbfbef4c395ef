//! The record of one request: all facts about it for logs and live views.
//!
//! Invariant: a record borrows its texts, so that making one allocates nothing.

use crate::trace::{SpanContext, TraceId};
use clock::{Monotonic, Timestamp};
use message::Method;
use semantics::{Reason, Verdict};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// One request and its response.
#[derive(Clone, Copy, Debug)]
pub struct RequestRecord<'a> {
    /// When the head of the request was complete.
    pub at: Timestamp,
    /// The client's end of the connection.
    pub peer: ClientName,
    /// The client: the peer, or the address that a trusted proxy reports.
    pub client: ClientName,
    /// The method.
    pub method: &'a Method,
    /// The target as it was sent.
    pub target: &'a [u8],
    /// The protocol.
    pub protocol: Protocol,
    /// The version of TLS, such as `1.3`. `None` for a plain connection.
    pub tls: Option<&'static str>,
    /// The host that the client sent.
    pub host: Option<&'a [u8]>,
    /// The site with its route, as metrics name it. `None` if the request reached no site's pages.
    pub site: Option<&'a str>,
    /// The status of the response.
    pub status: u16,
    /// Bytes of content that were sent.
    pub content_bytes: u64,
    /// Bytes received for this request, its head included.
    pub received_bytes: u64,
    /// Bytes sent, heads included.
    pub sent_bytes: u64,
    /// The reason of the verdict.
    pub reason: Reason,
    /// The cache key, if the request has one.
    pub key: Option<PageKey<'a>>,
    /// The request's `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The request's `User-Agent`.
    pub agent: Option<&'a [u8]>,
    /// The trace that the request belongs to.
    pub trace: Option<TraceId>,
    /// The time from the complete head to the last byte handed to the operating system.
    pub time: Duration,
    /// The parts of this time.
    pub phases: Phases,
    /// The request to the origin that the response came from.
    pub fetch: Option<FetchPhases>,
}

/// The name of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientName {
    /// An IP address.
    Ip(IpAddr),
    /// A process on this machine.
    Unix,
    /// A client whose address is not known.
    Unknown,
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
}

/// The cache key of a request, as a URL shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKey<'a> {
    /// Whether visitors reach the page by https.
    pub is_https: bool,
    /// The host.
    pub host: &'a [u8],
    /// Path and query, without tracking parameters.
    pub target: &'a [u8],
}

/// The parts of a request's time that come before the delivery. They do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Waiting for reads of the response from the disk.
    pub disk: Duration,
    /// Waiting for the head of a shared fetch.
    pub wait: Duration,
    /// Sending the client's own request, until the head of the response.
    pub pass: Duration,
}

/// One request to the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchPhases {
    /// The number of the fetch since the start. Requests that share a fetch have the same.
    pub number: u64,
    /// Waiting for a turn at the origin (`limits.fetches_max`).
    pub queue: Duration,
    /// Making the connection; zero for a kept one.
    pub connect: Duration,
    /// From then until the head of the response.
    pub first_byte: Duration,
    /// When the head of the response was received.
    pub received: Monotonic,
    /// The span of a trace that the edge began for the request. `None` for a client's own request.
    pub trace: Option<SpanContext>,
}

impl<'a> RequestRecord<'a> {
    /// The verdict.
    pub const fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// The path of the target.
    pub fn path(&self) -> &'a [u8] {
        self.target.split(|&byte| byte == b'?').next().unwrap_or_default()
    }

    /// The query of the target, without its question mark.
    pub fn query(&self) -> &'a [u8] {
        let mark = self.target.iter().position(|&byte| byte == b'?');
        mark.and_then(|mark| self.target.get(mark + 1..)).unwrap_or_default()
    }

    /// Whether the edge or the origin failed to answer properly. Sampling keeps all of these.
    pub const fn is_error(&self) -> bool {
        self.status >= 500 || matches!(self.verdict(), Verdict::Failed)
    }

    /// The time of the delivery: the rest after the other phases.
    pub fn send_time(&self) -> Duration {
        let Phases { disk, wait, pass } = self.phases;
        self.time.saturating_sub(disk + wait + pass)
    }
}

impl Protocol {
    /// The protocol's name, such as `HTTP/1.1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

impl PageKey<'_> {
    /// The three parts of the key as a URL.
    pub(crate) const fn parts(&self) -> [&[u8]; 3] {
        [if self.is_https { b"https://" } else { b"http://" }, self.host, self.target]
    }
}

/// A time in microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Unknown => f.write_str("-"),
        }
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use super::{ClientName, FetchPhases, PageKey, Phases, Protocol, RequestRecord};
    use clock::{Monotonic, Timestamp};
    use message::Method;
    use semantics::Reason;
    use std::time::Duration;

    /// A miss with every member.
    pub(crate) fn miss() -> RequestRecord<'static> {
        RequestRecord {
            at: Timestamp::from_micros(784_111_777_000_042),
            peer: ClientName::Ip("127.0.0.1".parse().unwrap()),
            client: ClientName::Ip("192.0.2.77".parse().unwrap()),
            method: &Method::Get,
            target: b"/shop/a?x=1",
            protocol: Protocol::Http11,
            tls: Some("1.3"),
            host: Some(b"Example.test"),
            site: Some("example.test"),
            status: 200,
            content_bytes: 12_972,
            received_bytes: 80,
            sent_bytes: 13_200,
            reason: Reason::MissAbsent,
            key: Some(PageKey { is_https: true, host: b"example.test", target: b"/shop/a?x=1" }),
            referer: Some(b"https://example.test/"),
            agent: Some(b"probe/1"),
            trace: crate::trace_of(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            time: Duration::from_micros(105_000),
            phases: Phases { wait: Duration::from_micros(104_000), ..Phases::default() },
            fetch: Some(FetchPhases {
                number: 17,
                queue: Duration::from_micros(1000),
                connect: Duration::from_micros(200),
                first_byte: Duration::from_micros(102_800),
                received: Monotonic::default(),
                trace: None,
            }),
        }
    }

    /// A hit with as few members as possible.
    pub(crate) fn bare() -> RequestRecord<'static> {
        RequestRecord {
            client: ClientName::Unknown,
            peer: ClientName::Unix,
            tls: None,
            host: None,
            site: None,
            key: None,
            referer: None,
            agent: None,
            trace: None,
            reason: Reason::HitFresh,
            time: Duration::from_micros(42),
            phases: Phases::default(),
            fetch: None,
            ..miss()
        }
    }
}
