//! A client's connection with HTTP/2: accepts its requests, runs each in its own task, and ends the
//! connection.
//!
//! Invariants: no more requests of a connection run at once than its streams may, plus as many that
//! the client has reset. A client that sends frames without a purpose loses its connection.
//! Responses are complete or reset.

use crate::control::counters::{Cells, Metric};
use crate::http2::allowance::Usage;
use crate::http2::metered::Metered;
use crate::http2::outlet::ROUND_BYTES;
use crate::http2::priority::Priority;
use crate::http2::request::{RequestFault, Translated, translate};
use crate::http2::wire::{Http2Wire, StreamsShared};
use crate::memory::windows::Windows;
use crate::request::arrival::Arrival;
use crate::request::client::{ClientConnection, head_limits};
use crate::request::guard::is_silenced;
use crate::request::pipeline;
use crate::request::refusal::Refusal;
use crate::request::respond::{self, Recipient};
use crate::request::tunnel::tunnel;
use crate::request::visit::AfterResponse;
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use clock::Monotonic;
use config::EdgeLimits;
use h1::{BodyFraming, Request};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use message::{Method, Version};
use net::{Patience, Stream};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

/// Bytes of one response that `h2` may hold: more than [`ROUND_BYTES`], which limits all of them.
const SEND_BUFFER_BYTES: usize = 2 * ROUND_BYTES;

/// Bytes that RFC 9113 section 6.5.2 adds to each field of a head.
const FIELD_OVERHEAD_BYTES: usize = 32;

/// The longest wait for a client without requests after GOAWAY.
const GOODBYE: Duration = Duration::from_secs(1);

/// Bytes that a client may send after the end of its connection.
const LINGER_BYTES_MAX: usize = 256 * 1024;

type Accepted = (http::Request<RecvStream>, SendResponse<Bytes>);

/// A connection and its requests.
struct Session {
    shared: Arc<Shared>,
    index: usize,
    arrival: Arrival,
    /// The host that the client named in its TLS handshake.
    named: Option<String>,
    connection: Connection<Metered, Bytes>,
    /// Whether the connection has ended. Requests that still run learn it when they send.
    has_ended: bool,
    /// Whether GOAWAY told the client to send no more requests.
    is_leaving: bool,
    requests: JoinSet<()>,
    accepted: Vec<Accepted>,
    streams: StreamsShared,
    carrier: Metered,
    counted: (u64, u64),
    windows: Windows,
    usage: Usage,
    begun: Monotonic,
    patience: Patience,
}

/// Serves a connection to its end. `early` holds the bytes that were already read from it. `stop`
/// is ready when the client shall send no more requests.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    index: usize,
    (stream, early): (Stream, BytesMut),
    arrival: Arrival,
    stop: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
) {
    let named = stream.server_name().map(str::to_ascii_lowercase);
    let carrier = Metered::new(stream, early, shared.buffers.memory());
    let handshake = builder(&shared.limits).handshake(carrier.clone());
    let connection = match tokio::time::timeout(shared.limits.request_head_timeout, handshake).await {
        Ok(Ok(connection)) => connection,
        // The client has left. Browsers open connections in advance and close unused ones.
        Ok(Err(error)) if error.is_io() => return,
        Ok(Err(_)) => return shared.cells(index).count(Metric::RequestsMalformed),
        Err(_) => return shared.cells(index).count(Metric::VisitorTimeouts),
    };
    shared.cells(index).count(Metric::Http2Connections);
    let mut stop = stop;
    let mut session = Session {
        shared: Arc::clone(shared),
        index,
        arrival,
        named,
        connection,
        has_ended: false,
        is_leaving: false,
        requests: JoinSet::new(),
        accepted: Vec::new(),
        streams: StreamsShared::default(),
        carrier,
        counted: (0, 0),
        windows: Windows::new(shared.buffers.memory()),
        usage: Usage::default(),
        begun: shared.clock.monotonic(),
        patience: Patience::new(),
    };
    poll_fn(|context| session.poll(context, stop.as_mut())).await;
    session.count_bytes();
    if session.has_ended {
        let (carrier, within) = (session.carrier.clone(), session.shared.limits.write_timeout);
        let drained = session.shared.drained();
        // The memory of the session is not needed any more.
        drop(session);
        // A client that keeps its side open must not hold up a drain.
        let drain_over = async {
            drained.await;
            tokio::time::sleep(GOODBYE).await;
        };
        tokio::select! {
            // Either ends the wait, so the order changes nothing but must not be random.
            biased;
            () = linger(carrier, within) => {}
            () = drain_over => {}
        }
    }
}

/// Reads and discards what a client sends after the end of its connection, until it closes its
/// side. While it reads its last response, it opens its windows, and the system would answer a
/// frame for a closed connection with a reset, which loses the end of the response.
async fn linger(mut carrier: Metered, within: Duration) {
    let until_closed = async {
        // `h2` has shut the stream down already, unless the connection failed. An error changes
        // nothing then.
        let _ = carrier.shutdown().await;
        let mut discarded = 0;
        while discarded < LINGER_BYTES_MAX {
            match poll_fn(|context| carrier.poll_discard(context)).await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => discarded += bytes,
            }
        }
    };
    // A client that is slower than this may lose its response.
    let _ = tokio::time::timeout(within, until_closed).await;
}

