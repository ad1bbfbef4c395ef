//! How requests travel: the interface between the worker and its connections, whatever protocol
//! they speak. Each protocol is one file below:
//!
//! ```text
//!   http1        HTTP/1, one request at a time; allocates nothing in the steady state
//!   pipelined    HTTP/1.1, several requests at a time     \  on `multiplexed`, which connects,
//!   http2        HTTP/2, several requests at a time       /  and keeps requests and results
//! ```
//!
//! Invariant: nothing here blocks or chooses the next request. For every request it takes, a
//! connection returns exactly one [`TransportEvent`], or keeps the request to the end of the run. A
//! connection continues when its socket has an event or when it gets a request.

mod dialling;
pub(crate) mod http1;
pub(crate) mod http2;
mod multiplexed;
pub(crate) mod pipelined;
mod socket;
mod wakes;

pub(crate) use dialling::ConnectError;

use crate::content::Inspection;
use crate::exchange::ExchangeTimes;
use crate::reader::{HeadMemo, ResponseSummary};
use crate::recorder::Recorder;
use crate::tls::{Tls, TlsSession};
use bytes::Bytes;
use clock::{Clock, Monotonic};
use http2::Http2Requests;
use mio::net::TcpStream;
use net::{Stamp, StampClock};
use record::{AbEnd, FailureKind};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// After this many bytes of a connection, other work has its turn: timeouts, other connections and
/// the end of the run must not wait for a server that sends faster than its bytes are read.
const TURN_BYTES_MAX: usize = 1024 * 1024;

/// One connection and the requests on it.
///
/// The worker is generic over this trait, because a run uses only one kind of connection. A call of
/// a method therefore costs no more than the method itself.
pub(crate) trait Transport: Sized {
    /// A connection being established on `stream` to `address`, for `first`.
    fn open(stream: TcpStream, address: SocketAddr, first: &ExchangeTimes, tools: &Tools<'_>) -> Self;

    /// Connects again for `first`, with the socket of a connection that the server has closed.
    ///
    /// # Errors
    /// As the system reports them; the connection is unusable afterwards.
    fn renew(&mut self, address: SocketAddr, first: &ExchangeTimes, tools: &Tools<'_>) -> io::Result<()>;

    /// Takes a request. Sends it at once, or waits for the next turn: see [`Transport::has_work`].
    fn ask(&mut self, pending: PendingRequest, tools: &mut Tools<'_>);

    /// Works on the connection. Returns whether bytes may be left unread without a further event.
    fn turn(&mut self, ready: Readiness, tools: &mut Tools<'_>) -> bool;

    /// Whether it needs a turn, or has events to take, without an event of its socket.
    fn has_work(&self) -> bool;

    /// The next result, in the order in which requests ended.
    fn next_event(&mut self) -> Option<TransportEvent>;

    /// Whether requests can be sent.
    fn is_connected(&self) -> bool;

    /// Whether the server has proven that it speaks the protocol.
    fn is_proven(&self) -> bool;

    /// The state of the connection, for its further use.
    fn state(&self) -> ConnectionState;

    /// Number of requests that it has taken and not yet returned.
    fn load(&self) -> usize;

    /// The requests that it has taken and not yet returned.
    fn under_way(&self) -> impl Iterator<Item = &ExchangeTimes>;

    /// Fails requests that have taken at least `limit`.
    fn expire(&mut self, now: Monotonic, limit: Duration, tools: &Tools<'_>);

    /// Takes back all requests of a connection that could not be established.
    fn give_up(&mut self) -> VecDeque<PendingRequest>;

    /// At the end of the run, reports for each request under way the arrival of unread bytes of its
    /// response; `None` if there are none. The connection is unusable afterwards.
    fn last_look(
        &mut self,
        now: Monotonic,
        tools: &mut Tools<'_>,
        tell: impl FnMut(&ExchangeTimes, Option<Monotonic>),
    );

    /// How the last response or its connection ended, in `ab`'s terms. `status` is that of a
    /// complete response. `None` for protocols that `ab` does not speak.
    fn ab_end(&self, status: Option<u16>, is_broken: bool) -> Option<AbEnd> {
        let _ = (status, is_broken);
        None
    }
}

/// A request given to a connection.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) exchange: ExchangeTimes,
    /// How to inspect the content of its response.
    pub(crate) inspection: Inspection,
}

/// An event on a connection.
#[derive(Debug)]
pub(crate) enum TransportEvent {
    /// A complete response, and when it was read.
    Answered(PendingRequest, ResponseSummary, Monotonic),
    /// The request failed. The last value is whether the connection broke while it was in use.
    Failed(PendingRequest, FailureKind, bool),
    /// The server has not processed the request and will not do so on this connection.
    Returned(PendingRequest),
    /// The connection could not be established. It still has its requests.
    Unconnected(ConnectError),
}

/// The state of a connection, for its further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// It may get more requests.
    Open,
    /// It gets no more requests, and the server will close it.
    Ending,
    /// It gets no more requests, and this side has to close it.
    Done,
    /// The server has closed it after its last response.
    Closed,
    /// It is of no use any more.
    Broken,
}

/// The readiness that an event reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    /// The server has closed its side.
    pub(crate) closed: bool,
}

/// State that the connections of one thread share.
pub(crate) struct Tools<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Converts the kernel's receive timestamps to this clock.
    pub(crate) stamp_clock: StampClock,
    /// The serialised requests, one for each URL.
    pub(crate) images: &'a [Bytes],
    /// The TLS configuration, if any URL uses TLS.
    pub(crate) tls: Option<Tls>,
    /// Whether a request may be sent again if the server closed its reused connection.
    pub(crate) resendable: bool,
    /// Whether the end of a connection ends its response, as in `ab`.
    pub(crate) takes_ends: bool,
    /// Whether the run continues after a connection broke.
    pub(crate) goes_on: bool,
    pub(crate) recorder: Recorder,
    pub(crate) memo: HeadMemo,
    /// The requests in the form of HTTP/2, if the plan uses it.
    pub(crate) http2: Http2Requests,
    /// Read buffer. Its content is not needed between two reads.
    pub(crate) buffer: Vec<u8>,
}

impl<'a> Tools<'a> {
    /// The bytes of the request that an exchange sends.
    pub(crate) fn image(&self, exchange: &ExchangeTimes) -> &'a [u8] {
        self.images.get(exchange.url as usize).map_or(&[], |image| &**image)
    }

    /// When the bytes that were read at `now` arrived: the kernel's timestamp, but never before the
    /// request started.
    pub(crate) fn came(&self, stamp: Option<Stamp>, exchange: &ExchangeTimes, now: Monotonic) -> Monotonic {
        self.stamp_clock.moment(stamp, now).max(exchange.started)
    }

    /// TLS state for a new connection to the URL of an exchange; `None` if the URL does not use
    /// TLS.
    fn session(&self, exchange: &ExchangeTimes) -> Option<Box<TlsSession>> {
        self.tls.as_ref()?.session(exchange.url)
    }

    /// The records of this thread, and its first response head.
    pub(crate) fn into_records(self) -> (Recorder, Vec<u8>) {
        let head = if self.http2.first_head.is_empty() { self.memo.first } else { self.http2.first_head };
        (self.recorder, head)
    }
}
