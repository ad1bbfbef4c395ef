//! A visitor's request and its response, as the oracle sees them.
//!
//! Invariant: plain data. The visitor writes down what it sent and what arrived; it judges nothing
//! but the framing.

use crate::content::ContentId;
use crate::moment::Moment;
use crate::ordered::OrderedPurge;
use bytes::Bytes;
use message::Fields;
use std::fmt;
use std::time::Duration;

/// A part of a page that a visitor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// From the first byte to the last one, both included.
    FromTo(usize, usize),
    /// From this byte to the end.
    From(usize),
    /// The last bytes, this many.
    Last(usize),
}

impl RangeSpec {
    /// The first byte and the last one in a content of `bytes` bytes; `None` if it has none.
    pub fn resolve(self, bytes: usize) -> Option<(usize, usize)> {
        let last = bytes.checked_sub(1)?;
        match self {
            Self::FromTo(first, end) if first <= end && first <= last => Some((first, end.min(last))),
            Self::From(first) if first <= last => Some((first, last)),
            Self::Last(count) if count > 0 => Some((bytes.saturating_sub(count), last)),
            _ => None,
        }
    }

    /// Reads one member of the field `Range`.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().split_once('-')?;
        match (first, last) {
            ("", last) => Some(Self::Last(last.parse().ok()?)),
            (first, "") => Some(Self::From(first.parse().ok()?)),
            (first, last) => Some(Self::FromTo(first.parse().ok()?, last.parse().ok()?)),
        }
    }
}

impl fmt::Display for RangeSpec {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FromTo(first, last) => write!(to, "{first}-{last}"),
            Self::From(first) => write!(to, "{first}-"),
            Self::Last(count) => write!(to, "-{count}"),
        }
    }
}

/// A copy that the visitor holds, and the validator that it sends for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCopy {
    /// The content of the copy.
    pub id: ContentId,
    /// The date in seconds since 1970, if the validator is a date and no entity tag.
    pub date_secs: Option<u64>,
}

/// The request of a visitor.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Who asks, and its how manieth visit it is, for messages.
    pub who: String,
    /// The method.
    pub method: String,
    /// The target as sent, named with its host as [`SitePlan::named`](crate::SitePlan::named) does.
    pub target: String,
    /// The user whose cookie the visitor sends.
    pub user: Option<String>,
    /// The name in the cookie by which careless pages greet the visitor.
    pub nick: Option<String>,
    /// When its connection began, if not with the request.
    pub connected: Option<Moment>,
    /// Whether it sends the cookie that changes nothing.
    pub has_noise: bool,
    /// Whether its address is one of those that use the site during maintenance.
    pub is_maintainer: bool,
    /// The field `Accept-Language` as sent.
    pub language: Option<String>,
    /// Whether its `Accept-Encoding` names the gzip coding.
    pub accepts_gzip: bool,
    /// Its `Accept-Encoding` as sent.
    pub codings: Option<String>,
    /// The parts that it asks for; empty for the whole.
    pub ranges: Vec<RangeSpec>,
    /// The copy whose validator it sends in `If-None-Match` or `If-Modified-Since`.
    pub held: Option<HeldCopy>,
    /// The copy whose validator it sends in `If-Range`.
    pub if_range: Option<HeldCopy>,
    /// Whether the request edits its page: a success invalidates it.
    pub is_write: bool,
    /// The purge that the response to a successful write orders.
    pub orders: Option<OrderedPurge>,
    /// Whether it takes stored responses only.
    pub only_if_cached: bool,
    /// Whether the visitor breaks the protocol or gives up, so that errors are its own fault.
    pub misbehaves: bool,
    /// The trace that the visitor begins.
    pub trace: Option<u128>,
    /// Its number in the access log.
    pub log_number: Option<u64>,
}

impl fmt::Display for Ask {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, method, target, .. } = self;
        write!(to, "{method} {target} of {who}")?;
        if let Some(user) = &self.user {
            write!(to, " as {user}")?;
        }
        if let Some(language) = &self.language {
            write!(to, " in {language}")?;
        }
        if !self.ranges.is_empty() {
            let ranges: Vec<_> = self.ranges.iter().map(ToString::to_string).collect();
            write!(to, " range {}", ranges.join(","))?;
        }
        if let Some(held) = &self.held {
            write!(to, " holding version {}", held.id.version)?;
        }
        Ok(())
    }
}

/// How an exchange ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The framing says that the response is complete.
    Complete,
    /// No connection could be made.
    NoConnection,
    /// The connection ended before the head of the response.
    #[default]
    Closed,
    /// The connection ended within the body.
    Cut,
    /// The response violates the grammar of HTTP/1.
    Malformed(String),
    /// The visitor waited longer than it waits for anything.
    TimedOut,
    /// The visitor gave up as its plan says.
    GivenUp,
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => to.write_str("complete"),
            Self::NoConnection => to.write_str("no connection"),
            Self::Closed => to.write_str("closed before the head"),
            Self::Cut => to.write_str("cut within the body"),
            Self::Malformed(fault) => write!(to, "malformed ({fault})"),
            Self::TimedOut => to.write_str("timed out"),
            Self::GivenUp => to.write_str("given up by the visitor"),
        }
    }
}

/// What came back. The default is a connection that ended before the head.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// How the exchange ended.
    pub ending: Ending,
    /// The status; `None` if no head arrived.
    pub status: Option<u16>,
    /// The fields of the head.
    pub fields: Fields,
    /// The body as far as it arrived.
    pub body: Bytes,
    /// When the first byte arrived.
    pub first_byte: Option<Moment>,
    /// Time that the visitor itself spent: pauses of its own, and waiting for the responses before
    /// this one in a pipeline.
    pub own_delay: Duration,
}

impl Reply {
    /// The value of the first field with this name, if it is text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.first(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Whether the whole response arrived.
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Complete
    }

    /// The detail of `Cache-Status`; empty if there is none.
    pub fn reason(&self) -> &str {
        let status = self.field("Cache-Status").unwrap_or_default();
        let detail = status.split_once("detail=").map_or("", |(_, detail)| detail);
        detail.split([';', ',', ' ']).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{RangeSpec, Reply};

    #[test]
    fn ranges_are_resolved_as_in_rfc_9110() {
        assert_eq!(RangeSpec::FromTo(2, 900).resolve(10), Some((2, 9)));
        assert_eq!(RangeSpec::FromTo(3, 2).resolve(10), None);
        assert_eq!(RangeSpec::From(10).resolve(10), None);
        assert_eq!(RangeSpec::Last(20).resolve(10), Some((0, 9)));
        assert_eq!(RangeSpec::Last(0).resolve(10), None);
        assert_eq!(RangeSpec::From(0).resolve(0), None);
        for spec in [RangeSpec::FromTo(1, 2), RangeSpec::From(3), RangeSpec::Last(4)] {
            assert_eq!(RangeSpec::parse(&spec.to_string()), Some(spec));
        }
    }

    #[test]
    fn reason_is_the_detail_of_cache_status() {
        let mut reply = Reply::default();
        assert_eq!(reply.reason(), "");
        reply.fields.push("Cache-Status", "Petasos; hit; ttl=3; detail=hit-fresh");
        assert_eq!(reply.reason(), "hit-fresh");
    }
}
