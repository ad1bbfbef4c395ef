//! The collector of traces: a server that receives spans by OTLP over HTTP, and misbehaves.
//!
//! Invariant: each complete message is judged. What the collector accepts is recorded before its
//! response is sent.

use crate::body::CountedBody;
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::rules::Rule;
use crate::send::{Connection, Failure};
use crate::site::lock;
use crate::spans::{Span, spans};
use bytes::BytesMut;
use h1::{BodyDecoder, Decoded, Limits, Request, Strictness, parse_request};
use message::Method;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use world::Random;

/// Longest time for which a collector that never answers keeps its connection.
const HANG_MAX: Duration = Duration::from_secs(900);

/// How the collector treats a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    Accepts,
    /// It accepts all spans but the last one.
    AcceptsPart,
    Refuses,
    /// Status 503, with `Retry-After` in seconds.
    IsBusy(u64),
    /// It reads the message and never answers.
    Hangs,
    /// It never reads.
    HangsAtOnce,
    ClosesAtOnce,
    ClosesAfterReading,
    /// The response is no HTTP.
    Stammers,
    /// The response is longer than anyone reads.
    IsEndless,
}

impl Conduct {
    fn random(random: &mut Random) -> Self {
        match random.below(16) {
            0..6 => Self::Accepts,
            6 => Self::AcceptsPart,
            7 => Self::Refuses,
            8 => Self::IsBusy(1),
            9 => Self::IsBusy(90),
            10 => Self::Hangs,
            11 => Self::HangsAtOnce,
            12 => Self::ClosesAtOnce,
            13 => Self::ClosesAfterReading,
            14 => Self::Stammers,
            _ => Self::IsEndless,
        }
    }
}

/// A collector. Clones are the same collector.
#[derive(Clone, Debug)]
pub struct Collector {
    ledger: SharedLedger,
    timeline: Timeline,
    seed: u64,
    is_sound: bool,
    connections: Arc<AtomicU64>,
}

impl Collector {
    /// A collector whose conduct follows from `seed` and the number of the connection. One that
    /// `is_sound` accepts everything.
    pub fn new(ledger: SharedLedger, timeline: Timeline, seed: u64, is_sound: bool) -> Self {
        Self { ledger, timeline, seed, is_sound, connections: Arc::default() }
    }

    /// Serves one connection until it ends.
    pub async fn serve<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::fork(self.seed, "connection of the collector", number);
        let conduct = if self.is_sound { Conduct::Accepts } else { Conduct::random(&mut random) };
        let mut connection = Connection { stream, input: BytesMut::new(), random };
        if conduct == Conduct::ClosesAtOnce {
            return;
        }
        // The exporter may close its connection at any time. Nothing follows on it.
        let _ = self.exchange(&mut connection, conduct).await;
        connection.close().await;
    }

    async fn exchange<S>(&self, connection: &mut Connection<S>, conduct: Conduct) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if conduct == Conduct::HangsAtOnce {
            tokio::time::sleep(HANG_MAX).await;
            return Ok(());
        }
        let spans = self.receive(connection).await?;
        match conduct {
            Conduct::Accepts => {
                self.accept(&spans);
                respond(connection, "200 OK", "", b"").await
            }
            Conduct::AcceptsPart => {
                self.accept(spans.split_last().map_or(&[], |(_, others)| others));
                // The member `partial_success` with the number of spans that were rejected.
                respond(connection, "200 OK", "", &[0x0a, 2, 0x08, 1]).await
            }
            Conduct::Refuses => respond(connection, "400 Bad Request", "", b"no").await,
            Conduct::IsBusy(seconds) => {
                let field = format!("Retry-After: {seconds}\r\n");
                respond(connection, "503 Service Unavailable", &field, b"").await
            }
            Conduct::Hangs => connection.hang(HANG_MAX).await,
            Conduct::Stammers => connection.send_garbage().await,
            Conduct::IsEndless => respond(connection, "200 OK", "", &vec![b'x'; 200_000]).await,
            Conduct::ClosesAtOnce | Conduct::ClosesAfterReading | Conduct::HangsAtOnce => Ok(()),
        }
    }

    /// Receives a message and judges it. Returns its spans.
    async fn receive<S>(&self, connection: &mut Connection<S>) -> Result<Vec<Span>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = loop {
            match parse_request(&mut connection.input, &Limits::DEFAULT, Strictness::Strict) {
                Ok(Some(request)) => break request,
                Ok(None) => connection.receive().await?,
                Err(error) => return Ok(self.complain(&format!("a malformed request: {error}"))),
            }
        };
        let mut decoder = BodyDecoder::new(request.framing);
        let mut body = CountedBody::new(lock(&self.ledger).memory());
        loop {
            match decoder.decode(&mut connection.input) {
                Ok(Decoded::NeedMore) => connection.receive().await?,
                Ok(Decoded::Data(octets)) => body.push(&octets),
                Ok(Decoded::End(_)) => break,
                Err(error) => return Ok(self.complain(&format!("a malformed body: {error}"))),
            }
        }
        if !is_export(&request) {
            return Ok(self.complain("a request that is no export"));
        }
        match spans(body.octets()) {
            Some(spans) if !spans.is_empty() => {
                lock(&self.ledger).spans_arrive(self.timeline.now(), &spans);
                Ok(spans)
            }
            _ => Ok(self.complain("a message that is no list of spans")),
        }
    }

    fn accept(&self, spans: &[Span]) {
        lock(&self.ledger).spans_accepted(self.timeline.now(), spans);
    }

    /// Records a fault of the exporter, whose message has no spans.
    fn complain(&self, text: &str) -> Vec<Span> {
        let at = self.timeline.now();
        lock(&self.ledger).violate(Rule::Tracing, at, format!("the collector received {text}"));
        Vec::new()
    }
}

fn is_export(request: &Request) -> bool {
    let has_type =
        request.head.fields.first("Content-Type").is_some_and(|own| &own[..] == b"application/x-protobuf");
    request.head.method == Method::Post && &request.head.target[..] == b"/v1/traces" && has_type
}

async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<S>,
    status: &str,
    fields: &str,
    body: &[u8],
) -> Result<(), Failure> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    connection.send(head.as_bytes()).await?;
    connection.send(body).await
}
