//! A visitor that requests one page after the other on a kept connection, and notes when the first
//! and the last byte of the content have arrived.
//!
//! Invariant: a response is complete, or the result is an error.

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use clock::{Clock, Monotonic};
use h1::client::{Exchange, ResponseEvent, Terms};
use message::{Method, Status, names};
use platform::SystemClock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of each wait for the server.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A response and its times since the request.
pub(super) struct Received {
    pub(super) content: Vec<u8>,
    /// The content coding; empty for identity.
    pub(super) coding: String,
    pub(super) first: Duration,
    pub(super) whole: Duration,
}

/// A visitor.
pub(super) struct EsiVisitor {
    stream: TcpStream,
    clock: SystemClock,
}

impl EsiVisitor {
    /// Connects to a server.
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, clock: SystemClock::new() })
    }

    /// Requests a page. `coding` is the only accepted coding; the empty one is identity.
    pub(super) fn get(&mut self, target: &str, coding: &str) -> Result<Received> {
        let accepted = if coding.is_empty() { "identity" } else { coding };
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: example.test\r\nAccept-Encoding: {accepted}\r\n\r\n");
        let begun = self.clock.monotonic();
        self.stream.write_all(request.as_bytes())?;
        self.read(begun).with_context(|| format!("no response to {target}"))
    }

    fn read(&mut self, begun: Monotonic) -> Result<Received> {
        let mut exchange = Exchange::new(&Method::Get, Terms::TOLERANT);
        let (mut input, mut piece) = (BytesMut::new(), vec![0; 64 * 1024]);
        let (mut content, mut coding, mut first) = (Vec::new(), String::new(), None);
        loop {
            match exchange.next(&mut input)? {
                Some(ResponseEvent::Informational(_)) => {}
                Some(ResponseEvent::Head(response)) => {
                    let head = response.head;
                    ensure!(head.status == Status::OK, "status {}", head.status.code());
                    let stated = head.fields.first(names::CONTENT_ENCODING);
                    coding = stated.map_or_else(String::new, |value| String::from_utf8_lossy(value).into());
                }
                Some(ResponseEvent::Data(octets)) => {
                    first.get_or_insert_with(|| self.clock.monotonic().since(begun));
                    content.extend_from_slice(&octets);
                }
                Some(ResponseEvent::End(_)) => break,
                None => match self.stream.read(&mut piece)? {
                    0 => anyhow::bail!("the connection was closed"),
                    bytes => input.extend_from_slice(piece.get(..bytes).unwrap_or_default()),
                },
            }
        }
        let whole = self.clock.monotonic().since(begun);
        Ok(Received { content, coding, first: first.unwrap_or(whole), whole })
    }
}