fn builder(limits: &EdgeLimits) -> Builder {
    let mut builder = Builder::new();
    let head_bytes_max = limits.request_head_bytes_max + FIELD_OVERHEAD_BYTES * limits.request_fields_max;
    builder
        .max_concurrent_streams(limits.http2_streams_max as u32)
        .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .initial_window_size(Windows::STREAM_BYTES)
        .enable_connect_protocol();
    builder
}

impl Session {
    fn cells(&self) -> &Cells {
        self.shared.cells(self.index)
    }

    /// Makes progress with everything; ready when the connection has ended.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        stop: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
    ) -> Poll<()> {
        self.carrier.begin_turn();
        self.poll_accept(context);
        if self.carrier.poll_sent(context).is_ready() || self.has_ended {
            self.streams.order.begin_round(self.has_ended);
        }
        for accepted in std::mem::take(&mut self.accepted) {
            self.begin(accepted, context);
        }
        while let Poll::Ready(Some(_)) = self.requests.poll_join_next(context) {}
        self.count_bytes();
        if self.is_abused() {
            self.cells().count(Metric::Http2Floods);
            self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            // The frame that says so is sent if the system accepts it now.
            let _ = self.connection.poll_closed(context);
            return Poll::Ready(());
        }
        self.poll_end(context, stop)
    }

    /// Reads and writes frames, and collects the requests that have arrived.
    fn poll_accept(&mut self, context: &mut Context<'_>) {
        while !self.has_ended {
            match self.connection.poll_accept(context) {
                Poll::Ready(Some(Ok(accepted))) => self.accepted.push(accepted),
                Poll::Ready(Some(Err(error))) => {
                    if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
                        self.cells().count(Metric::Http2Floods);
                    }
                    if error.is_io() {
                        // After a failed write, `h2` has not told the streams, and their tasks
                        // would wait for a window. It tells them when a read fails.
                        self.carrier.break_off();
                        let _ = self.connection.poll_closed(context);
                    }
                    self.has_ended = true;
                }
                Poll::Ready(None) => self.has_ended = true,
                Poll::Pending => return,
            }
        }
    }

    /// Ready when the connection has ended, was idle for too long, or has left.
    fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        stop: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
    ) -> Poll<()> {
        if !self.is_leaving && stop.poll(context).is_ready() {
            self.leave(context);
        }
        if !self.requests.is_empty() {
            self.patience.reset();
            return Poll::Pending;
        }
        if self.has_ended {
            return Poll::Ready(());
        }
        // The responses have ended, but the client may still read their last bytes.
        let is_sending = self.connection.has_streams();
        let limit = match self.is_leaving {
            true if is_sending => self.shared.limits.write_timeout,
            true => GOODBYE,
            false => self.shared.limits.idle_timeout,
        };
        if self.patience.poll_over(context, limit).is_pending() {
            return Poll::Pending;
        }
        if self.is_leaving {
            return Poll::Ready(());
        }
        self.leave(context);
        Poll::Pending
    }

    /// Tells the client to send no more requests (RFC 9113 section 6.8).
    fn leave(&mut self, context: &Context<'_>) {
        self.is_leaving = true;
        self.patience.reset();
        self.connection.graceful_shutdown();
        // The frame is sent by the next poll, and so is the patience registered.
        context.waker().wake_by_ref();
    }

    /// Begins a request. Most are answered at once; the others get a task.
    fn begin(&mut self, (request, respond): Accepted, context: &mut Context<'_>) {
        let (parts, receive) = request.into_parts();
        let mut respond = respond;
        self.usage.requests += 1;
        // The client may have reset the stream in the bytes that were read with the head. This
        // request must not cost a fetch.
        if respond.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.usage.requests_withdrawn += 1;
            return self.cells().count(Metric::VisitorsGone);
        }
        if !self.is_leaving {
            self.patience.reset();
        }
        if !self.shared.is_current() {
            self.shared = self.shared.current();
        }
        let limits = head_limits(&self.shared.limits);
        let translated = translate(&parts, !receive.is_end_stream(), &limits, || nonce(&self.shared));
        let translated = match translated {
            Ok(translated) => translated,
            Err(fault) => return self.refuse(fault, &parts.method, (receive, respond)),
        };
        let Translated { request, is_tunnel, head_bytes } = translated;
        self.usage.head_bytes += head_bytes as u64;
        if is_tunnel || !matches!(request.framing, BodyFraming::Empty) {
            self.usage.requests_with_content += 1;
        }
        if !matches!(request.framing, BodyFraming::Empty) && self.windows.grow(request.framing) {
            self.connection.set_target_window_size(Windows::GROWN_BYTES);
            self.usage.window_bytes = Windows::GROWN_BYTES.into();
        }
        let is_misdirected = self.is_misdirected(&request) && !is_silenced(&self.shared, &request.head);
        let refusal = is_misdirected.then(Refusal::misdirected);
        let priority = Priority::of_request(&request.head.fields);
        let wire = Http2Wire::new((receive, respond), &self.streams, priority, is_tunnel);
        let limits = Arc::clone(&self.shared.limits);
        let mut client = ClientConnection::http2(wire, self.arrival, limits, request.expect_continue);
        let (shared, index) = (Arc::clone(&self.shared), self.index);
        // A block owns the client, because the future of a function that takes it by value stores
        // it twice.
        let mut answering = Box::pin(async move {
            let after = match refusal {
                None => Box::pin(pipeline::run(&shared, index, &mut client, &request)).await,
                Some(refusal) => {
                    Box::pin(say(&shared, index, client, &request.head.method, refusal)).await;
                    return;
                }
            };
            match after {
                AfterResponse::Keep | AfterResponse::Close | AfterResponse::Linger => {}
                AfterResponse::Gone => client.abandon(),
                AfterResponse::Tunnel(stream, early) => {
                    let idle_timeout = shared.limits.tunnel_idle_timeout;
                    let tunnel = tunnel(client.into_tunnel(), (stream, early), idle_timeout);
                    let _ = Box::pin(shared.until_streams_end(shared.cells(index), tunnel)).await;
                }
            }
        });
        if answering.as_mut().poll(context).is_pending() {
            self.requests.spawn(answering);
        }
    }

    /// Answers a request that cannot be read, or ends its stream.
    fn refuse(
        &mut self,
        fault: RequestFault,
        method: &http::Method,
        (receive, mut respond): (RecvStream, SendResponse<Bytes>),
    ) {
        self.cells().count(Metric::RequestsMalformed);
        match fault {
            RequestFault::Malformed => respond.send_reset(Reason::PROTOCOL_ERROR),
            RequestFault::Refused(error) => {
                let wire = Http2Wire::new((receive, respond), &self.streams, Priority::default(), false);
                let limits = Arc::clone(&self.shared.limits);
                let client = ClientConnection::http2(wire, self.arrival, limits, false);
                let shared = Arc::clone(&self.shared);
                let refusal = Refusal::malformed(error);
                let method = Method::from_token(method.as_str().as_bytes());
                let index = self.index;
                self.requests.spawn(async move { say(&shared, index, client, &method, refusal).await });
            }
        }
    }

    /// Whether the request is for a host that the certificate of this connection is not for (RFC
    /// 9113 section 9.1.1). The host that the client named may be served by a wrong certificate:
    /// the client has accepted it.
    fn is_misdirected(&self, request: &Request) -> bool {
        let Some(tls) = self.shared.listeners.tls(self.arrival.listener) else { return false };
        let host = h1::EffectiveAuthority::of(&request.head).map(|effective| effective.authority);
        let Some(host) = host.and_then(host_of) else { return false };
        match &self.named {
            Some(named) => {
                !host.eq_ignore_ascii_case(named) && !tls.is_for_both(named, &host.to_ascii_lowercase())
            }
            None => host.parse::<IpAddr>().is_err() && !tls.is_for_both("", &host.to_ascii_lowercase()),
        }
    }

    /// Whether the client uses the connection to cause work.
    fn is_abused(&mut self) -> bool {
        self.usage.age = self.shared.clock.monotonic().since(self.begun);
        self.usage.content_bytes = self.streams.meter.read();
        // Streams that the client has reset do not count for `h2`, but their requests still run.
        self.usage.is_a_flood() || self.requests.len() > 2 * self.shared.limits.http2_streams_max
    }

    /// Counts the bytes since the last call.
    fn count_bytes(&mut self) {
        let (received, sent) = self.carrier.read();
        self.cells().add(Metric::BytesReceived, received - self.counted.0);
        self.cells().add(Metric::BytesSent, sent - self.counted.1);
        self.counted = (received, sent);
        (self.usage.received_bytes, self.usage.sent_bytes) = (received, sent);
    }
}

/// The host in an authority, without its port and the brackets of an IPv6 address.
fn host_of(authority: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(authority).ok()?;
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => text.split(':').next()?,
    };
    // The name in the handshake has no final dot (RFC 6066 section 3).
    Some(host.strip_suffix('.').unwrap_or(host))
}

/// The random part of a handshake for WebSocket: 16 bytes in base64 (RFC 6455 section 4.1). It
/// tells caches from WebSocket servers and needs no secrecy.
fn nonce(shared: &Shared) -> String {
    let digits = format!("{:022x}", shared.clock.monotonic().as_nanos() as u128);
    // The last digit of 22 holds 4 bits, the others 6.
    format!("{}A==", digits.get(..21).unwrap_or_default())
}

/// Answers a request that runs through no step.
async fn say(shared: &Shared, index: usize, mut client: ClientConnection, method: &Method, refusal: Refusal) {
    let recipient = Recipient::new(method, Version::Http11, true);
    let (written, page) = respond::write_refusal(&refusal, shared.clock.now(), recipient);
    client.push_head(&written);
    client.push(page);
    shared.sites.measures().no_site().count(index, refusal.reason);
    // A departed client does not need the answer.
    let _ = client.flush().await;
}
