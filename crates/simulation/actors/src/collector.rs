//! The collector of traces: a server that receives spans by OTLP over HTTP, and misbehaves.
//!
//! Invariant: each complete message is well-formed as far as its framing shows. What the collector
//! has accepted is counted before its response is sent.

use crate::body::CountedBody;
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::rules::Rule;
use crate::send::{Connection, Failure};
use crate::site::lock;
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
    /// It accepts all spans but one.
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
    connections: Arc<AtomicU64>,
    accepted: Arc<AtomicU64>,
}

impl Collector {
    /// A collector whose conduct follows from `seed` and the number of the connection.
    pub fn new(ledger: SharedLedger, timeline: Timeline, seed: u64) -> Self {
        Self { ledger, timeline, seed, connections: Arc::default(), accepted: Arc::default() }
    }

    /// The number of spans that it has accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Serves one connection until it ends.
    pub async fn serve<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::fork(self.seed, "connection of the collector", number);
        let conduct = Conduct::random(&mut random);
        let mut connection = Connection { stream, input: BytesMut::new(), random };
        if conduct == Conduct::ClosesAtOnce {
            return;
        }
        // Whatever the exporter does with its connection, nothing follows on it.
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
                self.accepted.fetch_add(spans, Ordering::Relaxed);
                respond(connection, "200 OK", "", b"").await
            }
            Conduct::AcceptsPart => {
                self.accepted.fetch_add(spans.saturating_sub(1), Ordering::Relaxed);
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

    /// Receives a message and judges it. Returns the number of its spans.
    async fn receive<S>(&self, connection: &mut Connection<S>) -> Result<u64, Failure>
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
            Some(spans) if spans > 0 => {
                let at = self.timeline.now();
                lock(&self.ledger).note(at, || format!("the collector receives {spans} spans"));
                Ok(spans)
            }
            _ => Ok(self.complain("a message that is no list of spans")),
        }
    }

    /// Records a fault of the exporter, whose message has no spans.
    fn complain(&self, text: &str) -> u64 {
        let at = self.timeline.now();
        lock(&self.ledger).violate(Rule::Integrity, at, format!("the collector received {text}"));
        0
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

/// A field of a message in Protocol Buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number,
    /// A number of eight bytes.
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The number of spans in an `ExportTraceServiceRequest`; `None` if it is not well-formed.
fn spans(message: &[u8]) -> Option<u64> {
    let mut spans = 0;
    for (number, of_resource) in fields(message)? {
        let (1, Field::Bytes(of_resource)) = (number, of_resource) else { return None };
        let parts = fields(of_resource)?;
        // The resource comes first.
        let (1, Field::Bytes(resource)) = parts.first()? else { return None };
        fields(resource)?;
        for (number, part) in parts.get(1..)? {
            let (2, Field::Bytes(of_scope)) = (number, part) else { return None };
            for (number, part) in fields(of_scope)? {
                match (number, part) {
                    (1, Field::Bytes(scope)) => drop(fields(scope)?),
                    (2, Field::Bytes(span)) if is_span(span) => spans += 1,
                    _ => return None,
                }
            }
        }
    }
    Some(spans)
}

/// Whether a message is a span: it has identifiers of the right lengths, a name, and ends after it
/// begins.
fn is_span(message: &[u8]) -> bool {
    let Some(all) = fields(message) else { return false };
    let of = |wanted: u64| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| *field);
    let has_bytes =
        |wanted, bytes: usize| matches!(of(wanted), Some(Field::Bytes(own)) if own.len() == bytes);
    let is_named =
        matches!(of(5), Some(Field::Bytes(name)) if !name.is_empty() && std::str::from_utf8(name).is_ok());
    let is_timed = matches!((of(7), of(8)), (Some(Field::Fixed(begun)), Some(Field::Fixed(ended)))
        if 0 < begun && begun <= ended);
    let has_parent = of(4).is_none() || has_bytes(4, 8);
    has_bytes(1, 16) && has_bytes(2, 8) && has_parent && is_named && is_timed
}

/// The fields of a message with their numbers; `None` if it is not well-formed.
fn fields(message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = match tag & 7 {
            0 => varint(&mut rest).map(|_| Field::Number)?,
            1 => Field::Fixed(u64::from_le_bytes(taken(&mut rest, 8)?.try_into().ok()?)),
            2 => {
                let bytes = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(taken(&mut rest, bytes)?)
            }
            5 => taken(&mut rest, 4).map(|_| Field::Number)?,
            _ => return None,
        };
        found.push((tag >> 3, field));
    }
    Some(found)
}

fn taken<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (part, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(part)
}

/// A number in the form in which seven bits of it are in each byte.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *taken(rest, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::spans;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn message(begun: u8, ended: u8, span_id: &[u8]) -> Vec<u8> {
        let time = |number: u8, value: u8| [&[number << 3 | 1, value][..], &[0; 7]].concat();
        let name = field(5, b"GET");
        let span = [field(1, &[1; 16]), field(2, span_id), name, time(7, begun), time(8, ended)].concat();
        let of_scope = [field(1, &[]), field(2, &span)].concat();
        field(1, &[field(1, &[]), field(2, &of_scope)].concat())
    }

    #[test]
    fn only_whole_spans_are_counted() {
        let right = message(1, 2, &[1; 8]);
        assert_eq!(spans(&right), Some(1));
        assert_eq!(spans(&[right.clone(), right.clone()].concat()), Some(2));
        assert_eq!(spans(right.split_last().unwrap().1), None, "cut");
        assert_eq!(spans(&message(3, 2, &[1; 8])), None, "ends before it begins");
        assert_eq!(spans(&message(1, 2, &[1; 7])), None, "short identifier");
    }
}
