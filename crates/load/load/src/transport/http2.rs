//! HTTP/2 on an established connection: its streams, each with one request.
//!
//! Invariant: a request that the server has not processed is sent again elsewhere, if the
//! connection had delivered a response. Every other request ends as answered or failed. The library
//! implements the protocol; only streams that it wakes are polled. The windows are as wide as a
//! browser's, so that they do not limit the measurement.

mod stream;

use super::multiplexed::{ConnectionQueue, Layer, Multiplexed};
use super::socket::{CountedSocket, Greeting, Octets};
use super::wakes::{CONNECTION, Wakes};
use super::{ConnectError, ConnectionState, PendingRequest, Tools, TransportEvent};
use crate::exchange::ExchangeTimes;
use crate::request::fields;
use crate::routes::Routes;
use bytes::Bytes;
use clock::Monotonic;
use h2::client::{Builder, Connection, SendRequest};
use http::Request;
use record::{FailureKind, Plan, PlanError, Protocol, WeightedTarget};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stream::{RequestStream, StreamOutcome};

/// A connection that speaks HTTP/2.
pub(crate) type Http2 = Multiplexed<Streams>;

/// The flow-control window of an HTTP/2 stream that this side grants, in bytes: the same as
/// Chromium's.
const STREAM_WINDOW_BYTES: u32 = 6 * 1024 * 1024;

/// The flow-control window of an HTTP/2 connection that this side grants, in bytes: the same as
/// Chromium's.
const CONNECTION_WINDOW_BYTES: u32 = 15 * 1024 * 1024;

/// How often a request is sent again after the server refused its stream.
const REFUSALS_MAX: u32 = 3;

