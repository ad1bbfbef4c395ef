//! A connection from its acceptance to its first request: the header of a proxy, and the TLS
//! handshake.
//!
//! Invariant: no byte of the client is read before the header of its proxy ended. A connection that
//! fails here costs its client only, within a time limit, and is counted.

use crate::control::counters::Metric;
use crate::listeners::HTTP_2;
use crate::request::arrival::Arrival;
use crate::request::client::ClientConnection;
use crate::request::refusal::Refusal;
use crate::shared::{ConnectionSlot, Shared};
use crate::worker::refuse;
use bytes::BytesMut;
use net::{HandshakeError, Peer, Stream, TlsServer};
use proxy_protocol::{Header, Parsed};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncReadExt as _;

/// The first bytes of a client that speaks HTTP/2 (RFC 9113 section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection ready for its requests.
pub(crate) struct Prepared {
    pub(crate) stream: Stream,
    /// Bytes that were already read from it.
    pub(crate) early: BytesMut,
    pub(crate) arrival: Arrival,
    pub(crate) is_http2: bool,
}

/// Prepares an accepted connection for its requests. `None`: it is closed.
pub(crate) async fn prepare(
    shared: &Arc<Shared>,
    index: usize,
    stream: Stream,
    arrival: Arrival,
    slot: &mut ConnectionSlot,
) -> Option<Prepared> {
    let (mut stream, mut arrival) = (stream, arrival);
    let listener = shared.plan.listeners.get(arrival.listener);
    // Both are boxed, because most connections need no memory for them.
    if listener.is_some_and(|listener| listener.expects_header(arrival.peer.ip())) {
        let header = Box::pin(read_header(shared, index, &mut stream)).await?;
        arrival = introduced(arrival, header);
        if let Err(refusal) = slot.is_for(arrival.peer) {
            shared.cells(index).count(refusal.metric());
            return None;
        }
    }
    if let Some(tls) = shared.listeners.tls(arrival.listener) {
        stream = Box::pin(secure(shared, index, tls, stream, arrival)).await?;
        (arrival.is_secured, arrival.tls) = (true, stream.tls_version());
        let is_http2 = stream.protocol() == Some(HTTP_2);
        return Some(Prepared { stream, early: BytesMut::new(), arrival, is_http2 });
    }
    if listener.is_some_and(|listener| listener.http2) {
        return Box::pin(recognise(shared, index, stream, arrival)).await;
    }
    Some(Prepared { stream, early: BytesMut::new(), arrival, is_http2: false })
}

/// Reads the first bytes of a client without TLS, until they show its protocol.
async fn recognise(
    shared: &Arc<Shared>,
    index: usize,
    mut stream: Stream,
    arrival: Arrival,
) -> Option<Prepared> {
    let mut early = BytesMut::new();
    let reading = tokio::time::timeout(shared.limits.idle_timeout, read_preface(&mut stream, &mut early));
    match reading.await {
        Ok(Ok(is_http2)) => return Some(Prepared { stream, early, arrival, is_http2 }),
        Ok(Err(_)) => {}
        Err(_) if early.is_empty() => {}
        Err(_) => shared.cells(index).count(Metric::VisitorTimeouts),
    }
    None
}

/// Reads until the bytes are the preface of HTTP/2, or differ from it.
async fn read_preface(stream: &mut Stream, early: &mut BytesMut) -> io::Result<bool> {
    loop {
        let compared = early.len().min(HTTP2_PREFACE.len());
        if early.get(..compared) != HTTP2_PREFACE.get(..compared) {
            return Ok(false);
        }
        if compared == HTTP2_PREFACE.len() {
            return Ok(true);
        }
        early.reserve(HTTP2_PREFACE.len());
        if stream.read_buf(early).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The client as the header of its proxy states it.
fn introduced(arrival: Arrival, header: Header) -> Arrival {
    match header {
        Header::Local => arrival,
        Header::Unknown => Arrival { peer: Peer::Unknown, ..arrival },
        Header::Client { address, is_secured } => Arrival {
            peer: Peer::from(address),
            is_secured: is_secured.unwrap_or(arrival.is_secured),
            ..arrival
        },
    }
}

/// Reads the header of a proxy. `None`: there is none, or it did not arrive in time.
async fn read_header(shared: &Arc<Shared>, index: usize, stream: &mut Stream) -> Option<Header> {
    let reading = tokio::time::timeout(shared.limits.request_head_timeout, header(stream));
    let failed = match reading.await {
        Ok(Ok(header)) => return Some(header),
        Ok(Err(_)) => Metric::ProxyHeadersFailed,
        Err(_) => Metric::VisitorTimeouts,
    };
    shared.cells(index).count(failed);
    None
}

async fn header(stream: &mut Stream) -> io::Result<Header> {
    let mut octets = Vec::new();
    loop {
        match proxy_protocol::parse(&octets).map_err(io::Error::other)? {
            Parsed::Header(header) => return Ok(header),
            Parsed::More(bytes) => {
                let begun = octets.len();
                octets.resize(begun + bytes, 0);
                stream.read_exact(octets.get_mut(begun..).unwrap_or_default()).await?;
            }
        }
    }
}

/// Secures a connection. `None`: that failed, and the client was told if it can be.
pub(crate) async fn secure(
    shared: &Shared,
    index: usize,
    tls: &TlsServer,
    stream: Stream,
    arrival: Arrival,
) -> Option<Stream> {
    let cells = shared.cells(index);
    match tokio::time::timeout(shared.limits.tls_handshake_timeout, tls.secure(stream)).await {
        Ok(Ok(secured)) => {
            cells.count(Metric::TlsHandshakes);
            return Some(secured);
        }
        Ok(Err(HandshakeError::NotTls(stream))) => {
            cells.count(Metric::TlsHandshakesFailed);
            let client = ClientConnection::new(*stream, arrival, Arc::clone(&shared.limits));
            // Boxed, so that a handshake needs no memory for it.
            Box::pin(refuse(shared, index, client, &Refusal::plain_http())).await;
        }
        Ok(Err(HandshakeError::Refused(reason))) => {
            tracing::debug!("a TLS handshake with {} failed: {reason}", arrival.peer);
            cells.count(Metric::TlsHandshakesFailed);
        }
        Ok(Err(HandshakeError::Validated)) => cells.count(Metric::TlsHandshakes),
        Ok(Err(HandshakeError::Broken)) => cells.count(Metric::TlsHandshakesFailed),
        Err(_) => cells.count(Metric::TlsHandshakeTimeouts),
    }
    None
}
