//! A visitor that switches its connection to another protocol, as WebSocket clients do, and the
//! origin's side, which sends back what it receives.
//!
//! Invariant: what comes back is what was sent, in order and without a gap. The connection ends
//! only when the visitor ends it, unless a fault explains an earlier end.

use crate::ledger::SharedLedger;
use crate::moment::{Moment, Timeline};
use crate::rules::Rule;
use crate::send::{Connection, Failure};
use crate::site::lock;
use crate::stream_tunnel;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use world::Random;

/// The longest time that the visitor waits for the switch, and for a piece to come back.
const PATIENCE: Duration = Duration::from_secs(120);

/// The largest head of a response in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Largest number of pieces, and of bytes in one.
const PIECES_MAX: u64 = 8;
const PIECE_BYTES_MAX: u64 = 60_000;

/// The longest pause between two pieces in milliseconds, below the edge's limit for idle tunnels.
const PAUSE_MS_MAX: u64 = 10_000;

/// How often the tunnel is a stream of HTTP/2.
const MULTIPLEXED_PERCENT: u64 = 40;

/// The plan of a visitor that switches protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelPlan {
    /// The number of the visitor.
    pub number: u64,
    /// The pieces that it sends: the pause before each in milliseconds, and its bytes.
    pub pieces: Vec<(u64, usize)>,
    /// Whether it speaks HTTP/2.
    pub is_multiplexed: bool,
}

impl TunnelPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64) -> Self {
        let count = random.between(0, PIECES_MAX);
        let piece = |_| (random.below(PAUSE_MS_MAX), random.between(1, PIECE_BYTES_MAX) as usize);
        let pieces = (0..count).map(piece).collect();
        Self { number, pieces, is_multiplexed: random.percent(MULTIPLEXED_PERCENT) }
    }
}

impl fmt::Display for TunnelPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.is_multiplexed { "2" } else { "1.1" };
        write!(to, "visitor {} switches from HTTP/{version} and sends (ms, bytes):", self.number)?;
        self.pieces.iter().try_for_each(|(pause_ms, bytes)| write!(to, " ({pause_ms}, {bytes})"))?;
        to.write_str("\n")
    }
}

/// A visitor that carries out its plan.
pub struct Tunneller<C> {
    /// The plan.
    pub plan: TunnelPlan,
    /// The host name of the site.
    pub host: String,
    /// Where the end is judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the visitors' address. `None` means that no connection can be made.
    pub connect: C,
}

/// Why a tunnel did not do its work.
enum Broken {
    /// There was none, or it ended early. A fault may explain it.
    Ended(String),
    /// Other bytes came back than were sent.
    Mixed(String),
}

impl<S, C> Tunneller<C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        let begun = self.timeline.now();
        let Some(stream) = (self.connect)() else { return };
        let done = match self.plan.is_multiplexed {
            true => match timeout(PATIENCE, stream_tunnel::open(stream, &self.host)).await {
                Ok(Ok(tunnel)) => self.converse(tunnel).await,
                Ok(Err(text)) => Err(Broken::Ended(text)),
                Err(_) => Err(Broken::Ended("the switch is not answered".to_owned())),
            },
            false => match self.switch(stream).await {
                Ok(tunnel) => self.converse(tunnel).await,
                Err(broken) => Err(broken),
            },
        };
        self.judge(begun, done.err());
    }

    /// Switches a connection with HTTP/1.1.
    async fn switch(&self, mut stream: S) -> Result<S, Broken> {
        let text = format!(
            "GET /tunnel HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            self.host
        );
        stream.write_all(text.as_bytes()).await.map_err(ended("the request"))?;
        stream.flush().await.map_err(ended("the request"))?;
        read_switch(&mut stream).await?;
        Ok(stream)
    }

    async fn converse(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), Broken> {
        for (number, (pause_ms, bytes)) in self.plan.pieces.iter().enumerate() {
            tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
            let sent = piece(self.plan.number, number, *bytes);
            // The other side sends back before it has received everything, so both go on at once.
            let (mut reader, mut writer) = tokio::io::split(&mut stream);
            let mut received = vec![0; sent.len()];
            let both = async {
                let write = async {
                    writer.write_all(&sent).await?;
                    writer.flush().await
                };
                tokio::try_join!(write, reader.read_exact(&mut received)).map(drop)
            };
            match timeout(PATIENCE, both).await {
                Err(_) => return Err(Broken::Ended(format!("piece {number} does not come back"))),
                Ok(done) => done.map_err(ended("a piece"))?,
            }
            if received != sent {
                return Err(Broken::Mixed(format!("piece {number} comes back changed")));
            }
        }
        stream.shutdown().await.map_err(ended("the end"))?;
        let mut rest = Vec::new();
        match timeout(PATIENCE, stream.read_to_end(&mut rest)).await {
            Err(_) => Err(Broken::Ended("the end is not answered".to_owned())),
            Ok(_) if rest.is_empty() => Ok(()),
            Ok(_) => Err(Broken::Mixed(format!("{} bytes more than were sent", rest.len()))),
        }
    }

    fn judge(&self, begun: Moment, broken: Option<Broken>) {
        let at = self.timeline.now();
        let (rule, text) = match broken {
            None => return lock(&self.ledger).note(at, || format!("{} ends", self.name())),
            Some(Broken::Ended(text)) => (Rule::Errors, text),
            Some(Broken::Mixed(text)) => (Rule::Integrity, text),
        };
        let mut ledger = lock(&self.ledger);
        if rule == Rule::Errors && ledger.explains_end_of_tunnel(begun, at) {
            return ledger.note(at, || format!("{} is broken: {text}", self.name()));
        }
        ledger.violate(rule, at, format!("{}, begun at {begun}: {text}", self.name()));
    }

    fn name(&self) -> String {
        format!("the tunnel of visitor {}", self.plan.number)
    }
}

/// Tells in which step a connection has failed.
fn ended(step: &'static str) -> impl Fn(std::io::Error) -> Broken {
    move |error| Broken::Ended(format!("{step}: {error}"))
}

/// Reads the head of the response that switches protocols.
async fn read_switch<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(), Broken> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        // Byte by byte, because what follows belongs to the other protocol.
        match timeout(PATIENCE, stream.read_u8()).await {
            Ok(Ok(octet)) => head.push(octet),
            Ok(Err(error)) => return Err(Broken::Ended(format!("the switch: {error}"))),
            Err(_) => return Err(Broken::Ended("the switch is not answered".to_owned())),
        }
    }
    if head.starts_with(b"HTTP/1.1 101 ") {
        return Ok(());
    }
    let line = head.split(|octet| *octet == b'\r').next().unwrap_or_default();
    Err(Broken::Ended(format!("the switch is refused: {}", line.escape_ascii())))
}

/// The bytes of a piece. Each tunnel and piece has others.
fn piece(tunnel: u64, number: usize, bytes: usize) -> Vec<u8> {
    let mut random = Random::fork(tunnel, "piece", number as u64);
    let mut octets = Vec::with_capacity(bytes + 8);
    while octets.len() < bytes {
        octets.extend_from_slice(&random.number().to_le_bytes());
    }
    octets.truncate(bytes);
    octets
}

/// The origin's side: switches protocols, and sends back what it receives until the peer ends.
pub(crate) async fn echo<S>(connection: &mut Connection<S>) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    connection.send(head).await?;
    loop {
        while connection.input.is_empty() {
            connection.receive().await?;
        }
        let octets = connection.input.split();
        connection.send(&octets).await?;
    }
}