/// The settings of an HTTP/2 client: a browser's windows, and no responses without a request.
pub fn http2_settings() -> Builder {
    let mut builder = Builder::new();
    builder.enable_push(false);
    builder.initial_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

/// Whether a field is specific to the connection and therefore not allowed in HTTP/2
/// (RFC 9113 section 8.2.2).
pub fn is_of_connections(name: &[u8]) -> bool {
    let fields = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    fields.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

/// The requests of a plan in the form of HTTP/2, and the first response head of a thread.
#[derive(Debug, Default)]
pub(crate) struct Http2Requests {
    keep_alive: bool,
    /// The requests, one for each URL.
    requests: Vec<Request<()>>,
    /// The content of every request.
    content: Bytes,
    /// The first response head, in HTTP/1 form.
    pub(super) first_head: Vec<u8>,
}

/// The streams of a connection.
pub(crate) struct Streams {
    sender: SendRequest<Bytes>,
    connection: Box<Connection<CountedSocket, Bytes>>,
    is_over: bool,
    streams: Vec<Option<RequestStream>>,
    free: Vec<usize>,
    /// The waker of the stream at each index.
    wakers: Vec<Waker>,
}

impl Http2Requests {
    /// The requests of a plan; none if it does not use HTTP/2.
    ///
    /// # Errors
    /// If a request cannot be expressed in HTTP/2.
    pub(crate) fn of(plan: &Plan, routes: &Routes) -> Result<Self, PlanError> {
        let urls = if plan.http == Protocol::H2 { &routes.urls[..] } else { &[] };
        let requests = urls.iter().map(|of| request(plan, of));
        Ok(Self {
            keep_alive: plan.keep_alive,
            requests: requests.collect::<Result<_, _>>()?,
            content: plan.body.as_ref().map(|body| body.content.clone()).unwrap_or_default(),
            first_head: Vec::new(),
        })
    }
}

impl Layer for Streams {
    const IS_HTTP2: bool = true;

    async fn begin(wire: CountedSocket) -> Result<Self, ConnectError> {
        let made = http2_settings().handshake(wire).await;
        let (sender, connection) = made.map_err(|error| ConnectError::Protocol(error.to_string()))?;
        Ok(Self {
            sender,
            connection: Box::new(connection),
            is_over: false,
            streams: Vec::new(),
            free: Vec::new(),
            wakers: Vec::new(),
        })
    }

    fn turn(&mut self, queue: &mut ConnectionQueue, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        loop {
            self.begin_streams(queue);
            if self.poll(&mut Context::from_waker(&queue.waker)) {
                queue.state = ConnectionState::Broken;
                if let Some(reason) = not_spoken(queue.octets.greeting()) {
                    queue.waiting.extend(self.take_where(|_| true));
                    return Err(ConnectError::Protocol(reason.to_owned()));
                }
                (0..self.streams.len()).for_each(|place| queue.wakes.wake(place));
            }
            let mut woken = std::mem::take(&mut queue.woken);
            woken.clear();
            let is_any = queue.wakes.take(&mut woken);
            for &place in woken.iter().filter(|&&place| place != CONNECTION) {
                self.turn_stream(place, queue, tools);
            }
            queue.woken = woken;
            if !is_any {
                return Ok(());
            }
        }
    }

    fn is_proven(&self, octets: &Octets) -> bool {
        octets.greeting() == Some(Greeting::Settings)
    }

    fn len(&self) -> usize {
        self.streams.len() - self.free.len()
    }

    fn under_way(&self) -> impl Iterator<Item = &ExchangeTimes> {
        self.streams.iter().flatten().map(|stream| &stream.pending.exchange)
    }

    fn expire(&mut self, queue: &mut ConnectionQueue, now: Monotonic, limit: Duration, _: &Tools<'_>) {
        let late = self.take_where(|exchange| now.since(exchange.started) >= limit).into_iter();
        queue.events.extend(late.map(|pending| TransportEvent::Failed(pending, FailureKind::Timeout, false)));
    }
}

impl Streams {
    /// Drops the streams of the matching requests and returns the requests. Dropping a stream
    /// resets it at the server.
    fn take_where(&mut self, is_taken: impl Fn(&ExchangeTimes) -> bool) -> Vec<PendingRequest> {
        let mut taken = Vec::new();
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream) = stream.take_if(|stream| is_taken(&stream.pending.exchange)) {
                taken.push(stream.pending);
                self.free.push(place);
            }
        }
        taken
    }

    /// Moves bytes in both directions. Returns whether the connection has just ended.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_over {
            return false;
        }
        // The result is not needed here, because the streams receive the error as well.
        self.is_over = Pin::new(&mut self.connection).poll(context).is_ready();
        self.is_over
    }

    /// Opens a stream for each waiting request.
    fn begin_streams(&mut self, queue: &mut ConnectionQueue) {
        let ConnectionQueue { waiting, wakes, .. } = queue;
        for pending in waiting.drain(..) {
            let place = self.free.pop().unwrap_or(self.streams.len());
            let waker = self.waker(place, wakes);
            let stream = Some(RequestStream::new(pending, waker));
            match self.streams.get_mut(place) {
                Some(free) => *free = stream,
                None => self.streams.push(stream),
            }
            wakes.wake(place);
        }
    }

    fn waker(&mut self, place: usize, wakes: &Arc<Wakes>) -> Waker {
        if self.wakers.len() <= place {
            self.wakers.push(wakes.waker(place));
        }
        self.wakers.get(place).cloned().unwrap_or_else(|| wakes.waker(place))
    }

    fn turn_stream(&mut self, place: usize, queue: &mut ConnectionQueue, tools: &mut Tools<'_>) {
        let Some(stream) = self.streams.get_mut(place).and_then(Option::as_mut) else { return };
        let after = match stream.poll(&self.sender, &queue.octets, tools) {
            Poll::Ready(after) => after,
            Poll::Pending if self.is_over => StreamOutcome::Broken(FailureKind::Receive),
            Poll::Pending => return,
        };
        if matches!(after, StreamOutcome::Refused) && stream.refusals < REFUSALS_MAX {
            stream.begin_again();
            tools.recorder.resent += u64::from(stream.pending.exchange.measured);
            return queue.wakes.wake(place);
        }
        let Some(RequestStream { mut pending, .. }) = self.streams.get_mut(place).and_then(Option::take)
        else {
            return;
        };
        self.free.push(place);
        match after {
            StreamOutcome::Broken(_) | StreamOutcome::Unseen => queue.state = ConnectionState::Broken,
            // The server would keep the connection open.
            StreamOutcome::Answered(_) if !tools.http2.keep_alive && queue.state == ConnectionState::Open => {
                queue.state = ConnectionState::Done;
            }
            _ => {}
        }
        match after {
            StreamOutcome::Answered(answer) => {
                let now = tools.clock.monotonic();
                let came = tools.came(queue.octets.stamp(), &pending.exchange, now);
                pending.exchange.receive(came, now);
                queue.answered(pending, answer, now);
            }
            StreamOutcome::Unseen if queue.answers > 0 => {
                queue.events.push_back(TransportEvent::Returned(pending))
            }
            StreamOutcome::Failed(kind) | StreamOutcome::Broken(kind) => {
                queue.events.push_back(TransportEvent::Failed(pending, kind, false));
            }
            StreamOutcome::Unseen | StreamOutcome::Refused => {
                queue.events.push_back(TransportEvent::Failed(pending, FailureKind::Receive, false));
            }
        }
    }
}

/// Why a server that sent this greeting does not speak HTTP/2; `None` if it does.
const fn not_spoken(greeting: Option<Greeting>) -> Option<&'static str> {
    match greeting {
        Some(Greeting::Settings) => None,
        Some(Greeting::Http1) => Some("it responded in HTTP/1; use --http 1.1"),
        Some(Greeting::Other) => Some("its response is not HTTP"),
        None => Some("it closed the connection without a response; use --http 1.1"),
    }
}

/// The plan's request in HTTP/2 form (RFC 9113 section 8.3): the host is part of the URI, and
/// fields about the connection are left out.
fn request(plan: &Plan, of: &WeightedTarget) -> Result<Request<()>, PlanError> {
    let target = &of.target;
    let fields = fields(plan, target, &of.cookies);
    let scheme = if target.is_https() { "https" } else { "http" };
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let host =
        fields.iter().rfind(|(name, _)| is_host(name)).map(|(_, value)| value.as_str()).unwrap_or_default();
    let uri = format!("{scheme}://{host}{}", target.path_and_query());
    let mut request = Request::builder().method(plan.method.as_bytes()).uri(uri);
    for (name, value) in
        fields.iter().filter(|(name, _)| !is_host(name) && !is_of_connections(name.as_bytes()))
    {
        request = request.header(name, value);
    }
    request.body(()).map_err(|error| PlanError::NotHttp2(error.to_string()))
}
