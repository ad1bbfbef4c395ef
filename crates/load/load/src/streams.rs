//! A connection that carries several requests at once: over HTTP/2, or with pipelining over
//! HTTP/1.1. It connects, sends requests, and reports the result of each. The worker decides what
//! happens next, as it does for connections with one request at a time.
//!
//! Invariant: for every request it takes, a connection returns exactly one [`Came`], or keeps the
//! request to the end of the run. Nothing here blocks: a connection continues when its socket has
//! an event or when it gets a request.

mod dialling;
mod exchange;
mod http2;
mod pipeline;
mod socket;
mod wakes;

pub(crate) use dialling::ConnectError;
pub use dialling::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

use crate::connection::Tools;
use crate::content::Inspection;
use crate::exchange::Exchange;
use crate::reader::Answer;
use crate::request::fields;
use crate::routes::Routes;
use bytes::Bytes;
use clock::Monotonic;
use dialling::{Made, Spoken, make};
use http::Request;
use http2::Http2;
use mio::net::TcpStream;
use pipeline::Line;
use record::{FailureKind, Plan, PlanError, Protocol, WeightedTarget};
use socket::{Greeting, Octets, Socket};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wakes::{CONNECTION, Wakes};

/// State that all connections of this kind in one thread share.
#[derive(Debug, Default)]
pub(crate) struct Several {
    pub(crate) http: Protocol,
    pub(crate) keep_alive: bool,
    /// The HTTP/2 requests, one for each URL.
    pub(crate) requests: Vec<Request<()>>,
    /// The content of every request.
    pub(crate) content: Bytes,
    /// The first HTTP/2 response head, in HTTP/1 form.
    pub(crate) first_head: Vec<u8>,
}

/// A request given to a connection.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) exchange: Exchange,
    /// How to inspect the content of its response.
    pub(crate) inspection: Inspection,
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Came {
    /// A complete response, and when it was read.
    Answered(Asked, Answer, Monotonic),
    /// The request failed.
    Failed(Asked, FailureKind),
    /// The server has not processed the request and will not do so on this connection.
    Unseen(Asked),
}

/// A connection and the requests on it.
pub(crate) struct Carrier {
    state: State,
    /// Requests that have not been started.
    waiting: VecDeque<Asked>,
    /// Results that the worker has not taken yet.
    came: VecDeque<Came>,
    octets: Arc<Octets>,
    wakes: Arc<Wakes>,
    /// Waker of the connection itself.
    waker: Waker,
    woken: Vec<usize>,
    /// Whether it belongs to the measured part.
    is_measured: bool,
    /// Whether it is on the worker's list of connections to process.
    pub(crate) is_stirred: bool,
    /// Users who think and have a place on this connection.
    pub(crate) held: usize,
    /// Until when it stays open without being used.
    pub(crate) lingers_until: Option<Monotonic>,
    /// Complete responses so far.
    answers: u64,
    /// Whether it may get more requests.
    is_open: bool,
}

/// The stage of a connection.
enum State {
    Dialling(Dialling),
    H2(Http2),
    Line(Box<Line>),
}

/// A connection that is being established.
type Dialling = Pin<Box<dyn Future<Output = Result<Made, ConnectError>> + Send>>;

impl Several {
    /// The shared state for the plan's connections.
    ///
    /// # Errors
    /// If a request cannot be expressed in HTTP/2.
    pub(crate) fn of(plan: &Plan, routes: &Routes) -> Result<Self, PlanError> {
        let urls = if plan.http == Protocol::H2 { &routes.urls[..] } else { &[] };
        let requests = urls.iter().map(|of| request(plan, of));
        Ok(Self {
            http: plan.http,
            keep_alive: plan.keep_alive,
            requests: requests.collect::<Result<_, _>>()?,
            content: plan.body.as_ref().map(|body| body.content.clone()).unwrap_or_default(),
            first_head: Vec::new(),
        })
    }
}

impl Carrier {
    /// A connection that is being established on `stream`, to the URL of `first`.
    pub(crate) fn new(stream: TcpStream, first: &Exchange, tools: &Tools<'_>) -> Self {
        // The error is ignored: without the option a run is slower, not wrong.
        let _ = stream.set_nodelay(true);
        let octets = Arc::new(Octets::default());
        let securing = tools.tls.as_ref().and_then(|tls| tls.connector(first.url));
        let wakes = Arc::<Wakes>::default();
        let dialling = make(Socket { stream, octets: Arc::clone(&octets) }, securing, tools.several.http);
        Self {
            state: State::Dialling(Box::pin(dialling)),
            waiting: VecDeque::new(),
            came: VecDeque::new(),
            octets,
            waker: wakes.waker(CONNECTION),
            wakes,
            woken: Vec::new(),
            is_measured: first.measured,
            is_stirred: false,
            held: 0,
            lingers_until: None,
            answers: 0,
            is_open: true,
        }
    }

    /// Takes a request, to be sent at the next turn.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// The next result, in the order in which requests ended.
    pub(crate) fn next_came(&mut self) -> Option<Came> {
        self.came.pop_front()
    }

    /// Requests whose responses have come but that the worker has not taken.
    pub(crate) fn with_answers(&self) -> impl Iterator<Item = &Exchange> {
        self.came.iter().filter_map(|came| match came {
            Came::Answered(asked, ..) => Some(&asked.exchange),
            Came::Failed(..) | Came::Unseen(_) => None,
        })
    }

