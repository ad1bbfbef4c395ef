//! A connection that carries several requests at a time: the common part of these protocols. It
//! connects, keeps the requests that are not sent, and keeps results until the worker takes them.
//! The protocol itself is a [`Layer`].
//!
//! Invariant: a request waits here, is in the layer, or is in a result, and in only one of them.

use super::dialling::{HandshakeResult, establish};
use super::socket::{CountedSocket, Octets, Socket};
use super::wakes::{CONNECTION, Wakes};
use super::{ConnectError, ConnectionState, PendingRequest, Readiness, Tools, Transport, TransportEvent};
use crate::exchange::ExchangeTimes;
use crate::reader::ResponseSummary;
use clock::Monotonic;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A protocol with several requests at a time, on an established connection.
pub(crate) trait Layer: Sized + 'static {
    /// Whether the server must agree to HTTP/2.
    const IS_HTTP2: bool;

    /// Begins the protocol.
    fn begin(wire: CountedSocket) -> impl Future<Output = Result<Self, ConnectError>> + Send;

    /// Makes as much progress as the bytes of one turn allow.
    ///
    /// # Errors
    /// If the connection has ended and the server never began to speak the protocol. The
    /// connection then still holds its requests.
    fn turn(&mut self, queue: &mut ConnectionQueue, tools: &mut Tools<'_>) -> Result<(), ConnectError>;

    /// Whether the server has proven that it speaks the protocol.
    fn is_proven(&self, octets: &Octets) -> bool;

    /// Number of requests sent and not ended.
    fn len(&self) -> usize;

    /// The requests sent and not ended.
    fn under_way(&self) -> impl Iterator<Item = &ExchangeTimes>;

    /// Fails requests that have taken at least `limit`.
    fn expire(&mut self, queue: &mut ConnectionQueue, now: Monotonic, limit: Duration, tools: &Tools<'_>);
}

/// A connection and the requests on it.
pub(crate) struct Multiplexed<L> {
    stage: ConnectionStage<L>,
    queue: ConnectionQueue,
    /// Whether it belongs to the measured part.
    is_measured: bool,
}

/// The stage of a connection.
enum ConnectionStage<L> {
    Dialling(Dialling<L>),
    Established(L),
}

/// A connection being established.
type Dialling<L> = Pin<Box<dyn Future<Output = Result<(L, Option<HandshakeResult>), ConnectError>> + Send>>;

/// Requests before they are sent, results after they ended, and the state of the connection.
pub(crate) struct ConnectionQueue {
    /// Requests that have not been sent.
    pub(super) waiting: VecDeque<PendingRequest>,
    /// Results that the worker has not taken yet.
    pub(super) events: VecDeque<TransportEvent>,
    pub(super) octets: Arc<Octets>,
    pub(super) wakes: Arc<Wakes>,
    /// Waker of the connection itself.
    pub(super) waker: Waker,
    /// Recycled buffer for the woken parts of the connection.
    pub(super) woken: Vec<usize>,
    /// Complete responses so far.
    pub(super) answers: u64,
    pub(super) state: ConnectionState,
}

impl ConnectionQueue {
    /// Keeps a complete response that was read at `end`.
    pub(super) fn answered(&mut self, pending: PendingRequest, answer: ResponseSummary, end: Monotonic) {
        self.answers += 1;
        self.events.push_back(TransportEvent::Answered(pending, answer, end));
    }
}

impl<L: Layer> Multiplexed<L> {
    /// Continues to establish the connection.
    fn dial(&mut self, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        let ConnectionStage::Dialling(dialling) = &mut self.stage else { return Ok(()) };
        let ConnectionQueue { waiting, octets, wakes, waker, woken, .. } = &mut self.queue;
        let was_established = octets.is_established();
        let (stamp_before, read_at) = (octets.stamp(), tools.clock.monotonic());
        let made = loop {
            woken.clear();
            match dialling.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Pending if wakes.take(woken) => {}
                other => break other,
            }
        };
        let now = tools.clock.monotonic();
        let stamp = octets.stamp();
        if stamp != stamp_before {
            // These are bytes of a handshake. The time that TLS takes to process them is not part
            // of their wait.
            for PendingRequest { exchange, .. } in waiting.iter_mut() {
                exchange.receive(tools.came(stamp, exchange, read_at), read_at);
            }
        }
        if !was_established && octets.is_established() {
            waiting.iter_mut().for_each(|pending| pending.exchange.established = now);
        }
        let Poll::Ready(made) = made else { return Ok(()) };
        let (layer, secured) = made?;
        if let (Some(secured), Some(tls)) = (secured, &tools.tls) {
            tools.recorder.resumed += u64::from(self.is_measured && secured.is_resumed);
            tls.note_agreement(|| secured.agreement);
        }
        waiting.iter_mut().for_each(|pending| pending.exchange.connected = now);
        self.stage = ConnectionStage::Established(layer);
        Ok(())
    }

    fn work(&mut self, tools: &mut Tools<'_>) -> Result<(), ConnectError> {
        self.dial(tools)?;
        match &mut self.stage {
            ConnectionStage::Dialling(_) => Ok(()),
            ConnectionStage::Established(layer) => layer.turn(&mut self.queue, tools),
        }
    }

    fn layer(&self) -> Option<&L> {
        match &self.stage {
            ConnectionStage::Dialling(_) => None,
            ConnectionStage::Established(layer) => Some(layer),
        }
    }
}

