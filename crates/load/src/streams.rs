//! A connection that carries several requests at once: over HTTP/2, or with pipelining over HTTP/1.1. It makes
//! itself, sends what it is asked to, and says what came of each request. It decides nothing about what happens next;
//! the worker does, as it does for connections with one request at a time.
//!
//! Invariant: of every request that it takes it gives back exactly one [`Came`], or keeps it to the end of the run.
//! Nothing here waits: a connection goes on when its socket has an event, or when it is asked for more.

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
use crate::outcome::FailureKind;
use crate::plan::{Plan, PlanError, WeightedTarget};
use crate::reader::Answer;
use crate::request::fields;
use crate::routes::Routes;
use crate::wire::Protocol;
use bytes::Bytes;
use dialling::{Made, Spoken, make};
use http::Request;
use http2::Http2;
use mio::net::TcpStream;
use pipeline::Line;
use platform::Monotonic;
use socket::{Greeting, Octets, Socket};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wakes::{CONNECTION, Wakes};

/// What such connections of one thread share.
#[derive(Debug, Default)]
pub(crate) struct Several {
    pub(crate) http: Protocol,
    pub(crate) keep_alive: bool,
    /// The requests of HTTP/2, one for each URL.
    pub(crate) requests: Vec<Request<()>>,
    /// What every request carries.
    pub(crate) content: Bytes,
    /// The first head of HTTP/2 that was seen, in the form of HTTP/1.
    pub(crate) first_head: Vec<u8>,
}

/// A request that a connection is asked to send.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) exchange: Exchange,
    /// How to look at the content of its answer.
    pub(crate) inspection: Inspection,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Came {
    /// A complete answer, which was read at that moment.
    Answered(Asked, Answer, Monotonic),
    /// It failed.
    Failed(Asked, FailureKind),
    /// The server has not looked at it and will not on this connection.
    Unseen(Asked),
}

/// A connection and the requests on it.
pub(crate) struct Carrier {
    state: State,
    /// Requests that are not begun with.
    waiting: VecDeque<Asked>,
    /// What came of others; the worker takes it.
    came: VecDeque<Came>,
    octets: Arc<Octets>,
    wakes: Arc<Wakes>,
    /// What wakes the connection itself.
    waker: Waker,
    woken: Vec<usize>,
    /// Whether it belongs to the measured part.
    is_measured: bool,
    /// Whether the worker will turn to it.
    pub(crate) is_stirred: bool,
    /// Users who think and come back to it.
    pub(crate) held: usize,
    /// Until when it stays open although nobody uses it.
    pub(crate) lingers_until: Option<Monotonic>,
    /// Complete answers so far.
    answers: u64,
    /// Whether it may be asked for more.
    is_open: bool,
}

/// How far a connection is.
enum State {
    Dialling(Dialling),
    H2(Http2),
    Line(Line),
}

/// A connection that is being made.
type Dialling = Pin<Box<dyn Future<Output = Result<Made, ConnectError>> + Send>>;

impl Several {
    /// What the plan's connections need.
    ///
    /// # Errors
    /// A request that HTTP/2 cannot express.
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
    /// The connection that is being made by a socket, to the URL of `first`.
    pub(crate) fn new(stream: TcpStream, first: &Exchange, tools: &Tools<'_>) -> Self {
        // Without it the run is slower, not wrong.
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

    /// Takes a request to be sent at the next turn.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// What came of the request that was done with first.
    pub(crate) fn next_came(&mut self) -> Option<Came> {
        self.came.pop_front()
    }

    /// Requests whose answers have come and that the worker has not taken.
    pub(crate) fn with_answers(&self) -> impl Iterator<Item = &Exchange> {
        self.came.iter().filter_map(|came| match came {
            Came::Answered(asked, ..) => Some(&asked.exchange),
            Came::Failed(..) | Came::Unseen(_) => None,
        })
    }

    /// Whether it stands.
    pub(crate) fn is_connected(&self) -> bool {
        !matches!(self.state, State::Dialling(_))
    }

    /// Whether the server has shown that it is one for such connections.
    pub(crate) fn is_proven(&self) -> bool {
        match self.state {
            State::Dialling(_) => false,
            State::H2(_) => self.octets.greeting() == Some(Greeting::Settings),
            State::Line(_) => true,
        }
    }

    /// Whether it may be asked for more.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Lets it carry nothing more than what it has.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// Requests that it has taken and not given back.
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

    /// How many requests it has, and users who think.
    pub(crate) fn load(&self) -> usize {
        let sent = match &self.state {
            State::Dialling(_) => 0,
            State::H2(http2) => http2.len(),
            State::Line(line) => line.len(),
        };
        sent + self.waiting.len() + self.came.len() + self.held
    }

    /// Goes on as far as possible.
    ///
    /// # Errors
    /// If it cannot be made, or the server turns out not to speak the protocol; its requests are still its own.
    pub(crate) fn turn(&mut self, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
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

    /// Goes on making the connection.
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
            // Octets of a handshake. What TLS does with them is no part of the time for which they waited.
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
            Spoken::Http1(wire) => State::Line(Line::new(wire)),
        };
        Ok(())
    }

    /// Gives up what has been under way for as long as the time limit; says whether there was anything.
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

    /// Takes all requests of a connection that could not be made.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Asked> {
        self.is_open = false;
        std::mem::take(&mut self.waiting)
    }
}

/// The plan's request in the form of HTTP/2 (RFC 9113 section 8.3): the host is in the address, and connections are
/// nothing that a request speaks of.
fn request(plan: &Plan, of: &WeightedTarget) -> Result<Request<()>, PlanError> {
    let target = &of.target;
    let fields = fields(plan, target, &of.cookies);
    let scheme = if target.is_secure() { "https" } else { "http" };
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let host =
        fields.iter().rfind(|(name, _)| is_host(name)).map(|(_, value)| value.as_str()).unwrap_or_default();
    let uri = format!("{scheme}://{host}{}", target.path());
    let mut request = Request::builder().method(plan.method.as_bytes()).uri(uri);
    for (name, value) in fields.iter().filter(|(name, _)| !is_host(name) && !is_of_connections(name)) {
        request = request.header(name, value);
    }
    request.body(()).map_err(|error| PlanError::NotHttp2(error.to_string()))
}

/// Whether a field is about the connection, which HTTP/2 has no fields for (RFC 9113 section 8.2.2).
fn is_of_connections(name: &str) -> bool {
    let fields = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    fields.iter().any(|field| name.eq_ignore_ascii_case(field))
}