    /// Whether the connection is established.
    pub(crate) fn is_connected(&self) -> bool {
        !matches!(self.state, State::Dialling(_))
    }

    /// Whether the server has proven that it speaks the protocol.
    pub(crate) fn is_proven(&self) -> bool {
        match self.state {
            State::Dialling(_) => false,
            State::H2(_) => self.octets.greeting() == Some(Greeting::Settings),
            State::Line(_) => true,
        }
    }

    /// Whether it may get more requests.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Accepts no further requests.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// Requests that it has taken and not yet returned.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        let (streams, line) = match &self.state {
            State::Dialling(_) => (None, None),
            State::H2(http2) => (Some(http2.under_way()), None),
            State::Line(line) => (None, Some(line.under_way())),
        };
        let came = self.came.iter().map(|came| match came {
            Came::Answered(asked, ..) | Came::Failed(asked, _) | Came::Unseen(asked) => &asked.exchange,
        });
        let waiting = self.waiting.iter().map(|asked| &asked.exchange);
        waiting.chain(came).chain(streams.into_iter().flatten()).chain(line.into_iter().flatten())
    }

    /// Number of requests on it, plus users who think and keep their place.
    pub(crate) fn load(&self) -> usize {
        let sent = match &self.state {
            State::Dialling(_) => 0,
            State::H2(http2) => http2.len(),
            State::Line(line) => line.len(),
        };
        sent + self.waiting.len() + self.came.len() + self.held
    }

    /// Whether the last turn may have left bytes unread. No event will tell.
    pub(crate) fn is_unread(&self) -> bool {
        self.octets.is_turn_over()
    }

    /// Makes as much progress as the bytes of one turn allow.
    ///
    /// # Errors
    /// If the connection cannot be established, or the server does not speak the protocol. The
    /// connection then still holds its requests.
    pub(crate) fn turn(&mut self, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        self.octets.begin_turn();
        let done = self.dial(tools).and_then(|()| match &mut self.state {
            State::Dialling(_) => Ok(()),
            State::H2(_) => self.turn_http2(tools),
            State::Line(_) => {
                self.turn_line(tools);
                Ok(())
            }
        });
        let (received, sent) = self.octets.take();
        if tools.recorder.counters.started > 0 {
            tools.recorder.counters.received_bytes += received;
            tools.recorder.sent_bytes += sent;
        }
        done
    }

    /// Continues to establish the connection.
    fn dial(&mut self, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        let State::Dialling(dialling) = &mut self.state else { return Ok(()) };
        let was_established = self.octets.is_established();
        let (stamp_before, read_at) = (self.octets.stamp(), tools.clock.monotonic());
        let made = loop {
            self.woken.clear();
            match dialling.as_mut().poll(&mut Context::from_waker(&self.waker)) {
                Poll::Pending if self.wakes.take(&mut self.woken) => {}
                other => break other,
            }
        };
        let now = tools.clock.monotonic();
        let stamp = self.octets.stamp();
        if stamp != stamp_before {
            // These are bytes of a handshake. The time that TLS takes to process them is not part
            // of their wait.
            for Asked { exchange, .. } in &mut self.waiting {
                exchange.receive(tools.came(stamp, exchange, read_at), read_at);
            }
        }
        if !was_established && self.octets.is_established() {
            self.waiting.iter_mut().for_each(|asked| asked.exchange.established = now);
        }
        let Poll::Ready(made) = made else { return Ok(()) };
        let Made { protocol, secured } = made?;
        if let (Some(secured), Some(tls)) = (secured, &tools.tls) {
            tools.recorder.resumed += u64::from(self.is_measured && secured.is_resumed);
            tls.note_agreement(|| secured.agreement);
        }
        self.waiting.iter_mut().for_each(|asked| asked.exchange.connected = now);
        self.state = match protocol {
            Spoken::H2(sender, connection) => State::H2(Http2::new(sender, connection)),
            Spoken::Http1(wire) => State::Line(Box::new(Line::new(wire))),
        };
        Ok(())
    }

    /// Fails requests that have taken at least `limit`. Returns whether there are results to take.
    pub(crate) fn expire(&mut self, now: Monotonic, limit: Duration, tools: &Tools<'_>) -> bool {
        let is_late = |exchange: &Exchange| now.since(exchange.started) >= limit;
        match &mut self.state {
            State::Dialling(_) => {}
            State::H2(http2) => {
                let late = http2.take_where(is_late).into_iter();
                self.came.extend(late.map(|asked| Came::Failed(asked, FailureKind::Timeout)));
            }
            State::Line(line) => {
                if line.under_way().next().is_some_and(is_late) {
                    self.end_line(pipeline::End::Broken(FailureKind::Timeout), tools.resendable);
                }
            }
        }
        !self.came.is_empty()
    }

    /// Takes all requests of a connection that could not be established.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Asked> {
        self.is_open = false;
        std::mem::take(&mut self.waiting)
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
    for (name, value) in fields.iter().filter(|(name, _)| !is_host(name) && !is_of_connections(name)) {
        request = request.header(name, value);
    }
    request.body(()).map_err(|error| PlanError::NotHttp2(error.to_string()))
}

/// Whether a field is specific to the connection and therefore not allowed in HTTP/2
/// (RFC 9113 section 8.2.2).
fn is_of_connections(name: &str) -> bool {
    let fields = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    fields.iter().any(|field| name.eq_ignore_ascii_case(field))
}