impl<L: Layer> Transport for Multiplexed<L> {
    fn open(stream: TcpStream, _: SocketAddr, first: &ExchangeTimes, tools: &Tools<'_>) -> Self {
        // The error is ignored: without the option a run is slower, not wrong.
        let _ = stream.set_nodelay(true);
        let octets = Arc::new(Octets::default());
        let securing = tools.tls.as_ref().and_then(|tls| tls.connector(first.url));
        let wakes = Arc::<Wakes>::default();
        let socket = Socket { stream, octets: Arc::clone(&octets) };
        let dialling = async move {
            let (wire, secured) = establish(socket, securing, L::IS_HTTP2).await?;
            Ok::<_, ConnectError>((L::begin(wire).await?, secured))
        };
        Self {
            stage: ConnectionStage::Dialling(Box::pin(dialling)),
            queue: ConnectionQueue {
                waiting: VecDeque::new(),
                events: VecDeque::new(),
                octets,
                waker: wakes.waker(CONNECTION),
                wakes,
                woken: Vec::new(),
                answers: 0,
                state: ConnectionState::Open,
            },
            is_measured: first.measured,
        }
    }

    /// A multiplexed connection is worth more than its socket, so its socket is never used again.
    fn renew(&mut self, _: SocketAddr, _: &ExchangeTimes, _: &Tools<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn ask(&mut self, pending: PendingRequest, _: &mut Tools<'_>) {
        self.queue.waiting.push_back(pending);
    }

    fn turn(&mut self, _: Readiness, tools: &mut Tools<'_>) -> bool {
        self.queue.octets.begin_turn();
        if let Err(error) = self.work(tools) {
            self.queue.events.push_back(TransportEvent::Unconnected(error));
        }
        let (received, sent) = self.queue.octets.take();
        if tools.recorder.counters.started > 0 {
            tools.recorder.counters.received_bytes += received;
            tools.recorder.sent_bytes += sent;
        }
        self.queue.octets.is_turn_over()
    }

    fn has_work(&self) -> bool {
        !self.queue.waiting.is_empty() || !self.queue.events.is_empty()
    }

    fn next_event(&mut self) -> Option<TransportEvent> {
        self.queue.events.pop_front()
    }

    fn is_connected(&self) -> bool {
        self.layer().is_some()
    }

    fn is_proven(&self) -> bool {
        self.layer().is_some_and(|layer| layer.is_proven(&self.queue.octets))
    }

    fn state(&self) -> ConnectionState {
        self.queue.state
    }

    fn load(&self) -> usize {
        let sent = self.layer().map_or(0, Layer::len);
        sent + self.queue.waiting.len() + self.queue.events.len()
    }

    fn under_way(&self) -> impl Iterator<Item = &ExchangeTimes> {
        let ended = self.queue.events.iter().filter_map(|event| match event {
            TransportEvent::Answered(pending, ..)
            | TransportEvent::Failed(pending, ..)
            | TransportEvent::Returned(pending) => Some(&pending.exchange),
            TransportEvent::Unconnected(_) => None,
        });
        let waiting = self.queue.waiting.iter().map(|pending| &pending.exchange);
        waiting.chain(ended).chain(self.layer().into_iter().flat_map(Layer::under_way))
    }

    fn expire(&mut self, now: Monotonic, limit: Duration, tools: &Tools<'_>) {
        if let ConnectionStage::Established(layer) = &mut self.stage {
            layer.expire(&mut self.queue, now, limit, tools);
        }
    }

    fn give_up(&mut self) -> VecDeque<PendingRequest> {
        self.queue.state = ConnectionState::Broken;
        std::mem::take(&mut self.queue.waiting)
    }

    fn last_look(
        &mut self,
        _: Monotonic,
        tools: &mut Tools<'_>,
        mut tell: impl FnMut(&ExchangeTimes, Option<Monotonic>),
    ) {
        // Requests that cannot be read any more stay unfinished.
        self.turn(Readiness::default(), tools);
        for event in &self.queue.events {
            match event {
                TransportEvent::Answered(pending, ..) => {
                    tell(&pending.exchange, Some(pending.exchange.last_octet))
                }
                TransportEvent::Failed(pending, ..) | TransportEvent::Returned(pending) => {
                    tell(&pending.exchange, None)
                }
                TransportEvent::Unconnected(_) => {}
            }
        }
        let waiting = self.queue.waiting.iter().map(|pending| &pending.exchange);
        let sent = self.layer().into_iter().flat_map(Layer::under_way);
        waiting.chain(sent).for_each(|exchange| tell(exchange, None));
    }
}
